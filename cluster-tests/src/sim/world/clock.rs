//! The wall clocks of the members: each is wrong in its own way.
//!
//! Owns the offset and drift of each. Virtual time is the runtime's.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use orch_raft::transport::NodeId;

use super::World;
use crate::sim::runtime::NodeRuntime;

/// The wall clock at the start of every run, milliseconds since 1970.
const EPOCH_MS: u64 = 1_700_000_000_000;

/// A wall clock with an offset and a drift.
#[derive(Debug, Default)]
pub(super) struct WallClock {
    /// Offset from true time, in milliseconds.
    ahead_ms: AtomicI64,
    /// Drift in millionths: positive runs fast.
    drift_ppm: AtomicI64,
}

impl WallClock {
    fn now_ms(&self) -> u64 {
        let elapsed = i64::try_from(NodeRuntime::elapsed().as_millis()).unwrap_or(i64::MAX);
        let drifted = elapsed.saturating_mul(self.drift_ppm.load(Ordering::Relaxed)) / 1_000_000;
        let ahead = self.ahead_ms.load(Ordering::Relaxed).saturating_add(drifted);
        EPOCH_MS.saturating_add_signed(elapsed.saturating_add(ahead))
    }
}

impl World {
    /// The wall clock of `node`.
    pub fn clock(&self, node: NodeId) -> Arc<dyn Fn() -> u64 + Send + Sync> {
        let clock = self.member(node).clock.clone();
        Arc::new(move || clock.now_ms())
    }

    /// Sets the offset of the wall clock of `node`, in milliseconds.
    pub fn set_clock_ahead(&self, node: NodeId, ahead_ms: i64) {
        self.member(node).clock.ahead_ms.store(ahead_ms, Ordering::Relaxed);
    }

    /// Sets the drift of the wall clock of `node`, in millionths.
    pub fn set_clock_drift(&self, node: NodeId, drift_ppm: i64) {
        self.member(node).clock.drift_ppm.store(drift_ppm, Ordering::Relaxed);
    }
}
