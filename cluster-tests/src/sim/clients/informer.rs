//! A client that keeps a copy of a collection, as the ecosystem's informers do: list, watch from there, resume at
//! another member when the connection ends, list again when the history no longer reaches back.
//!
//! It parses the API's watch frames. Every event counts once and in order, over all members that served the watch, and
//! at its end the copy equals the collection. Towards the end of a run it stays on one member: the last write must then
//! reach it on that connection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use openraft_rt::AsyncRuntime;
use orch_api::error::ApiError;
use orch_api::index::Way;
use orch_api::request::Verb;
use orch_raft::Revision;
use orch_raft::transport::NodeId;
use tokio::sync::mpsc::Receiver;

use super::lister::{collection, list, pick_filter};
use super::wire::Event;
use crate::sim::history::Version;
use crate::sim::ledger::{MIRRORS, THINGS};
use crate::sim::runtime::NodeRuntime;
use crate::sim::session::{Driver, Frame, Session};
use crate::sim::sightings::{Kind, Listed, Sighting, Watched};

/// Maximum of frames a watch takes from one member before it goes on with another.
const FRAMES_MAX: u64 = 12;

/// Longest wait for a frame before it changes the member.
const PATIENCE_MS_MAX: u64 = 900;

/// Members that serve a watch before a new one begins.
const RESUMED_MAX: u32 = 8;

/// Time from a write's application on all members until its watch event: a few network delays.
const WAKE_MAX: Duration = Duration::from_secs(2);

/// Interval at which a client that stays checks for the end.
const LOOK: Duration = Duration::from_millis(100);

/// `timeoutSeconds` of the last watch: longer than the end of a run.
const LAST_SECONDS: u64 = 900;

/// An informer.
#[derive(Default)]
pub struct Informer {
    watched: Option<Watched>,
    /// The objects as of the last event; `None` if the watch began without a list.
    copy: Option<BTreeMap<Arc<str>, Version>>,
}

/// State of a connection after a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// More frames may come.
    Open,
    /// The watch is over: the history no longer holds the next events, or the request was refused.
    Over,
}

impl Driver for Informer {
    fn name(&self) -> &'static str {
        "informer"
    }

    fn drive(mut self: Box<Self>, session: Session) -> BoxFuture<'static, ()> {
        async move {
            while session.world().failure().is_none() && !self.is_done(&session) {
                let is_same = |watch: &Watched| watch.resumed < RESUMED_MAX || session.world().is_settling();
                if !self.watched.as_ref().is_some_and(is_same) {
                    self.end(&session);
                    Box::pin(self.begin(&session)).await;
                }
                if self.watched.is_some() {
                    self.connect(&session).await;
                }
                session.think(20).await;
            }
            self.end(&session);
        }
        .boxed()
    }
}

impl Informer {
    /// It has seen everything that was written in the run.
    fn is_done(&self, session: &Session) -> bool {
        let seen = self.watched.as_ref().map(|watch| watch.through);
        session.world().drained_at().is_some_and(|end| seen.is_some_and(|seen| seen >= end))
    }

    /// Records the events seen, and the copy as a list to be checked.
    fn end(&mut self, session: &Session) {
        let Some(watched) = self.watched.take() else { return };
        if let Some(copy) = self.copy.take() {
            session.world().record_list(Listed {
                resource: watched.resource.clone(),
                filter: watched.filter.clone(),
                revision: watched.through,
                not_before: watched.start,
                items: copy.into_iter().collect(),
                way: Way::Scan,
            });
        }
        session.world().record_watch(watched);
    }

    /// Lists, or begins without a list: at a revision a little before or after the newest.
    async fn begin(&mut self, session: &Session) {
        let dice = session.dice();
        let storage = if dice.percent(25) { MIRRORS } else { THINGS };
        let filter = pick_filter(session, storage);
        let bare = dice.percent(25);
        if !bare && dice.percent(30) {
            return self.begin_streaming(session, storage, filter).await;
        }
        let known = session.world().acknowledged();
        let Some(listed) = list(session, storage, filter, "", known).await else { return };
        let start = match dice.number(0..4) {
            _ if !bare => listed.revision,
            0 => Revision(listed.revision.0 + dice.number(0..5)),
            _ => Revision(listed.revision.0.saturating_sub(dice.number(0..60)).max(1)),
        };
        self.copy = (!bare).then(|| listed.items.iter().cloned().collect());
        self.watched = Some(watch(session, &listed, start));
        session.world().record_list(listed);
    }

    /// A streaming list: the collection as ADDED events, then a bookmark that marks its end.
    async fn begin_streaming(
        &mut self,
        session: &Session,
        storage: &'static str,
        filter: crate::sim::sightings::Filter,
    ) {
        let not_before = session.world().acknowledged();
        let options = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
        let ask = collection(Verb::Watch, storage, &filter, options);
        let Ok(mut frames) = session.watch(session.pick(), &ask).await else { return };
        let mut items: BTreeMap<Arc<str>, Version> = BTreeMap::new();
        loop {
            let patience = Duration::from_millis(PATIENCE_MS_MAX * 2);
            let Ok(Some(Ok(frame))) = NodeRuntime::timeout(patience, frames.recv()).await else { return };
            for event in events(session, &frame) {
                let metadata = &event.object.metadata;
                let (Some(version), Some(revision)) = (metadata.version(), metadata.revision()) else {
                    return;
                };
                if event.kind == "ADDED" {
                    items.insert(metadata.path(), version);
                } else if event.kind == "BOOKMARK" && metadata.ends_initial_events() {
                    let resource = Arc::from(storage);
                    let listed = Listed {
                        resource,
                        filter,
                        revision,
                        not_before,
                        items: items.clone().into_iter().collect(),
                        way: Way::Scan,
                    };
                    self.copy = Some(items);
                    self.watched = Some(watch(session, &listed, revision));
                    return session.world().record_list(listed);
                } else {
                    return;
                }
            }
        }
    }

