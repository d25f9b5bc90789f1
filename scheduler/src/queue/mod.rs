//! The queue: which pod is planned next, and when a rejected one is tried again.
//!
//! ```text
//!                      add, update                      pop
//!                          |        +--------> active ------> in flight ---> done: bound, or gone
//!                          v        |            ^                |
//!                     pre-enqueue --+            | backoff over   | requeue: rejected, or failed
//!                          | refuses             |                v
//!                          v                  backoff <---- event that helps, of those since the pop?
//!                        gated                   ^                | none
//!                          |                     |                v
//!                          +---------------------+--------- unschedulable
//!                                  an event that helps; five minutes
//! ```
//!
//! Pure and synchronous: time comes in with each call ([`At`]) as the time since any fixed moment, and so does the check
//! that runs before a pod is planned. One owner feeds it: watches through [`Queue::add`], [`Queue::update`],
//! [`Queue::delete`] and [`Queue::event`]; the scheduling loop through [`Queue::pop`], [`Queue::requeue`] and
//! [`Queue::done`]; a timer through [`Queue::tick`] at [`Queue::next_tick`]. Never plans, binds or writes anything.
//!
//! The queue keeps small facts of its own about objects: [`PodFacts`] (made by [`Shapes::facts`]), [`NodeFacts`], and
//! [`ClusterEvent`]s, whose constructors take the API's structs and drop changes that help nobody.
//!
//! Invariants: a pod is in one place; a popped pod stays in flight until `requeue` or `done`, and no event that arrives
//! meanwhile is lost to it; a gated pod is never popped; a pod that an event helps is popped after its backoff at the
//! latest. An event costs one hint for each group of rejected pods with the same shape and the same plugins that reject
//! them, among those plugins that it can help, and one step for each pod that it wakes.

pub mod counts;
pub mod event;
pub mod hints;
pub mod node;
pub mod nominator;
pub mod pod;
pub mod rejector;
pub mod requests;

mod backoff;
mod entry;
mod in_flight;
mod moves;
mod unschedulable;

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

pub use self::counts::{HintCost, Incoming, Pending, QueueName};
pub use self::event::{ClusterEvent, POD_POPPED};
pub use self::hints::{Hint, NamespaceLabels};
pub use self::node::NodeFacts;
pub use self::nominator::Nominator;
pub use self::pod::{PodFacts, PodShape, Shapes, Uid};
pub use self::rejector::{Rejector, Rejectors};

use self::backoff::Backoff;
use self::entry::{ActiveKey, Entry, EntryId, Place};
use self::event::EventKinds;
use self::in_flight::InFlight;
use self::unschedulable::Unschedulable;
use crate::plugin::Plugin;
use crate::selector::Labels;
use crate::stopwatch::Stopwatch;

/// Checks a pod before it is planned: the plugin that refuses, or `None`. Scheduling gates are the queue's own; the caller
/// adds what needs other objects: claims that are missing (`DynamicResources`), evictions under way
/// (`DefaultPreemption`).
pub type PreEnqueue<'a> = &'a dyn Fn(&PodFacts) -> Option<Plugin>;

/// The moment of a call, and the check that holds then.
#[derive(Clone, Copy)]
pub struct At<'a> {
    /// Time since a fixed moment, the same for all calls. Never goes back.
    pub now: Duration,
    /// The check before a pod is planned.
    pub pre_enqueue: PreEnqueue<'a>,
}

/// Settings of the queue.
#[derive(Clone, Debug)]
pub struct QueueOptions {
    /// `podInitialBackoffSeconds`.
    pub initial_backoff: Duration,
    /// `podMaxBackoffSeconds`.
    pub max_backoff: Duration,
    /// `--pod-max-in-unschedulable-pods-duration`: how long a pod stays rejected without an event that helps.
    pub max_in_unschedulable: Duration,
    /// For each profile, in the order of the configuration, its plugins that are enabled at any extension point; with
    /// [`Rejector::Extenders`] if there are extenders.
    pub profiles: Vec<Rejectors>,
    /// Measures hints for the metrics.
    pub stopwatch: Stopwatch,
}

