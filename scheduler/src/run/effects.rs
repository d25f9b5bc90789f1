//! Carries out the executor's effects.
//!
//! Owns the tasks that talk to the API, how many run at once, and the order of writes to one pod's status. What ends
//! comes back to the executor as an input. Nothing is evicted or written without leadership.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};

use crate::api::core::v1::Pod;
use crate::client::{Client, Error, PatchType, Reason, chain};
use crate::election::Leadership;
#[cfg(test)]
use crate::simulation::plant::{self, Plant};

use super::binding::{Binder, PodRef};
use super::evict::{Evicted, evict};
use super::input::{Effect, Evicting, Eviction, Input, Levels, Observation};
use super::recorder::Recorder;

/// Writes of statuses under way: they share one connection with the bindings, which must not wait behind thousands.
const PATCHES_MAX: usize = 64;

/// Evictions under way.
const EVICTIONS_MAX: usize = 64;

/// Takes figures for the metrics.
pub type Observer = Arc<dyn Fn(Observation) + Send + Sync>;

/// Takes levels for the gauges of the metrics.
pub type Reporter = Box<dyn FnMut(&Levels<'_>) + Send>;

/// Carries out effects. Cheap to clone.
#[derive(Clone)]
pub(super) struct Effects {
    runtime: Handle,
    client: Client,
    leadership: Leadership,
    binder: Binder,
    recorder: Recorder,
    observer: Observer,
    inputs: mpsc::Sender<Input>,
    patches: Arc<Semaphore>,
    evictions: Arc<Semaphore>,
    // The newest patch that waits for each pod whose patch is under way.
    waiting: Arc<Mutex<HashMap<Arc<str>, Option<Value>>>>,
}

impl Effects {
    pub(super) fn new(
        runtime: Handle,
        client: Client,
        leadership: Leadership,
        binder: Binder,
        recorder: Recorder,
        observer: Observer,
        inputs: mpsc::Sender<Input>,
    ) -> Self {
        Self {
            runtime,
            client,
            leadership,
            binder,
            recorder,
            observer,
            inputs,
            patches: Arc::new(Semaphore::new(PATCHES_MAX)),
            evictions: Arc::new(Semaphore::new(EVICTIONS_MAX)),
            waiting: Arc::default(),
        }
    }

    /// Starts `effect`; never waits.
    pub(super) fn carry_out(&self, effect: Effect) {
        let this = self.clone();
        match effect {
            Effect::Record(report) => self.recorder.record(report),
            Effect::Observe(observation) => (self.observer)(observation),
            Effect::Cancel(job) => job.cancel(),
            Effect::Bind(job) => {
                self.runtime.spawn(async move {
                    let outcome = this.binder.run(&job).await;
                    this.answer(Input::Finished(job, outcome)).await;
                });
            }
            Effect::Evict(eviction) => {
                self.runtime.spawn(async move { this.evict_all(eviction).await });
            }
            Effect::GiveUp { claim, pod } => {
                self.runtime.spawn(async move {
                    // Another leader may use the claim. This process finds it again if it leads once more.
                    if this.leadership.while_held(this.binder.give_up(&claim, &pod)).await.is_none() {
                        tracing::debug!(uid = %pod.uid, "the lease ended before a claim was given up");
                    }
                });
            }
            Effect::Patch(pod, patch) => {
                let mut waiting = self.waiting.lock();
                if let Some(next) = waiting.get_mut(&pod.uid) {
                    *next = Some(merged(next.take(), patch));
                    return;
                }
                waiting.insert(pod.uid.clone(), None);
                drop(waiting);
                self.runtime.spawn(async move { this.patch_all(pod, patch).await });
            }
        }
    }

    /// The executor takes inputs until the process ends; then nobody wants the answer.
    async fn answer(&self, input: Input) {
        if self.inputs.send(input).await.is_err() {
            tracing::debug!("the executor has ended");
        }
    }

    async fn evict_all(&self, eviction: Eviction) {
        let began = tokio::time::Instant::now();
        let evictions = eviction.victims.iter().map(|victim| async {
            let _permit = self.evictions.acquire().await.expect("the semaphore is never closed");
            let evicting =
                evict(&self.client, &victim.namespace, &victim.name, &victim.uid, &eviction.scheduler);
            #[cfg(test)]
            let leadership = match plant::is(Plant::EvictsWithoutLease) {
                true => &Leadership::always(),
                false => &self.leadership,
            };
            #[cfg(not(test))]
            let leadership = &self.leadership;
            // Another leader may have found another node for the pod that needs the room.
            match leadership.while_held(evicting).await {
                Some(Ok(Evicted::Deleted { version })) => {
                    Evicting::Deleted(PodRef { version: version.into(), ..victim.clone() })
                }
                Some(Ok(Evicted::Ending)) => Evicting::Ending,
                Some(Ok(Evicted::Gone)) => Evicting::Gone(victim.clone()),
                Some(Err(error)) => Evicting::Failed(victim.clone(), chain(&error)),
                None => Evicting::Failed(victim.clone(), "the lease ended before the eviction".to_owned()),
            }
        });
        let outcomes = futures::future::join_all(evictions).await;
        let is_done = !outcomes.iter().any(|outcome| matches!(outcome, Evicting::Failed(..)));
        (self.observer)(Observation::Evicted { is_done, took: began.elapsed() });
        self.answer(Input::Evicted(eviction, outcomes)).await;
    }

    /// Writes the status of one pod until nothing waits, one patch after the other.
    async fn patch_all(&self, pod: PodRef, mut patch: Value) {
        loop {
            let permit = self.patches.acquire().await.expect("the semaphore is never closed");
            // What the leader has written since is newer.
            let outcome = self.leadership.while_held(self.patch(&pod, &patch)).await;
            drop(permit);
            let is_done = matches!(outcome, Some(Ok(())));
            if let Some(Err(error)) = outcome {
                let (namespace, name) = (&pod.namespace, &pod.name);
                tracing::warn!(%namespace, %name, error = chain(&error), "cannot write the status of a pod");
            }
            self.answer(Input::Patched { uid: pod.uid.clone(), is_done }).await;
            let mut waiting = self.waiting.lock();
            match waiting.get_mut(&pod.uid).and_then(Option::take) {
                Some(next) => patch = next,
                None => {
                    waiting.remove(&pod.uid);
                    return;
                }
            }
        }
    }

    /// The UID in the patch is a condition: a pod of the same name that came later is left alone.
    async fn patch(&self, pod: &PodRef, patch: &Value) -> Result<(), Error> {
        let mut patch = patch.clone();
        patch["metadata"] = serde_json::json!({ "uid": &*pod.uid });
        let patched =
            self.client.patch::<Pod>(&pod.namespace, &pod.name, "status", PatchType::Strategic, &patch).await;
        match patched {
            // The pod is gone, or another has its name: there is nobody to tell.
            Err(error) if error.is(Reason::NotFound) || error.is(Reason::Conflict) => Ok(()),
            other => other.map(|_| ()),
        }
    }
}

/// One patch with the effect of two, the second after the first.
fn merged(first: Option<Value>, second: Value) -> Value {
    let Some(mut first) = first else { return second };
    if let (Some(into), Some(from)) = (first["status"].as_object_mut(), second["status"].as_object()) {
        into.extend(from.clone());
    }
    first
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_later_patch_wins_member_by_member() {
        let first = json!({ "status": { "conditions": [1], "nominatedNodeName": "a" } });
        let second = json!({ "status": { "conditions": [2] } });
        let both = json!({ "status": { "conditions": [2], "nominatedNodeName": "a" } });
        assert_eq!(merged(Some(first), second.clone()), both);
        assert_eq!(merged(None, second.clone()), second);
    }
}
