//! Status of disruption budgets: how many of its pods are healthy, how many should be, and how many may be evicted.
//!
//! Owns which budgets have to be counted again after a change of a pod, of what controls it, or of the budget, and when
//! an evicted pod that did not go counts again. What a status says is decided in `orch_rules::disruption`, from one
//! state: an eviction, which writes pod and budget in one transaction, is in it wholly or not at all.
//!
//! Invariant: a status is written only over the version of the budget that it was computed from. An eviction in between
//! makes the write fail, and the budget is counted again.

mod replicas;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use orch_raft::object::SharedObject;
use orch_raft::{Change, State, Store};
use orch_rules::Action;
use orch_rules::disruption::{
    Count, Observed, failed_status, observed_status, recheck_time, scale_is_needed,
};
use orch_rules::validate::selector::selects_sorted;
use orch_rules::validate::tree::{Tree, child_mut, same, set, sorted_entries};
use orch_schema::json;
use orch_schema::value::Value;

use super::FAILED;
use super::client::{Client, Place, any_changed, for_each, is_overtaken};
use crate::error::ApiError;
use crate::follow::{Derived, Follower};
use crate::registry::Registry;

/// Storage resource of budgets.
const BUDGETS: &str = "poddisruptionbudgets.policy";
/// Storage resource of pods.
const PODS: &str = "pods";

/// Wait after a change: those that come together are taken in together. A drained node waits for the next disruption.
const WAIT: Duration = Duration::from_millis(50);

/// Writes under way at a time: enough to share a sync to disk, few beside the clients' writes.
const CONCURRENT_WRITES_MAX: usize = 32;

/// A budget, as far as it decides which changes concern it.
#[derive(Clone, Debug)]
struct Budget {
    selector: Value,
    needs_scale: bool,
}

/// The budgets of all namespaces, and those that have to be counted.
#[derive(Debug)]
struct Budgets {
    sources: Vec<Arc<str>>,
    by_namespace: BTreeMap<Box<str>, BTreeMap<Arc<str>, Budget>>,
    /// Paths of budgets that have to be counted.
    due: BTreeSet<Arc<str>>,
}

impl Budgets {
    fn new(registry: &Registry) -> Self {
        let mut sources: BTreeSet<Arc<str>> = registry
            .resources()
            .filter(|resource| replicas::scale_paths(resource).is_some())
            .map(|resource| resource.storage.clone())
            .collect();
        sources.extend([BUDGETS.into(), PODS.into()]);
        Budgets {
            sources: sources.into_iter().collect(),
            by_namespace: BTreeMap::new(),
            due: BTreeSet::new(),
        }
    }

    fn set(&mut self, path: &Arc<str>, object: Option<&SharedObject>) {
        let namespace = namespace_of(path);
        let parsed = object.and_then(|object| serde_json::from_slice::<Value>(&object.json).ok());
        let Some(budget) = parsed else {
            self.due.remove(path);
            if let Some(budgets) = self.by_namespace.get_mut(namespace) {
                budgets.remove(path);
                if budgets.is_empty() {
                    self.by_namespace.remove(namespace);
                }
            }
            return;
        };
        let needs_scale = scale_is_needed(&budget);
        let budget = Budget { selector: budget.at("spec").at("selector").clone(), needs_scale };
        self.by_namespace.entry(namespace.into()).or_default().insert(path.clone(), budget);
        self.due.insert(path.clone());
    }

    /// Marks the budgets of the namespace of `path` that `concerns` is true of.
    fn mark(&mut self, path: &str, concerns: impl Fn(&Budget) -> bool) {
        let Some(budgets) = self.by_namespace.get(namespace_of(path)) else { return };
        let concerned = budgets.iter().filter(|(_, budget)| concerns(budget));
        self.due.extend(concerned.map(|(path, _)| path.clone()));
    }
}

impl Derived for Budgets {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        self.sources.iter()
    }

    fn change(&mut self, source: &Arc<str>, change: &Change) {
        match &**source {
            BUDGETS => self.set(&change.path, change.new.as_ref()),
            PODS => {
                let selects = |budget: &Budget, pod: Option<&SharedObject>| {
                    pod.is_some_and(|pod| selects_sorted(&budget.selector, &pod.index.labels))
                };
                self.mark(&change.path, |budget| {
                    selects(budget, change.new.as_ref()) || selects(budget, change.old.as_ref())
                });
            }
            _ => self.mark(&change.path, |budget| budget.needs_scale),
        }
    }

    fn rebuild(&mut self, state: &State) {
        self.by_namespace.clear();
        self.due.clear();
        for (path, object) in state.collection(BUDGETS).range_from("") {
            self.set(path, Some(object));
        }
    }
}

