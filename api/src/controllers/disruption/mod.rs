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

use orch_raft::object::SharedObject;
use orch_raft::{Change, State, Store};
use orch_rules::Action;
use orch_rules::disruption::{
    Count, Observed, failed_status, observed_status, recheck_time, scale_is_needed,
};
use orch_rules::selector::LabelSelector;
use orch_rules::validate::tree::{Tree, child_mut, set, sorted_entries};
use orch_schema::json;
use orch_schema::value::Value;

use super::FAILED;
use super::client::{Client, Place, for_each, is_overtaken, let_others_run};
use super::meaning::means_same;
use super::turns::changed_within;
use crate::error::ApiError;
use crate::follow::{Derived, Follower};
use crate::registry::Registry;
use crate::selector::{SelectorRoom, StoredLabels};

/// Storage resource of budgets.
const BUDGETS: &str = "poddisruptionbudgets.policy";
/// Storage resource of pods.
const PODS: &str = "pods";

/// Wait after a change: those that come together are taken in together. A drained node waits for the next disruption.
const WAIT: Duration = Duration::from_millis(50);

/// Writes under way at a time: enough to share a sync to disk, few beside the clients' writes.
const CONCURRENT_WRITES_MAX: usize = 32;

/// Bytes of the budgets whose status is written at the same time, unless one is larger: a write of 64 KiB occupies the
/// loop's thread for half a millisecond, and no client's request runs there meanwhile.
const CONCURRENT_BYTES_MAX: usize = 256 << 10;

/// Steps before other tasks run, a few milliseconds: a pod of the namespace that is matched against a budget's selector is
/// one for each [`STEP_BYTES`] of the budget, and one that is read, too, is [`READ_STEPS`].
const STEPS_PER_TURN: usize = 4096;

/// Bytes of a budget, its selector among them, with which a pod is matched in one step.
const STEP_BYTES: usize = 1024;

/// Steps that reading a pod stands for.
const READ_STEPS: usize = 32;

/// Between two counts of a budget whose selector is not held: its pods change meanwhile without a count.
const NOT_HELD_RECHECK_S: i64 = 10;

/// Which pods a budget selects.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Selection {
    /// No pod.
    Nothing,
    /// Pods that the selector matches.
    By(LabelSelector),
    /// Pods that the stored object's selector matches. The parsed selector, of this many bytes, is not held for want of room.
    NotHeld(usize),
}

impl Selection {
    fn held_bytes(&self) -> usize {
        match self {
            Selection::By(selector) => selector.held_bytes(),
            Selection::Nothing | Selection::NotHeld(_) => 0,
        }
    }
}

/// A budget, as far as it is counted. A client's selector may have thousands of requirements, so it is parsed once.
#[derive(Clone, Debug)]
struct Budget {
    selection: Selection,
    needs_scale: bool,
    /// Version, numbers and status, without the selector.
    counted: Value,
    /// Bytes of the stored object.
    bytes: usize,
}

impl Budget {
    fn of(object: &SharedObject) -> Option<Budget> {
        let budget: Value = serde_json::from_slice(&object.json).ok()?;
        let (metadata, spec) = (budget.at("metadata"), budget.at("spec"));
        let counted = json!({
            "metadata": {
                "uid": metadata.text("uid"),
                "resourceVersion": metadata.text("resourceVersion"),
                "generation": metadata.at("generation").clone(),
            },
            "spec": {
                "minAvailable": spec.at("minAvailable").clone(),
                "maxUnavailable": spec.at("maxUnavailable").clone(),
            },
            "status": budget.at("status").clone(),
        });
        let selector = LabelSelector::of_field(spec.at("selector"));
        let selection = selector.map_or(Selection::Nothing, Selection::By);
        Some(Budget { selection, needs_scale: scale_is_needed(&budget), counted, bytes: object.json.len() })
    }

    /// Whether the status is `status`, which was counted for this generation of the budget.
    fn has_status(&self, status: &Value) -> bool {
        let generation = self.counted.at("metadata").int("generation");
        status.int("observedGeneration") == generation && means_same(self.counted.at("status"), status)
    }

