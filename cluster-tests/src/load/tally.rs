//! Measurements of a client: latencies, bytes, errors by kind. Each client has its own while it runs; they are merged
//! at the end.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use hdrhistogram::Histogram;

/// Latencies are kept in microseconds up to a minute, to three digits.
const LATENCY_US_MAX: u64 = 60_000_000;

/// The measurements of one client, or of all.
#[derive(Debug, Clone)]
pub(super) struct Tally {
    pub(super) latencies: Histogram<u64>,
    pub(super) operations: u64,
    /// Body bytes received by the operations that succeeded.
    pub(super) bytes: u64,
    pub(super) errors: BTreeMap<String, u64>,
}

impl Tally {
    /// An empty tally.
    pub(super) fn new() -> Result<Self> {
        let latencies = Histogram::new_with_bounds(1, LATENCY_US_MAX, 3)?;
        Ok(Self { latencies, operations: 0, bytes: 0, errors: BTreeMap::new() })
    }

    /// Counts a successful operation.
    pub(super) fn success(&mut self, latency: Duration, bytes: u64) {
        self.operations += 1;
        self.bytes += bytes;
        self.latency(latency);
    }

    /// Records a latency without an operation.
    pub(super) fn latency(&mut self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.latencies.saturating_record(micros.max(1));
    }

    /// Counts a failed operation under its kind of error.
    pub(super) fn failure(&mut self, kind: impl Into<String>) {
        *self.errors.entry(kind.into()).or_default() += 1;
    }

    /// Adds the measurements of another client.
    pub(super) fn merge(&mut self, other: &Tally) -> Result<()> {
        self.latencies.add(&other.latencies)?;
        self.operations += other.operations;
        self.bytes += other.bytes;
        for (kind, count) in &other.errors {
            *self.errors.entry(kind.clone()).or_default() += count;
        }
        Ok(())
    }
}
