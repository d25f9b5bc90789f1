//! A histogram of this API: counts by bucket, and their text.
//!
//! Owns the numbers of one series and the form of their lines. Adding takes no lock. Numbers of several series are added up as
//! [`Snapshot`]s, where a metric has fewer labels than another one that is made of the same observations.

use std::fmt::Write;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Observations by bucket.
#[derive(Debug)]
pub(crate) struct Histogram<const N: usize> {
    bounds: &'static [f64; N],
    /// Of each bound; those above it are in none.
    buckets: [AtomicU64; N],
    count: AtomicU64,
    /// The bits of an `f64`.
    sum: AtomicU64,
}

/// Observations of a histogram that count as smaller in another metric: what is taken from the buckets of the one and added to
/// those of the other.
#[derive(Debug)]
pub(super) struct Shift<const N: usize> {
    buckets: [AtomicI64; N],
    /// Microseconds by which all of them are smaller.
    micros: AtomicU64,
}

/// The numbers of a histogram at one time.
#[derive(Clone, Debug)]
pub(super) struct Snapshot<const N: usize> {
    bounds: &'static [f64; N],
    buckets: [u64; N],
    count: u64,
    sum: f64,
}

impl<const N: usize> Histogram<N> {
    pub(crate) fn new(bounds: &'static [f64; N]) -> Self {
        let buckets = std::array::from_fn(|_| AtomicU64::default());
        let (count, sum) = (AtomicU64::default(), AtomicU64::new(0.0_f64.to_bits()));
        Histogram { bounds, buckets, count, sum }
    }

    pub(crate) fn observe(&self, value: f64) {
        if let Some(bucket) = self.buckets.get(bucket_of(self.bounds, value)) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        let add = |sum| Some((f64::from_bits(sum) + value).to_bits());
        // It always gives a sum.
        let _ = self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Observations that come meanwhile are in the next snapshot.
    pub(super) fn snapshot(&self) -> Snapshot<N> {
        let buckets = self.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed));
        let count = self.count.load(Ordering::Relaxed).max(buckets.iter().sum());
        Snapshot {
            bounds: self.bounds,
            buckets,
            count,
            sum: f64::from_bits(self.sum.load(Ordering::Relaxed)),
        }
    }

    /// Appends the text of the series, if it has observations. `labels`: without braces; may be empty.
    pub(crate) fn write(&self, text: &mut String, name: &str, labels: &str) {
        self.snapshot().write(text, name, labels, 0);
    }
}

impl<const N: usize> Default for Shift<N> {
    fn default() -> Self {
        Shift { buckets: std::array::from_fn(|_| AtomicI64::default()), micros: AtomicU64::default() }
    }
}

impl<const N: usize> Shift<N> {
    /// Counts an observation of `from` seconds as one that is smaller by `micros` microseconds.
    pub(super) fn lower(&self, bounds: &[f64; N], from: f64, micros: u64) {
        for (value, by) in [(from, -1), (from - seconds(micros), 1)] {
            if let Some(bucket) = self.buckets.get(bucket_of(bounds, value)) {
                bucket.fetch_add(by, Ordering::Relaxed);
            }
        }
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }
}

impl<const N: usize> Snapshot<N> {
    /// Adds the numbers of another series.
    pub(super) fn add(&mut self, other: &Snapshot<N>) {
        for (bucket, more) in self.buckets.iter_mut().zip(other.buckets) {
            *bucket += more;
        }
        (self.count, self.sum) = (self.count + other.count, self.sum + other.sum);
    }

    /// The same observations, of which some count as smaller.
    pub(super) fn shifted(mut self, shift: &Shift<N>) -> Self {
        for (bucket, by) in self.buckets.iter_mut().zip(&shift.buckets) {
            // An observation that comes meanwhile may be in one of the two only.
            *bucket = bucket.saturating_add_signed(by.load(Ordering::Relaxed));
        }
        self.count = self.count.max(self.buckets.iter().sum());
        self.sum = (self.sum - seconds(shift.micros.load(Ordering::Relaxed))).max(0.0);
        self
    }