    fn selects(&self, pod: &SharedObject) -> bool {
        match &self.selection {
            Selection::By(selector) => selector.matches(&StoredLabels::of(pod)),
            Selection::Nothing | Selection::NotHeld(_) => false,
        }
    }
}

/// The budgets of all namespaces, and those that have to be counted.
#[derive(Debug)]
struct Budgets {
    sources: Vec<Arc<str>>,
    by_namespace: BTreeMap<Box<str>, BTreeMap<Arc<str>, Budget>>,
    room: SelectorRoom,
    /// Paths of budgets that have to be counted.
    due: BTreeSet<Arc<str>>,
    /// The statuses that the loop has written and not yet seen: a change that is its own write needs no further count.
    written: BTreeMap<Arc<str>, Value>,
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
            room: SelectorRoom::default(),
            due: BTreeSet::new(),
            written: BTreeMap::new(),
        }
    }

    fn set(&mut self, path: &Arc<str>, object: Option<&SharedObject>) {
        let namespace = namespace_of(path);
        let Some(mut budget) = object.and_then(Budget::of) else {
            self.due.remove(path);
            self.written.remove(path);
            if let Some(budgets) = self.by_namespace.get_mut(namespace) {
                let bytes = budgets.remove(path).map_or(0, |old| old.selection.held_bytes());
                self.room.give_back(namespace, bytes);
                if budgets.is_empty() {
                    self.by_namespace.remove(namespace);
                }
            }
            return;
        };
        let is_own = self.written.remove(path).is_some_and(|status| budget.has_status(&status));
        let budgets = self.by_namespace.entry(namespace.into()).or_default();
        self.room.give_back(namespace, budgets.get(path).map_or(0, |old| old.selection.held_bytes()));
        let bytes = budget.selection.held_bytes();
        if !self.room.take(namespace, bytes) {
            budget.selection = Selection::NotHeld(bytes);
        }
        budgets.insert(path.clone(), budget);
        if !is_own {
            self.due.insert(path.clone());
        }
    }

    /// Holds those selectors of the budgets at `paths` that were not held and have room now.
    fn hold_again(&mut self, state: &State, paths: &BTreeSet<Arc<str>>) {
        for path in paths {
            let selection = self.find(path).map(|budget| &budget.selection);
            if let Some(Selection::NotHeld(bytes)) = selection
                && self.room.fits(namespace_of(path), *bytes)
            {
                self.set(path, state.collection(BUDGETS).get(path));
            }
        }
    }

    fn find(&self, path: &str) -> Option<&Budget> {
        self.by_namespace.get(namespace_of(path))?.get(path)
    }

    /// Marks the budgets of the namespace of `path` that `concerns` is true of.
    fn mark(&mut self, path: &str, concerns: impl Fn(&Budget) -> bool) {
        let Some(budgets) = self.by_namespace.get(namespace_of(path)) else { return };
        let concerned = budgets.iter().filter(|(_, budget)| concerns(budget));
        self.due.extend(concerned.map(|(path, _)| path.clone()));
    }

    /// The paths `due` in parts whose budgets may be written at the same time.
    fn turns(&self, due: BTreeSet<Arc<str>>) -> Vec<Vec<Arc<str>>> {
        let (mut turns, mut bytes) = (Vec::new(), 0);
        for path in due {
            let of_this = self.find(&path).map_or(0, |budget| budget.bytes);
            bytes += of_this;
            match turns.last_mut() {
                Some(turn) if bytes <= CONCURRENT_BYTES_MAX && Vec::len(turn) < CONCURRENT_WRITES_MAX => {
                    turn.push(path);
                }
                _ => {
                    turns.push(vec![path]);
                    bytes = of_this;
                }
            }
        }
        turns
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
                let pods = [&change.new, &change.old];
                // few: two.
                self.mark(&change.path, |budget| pods.into_iter().flatten().any(|pod| budget.selects(pod)));
            }
            _ => self.mark(&change.path, |budget| budget.needs_scale),
        }
    }

    fn rebuild(&mut self, state: &State) {
        self.by_namespace.clear();
        self.room.clear();
        self.due.clear();
        self.written.clear();
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
        follower.value_mut().hold_again(&applied.state, &due);
        for turn in follower.value().turns(due) {
            let written = count(client, &applied.state, follower.value(), turn, &mut rechecks).await?;
            follower.value_mut().written.extend(written);
        }
        if is_idle {
            let wait = rechecks.values().min().map(|time| time.saturating_sub(now).max(1).unsigned_abs());
            changed_within(store, &mut changed, wait.map(Duration::from_secs)).await;
        }
        store.sleep(WAIT).await;
        applied = client.newest().await?;
        follower.advance(&applied);
    }
}

