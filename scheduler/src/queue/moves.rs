//! Moves of pods between the parts of the queue.

use std::sync::Arc;

use super::backoff::Backoff;
use super::counts::{HINT_COSTS_MAX, HintCost, QueueName};
use super::entry::{Entry, EntryId, Place};
use super::event::{ClusterEvent, Subject};
use super::hints::{self, Hint};
use super::in_flight::Since;
use super::pod::{PodFacts, PodShape};
use super::rejector::{Rejector, Rejectors};
use super::{At, Queue};
use crate::plugin::Plugin;

/// The effect of an event on a rejected pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strategy {
    /// The pod stays where it is.
    Skip,
    /// The pod is tried again after its backoff.
    AfterBackoff,
    /// The pod is tried again at once.
    Immediately,
}

impl Queue {
    pub(super) fn insert(&mut self, at: At<'_>, facts: Arc<PodFacts>, profile: usize, label: &'static str) {
        let id = self.next_id;
        self.next_id += 1;
        self.ids.insert(facts.uid.clone(), id);
        self.nominator.update(&facts, &facts);
        self.entries.insert(id, Entry::new(id, facts, profile, at.now));
        self.make_active(at, id, label);
    }

    /// Puts the entry, which is nowhere, where `strategy` leads.
    pub(super) fn place(
        &mut self,
        at: At<'_>,
        id: EntryId,
        strategy: Strategy,
        label: &'static str,
    ) -> QueueName {
        let waits = Backoff::is_backing_off(&self.entries[&id], at.now);
        match strategy {
            Strategy::Skip => {
                let entry = self.entries.get_mut(&id).expect("a moved id has an entry");
                entry.place = Place::Unschedulable;
                self.unschedulable.insert(entry);
                self.incoming.count(QueueName::Unschedulable, label);
                QueueName::Unschedulable
            }
            Strategy::AfterBackoff if waits => self.make_waiting(at, id, label),
            Strategy::AfterBackoff | Strategy::Immediately => self.make_active(at, id, label),
        }
    }

    /// Makes the entry, which is nowhere, active unless it is gated.
    pub(super) fn make_active(&mut self, at: At<'_>, id: EntryId, label: &'static str) -> QueueName {
        if self.gate(at, id, label) {
            return QueueName::Gated;
        }
        let entry = self.entries.get_mut(&id).expect("a moved id has an entry");
        entry.first_active_at.get_or_insert(at.now);
        self.settle_active(id, label);
        QueueName::Active
    }

    /// Makes the entry, which is nowhere and not gated, active.
    pub(super) fn settle_active(&mut self, id: EntryId, label: &'static str) {
        let entry = self.entries.get_mut(&id).expect("a moved id has an entry");
        entry.place = Place::Active;
        self.active.insert(entry.active_key());
        self.incoming.count(QueueName::Active, label);
    }

    /// Lets the entry, which is nowhere, wait for its backoff unless it is gated.
    fn make_waiting(&mut self, at: At<'_>, id: EntryId, label: &'static str) -> QueueName {
        if self.gate(at, id, label) {
            return QueueName::Gated;
        }
        let entry = self.entries.get_mut(&id).expect("a moved id has an entry");
        entry.place = Place::Backoff;
        self.backoff.insert(entry);
        self.incoming.count(QueueName::Backoff, label);
        QueueName::Backoff
    }

    /// Asks whether the pod may be planned. If not it is put among the gated ones.
    fn gate(&mut self, at: At<'_>, id: EntryId, label: &'static str) -> bool {
        let entry = self.entries.get_mut(&id).expect("a moved id has an entry");
        let enabled = self.options.profiles.get(entry.profile).copied().unwrap_or_default();
        let has_gates = enabled.contains(Plugin::SchedulingGates) && !entry.facts.shape.gates.is_empty();
        let refused = if has_gates {
            Some(Plugin::SchedulingGates)
        } else {
            (at.pre_enqueue)(&entry.facts).filter(|plugin| enabled.contains(*plugin))
        };
        entry.gated_by = refused;
        let Some(plugin) = refused else { return false };
        entry.unschedulable = entry.unschedulable.with(plugin);
        entry.place = Place::Unschedulable;
        self.unschedulable.insert(entry);
        self.incoming.count(QueueName::Unschedulable, label);
        true
    }

    /// Takes the entry out of the place where it is.
    pub(super) fn detach(&mut self, id: EntryId) {
        let entry = &self.entries[&id];
        match entry.place {
            Place::Active => {
                self.active.remove(&entry.active_key());
            }
            Place::Backoff => self.backoff.remove(entry),
            Place::Unschedulable => self.unschedulable.remove(entry),
            Place::InFlight { .. } => {}
        }
    }

    /// Puts the entry where it is once more: its facts are new.
    pub(super) fn replace(&mut self, id: EntryId) {
        self.detach(id);
        let entry = self.entries.get_mut(&id).expect("a moved id has an entry");
        entry.priority = entry.facts.priority;
        match entry.place {
            Place::Active => {
                self.active.insert(entry.active_key());
            }
            Place::Backoff => self.backoff.insert(entry),
            Place::Unschedulable => self.unschedulable.insert(entry),
            Place::InFlight { .. } => {}
        }
    }

