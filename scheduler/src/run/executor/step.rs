//! A step of the executor: it plans the next pod of the queue, and begins to carry out the plan.
//!
//! Owns the effects of each decision. A pod that is to be bound is assumed before the next one is planned, so that its
//! room is taken at once, however slow the API is.

use tokio_util::sync::CancellationToken;

use crate::api::core::v1::Pod;
use crate::plan::costs::{Cost, Status};
use crate::plan::decision::{Decision, Failure, Placement, Refusal};
use crate::plan::profile::ExtensionPoint;
use crate::queue::{QueuedPod, Rejection, Rejector, Rejectors, Uid};
use crate::stopwatch::Started;

use super::super::binding::{Job, PodRef};
use super::super::input::{AttemptResult, Effect, Observation};
use super::super::planning::Planning;
use super::super::pod_status::{Nomination, Unscheduled};
use super::pods::nominated_node;
use super::{Executor, Now, Stage, pod_ref};

/// Told of a pod that waits because claims of its namespace take long to plan.
const SET_ASIDE: &str =
    "set aside for a while: the device selectors of claims in this namespace take too long to evaluate";

fn namespace_of(api: &Pod) -> &str {
    api.metadata.as_ref().map_or("", |metadata| &metadata.namespace)
}

impl<P: Planning> Executor<P> {
    /// Plans the next pod. Returns whether the queue had a pod. The caller checks [`Executor::is_synced`] and
    /// [`Executor::has_room`] before.
    pub fn step(&mut self, now: Now, seed: u64, effects: &mut Vec<Effect>) -> bool {
        assert!(self.is_synced() && self.has_room(), "the caller asks first");
        let Some(queued) = self.queue.pop(now.monotonic) else { return false };
        let began = self.options.stopwatch.start();
        let uid = queued.facts.uid.clone();
        let Some(pending) = self.pending.get(&uid) else {
            // The queue lets go of pods that are not pending any more; a pod that it gives out all the same is passed over.
            self.queue.done(&uid);
            return true;
        };
        let (compiled, api, profile) = (pending.compiled.clone(), pending.api.clone(), pending.profile);
        let has_claims = self.planning.has_claims(&compiled);
        if has_claims && self.is_set_aside(&uid, &api, now, effects) {
            return true;
        }
        let decision = self.planning.plan(profile, &compiled, &api, now.wall, seed);
        if has_claims {
            self.costly.planned(namespace_of(&api), self.planning.claim_steps(), now.monotonic);
        }
        let costs = self.planning.take_costs(profile);
        if let Some(took) = self.options.stopwatch.since(began) {
            effects.push(Effect::Observe(Observation::Planned { profile, took, costs }));
        }
        let result = match decision {
            Decision::Bind(placement) => self.bind(&queued, placement, began, now, effects),
            Decision::Unschedulable(refusal) => {
                self.refuse(&uid, refusal, now, effects);
                Some(AttemptResult::Unschedulable)
            }
            Decision::Failed(failure) => {
                self.fail(&uid, &failure, now, effects);
                Some(AttemptResult::Error)
            }
        };
        if let Some(result) = result {
            self.observe_attempt(profile, result, began, effects);
        }
        true
    }

    /// Whether the pod waits for its turn among those whose claims take long to plan; it is back in the queue then.
    fn is_set_aside(&mut self, uid: &Uid, api: &Pod, now: Now, effects: &mut Vec<Effect>) -> bool {
        let Some(from) = self.costly.planned_from(namespace_of(api), now.monotonic) else { return false };
        // The reason that was reported before tells users more.
        if self.pending.get(uid).is_some_and(|pending| pending.reported.is_none()) {
            let reason = Unscheduled::SchedulerError;
            self.report_failure(uid, reason, SET_ASIDE, &Nomination::Keep, now, effects);
        }
        self.with_queue(now, |queue, at| queue.set_aside(at, uid, from));
        true
    }

    /// Tells how an attempt that began at `began` ended.
    pub(super) fn observe_attempt(
        &self,
        profile: usize,
        result: AttemptResult,
        began: Option<Started>,
        effects: &mut Vec<Effect>,
    ) {
        let took = self.options.stopwatch.since(began).unwrap_or_default();
        effects.push(Effect::Observe(Observation::Attempted { profile, result, took }));
    }

