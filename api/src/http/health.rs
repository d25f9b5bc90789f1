//! `/livez`, `/readyz` and `/healthz`: plain text, without credentials, for probes.
//!
//! Owns the checks and their report. A node is live while it answers and can write its log. It is ready while it reaches a
//! quorum, its state agrees with the other members', the cluster has had its first objects, and it is not shutting down.
//! `/healthz` has the checks of `/readyz`.
//!
//! Names of the reference stand beside the own ones where their meaning is true here: `etcd` and `etcd-readiness` are the
//! store. A name without a meaning is left out, so that a probe for it fails and is noticed (docs/operations.md has the table).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use http::Response;
use http::header::X_CONTENT_TYPE_OPTIONS;
use orch_proto::Brand;
use orch_raft::{State, Store};
use orch_schema::excerpt::quoted;
use tokio_util::sync::CancellationToken;

use super::respond;
use super::slis::Slis;
use crate::controllers::bootstrap;
use crate::request::Query;

/// Longest wait for a quorum before this node reports itself unready.
const BARRIER_WAIT: Duration = Duration::from_secs(2);

/// The endpoints of health.
const ENDPOINTS: [&str; 3] = ["healthz", "livez", "readyz"];

/// Name of a check, and whether it passes; `None`: it is excluded, and was not carried out.
type Outcome = (&'static str, Option<bool>);

/// A check that the node adds; it is called for each probe and must not wait.
pub(super) type Passes = Box<dyn Fn() -> bool + Send + Sync>;

/// Where an added check belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every endpoint: a restart mends what it finds.
    Liveness,
    /// Readiness alone.
    Readiness,
}

/// The name of a hook of the reference, and whether the first objects that it stands for are there.
type Hook = (&'static str, fn(&Brand, &State) -> bool);

/// The hooks of the reference that have a counterpart.
const HOOKS: [Hook; 4] = [
    ("poststarthook/start-system-namespaces-controller", bootstrap::has_namespaces),
    ("poststarthook/rbac/bootstrap-roles", |_, state| bootstrap::has_roles(state)),
    ("poststarthook/scheduling/bootstrap-system-priority-classes", bootstrap::has_priority_classes),
    ("poststarthook/priority-and-fairness-config-producer", |_, state| bootstrap::has_flow_control(state)),
];

/// The checks of one node.
#[derive(Default)]
pub(super) struct Checks {
    added: Vec<(&'static str, Scope, Passes)>,
    /// The hooks that this node has found done. They stay so, as in the reference, whatever is deleted later.
    done: [AtomicBool; HOOKS.len()],
    /// The results of requests for whole endpoints.
    pub(super) slis: Slis,
}

/// A check of an endpoint.
enum Check<'a> {
    /// Passes where the node answers.
    Answers,
    /// The store reaches a quorum.
    Store,
    Agreement,
    Hook(usize),
    Added(&'a Passes),
    Running,
}

impl Check<'_> {
    /// The reason of its failure, for those who have the right to its own path.
    fn fault(&self) -> &'static str {
        match self {
            Check::Answers => "the node does not answer",
            Check::Store => "no quorum is reached",
            Check::Agreement => "the state of this member differs from that of the others",
            Check::Hook(_) => "not finished: the cluster has not had its first objects yet",
            Check::Added(_) => "the check fails: the log has its reason",
            Check::Running => "process is shutting down",
        }
    }
}

impl Checks {
    /// Adds the check `name`.
    pub(super) fn add(&mut self, name: &'static str, scope: Scope, passes: Passes) {
        self.added.push((name, scope, passes));
    }

    /// The checks of `endpoint` (`readyz`) in their order.
    fn of(&self, endpoint: &str) -> Vec<(&'static str, Check<'_>)> {
        let added = |wanted: Scope| {
            let of_scope = self.added.iter().filter(move |(_, scope, _)| *scope == wanted);
            of_scope.map(|(name, _, passes)| (*name, Check::Added(passes)))
        };
        let mut checks = vec![("ping", Check::Answers)];
        checks.extend(added(Scope::Liveness));
        if endpoint == "livez" {
            return checks;
        }
        checks.extend([("store", Check::Store), ("etcd", Check::Store)]);
        if endpoint == "readyz" {
            checks.push(("etcd-readiness", Check::Store));
        }
        checks.push(("agreement", Check::Agreement));
        checks.extend(HOOKS.iter().enumerate().map(|(at, (name, _))| (*name, Check::Hook(at))));
        checks.extend(added(Scope::Readiness));
        checks.push(("shutdown", Check::Running));
        checks
    }

    /// The paths of all endpoints and of their checks.
    pub(super) fn paths(&self) -> impl Iterator<Item = String> {
        ENDPOINTS.into_iter().flat_map(move |endpoint| {
            let checks = self.of(endpoint).into_iter().map(move |(name, _)| format!("/{endpoint}/{name}"));
            std::iter::once(format!("/{endpoint}")).chain(checks)
        })
    }

    fn is_done(&self, hook: usize, brand: &Brand, state: &State) -> bool {
        let done = &self.done[hook];
        if !done.load(Ordering::Relaxed) && HOOKS[hook].1(brand, state) {
            done.store(true, Ordering::Relaxed);
        }
        done.load(Ordering::Relaxed)
    }
}

