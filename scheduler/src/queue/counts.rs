//! Numbers of pods for metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use super::hints::Hint;
use super::rejector::Rejector;

/// A part of the queue as metrics and logs name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueueName {
    /// To be planned next.
    Active,
    /// Waiting for the end of their backoff.
    Backoff,
    /// Rejected, waiting for an event that helps.
    Unschedulable,
    /// Refused before they were planned.
    Gated,
}

impl QueueName {
    /// The value of the label `queue`.
    pub fn label(self) -> &'static str {
        match self {
            QueueName::Active => "active",
            QueueName::Backoff => "backoff",
            QueueName::Unschedulable => "unschedulable",
            QueueName::Gated => "gated",
        }
    }
}

/// Numbers of pending pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// Pods in the active queue.
    pub active: usize,
    /// Pods in backoff.
    pub backoff: usize,
    /// Rejected pods.
    pub unschedulable: usize,
    /// Gated pods.
    pub gated: usize,
}

/// How long a hint took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HintCost {
    /// The plugin, or the extenders.
    pub rejector: Rejector,
    /// The event's label.
    pub event: &'static str,
    /// The hint's result.
    pub hint: Hint,
    /// How long it took.
    pub took: Duration,
}

/// Hints whose durations are kept between two calls of [`super::Queue::take_hint_costs`], which comes with each event and
/// each plan. Further ones of a single event are not measured: their durations are alike.
pub(super) const HINT_COSTS_MAX: usize = 1024;

/// How many pods came into which queue by which event. Gated pods come into the unschedulable one, as in the reference.
#[derive(Clone, Debug, Default)]
pub struct Incoming(BTreeMap<(QueueName, &'static str), u64>);

impl Incoming {
    pub(super) fn count(&mut self, queue: QueueName, event: &'static str) {
        *self.0.entry((queue, event)).or_default() += 1;
    }

    /// The number for one queue and event.
    pub fn of(&self, queue: QueueName, event: &str) -> u64 {
        self.iter().filter(|(one, label, _)| *one == queue && *label == event).map(|(.., count)| count).sum()
    }

    /// All numbers, with the queue and the event's label.
    pub fn iter(&self) -> impl Iterator<Item = (QueueName, &'static str, u64)> {
        self.0.iter().map(|((queue, event), count)| (*queue, *event, *count))
    }
}