/// Keeps the status of budgets up to date. Completes only with an error.
pub(super) async fn run<S: Store>(client: &Client<S>) -> Result<Infallible, ApiError> {
    let (store, budgets) = (client.store(), Budgets::new(client.registry()));
    let mut changed: Vec<_> = budgets.sources.iter().map(|source| store.subscribe(source)).collect();
    let mut applied = client.newest().await?;
    let mut follower = Follower::new(budgets, &applied);
    // Seconds at which a budget has to be counted again without a change.
    let mut rechecks: BTreeMap<Arc<str>, i64> = BTreeMap::new();
    loop {
        let now = seconds(client.now_ms());
        let mut due = std::mem::take(&mut follower.value_mut().due);
        due.extend(rechecks.iter().filter(|(_, time)| **time <= now).map(|(path, _)| path.clone()));
        let is_idle = due.is_empty();
        let state = &*applied.state;
        let count = |path: Arc<str>| async move {
            let counted = count_budget(client, state, &path).await;
            (path, counted)
        };
        for (path, counted) in for_each(due, CONCURRENT_WRITES_MAX, count).await {
            match counted? {
                Some(time) => rechecks.insert(path, time),
                None => rechecks.remove(&path),
            };
        }
        if is_idle {
            let wait = rechecks.values().min().map(|time| time.saturating_sub(now).max(1).unsigned_abs());
            wait_for_change(store, &mut changed, wait).await;
        }
        store.sleep(WAIT).await;
        applied = client.newest().await?;
        follower.advance(&applied);
    }
}

/// Waits for a change, or for `seconds` if given.
async fn wait_for_change<S: Store>(store: &S, changed: &mut [orch_raft::Subscription], seconds: Option<u64>) {
    let Some(seconds) = seconds else { return any_changed(changed).await };
    let sleep = Box::pin(store.sleep(Duration::from_secs(seconds)));
    match select(Box::pin(any_changed(changed)), sleep).await {
        Either::Left(_) | Either::Right(_) => {}
    }
}

/// Writes the status of the budget at `path` if it is not right. Returns the seconds since 1970 at which it has to be
/// counted again even if nothing changes.
async fn count_budget<S: Store>(
    client: &Client<S>,
    state: &State,
    path: &str,
) -> Result<Option<i64>, ApiError> {
    let Some(budget) = state.collection(BUDGETS).get(path).cloned() else { return Ok(None) };
    let Ok(budget) = serde_json::from_slice::<Value>(&budget.json) else { return Ok(None) };
    let status = status_of(client.registry(), state, path, &budget, &client.now_text());
    let recheck = recheck_time(&status);
    if same(budget.at("status"), &status) {
        return Ok(recheck);
    }
    let Some(resource) = client.stored_resource(BUDGETS) else { return Ok(None) };
    let patch = status_patch(&budget, status);
    match client.patch(Place { resource: &resource, path }, Action::Status, &patch).await {
        // What changed meanwhile is taken in with the next turn.
        Err(error) if is_overtaken(&error) => Ok(recheck),
        // A budget that its own rules or an admission plugin keep from being written holds up no other.
        Err(error @ (ApiError::Invalid { .. } | ApiError::Forbidden { .. })) => {
            if let Some(left_out) = FAILED.pass_at(client.moment()) {
                tracing::warn!(%error, path, left_out, "the status of a disruption budget cannot be written");
            }
            Ok(recheck)
        }
        Err(error) => Err(error),
        Ok(()) => Ok(recheck),
    }
}

/// The status of `budget` in `state`.
fn status_of(registry: &Registry, state: &State, path: &str, budget: &Value, now: &str) -> Value {
    let (namespace, selector) = (namespace_of(path), budget.at("spec").at("selector"));
    let pods = state.collection(PODS);
    let selected = pods.within(namespace, "").filter(|(_, pod)| selects_sorted(selector, &pod.index.labels));
    let pods: Vec<Value> = selected.filter_map(|(_, pod)| serde_json::from_slice(&pod.json).ok()).collect();
    let count = match scale_is_needed(budget) {
        true => match replicas::controlling(registry, state, namespace, &pods) {
            Ok(replicas) => Count::Scale(replicas),
            Err(reason) => return failed_status(budget, &reason, now),
        },
        false => Count::Pods,
    };
    observed_status(&Observed { budget, pods: &pods, count, now })
}

/// The merge patch that gives `budget` the status, if it is still the version that was counted.
fn status_patch(budget: &Value, mut status: Value) -> Value {
    let (metadata, before) = (budget.at("metadata"), budget.at("status").at("disruptedPods"));
    for (pod, _) in sorted_entries(before) {
        let disrupted = child_mut(&mut status, "disruptedPods");
        if !disrupted.has(pod) {
            set(disrupted, pod, Value::Null);
        }
    }
    let version = json!({"uid": metadata.text("uid"), "resourceVersion": metadata.text("resourceVersion")});
    json!({"metadata": version, "status": status})
}

fn namespace_of(path: &str) -> &str {
    path.split_once('/').map_or("", |(namespace, _)| namespace)
}

fn seconds(millis: u64) -> i64 {
    i64::try_from(millis / 1000).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
