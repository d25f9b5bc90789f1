//! The thread of a sink: takes batches from the buffer and stores them.
//!
//! Owns telling the requests that wait, and counting and logging what could not be stored.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use orch_api::audit::{NotStored, Sink, Storing, settled};
use orch_bounded::WarningLimit;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::backlog::{Backlog, Mode, Waiting};
use super::pacing::Pacer;

/// Longest that a request waits for its event to be stored, half of a request's own deadline. A sink that takes longer
/// has failed: in mode blocking the request goes on, in mode blocking-strict a request that has just arrived fails.
pub(super) const STORING_MAX: Duration = Duration::from_secs(30);

/// Longest wait for the last batches when the node stops.
const STOPPING_MAX: Duration = Duration::from_secs(10);

/// How often the end of the thread is looked for while the node stops.
const STOPPING_LOOK_EVERY: Duration = Duration::from_millis(10);

/// Stores one batch, in order.
pub(super) trait Deliver: Send + 'static {
    /// Stores `events`, each a JSON document.
    ///
    /// # Errors
    /// Some of them may not be stored.
    fn deliver(&mut self, events: &[Bytes]) -> Result<(), NotStored>;
}

/// The settings that every sink has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SinkOptions {
    /// The wait of a request for its audit events.
    pub mode: Mode,
    /// Bytes of an event above which it is cut; `usize::MAX` for none.
    pub event_bytes_max: usize,
    /// Bytes of a batch above which it is divided; `usize::MAX` for none.
    pub batch_bytes_max: usize,
}

/// A sink: its buffer and its thread.
pub struct Worker {
    /// Name of the sink in metrics and logs: `log`.
    name: &'static str,
    options: SinkOptions,
    backlog: Arc<Backlog>,
    /// Longest that a request waits.
    storing_max: Duration,
    thread: Mutex<Option<JoinHandle<()>>>,
    full: WarningLimit,
    /// Cancelled when the node stops: the thread tries nothing again.
    stopping: CancellationToken,
}

impl Worker {
    /// Starts the thread, which stores batches by what `deliver` makes. That is given a token that is cancelled when the
    /// node stops.
    ///
    /// # Errors
    /// The system starts no thread.
    pub(super) fn start<D: Deliver>(
        name: &'static str,
        options: SinkOptions,
        storing_max: Duration,
        deliver: impl FnOnce(CancellationToken) -> D,
    ) -> io::Result<Worker> {
        let mode = options.mode;
        let backlog = Arc::new(Backlog::new(mode, options.batch_bytes_max));
        let (taken, stopping) = (backlog.clone(), CancellationToken::new());
        let deliver = deliver(stopping.clone());
        let thread = std::thread::Builder::new().name(format!("audit-{name}"));
        let thread = thread.spawn(move || run(name, mode, &taken, deliver))?;
        let (thread, full) = (Mutex::new(Some(thread)), WarningLimit::new());
        Ok(Worker { name, options, backlog, storing_max, thread, full, stopping })
    }

    fn put(&self, waiting: Waiting) -> Result<(), NotStored> {
        self.backlog.push(waiting).inspect_err(|error| self.report_lost(error))
    }

    fn report_lost(&self, error: &NotStored) {
        count_lost(self.name, 1);
        if let Some(left_out) = self.full.pass() {
            tracing::error!(sink = self.name, %error, left_out, "an audit event is lost");
        }
    }

    /// Stores what is in the buffer, and ends the thread. Waits for it, but not for ever. Later events are refused.
    pub fn stop(&self) {
        self.stopping.cancel();
        self.backlog.close();
        let Some(thread) = self.thread.lock().take() else { return };
        let until = Instant::now() + STOPPING_MAX;
        while !thread.is_finished() {
            if Instant::now() >= until {
                tracing::error!(
                    sink = self.name,
                    "audit events are lost: the sink did not take them in time"
                );
                return;
            }
            std::thread::sleep(STOPPING_LOOK_EVERY);
        }
    }
}

impl Sink for Worker {
    fn is_required(&self) -> bool {
        self.options.mode == Mode::BlockingStrict
    }

    fn event_bytes_max(&self) -> usize {
        self.options.event_bytes_max
    }

    fn store(&self, event: Bytes) -> Storing {
        if let Mode::Batch(_) = self.options.mode {
            return settled(self.put(Waiting { event, stored: None }));
        }
        let (sender, outcome) = oneshot::channel();
        if let Err(error) = self.put(Waiting { event, stored: Some(sender) }) {
            return settled(Err(error));
        }
        let storing_max = self.storing_max;
        let waiting = async move {
            match tokio::time::timeout(storing_max, outcome).await {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(_)) => Err(NotStored("the sink has stopped".to_owned())),
                Err(_) => Err(NotStored("the sink takes too long".to_owned())),
            }
        };
        futures::future::Either::Right(waiting.boxed())
    }

    fn lose(&self, error: NotStored) -> Storing {
        self.report_lost(&error);
        settled(Err(error))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.backlog.close();
    }
}

fn run(name: &'static str, mode: Mode, backlog: &Backlog, mut deliver: impl Deliver) {
    let failures = WarningLimit::new();
    let mut pacer = match mode {
        Mode::Batch(options) => options.throttle.map(|throttle| Pacer::new(throttle, Instant::now())),
        Mode::Blocking | Mode::BlockingStrict => None,
    };
    while let Some(batch) = backlog.take() {
        if let Some(pacer) = pacer.as_mut().filter(|_| !backlog.is_closed()) {
            std::thread::sleep(pacer.delay(Instant::now()));
        }
        let (events, waiting): (Vec<Bytes>, Vec<_>) =
            batch.into_iter().map(|waiting| (waiting.event, waiting.stored)).unzip();
        let outcome = deliver.deliver(&events);
        if let Err(error) = &outcome {
            count_lost(name, events.len());
            if let Some(left_out) = failures.pass() {
                tracing::error!(sink = name, events = events.len(), %error, left_out, "audit events are lost");
            }
        }
        for stored in waiting.into_iter().flatten() {
            // The request may be gone.
            let _ = stored.send(outcome.clone());
        }
    }
}

fn count_lost(sink: &'static str, events: usize) {
    let lost = metrics::counter!("apiserver_audit_error_total", "plugin" => sink);
    lost.increment(u64::try_from(events).unwrap_or(u64::MAX));
}
