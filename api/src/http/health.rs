//! `/livez`, `/readyz` and `/healthz`: plain text, without credentials, for probes.
//!
//! Owns the checks and their report. A node is live while it answers. It is ready while it reaches a quorum, its state
//! agrees with the other members', and it is not shutting down.

use std::time::Duration;

use axum::body::Body;
use http::Response;
use orch_raft::Store;
use tokio_util::sync::CancellationToken;

use super::respond;
use crate::controllers::bootstrap::has_roles;
use crate::request::Query;

/// Longest wait for a quorum before this node reports itself unready.
const BARRIER_WAIT: Duration = Duration::from_secs(2);

/// Name of a check, and whether it passes.
type Check = (&'static str, bool);

/// A check of readiness that the node adds: its name, and whether it passes now.
pub(super) type AddedCheck = (&'static str, Box<dyn Fn() -> bool + Send + Sync>);

/// The response for a health path, or for a single check below it (`/readyz/store`). `None` for any other path. `path`
/// has no empty segments.
pub(super) async fn answer<S: Store>(
    path: &str,
    query: &Query,
    store: &S,
    stopping: &CancellationToken,
    added: &[AddedCheck],
) -> Option<Response<Body>> {
    let path = path.strip_prefix('/')?;
    let (endpoint, only) = match path.split_once('/') {
        Some((endpoint, check)) => (endpoint, Some(check)),
        None => (path, None),
    };
    if !matches!(endpoint, "livez" | "readyz" | "healthz") {
        return None;
    }
    let mut checks: Vec<Check> = vec![("ping", true)];
    if endpoint != "livez" {
        checks.push(("store", reaches_quorum(store).await));
        checks.push(("agreement", store.may_serve().is_ok()));
        checks.push(("poststarthook/rbac/bootstrap-roles", has_roles(&store.state())));
        checks.extend(added.iter().map(|(name, passes)| (*name, passes())));
        checks.push(("shutdown", !stopping.is_cancelled()));
    }
    // Not a check: a node that refuses growth must stay in service, because deletions go through it.
    let remark = match endpoint != "livez" && store.is_short_of_space() {
        true => "[+]space low: what would add to the state is refused\n",
        false => "",
    };
    if let Some(only) = only {
        checks.retain(|(name, _)| *name == only);
    }
    let excluded: Vec<&str> = query.values("exclude").collect();
    let report = remark.to_owned() + &report(endpoint, &checks, &excluded);
    let fails = checks.iter().any(|(name, holds)| !holds && !excluded.contains(name));
    let text = match (checks.is_empty(), fails) {
        (true, _) => return Some(plain(404, format!("{endpoint} has no such check\n"))),
        (_, true) => return Some(plain(500, report)),
        _ if query.flag("verbose") || query.value("verbose").is_some() => report,
        _ => "ok".to_owned(),
    };
    Some(plain(200, text))
}

async fn reaches_quorum<S: Store>(store: &S) -> bool {
    let barrier = std::pin::pin!(store.barrier());
    let deadline = std::pin::pin!(store.sleep(BARRIER_WAIT));
    match futures::future::select(barrier, deadline).await {
        futures::future::Either::Left((reached, _)) => reached.is_ok(),
        futures::future::Either::Right(_) => false,
    }
}

/// One line for each check, then the verdict, in the reference's words.
fn report(endpoint: &str, checks: &[Check], excluded: &[&str]) -> String {
    let line = |(name, holds): &Check| match (excluded.contains(name), holds) {
        (true, _) => format!("[+]{name} excluded: ok\n"),
        (_, true) => format!("[+]{name} ok\n"),
        (_, false) => format!("[-]{name} failed: reason withheld\n"),
    };
    let lines: String = checks.iter().map(line).collect();
    let fails = checks.iter().any(|(name, holds)| !holds && !excluded.contains(name));
    format!("{lines}{endpoint} check {}\n", if fails { "failed" } else { "passed" })
}

fn plain(code: u16, text: String) -> Response<Body> {
    respond::bytes(code, "text/plain; charset=utf-8", text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_each_check_and_ends_with_the_verdict() {
        let checks = [("ping", true), ("store", false)];
        let told = "[+]ping ok\n[-]store failed: reason withheld\nreadyz check failed\n";
        assert_eq!(report("readyz", &checks, &[]), told);
        let told = "[+]ping ok\n[+]store excluded: ok\nreadyz check passed\n";
        assert_eq!(report("readyz", &checks, &["store"]), told);
    }
}