impl Default for QueueOptions {
    fn default() -> QueueOptions {
        QueueOptions {
            initial_backoff: Duration::from_secs(1),
            max_backoff: Duration::from_secs(10),
            max_in_unschedulable: Duration::from_secs(300),
            profiles: vec![Rejectors::all()],
            stopwatch: Stopwatch::default(),
        }
    }
}

/// A pod that was popped: to be planned, and then requeued or done.
#[derive(Clone, Debug)]
pub struct QueuedPod {
    /// The pod as it was last seen.
    pub facts: Arc<PodFacts>,
    /// Index of its profile.
    pub profile: usize,
    /// Number of attempts with this one.
    pub attempts: u32,
    /// When it came into the queue, or came back after its last attempt.
    pub queued_at: Duration,
    /// When it could first have been planned.
    pub first_active_at: Duration,
    /// Whether time alone, and no event that helps, brought it back.
    pub is_flushed: bool,
}

/// Why a popped pod comes back. Without any plugin the attempt failed by an error, such as a lost connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rejection {
    /// Plugins that found no node.
    pub unschedulable: Rejectors,
    /// Plugins that wait for something that others do: an event that helps them skips the backoff.
    pub pending: Rejectors,
}

/// The queue.
#[derive(Debug)]
pub struct Queue {
    options: QueueOptions,
    entries: HashMap<EntryId, Entry>,
    ids: HashMap<Uid, EntryId>,
    next_id: EntryId,
    active: BTreeSet<ActiveKey>,
    backoff: Backoff,
    unschedulable: Unschedulable,
    in_flight: InFlight,
    nominator: Nominator,
    namespaces: NamespaceLabels,
    incoming: Incoming,
    hint_costs: RefCell<Vec<HintCost>>,
}

impl Queue {
    /// An empty queue.
    pub fn new(options: QueueOptions) -> Queue {
        Queue {
            backoff: Backoff::new(options.initial_backoff, options.max_backoff),
            options,
            entries: HashMap::new(),
            ids: HashMap::new(),
            next_id: 0,
            active: BTreeSet::new(),
            unschedulable: Unschedulable::default(),
            in_flight: InFlight::default(),
            nominator: Nominator::default(),
            namespaces: BTreeMap::new(),
            incoming: Incoming::default(),
            hint_costs: RefCell::default(),
        }
    }

    /// An empty queue that counts on where `before` ends.
    pub fn continuing(options: QueueOptions, before: &mut Queue) -> Queue {
        Queue { incoming: std::mem::take(&mut before.incoming), ..Queue::new(options) }
    }

    /// Adds a pending pod of the profile with this index. A pod that is known already is updated.
    pub fn add(&mut self, at: At<'_>, facts: Arc<PodFacts>, profile: usize) {
        if self.ids.contains_key(&facts.uid) {
            self.update(at, facts, profile);
        } else {
            self.insert(at, facts, profile, event::UNSCHEDULED_POD_ADD);
        }
    }

    /// Takes in that a pending pod has changed. A pod that is not known is added.
    pub fn update(&mut self, at: At<'_>, facts: Arc<PodFacts>, profile: usize) {
        let Some(&id) = self.ids.get(&facts.uid) else {
            self.insert(at, facts, profile, event::UNSCHEDULED_POD_UPDATE);
            return;
        };
        let entry = self.entries.get_mut(&id).expect("an id leads to an entry");
        let old = std::mem::replace(&mut entry.facts, facts.clone());
        entry.is_deleted = false;
        self.nominator.update(&old, &facts);
        let change = ClusterEvent::own(old, facts);
        self.replace(id);
        let Some(change) = change else { return };
        match self.entries[&id].place {
            Place::InFlight { .. } => self.in_flight.record(change),
            Place::Unschedulable => self.wake(at, id, &change),
            Place::Active | Place::Backoff => {}
        }
    }

