//! Changes of pods.
//!
//! Owns the sets of pending and assigned pods, and the passage between them: by a job of this process, by another
//! scheduler, by the end of the pod. A name that comes back with another UID is another pod, whose predecessor is gone.

use std::sync::Arc;

use crate::api::core::v1::Pod;
use crate::api::meta::v1::ObjectMeta;
use crate::client::{Object, ObjectKey};
use crate::queue::event::{UNSCHEDULED_POD_ADD, UNSCHEDULED_POD_DELETE, UNSCHEDULED_POD_UPDATE};
use crate::queue::{ClusterEvent, PodFacts, Uid};
#[cfg(test)]
use crate::simulation::plant::{self, Plant};

use super::super::input::Effect;
use super::super::planning::Planning;
use super::super::stored::Stored;
use super::pending::{Pending, Stage, reduced};
use super::{Executor, Now};

/// Labels of events of pods that wake no pod.
const ASSIGNED_POD_UPDATE: &str = "AssignedPodUpdate";

impl<P: Planning> Executor<P> {
    /// Takes in a pod, and returns the label of the event that it was.
    pub(super) fn upsert_pod(
        &mut self,
        pod: Box<Pod>,
        now: Now,
        effects: &mut Vec<Effect>,
    ) -> Option<&'static str> {
        let key = pod.key();
        let uid = Uid::new(pod.metadata.as_ref().map_or("", |metadata| &metadata.uid));
        if let Some(before) = self.uids.insert(key.clone(), uid.clone())
            && before != uid
        {
            self.pod_is_gone(&key, &before, now, effects);
        }
        let spec = pod.spec.as_ref();
        let phase = pod.status.as_ref().map_or("", |status| status.phase.as_str());
        let is_finished = matches!(phase, "Succeeded" | "Failed");
        let has_node = spec.is_some_and(|spec| !spec.node_name.is_empty());
        let is_ending = is_ending(&pod);
        let reads_whole = self.reads_whole_pods();
        if is_finished {
            return self.pod_is_gone(&key, &uid, now, effects);
        }
        if has_node {
            return self.upsert_assigned(pod, uid, now, effects);
        }
        if !is_ending {
            return self.upsert_pending(pod, uid, now, effects);
        }
        // A pod without a node that is being deleted needs none. While a job binds the pod, the job takes care of it, and does
        // not bring it back.
        match self.pending.get_mut(&uid) {
            Some(pending) if pending.stage == Stage::Assumed => {
                pending.facts = Arc::new(self.shapes.facts(&pod));
                pending.api = Arc::new(if reads_whole { *pod } else { reduced(*pod) });
                Some(UNSCHEDULED_POD_UPDATE)
            }
            _ => self.pod_is_gone(&key, &uid, now, effects),
        }
    }

    /// Takes in that a pod is gone, and returns the label of the event that it was.
    pub(super) fn delete_pod(
        &mut self,
        key: &ObjectKey,
        now: Now,
        effects: &mut Vec<Effect>,
    ) -> Option<&'static str> {
        let uid = self.uids.remove(key)?;
        self.pod_is_gone(key, &uid, now, effects)
    }

    /// A pod has a node: by a job of this process, or by another client.
    fn upsert_assigned(
        &mut self,
        pod: Box<Pod>,
        uid: Uid,
        now: Now,
        effects: &mut Vec<Effect>,
    ) -> Option<&'static str> {
        let facts = Arc::new(self.shapes.facts(&pod));
        if let Some(pending) = self.pending.remove(&uid) {
            effects.extend(pending.preparing.map(Effect::Cancel));
            // The snapshot replaces an assumption by the node that the API tells.
            self.leave_queue(&uid, now);
        }
        // Its remaining victims need not be evicted.
        self.preempting.remove(&uid);
        self.planning.upsert(&Stored::Pod(pod));
        let event = match self.assigned.insert(uid, facts.clone()) {
            None => Some(ClusterEvent::assigned_pod_added(facts)),
            Some(before) => ClusterEvent::assigned_pod_updated(before, facts),
        };
        self.wake(event, now).or(Some(ASSIGNED_POD_UPDATE))
    }

    fn upsert_pending(
        &mut self,
        pod: Box<Pod>,
        uid: Uid,
        now: Now,
        effects: &mut Vec<Effect>,
    ) -> Option<&'static str> {
        let profile = self.profile_of(&pod)?;
        let facts = Arc::new(self.shapes.facts(&pod));
        let compiled = self.planning.compile(&pod);
        let api = Arc::new(if self.reads_whole_pods() { *pod } else { reduced(*pod) });
        let before = self.pending.get(&uid);
        let event = if before.is_none() { UNSCHEDULED_POD_ADD } else { UNSCHEDULED_POD_UPDATE };
        let nominated = nominated_node(&api);
        let is_new_nomination = before.map_or("", |before| nominated_node(&before.api)) != nominated;
        let stage = before.map_or(Stage::Queued, |before| before.stage.clone());
        // The plugins' own nominations are only replaced by one that the API tells anew.
        if is_new_nomination && stage == Stage::Queued {
            match nominated {
                "" => self.planning.withdraw(&uid.0),
                node => self.planning.nominate(&compiled, node),
            }
        }
        let kept = facts.clone();
        let before = self.pending.remove(&uid);
        let (reported, preparing) =
            before.map(|before| (before.reported, before.preparing)).unwrap_or_default();
        let pending =
            Pending { api, facts: kept, compiled, profile, stage: stage.clone(), preparing, reported };
        self.pending.insert(uid.clone(), pending);
        // While a job binds it the queue holds it in flight, and takes the update. Once it is bound the queue has let go
        // of it: a late event from the time before the binding must not bring it back.
        if stage == Stage::Queued || self.queue.pod(&uid).is_some() {
            self.with_queue(now, |queue, at| queue.add(at, facts, profile));
        }
        if stage == Stage::Queued {
            self.report_gates(&uid, now, effects);
        }
        Some(event)
    }

    /// Whether an extender reads more fields of pending pods than the executor does.
    fn reads_whole_pods(&self) -> bool {
        self.planning.reads_pods() || !self.options.binders.is_empty()
    }

    /// A pod needs no room any more: it was deleted, has ended, or was replaced by another of its name. Returns the label
    /// of the event.
    pub(super) fn pod_is_gone(
        &mut self,
        key: &ObjectKey,
        uid: &Uid,
        now: Now,
        effects: &mut Vec<Effect>,
    ) -> Option<&'static str> {
        let mut event = None;
        if let Some(mut pending) = self.pending.remove(uid) {
            // A job that waits for volumes or devices would look at those alone, for minutes.
            effects.extend(pending.preparing.take().map(Effect::Cancel));
            event = Some(UNSCHEDULED_POD_DELETE);
            self.leave_queue(uid, now);
            self.planning.withdraw(&uid.0);
            #[cfg(test)]
            if plant::is(Plant::IgnoresDeletion) {
                return event;
            }
            if pending.stage == Stage::Assumed {
                self.planning.forget(&uid.0);
                self.wake(Some(ClusterEvent::assigned_pod_deleted(pending.facts)), now);
            }
        }
        self.preempting.remove(uid);
        if let Some(facts) = self.assigned.remove(uid) {
            let gone = Pod { metadata: Some(metadata_of(key, &facts)), ..Pod::default() };
            self.planning.delete(&Stored::Pod(Box::new(gone)));
            #[cfg(test)]
            if plant::is(Plant::LosesWake) {
                return None;
            }
            event = self.wake(Some(ClusterEvent::assigned_pod_deleted(facts)), now);
        }
        event
    }

    /// Takes a pod out of the queue. A pod whose job is under way leaves when the job ends.
    fn leave_queue(&mut self, uid: &Uid, now: Now) {
        self.with_queue(now, |queue, at| queue.delete(at, uid));
    }

    /// Wakes the pods that `event` may help, and returns its label.
    pub(super) fn wake(&mut self, event: Option<ClusterEvent>, now: Now) -> Option<&'static str> {
        let event = event?;
        self.with_queue(now, |queue, at| queue.event(at, &event));
        Some(event.label())
    }
}

fn metadata_of(key: &ObjectKey, facts: &PodFacts) -> ObjectMeta {
    ObjectMeta {
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        uid: facts.uid.0.to_string(),
        ..ObjectMeta::default()
    }
}

/// Whether the pod is being deleted.
pub(super) fn is_ending(pod: &Pod) -> bool {
    pod.metadata.as_ref().is_some_and(|metadata| metadata.deletion_timestamp.is_some())
}

/// The node that the pod's status nominates; empty for none.
pub(super) fn nominated_node(pod: &Pod) -> &str {
    pod.status.as_ref().map_or("", |status| &status.nominated_node_name)
}
