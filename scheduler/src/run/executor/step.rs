//! One step: the next pod of the queue is planned, and its plan carried out.
//!
//! Owns what each decision leads to. A pod that is to be bound is assumed before the next one is planned, so that its
//! room is taken at once, whatever the API is doing.

use crate::plan::decision::{Decision, Failure, Placement, Refusal};
use crate::queue::{Plugin, PluginSet, QueuedPod, Rejection, Uid};

use super::super::binding::Job;
use super::super::condition::{Nomination, Unscheduled};
use super::super::input::{Effect, Observation, PlanResult};
use super::super::planning::Planning;
use super::pods::nominated_node;
use super::{Executor, Now, Stage, pod_ref};

impl<P: Planning> Executor<P> {
    /// Plans the next pod. Returns whether there was one. Nothing is planned before [`Executor::is_synced`], and
    /// without [`Executor::has_room`]: those are the caller's to ask.
    pub fn step(&mut self, now: Now, seed: u64, effects: &mut Vec<Effect>) -> bool {
        assert!(self.is_synced() && self.has_room(), "the caller asks first");
        let Some(queued) = self.queue.pop(now.monotonic) else { return false };
        let uid = queued.facts.uid.clone();
        let Some(pending) = self.pending.get(&uid) else {
            // The queue lets go of pods that are not pending any more; one that it gives out all the same is none.
            self.queue.done(&uid);
            return true;
        };
        let (compiled, api, profile) = (pending.compiled.clone(), pending.api.clone(), pending.profile);
        let decision = self.planning.plan(profile, &compiled, &api, seed);
        let result = match &decision {
            Decision::Bind(_) => PlanResult::Scheduled,
            Decision::Unschedulable(_) => PlanResult::Unschedulable,
            Decision::Failed(_) => PlanResult::Error,
        };
        effects.push(Effect::Observe(Observation::Planned { profile, result }));
        match decision {
            Decision::Bind(placement) => self.bind(&queued, placement, now, effects),
            Decision::Unschedulable(refusal) => self.refuse(&uid, refusal, now, effects),
            Decision::Failed(failure) => self.fail(&uid, &failure, now, effects),
        }
        true
    }

    fn bind(&mut self, queued: &QueuedPod, placement: Placement, now: Now, effects: &mut Vec<Effect>) {
        let uid = &queued.facts.uid;
        let Some(pending) = self.pending.get_mut(uid) else { return };
        if let Err(message) = self.planning.assume(&pending.compiled, &placement) {
            return self.fail(uid, &Failure { plugin: None, message }, now, effects);
        }
        pending.stage = Stage::Assumed;
        let profile = &self.options.profiles[pending.profile];
        let binder = self.options.binders.iter().find(|binder| binder.is_interested(&pending.api));
        let job = Job {
            pod: pod_ref(&pending.api),
            profile: pending.profile,
            attempts: queued.attempts,
            first_active_at: queued.first_active_at,
            node: placement.node,
            volumes: placement.volumes,
            claims: placement.claims,
            volume_timeout: profile.volume_timeout,
            binder: binder.cloned(),
        };
        // Room that was kept for it is its own now.
        self.planning.withdraw(&uid.0);
        self.queue.nominator_mut().remove(uid);
        self.bindings += 1;
        effects.push(Effect::Bind(Box::new(job)));
    }

    fn refuse(&mut self, uid: &Uid, refusal: Refusal, now: Now, effects: &mut Vec<Effect>) {
        let Refusal { message, plugins, pending: waiting, preemption, clear_nomination, deallocate } =
            refusal;
        let mut nomination = if clear_nomination { Nomination::Clear } else { Nomination::Keep };
        if clear_nomination {
            self.planning.withdraw(&uid.0);
            self.queue.nominator_mut().remove(uid);
        }
        if let Some(preemption) = preemption {
            nomination = Nomination::Set(preemption.node.to_string());
            self.preempt(uid, preemption, effects);
        }
        if let (Some(claim), Some(pending)) = (deallocate, self.pending.get(uid)) {
            effects.push(Effect::Deallocate { claim, pod: pod_ref(&pending.api) });
        }
        self.report_failure(uid, Unscheduled::Unschedulable, &message, &nomination, now, effects);
        let rejection = Rejection { unschedulable: queue_plugins(plugins), pending: queue_plugins(waiting) };
        self.with_queue(now, |queue, at| queue.requeue(at, uid, rejection));
    }

    fn fail(&mut self, uid: &Uid, failure: &Failure, now: Now, effects: &mut Vec<Effect>) {
        let message = match failure.plugin {
            Some(plugin) => format!("running plugin {:?}: {}", plugin.name(), failure.message),
            None => failure.message.clone(),
        };
        tracing::warn!(pod = %uid, error = message, "planning failed");
        self.report_failure(uid, Unscheduled::SchedulerError, &message, &Nomination::Keep, now, effects);
        self.with_queue(now, |queue, at| queue.requeue(at, uid, Rejection::default()));
    }

    /// Brings back a pod whose job ended without effect.
    pub(super) fn back_to_queue(&mut self, uid: &Uid, message: &str, now: Now, effects: &mut Vec<Effect>) {
        let Some(pending) = self.pending.get_mut(uid) else { return };
        pending.stage = Stage::Queued;
        let (api, compiled, facts) = (pending.api.clone(), pending.compiled.clone(), pending.facts.clone());
        match nominated_node(&api) {
            "" => {}
            node => {
                self.planning.nominate(&compiled, node);
                self.queue.nominator_mut().nominate(facts, node);
            }
        }
        self.report_failure(uid, Unscheduled::SchedulerError, message, &Nomination::Keep, now, effects);
        self.with_queue(now, |queue, at| queue.requeue(at, uid, Rejection::default()));
    }
}

/// The planner's set of plugins as the queue's.
fn queue_plugins(plugins: crate::plan::profile::PluginSet) -> PluginSet {
    plugins.iter().filter_map(|plugin| Plugin::named(plugin.name())).collect()
}
