//! Usage of quotas: fills in the status of new and changed ones, and repairs usage that differs from what the objects of the
//! namespace use.
//!
//! Owns when a quota is looked at. Usage follows the writes themselves (`admission::resource_quota`), so that this loop has
//! little to do: it counts for a new quota or new limits, and looks again from time to time at those that were charged.
//! Pods whose node is long past the time to end them stop counting in such a look.
//!
//!     new or changed limits -> count -> write the status -> count again, until both agree
//!     charged               -> count within [`VERIFY_WAIT`]
//!     all                   -> count every [`RESYNC_WAIT`]
//!
//! Invariant: a status is written only as long as the quota is of the revision at which was counted. Each write of an object
//! that a quota counts changes the quota, or depends on its revision while the usage is unknown.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use orch_raft::object::SharedObject;
use orch_raft::{Change, State, Store};
use orch_rules::Action;
use orch_rules::quota::{Amounts, Measure, Scope, amounts};
use orch_rules::validate::tree::{Tree, is_unchanged};
use orch_schema::json;
use orch_schema::quantity::Amount;
use orch_schema::value::Value;
use tokio::sync::Semaphore;

use super::client::{Client, Place, is_overtaken};
use super::queue::Queue;
use super::rounds::{Progress, Queued, Round, Rounds, end};
use crate::admission::resource_quota::QUOTAS;
use crate::error::ApiError;
use crate::follow::Derived;
use crate::registry::Registry;

/// From the first charge since a quota was counted to the next count: a wrong usage, which only a write of the status by
/// hand brings about, lasts no longer.
const VERIFY_WAIT: Duration = Duration::from_secs(10);

/// Time between two counts of a quota that no write charges, as in the reference: only these find pods that are overdue.
const RESYNC_WAIT: Duration = Duration::from_secs(5 * 60);

/// Quotas whose counts and writes are under way at most. One of them counts at a time, the writes of the others go on.
const QUOTAS_AT_ONCE: usize = 8;

/// Logged where a quota cannot be counted or written.
const WARNING: &str = "the usage of a quota cannot be kept yet";

/// Objects that are measured before other tasks run: about a millisecond.
const MEASURED_AT_ONCE: usize = 64;

/// Counts of one quota in a row, where writers change it in between. A quota that keeps changing is looked at again later.
const COUNTS_MAX: usize = 8;

/// Time that a pod counts beyond its deletion deadline: no node whose clock is behind gives back usage of a pod that is no
/// longer counted.
const OVERDUE_SLACK_S: i64 = 10;

/// The quotas that are to be counted.
struct Due {
    source: Arc<str>,
    queue: Queue<Arc<str>>,
    /// Paths of quotas that limit a resource which was not served when they were counted.
    lacking: BTreeSet<Arc<str>>,
}

/// Work for one quota that has not failed.
struct Synced {
    progress: Progress,
    /// It limits a resource that is not served.
    lacks: bool,
}

impl From<Progress> for Synced {
    fn from(progress: Progress) -> Self {
        Synced { progress, lacks: false }
    }
}

impl Due {
    fn new() -> Self {
        Due { source: QUOTAS.into(), queue: Queue::default(), lacking: BTreeSet::new() }
    }

    fn set(&mut self, path: &Arc<str>, quota: Option<&SharedObject>) {
        // A deleted quota is found to be gone when it is due.
        let Some(quota) = quota else {
            self.lacking.remove(path);
            return;
        };
        let value: Value = serde_json::from_slice(&quota.json).unwrap_or_default();
        let status = value.at("status");
        let is_known = status.has("used") && is_unchanged(value.at("spec").at("hard"), status.at("hard"));
        self.queue.add(path, if is_known { VERIFY_WAIT } else { Duration::ZERO });
    }
}

impl Derived for Due {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        std::iter::once(&self.source)
    }

    fn change(&mut self, _source: &Arc<str>, change: &Change) {
        self.set(&change.path, change.new.as_ref());
    }

    fn rebuild(&mut self, state: &State) {
        self.lacking.clear();
        for (path, _) in state.collection(QUOTAS).range_from("") {
            // An earlier leader may have left any of them uncounted.
            self.queue.add(path, Duration::ZERO);
        }
    }
}

impl Queued for Due {
    type Key = Arc<str>;

    fn queue(&mut self) -> &mut Queue<Arc<str>> {
        &mut self.queue
    }

    fn sources_of(_served: &Registry) -> Option<Vec<Arc<str>>> {
        Some(vec![QUOTAS.into()])
    }

    /// Writes of what was added wait for its usage. What was taken out stops counting in the next look, `RESYNC_WAIT` later.
    fn follow(&mut self, _sources: Vec<Arc<str>>, _state: &State) {
        self.lacking.iter().for_each(|path| self.queue.add(path, Duration::ZERO));
    }
}

/// Keeps the usage of quotas. Completes only with an error.
pub(super) async fn run<S: Store>(client: &Client<S>) -> Result<Infallible, ApiError> {
    let (due, counting) = (Due::new(), Arc::new(Semaphore::new(1)));
    let mut rounds = Rounds::new((client, "resourcequota"), [QUOTAS.into()], due, QUOTAS_AT_ONCE).await?;
    loop {
        let ended = |due: &mut Due, path: &Arc<str>, result: Result<Synced, ApiError>| {
            match &result {
                Ok(Synced { lacks: true, .. }) => due.lacking.insert(path.clone()),
                Ok(_) | Err(_) => due.lacking.remove(path),
            };
            end(client, &mut due.queue, (path, path), result.map(|synced| synced.progress), WARNING);
        };
        let Round { due, .. } = rounds.next(ended).await;
        for path in due {
            rounds.start(path.clone(), sync(client, counting.clone(), path));
        }
    }
}

