//! The end of jobs.
//!
//! Owns what follows from a certain outcome, in whichever order it and the watch tell of it: a pod that the watch has
//! confirmed, or has told to be gone, is not pending any more, and its outcome changes nothing.

use crate::queue::{ClusterEvent, Uid};

use super::super::binding::{Job, Outcome, Why};
use super::super::input::{Effect, Observation};
use super::super::planning::Planning;
use super::report::scheduled;
use super::{Executor, Now};

impl<P: Planning> Executor<P> {
    pub(super) fn finished(&mut self, job: &Job, outcome: Outcome, now: Now, effects: &mut Vec<Effect>) {
        self.bindings = self.bindings.checked_sub(1).expect("each job ends once");
        let uid = Uid(job.pod.uid.clone());
        match outcome {
            Outcome::Bound => {
                let controller = self.options.profiles[job.profile].scheduler_name.clone();
                effects.push(Effect::Record(scheduled(&job.pod, &job.node, controller)));
                let waited = now.monotonic.saturating_sub(job.first_active_at);
                effects.push(Effect::Observe(Observation::Bound {
                    profile: job.profile,
                    attempts: job.attempts,
                    waited,
                }));
                // It stays assumed until the watch confirms it.
                self.queue.done(&uid);
            }
            Outcome::NotBound(why) => self.not_bound(&uid, job, why, now, effects),
        }
    }

    fn not_bound(&mut self, uid: &Uid, job: &Job, why: Why, now: Now, effects: &mut Vec<Effect>) {
        let Some(pending) = self.pending.get(uid) else {
            self.queue.done(uid);
            return;
        };
        let facts = pending.facts.clone();
        self.planning.forget(&uid.0);
        match why {
            Why::Gone | Why::Taken(_) => {
                // The watch tells the rest: that the pod is gone, or whose it is.
                self.pending.remove(uid);
                self.with_queue(now, |queue, at| queue.delete(at, uid));
                self.queue.done(uid);
            }
            Why::Refused(message) => {
                let node = &job.node;
                let (namespace, name) = (&job.pod.namespace, &job.pod.name);
                tracing::warn!(%namespace, %name, %node, error = message, "a pod was not bound");
                self.back_to_queue(uid, &message, now, effects);
            }
            Why::NotLeading => self.back_to_queue(uid, "leadership was lost", now, effects),
        }
        // Its room is free again, which may help others.
        self.wake(Some(ClusterEvent::assigned_pod_deleted(facts)), now);
    }
}
