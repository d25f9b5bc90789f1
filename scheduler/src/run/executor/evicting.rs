//! Preemption: the evictions of victims, and the moment at which their preemptor may be planned again.
//!
//! Owns the choice between deletion and giving way: a victim that is not bound yet, because its volumes or devices are being made
//! ready, only gives up its place and waits for another. Owns also the two steps of an eviction. While the first victims are evicted
//! the preemptor is held back, because planning it again would choose more victims. Then the preemptor is let go and the last
//! victim evicted, whose end wakes the preemptor.

use crate::plan::decision::{PodName, Preemption};
use crate::queue::Uid;

use super::super::binding::PodRef;
use super::super::input::{Effect, Evicting, Eviction, EvictionStep, Observation};
use super::super::planning::Planning;
use super::report::preempted;
use super::{Executor, Now, pod_ref};

/// A pod whose first victims are being evicted.
#[derive(Debug)]
pub(super) struct Preempting {
    last: PodRef,
}

impl<P: Planning> Executor<P> {
    /// Begins to evict the victims of `preemption` for the pod `uid`.
    pub(super) fn preempt(&mut self, uid: &Uid, preemption: Preemption, effects: &mut Vec<Effect>) {
        for displaced in &preemption.superseded {
            self.withdraw_nomination(&Uid(displaced.uid.clone()), effects);
        }
        let Some(pending) = self.pending.get(uid) else { return };
        self.planning.nominate(&pending.compiled, &preemption.node);
        if let Some(facts) = self.queue.pod(uid).cloned() {
            self.queue.nominator_mut().nominate(facts, &preemption.node);
        }
        effects.push(Effect::Observe(Observation::Preempting { victims: preemption.victims.len() }));
        let mut eviction = Eviction {
            preemptor: pod_ref(&pending.api),
            node: preemption.node,
            scheduler: self.options.profiles[pending.profile].scheduler_name.clone(),
            victims: preemption.victims.iter().map(by_name).collect(),
            step: EvictionStep::First,
        };
        self.cancel_waiting(&mut eviction, effects);
        let Some(last) = eviction.victims.pop() else { return };
        if eviction.victims.is_empty() {
            eviction.victims.push(last);
            eviction.step = EvictionStep::Last;
        } else {
            self.preempting.insert(uid.clone(), Preempting { last });
        }
        effects.push(Effect::Evict(eviction));
    }

    /// Has victims give way whose jobs still wait, and takes them out of those to evict.
    fn cancel_waiting(&mut self, eviction: &mut Eviction, effects: &mut Vec<Effect>) {
        let preemptor = Uid(eviction.preemptor.uid.clone());
        let (scheduler, node) = (eviction.scheduler.clone(), eviction.node.clone());
        let by = eviction.preemptor.clone();
        eviction.victims.retain(|victim| {
            let uid = Uid(victim.uid.clone());
            let Some(pending) = self.pending.get(&uid) else { return true };
            let Some(job) = pending.preparing.clone() else { return true };
            let report = preempted(&pod_ref(&pending.api), &by, &node, scheduler.clone());
            effects.extend([Effect::Cancel(job), Effect::Record(report)]);
            self.giving_way.insert(uid, preemptor.clone());
            false
        });
    }

    /// A job has ended; returns whether it was cancelled for a preemptor. Where the job had bound its pod before, no event will
    /// wake the preemptor.
    pub(super) fn gave_way(&mut self, uid: &Uid, is_bound: bool, now: Now) -> bool {
        let Some(preemptor) = self.giving_way.remove(uid) else { return false };
        if is_bound {
            self.with_queue(now, |queue, at| queue.activate(at, &preemptor));
        }
        true
    }

    pub(super) fn evicted(
        &mut self,
        eviction: Eviction,
        outcomes: Vec<Evicting>,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        let mut is_failed = false;
        let mut is_gone = false;
        for outcome in outcomes {
            match outcome {
                Evicting::Deleted(victim) => {
                    let controller = eviction.scheduler.clone();
                    let report = preempted(&victim, &eviction.preemptor, &eviction.node, controller);
                    effects.push(Effect::Record(report));
                }
                Evicting::Ending => {}
                Evicting::Gone(_) => is_gone = true,
                Evicting::Failed(victim, problem) => {
                    let (namespace, name) = (&victim.namespace, &victim.name);
                    tracing::warn!(%namespace, %name, error = problem, "cannot evict a victim");
                    is_failed = true;
                }
            }
        }
        let uid = Uid(eviction.preemptor.uid.clone());
        match eviction.step {
            EvictionStep::First => {
                // Without an entry the preemptor is gone, and the last victim may stay.
                let Some(Preempting { last }) = self.preempting.remove(&uid) else { return };
                if is_failed {
                    self.with_queue(now, |queue, at| queue.activate(at, &uid));
                } else {
                    let victims = vec![last];
                    effects.push(Effect::Evict(Eviction { victims, step: EvictionStep::Last, ..eviction }));
                }
            }
            // No deletion will be told that could wake the preemptor.
            EvictionStep::Last if is_failed || is_gone => {
                self.with_queue(now, |queue, at| queue.activate(at, &uid));
            }
            EvictionStep::Last => {}
        }
    }
}

fn by_name(pod: &PodName) -> PodRef {
    PodRef {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        uid: pod.uid.clone(),
        version: "".into(),
    }
}
