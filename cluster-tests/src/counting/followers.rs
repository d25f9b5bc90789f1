//! One watcher for each member; it resumes at another member when its own is killed.
//!
//! Owns the events seen and checks them: versions rise, the numbers of one writer rise, no watch of a surviving member
//! ends. At the end every watcher must have seen every acknowledged number.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::writers::{Doors, name};
use super::{LOOK_INTERVAL, MEMBERS, NAMESPACE};
use crate::client::Watch;

/// Time for the watchers to see all acknowledged numbers after writing ends.
const CATCH_UP_MAX: Duration = Duration::from_secs(30);

/// The numbers that one watcher received, by object.
type Seen = BTreeMap<String, BTreeSet<u64>>;

/// State shared by the watchers.
struct Shared {
    seen: Mutex<Vec<Seen>>,
    /// For each watcher, the number of each object when its watch began.
    listed: Mutex<Vec<BTreeMap<String, u64>>>,
    /// Number of kills of each member, which is how often its watches may end.
    ends: [AtomicUsize; MEMBERS],
    broken: AtomicUsize,
}

/// Running watchers.
pub(crate) struct Followers {
    shared: Arc<Shared>,
    tasks: JoinSet<Result<()>>,
}

/// The result of the watchers: missing numbers and broken watches.
pub(crate) struct Losses {
    /// Acknowledged numbers that a watcher has not seen, over all watchers.
    pub(crate) lost: usize,
    /// Watches of surviving members that ended or broke a rule.
    pub(crate) broken: usize,
}

impl Followers {
    /// Starts a watcher at each of the first `count` members.
    pub(crate) async fn start(count: usize, doors: &Doors) -> Result<Followers> {
        let shared = Arc::new(Shared {
            seen: Mutex::new(vec![Seen::new(); count]),
            ends: std::array::from_fn(|_| AtomicUsize::new(0)),
            broken: AtomicUsize::new(0),
            listed: Mutex::new(vec![BTreeMap::new(); count]),
        });
        let mut tasks = JoinSet::new();
        for follower in 0..count {
            let client = doors.get(follower).context("the member is down")?;
            let list = client.get(&collection()).await?.success()?;
            let start = version(&list)?;
            // Numbers up to those in the list precede the watch: it sends no event for them.
            for object in list["items"].as_array().into_iter().flatten() {
                // Made by its writer, and not written yet: each of its numbers is an event.
                if object["data"].is_null() {
                    continue;
                }
                let (name, number) = numbered(object)?;
                shared.listed.lock()[follower].insert(name, number);
            }
            tasks.spawn(follow(follower, start, doors.clone(), shared.clone()));
        }
        Ok(Followers { shared, tasks })
    }

    /// Member `node` is about to be killed: a watch there may end.
    pub(crate) fn expect_end(&self, node: usize) {
        self.shared.ends[node].fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until every watcher has seen all acknowledged numbers, at most `CATCH_UP_MAX`, and counts the missing
    /// ones.
    pub(crate) async fn finish(mut self, acknowledged: &[Vec<u64>]) -> Result<Losses> {
        let start = Instant::now();
        let mut lost = self.missing(acknowledged);
        while lost > 0 && start.elapsed() < CATCH_UP_MAX {
            sleep(LOOK_INTERVAL * 50).await;
            lost = self.missing(acknowledged);
        }
        while let Some(ended) = self.tasks.try_join_next() {
            self.shared.broken.fetch_add(1, Ordering::Relaxed);
            eprintln!("a watcher failed: {:?}", ended?);
        }
        Ok(Losses { lost, broken: self.shared.broken.load(Ordering::Relaxed) })
    }

    fn missing(&self, acknowledged: &[Vec<u64>]) -> usize {
        let (all, listed) = (self.shared.seen.lock(), self.shared.listed.lock());
        let of = |(seen, listed): (&Seen, &BTreeMap<String, u64>)| -> usize {
            let missing = acknowledged.iter().enumerate().map(|(writer, numbers)| {
                let (seen, listed) = (seen.get(&name(writer)), listed.get(&name(writer)).copied());
                let later = numbers.iter().filter(|number| listed.is_none_or(|listed| **number > listed));
                later.filter(|number| seen.is_none_or(|seen| !seen.contains(number))).count()
            });
            missing.sum()
        };
        all.iter().zip(listed.iter()).map(of).sum()
    }
}

async fn follow(follower: usize, start: u64, doors: Doors, shared: Arc<Shared>) -> Result<()> {
    let (mut last, mut door) = (start, follower);
    loop {
        let Some(client) = doors.get(door) else {
            door = (door + 1) % MEMBERS;
            sleep(LOOK_INTERVAL).await;
            continue;
        };
        let allowed = shared.ends[door].load(Ordering::Relaxed);
        let path = format!("{}?watch=1&resourceVersion={last}", collection());
        let opened = client.watch(&path).await;
        let ended = match opened {
            Ok(mut watch) => take_events(follower, &mut watch, &mut last, &shared).await,
            Err(error) => Err(error),
        };
        let is_expected = shared.ends[door].load(Ordering::Relaxed) > allowed || doors.get(door).is_none();
        if !is_expected {
            shared.broken.fetch_add(1, Ordering::Relaxed);
            eprintln!("the watch at member {door} broke after {last}: {ended:?}");
        }
        door = (door + 1) % MEMBERS;
    }
}

/// Takes events until the watch ends.
async fn take_events(follower: usize, watch: &mut Watch, last: &mut u64, shared: &Shared) -> Result<()> {
    loop {
        let Some(event) = watch.line().await? else { bail!("the server ended the watch") };
        let object = &event["object"];
        ensure!(event["type"] == "MODIFIED", "an event that is no change: {event}");
        let version = version(object)?;
        ensure!(version > *last, "version {version} after {last}");
        let (name, number) = numbered(object)?;
        let mut seen = shared.seen.lock();
        let numbers = seen[follower].entry(name.clone()).or_default();
        let newest = numbers.last().copied().unwrap_or(0);
        ensure!(number > newest, "{name} had {number} after {newest}");
        numbers.insert(number);
        *last = version;
    }
}

/// The path of the written objects.
pub(crate) fn collection() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/configmaps")
}

/// The name of an object and the number that its writer gave it.
pub(crate) fn numbered(object: &Value) -> Result<(String, u64)> {
    let name = object["metadata"]["name"].as_str().context("an object without a name")?;
    let number = object["data"]["number"].as_str().context("an object without a number")?.parse()?;
    Ok((name.to_owned(), number))
}

fn version(object: &Value) -> Result<u64> {
    Ok(object["metadata"]["resourceVersion"].as_str().context("an object without a version")?.parse()?)
}
