//! Following: the changes of the source, kind by kind, until it is given up for the target.
//!
//! Owns the watches, and what has to come first: an object waits for its owners and its namespace, and before an owner goes its dependents are
//! brought up to date, because the target's garbage collector would take those that the source has released.
//!
//! At the end, which a signal brings, everything is listed once more, so that nothing depends on the last events.

use std::collections::BTreeSet;
use std::io::{Write, sink};
use std::time::Duration;

use anyhow::bail;
use futures::FutureExt;
use futures::stream::{FuturesUnordered, StreamExt};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, interval, sleep, timeout};

use super::Move;
use super::copied::owners_of;
use super::copy::{Owners, Progress};
use super::kinds::{Kind, discover, place_of};
use super::left_out;
use crate::admin::open_stream;

/// Longest life of a watch, in seconds: the source ends it, and the next one goes on.
const WATCH_S: u64 = 300;
/// Longest silence of a watch; the source ends it before.
const SILENCE_MAX: Duration = Duration::from_secs(WATCH_S + 60);
/// Bytes of one event: an object of the greatest size with all escapes.
const EVENT_BYTES_MAX: usize = 16 << 20;
/// Between two attempts at a watch.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// Attempts without an event between them: longer than an election and a restart.
const ATTEMPTS_MAX: u32 = 60;
/// Longest wait for owners, whose events come over other watches.
const COMING_MAX: Duration = Duration::from_secs(5);
/// The same for a namespace, without which the object would be refused: its watch may have to be begun anew.
const HOME_MAX: Duration = Duration::from_secs(60);
/// Between two looks whether they came.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Between two lines about what was followed.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// Changes of a kind between two notes of its version in the state file.
const CHANGES_A_NOTE: u32 = 100;

/// Why a watch ended.
enum Ended {
    /// It goes on with another one.
    Closed,
    /// The source has forgotten the version: the list is to be read again.
    Gap,
    /// The kind is not served any more.
    Unserved,
}

