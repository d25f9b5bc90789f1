//! Sends events, many at once, without holding up scheduling.
//!
//! Owns the queue between the scheduling loop and the API, and how often an event is tried. Events are a courtesy: a
//! queue that is full drops new ones and logs how many, and no event ever holds up a binding. Its client has a limit of
//! requests a second of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_util::task::TaskTracker;

use crate::api::events::v1::Event;
use crate::client::{Client, Error, PatchType, Reason, chain};
use crate::wall_time::WallTime;

use super::event::{Report, Sending, Series};

/// Events that wait: two seconds of the fastest scheduling, some megabytes.
const QUEUE_MAX: usize = 8_192;

/// Requests under way: they share one connection.
const SENDS_MAX: usize = 64;

/// Attempts of one event, and the pause between them.
const ATTEMPTS_MAX: u32 = 3;
const ATTEMPT_PAUSE: Duration = Duration::from_secs(1);

/// How often series that are over are looked for.
const SWEEP: Duration = Duration::from_secs(60);

/// Takes reports. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Recorder {
    sender: mpsc::Sender<Report>,
    // Since the last sweep, which logs them.
    dropped: Arc<AtomicU64>,
}

impl Recorder {
    /// A recorder and the task that sends what it takes; `host` names this machine in events. The task ends when the
    /// last recorder is gone and everything is sent.
    pub fn new(client: Client, host: String) -> (Self, impl Future<Output = ()> + Send) {
        let (sender, receiver) = mpsc::channel(QUEUE_MAX);
        let dropped = Arc::<AtomicU64>::default();
        let recorder = Self { sender, dropped: dropped.clone() };
        (recorder, send_all(client, Series::new(host), receiver, dropped))
    }

    /// Takes a report. It is dropped if the queue is full.
    pub fn record(&self, report: Report) {
        if self.sender.try_send(report).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

async fn send_all(
    client: Client,
    mut series: Series,
    mut reports: mpsc::Receiver<Report>,
    dropped: Arc<AtomicU64>,
) {
    let sends = Arc::new(Semaphore::new(SENDS_MAX));
    let tasks = TaskTracker::new();
    let mut sweep = interval(SWEEP);
    sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let sendings = tokio::select! {
            biased;
            _ = sweep.tick() => {
                let dropped = dropped.swap(0, Ordering::Relaxed);
                if dropped > 0 {
                    tracing::warn!(dropped, limit = QUEUE_MAX, "events came faster than the API took them");
                }
                series.end_old(WallTime::now())
            }
            report = reports.recv() => match report {
                Some(report) => series.add(report, WallTime::now()).into_iter().collect(),
                None => break,
            },
        };
        for sending in sendings {
            let permit = sends.clone().acquire_owned().await.expect("the semaphore is never closed");
            let client = client.clone();
            tasks.spawn(async move {
                send(&client, sending).await;
                drop(permit);
            });
        }
    }
    tasks.close();
    tasks.wait().await;
}

/// Sends one event. One that the server refuses is given up: it will not become better.
async fn send(client: &Client, sending: Sending) {
    for attempt in 1..=ATTEMPTS_MAX {
        let outcome = match &sending {
            Sending::Create(event) => create(client, event).await,
            Sending::Series { namespace, name, count, last } => {
                let series = serde_json::json!({ "count": count, "lastObservedTime": last.rfc3339_micro() });
                let patch = serde_json::json!({ "series": series });
                client.patch::<Event>(namespace, name, "", PatchType::Merge, &patch).await.map(|_| ())
            }
        };
        match outcome {
            Ok(()) => return,
            Err(error) if error.status().is_some_and(|status| status.code < 500) => {
                let is_expected = error.is(Reason::NotFound)
                    || error.status().is_some_and(crate::client::ApiStatus::is_namespace_terminating);
                if !is_expected {
                    tracing::warn!(error = chain(&error), "an event was refused");
                }
                return;
            }
            Err(error) if attempt == ATTEMPTS_MAX => {
                tracing::warn!(error = chain(&error), attempts = attempt, "an event was given up");
            }
            Err(_) => sleep(ATTEMPT_PAUSE).await,
        }
    }
}

/// An event that exists already was created by an attempt whose answer was lost.
async fn create(client: &Client, event: &Event) -> Result<(), Error> {
    let namespace = event.metadata.as_ref().map_or("", |metadata| &metadata.namespace);
    match client.create(namespace, event).await {
        Err(error) if error.is(Reason::AlreadyExists) => Ok(()),
        other => other.map(|_| ()),
    }
}
