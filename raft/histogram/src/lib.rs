//! Histograms of `u64` values in logarithmic buckets, in which the consensus library counts its batches and messages.
//!
//! Owns counting and percentiles. It computes the start of a bucket instead of keeping tables, so that a histogram
//! takes two kilobytes and a process without histograms takes none. Names and meanings are those that openraft uses of
//! `base2histogram` 0.2, which this crate replaces in the build; nothing else calls it.
//!
//! Invariant: values of one bucket differ by less than a quarter of the smallest of them.

use std::fmt;
use std::marker::PhantomData;

/// Bits of a value that select its bucket: the leading one and the two after it.
const WIDTH: u32 = 3;
/// Buckets of one power of two.
const GROUP: usize = 1 << (WIDTH - 1);
/// Buckets up to `u64::MAX`: the smallest values have one each, then four for each power of two.
const BUCKETS: usize = GROUP * (u64::BITS - WIDTH + 2) as usize;

/// Counts of recorded values. `T` is a label the consensus library never uses.
#[derive(Clone, PartialEq, Eq)]
pub struct Histogram<T = ()> {
    counts: Box<[u64]>,
    label: PhantomData<T>,
}

/// Percentiles of the recorded values; `p50` is the median. Each is the smallest value of its bucket; 0 if nothing was
/// recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PercentileStats {
    /// Number of recorded values.
    pub samples: u64,
    /// 0.1st percentile.
    pub p0_1: u64,
    /// 1st percentile.
    pub p1: u64,
    /// 5th percentile.
    pub p5: u64,
    /// 10th percentile.
    pub p10: u64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p99_9: u64,
}

impl<T> Histogram<T> {
    /// An empty histogram.
    pub fn new() -> Self {
        Histogram { counts: vec![0; BUCKETS].into_boxed_slice(), label: PhantomData }
    }

    /// Counts `value`.
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Counts `value` `count` times. Counts saturate at `u64::MAX`.
    pub fn record_n(&mut self, value: u64, count: u64) {
        let slot = &mut self.counts[bucket(value)];
        *slot = slot.saturating_add(count);
    }

    /// Number of recorded values.
    pub fn total(&self) -> u64 {
        self.counts.iter().fold(0, |total, count| total.saturating_add(*count))
    }

    /// All percentiles of [`PercentileStats`].
    pub fn percentile_stats(&self) -> PercentileStats {
        let samples = self.total();
        let at = |per_mille| self.reached(rank(samples, per_mille));
        PercentileStats {
            samples,
            p0_1: at(1),
            p1: at(10),
            p5: at(50),
            p10: at(100),
            p50: at(500),
            p90: at(900),
            p99: at(990),
            p99_9: at(999),
        }
    }

    /// The start of the bucket that holds the value of `rank`, counted from 1 and from below.
    fn reached(&self, rank: u64) -> u64 {
        let mut seen = 0_u64;
        let found = self.counts.iter().position(|count| {
            seen = seen.saturating_add(*count);
            seen >= rank
        });
        found.filter(|_| rank > 0).map_or(0, start)
    }
}

impl<T> Default for Histogram<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> fmt::Debug for Histogram<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.percentile_stats().fmt(out)
    }
}

impl fmt::Display for PercentileStats {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PercentileStats { samples, p0_1, p1, p5, p10, p50, p90, p99, p99_9 } = self;
        write!(
            out,
            "{samples} samples: 0.1% {p0_1}, 1% {p1}, 5% {p5}, 10% {p10}, 50% {p50}, 90% {p90}, 99% {p99}, 99.9% {p99_9}"
        )
    }
}

/// Several histograms, displayed as one line of percentiles each.
#[derive(Clone, Debug, Default)]
pub struct AsciiChart {
    series: Vec<(&'static str, PercentileStats)>,
}

impl AsciiChart {
    /// An empty chart.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a line for `histogram`, called `name`.
    #[must_use]
    pub fn add<T>(mut self, name: &'static str, histogram: Histogram<T>) -> Self {
        self.series.push((name, histogram.percentile_stats()));
        self
    }
}

impl fmt::Display for AsciiChart {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.series.iter().try_for_each(|(name, stats)| writeln!(out, "{name}: {stats}"))
    }
}

/// The rank, counted from 1, of the value at or below which `per_mille` of `samples` lie; 0 without samples.
fn rank(samples: u64, per_mille: u64) -> u64 {
    let exact = u128::from(samples) * u128::from(per_mille);
    u64::try_from(exact.div_ceil(1000)).unwrap_or(u64::MAX)
}

/// The bucket of `value`.
fn bucket(value: u64) -> usize {
    let length = u64::BITS - value.leading_zeros();
    let power = length.saturating_sub(WIDTH);
    // After the shift at most `WIDTH` bits are left: 0 to 7, and 4 to 7 for every power but the first.
    let [leading, ..] = (value >> power).to_le_bytes();
    power as usize * GROUP + usize::from(leading)
}

/// The smallest value of the bucket at `index`: the inverse of [`bucket`].
fn start(index: usize) -> u64 {
    let power = (index / GROUP).saturating_sub(1);
    ((index - power * GROUP) as u64) << power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bucket_starts_where_it_says_and_ends_before_the_next() {
        for index in 0..BUCKETS {
            assert_eq!(bucket(start(index)), index);
            if index > 0 {
                assert_eq!(bucket(start(index) - 1), index - 1, "before {}", start(index));
            }
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn a_bucket_is_less_than_a_quarter_of_its_start_wide() {
        for index in GROUP..BUCKETS - 1 {
            let (low, high) = (start(index), start(index + 1) - 1);
            assert!(high - low < low / 4 + 1, "{low} to {high}");
        }
    }

    #[test]
    fn percentiles_are_those_of_the_values() {
        let mut histogram = Histogram::<()>::new();
        assert_eq!(histogram.percentile_stats(), PercentileStats::default());
        for value in 0..1000 {
            histogram.record(value);
        }
        let stats = histogram.percentile_stats();
        assert_eq!((stats.samples, histogram.total()), (1000, 1000));
        for (reached, exact) in [(stats.p0_1, 0), (stats.p1, 9), (stats.p50, 499), (stats.p99_9, 998)] {
            assert_eq!(reached, start(bucket(exact)), "{exact}");
        }
    }

    #[test]
    fn a_chart_has_a_line_for_each_histogram() {
        let mut histogram = Histogram::<()>::new();
        histogram.record(3);
        let chart = AsciiChart::new().add("one", histogram).add("none", Histogram::<()>::new()).to_string();
        let starts = ["one: 1 samples: 0.1% 3, 1% 3", "none: 0 samples: 0.1% 0, 1% 0"];
        assert!(chart.lines().zip(starts).all(|(line, start)| line.starts_with(start)), "{chart}");
    }

    #[test]
    fn counts_stop_at_their_limit() {
        let mut histogram = Histogram::<()>::new();
        histogram.record_n(7, u64::MAX);
        histogram.record(7);
        assert_eq!(histogram.percentile_stats().p50, 7);
    }
}
