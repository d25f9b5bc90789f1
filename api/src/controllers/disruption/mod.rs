//! Status of disruption budgets: how many of its pods are healthy, how many should be, and how many may be evicted.
//!
//! Owns which budgets have to be counted again after a change of a pod, of what controls it, or of the budget, and when
//! an evicted pod that did not go counts again. What a status says is decided in `orch_rules::disruption`, from one
//! state: an eviction, which writes pod and budget in one transaction, is in it wholly or not at all.
//!
//! Budgets are counted one at a time; the writes of the others go on, as many as have room, and one that takes long holds up
//! no other budget.
//!
//! Invariant: a status is written only over the version of the budget that it was computed from. An eviction in between
//! makes the write fail, and the budget is counted again.

mod replicas;

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use orch_raft::object::SharedObject;
use orch_raft::{Change, ObjectPath, State, Store};
use orch_rules::Action;
use orch_rules::disruption::{
    Count, Observed, failed_status, observed_status, recheck_time, scale_is_needed,
};
use orch_rules::selector::LabelSelector;
use orch_rules::validate::tree::{Tree, child_mut, set, sorted_entries};
use orch_schema::json;
use orch_schema::value::Value;
use tokio::sync::Semaphore;

use super::client::{Client, Place, let_others_run};
use super::meaning::means_same;
use super::queue::Queue;
use super::rounds::{Progress, Queued, Round, Rounds, end};
use crate::error::ApiError;
use crate::follow::Derived;
use crate::registry::Registry;
use crate::selector::{SelectorRoom, StoredLabels};

/// Storage resource of budgets.
const BUDGETS: &str = "poddisruptionbudgets.policy";
/// Storage resource of pods.
const PODS: &str = "pods";

/// From a change to the count: changes that come together cost one. A drained node waits for the next disruption.
const WAIT: Duration = Duration::from_millis(50);

/// Writes under way at a time: enough to share a sync to disk, few beside the clients' writes.
const CONCURRENT_WRITES_MAX: usize = 32;

/// Bytes of the budgets whose status is written at the same time, unless one is larger: a write of 64 KiB occupies the
/// loop's thread for half a millisecond, and no client's request runs there meanwhile.
const CONCURRENT_BYTES_MAX: u32 = 256 << 10;

/// Steps before other tasks run, a few milliseconds: a pod of the namespace that is matched against a budget's selector is
/// one for each [`STEP_BYTES`] of the budget, and one that is read, too, is [`READ_STEPS`].
const STEPS_PER_TURN: usize = 4096;

/// Bytes of a budget, its selector among them, with which a pod is matched in one step.
const STEP_BYTES: usize = 1024;

/// Steps that reading a pod stands for.
const READ_STEPS: usize = 32;

/// Between two counts of a budget whose selector is not held: its pods change meanwhile without a count.
const NOT_HELD_RECHECK: Duration = Duration::from_secs(10);

/// Longest wait until an evicted pod that did not go counts again. The rules ask for two minutes from the eviction, by the time
/// of day; more is what a clock that was set back makes of it.
const RECHECK_MAX: Duration = Duration::from_secs(121);

/// Of a budget that cannot be written.
const FAULT: &str = "the status of a disruption budget cannot be written yet";

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
    by_namespace: BTreeMap<Box<str>, BTreeMap<Arc<str>, Arc<Budget>>>,
    room: SelectorRoom,
    /// Paths of budgets that have to be counted.
    queue: Queue<Arc<str>>,
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
            queue: Queue::default(),
            written: BTreeMap::new(),
        }
    }

    fn set(&mut self, path: &Arc<str>, object: Option<&SharedObject>) {
        let namespace = namespace_of(path);
        let Some(mut budget) = object.and_then(Budget::of) else {
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
        budgets.insert(path.clone(), Arc::new(budget));
        if !is_own {
            self.queue.add(path, WAIT);
        }
    }

    /// The budget at `path`. Its selector is held from now on where that has room and was not held.
    fn take(&mut self, state: &State, path: &Arc<str>) -> Option<Arc<Budget>> {
        if let Selection::NotHeld(bytes) = self.find(path)?.selection
            && self.room.fits(namespace_of(path), bytes)
        {
            self.set(path, state.collection(BUDGETS).get(path));
        }
        self.find(path).cloned()
    }

    fn find(&self, path: &str) -> Option<&Arc<Budget>> {
        self.by_namespace.get(namespace_of(path))?.get(path)
    }

    /// Takes in the status that was written for the budget at `path`, unless the budget has it already.
    fn note_written(&mut self, path: &Arc<str>, status: Value) {
        if self.find(path).is_some_and(|budget| !budget.has_status(&status)) {
            self.written.insert(path.clone(), status);
        }
    }

    /// Marks the budgets of the namespace of `path` that `concerns` is true of.
    fn mark(&mut self, path: &str, concerns: impl Fn(&Budget) -> bool) {
        let Some(budgets) = self.by_namespace.get(namespace_of(path)) else { return };
        for (path, _) in budgets.iter().filter(|(_, budget)| concerns(budget)) {
            self.queue.add(path, WAIT);
        }
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
        self.written.clear();
        for (path, object) in state.collection(BUDGETS).range_from("") {
            self.set(path, Some(object));
        }
    }
}

