//! The watch work: many watchers that all see every change, and writers limited by the slowest watcher.
//!
//! Writers patch objects with the time in them; a watcher counts the lines it gets. A writer waits while the slowest
//! watcher is more than `LAG_EVENTS_MAX` behind, so that all watchers sustain the rate. At the end each watcher must
//! have got exactly as many events as there were acknowledged changes; anything else is an error. Latencies are those
//! of delivery, from before the write was sent, on one watcher of each thread.

mod writer;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use futures::future::join_all;
use tokio::runtime::Builder;
use tokio::time::timeout;

use super::driver::{Load, Outcome};
use super::events::Events;
use super::line::{Line, Lines};
use super::process;
use super::tally::Tally;
use super::wire::Call;

/// Objects that the writers patch, spread over them.
pub(super) const OBJECTS: u32 = 256;

/// Events that the slowest watcher may lag before writers wait: enough to batch, little against any history.
const LAG_EVENTS_MAX: u64 = 1000;

/// Interval at which a waiting watcher checks whether it has every event.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Time without an event after the last write, after which the remaining events count as missed.
const QUIET_MAX: Duration = Duration::from_secs(15);

/// Time that a watcher with all events waits for surplus ones. Not part of the measured time.
const SETTLE: Duration = Duration::from_millis(300);

/// State shared by all watchers and writers.
struct Shared {
    /// Start of the clock of all stamps.
    epoch: Instant,
    namespace: String,
    /// Writers; the clients of the load.
    writers: u32,
    /// Acknowledged changes.
    written: AtomicU64,
    /// Operations left.
    budget: AtomicI64,
    writers_left: AtomicU64,
    failed: AtomicBool,
    /// Time of the last event, in nanoseconds since the epoch.
    last_event: AtomicU64,
    /// Events seen, by watcher; `u64::MAX` for a watcher that has ended.
    seen: Vec<AtomicU64>,
}

impl Shared {
    fn slowest(&self) -> u64 {
        self.seen.iter().map(|seen| seen.load(Ordering::Relaxed)).min().unwrap_or(u64::MAX)
    }

    fn note_event(&self, at: Instant) {
        let nanos = u64::try_from((at - self.epoch).as_nanos()).unwrap_or(u64::MAX);
        self.last_event.fetch_max(nanos, Ordering::AcqRel);
    }

    fn complete(&self) -> bool {
        self.writers_left.load(Ordering::Acquire) == 0
    }
}

/// Runs `watchers` watchers of `namespace` from `version` on, and the clients of `load` as writers.
pub(super) fn watch(load: &Load, namespace: &str, version: &str, watchers: u32) -> Result<Outcome> {
    let threads = load.threads.min(watchers);
    let shared = Shared {
        epoch: Instant::now(),
        namespace: namespace.to_owned(),
        writers: load.clients,
        written: AtomicU64::new(0),
        budget: AtomicI64::new(load.count.map_or(i64::MAX, |count| i64::try_from(count).unwrap_or(i64::MAX))),
        writers_left: AtomicU64::new(u64::from(load.clients)),
        failed: AtomicBool::new(false),
        last_event: AtomicU64::new(0),
        seen: (0..watchers).map(|_| AtomicU64::new(0)).collect(),
    };
    let (connected, started) = (Barrier::new(threads as usize + 1), Barrier::new(threads as usize + 1));
    // Built before the barriers, where a failure leaves nobody waiting.
    let runtimes: Vec<_> =
        (0..threads).map(|_| Builder::new_current_thread().enable_all().build()).collect::<Result<_, _>>()?;
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .zip(runtimes)
            .map(|(thread, runtime)| {
                let (shared, connected, started) = (&shared, &connected, &started);
                scope.spawn(move || -> Result<Tally> {
                    let opened = runtime.block_on(open_all(load, shared, version, (thread, threads)));
                    shared.failed.fetch_or(opened.is_err(), Ordering::AcqRel);
                    connected.wait();
                    started.wait();
                    let (watchers, writers) = opened?;
                    if shared.failed.load(Ordering::Acquire) {
                        return Tally::new(); // another thread reports the reason
                    }
                    runtime.block_on(run_all(shared, watchers, writers, load.duration))
                })
            })
            .collect();
        connected.wait();
        let cpu_before = process::cpu_time(&load.pids);
        let start = shared.epoch.elapsed();
        started.wait();
        let mut tally = Tally::new()?;
        for worker in workers {
            tally.merge(&worker.join().map_err(|_| anyhow!("a load thread panicked"))??)?;
        }
        let end = Duration::from_nanos(shared.last_event.load(Ordering::Acquire));
        let elapsed = end.saturating_sub(start).max(Duration::from_nanos(1));
        let cpu = process::cpu_time(&load.pids)?.saturating_sub(cpu_before?);
        Ok(Outcome { tally, elapsed, cpu: (!load.pids.is_empty()).then_some(cpu), profile: None })
    })
}

