//! Counters of a running member for metrics: durations of syncs, writes and reads, and what failed.
//!
//! Owns the counters that the parts of a member add to. Adding takes no lock, and nothing decides by a counter.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use openraft_rt::Instant;

use crate::Runtime;
use crate::store::{ProposeError, ReadError};
use crate::transaction::Outcome;

/// Upper bounds of the buckets of durations: half a millisecond, doubled fourteen times. Shorter ones are not told apart.
const BOUNDS: [Duration; 15] = {
    let mut bounds = [Duration::from_micros(500); 15];
    let mut at = 1;
    while at < bounds.len() {
        bounds[at] = bounds[at - 1].saturating_mul(2);
        at += 1;
    }
    bounds
};

/// Kinds of failures of proposals: those of [`ProposeError`], and a proposer that went away before the outcome. Clients whose patience is
/// shorter than that of a member without a leader see no other failure.
const FAILURES: [&str; 6] = ["abandoned", "no_space", "not_proposed", "refused", "too_large", "unknown"];

/// The index of proposers that went away in [`FAILURES`].
const ABANDONED: usize = 0;

/// Durations by bucket.
#[derive(Debug, Default)]
pub(crate) struct Durations {
    buckets: [AtomicU64; BOUNDS.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

/// The durations of one kind of work at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DurationCounts {
    /// Upper bounds, ascending, each with the number of durations that are no longer.
    pub within: Vec<(Duration, u64)>,
    /// The number of all.
    pub count: u64,
    /// The sum of all.
    pub sum: Duration,
}

/// The counters of a member.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// From a proposal until it is applied here.
    proposals: Durations,
    /// Failed proposals by the index in [`FAILURES`].
    failures: [AtomicU64; FAILURES.len()],
    /// From the start of a linearizable read until its revision is applied here.
    reads: Durations,
    failed_reads: AtomicU64,
    /// Proposals that were sent to another member, the leader.
    forwarded: AtomicU64,
    /// Leaders that this member has followed, itself among them.
    leaders: AtomicU64,
}

/// The counts of a member since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// From a proposal of this member until it is applied here.
    pub proposals: DurationCounts,
    /// Failed proposals by kind.
    pub proposals_failed: Vec<(&'static str, u64)>,
    /// Proposals that were sent to another member, the leader.
    pub proposals_forwarded: u64,
    /// Linearizable reads that asked the leader or a quorum.
    pub reads: DurationCounts,
    /// Those that failed.
    pub reads_failed: u64,
    /// Changes of the leader that this member has seen.
    pub leader_changes: u64,
}

