//! A histogram of this API: counts by bucket, and their text.
//!
//! Owns the numbers of one series and the form of their lines. Adding takes no lock. A series has room for the buckets of its lowest bounds,
//! and gets that of all others with the first observation there: of thousands of series most have seen short requests alone. Numbers of
//! several series are added up as [`Snapshot`]s, where a metric has fewer labels than another one that is made of the same observations.

use std::fmt::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bounds whose counts every series has room for: of requests those up to 100 ms, of responses those up to a megabyte.
const LOW: usize = 4;

/// Observations by bucket. Its bounds are handed in, since thousands of series have the same.
#[derive(Debug)]
pub(crate) struct Histogram<const N: usize> {
    buckets: Buckets<N>,
    /// The bits of an `f64`.
    sum: AtomicU64,
}

/// A count for each of `N` bounds, and one for what is above all of them.
#[derive(Debug)]
struct Buckets<const N: usize> {
    low: [AtomicU64; LOW],
    /// Those of the bounds from [`LOW`] on, and the one above them. `None` before the first observation there.
    high: OnceLock<Box<[AtomicU64]>>,
}

/// Observations of a histogram that count as smaller in another metric: what is taken from the buckets of the one and added to
/// those of the other.
#[derive(Debug)]
pub(super) struct Shift<const N: usize> {
    /// Differences, negative ones as two's complements.
    buckets: Buckets<N>,
    /// Microseconds by which all of them are smaller.
    micros: AtomicU64,
}

/// The numbers of a histogram at one time.
#[derive(Clone, Debug)]
pub(super) struct Snapshot<const N: usize> {
    buckets: [u64; N],
    above: u64,
    sum: f64,
}

/// The form of the lines of a histogram, for many series of it.
pub(super) struct Lines<'n> {
    name: &'n str,
    /// The texts of the bounds that are shown, with `+Inf` behind them.
    bounds: Vec<String>,
    /// Bounds before them, which are not shown.
    left_out: usize,
}

impl<const N: usize> Default for Buckets<N> {
    fn default() -> Self {
        Buckets { low: Default::default(), high: OnceLock::new() }
    }
}

impl<const N: usize> Buckets<N> {
    /// Adds `by` to the count of the bound at `at`; `N` is above all bounds. A sum that is too large begins anew.
    fn add(&self, at: usize, by: u64) {
        let bucket = if at < LOW.min(N) {
            &self.low[at]
        } else {
            let high = self.high.get_or_init(|| (LOW.min(N)..=N).map(|_| AtomicU64::default()).collect());
            &high[at - LOW.min(N)]
        };
        bucket.fetch_add(by, Ordering::Relaxed);
    }

    /// The count of each bound, and that above all of them.
    fn load(&self) -> ([u64; N], u64) {
        let mut counts = [0; N];
        let high = self.high.get().map_or(&[][..], |high| high);
        for (count, bucket) in counts.iter_mut().zip(self.low.iter().take(N).chain(high)) {
            *count = bucket.load(Ordering::Relaxed);
        }
        (counts, high.last().map_or(0, |above| above.load(Ordering::Relaxed)))
    }

    #[cfg(test)]
    fn heap_bytes(&self) -> usize {
        self.high.get().map_or(0, |high| super::held::block(size_of_val(&**high)))
    }
}

impl<const N: usize> Default for Histogram<N> {
    fn default() -> Self {
        Histogram { buckets: Buckets::default(), sum: AtomicU64::new(0.0_f64.to_bits()) }
    }
}

impl<const N: usize> Histogram<N> {
    pub(crate) fn observe(&self, bounds: &[f64; N], value: f64) {
        self.buckets.add(bucket_of(bounds, value), 1);
        let add = |sum| Some((f64::from_bits(sum) + value).to_bits());
        // It always gives a sum.
        let _ = self.sum.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Observations that come meanwhile are in the next snapshot.
    pub(super) fn snapshot(&self) -> Snapshot<N> {
        let (buckets, above) = self.buckets.load();
        Snapshot { buckets, above, sum: f64::from_bits(self.sum.load(Ordering::Relaxed)) }
    }

    /// Bytes of its blocks.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        self.buckets.heap_bytes()
    }
}

impl<const N: usize> Default for Shift<N> {
    fn default() -> Self {
        Shift { buckets: Buckets::default(), micros: AtomicU64::default() }
    }
}

impl<const N: usize> Shift<N> {
    /// Counts an observation of `from` seconds as one that is smaller by `micros` microseconds.
    pub(super) fn lower(&self, bounds: &[f64; N], from: f64, micros: u64) {
        let (before, after) = (bucket_of(bounds, from), bucket_of(bounds, from - seconds(micros)));
        if before != after {
            self.buckets.add(before, 1_u64.wrapping_neg());
            self.buckets.add(after, 1);
        }
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Bytes of its blocks.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        self.buckets.heap_bytes()
    }
}

