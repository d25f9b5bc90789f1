//! A connection that its users open again when it breaks, at the next server.
//!
//! Owns the generations of a connection: of many streams that see it break, the first opens the next generation and the
//! others join. A `Crowd` limits handshakes at a time and can keep all its links from connecting, and counts what happens to
//! them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;
use tokio::time::sleep;

use crate::load::multiplex::Multiplexed;
use crate::load::tally::Tally;
use crate::load::target::Target;

/// Handshakes at a time: the generator has the cores of thousands of clients' machines on its few, and a server ends a
/// handshake that takes ten seconds.
const HANDSHAKES_MAX: usize = 200;

/// Pause after a failed connection, before the next server is tried.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// All links of a run, and what has happened to them and to their watches.
#[derive(Debug)]
pub(super) struct Crowd {
    /// Watches whose stream is open now.
    pub(super) standing: AtomicU64,
    /// Events of changes.
    pub(super) events: AtomicU64,
    pub(super) bookmarks: AtomicU64,
    /// Streams that ended, for whatever reason.
    pub(super) ended: AtomicU64,
    /// Watches that went on from their version after their stream had ended.
    pub(super) resumed: AtomicU64,
    /// Watches that listed again, because their version was too old.
    pub(super) relisted: AtomicU64,
    pub(super) connections_failed: AtomicU64,
    /// Answers that told a client to come back later.
    pub(super) deferred: AtomicU64,
    /// Times from a stream's end until the watch stood again.
    pauses: Mutex<Tally>,
    failures: Mutex<BTreeMap<String, u64>>,
    /// Failures since the leader was killed.
    excused: Mutex<Option<BTreeMap<String, u64>>>,
    handshakes: Semaphore,
    gate: watch::Sender<bool>,
}

impl Crowd {
    /// A crowd without links; its gate is open.
    pub(super) fn new() -> Result<Arc<Self>> {
        Ok(Arc::new(Self {
            standing: AtomicU64::new(0),
            events: AtomicU64::new(0),
            bookmarks: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            resumed: AtomicU64::new(0),
            relisted: AtomicU64::new(0),
            connections_failed: AtomicU64::new(0),
            deferred: AtomicU64::new(0),
            pauses: Mutex::new(Tally::new()?),
            failures: Mutex::default(),
            excused: Mutex::default(),
            handshakes: Semaphore::new(HANDSHAKES_MAX),
            gate: watch::Sender::new(true),
        }))
    }

    /// Keeps all links from connecting.
    pub(super) fn close_gate(&self) {
        self.gate.send_replace(false);
    }

    /// Lets all links connect.
    pub(super) fn open_gate(&self) {
        self.gate.send_replace(true);
    }

    /// Counts a failure under its kind.
    pub(super) fn failure(&self, kind: impl Into<String>) {
        if let Some(excused) = &mut *self.excused.lock() {
            *excused.entry(kind.into()).or_default() += 1;
            return;
        }
        *self.failures.lock().entry(kind.into()).or_default() += 1;
    }

    /// From now on failures are those of a cluster whose leader was killed, and count by themselves.
    pub(super) fn excuse(&self) {
        self.excused.lock().get_or_insert_default();
    }

    /// Failures since [`Crowd::excuse`], by kind.
    pub(super) fn excused(&self) -> BTreeMap<String, u64> {
        self.excused.lock().clone().unwrap_or_default()
    }

    /// All failures so far but those, by kind.
    pub(super) fn failures(&self) -> BTreeMap<String, u64> {
        self.failures.lock().clone()
    }

    /// Records that a watch stands again after `pause`.
    pub(super) fn pause(&self, pause: Duration) {
        self.pauses.lock().latency(pause);
    }

    /// All pauses so far.
    pub(super) fn pauses(&self) -> Tally {
        self.pauses.lock().clone()
    }
}

/// A connection to one of several servers.
pub(super) struct Link {
    targets: Arc<[Target]>,
    crowd: Arc<Crowd>,
    state: tokio::sync::Mutex<State>,
}

struct State {
    /// Index of the server that is tried next.
    place: usize,
    /// Number of the newest connection; 0 before the first.
    generation: u64,
    open: Option<(Multiplexed, AbortHandle)>,
}

impl Link {
    /// A link that connects at its first use to `targets[place]`, with the protocol of the target's access.
    pub(super) fn new(targets: &Arc<[Target]>, place: usize, crowd: &Arc<Crowd>) -> Arc<Self> {
        let state = State { place: place % targets.len(), generation: 0, open: None };
        Arc::new(Self {
            targets: targets.clone(),
            crowd: crowd.clone(),
            state: tokio::sync::Mutex::new(state),
        })
    }

    /// A handle on the connection and its generation. Connects where there is none, or where that of generation `broken`
    /// is the newest; tries until it succeeds.
    pub(super) async fn line(&self, broken: u64) -> (u64, Multiplexed) {
        let mut state = self.state.lock().await;
        loop {
            if let Some((line, _)) = state.open.as_ref().filter(|_| state.generation > broken) {
                return (state.generation, line.clone());
            }
            state.open = None;
            // It fails only when the sender is gone, and the crowd holds it.
            let _ = self.crowd.gate.subscribe().wait_for(|is_open| *is_open).await;
            let opened = {
                let _permit = self.crowd.handshakes.acquire().await;
                Multiplexed::open_severable(&self.targets[state.place]).await
            };
            match opened {
                Ok(open) => {
                    state.generation += 1;
                    state.open = Some(open);
                }
                Err(_) => {
                    self.crowd.connections_failed.fetch_add(1, Ordering::Relaxed);
                    state.place = (state.place + 1) % self.targets.len();
                    sleep(RETRY_PAUSE).await;
                }
            }
        }
    }

    /// Closes the socket of the connection, if there is one, as when its machine is gone.
    pub(super) async fn cut(&self) {
        if let Some((_, socket)) = self.state.lock().await.open.take() {
            socket.abort();
        }
    }
}
