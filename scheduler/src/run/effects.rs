//! Carries out the executor's effects.
//!
//! Owns the tasks that talk to the API, and how many run at once; the order of the writes of one pod is that of `lanes`.
//! The end of each effect comes back to the executor as an input. Without leadership, no pod is evicted and no object written.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};

use crate::client::{Client, chain};
use crate::election::Leadership;
use crate::plan::decision::UnusableClaim;
#[cfg(test)]
use crate::simulation::plant::{self, Plant};

use super::binding::{BindOutcome, Binder, Job, PodRef};
use super::evict::{Evicted, evict};
use super::input::{Effect, Evicting, Eviction, Input, Levels, Observation, Patching};
use super::lanes::{Ended, Lanes, Start, Write};
use super::recorder::Recorder;
use super::status::patch_unbound;

/// Writes of statuses under way: they share one connection with the bindings, which must not wait behind thousands.
const PATCHES_MAX: usize = 64;

/// Time from a failure until a status is written again: the client has tried for some seconds by then.
const PATCH_PAUSE: Duration = Duration::from_secs(1);

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
    lanes: Arc<Mutex<Lanes>>,
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
            lanes: Arc::default(),
        }
    }

    /// Starts `effect`; never waits.
    pub(super) fn carry_out(&self, effect: Effect) {
        match effect {
            Effect::Record(report) => self.recorder.record(report),
            Effect::Observe(observation) => (self.observer)(observation),
            Effect::Cancel(job) => job.cancel(),
            Effect::Bind(job) => {
                #[cfg(test)]
                if plant::is(Plant::PatchesBesideBinding) {
                    let this = self.clone();
                    self.runtime.spawn(async move {
                        let (_, ended) = this.bind(job).await;
                        this.answer(ended).await;
                    });
                    return;
                }
                self.write(Write::Bind(job));
            }
            Effect::Evict(eviction) => {
                let this = self.clone();
                self.runtime.spawn(async move { this.evict_all(eviction).await });
            }
            Effect::GiveUp { claim, pod } => self.write(Write::GiveUp(claim, pod)),
            Effect::Patch(pod, patch) => self.write(Write::Patch(pod, patch)),
        }
    }

    /// Has `write` wait for those of its pod before it.
    fn write(&self, write: Write) {
        let uid = write.uid().clone();
        let start = self.lanes.lock().add(write);
        if let Some(start) = start {
            let this = self.clone();
            self.runtime.spawn(async move { this.write_all(uid, start).await });
        }
    }

    /// Carries out writes of one pod, one after the other, until none waits.
    async fn write_all(&self, uid: Arc<str>, start: Start) {
        let mut next = Some(start);
        while let Some(start) = next {
            let (write, permit) = match start {
                Start::Now(write) => (write, None),
                Start::InTurn(turn) => {
                    let permit = self.patches.acquire().await.expect("the semaphore is never closed");
                    // A binding that came meanwhile has dropped the patch, and a task of its own.
                    let Some(write) = self.lanes.lock().begin(&uid, turn) else { return };
                    (write, Some(permit))
                }
            };
            // Most tasks are patches, and need not be as large as a job.
            let (how, answer) = match write {
                Write::Patch(pod, patch) => (Ended::Otherwise, Some(self.patch(&pod, patch).await)),
                Write::Bind(job) => {
                    let (how, answer) = Box::pin(self.bind(job)).await;
                    (how, Some(answer))
                }
                Write::GiveUp(claim, pod) => {
                    Box::pin(self.give_up(&claim, &pod)).await;
                    (Ended::Otherwise, None)
                }
            };
            drop(permit);
            next = self.lanes.lock().ended(&uid, how);
            if let Some(answer) = answer {
                self.answer_in_time(answer).await;
            }
        }
    }

    async fn bind(&self, mut job: Box<Job>) -> (Ended, Input) {
        self.binder.nominate(&mut job).await;
        let mut written = Vec::new();
        let outcome = self.binder.run(&job, &mut written).await;
        job.written = written;
        let how = if outcome == BindOutcome::Bound { Ended::Bound } else { Ended::Otherwise };
        (how, Input::Finished(job, outcome))
    }

    async fn give_up(&self, claim: &UnusableClaim, pod: &PodRef) {
        // Another leader may use the claim. This process finds it again if it leads once more.
        if self.leadership.while_held(self.binder.give_up(claim, pod)).await.is_none() {
            tracing::debug!(uid = %pod.uid, "the lease ended before a claim was given up");
        }
    }

    /// Writes the status of a pod.
    async fn patch(&self, pod: &PodRef, patch: Value) -> Input {
        // The leader's later writes are newer.
        let outcome = self.leadership.while_held(patch_unbound(&self.client, pod, patch)).await;
        let result = match &outcome {
            Some(Ok(_)) => Patching::Done,
            Some(Err(_)) => Patching::Failed,
            None => Patching::NotLeading,
        };
        if let Some(Err(error)) = outcome {
            let (namespace, name) = (&pod.namespace, &pod.name);
            tracing::warn!(%namespace, %name, error = chain(&error), "cannot write the status of a pod");
        }
        Input::Patched { uid: pod.uid.clone(), outcome: result }
    }

    /// The executor takes inputs until the process ends; then nobody wants the answer.
    async fn answer(&self, input: Input) {
        if self.inputs.send(input).await.is_err() {
            tracing::debug!("the executor has ended");
        }
    }

    /// A patch that failed is made again after a pause, in which other writes of the pod go on.
    async fn answer_in_time(&self, input: Input) {
        if !matches!(input, Input::Patched { outcome: Patching::Failed, .. }) {
            return self.answer(input).await;
        }
        let this = self.clone();
        self.runtime.spawn(async move {
            tokio::time::sleep(PATCH_PAUSE).await;
            this.answer(input).await;
        });
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
}