    /// Watches at a random member until it is time for another.
    async fn connect(&mut self, session: &Session) {
        let Some(watch) = self.watched.as_mut() else { return };
        let (dice, node, settling) = (session.dice(), session.pick(), session.world().is_settling());
        watch.resumed += 1;
        let seconds = if settling { LAST_SECONDS } else { dice.number(1..4) };
        let options =
            format!("resourceVersion={}&allowWatchBookmarks=true&timeoutSeconds={seconds}", watch.through);
        let storage = if *watch.resource == *THINGS { THINGS } else { MIRRORS };
        let ask = collection(Verb::Watch, storage, &watch.filter, &options);
        let Ok(mut frames) = session.watch(node, &ask).await else { return };
        let flow = if settling {
            session.world().note_settled(true);
            let flow = self.stay(session, node, &mut frames).await;
            session.world().note_settled(false);
            flow
        } else {
            self.follow(session, &mut frames).await
        };
        if flow == Flow::Over {
            self.end(session);
        }
    }

    /// Takes some frames, some of them slowly.
    async fn follow(&mut self, session: &Session, frames: &mut Receiver<Frame>) -> Flow {
        let dice = session.dice();
        for _ in 0..dice.number(1..FRAMES_MAX) {
            if session.world().is_settling() {
                return Flow::Open;
            }
            let next = NodeRuntime::timeout(dice.millis(20..PATIENCE_MS_MAX), frames.recv()).await;
            let Ok(Some(frame)) = next else { return Flow::Open };
            if self.take(session, frame) == Flow::Over {
                return Flow::Over;
            }
            if dice.percent(5) {
                session.think(300).await;
            }
        }
        Flow::Open
    }

    /// Stays with the watch until all was seen. The faults are over, so a missing event was not sent.
    async fn stay(&mut self, session: &Session, node: NodeId, frames: &mut Receiver<Frame>) -> Flow {
        let mut told = None;
        while session.world().failure().is_none() && !self.is_done(session) {
            match NodeRuntime::timeout(LOOK, frames.recv()).await {
                Ok(Some(frame)) => {
                    if self.take(session, frame) == Flow::Over {
                        return Flow::Over;
                    }
                }
                Ok(None) => return Flow::Open,
                Err(_) => {}
            }
            let Some(end) = session.world().drained_at() else { continue };
            let began = *told.get_or_insert(NodeRuntime::elapsed());
            if NodeRuntime::elapsed() - began > WAKE_MAX && !self.is_done(session) {
                let seen = self.watched.as_ref().map(|watch| watch.through);
                let (client, node) = (session.client(), node.0);
                session.world().fail(format_args!(
                    "the watch of c{client} at n{node} was not woken: it saw {seen:?}, revision {end} was applied \
                     {WAKE_MAX:?} ago"
                ));
            }
        }
        Flow::Open
    }

    /// Processes the events of one frame.
    fn take(&mut self, session: &Session, frame: Frame) -> Flow {
        let world = session.world();
        let frame = match frame {
            Ok(frame) => frame,
            Err(ApiError::Unavailable(_) | ApiError::RevisionTooLarge { .. }) => return Flow::Open,
            Err(error) => {
                world.fail(format_args!("a watch is refused: {error}"));
                return Flow::Over;
            }
        };
        for event in events(session, &frame) {
            if event.kind == "ERROR" {
                // A quarantined member ends its watches.
                let quarantined = event.object.code == 503 && world.has_rotten();
                if event.object.code != 410 && !quarantined {
                    world.fail(format_args!("a watch ends with an error: {}", event.object.message));
                }
                return Flow::Over;
            }
            if !self.take_event(session, &event) {
                world.fail(format_args!("an event that cannot be: {event:?}"));
                return Flow::Over;
            }
        }
        Flow::Open
    }

    /// Processes an event; `false` if no watch may send it.
    fn take_event(&mut self, session: &Session, event: &Event) -> bool {
        let metadata = &event.object.metadata;
        let (Some(watch), Some(revision)) = (self.watched.as_mut(), metadata.revision()) else {
            return false;
        };
        let Some(version) = metadata.version() else { return false };
        let kind = match event.kind.as_str() {
            "ADDED" => Kind::Added,
            "MODIFIED" => Kind::Modified,
            "DELETED" => Kind::Deleted,
            "BOOKMARK" if revision >= watch.through => {
                watch.through = revision;
                return true;
            }
            _ => return false,
        };
        let path = metadata.path();
        if let Some(copy) = self.copy.as_mut() {
            match kind {
                Kind::Added | Kind::Modified => copy.insert(path.clone(), version),
                Kind::Deleted => copy.remove(&path),
            };
        }
        session.world().acknowledge(revision);
        watch.through = watch.through.max(revision);
        watch.sightings.push(Sighting { revision, path, kind, tag: version.tag });
        true
    }
}

/// A watch of the listed collection, from `start` on.
fn watch(session: &Session, listed: &Listed, start: Revision) -> Watched {
    Watched {
        client: session.client(),
        resource: listed.resource.clone(),
        filter: listed.filter.clone(),
        start,
        through: start,
        resumed: 0,
        sightings: Vec::new(),
    }
}

/// Parses the events of a frame, which must be complete.
fn events(session: &Session, frame: &Bytes) -> Vec<Event> {
    let read = serde_json::Deserializer::from_slice(frame).into_iter::<Event>();
    read.collect::<Result<Vec<Event>, _>>().unwrap_or_else(|error| {
        session.world().fail(format_args!("a frame of a watch cannot be read: {error}"));
        Vec::new()
    })
}
