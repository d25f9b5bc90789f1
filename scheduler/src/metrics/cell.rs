//! Values of single series, changed without a lock.

use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{CounterFn, GaugeFn, HistogramFn};

/// A counter.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

/// A gauge: the bits of a floating-point number.
#[derive(Debug, Default)]
pub(super) struct Level(AtomicU64);

/// A histogram with fixed buckets.
#[derive(Debug)]
pub(super) struct Spread {
    /// Upper bounds, ascending.
    bounds: &'static [f64],
    /// Samples of each bucket that are in no smaller one; the last is for what exceeds all bounds.
    counts: Vec<AtomicU64>,
    sum: Level,
}

impl Count {
    pub(super) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

impl CounterFn for Count {
    fn increment(&self, value: u64) {
        self.0.fetch_add(value, Ordering::Relaxed);
    }

    fn absolute(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }
}

impl Level {
    pub(super) fn value(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    fn change(&self, change: impl Fn(f64) -> f64) {
        let update = |bits| Some(change(f64::from_bits(bits)).to_bits());
        // The closure always returns a value, so that this cannot fail.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
    }
}

impl GaugeFn for Level {
    fn increment(&self, value: f64) {
        self.change(|level| level + value);
    }

    fn decrement(&self, value: f64) {
        self.change(|level| level - value);
    }

    fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }
}

impl Spread {
    pub(super) fn new(bounds: &'static [f64]) -> Spread {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::default()).collect();
        Spread { bounds, counts, sum: Level::default() }
    }

    /// Cumulative counts by upper bound; the last bucket has no bound.
    pub(super) fn cumulative(&self) -> impl Iterator<Item = (Option<f64>, u64)> {
        let bounds = self.bounds.iter().copied().map(Some).chain([None]);
        let mut total = 0;
        bounds.zip(&self.counts).map(move |(bound, count)| {
            total += count.load(Ordering::Relaxed);
            (bound, total)
        })
    }

    pub(super) fn sum(&self) -> f64 {
        self.sum.value()
    }

    pub(super) fn reset(&self) {
        for count in &self.counts {
            count.store(0, Ordering::Relaxed);
        }
        self.sum.set(0.0);
    }
}

impl HistogramFn for Spread {
    fn record(&self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
            self.sum.increment(value);
        }
    }
}
