//! The end of jobs: bindings and evictions that the rim carries out.
//!
//! Owns the consequences of an outcome. The watch may show the same change before the job ends or after it: a pod that it has
//! shown with its node, or has shown to be gone, is not pending any more, and the outcome of its job changes nothing.

use std::sync::Arc;

use crate::plan::decision::ClaimWrite;
use crate::queue::{ClusterEvent, Uid};
#[cfg(test)]
use crate::simulation::plant::{self, Plant};

use super::super::binding::{BindOutcome, Job, Why};
use super::super::input::{AttemptResult, Effect, Observation};
use super::super::planning::Planning;
use super::super::pod_status::Nomination;
use super::pods::is_ending;
use super::report::scheduled;
use super::{Executor, Now};

/// The message for users about a pod that gave way before it was bound.
const PREEMPTED: &str = "preempted by a pod of higher priority before it was bound";

/// The message for users about a pod whose job was cancelled because the scheduler stops, or rebuilds its planner.
const INTERRUPTED: &str = "the scheduler was interrupted before the pod was bound, and plans it again";

impl<P: Planning> Executor<P> {
    pub(super) fn finished(&mut self, job: &Job, outcome: BindOutcome, now: Now, effects: &mut Vec<Effect>) {
        let jobs = self.jobs_like(job);
        *jobs = jobs.checked_sub(1).expect("each job ends once");
        let result = match outcome {
            BindOutcome::Bound => AttemptResult::Scheduled,
            BindOutcome::NotBound(_) => AttemptResult::Error,
        };
        self.observe_attempt(job.profile, result, job.began, effects);
        let uid = Uid(job.pod.uid.clone());
        if let Some(pending) = self.pending.get_mut(&uid) {
            pending.preparing = None;
        }
        self.end_claims(&uid, job, &outcome, now);
        let gave_way = self.gave_way(&uid, outcome == BindOutcome::Bound, now);
        match outcome {
            BindOutcome::Bound => {
                let controller = self.options.profiles[job.profile].scheduler_name.clone();
                effects.push(Effect::Record(scheduled(&job.pod, &job.node, controller)));
                let waited = now.monotonic.saturating_sub(job.first_active_at);
                effects.push(Effect::Observe(Observation::Bound {
                    profile: job.profile,
                    attempts: job.attempts,
                    waited,
                    is_flushed: job.is_flushed,
                }));
                #[cfg(test)]
                if plant::is(Plant::ForgetsEarly) {
                    self.planning.forget(&uid.0);
                }
                // It stays assumed until the watch confirms it.
                self.queue.done(&uid);
            }
            BindOutcome::NotBound(why) => {
                // Where the pod does not give way, the next plan tries its node first.
                let cancelled = match gave_way {
                    true => (PREEMPTED, Nomination::Clear),
                    false => (INTERRUPTED, Nomination::Keep),
                };
                self.not_bound(&uid, job, (why, cancelled), now, effects);
            }
        }
    }

    /// Assumptions about claims end with the job, and no earlier, even where the pod is gone: a write under way may still give its
    /// devices to a claim.
    fn end_claims(&mut self, uid: &Uid, job: &Job, outcome: &BindOutcome, now: Now) {
        // Where the claim was given back before the job ended, pods that its event woke found it held by the job.
        for claim in self.planning.settle_claims(&uid.0, &job.written) {
            self.wake(Some(ClusterEvent::devices_given_back(&claim.namespace, &claim.name)), now);
        }
        let is_gone = !self.pending.contains_key(uid) && !self.assigned.contains_key(uid);
        if *outcome == BindOutcome::Bound && !is_gone {
            return;
        }
        self.planning.forget_claims(&uid.0, &job.claims);
        // few: the claims of one pod.
        let is_written = |claim: &ClaimWrite| job.written.iter().any(|written| written.uid == claim.uid);
        for ClaimWrite { claim, .. } in
            job.claims.iter().filter(|claim| claim.allocation.chosen().is_some() && !is_written(claim))
        {
            self.wake(Some(ClusterEvent::devices_given_back(&claim.namespace, &claim.name)), now);
        }
    }

    /// `why` comes with the message for users and the end of the nomination that apply where the job was cancelled.
    fn not_bound(
        &mut self,
        uid: &Uid,
        job: &Job,
        (why, cancelled): (Why, (&str, Nomination)),
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        let Some(pending) = self.pending.get_mut(uid) else {
            self.queue.done(uid);
            // The watch was first to tell that another scheduler bound the pod: the room assumed for it here is free.
            let elsewhere = self.assigned.get(uid).filter(|facts| facts.node_name != job.node).cloned();
            self.wake(elsewhere.map(ClusterEvent::assigned_pod_deleted), now);
            return;
        };
        if job.nominates {
            // The watch may tell the nomination that the job wrote later.
            let status = Arc::make_mut(&mut pending.api).status.get_or_insert_default();
            status.nominated_node_name = job.node.to_string();
        }
        let is_ending = is_ending(&pending.api);
        let facts = pending.facts.clone();
        self.planning.forget(&uid.0);
        match why {
            _ if is_ending => self.let_go(uid, now),
            Why::Gone | Why::Taken(_) => self.let_go(uid, now),
            Why::Cancelled => {
                let (message, nomination) = cancelled;
                self.back_to_queue(uid, message, &nomination, now, effects);
            }
            Why::Refused(message) => {
                let node = &job.node;
                let (namespace, name) = (&job.pod.namespace, &job.pod.name);
                tracing::warn!(%namespace, %name, %node, error = message, "a pod was not bound");
                self.back_to_queue(uid, &message, &Nomination::Clear, now, effects);
            }
            // The next leader may rely on the nomination.
            Why::NotLeading => {
                self.back_to_queue(uid, "leadership was lost", &Nomination::Keep, now, effects);
            }
        }
        // Its room is free again, which may help others.
        self.wake(Some(ClusterEvent::assigned_pod_deleted(facts)), now);
    }

    /// Forgets a pod that needs no node of this process any more: the watch tells that the pod is gone, or has another node.
    fn let_go(&mut self, uid: &Uid, now: Now) {
        self.pending.remove(uid);
        self.with_queue(now, |queue, at| queue.delete(at, uid));
        self.queue.done(uid);
    }
}
