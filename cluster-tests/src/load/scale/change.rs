//! Rounds of changes: writers that change pods one after the other, and what a change costs the servers.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::join_all;
use tokio::time::timeout;

use super::stage::Stage;
use crate::load::OPERATION_TIMEOUT;
use crate::load::multiplex::Multiplexed;
use crate::load::tally::Tally;
use crate::load::wire::Call;

/// Bounds of a round.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) writers: u32,
    /// Changes of all writers together.
    pub(super) changes: u32,
    /// No change begins later than this after the start.
    pub(super) time: Duration,
}

/// The measurements of a round.
pub(super) struct Round {
    pub(super) tally: Tally,
    pub(super) elapsed: Duration,
    /// CPU time of the servers meanwhile.
    pub(super) cpu: Duration,
}

impl Round {
    /// The servers' CPU time of a change, in microseconds.
    pub(super) fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / (self.tally.operations.max(1)) as f64
    }

    /// Changes a second.
    pub(super) fn rate(&self) -> f64 {
        self.tally.operations as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

/// Writer `n` changes the pod `{pods}-{n}` until `bounds` are reached.
pub(super) async fn round(stage: &Stage, pods: &str, bounds: Bounds) -> Result<Round> {
    let budget = AtomicI64::new(i64::from(bounds.changes));
    let (before, began) = (stage.meter.read(), Instant::now());
    let writing = (0..bounds.writers).map(|writer| {
        let path = format!("{}/{pods}-{writer}", stage.pods());
        write(stage.writer.clone(), path, &budget, began + bounds.time)
    });
    let mut tally = Tally::new()?;
    for written in join_all(writing).await {
        tally.merge(&written?)?;
    }
    Ok(Round { tally, elapsed: began.elapsed(), cpu: before.cpu_until(&stage.meter.read()) })
}

async fn write(mut line: Multiplexed, path: String, budget: &AtomicI64, deadline: Instant) -> Result<Tally> {
    let mut tally = Tally::new()?;
    while Instant::now() < deadline {
        let left = budget.fetch_sub(1, Ordering::Relaxed);
        if left <= 0 {
            break;
        }
        let body = format!(r#"{{"metadata":{{"annotations":{{"change":"{left}"}}}}}}"#);
        let content_type = "application/merge-patch+json";
        let call = Call { method: "PATCH", path: &path, content_type, body: body.as_bytes() };
        let start = Instant::now();
        match timeout(OPERATION_TIMEOUT, line.exchange(&call)).await {
            Ok(Ok(reply)) if reply.status == 200 => tally.success(start.elapsed(), reply.bytes),
            Ok(Ok(reply)) => tally.failure(format!("change: status {}", reply.status)),
            Ok(Err(error)) => {
                tally.failure(format!("change: {error}"));
                break;
            }
            Err(_) => {
                tally.failure("change: no answer");
                break;
            }
        }
    }
    Ok(tally)
}