    /// Appends the text of the series, if it has observations, without the first `left_out` bounds.
    pub(super) fn write(&self, text: &mut String, name: &str, labels: &str, left_out: usize) {
        let Snapshot { bounds, buckets, count, sum } = self;
        if *count == 0 {
            return;
        }
        let (separator, all) = match labels {
            "" => ("", String::new()),
            labels => (",", format!("{{{labels}}}")),
        };
        let mut total = 0;
        for (at, (bound, bucket)) in bounds.iter().zip(buckets).enumerate() {
            total += bucket;
            if at >= left_out {
                let bound = bound_text(*bound);
                // A string takes every write.
                let _ = writeln!(text, "{name}_bucket{{{labels}{separator}le=\"{bound}\"}} {total}");
            }
        }
        let _ = writeln!(text, "{name}_bucket{{{labels}{separator}le=\"+Inf\"}} {count}");
        let _ = writeln!(text, "{name}_sum{all} {sum}\n{name}_count{all} {count}");
    }
}

/// A bound as the reference writes it, by whose text queries tell buckets: with an exponent of two digits below 0.0001 and from a
/// million on.
fn bound_text(bound: f64) -> String {
    if bound == 0.0 || (1e-4..1e6).contains(&bound) {
        return bound.to_string();
    }
    let text = format!("{bound:e}");
    match text.split_once('e') {
        Some((digits, exponent)) => match exponent.strip_prefix('-') {
            Some(exponent) => format!("{digits}e-{exponent:0>2}"),
            None => format!("{digits}e+{exponent:0>2}"),
        },
        None => text,
    }
}

/// The index of the bucket of `value`; that of none for one above all bounds.
fn bucket_of(bounds: &[f64], value: f64) -> usize {
    bounds.partition_point(|bound| *bound < value)
}

/// Microseconds as seconds.
#[expect(clippy::cast_precision_loss, reason = "a duration of centuries may be rounded")]
pub(super) fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: [f64; 3] = [0.1, 1.0, 10.0];

    fn text(snapshot: &Snapshot<3>, labels: &str, left_out: usize) -> String {
        let mut text = String::new();
        snapshot.write(&mut text, "x", labels, left_out);
        text
    }

    #[test]
    fn observations_that_are_lowered_move_to_their_buckets() {
        let (histogram, shift) = (Histogram::new(&BOUNDS), Shift::default());
        for value in [0.05, 5.0, 50.0] {
            histogram.observe(value);
        }
        shift.lower(&BOUNDS, 5.0, 4_500_000);
        shift.lower(&BOUNDS, 50.0, 45_000_000);
        let lowered = histogram.snapshot().shifted(&shift);
        assert_eq!((lowered.buckets, lowered.count), ([1, 1, 1], 3));
        assert!((lowered.sum - 5.55).abs() < 1e-9, "{lowered:?}");
        let expected =
            "x_bucket{a=\"b\",le=\"1\"} 2\nx_bucket{a=\"b\",le=\"10\"} 3\nx_bucket{a=\"b\",le=\"+Inf\"} 3\n";
        assert!(text(&lowered, "a=\"b\"", 1).starts_with(expected), "{}", text(&lowered, "a=\"b\"", 1));
    }

    #[test]
    fn bounds_have_the_reference_s_text() {
        let texts = [1e-8, 1.5e-5, 1e-4, 0.005, 1.0, 1.25, 60.0, 1e5, 1e6, 1e9, 1.5e10].map(bound_text);
        let expected =
            ["1e-08", "1.5e-05", "0.0001", "0.005", "1", "1.25", "60", "100000", "1e+06", "1e+09", "1.5e+10"];
        assert_eq!(texts, expected);
    }

    #[test]
    fn series_without_labels_and_sums_of_series_are_written() {
        let histogram = Histogram::new(&BOUNDS);
        assert_eq!(text(&histogram.snapshot(), "", 0), "");
        histogram.observe(0.5);
        let mut twice = histogram.snapshot();
        twice.add(&histogram.snapshot());
        let expected = "x_bucket{le=\"0.1\"} 0\nx_bucket{le=\"1\"} 2\nx_bucket{le=\"10\"} 2\nx_bucket{le=\"+Inf\"} 2\nx_sum 1\nx_count 2\n";
        assert_eq!(text(&twice, "", 0), expected);
    }
}