/// The parts of a node that the checks look at.
pub(super) struct Node<'a, S> {
    pub(super) store: &'a S,
    pub(super) brand: &'static Brand,
    pub(super) stopping: &'a CancellationToken,
    pub(super) checks: &'a Checks,
}

/// The response for a health path, or for a single check below it (`/readyz/store`), which knows neither `exclude` nor `verbose`. `None` for
/// any other path. `path` has no empty segments.
pub(super) async fn answer<S: Store>(path: &str, query: &Query, node: Node<'_, S>) -> Option<Response<Body>> {
    let path = path.strip_prefix('/')?;
    let (endpoint, only) = match path.split_once('/') {
        Some((endpoint, check)) => (endpoint, Some(check)),
        None => (path, None),
    };
    // few: three endpoints.
    let endpoint = ENDPOINTS.into_iter().find(|known| *known == endpoint)?;
    let checks = node.checks.of(endpoint);
    if let Some(only) = only {
        let Some((_, check)) = checks.into_iter().find(|(name, _)| *name == only) else {
            return Some(plain(404, format!("{endpoint} has no such check\n")));
        };
        return Some(match node.passes(&check, &mut None).await {
            true => plain(200, "ok".to_owned()),
            false => plain(500, format!("internal server error: {}\n", check.fault())),
        });
    }
    let mut excluded: BTreeSet<&str> = query.values("exclude").collect();
    let mut outcomes = Vec::with_capacity(checks.len());
    let mut quorum = None;
    for (name, check) in checks {
        let passes = match excluded.remove(name) {
            true => None,
            false => Some(node.passes(&check, &mut quorum).await),
        };
        if let Some(passes) = passes {
            node.checks.slis.observe(name, endpoint, passes);
        }
        outcomes.push((name, passes));
    }
    // Not a check: a node that refuses growth must stay in service, because deletions go through it.
    let remark = match endpoint != "livez" && node.store.is_short_of_space() {
        true => "[+]space low: what would add to the state is refused\n",
        false => "",
    };
    let report = remark.to_owned() + &report(endpoint, &outcomes, &excluded);
    let text = match outcomes.iter().any(|(_, passes)| *passes == Some(false)) {
        true => return Some(plain(500, report)),
        false if query.flag("verbose") || query.value("verbose").is_some() => report,
        false => "ok".to_owned(),
    };
    Some(plain(200, text))
}

impl<S: Store> Node<'_, S> {
    /// Carries out a check. `quorum` remembers whether a quorum was reached: several names ask for it.
    async fn passes(&self, check: &Check<'_>, quorum: &mut Option<bool>) -> bool {
        match check {
            Check::Answers => true,
            Check::Store => match *quorum {
                Some(reached) => reached,
                None => *quorum.insert(reaches_quorum(self.store).await),
            },
            Check::Agreement => self.store.may_serve().is_ok(),
            Check::Hook(hook) => self.checks.is_done(*hook, self.brand, &self.store.state()),
            Check::Added(passes) => passes(),
            Check::Running => !self.stopping.is_cancelled(),
        }
    }
}

async fn reaches_quorum<S: Store>(store: &S) -> bool {
    let barrier = std::pin::pin!(store.barrier());
    let deadline = std::pin::pin!(store.sleep(BARRIER_WAIT));
    match futures::future::select(barrier, deadline).await {
        futures::future::Either::Left((reached, _)) => reached.is_ok(),
        futures::future::Either::Right(_) => false,
    }
}

/// The report: a line for each check, a line for the `unknown` names that were to be excluded, then the verdict, in the words of
/// the reference.
fn report(endpoint: &str, outcomes: &[Outcome], unknown: &BTreeSet<&str>) -> String {
    let line = |(name, passes): &Outcome| match passes {
        None => format!("[+]{name} excluded: ok\n"),
        Some(true) => format!("[+]{name} ok\n"),
        Some(false) => format!("[-]{name} failed: reason withheld\n"),
    };
    let mut lines: String = outcomes.iter().map(line).collect();
    if !unknown.is_empty() {
        let names: Vec<String> = unknown.iter().map(|name| quoted(name)).collect();
        let names = names.join(",");
        lines += &format!("warn: some health checks cannot be excluded: no matches for {names}\n");
    }
    let fails = outcomes.iter().any(|(_, passes)| *passes == Some(false));
    format!("{lines}{endpoint} check {}\n", if fails { "failed" } else { "passed" })
}

fn plain(code: u16, text: String) -> Response<Body> {
    let mut response = respond::bytes(code, "text/plain; charset=utf-8", text.into());
    respond::put(response.headers_mut(), X_CONTENT_TYPE_OPTIONS, "nosniff");
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_each_check_and_ends_with_the_verdict() {
        let none = BTreeSet::new();
        let failed = [("ping", Some(true)), ("store", Some(false))];
        let told = "[+]ping ok\n[-]store failed: reason withheld\nreadyz check failed\n";
        assert_eq!(report("readyz", &failed, &none), told);
        let excluded = [("ping", Some(true)), ("store", None)];
        let told = "[+]ping ok\n[+]store excluded: ok\nreadyz check passed\n";
        assert_eq!(report("readyz", &excluded, &none), told);
        let told = "[+]ping ok\n[+]store excluded: ok\n\
            warn: some health checks cannot be excluded: no matches for \"a\",\"b\\n\"\nlivez check passed\n";
        assert_eq!(report("livez", &excluded, &BTreeSet::from(["b\n", "a"])), told);
    }
}