type Opened = (Vec<(usize, Line)>, Vec<(u32, Line)>);

/// Connects the watchers and writers of one thread out of several.
async fn open_all(
    load: &Load,
    shared: &Shared,
    version: &str,
    (thread, threads): (u32, u32),
) -> Result<Opened> {
    let (mut lines, mut watchers, mut writers) = (Lines::new(load.protocol), Vec::new(), Vec::new());
    // A watch occupies its connection for as long as the work lasts, so writers have connections of their own.
    for number in (thread as usize..shared.seen.len()).step_by(threads as usize) {
        let mut line = lines.open(&load.targets, number % load.targets.len()).await?;
        let path =
            format!("/api/v1/namespaces/{}/configmaps?watch=1&resourceVersion={version}", shared.namespace);
        let call = Call { method: "GET", path: &path, content_type: "", body: b"" };
        let status = timeout(super::OPERATION_TIMEOUT, line.begin(&call)).await??;
        anyhow::ensure!(status == 200, "a watch was answered {status}");
        watchers.push((number, line));
    }
    let mut lines = Lines::new(load.protocol);
    for number in (thread..shared.writers).step_by(threads as usize) {
        writers.push((number, lines.open(&load.targets, number as usize % load.targets.len()).await?));
    }
    Ok((watchers, writers))
}

async fn run_all(
    shared: &Shared,
    watchers: Vec<(usize, Line)>,
    writers: Vec<(u32, Line)>,
    duration: Duration,
) -> Result<Tally> {
    let deadline = Instant::now() + duration;
    let first = watchers.first().map(|(number, _)| *number);
    let watching = watchers.into_iter().map(|(number, line)| {
        let events = if Some(number) == first { Events::sampling(shared.epoch) } else { Events::counting() };
        follow(shared, number, line, events)
    });
    let writing = writers.into_iter().map(|(number, line)| writer::write(shared, number, line, deadline));
    let (watched, written) = futures::join!(join_all(watching), join_all(writing));
    let mut total = Tally::new()?;
    for tally in watched.into_iter().chain(written) {
        total.merge(&tally?)?;
    }
    Ok(total)
}

/// Reads one watch until it has every change.
async fn follow(shared: &Shared, number: usize, mut line: Line, mut events: Events) -> Result<Tally> {
    let mut tally = Tally::new()?;
    let mut last = Instant::now();
    let failure = loop {
        // The order matters: once no writer is left, the count of written changes is final.
        let complete = shared.complete();
        let written = shared.written.load(Ordering::Acquire);
        let has_all = complete && events.count == written;
        if complete && events.count > written {
            break Some("watch: too many events".to_owned());
        }
        let patience = if has_all { SETTLE } else { LOOK_INTERVAL };
        let take = |piece: &[u8]| {
            tally.bytes += piece.len() as u64;
            events.feed(piece, |latency| tally.latency(latency));
        };
        match timeout(patience, line.piece(take)).await {
            Ok(Ok(true)) => {
                last = Instant::now();
                shared.note_event(last);
                shared.seen[number].store(events.count, Ordering::Relaxed);
                if events.ended_with_error {
                    break Some("watch: ERROR event".to_owned());
                }
            }
            Ok(Ok(false)) => break Some("watch: ended".to_owned()),
            Ok(Err(error)) => break Some(format!("watch: {error}")),
            Err(_) if has_all => break None,
            Err(_) if complete && last.elapsed() > QUIET_MAX => {
                break Some("watch: events missed".to_owned());
            }
            Err(_) => {}
        }
    };
    shared.seen[number].store(u64::MAX, Ordering::Relaxed);
    tally.operations = events.count;
    if let Some(kind) = failure {
        tally.failure(kind);
    }
    Ok(tally)
}