impl Queued for Budgets {
    type Key = Arc<str>;

    fn queue(&mut self) -> &mut Queue<Arc<str>> {
        &mut self.queue
    }
}

/// Room for counts and writes that go on beside one another.
struct Room {
    /// Room for a single count at a time.
    counting: Semaphore,
    /// Bytes of the budgets that are written.
    writing: Semaphore,
}

impl Room {
    fn new() -> Arc<Room> {
        let bytes = usize::try_from(CONCURRENT_BYTES_MAX).unwrap_or(usize::MAX);
        Arc::new(Room { counting: Semaphore::new(1), writing: Semaphore::new(bytes) })
    }
}

/// Keeps the status of budgets up to date. Completes only with an error.
pub(super) async fn run<S: Store>(client: &Client<S>) -> Result<Infallible, ApiError> {
    let (budgets, room) = (Budgets::new(client.registry()), Room::new());
    let mut rounds = Rounds::new(client, budgets.sources.clone(), budgets, CONCURRENT_WRITES_MAX).await?;
    loop {
        let ended = |budgets: &mut Budgets, path: &Arc<str>, counted: Result<Counted, ApiError>| {
            let progress = counted.map(|Counted { written, again }| {
                if let Some(status) = written {
                    budgets.note_written(path, status);
                }
                again.map_or(Progress::Settled, Progress::After)
            });
            end(client, &mut budgets.queue, (path, path), progress, FAULT);
        };
        let Round { due, .. } = rounds.next(ended).await;
        if due.is_empty() {
            continue;
        }
        let applied = client.newest().await?;
        for path in due {
            match rounds.advance(&applied).take(&applied.state, &path) {
                Some(budget) => {
                    let state = applied.state.clone();
                    rounds.start(path.clone(), count(client, room.clone(), state, path, budget));
                }
                None => rounds.done(&path),
            }
        }
    }
}

/// Outcome of counting for one budget.
#[derive(Debug)]
struct Counted {
    /// The status, where it was not right.
    written: Option<Value>,
    /// Time until the budget has to be counted again even if nothing changes.
    again: Option<Duration>,
}

/// Counts for the budget at `path` in `state`, and writes the status where that is not right.
async fn count<S: Store>(
    client: &Client<S>,
    room: Arc<Room>,
    state: Arc<State>,
    path: Arc<str>,
    budget: Arc<Budget>,
) -> Result<Counted, ApiError> {
    // An error means that a semaphore was closed, which none ever is.
    let turn = room.counting.acquire().await;
    let_others_run(client.store()).await;
    let stored = match budget.selection {
        Selection::NotHeld(_) => state.collection(BUDGETS).get(&path).and_then(Budget::of),
        Selection::By(_) | Selection::Nothing => None,
    };
    let status = status_of(client, &state, &path, stored.as_ref().unwrap_or(&budget)).await;
    drop(turn);
    let when_not_held = stored.is_some().then_some(NOT_HELD_RECHECK);
    // date: the status says when a pod was evicted. The wait is bounded, whatever the time of day.
    let again = recheck_wait(&status, seconds(client.now_ms())).into_iter().chain(when_not_held).min();
    if means_same(budget.counted.at("status"), &status) {
        return Ok(Counted { written: None, again });
    }
    let bytes = u32::try_from(budget.bytes).unwrap_or(u32::MAX).min(CONCURRENT_BYTES_MAX);
    let _room = room.writing.acquire_many(bytes).await;
    let Some(resource) = client.stored_resource(BUDGETS) else { return Ok(Counted { written: None, again }) };
    let patch = status_patch(&budget.counted, status.clone());
    client.patch(Place { resource: &resource, path: &path }, Action::Status, &patch).await?;
    Ok(Counted { written: Some(status), again })
}

/// Time from `now_s` until a pod that was evicted and did not go counts again; `None`: there is none.
fn recheck_wait(status: &Value, now_s: i64) -> Option<Duration> {
    let left_s = u64::try_from(recheck_time(status)?.saturating_sub(now_s)).unwrap_or_default();
    Some(Duration::from_secs(left_s.max(1)).min(RECHECK_MAX))
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
    ObjectPath::of(path).namespace()
}

fn seconds(millis: u64) -> i64 {
    i64::try_from(millis / 1000).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