impl<const N: usize> Snapshot<N> {
    /// The number of all observations.
    fn count(&self) -> u64 {
        self.buckets.iter().sum::<u64>() + self.above
    }

    /// Adds the numbers of another series.
    pub(super) fn add(&mut self, other: &Snapshot<N>) {
        for (bucket, more) in self.buckets.iter_mut().zip(other.buckets) {
            *bucket += more;
        }
        (self.above, self.sum) = (self.above + other.above, self.sum + other.sum);
    }

    /// The same observations, of which some count as smaller.
    pub(super) fn shifted(mut self, shift: &Shift<N>) -> Self {
        let (buckets, above) = shift.buckets.load();
        // An observation that comes meanwhile may be in one of the two only.
        for (bucket, by) in self.buckets.iter_mut().zip(buckets) {
            *bucket = bucket.saturating_add_signed(by.cast_signed());
        }
        self.above = self.above.saturating_add_signed(above.cast_signed());
        self.sum = (self.sum - seconds(shift.micros.load(Ordering::Relaxed))).max(0.0);
        self
    }
}

impl<'n> Lines<'n> {
    /// The lines of the histogram `name`, without the first `left_out` of `bounds`.
    pub(super) fn new(name: &'n str, bounds: &[f64], left_out: usize) -> Self {
        let bounds = bounds.iter().skip(left_out).map(|bound| bound_text(*bound)).chain(["+Inf".to_owned()]);
        Lines { name, bounds: bounds.collect(), left_out }
    }

    /// Appends the lines of a series, if it has observations. `labels`: without braces; may be empty.
    pub(super) fn write<const N: usize>(&self, text: &mut String, labels: &str, numbers: &Snapshot<N>) {
        let (Snapshot { buckets, sum, .. }, count) = (numbers, numbers.count());
        if count == 0 {
            return;
        }
        let (name, separator) = (self.name, if labels.is_empty() { "" } else { "," });
        let begin = format!("{name}_bucket{{{labels}{separator}le=\"");
        let (hidden, shown) = buckets.split_at(self.left_out.min(N));
        let mut total: u64 = hidden.iter().sum();
        let totals = shown.iter().map(|bucket| {
            total += bucket;
            total
        });
        // Thousands of series have a hundred thousand of these lines: their parts are copied, not formatted.
        for (bound, total) in self.bounds.iter().zip(totals.chain([count])) {
            text.push_str(&begin);
            text.push_str(bound);
            text.push_str("\"} ");
            // A string takes every write.
            let _ = writeln!(text, "{total}");
        }
        let all = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
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
        Lines::new("x", &BOUNDS, left_out).write(&mut text, labels, snapshot);
        text
    }

    #[test]
    fn observations_that_are_lowered_move_to_their_buckets() {
        let (histogram, shift) = (Histogram::default(), Shift::default());
        for value in [0.05, 5.0, 50.0] {
            histogram.observe(&BOUNDS, value);
        }
        shift.lower(&BOUNDS, 5.0, 4_500_000);
        shift.lower(&BOUNDS, 50.0, 45_000_000);
        let lowered = histogram.snapshot().shifted(&shift);
        assert_eq!((lowered.buckets, lowered.count()), ([1, 1, 1], 3));
        assert!((lowered.sum - 5.55).abs() < 1e-9, "{lowered:?}");
        let expected =
            "x_bucket{a=\"b\",le=\"1\"} 2\nx_bucket{a=\"b\",le=\"10\"} 3\nx_bucket{a=\"b\",le=\"+Inf\"} 3\n";
        assert!(text(&lowered, "a=\"b\"", 1).starts_with(expected), "{}", text(&lowered, "a=\"b\"", 1));
    }

    #[test]
    fn room_for_high_bounds_is_made_once_one_of_them_is_observed() {
        const MANY: [f64; 7] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
        let histogram = Histogram::default();
        for value in [0.5, 4.0] {
            histogram.observe(&MANY, value);
        }
        assert!(histogram.buckets.high.get().is_none());
        for value in [4.5, 7.0, 99.0] {
            histogram.observe(&MANY, value);
        }
        let snapshot = histogram.snapshot();
        assert_eq!((snapshot.buckets, snapshot.above), ([1, 0, 0, 1, 1, 0, 1], 1));
        assert_eq!(histogram.buckets.high.get().map(|high| high.len()), Some(MANY.len() - LOW + 1));
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
        let histogram = Histogram::default();
        assert_eq!(text(&histogram.snapshot(), "", 0), "");
        histogram.observe(&BOUNDS, 0.5);
        let mut twice = histogram.snapshot();
        twice.add(&histogram.snapshot());
        let expected = "x_bucket{le=\"0.1\"} 0\nx_bucket{le=\"1\"} 2\nx_bucket{le=\"10\"} 2\nx_bucket{le=\"+Inf\"} 2\nx_sum 1\nx_count 2\n";
        assert_eq!(text(&twice, "", 0), expected);
    }
}
