//! Writers that each count up in an object of their own, through one member.
//!
//! Owns the acknowledged numbers. A number is written once: after an unknown outcome the writer goes on with the next.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{LOOK_INTERVAL, MEMBERS, NAMESPACE};
use crate::client::Client;

/// Timeout of one write: longer than the server's own limit for an outcome.
const WRITE_TIMEOUT: Duration = Duration::from_secs(15);

/// Pause after a failed write, and while the member is down.
const FAILURE_PAUSE: Duration = Duration::from_millis(2);

/// A client for each member that is up. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Doors(Arc<Mutex<[Option<Client>; MEMBERS]>>);

impl Doors {
    /// Sets the client for member `node`.
    pub(crate) fn set(&self, node: usize, client: Client) {
        self.0.lock()[node] = Some(client.with_timeout(WRITE_TIMEOUT));
    }

    /// Removes the client of member `node`, which is about to end.
    pub(crate) fn close(&self, node: usize) {
        self.0.lock()[node] = None;
    }

    /// The client of member `node`, unless it is down.
    pub(crate) fn get(&self, node: usize) -> Option<Client> {
        self.0.lock()[node].clone()
    }
}

/// Writes that a member acknowledged.
#[derive(Default)]
struct Acknowledged {
    count: usize,
    /// Moment from which a sent write counts, and the time of the first acknowledgement of such a write.
    awaited: Option<(Instant, Option<Instant>)>,
}

/// State shared by the writers.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// By member.
    members: Mutex<[Acknowledged; MEMBERS]>,
    /// For each writer, the numbers that were acknowledged, in order.
    numbers: Mutex<Vec<Vec<u64>>>,
}

/// Running writers.
pub(crate) struct Writers {
    shared: Arc<Shared>,
    tasks: JoinSet<Result<()>>,
}

/// The object of a writer.
pub(crate) fn name(writer: usize) -> String {
    format!("w{writer}")
}

impl Writers {
    /// Makes the objects and starts `count` writers, the first through the first member, and so on.
    pub(crate) async fn start(count: usize, doors: &Doors) -> Result<Writers> {
        let shared = Arc::new(Shared::default());
        *shared.numbers.lock() = vec![Vec::new(); count];
        let mut tasks = JoinSet::new();
        for writer in 0..count {
            let door = writer % MEMBERS;
            let Some(client) = doors.get(door) else { bail!("member {door} is down") };
            let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name(writer)}});
            client.post(&format!("/api/v1/namespaces/{NAMESPACE}/configmaps"), &object).await?.success()?;
            tasks.spawn(write(writer, doors.clone(), shared.clone()));
        }
        Ok(Writers { shared, tasks })
    }

    /// Number of acknowledged writes so far.
    pub(crate) fn count(&self) -> usize {
        self.counts(MEMBERS).iter().sum()
    }

    /// Number of acknowledged writes so far, by each of the first `members` members.
    pub(crate) fn counts(&self, members: usize) -> Vec<usize> {
        self.shared.members.lock().iter().take(members).map(|member| member.count).collect()
    }

    /// Records, for each member, the first acknowledgement of a write sent after `moment`.
    pub(crate) fn await_from(&self, moment: Instant) {
        for member in self.shared.members.lock().iter_mut() {
            member.awaited = Some((moment, None));
        }
    }

    /// The time from the awaited moment until member `door` had acknowledged a write that was sent after it.
    pub(crate) async fn resumed_after(&self, door: usize, patience: Duration) -> Result<Duration> {
        let start = Instant::now();
        while start.elapsed() < patience {
            if let Some((moment, Some(answered))) = self.shared.members.lock()[door].awaited {
                return Ok(answered - moment);
            }
            sleep(LOOK_INTERVAL).await;
        }
        bail!("no write through member {door} was acknowledged within {patience:?}")
    }

    /// Waits until each member has acknowledged `count` more writes.
    pub(crate) async fn wait_for_more(&self, count: usize, patience: Duration) -> Result<()> {
        let (start, before) = (Instant::now(), self.counts(MEMBERS));
        loop {
            let now = self.counts(MEMBERS);
            if now.iter().zip(&before).all(|(now, before)| now - before >= count) {
                return Ok(());
            }
            ensure!(start.elapsed() < patience, "a member acknowledges no writes: {before:?} {now:?}");
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// Stops the writers, and returns the acknowledged numbers of each and how many ended with an error.
    pub(crate) async fn stop(mut self) -> (Vec<Vec<u64>>, usize) {
        self.shared.stop.store(true, Ordering::Relaxed);
        let mut failed = 0;
        while let Some(ended) = self.tasks.join_next().await {
            if let Ok(Err(error)) | Err(error) = ended.map_err(anyhow::Error::from) {
                eprintln!("a writer failed: {error:#}");
                failed += 1;
            }
        }
        (std::mem::take(&mut *self.shared.numbers.lock()), failed)
    }
}

async fn write(writer: usize, doors: Doors, shared: Arc<Shared>) -> Result<()> {
    let door = writer % MEMBERS;
    let path = format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{}", name(writer));
    for number in 1_u64.. {
        if shared.stop.load(Ordering::Relaxed) {
            break;
        }
        let Some(client) = doors.get(door) else {
            sleep(FAILURE_PAUSE).await;
            continue;
        };
        let sent = Instant::now();
        match client.merge_patch(&path, &json!({"data": {"number": number.to_string()}})).await {
            Ok(answer) if answer.status == 200 => {
                shared.numbers.lock()[writer].push(number);
                let mut members = shared.members.lock();
                let member = &mut members[door];
                member.count += 1;
                if let Some((moment, answered @ None)) = &mut member.awaited
                    && sent > *moment
                {
                    *answered = Some(Instant::now());
                }
            }
            Ok(answer) => {
                ensure!(answer.status >= 429, "a good write was refused: {answer:?}");
                sleep(FAILURE_PAUSE).await;
            }
            Err(_) => sleep(FAILURE_PAUSE).await,
        }
    }
    Ok(())
}
