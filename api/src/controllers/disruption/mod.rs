//! Status of disruption budgets: how many of their pods are healthy, how many should be, and how many may be evicted.
//!
//! Owns counting, the writes of statuses, and when an evicted pod that did not go counts again. [`budgets`] knows which budgets
//! have to be counted after a change. A status is decided in `orch_rules::disruption`, from one state: an eviction, which
//! writes pod and budget in one transaction, is in it wholly or not at all.
//!
//! Budgets are counted one at a time; the writes of the others go on, as many as have room, and one that takes long holds up
//! no other budget.
//!
//! Invariant: a status is written only over the version of the budget that it was computed from. An eviction in between
//! makes the write fail, and the budget is counted again.

mod budgets;
mod replicas;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use orch_raft::{ObjectPath, State, Store};
use orch_rules::Action;
use orch_rules::disruption::{Count, Observed, failed_status, observed_status, recheck_time};
use orch_rules::validate::tree::{Tree, child_mut, set, sorted_entries};
use orch_schema::json;
use orch_schema::value::Value;
use tokio::sync::Semaphore;

use self::budgets::{Budget, Budgets, Selection};
use super::client::{Client, Place, let_others_run};
use super::meaning::means_same;
use super::rounds::{Progress, Round, Rounds, end};
use crate::error::ApiError;
use crate::follow::Applied;

/// Storage resource of budgets.
const BUDGETS: &str = "poddisruptionbudgets.policy";
/// Storage resource of pods.
const PODS: &str = "pods";

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

/// Logged where a status cannot be written.
const WARNING: &str = "the status of a disruption budget cannot be written yet";

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
    let (budgets, room) = (Budgets::new(&client.registry()), Room::new());
    let mut rounds =
        Rounds::new((client, "disruption"), budgets.sources.clone(), budgets, CONCURRENT_WRITES_MAX).await?;
    loop {
        let ended = |budgets: &mut Budgets, path: &Arc<str>, counted: Result<Counted, ApiError>| {
            let progress = counted.map(|Counted { written, again }| {
                if let Some(status) = written {
                    budgets.note_written(path, status);
                }
                again.map_or(Progress::Settled, Progress::After)
            });
            end(client, &mut budgets.queue, (path, path), progress, WARNING);
        };
        let Round { due, .. } = rounds.next(ended).await;
        let counting = |budgets: &mut Budgets, applied: &Applied, path: &Arc<str>| {
            let (state, budget) = (applied.state.clone(), budgets.take(&applied.state, path)?);
            Some(count(client, room.clone(), state, path.clone(), budget))
        };
        rounds.start_all(due, counting).await?;
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
        true => match replicas::controlling(&client.registry(), state, namespace, &pods) {
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
