//! A pod in the queue: its place, and its attempts.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use super::pod::PodFacts;
use super::rejector::Rejectors;
use super::{QueuedPod, Rejection};
use crate::plugin::Plugin;

/// The number of an entry, counted up: older entries have smaller ones.
pub(super) type EntryId = u64;

/// Where a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Active,
    Backoff,
    /// Gated pods, too.
    Unschedulable,
    /// Popped; events from this number on came after the pop.
    InFlight {
        since: u64,
    },
}

/// Order of active pods: by priority, highest first, then by the time since which they are in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ActiveKey(Reverse<i32>, Duration, EntryId);

impl ActiveKey {
    pub(super) fn id(self) -> EntryId {
        self.2
    }
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: EntryId,
    pub(super) facts: Arc<PodFacts>,
    pub(super) profile: usize,
    pub(super) place: Place,
    /// When the pod came into the queue, or came back after its last attempt.
    pub(super) queued_at: Duration,
    pub(super) first_active_at: Option<Duration>,
    attempts: u32,
    /// Attempts that plugins rejected.
    pub(super) rejections: u32,
    /// Attempts since the last rejection that failed by errors.
    pub(super) errors: u32,
    /// `None` before the first attempt has failed.
    pub(super) backoff_until: Option<Duration>,
    pub(super) unschedulable: Rejectors,
    pub(super) pending: Rejectors,
    /// The plugin that refused at the last check before planning.
    pub(super) gated_by: Option<Plugin>,
    /// Deleted while in flight.
    pub(super) is_deleted: bool,
    /// The last move was by time alone, after too long among the rejected pods.
    pub(super) is_flushed: bool,
    /// Keys under which the entry stands in ordered sets: kept, since the pod's priority may change.
    pub(super) priority: i32,
}

impl Entry {
    pub(super) fn new(id: EntryId, facts: Arc<PodFacts>, profile: usize, now: Duration) -> Entry {
        Entry {
            id,
            priority: facts.priority,
            facts,
            profile,
            place: Place::Unschedulable,
            queued_at: now,
            first_active_at: None,
            attempts: 0,
            rejections: 0,
            errors: 0,
            backoff_until: None,
            unschedulable: Rejectors::NONE,
            pending: Rejectors::NONE,
            gated_by: None,
            is_deleted: false,
            is_flushed: false,
        }
    }

    /// The plugins whose hints decide about the pod.
    pub(super) fn rejectors(&self) -> Rejectors {
        self.unschedulable.union(self.pending)
    }

    pub(super) fn active_key(&self) -> ActiveKey {
        ActiveKey(Reverse(self.priority), self.queued_at, self.id)
    }

    /// Begins an attempt. What rejected the pod before no longer counts.
    pub(super) fn start(&mut self, since: u64, now: Duration) -> QueuedPod {
        self.attempts = self.attempts.saturating_add(1);
        self.place = Place::InFlight { since };
        self.unschedulable = Rejectors::NONE;
        self.pending = Rejectors::NONE;
        QueuedPod {
            facts: self.facts.clone(),
            profile: self.profile,
            attempts: self.attempts,
            queued_at: self.queued_at,
            first_active_at: *self.first_active_at.get_or_insert(now),
            is_flushed: self.is_flushed,
        }
    }

    /// Takes back the beginning of an attempt: the pod is not to be planned before `until`.
    pub(super) fn set_aside(&mut self, until: Duration) {
        self.attempts = self.attempts.saturating_sub(1);
        self.backoff_until = Some(until);
    }

    /// Ends an attempt without success.
    pub(super) fn fail(&mut self, now: Duration, rejection: Rejection) {
        self.unschedulable = rejection.unschedulable;
        self.pending = rejection.pending;
        self.queued_at = now;
        self.is_flushed = false;
        if self.rejectors().is_empty() {
            self.errors = self.errors.saturating_add(1);
        } else {
            self.rejections = self.rejections.saturating_add(1);
            self.errors = 0;
        }
    }
}
