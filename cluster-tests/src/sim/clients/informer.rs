//! A client that keeps a copy of a collection, as informers of the ecosystem do: list, watch from there, go on at
//! another member when the connection ends, list again when the history no longer reaches back.
//!
//! It reads the frames that the API sends. Every event counts once and in order, over all members that served it, and
//! its copy is at each end what there was. Towards the end of a run it stays where it is: the last write must then
//! reach it by itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use openraft_rt::AsyncRuntime;
use orch_api::error::ApiError;
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

/// Most frames a watch takes from one member before it goes on with another.
const FRAMES_MAX: u64 = 12;

/// How long it waits for a frame before it goes elsewhere, at most.
const PATIENCE_MS_MAX: u64 = 900;

/// Members a watch is served by before it is enough and another begins.
const RESUMED_MAX: u32 = 8;

/// How long after a write was applied everywhere a watch may take to tell of it: no more than a few frames' way.
const WAKE_MAX: Duration = Duration::from_secs(2);

/// How often a client that stays looks whether it is the end.
const LOOK: Duration = Duration::from_millis(100);

/// Seconds of a watch at the end of a run: longer than that end.
const LAST_SECONDS: u64 = 900;

/// A client with a copy.
#[derive(Default)]
pub struct Informer {
    watched: Option<Watched>,
    /// The objects as of the last event; `None` for a watch that began without a list.
    copy: Option<BTreeMap<Arc<str>, Version>>,
}

/// How a connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    /// There may be more.
    Open,
    /// The watch is over: what comes next is no longer held, or was refused.
    Over,
}

impl Driver for Informer {
    fn name(&self) -> &'static str {
        "informer"
    }

    fn drive(mut self: Box<Self>, session: Session) -> BoxFuture<'static, ()> {
        async move {
            while session.world().failure().is_none() && !self.is_done(&session) {
                let count_step =
                    |watch: &Watched| watch.resumed < RESUMED_MAX || session.world().is_settling();
                if !self.watched.as_ref().is_some_and(count_step) {
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
    /// Whether it has seen everything that was written in the run.
    fn is_done(&self, session: &Session) -> bool {
        let seen = self.watched.as_ref().map(|watch| watch.through);
        session.world().drained_at().is_some_and(|end| seen.is_some_and(|seen| seen >= end))
    }

    /// Records what was seen, and the copy as a list of what must have been there.
    fn end(&mut self, session: &Session) {
        let Some(watched) = self.watched.take() else { return };
        if let Some(copy) = self.copy.take() {
            session.world().record_list(Listed {
                resource: watched.resource.clone(),
                filter: watched.filter.clone(),
                revision: watched.through,
                not_before: watched.start,
                items: copy.into_iter().collect(),
            });
        }
        session.world().record_watch(watched);
    }

    /// Lists, or begins without a list: a little before or after what is newest.
    async fn begin(&mut self, session: &Session) {
        let dice = session.dice();
        let storage = if dice.percent(25) { MIRRORS } else { THINGS };
        let filter = pick_filter(session);
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

    /// A list in the form of a watch: what there is as ADDED events, then a bookmark that says so.
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

    /// Watches at some member until it is time to go elsewhere.
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

    /// Stays with the watch until all was seen. Nothing is wrong any more, so what does not arrive was not sent.
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

    /// Takes the events of one frame.
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
                // A member whose state is wrong ends its watches when it learns of that.
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

    /// `false` for an event that no watch sends.
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

/// A watch of what was listed, from `start` on.
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

/// The events of a frame, whole ones only.
fn events(session: &Session, frame: &Bytes) -> Vec<Event> {
    let read = serde_json::Deserializer::from_slice(frame).into_iter::<Event>();
    read.collect::<Result<Vec<Event>, _>>().unwrap_or_else(|error| {
        session.world().fail(format_args!("a frame of a watch cannot be read: {error}"));
        Vec::new()
    })
}