    /// Takes in that a pending pod is gone, or is no longer this scheduler's: deleted, or bound. Room that was kept for
    /// it on a node may help pods of at most its priority.
    pub fn delete(&mut self, at: At<'_>, uid: &Uid) {
        let was_nominated = self.nominator.remove(uid);
        let Some(&id) = self.ids.get(uid) else { return };
        let facts = self.entries[&id].facts.clone();
        if let Place::InFlight { .. } = self.entries[&id].place {
            self.entries.get_mut(&id).expect("an id leads to an entry").is_deleted = true;
        } else {
            self.detach(id);
            self.entries.remove(&id);
            self.ids.remove(uid);
        }
        if was_nominated {
            let priority = facts.priority;
            self.event_up_to(at, &ClusterEvent::assigned_pod_deleted(facts), priority);
        }
    }

    /// The pod to plan next: of highest priority among the active ones, then the oldest. With no active pod, one whose
    /// backoff ends soonest: there is nothing better to do.
    pub fn pop(&mut self, now: Duration) -> Option<QueuedPod> {
        let id = match self.active.pop_first() {
            Some(key) => key.id(),
            None => {
                let id = self.backoff.pop_soonest()?;
                self.incoming.count(QueueName::Active, event::POP_FROM_BACKOFF);
                id
            }
        };
        let since = self.in_flight.start();
        let entry = self.entries.get_mut(&id).expect("a queued id has an entry");
        Some(entry.start(since, now))
    }

    /// Brings a popped pod back. Returns where it went; `None` if it was deleted meanwhile, or was not popped.
    pub fn requeue(&mut self, at: At<'_>, uid: &Uid, rejection: Rejection) -> Option<QueueName> {
        self.bring_back(at, uid, |entry, backoff| {
            entry.fail(at.now, rejection);
            entry.backoff_until = backoff.until(entry);
        })
    }

    /// Brings a popped pod back that is not planned before `until`, whatever happens. It counts neither as an attempt nor as
    /// a failure.
    pub fn set_aside(&mut self, at: At<'_>, uid: &Uid, until: Duration) -> Option<QueueName> {
        self.bring_back(at, uid, |entry, _| entry.set_aside(until))
    }

    fn bring_back(
        &mut self,
        at: At<'_>,
        uid: &Uid,
        end: impl FnOnce(&mut Entry, &Backoff),
    ) -> Option<QueueName> {
        let id = *self.ids.get(uid)?;
        let Place::InFlight { since } = self.entries[&id].place else { return None };
        if self.entries[&id].is_deleted {
            self.done(uid);
            return None;
        }
        end(self.entries.get_mut(&id).expect("an id leads to an entry"), &self.backoff);
        let strategy = self.strategy_since(id, since);
        self.in_flight.finish(since);
        Some(self.place(at, id, strategy, event::SCHEDULE_ATTEMPT_FAILURE))
    }

    /// Forgets a popped pod: it is bound.
    pub fn done(&mut self, uid: &Uid) {
        let Some(&id) = self.ids.get(uid) else { return };
        if let Place::InFlight { since } = self.entries[&id].place {
            self.in_flight.finish(since);
            self.nominator.remove(uid);
            self.entries.remove(&id);
            self.ids.remove(uid);
        }
    }

    /// Takes in a change of the cluster: rejected pods that it may help become active, or wait for their backoff.
    pub fn event(&mut self, at: At<'_>, event: &ClusterEvent) {
        self.event_up_to(at, event, i32::MAX);
    }

    /// Makes a pod active, whatever rejected it: what it waited for has ended. Of a pod in flight this is remembered.
    pub fn activate(&mut self, at: At<'_>, uid: &Uid) {
        let Some(&id) = self.ids.get(uid) else { return };
        match self.entries[&id].place {
            Place::Active => {}
            Place::InFlight { .. } => self.in_flight.record(ClusterEvent::force_activate(uid.clone())),
            Place::Backoff | Place::Unschedulable => {
                self.detach(id);
                self.make_active(at, id, event::FORCE_ACTIVATE);
            }
        }
    }