/// Counts for one quota until its status agrees.
async fn sync<S: Store>(
    client: &Client<S>,
    counting: Arc<Semaphore>,
    path: Arc<str>,
) -> Result<Synced, ApiError> {
    let Some(resource) = client.stored_resource(QUOTAS) else { return Ok(Progress::Settled.into()) };
    for _ in 0..COUNTS_MAX {
        let state = client.most_recent().await?;
        let Some(quota) = state.collection(QUOTAS).get(&path).cloned() else {
            return Ok(Progress::Settled.into());
        };
        let value: Value = serde_json::from_slice(&quota.json).unwrap_or_default();
        // An error means that the semaphore was closed, which it never is.
        let turn = counting.acquire().await;
        let counted = count(client, &state, &path, &value).await;
        drop(turn);
        let Some(patch) = patch(&value, &counted) else {
            // once: each name is looked up in a table.
            let lacks = amounts(value.at("spec"), "hard").keys().any(|name| !counted.contains_key(name));
            return Ok(Synced { progress: Progress::After(RESYNC_WAIT), lacks });
        };
        match client.patch(Place { resource: &resource, path: &path }, Action::Status, &patch).await {
            // A namespace that ends takes its quotas along.
            Ok(()) | Err(ApiError::Forbidden { .. }) => {}
            Err(ApiError::Invalid { .. }) => return Ok(Progress::After(RESYNC_WAIT).into()),
            Err(error) if is_overtaken(&error) => {}
            Err(error) => return Err(error),
        }
    }
    // It changes faster than it can be counted.
    Ok(Progress::After(VERIFY_WAIT).into())
}

/// The merge patch that makes the status of `quota` what was counted; `None` where it is so already.
fn patch(quota: &Value, counted: &Amounts) -> Option<Value> {
    let (limits, status) = (quota.at("spec").at("hard"), quota.at("status"));
    let used = amounts(status, "used");
    let is_right = counted.len() == used.len()
        && counted
            .iter()
            .all(|(name, amount)| used.get(name).is_some_and(|used| used.quantity() == amount.quantity()));
    if is_right && is_unchanged(limits, status.at("hard")) && status.has("used") {
        return None;
    }
    let nothing = |of: &Value| -> BTreeMap<String, Value> {
        of.as_object().into_iter().flatten().map(|(name, _)| (name.to_string(), Value::Null)).collect()
    };
    let (mut hard, mut usage) = (nothing(status.at("hard")), nothing(status.at("used")));
    hard.extend(
        limits.as_object().into_iter().flatten().map(|(name, limit)| (name.to_string(), limit.clone())),
    );
    usage.extend(counted.iter().map(|(name, amount)| (name.clone(), json!(amount.to_string()))));
    let metadata = quota.at("metadata");
    Some(json!({
        "metadata": {"uid": metadata.text("uid"), "resourceVersion": metadata.text("resourceVersion")},
        "status": {"hard": object(hard), "used": object(usage)},
    }))
}

fn object(fields: BTreeMap<String, Value>) -> Value {
    Value::Object(fields.into_iter().collect())
}

/// The usage of the quota at `path` by the objects of its namespace in `state`.
async fn count<S: Store>(client: &Client<S>, state: &State, path: &str, quota: &Value) -> Amounts {
    let namespace = path.split('/').next().unwrap_or_default();
    // date: a pod says when its deletion is due.
    let now = i64::try_from(client.now_ms() / 1000).unwrap_or(i64::MAX).saturating_sub(OVERDUE_SLACK_S);
    let limits = amounts(quota.at("spec"), "hard");
    let scopes = Scope::of_spec(quota.at("spec"));
    let mut total = Amounts::new();
    // A kind that this state has must not be taken for one that nobody serves: its usage would be forgotten.
    client.follow_definitions().await;
    let served = client.registry();
    for resource in served.stored_resources().filter(|resource| resource.namespaced) {
        let brand = served.brand;
        let measure = Measure::of(brand, &resource.storage, &resource.plural, &resource.group);
        let Some(measure) = measure else { continue };
        let counted: Vec<&String> = limits.keys().filter(|name| measure.counts(name)).collect();
        if counted.is_empty() {
            continue;
        }
        for name in &counted {
            total.entry((*name).clone()).or_insert(Amount::ZERO);
        }
        for (at, (_, object)) in state.collection(&resource.storage).within(namespace, "").enumerate() {
            if at % MEASURED_AT_ONCE == MEASURED_AT_ONCE - 1 {
                client.store().sleep(Duration::ZERO).await;
            }
            let object: Value = match measure.varies() || !scopes.is_empty() {
                true => serde_json::from_slice(&object.json).unwrap_or_default(),
                false => Value::Null,
            };
            if !measure.is_in(&scopes, &object) {
                continue;
            }
            let usage = measure.usage(&object, now);
            for name in &counted {
                let Some(amount) = usage.get(*name) else { continue };
                total.entry((*name).clone()).and_modify(|sum| *sum = sum.plus(*amount));
            }
        }
    }
    total
}

#[cfg(test)]
mod tests;
