//! A writer that changes a pod at fixed times beside a work, and the waits that it sees.
//!
//! A change that is late because the one before it was slow counts from the time at which it was due, so that a pause of the
//! server shows in all the changes that it delayed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use tokio::time::sleep_until;

use super::change::change;
use super::stage::Stage;
use crate::load::multiplex::Multiplexed;
use crate::load::tally::Tally;
use crate::load::target::Target;

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

/// Carries out `work` beside a writer that changes the pod `name` `rate` times a second at `target`; the writer's tally. The writer has a
/// thread and a connection of its own, so that a queue of the generator's tasks is not taken for one of the server.
pub(super) async fn beside<T>(
    (stage, target): (&Stage, &Target),
    name: &str,
    rate: u32,
    work: impl Future<Output = Result<T>>,
) -> Result<(T, Tally)> {
    let stop = Arc::new(AtomicBool::new(false));
    let (target, path, stopping) = (target.clone(), format!("{}/{name}", stage.pods()), stop.clone());
    let writing = std::thread::spawn(move || -> Result<Tally> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let line = Multiplexed::open(&target).await?;
            write(line, &path, Pace::new(Instant::now(), rate), &stopping).await
        })
    });
    let outcome = work.await;
    stop.store(true, Ordering::Release);
    let joined = tokio::task::spawn_blocking(move || writing.join()).await?;
    let tally = joined.map_err(|_| anyhow!("the writer panicked"))??;
    Ok((outcome?, tally))
}

async fn write(mut line: Multiplexed, path: &str, pace: Pace, stop: &AtomicBool) -> Result<Tally> {
    let (mut tally, mut number) = (Tally::new()?, 0);
    while !stop.load(Ordering::Acquire) {
        let due = pace.due(number);
        sleep_until(due.into()).await;
        number += 1;
        if change(&mut line, path, &format!("paced-{number}"), due, &mut tally).await.is_break() {
            break;
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