impl Move<'_> {
    /// Copies changes until a signal comes, and then lists everything once more.
    ///
    /// # Errors
    /// A server cannot be used any further.
    pub(super) async fn follow(&self, out: &mut impl Write) -> anyhow::Result<()> {
        let (mut interrupt, mut terminate) =
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        writeln!(out, "following the source; stop its writers, then end this with Ctrl-C")?;
        out.flush()?;
        let (mut watches, mut watched) = (FuturesUnordered::new(), BTreeSet::new());
        let mut tell = interval(TELL_EVERY);
        let mut told = self.report.lock().total();
        self.is_declared.notify_one();
        loop {
            tokio::select! {
                _ = interrupt.recv() => break,
                _ = terminate.recv() => break,
                () = self.is_declared.notified() => {
                    for kind in self.kinds_to_watch().await? {
                        if watched.insert(kind.id()) {
                            watches.push(self.watch_kind(kind).boxed_local());
                        }
                    }
                }
                Some(ended) = watches.next() => {
                    watched.remove(&ended?);
                }
                _ = tell.tick() => {
                    // A kind may come into force later than its definition.
                    self.is_declared.notify_one();
                    let now = self.report.lock().total();
                    if now > told {
                        writeln!(out, "{} changes followed", now - told)?;
                        out.flush()?;
                        told = now;
                    }
                }
            }
        }
        drop(watches);
        writeln!(out, "listing everything once more")?;
        *self.report.lock() = super::Report::default();
        self.copied.lock().forget_versions();
        self.copy_all(out).await
    }

    async fn kinds_to_watch(&self) -> anyhow::Result<Vec<Kind>> {
        let (served, names) = (discover(&self.source).await?, discover(&self.target).await?);
        let (brand, with_events) = (self.served.brand, self.arguments.with_events);
        let moving =
            served.kinds().iter().filter(|kind| left_out::of_kind(brand, kind, with_events).is_none());
        Ok(moving.filter_map(|kind| names.shared(kind, &served)).collect())
    }

    /// Follows one kind while it is served; returns its id.
    async fn watch_kind(&self, kind: Kind) -> anyhow::Result<String> {
        let (id, mut failures, mut at) = (kind.id(), 0, 0);
        loop {
            let version = self.copied.lock().version(&id).map(str::to_owned);
            let Some(version) = version else {
                let (mut waiting, mut out) = (Vec::new(), sink());
                self.copy_kind(&kind, &mut waiting, &mut Progress::new(&mut out)).await?;
                self.copy_waiting(waiting).await?;
                if self.copied.lock().version(&id).is_none() {
                    return Ok(id);
                }
                continue;
            };
            let servers = &self.source.access.servers;
            let before = version.clone();
            match self.watch_once(&kind, &id, &version, &servers[at % servers.len()]).await {
                Ok(Ended::Closed) => {}
                Ok(Ended::Gap) => self.copied.lock().forget_version(&id),
                Ok(Ended::Unserved) => {
                    self.copied.lock().forget_version(&id);
                    return Ok(id);
                }
                Err(Broken::Final(error)) => return Err(error),
                Err(Broken::Again(reason)) => {
                    at += 1;
                    failures += 1;
                    if failures > ATTEMPTS_MAX {
                        bail!("{id} cannot be watched: {reason}");
                    }
                    sleep(RETRY_EVERY).await;
                }
            }
            if self.copied.lock().version(&id) != Some(&before) {
                failures = 0;
            }
        }
    }

    /// Copies the changes of one watch of `kind` from `version` on.
    async fn watch_once(&self, kind: &Kind, id: &str, version: &str, server: &str) -> Result<Ended, Broken> {
        let list = kind.list();
        let path = format!(
            "{list}?watch=1&allowWatchBookmarks=true&resourceVersion={version}&timeoutSeconds={WATCH_S}"
        );
        let response = open_stream(self.source.access, server, &path).await.map_err(Broken::Again)?;
        match response.status().as_u16() {
            200 => {}
            410 => return Ok(Ended::Gap),
            404 | 405 => return Ok(Ended::Unserved),
            401 | 403 => {
                return Err(Broken::Final(anyhow::anyhow!("{server} refuses to have {id} watched")));
            }
            _ => return Err(Broken::Again(response.status().to_string())),
        }
        let (mut lines, mut changes) = (Lines::new(response.into_body()), 0);
        while let Some(event) = lines.next().await? {
            let object = &event["object"];
            let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
            let is_change = match event["type"].as_str().unwrap_or_default() {
                "ADDED" | "MODIFIED" => {
                    self.apply(kind, id, object.clone()).await.map_err(Broken::Final)?;
                    true
                }
                "DELETED" => {
                    self.apply_removal(kind, id, &place_of(object)).await.map_err(Broken::Final)?;
                    true
                }
                "BOOKMARK" => false,
                _ if object["code"] == 410 => return Ok(Ended::Gap),
                _ => return Err(Broken::Again(object["message"].to_string())),
            };
            changes += u32::from(is_change);
            if is_change && changes % CHANGES_A_NOTE != 0 {
                self.copied.lock().set_version(id, &version);
            } else {
                self.finish(id, &version).map_err(Broken::Final)?;
            }
        }
        Ok(Ended::Closed)
    }

    /// Brings the target's object up to `object`.
    async fn apply(&self, kind: &Kind, id: &str, object: Value) -> anyhow::Result<()> {
        if !self.is_moving(kind, id, &object) {
            return Ok(());
        }
        self.wait_for_what_it_needs(kind, &object).await;
        self.expect(id, std::slice::from_ref(&object))?;
        self.send_one(kind, id, object).await?;
        if self.served.is_definition(kind) {
            self.is_declared.notify_one();
        }
        Ok(())
    }

    /// Waits until the owners and the namespace of `object` are at the target. An owner that the source has not either never comes.
    async fn wait_for_what_it_needs(&self, kind: &Kind, object: &Value) {
        let (owners, began) = (owners_of(object), Instant::now());
        let namespace = object["metadata"]["namespace"].as_str().filter(|_| kind.namespaced);
        loop {
            let (has_home, has_owners) = {
                let copied = self.copied.lock();
                let has_home =
                    namespace.is_none_or(|namespace| copied.uid_at(("namespaces", namespace)).is_some());
                (has_home, copied.are_present(&owners) || copied.are_overdue(&owners))
            };
            if has_home && has_owners {
                return;
            }
            let longest = if has_home { COMING_MAX } else { HOME_MAX };
            if began.elapsed() > longest {
                self.copied.lock().note_overdue(owners);
                return;
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Removes the object at `place`, after its dependents are as the source has them.
    async fn apply_removal(&self, kind: &Kind, id: &str, place: &str) -> anyhow::Result<()> {
        let Some(uid) = self.copied.lock().uid_at((id, place)) else { return Ok(()) };
        let dependents = self.copied.lock().dependents(&uid);
        for dependent in dependents {
            let at = (dependent.0.as_str(), dependent.1.as_str());
            let Some(of) = self.kind_of(self.served.kinds(), &dependent) else { continue };
            if self.copied.lock().uid_at(at).is_none() {
                continue;
            }
            match self.source.document(&of.path_of(at.1)).await? {
                Some(_) => self.copy_place(of, at, Owners::Kept).await?,
                None => self.remove_one(of, at.0, at.1).await?,
            }
        }
        self.remove_one(kind, id, place).await
    }
}

/// Why a watch did not go on.
enum Broken {
    /// Another attempt may succeed.
    Again(String),
    Final(anyhow::Error),
}

/// The events of a watch, one a line.
struct Lines {
    body: Incoming,
    /// What was received and is not taken.
    buffer: Vec<u8>,
    /// Bytes of it without an end of line.
    searched: usize,
}

impl Lines {
    fn new(body: Incoming) -> Self {
        Lines { body, buffer: Vec::new(), searched: 0 }
    }

    /// The next event; `None` at the end.
    async fn next(&mut self) -> Result<Option<Value>, Broken> {
        loop {
            let end = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n');
            if let Some(end) = end {
                let line: Vec<u8> = self.buffer.drain(..=self.searched + end).collect();
                self.searched = 0;
                let event = serde_json::from_slice(&line);
                return event.map(Some).map_err(|error| Broken::Again(error.to_string()));
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > EVENT_BYTES_MAX {
                return Err(Broken::Again(format!("an event of more than {EVENT_BYTES_MAX} bytes")));
            }
            let frame = timeout(SILENCE_MAX, self.body.frame()).await;
            match frame.map_err(|_| Broken::Again("it is silent".to_owned()))? {
                None => return Ok(None),
                Some(Err(error)) => return Err(Broken::Again(error.to_string())),
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
            }
        }
    }
}
