//! Events that arrive while pods are being planned or bound.
//!
//! A pod that comes back rejected was planned without them, so they are asked again then. Owns the events since the
//! oldest pop that has not ended, each once whatever the number of pods. Invariant: an event is kept as long as a pod in
//! flight was popped before it, or the pod learns that events were lost.

use std::collections::{BTreeMap, VecDeque};

use super::event::{ClusterEvent, POD_POPPED};

/// Events that are kept. A binding that waits long sees more: its pod, if it comes back, is tried again as if anything
/// might have happened. At about a hundred bytes each this is a few megabytes.
const EVENTS_MAX: usize = 1 << 15;

#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// Numbers of pods by the event from which on they are concerned.
    pods: BTreeMap<u64, usize>,
    events: VecDeque<ClusterEvent>,
    /// The number of the first kept event.
    first: u64,
}

/// The events since a pop.
#[derive(Debug)]
pub(super) enum Since<'a, I: Iterator<Item = &'a ClusterEvent>> {
    /// These events.
    Events(I),
    /// More events came than are kept.
    Lost,
}

impl InFlight {
    /// A pod is popped: the number from which on events concern it.
    pub(super) fn start(&mut self) -> u64 {
        let since = self.end();
        *self.pods.entry(since).or_default() += 1;
        since
    }

    /// Keeps an event for the pods in flight.
    pub(super) fn record(&mut self, event: ClusterEvent) {
        if self.pods.is_empty() {
            return;
        }
        if self.events.len() == EVENTS_MAX {
            self.events.pop_front();
            self.first += 1;
        }
        self.events.push_back(event);
    }

    /// The events since a pop.
    pub(super) fn since(&self, since: u64) -> Since<'_, impl Iterator<Item = &ClusterEvent>> {
        match since.checked_sub(self.first) {
            Some(skipped) => {
                let skipped = usize::try_from(skipped).unwrap_or(usize::MAX);
                Since::Events(self.events.iter().skip(skipped))
            }
            None => Since::Lost,
        }
    }

    /// A pod that was popped at `since` is no longer in flight.
    pub(super) fn finish(&mut self, since: u64) {
        let count = self.pods.get_mut(&since).expect("a pod finishes once, with the number of its start");
        *count -= 1;
        if *count == 0 {
            self.pods.remove(&since);
        }
        let needed = self.pods.first_key_value().map_or(self.end(), |(since, _)| *since);
        while self.first < needed && self.events.pop_front().is_some() {
            self.first += 1;
        }
    }

    /// Numbers of events by label, and of pods.
    pub(super) fn by_label(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::from([(POD_POPPED, self.len())]);
        for event in &self.events {
            *counts.entry(event.label()).or_default() += 1;
        }
        counts
    }

    /// Number of pods.
    pub(super) fn len(&self) -> usize {
        self.pods.values().sum()
    }

    fn end(&self) -> u64 {
        self.first + u64::try_from(self.events.len()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(log: &InFlight, since: u64) -> Option<usize> {
        match log.since(since) {
            Since::Events(events) => Some(events.count()),
            Since::Lost => None,
        }
    }

    #[test]
    fn a_pod_sees_the_events_since_its_pop() {
        let mut log = InFlight::default();
        log.record(ClusterEvent::wildcard());
        let early = log.start();
        log.record(ClusterEvent::wildcard());
        let late = log.start();
        log.record(ClusterEvent::wildcard());
        assert_eq!((count(&log, early), count(&log, late)), (Some(2), Some(1)));
        assert_eq!(log.len(), 2);
    }

    #[test]
    fn events_that_nobody_needs_are_dropped() {
        let mut log = InFlight::default();
        let early = log.start();
        log.record(ClusterEvent::wildcard());
        let late = log.start();
        log.record(ClusterEvent::wildcard());
        log.finish(early);
        assert_eq!(log.events.len(), 1);
        assert_eq!(count(&log, late), Some(1));
        log.finish(late);
        assert!(log.events.is_empty());
        assert_eq!(log.len(), 0);
    }

    #[test]
    fn a_pod_in_flight_for_too_long_learns_that_events_were_lost() {
        let mut log = InFlight::default();
        let early = log.start();
        for _ in 0..EVENTS_MAX {
            log.record(ClusterEvent::wildcard());
        }
        assert_eq!(count(&log, early), Some(EVENTS_MAX));
        log.record(ClusterEvent::wildcard());
        assert_eq!(count(&log, early), None);
        let late = log.start();
        assert_eq!(count(&log, late), Some(0));
        log.finish(early);
        log.finish(late);
        assert!(log.events.is_empty());
    }
}