    /// Takes in an event that only helps pods of priority `priority_max` at most.
    pub(super) fn event_up_to(&mut self, at: At<'_>, event: &ClusterEvent, priority_max: i32) {
        if !self.interests().intersects(event.kinds) {
            return;
        }
        self.in_flight.record(event.clone());
        let groups = match event.subject {
            Subject::Wildcard { .. } => self.unschedulable.rejected_groups(),
            _ => {
                let concerned = |rejector: &Rejector| hints::interests(*rejector).intersects(event.kinds);
                self.unschedulable.groups_of(Rejector::all().filter(concerned))
            }
        };
        let mut woken = Vec::new();
        for id in groups {
            let group = self.unschedulable.group(id);
            let rejected = Rejected::new(group.profile, &group.shape, group.unschedulable, group.pending);
            let strategy = self.strategy(rejected, event);
            if strategy != Strategy::Skip {
                woken.extend(group.members.iter().map(|member| (*member, strategy)));
            }
        }
        for (id, strategy) in woken {
            if self.entries[&id].facts.priority <= priority_max {
                self.detach(id);
                self.place(at, id, strategy, event.label());
            }
        }
    }

    /// Moves one unschedulable pod on if `event` helps it.
    pub(super) fn wake(&mut self, at: At<'_>, id: EntryId, event: &ClusterEvent) {
        let group = self.unschedulable.group_of(id);
        let rejected = Rejected::new(group.profile, &group.shape, group.unschedulable, group.pending);
        let strategy = self.strategy(rejected, event);
        if strategy != Strategy::Skip {
            self.detach(id);
            self.place(at, id, strategy, event.label());
        }
    }

    /// The strongest effect of the events since its pop, for a pod that comes back.
    pub(super) fn strategy_since(&self, id: EntryId, since: u64) -> Strategy {
        let entry = &self.entries[&id];
        if entry.rejectors().is_empty() {
            return Strategy::AfterBackoff;
        }
        let Since::Events(events) = self.in_flight.since(since) else { return Strategy::AfterBackoff };
        let mut best = Strategy::Skip;
        for event in events {
            let is_for_another = match &event.subject {
                Subject::Own { new, .. } => new.uid != entry.facts.uid,
                Subject::Wildcard { only } => only.as_ref().is_some_and(|only| *only != entry.facts.uid),
                _ => false,
            };
            if is_for_another {
                continue;
            }
            let shape = &entry.facts.shape;
            let rejected = Rejected::new(entry.profile, shape, entry.unschedulable, entry.pending);
            best = best.max(self.strategy(rejected, event));
            let can_be_better = !entry.pending.is_empty();
            if best == Strategy::Immediately || (best == Strategy::AfterBackoff && !can_be_better) {
                break;
            }
        }
        best
    }

    /// The effect of `event` on a rejected pod: the hints of the plugins that rejected it decide.
    fn strategy(&self, rejected: Rejected<'_>, event: &ClusterEvent) -> Strategy {
        if matches!(event.subject, Subject::Wildcard { .. }) {
            return Strategy::AfterBackoff;
        }
        let enabled = self.options.profiles.get(rejected.profile).copied().unwrap_or_default();
        let asked = rejected.unschedulable.union(rejected.pending).intersection(enabled);
        let helped = asked.iter().filter(|rejector| {
            hints::interests(*rejector).intersects(event.kinds)
                && self.hint(*rejector, rejected.shape, event) == Hint::Queue
        });
        let strategies = helped.map(|rejector| {
            if rejected.pending.contains(rejector) { Strategy::Immediately } else { Strategy::AfterBackoff }
        });
        strategies.max().unwrap_or(Strategy::Skip)
    }

    /// The hint of `rejector`, with its duration recorded.
    fn hint(&self, rejector: Rejector, shape: &PodShape, event: &ClusterEvent) -> Hint {
        let stopwatch = &self.options.stopwatch;
        let started = stopwatch.start();
        let hint = hints::hint(rejector, shape, event, &self.namespaces);
        if let Some(took) = stopwatch.since(started) {
            let mut costs = self.hint_costs.borrow_mut();
            if costs.len() < HINT_COSTS_MAX {
                costs.push(HintCost { rejector, event: event.label(), hint, took });
            }
        }
        hint
    }
}

/// A rejected pod, or a group of them, as hints see it.
#[derive(Clone, Copy)]
struct Rejected<'a> {
    profile: usize,
    shape: &'a PodShape,
    unschedulable: Rejectors,
    pending: Rejectors,
}

impl<'a> Rejected<'a> {
    fn new(
        profile: usize,
        shape: &'a PodShape,
        unschedulable: Rejectors,
        pending: Rejectors,
    ) -> Rejected<'a> {
        Rejected { profile, shape, unschedulable, pending }
    }
}
