//! A writer that changes a pod at fixed times beside a work, and the waits that it sees.
//!
//! A change that is late because the one before it was slow counts from the time at which it was due, so that a pause of the
//! server shows in all the changes that it delayed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use tokio::time::{sleep_until, timeout};

use super::stage::Stage;
use crate::load::OPERATION_TIMEOUT;
use crate::load::multiplex::Multiplexed;
use crate::load::tally::Tally;
use crate::load::wire::Call;

/// The times of a series: one each `interval`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    began: Instant,
    interval: Duration,
}

impl Pace {
    /// `rate` a second from `began` on.
    pub(super) fn new(began: Instant, rate: u32) -> Self {
        Self { began, interval: Duration::from_secs(1) / rate.max(1) }
    }

    /// When number `number` is due, from 0 on.
    pub(super) fn due(&self, number: u32) -> Instant {
        self.began + self.interval * number
    }
}

/// Carries out `work` beside a writer that changes the pod `name` `rate` times a second; the writer's tally.
pub(super) async fn beside<T>(
    stage: &Stage,
    name: &str,
    rate: u32,
    work: impl Future<Output = Result<T>>,
) -> Result<(T, Tally)> {
    let stop = AtomicBool::new(false);
    let path = format!("{}/{name}", stage.pods());
    let writing = write(stage.writer.clone(), &path, Pace::new(Instant::now(), rate), &stop);
    let working = async {
        let outcome = work.await;
        stop.store(true, Ordering::Release);
        outcome
    };
    let (outcome, tally) = futures::join!(working, writing);
    Ok((outcome?, tally?))
}

async fn write(mut line: Multiplexed, path: &str, pace: Pace, stop: &AtomicBool) -> Result<Tally> {
    let (mut tally, mut number) = (Tally::new()?, 0);
    while !stop.load(Ordering::Acquire) {
        let due = pace.due(number);
        sleep_until(due.into()).await;
        number += 1;
        let body = format!(r#"{{"metadata":{{"annotations":{{"change":"paced-{number}"}}}}}}"#);
        let content_type = "application/merge-patch+json";
        let call = Call { method: "PATCH", path, content_type, body: body.as_bytes() };
        match timeout(OPERATION_TIMEOUT, line.exchange(&call)).await {
            Ok(Ok(reply)) if reply.status == 200 => tally.success(due.elapsed(), reply.bytes),
            Ok(Ok(reply)) => tally.failure(format!("writer: status {}", reply.status)),
            Ok(Err(error)) => {
                tally.failure(format!("writer: {error}"));
                break;
            }
            Err(_) => {
                tally.failure("writer: no answer");
                break;
            }
        }
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_due_an_interval_after_the_last() {
        let began = Instant::now();
        let pace = Pace::new(began, 50);
        assert_eq!(pace.due(0), began);
        assert_eq!(pace.due(50) - pace.due(49), Duration::from_millis(20));
        assert_eq!(pace.due(500) - began, Duration::from_secs(10));
    }
}
