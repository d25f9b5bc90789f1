//! Ages of revisions in the history.
//!
//! Owns pairs of a time and the revision that was applied then, by the monotonic clock of the runtime: wall clocks differ
//! between members and jump, and a jump must not trim history. After a start every revision counts as no older than the
//! start, so history is kept longer then, never shorter.

use std::collections::VecDeque;
use std::time::Duration;

use openraft_rt::Instant;

use crate::key::Revision;

/// Pairs kept: for an age of five minutes one every three seconds, which is the precision of an age.
const PAIRS_MAX: usize = 100;

/// Samples of the applied revision over time.
#[derive(Debug)]
pub(super) struct Ages<I> {
    age: Duration,
    /// Oldest first.
    pairs: VecDeque<(I, Revision)>,
    /// The newest revision known to be older than `age`.
    aged: Revision,
}

impl<I: Instant> Ages<I> {
    /// Ages of a history that is kept for `age`.
    pub(super) fn new(age: Duration) -> Self {
        Ages { age, pairs: VecDeque::new(), aged: Revision(0) }
    }

    /// Notes that `applied` is the newest revision at `now`, and returns the newest that is too old to be kept.
    pub(super) fn note(&mut self, now: I, applied: Revision) -> Revision {
        let spacing = self.age / u32::try_from(PAIRS_MAX).unwrap_or(u32::MAX);
        let due = self.pairs.back().is_none_or(|(then, _)| now.saturating_duration_since(*then) >= spacing);
        if due {
            self.pairs.push_back((now, applied));
        }
        while let Some((then, revision)) = self.pairs.front().copied() {
            if now.saturating_duration_since(then) < self.age {
                break;
            }
            self.aged = self.aged.max(revision);
            self.pairs.pop_front();
        }
        self.aged
    }
}

#[cfg(test)]
mod tests {
    use std::ops::{Add, AddAssign, Sub, SubAssign};

    use super::*;

    /// Milliseconds of a clock that only the test moves.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Tick(u64);

    impl Add<Duration> for Tick {
        type Output = Tick;
        fn add(self, by: Duration) -> Tick {
            Tick(self.0 + u64::try_from(by.as_millis()).unwrap())
        }
    }
    impl Sub<Duration> for Tick {
        type Output = Tick;
        fn sub(self, by: Duration) -> Tick {
            Tick(self.0 - u64::try_from(by.as_millis()).unwrap())
        }
    }
    impl Sub for Tick {
        type Output = Duration;
        fn sub(self, other: Tick) -> Duration {
            Duration::from_millis(self.0 - other.0)
        }
    }
    impl AddAssign<Duration> for Tick {
        fn add_assign(&mut self, by: Duration) {
            *self = *self + by;
        }
    }
    impl SubAssign<Duration> for Tick {
        fn sub_assign(&mut self, by: Duration) {
            *self = *self - by;
        }
    }
    impl Instant for Tick {
        fn now() -> Self {
            Tick(0)
        }
    }

    #[test]
    fn a_revision_is_aged_once_its_time_has_passed_here() {
        let mut ages = Ages::new(Duration::from_millis(1000));
        assert_eq!(ages.note(Tick(0), Revision(500)), Revision(0), "a start knows no ages");
        for tick in 1..100 {
            assert_eq!(ages.note(Tick(tick * 10), Revision(500 + tick)), Revision(0));
        }
        assert_eq!(ages.note(Tick(1000), Revision(600)), Revision(500));
        assert_eq!(ages.note(Tick(1020), Revision(600)), Revision(502));
        assert_eq!(ages.note(Tick(9000), Revision(600)), Revision(600), "a pause ages all of it");
    }

    #[test]
    fn the_number_of_pairs_is_bounded() {
        let mut ages = Ages::new(Duration::from_millis(1000));
        for tick in 0..100_000 {
            ages.note(Tick(tick), Revision(tick));
            assert!(ages.pairs.len() <= PAIRS_MAX + 1);
        }
    }
}
