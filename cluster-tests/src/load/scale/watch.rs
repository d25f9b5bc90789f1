//! A watch that resumes from its version when its stream ends, and lists again when that is too old, as a client's
//! reflector does.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::time::{sleep, timeout};

use super::event::{self, Event, Kind, Lines};
use super::link::{Crowd, Link};
use super::retry::{Retry, random_part};
use super::stage::node_name;
use crate::load::OPERATION_TIMEOUT;
use crate::load::multiplex::Multiplexed;
use crate::load::wire::Call;

/// Seconds of a stream that lasts longer than its work, so that it does not end and is not opened again meanwhile.
const WORK_SECONDS: u32 = 4 * 3600;

/// The objects of a watch, and its position.
pub(super) struct Watch {
    pub(super) link: Arc<Link>,
    /// Path of the collection.
    pub(super) collection: String,
    /// `&fieldSelector=...` or `&labelSelector=...`, escaped; empty for all objects.
    pub(super) selector: String,
    /// Version to go on from; `None`: list first.
    pub(super) version: Option<u64>,
    /// Seconds after which the server is asked to end a stream.
    pub(super) seconds: u32,
}

impl Watch {
    /// Watch `number` of the works without kubelets: the pods of the node of this number, from `version` on, over one of
    /// `links`.
    pub(super) fn of_node(number: u32, links: &[Arc<Link>], version: u64) -> Watch {
        Watch {
            link: links[number as usize % links.len()].clone(),
            collection: "/api/v1/pods".to_owned(),
            selector: format!("&fieldSelector=spec.nodeName%3D{}", node_name(number)),
            version: Some(version),
            seconds: WORK_SECONDS,
        }
    }
}

/// Reason why a stream ended, or was not opened.
#[derive(Debug)]
enum End {
    /// By the server, or with the connection.
    Stream,
    /// The connection broke.
    Connection,
    /// The version is too old.
    Expired,
    /// The server is busy, and said when to come back.
    Deferred(Duration),
    /// Anything else, which counts as a failure.
    Failed(String),
}

/// State of a watch that is followed.
struct Follower<F> {
    watch: Watch,
    crowd: Arc<Crowd>,
    on_change: F,
    lines: Lines,
    /// The end of the last stream, until the watch stands again.
    lost: Option<Instant>,
    /// Whether the watch has listed since its last stream.
    has_listed: bool,
    /// The failures since it last stood.
    retry: Retry,
}

/// Follows `watch` for ever: the task that does it is aborted. `on_change` gets each change.
pub(super) async fn follow(watch: Watch, crowd: Arc<Crowd>, on_change: impl FnMut(&Event<'_>) + Send) {
    let has_listed = watch.version.is_none();
    let retry = Retry::default();
    let mut follower =
        Follower { watch, crowd, on_change, lines: Lines::default(), lost: None, has_listed, retry };
    let mut broken = 0;
    loop {
        let (generation, mut line) = follower.watch.link.line(broken).await;
        match follower.once(&mut line).await {
            End::Stream => {}
            End::Connection => broken = generation,
            End::Expired => {
                follower.watch.version = None;
                follower.has_listed = true;
            }
            End::Deferred(after) => {
                follower.crowd.deferred.fetch_add(1, Ordering::Relaxed);
                sleep(follower.retry.pause(Some(after), random_part())).await;
            }
            End::Failed(kind) => {
                follower.crowd.failure(kind);
                sleep(follower.retry.pause(None, random_part())).await;
            }
        }
    }
}

impl<F: FnMut(&Event<'_>) + Send> Follower<F> {
    /// Runs a stream of the watch, from its request to its end.
    async fn once(&mut self, line: &mut Multiplexed) -> End {
        let version = match self.watch.version {
            Some(version) => version,
            None => match list(&self.watch, line).await {
                Ok(version) => version,
                Err(end) => return end,
            },
        };
        self.watch.version = Some(version);
        let Watch { collection, selector, seconds, .. } = &self.watch;
        let path = format!(
            "{collection}?watch=1&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={version}{selector}"
        );
        let call = Call { method: "GET", path: &path, content_type: "", body: b"" };
        match timeout(OPERATION_TIMEOUT, line.begin(&call)).await {
            Ok(Ok(200)) => {}
            Ok(Ok(410)) => return End::Expired,
            Ok(Ok(status)) => {
                let failed = || End::Failed(format!("watch: status {status}"));
                return line.retry_after().map_or_else(failed, End::Deferred);
            }
            Ok(Err(_)) => return End::Connection,
            Err(_) => return End::Failed("watch: no answer".to_owned()),
        }
        self.stand();
        let end = self.read(line).await;
        self.crowd.standing.fetch_sub(1, Ordering::AcqRel);
        self.crowd.ended.fetch_add(1, Ordering::AcqRel);
        self.lost = Some(Instant::now());
        end
    }

    /// Counts the watch as standing, and how it came to be.
    fn stand(&mut self) {
        if let Some(lost) = self.lost.take() {
            let way = if self.has_listed { &self.crowd.relisted } else { &self.crowd.resumed };
            way.fetch_add(1, Ordering::AcqRel);
            self.crowd.pause(lost.elapsed());
        }
        self.has_listed = false;
        self.retry = Retry::default();
        self.crowd.standing.fetch_add(1, Ordering::AcqRel);
        self.lines = Lines::default();
    }

    /// Reads events until the stream ends.
    async fn read(&mut self, line: &mut Multiplexed) -> End {
        loop {
            let Self { lines, watch, crowd, on_change, .. } = self;
            let mut end = None;
            let take = |piece: &[u8]| {
                lines.feed(piece, |event| {
                    watch.version = event.version().or(watch.version);
                    match event.kind {
                        Kind::Change => {
                            crowd.events.fetch_add(1, Ordering::AcqRel);
                            on_change(&event);
                        }
                        Kind::Bookmark => {
                            crowd.bookmarks.fetch_add(1, Ordering::AcqRel);
                        }
                        Kind::Expired => end = Some(End::Expired),
                        Kind::Error => end = Some(End::Failed("watch: ERROR event".to_owned())),
                    }
                });
            };
            match line.piece(take).await {
                Ok(true) => {}
                Ok(false) => return end.unwrap_or(End::Stream),
                Err(_) => return end.unwrap_or(End::Connection),
            }
            if let Some(end) = end {
                return end;
            }
        }
    }
}

/// Lists, and returns the version to watch from.
async fn list(watch: &Watch, line: &mut Multiplexed) -> Result<u64, End> {
    let path = format!("{}?resourceVersion=0{}", watch.collection, watch.selector);
    let call = Call { method: "GET", path: &path, content_type: "", body: b"" };
    let reply = match timeout(OPERATION_TIMEOUT, line.exchange(&call)).await {
        Ok(Ok(reply)) => reply,
        Ok(Err(_)) => return Err(End::Connection),
        Err(_) => return Err(End::Failed("list: no answer".to_owned())),
    };
    if reply.status != 200 {
        let failed = || End::Failed(format!("list: status {}", reply.status));
        return Err(line.retry_after().map_or_else(failed, End::Deferred));
    }
    event::version(line.head()).ok_or_else(|| End::Failed("list: no version".to_owned()))
}

/// The version of `collection` now, to start watches from.
pub(super) async fn version_now(client: &crate::client::Client, collection: &str) -> Result<u64> {
    let list = client.get(&format!("{collection}?limit=1")).await?.success()?;
    let version = list["metadata"]["resourceVersion"].as_str().context("the list has no version")?;
    version.parse().context("the list's version is no number")
}