    /// Moves on pods whose backoff is over, and those that were rejected too long ago.
    pub fn tick(&mut self, at: At<'_>) {
        for id in self.backoff.take_completed(at.now) {
            self.settle_active(id, event::BACKOFF_COMPLETE);
        }
        let Some(before) = at.now.checked_sub(self.options.max_in_unschedulable) else { return };
        for id in self.unschedulable.rejected_before(before) {
            self.entries.get_mut(&id).expect("a rejected id has an entry").is_flushed = true;
            self.wake(at, id, &ClusterEvent::wildcard());
        }
    }

    /// When [`Queue::tick`] has something to do.
    pub fn next_tick(&self) -> Option<Duration> {
        let oldest = self.unschedulable.oldest();
        // Pods are moved once they were rejected for longer than the bound.
        let timeout = oldest.map(|at| at + self.options.max_in_unschedulable + Duration::from_nanos(1));
        self.backoff.next_completed().into_iter().chain(timeout).min()
    }

    /// Takes in the labels of a namespace, which terms of pod affinity may select by.
    pub fn set_namespace(&mut self, name: &str, labels: Labels) {
        self.namespaces.insert(name.to_owned(), labels);
    }

    /// Takes in that a namespace is gone.
    pub fn remove_namespace(&mut self, name: &str) {
        self.namespaces.remove(name);
    }

    /// Pods that are to go to nodes where others make room for them.
    pub fn nominator(&self) -> &Nominator {
        &self.nominator
    }

    /// The same, to nominate and to withdraw.
    pub fn nominator_mut(&mut self) -> &mut Nominator {
        &mut self.nominator
    }

    /// The pod as it was last seen.
    pub fn pod(&self, uid: &Uid) -> Option<&Arc<PodFacts>> {
        self.ids.get(uid).map(|id| &self.entries[id].facts)
    }

    /// Where the pod is; `None` if it is in flight or not known.
    pub fn place_of(&self, uid: &Uid) -> Option<QueueName> {
        let entry = &self.entries[self.ids.get(uid)?];
        match entry.place {
            Place::Active => Some(QueueName::Active),
            Place::Backoff => Some(QueueName::Backoff),
            Place::Unschedulable if entry.gated_by.is_some() => Some(QueueName::Gated),
            Place::Unschedulable => Some(QueueName::Unschedulable),
            Place::InFlight { .. } => None,
        }
    }

    /// Numbers of pending pods.
    pub fn pending(&self) -> Pending {
        Pending {
            active: self.active.len(),
            backoff: self.backoff.len(),
            unschedulable: self.unschedulable.len() - self.unschedulable.gated_len(),
            gated: self.unschedulable.gated_len(),
        }
    }

    /// How many pods came into which queue by which event, since the start.
    pub fn incoming(&self) -> &Incoming {
        &self.incoming
    }

    /// Durations of hints since the last call; nothing without a stopwatch.
    pub fn take_hint_costs(&mut self) -> Vec<HintCost> {
        self.hint_costs.take()
    }

    /// Events that are kept for pods in flight, by their labels, and the pods in flight under [`POD_POPPED`].
    pub fn in_flight(&self) -> BTreeMap<&'static str, usize> {
        self.in_flight.by_label()
    }

    /// Numbers of rejected pods by profile and by who rejected them.
    pub fn rejected(&self) -> BTreeMap<(usize, Rejector), usize> {
        self.unschedulable.by_rejector()
    }

    /// Kinds of events that may help pods of some profile. Others need not be made.
    pub fn interests(&self) -> EventKinds {
        let enabled = self.options.profiles.iter().fold(Rejectors::NONE, |all, one| all.union(*one));
        enabled.iter().fold(EventKinds::NONE, |all, rejector| all.union(hints::interests(rejector)))
    }
}