    /// Begins to bind a pod. Returns how the attempt ended if that is now, before its job.
    fn bind(
        &mut self,
        queued: &QueuedPod,
        placement: Placement,
        began: Option<Started>,
        now: Now,
        effects: &mut Vec<Effect>,
    ) -> Option<AttemptResult> {
        let uid = &queued.facts.uid;
        let pending = self.pending.get_mut(uid)?;
        let profile = pending.profile;
        let reserving = self.options.stopwatch.start();
        let assumed = self.planning.assume(&pending.compiled, &placement);
        if let Some(took) = self.options.stopwatch.since(reserving) {
            let status = if assumed.is_ok() { Status::Success } else { Status::Error };
            let cost = Cost { point: ExtensionPoint::Reserve, plugin: None, status, took };
            effects.push(Effect::Observe(Observation::Ran { profile, cost }));
        }
        if let Err(message) = assumed {
            self.fail(uid, &Failure { plugin: None, message }, now, effects);
            return Some(AttemptResult::Error);
        }
        pending.stage = Stage::Assumed;
        let Placement { node, evaluated, feasible, .. } = &placement;
        let PodRef { namespace, name, .. } = pod_ref(&pending.api);
        tracing::debug!(%namespace, pod = %name, %node, evaluated, feasible, "a node is chosen");
        let profile = &self.options.profiles[pending.profile];
        let binder = self.options.binders.iter().find(|binder| binder.is_interested(&pending.api));
        let mut job = Job {
            pod: pod_ref(&pending.api),
            profile: pending.profile,
            controller: profile.scheduler_name.clone(),
            attempts: queued.attempts,
            first_active_at: queued.first_active_at,
            began,
            is_flushed: queued.is_flushed,
            node: placement.node,
            nominates: false,
            volumes: placement.volumes,
            claims: placement.claims,
            written: Vec::new(),
            volume_timeout: profile.volume_timeout,
            device_timeout: profile.device_timeout,
            binder: binder.cloned(),
            cancelled: CancellationToken::new(),
        };
        job.nominates = job.prepares() && nominated_node(&pending.api) != &*job.node;
        pending.preparing = job.prepares().then(|| job.cancelled.clone());
        // The job drops the report that waits to be written; a job that fails has the report written anew.
        pending.reported = None;
        // The pod now has the room that was kept for it by its nomination.
        self.planning.withdraw(&uid.0);
        self.queue.nominator_mut().remove(uid);
        *self.jobs_like(&job) += 1;
        effects.push(Effect::Bind(Box::new(job)));
        None
    }

    fn refuse(&mut self, uid: &Uid, refusal: Refusal, now: Now, effects: &mut Vec<Effect>) {
        let Refusal {
            message,
            plugins,
            by_extenders,
            pending: waiting,
            preemption,
            clear_nomination,
            unusable,
        } = refusal;
        tracing::debug!(pod = %uid, message, "no node takes the pod");
        let mut nomination = if clear_nomination { Nomination::Clear } else { Nomination::Keep };
        if clear_nomination {
            self.planning.withdraw(&uid.0);
            self.queue.nominator_mut().remove(uid);
        }
        if let Some(preemption) = preemption {
            nomination = Nomination::Set(preemption.node.to_string());
            self.preempt(uid, preemption, effects);
        }
        if let (Some(claim), Some(pending)) = (unusable, self.pending.get(uid)) {
            effects.push(Effect::GiveUp { claim, pod: pod_ref(&pending.api) });
        }
        self.report_failure(uid, Unscheduled::Unschedulable, &message, &nomination, now, effects);
        let mut unschedulable = Rejectors::from(plugins);
        if by_extenders {
            unschedulable = unschedulable.with(Rejector::Extenders);
        }
        let rejection = Rejection { unschedulable, pending: waiting.into() };
        self.with_queue(now, |queue, at| queue.requeue(at, uid, rejection));
    }

    fn fail(&mut self, uid: &Uid, failure: &Failure, now: Now, effects: &mut Vec<Effect>) {
        let message = failure.to_string();
        if let Some(left_out) = self.unplannable.pass_at(now.monotonic) {
            let pod = self.pending.get(uid).map(|pending| pod_ref(&pending.api));
            let (namespace, name) = pod.map(|pod| (pod.namespace, pod.name)).unzip();
            tracing::warn!(
                namespace = namespace.as_deref(),
                name = name.as_deref(),
                error = message,
                left_out,
                "planning failed"
            );
        }
        self.planning.withdraw(&uid.0);
        self.queue.nominator_mut().remove(uid);
        self.report_failure(uid, Unscheduled::SchedulerError, &message, &Nomination::Clear, now, effects);
        self.with_queue(now, |queue, at| queue.requeue(at, uid, Rejection::default()));
    }

    /// Brings back a pod whose job ended without effect. A nomination that stays keeps its room again.
    pub(super) fn back_to_queue(
        &mut self,
        uid: &Uid,
        message: &str,
        nomination: &Nomination,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        let Some(pending) = self.pending.get_mut(uid) else { return };
        pending.stage = Stage::Queued;
        let (api, compiled, facts) = (pending.api.clone(), pending.compiled.clone(), pending.facts.clone());
        let node = nominated_node(&api);
        if *nomination == Nomination::Keep && !node.is_empty() {
            self.planning.nominate(&compiled, node);
            self.queue.nominator_mut().nominate(facts, node);
        }
        self.report_failure(uid, Unscheduled::SchedulerError, message, nomination, now, effects);
        self.with_queue(now, |queue, at| queue.requeue(at, uid, Rejection::default()));
    }
}
