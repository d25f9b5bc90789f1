//! Writing clients that continue through faults and record the acknowledged writes with their times.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use orch_cluster_tests::client::Client;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::objects::{COLLECTION, config_map, name, version};

/// Timeout of a write, after which the client turns to another member: a dead one answers nothing.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause after a failed write.
const FAILURE_PAUSE: Duration = Duration::from_millis(20);

/// A write that was answered 201.
#[derive(Debug, Clone)]
pub(crate) struct Acknowledged {
    /// The object's name.
    pub(crate) name: String,
    /// Its version.
    pub(crate) version: u64,
    /// Time of the request.
    pub(crate) sent: Instant,
    /// Time of the response.
    pub(crate) answered: Instant,
}

/// Clients that create objects until they are stopped.
pub(crate) struct Writers {
    stop: Arc<AtomicBool>,
    acknowledged: Arc<Mutex<Vec<Acknowledged>>>,
    tasks: JoinSet<()>,
}

impl Writers {
    /// Starts `count` clients, spread over `doors`. A client whose write fails turns to the next one.
    pub(crate) fn start(count: usize, doors: &[Client]) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let acknowledged = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        for writer in 0..count {
            let doors: Vec<_> = doors.iter().map(|door| door.with_timeout(WRITE_TIMEOUT)).collect();
            tasks.spawn(write(writer, doors, stop.clone(), acknowledged.clone()));
        }
        Self { stop, acknowledged, tasks }
    }

    /// Number of acknowledged writes so far.
    pub(crate) fn count(&self) -> usize {
        self.acknowledged.lock().len()
    }

    /// The time from `moment` to the first response to a write that was sent after it; waits up to `patience`.
    pub(crate) async fn resumed_after(&self, moment: Instant, patience: Duration) -> Result<Duration> {
        while moment.elapsed() < patience {
            if let Some(answered) = self.first_answer_after(moment) {
                return Ok(answered - moment);
            }
            sleep(Duration::from_millis(5)).await;
        }
        Err(anyhow!("no write sent after the fault was acknowledged within {patience:?}"))
    }

    fn first_answer_after(&self, moment: Instant) -> Option<Instant> {
        let all = self.acknowledged.lock();
        all.iter().filter(|write| write.sent > moment).map(|write| write.answered).min()
    }

    /// Stops the clients and returns the acknowledged writes.
    pub(crate) async fn stop(mut self) -> Vec<Acknowledged> {
        self.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = self.tasks.join_next().await {
            ended.unwrap();
        }
        std::mem::take(&mut *self.acknowledged.lock())
    }
}

async fn write(
    writer: usize,
    doors: Vec<Client>,
    stop: Arc<AtomicBool>,
    acknowledged: Arc<Mutex<Vec<Acknowledged>>>,
) {
    let mut door = writer;
    for number in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        // A name is used once: after an unknown outcome its object may exist.
        let object = config_map(&format!("w{writer}-{number}"), "x");
        let sent = Instant::now();
        match doors[door % doors.len()].post(COLLECTION, &object).await {
            Ok(answer) if answer.status == 201 => {
                let answered = Instant::now();
                let (name, version) = (name(&object).unwrap(), version(&answer.json().unwrap()).unwrap());
                acknowledged.lock().push(Acknowledged { name, version, sent, answered });
            }
            Ok(answer) => {
                assert!(answer.status >= 429, "a good write was refused: {answer:?}");
                door += 1;
                sleep(FAILURE_PAUSE).await;
            }
            Err(_) => {
                door += 1;
                sleep(FAILURE_PAUSE).await;
            }
        }
    }
}