/// Counts the budgets at the paths `turn`, and writes each status that is not right. Notes in `rechecks` the seconds since
/// 1970 at which a budget has to be counted again even if nothing changes. Other tasks run between two budgets. Returns the
/// statuses that were written.
async fn count<S: Store>(
    client: &Client<S>,
    state: &State,
    budgets: &Budgets,
    turn: Vec<Arc<str>>,
    rechecks: &mut BTreeMap<Arc<str>, i64>,
) -> Result<Vec<(Arc<str>, Value)>, ApiError> {
    let (mut wrong, mut written) = (Vec::new(), Vec::new());
    for path in turn {
        let_others_run(client.store()).await;
        let Some(budget) = budgets.find(&path) else {
            rechecks.remove(&path);
            continue;
        };
        let stored = match budget.selection {
            Selection::NotHeld(_) => state.collection(BUDGETS).get(&path).and_then(Budget::of),
            Selection::By(_) | Selection::Nothing => None,
        };
        let status = status_of(client, state, &path, stored.as_ref().unwrap_or(budget)).await;
        let when_not_held = stored.is_some().then(|| seconds(client.now_ms()) + NOT_HELD_RECHECK_S);
        match recheck_time(&status).into_iter().chain(when_not_held).min() {
            Some(time) => rechecks.insert(path.clone(), time),
            None => rechecks.remove(&path),
        };
        if !means_same(budget.counted.at("status"), &status) {
            written.push((path.clone(), status.clone()));
            wrong.push((path, status_patch(&budget.counted, status)));
        }
    }
    let write = |(path, patch): (Arc<str>, Value)| async move { write_status(client, &path, &patch).await };
    for_each(wrong, CONCURRENT_WRITES_MAX, write).await.into_iter().collect::<Result<(), ApiError>>()?;
    Ok(written)
}

async fn write_status<S: Store>(client: &Client<S>, path: &str, patch: &Value) -> Result<(), ApiError> {
    let Some(resource) = client.stored_resource(BUDGETS) else { return Ok(()) };
    match client.patch(Place { resource: &resource, path }, Action::Status, patch).await {
        // The change that overtook the write is taken in with the next turn.
        Err(error) if is_overtaken(&error) => Ok(()),
        // A budget that its own rules or an admission plugin keep from being written holds up no other.
        Err(error @ (ApiError::Invalid { .. } | ApiError::Forbidden { .. })) => {
            if let Some(left_out) = FAILED.pass_at(client.moment()) {
                tracing::warn!(%error, path, left_out, "the status of a disruption budget cannot be written");
            }
            Ok(())
        }
        written => written,
    }
}

/// The status of `budget` in `state`.
async fn status_of<S: Store>(client: &Client<S>, state: &State, path: &str, budget: &Budget) -> Value {
    let namespace = namespace_of(path);
    let collection = state.collection(PODS);
    let mut pods: Vec<Value> = Vec::new();
    let mut steps = 0;
    for (_, pod) in collection.within(namespace, "") {
        if steps >= STEPS_PER_TURN {
            let_others_run(client.store()).await;
            steps = 0;
        }
        steps += 1 + budget.bytes / STEP_BYTES;
        if budget.selects(pod) {
            pods.extend(serde_json::from_slice::<Value>(&pod.json).ok());
            steps += READ_STEPS;
        }
    }
    let (counted, now) = (&budget.counted, client.now_text());
    let count = match budget.needs_scale {
        true => match replicas::controlling(client.registry(), state, namespace, &pods) {
            Ok(replicas) => Count::Scale(replicas),
            Err(reason) => return failed_status(counted, &reason, &now),
        },
        false => Count::Pods,
    };
    observed_status(&Observed { budget: counted, pods: &pods, count, now: &now })
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