impl Durations {
    pub(crate) fn observe(&self, duration: Duration) {
        if let Some(bucket) = self.buckets.get(BOUNDS.partition_point(|bound| *bound < duration)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Durations that come meanwhile are in the next one.
    pub(crate) fn counts(&self) -> DurationCounts {
        let mut total = 0;
        let within = BOUNDS.iter().zip(&self.buckets).map(|(bound, bucket)| {
            total += bucket.load(Ordering::Relaxed);
            (*bound, total)
        });
        let within: Vec<(Duration, u64)> = within.collect();
        let count = self.count.load(Ordering::Relaxed).max(total);
        DurationCounts { within, count, sum: Duration::from_micros(self.micros.load(Ordering::Relaxed)) }
    }
}

/// A proposal or a read of a client, under way: dropped before its end, it counts as failed.
#[derive(Debug)]
pub(crate) struct UnderWay<'a> {
    /// `None` once it has ended.
    failures: Option<&'a AtomicU64>,
}

impl UnderWay<'_> {
    /// The work has ended, and its result is counted by itself.
    pub(crate) fn end(mut self) {
        self.failures = None;
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(failures) = self.failures {
            failures.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Counters {
    /// A client's proposal begins.
    pub(crate) fn begin_proposal(&self) -> UnderWay<'_> {
        UnderWay { failures: Some(&self.failures[ABANDONED]) }
    }

    /// A read begins.
    pub(crate) fn begin_read(&self) -> UnderWay<'_> {
        UnderWay { failures: Some(&self.failed_reads) }
    }

    /// Counts the end of a proposal that took `duration`.
    pub(crate) fn note_proposal(&self, result: &Result<Outcome, ProposeError>, duration: Duration) {
        let failure = match result {
            Ok(_) => return self.proposals.observe(duration),
            Err(ProposeError::NoSpace { .. }) => 1,
            Err(ProposeError::NotProposed { .. }) => 2,
            Err(ProposeError::Refused { .. }) => 3,
            Err(ProposeError::TooLarge { .. }) => 4,
            Err(ProposeError::Unknown { .. }) => 5,
        };
        self.failures[failure].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the end of a read that took `duration`.
    pub(crate) fn note_read<T>(&self, result: &Result<T, ReadError>, duration: Duration) {
        match result {
            Ok(_) => self.reads.observe(duration),
            Err(_) => {
                self.failed_reads.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Counts proposals that were sent to the leader.
    pub(crate) fn note_forwarded(&self, count: usize) {
        self.forwarded.fetch_add(count as u64, Ordering::Relaxed);
    }

    /// The counts so far.
    pub(crate) fn counts(&self) -> Counts {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let failed = FAILURES.iter().zip(&self.failures).map(|(kind, failures)| (*kind, count(failures)));
        Counts {
            proposals: self.proposals.counts(),
            proposals_failed: failed.collect(),
            proposals_forwarded: count(&self.forwarded),
            reads: self.reads.counts(),
            reads_failed: count(&self.failed_reads),
            // The first one is no change.
            leader_changes: count(&self.leaders).saturating_sub(1),
        }
    }

    /// Counts a leader that this member follows from now on, itself among them.
    pub(crate) fn note_leader(&self) {
        self.leaders.fetch_add(1, Ordering::Relaxed);
    }
}

/// Time since `began` on the runtime's clock.
pub(crate) fn since<R: Runtime>(began: R::Instant) -> Duration {
    R::Instant::now().saturating_duration_since(began)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Revision;

    #[test]
    fn durations_are_counted_within_their_bounds() {
        let durations = Durations::default();
        for micros in [0, 500, 501, 8_192_000, 9_000_000] {
            durations.observe(Duration::from_micros(micros));
        }
        let counts = durations.counts();
        let within = |at: usize| counts.within[at];
        assert_eq!(within(0), (Duration::from_micros(500), 2));
        assert_eq!(within(1), (Duration::from_millis(1), 3));
        assert_eq!(within(14), (Duration::from_micros(8_192_000), 4));
        assert_eq!((counts.count, counts.sum), (5, Duration::from_micros(17_193_001)));
    }

    #[test]
    fn proposals_are_counted_by_their_ends() {
        let counters = Counters::default();
        let done = Outcome::Applied { revision: Revision(1), object: None, previous: None };
        let reason = String::new();
        for result in [
            Ok(done),
            Err(ProposeError::Unknown { reason: reason.clone() }),
            Err(ProposeError::TooLarge { bytes: 1, limit: 0 }),
            Err(ProposeError::NotProposed { reason: reason.clone() }),
            Err(ProposeError::NotProposed { reason }),
        ] {
            counters.note_proposal(&result, Duration::from_millis(1));
        }
        assert_eq!(counters.proposals.counts().count, 1);
        let failures: Vec<u64> =
            counters.failures.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        assert_eq!(failures, [0, 0, 2, 0, 1, 1]);
    }

    #[test]
    fn work_that_its_client_leaves_is_counted_as_failed() {
        let counters = Counters::default();
        counters.begin_proposal().end();
        counters.begin_read().end();
        let failed = |counters: &Counters| {
            let counts = counters.counts();
            (counts.proposals_failed[ABANDONED], counts.reads_failed)
        };
        assert_eq!(failed(&counters), (("abandoned", 0), 0));
        drop(counters.begin_proposal());
        drop(counters.begin_read());
        assert_eq!(failed(&counters), (("abandoned", 1), 1));
    }
}
