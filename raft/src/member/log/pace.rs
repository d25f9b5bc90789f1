//! Measures how long appends to the log take until they are durable.
//!
//! Owns the figures of the last minute, and the appends that are under way. Times are those of the runtime, so that simulations have
//! them, too. It decides nothing: `membership::slow_disk` does.
//!
//! Durations are counted in bins, four to each doubling, so that a quantile is at most a quarter above the true one.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Sub;
use std::time::Duration;

/// Time that is counted together.
const SLOT: Duration = Duration::from_secs(5);
/// The last minute, and the slot that is being filled.
const SLOTS_MAX: usize = 13;
/// Bins, of which the last one has everything above 30 minutes.
const BINS: usize = 124;

/// How long appends took until they were durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncTimes {
    /// Appends that became durable.
    pub count: u64,
    /// Half of them took no longer; zero without any.
    pub p50: Duration,
    /// 99 of 100 took no longer; zero without any.
    pub p99: Duration,
    /// For how long the oldest append that is not durable yet has been waiting; zero without one.
    pub pending: Duration,
}

/// The appends of the last minute.
#[derive(Debug)]
pub(crate) struct Pace<I> {
    /// Oldest first.
    slots: VecDeque<Slot<I>>,
    /// Begins of the appends that are not durable yet, by number.
    under_way: BTreeMap<u64, I>,
    next: u64,
}

#[derive(Debug)]
struct Slot<I> {
    begun: I,
    counts: [u32; BINS],
}

impl<I> Default for Pace<I> {
    fn default() -> Self {
        Pace { slots: VecDeque::new(), under_way: BTreeMap::new(), next: 0 }
    }
}

impl<I: Copy + Sub<Output = Duration>> Pace<I> {
    /// Notes the begin of an append, and returns its number.
    pub(super) fn begin(&mut self, now: I) -> u64 {
        self.next += 1;
        self.under_way.insert(self.next, now);
        self.next
    }

    /// Notes that append number `append` is durable, or failed.
    pub(super) fn end(&mut self, append: u64, now: I) {
        let Some(begun) = self.under_way.remove(&append) else { return };
        if self.slots.back().is_none_or(|slot| now - slot.begun >= SLOT) {
            if self.slots.len() >= SLOTS_MAX {
                self.slots.pop_front();
            }
            self.slots.push_back(Slot { begun: now, counts: [0; BINS] });
        }
        if let Some(slot) = self.slots.back_mut() {
            let count = &mut slot.counts[bin_of(now - begun)];
            *count = count.saturating_add(1);
        }
    }

    /// The figures of the last `span`, of a minute at most.
    pub(crate) fn times(&self, now: I, span: Duration) -> SyncTimes {
        let mut counts = [0_u64; BINS];
        for slot in self.slots.iter().filter(|slot| now - slot.begun < span + SLOT) {
            for (sum, count) in counts.iter_mut().zip(&slot.counts) {
                *sum += u64::from(*count);
            }
        }
        let count: u64 = counts.iter().sum();
        let quantile = |percent: u64| {
            let wanted = (count * percent).div_ceil(100);
            let mut seen = 0;
            let reached = |of_bin: &u64| {
                seen += of_bin;
                seen >= wanted && seen > 0
            };
            counts.iter().position(reached).map_or(Duration::ZERO, upper_end)
        };
        let oldest = self.under_way.first_key_value();
        let pending = oldest.map_or(Duration::ZERO, |(_, begun)| now - *begun);
        SyncTimes { count, p50: quantile(50), p99: quantile(99), pending }
    }
}

/// The bin of a duration: its highest three binary digits, in microseconds.
fn bin_of(took: Duration) -> usize {
    let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
    let bin = match micros {
        0..4 => micros,
        _ => {
            let exponent = micros.ilog2();
            u64::from(exponent - 1) * 4 + (micros >> (exponent - 2) & 3)
        }
    };
    usize::try_from(bin).unwrap_or(usize::MAX).min(BINS - 1)
}

/// The longest duration of a bin.
fn upper_end(bin: usize) -> Duration {
    let bin = u64::try_from(bin).unwrap_or(u64::MAX);
    let micros = match bin {
        0..4 => bin,
        _ => ((4 + bin % 4 + 1) << (bin / 4 - 1)) - 1,
    };
    Duration::from_micros(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_duration_is_in_the_bin_that_ends_next_above_it() {
        for micros in [0, 1, 3, 4, 5, 7, 8, 9, 15, 250, 1000, 999_999, 1_800_000_000] {
            let took = Duration::from_micros(micros);
            let end = upper_end(bin_of(took));
            assert!(took <= end && end <= took + took / 4 + Duration::from_micros(1), "{took:?} {end:?}");
            assert!(bin_of(took) == 0 || upper_end(bin_of(took) - 1) < took, "{took:?}");
        }
        assert_eq!(bin_of(Duration::MAX), BINS - 1);
    }

    #[test]
    fn figures_are_those_of_the_last_minute() {
        let mut pace = Pace::default();
        let mut took = |begun: Duration, lasts: Duration| {
            let append = pace.begin(begun);
            pace.end(append, begun + lasts);
        };
        (0..98).for_each(|at| took(ms(at * 10), ms(1)));
        took(ms(2000), ms(400));
        took(ms(2500), ms(400));
        let figures = pace.times(ms(3000), Duration::from_secs(60));
        assert!(figures.count == 100 && figures.p50 >= ms(1) && figures.p50 < ms(2), "{figures:?}");
        assert!(figures.p99 >= ms(400) && figures.p99 < ms(500), "{figures:?}");
        assert_eq!(pace.times(ms(200_000), Duration::from_secs(60)), SyncTimes::default());
    }

    #[test]
    fn an_append_that_hangs_is_pending() {
        let mut pace = Pace::default();
        let (first, second) = (pace.begin(ms(0)), pace.begin(ms(700)));
        pace.end(second, ms(710));
        assert_eq!(pace.times(ms(2000), Duration::from_secs(60)).pending, ms(2000));
        pace.end(first, ms(2000));
        assert_eq!(pace.times(ms(2000), Duration::from_secs(60)).pending, Duration::ZERO);
    }
}
