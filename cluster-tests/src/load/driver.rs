//! Closed-loop clients: each sends its next request when the last is answered, until the count or the time is up.
//!
//! Clients are spread over a few threads with a runtime each, so that no task moves between cores. Connecting is not
//! measured: the clock and the servers' CPU time start when all are connected.

use std::sync::Barrier;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use futures::future::join_all;
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

use super::line::{Line, Lines, Protocol};
use super::stages::{Profile, Recording};
use super::tally::Tally;
use super::target::Target;
use super::work::Script;
use super::{OPERATION_TIMEOUT, process};

/// Pause before a client that lost its connection connects again, so that a dead server is not stormed.
const RECONNECT_PAUSE: Duration = Duration::from_millis(50);

/// Servers, clients and limits of a work.
#[derive(Clone)]
pub(super) struct Load {
    pub(super) targets: Vec<Target>,
    pub(super) threads: u32,
    pub(super) clients: u32,
    pub(super) duration: Duration,
    pub(super) count: Option<u64>,
    pub(super) protocol: Protocol,
    pub(super) pids: Vec<u32>,
    /// Stacks of the servers are recorded.
    pub(super) stages: bool,
}

/// The measurements of one work.
pub(super) struct Outcome {
    pub(super) tally: Tally,
    pub(super) elapsed: Duration,
    /// CPU time that the server processes used meanwhile; `None` without process ids.
    pub(super) cpu: Option<Duration>,
    /// Where it went, if that was recorded.
    pub(super) profile: Option<Profile>,
}

/// Runs the clients of `load`, client number `n` with the script `script(n)`.
pub(super) fn drive(load: &Load, script: impl Fn(u32) -> Script + Sync) -> Result<Outcome> {
    let threads = load.threads.min(load.clients);
    let connected = Barrier::new(threads as usize + 1);
    let started = Barrier::new(threads as usize + 1);
    let budget =
        AtomicI64::new(load.count.map_or(i64::MAX, |count| i64::try_from(count).unwrap_or(i64::MAX)));
    // Built before the barriers, where a failure leaves nobody waiting.
    let runtimes: Vec<_> =
        (0..threads).map(|_| Builder::new_current_thread().enable_all().build()).collect::<Result<_, _>>()?;
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .zip(runtimes)
            .map(|(thread, runtime)| {
                let numbers: Vec<u32> = (thread..load.clients).step_by(threads as usize).collect();
                let (connected, started, budget, script) = (&connected, &started, &budget, &script);
                scope.spawn(move || -> Result<Tally> {
                    let clients = runtime.block_on(connect_all(load, &numbers, script));
                    connected.wait();
                    started.wait();
                    runtime.block_on(run_all(clients?, load.duration, budget))
                })
            })
            .collect();
        connected.wait();
        let recording = load.stages.then(|| Recording::begin(&load.pids));
        let cpu_before = process::cpu_time(&load.pids);
        let start = Instant::now();
        started.wait();
        let mut tally = Tally::new()?;
        for worker in workers {
            tally.merge(&worker.join().map_err(|_| anyhow!("a load thread panicked"))??)?;
        }
        let elapsed = start.elapsed();
        let cpu = process::cpu_time(&load.pids)?.saturating_sub(cpu_before?);
        let profile = recording.transpose()?.map(Recording::end).transpose()?;
        Ok(Outcome { tally, elapsed, cpu: (!load.pids.is_empty()).then_some(cpu), profile })
    })
}

/// A client before it starts.
struct Client {
    line: Line,
    target: Target,
    protocol: Protocol,
    script: Script,
}

async fn connect_all(load: &Load, numbers: &[u32], script: impl Fn(u32) -> Script) -> Result<Vec<Client>> {
    let mut lines = Lines::new(load.protocol);
    let mut clients = Vec::with_capacity(numbers.len());
    for number in numbers {
        let place = *number as usize % load.targets.len();
        let (line, target) = (lines.open(&load.targets, place).await?, load.targets[place].clone());
        clients.push(Client { line, target, protocol: load.protocol, script: script(*number) });
    }
    Ok(clients)
}

async fn run_all(clients: Vec<Client>, duration: Duration, budget: &AtomicI64) -> Result<Tally> {
    let deadline = Instant::now() + duration;
    let mut total = Tally::new()?;
    for tally in join_all(clients.into_iter().map(|client| repeat(client, deadline, budget))).await {
        total.merge(&tally?)?;
    }
    Ok(total)
}

async fn repeat(mut client: Client, deadline: Instant, budget: &AtomicI64) -> Result<Tally> {
    let mut tally = Tally::new()?;
    while Instant::now() < deadline && budget.fetch_sub(1, Ordering::Relaxed) > 0 {
        let start = Instant::now();
        let call = client.script.next();
        let Err(kind) = (match timeout(OPERATION_TIMEOUT, client.line.exchange(&call)).await {
            Ok(Ok(reply)) => {
                let good = client.script.answered(&reply, client.line.head());
                if good {
                    tally.success(start.elapsed(), reply.bytes);
                } else {
                    tally.failure(format!("status {}", reply.status));
                }
                Ok(())
            }
            Ok(Err(error)) => Err(broken(&error)),
            Err(_) => Err("timeout".to_owned()),
        }) else {
            continue;
        };
        tally.failure(kind);
        if !reconnect(&mut client, deadline).await {
            tally.failure("cannot connect again");
            break;
        }
    }
    Ok(tally)
}

/// Reconnects, with pauses, until the deadline; `true` on success.
async fn reconnect(client: &mut Client, deadline: Instant) -> bool {
    loop {
        sleep(RECONNECT_PAUSE).await;
        if let Ok(line) = Line::open(&client.target, client.protocol).await {
            client.line = line;
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
    }
}

fn broken(error: &anyhow::Error) -> String {
    match error.downcast_ref::<std::io::Error>() {
        Some(error) => format!("connection: {}", error.kind()),
        None => "connection: HTTP/2".to_owned(),
    }
}
