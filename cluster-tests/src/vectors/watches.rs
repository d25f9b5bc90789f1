//! The open watches of a scenario, and the events that each has received.
//!
//! Owns reading them while other steps run. It judges nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::BodyExt;
use hyper::body::Incoming;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// Polling interval of [`OpenWatch::take`].
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// A watch and the events it has received. It is closed when dropped.
pub(super) struct OpenWatch {
    received: Arc<Mutex<Received>>,
    pump: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Received {
    events: Vec<Value>,
    closed: bool,
}

impl Received {
    fn is_enough(&self, count: u64) -> bool {
        self.closed || self.events.len() as u64 >= count
    }
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        if let Some(pump) = &self.pump {
            pump.abort();
        }
    }
}

impl OpenWatch {
    /// A watch that was answered with an error: no event comes.
    pub(super) fn refused() -> OpenWatch {
        let received = Arc::new(Mutex::new(Received { closed: true, ..Received::default() }));
        OpenWatch { received, pump: None }
    }

    /// Reads `body` for as long as the watch is kept. `connection` is dropped behind it.
    pub(super) fn reading<C: Send + 'static>(body: Incoming, connection: C) -> OpenWatch {
        let received = Arc::new(Mutex::new(Received::default()));
        let sink = received.clone();
        let pump = tokio::spawn(async move {
            pump(body, &sink).await;
            sink.lock().closed = true;
            drop(connection);
        });
        OpenWatch { received, pump: Some(pump) }
    }

    /// The events since the last call, once there are `count`, the watch has ended or `patience` is over, and those that come
    /// within `settle` of that.
    pub(super) async fn take(&self, count: u64, patience: Duration, settle: Duration) -> Vec<Value> {
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            if self.received.lock().is_enough(count) {
                break;
            }
            sleep(LOOK_INTERVAL).await;
        }
        sleep(settle).await;
        std::mem::take(&mut self.received.lock().events)
    }
}

/// Reads events, one a line, until the stream ends or a line is not an event.
async fn pump(mut body: Incoming, sink: &Mutex<Received>) {
    let mut rest: Vec<u8> = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        rest.extend_from_slice(&data);
        while let Some(end) = memchr::memchr(b'\n', &rest) {
            let line: Vec<u8> = rest.drain(..=end).collect();
            if line.trim_ascii().is_empty() {
                continue;
            }
            let Ok(event) = serde_json::from_slice(&line) else { return };
            sink.lock().events.push(event);
        }
    }
}
