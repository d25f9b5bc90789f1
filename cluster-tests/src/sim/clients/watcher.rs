//! A client that watches, and goes on with another member when the one it watches at is lost.
//!
//! It starts behind or ahead of now, sees everything after that once and in order, or is told that this is no longer
//! held; then it starts anew. When the run ends it has seen everything up to the last write.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use openraft_rt::AsyncRuntime;
use orch_raft::transport::NodeId;
use orch_raft::{Revision, Store};

use crate::sim::ledger::{MIRRORS, THINGS};
use crate::sim::plant::{Plant, changes_after};
use crate::sim::runtime::NodeRuntime;
use crate::sim::session::{Driver, Session};
use crate::sim::sightings::{Filter, Sighting, Watched};
use crate::sim::world::Handle;

/// Longest time a watch stays with one member before it goes on with another, in answers.
const ANSWERS_MAX: u64 = 12;

/// How long a member with nothing to tell waits before it sends a bookmark.
const BOOKMARK: Duration = Duration::from_millis(300);

/// Members a watch is served by before it is enough and another begins.
const RESUMED_MAX: u32 = 6;

/// A watching client.
#[derive(Default)]
pub struct Watcher {
    watch: Option<Watched>,
}

/// What a member tells a watch.
enum Answer {
    /// Events, and up to where they are all there are.
    Events(Vec<Sighting>, Revision),
    /// What comes after the cursor is no longer held.
    Compacted,
}

impl Driver for Watcher {
    fn name(&self) -> &'static str {
        "watcher"
    }

    fn drive(mut self: Box<Self>, session: Session) -> BoxFuture<'static, ()> {
        async move {
            while session.world().failure().is_none() && !self.is_done(&session) {
                let node = session.pick();
                match self.watch.as_mut() {
                    Some(watch) if watch.resumed < RESUMED_MAX || !session.world().is_busy() => {
                        watch.resumed += 1
                    }
                    _ => {
                        self.end(&session);
                        self.begin(&session, node).await;
                    }
                }
                for _ in 0..session.dice().number(1..ANSWERS_MAX) {
                    if !self.step(&session, node).await || self.is_done(&session) {
                        break;
                    }
                }
                session.think(20).await;
            }
            self.end(&session);
        }
        .boxed()
    }
}

impl Watcher {
    /// Whether it has been promised everything that was written in the run.
    fn is_done(&self, session: &Session) -> bool {
        let promised = self.watch.as_ref().map(|watch| watch.through);
        session.world().drained_at().is_some_and(|end| promised.is_some_and(|through| through >= end))
    }

    fn end(&mut self, session: &Session) {
        self.watch.take().into_iter().for_each(|watch| session.world().record_watch(watch));
    }

    async fn begin(&mut self, session: &Session, node: NodeId) {
        let dice = session.dice();
        let asked = session.request(node, |store: Handle| async move {
            let state = store.state();
            (state.floor(), state.applied())
        });
        let Ok((floor, now)) = asked.await else { return };
        let start = match dice.number(0..10) {
            0..3 => now,
            // As far behind as the history reaches.
            3..5 => floor,
            5..8 => Revision(dice.number(floor.0..now.0 + 1)),
            _ => Revision(now.0 + dice.number(0..5)),
        };
        let filter = match dice.number(0..3) {
            0 => Filter::All,
            1 => Filter::Marked,
            _ => Filter::Path(Arc::from("a")),
        };
        self.watch = Some(Watched {
            client: session.client(),
            resource: Arc::from(if dice.percent(25) { MIRRORS } else { THINGS }),
            filter,
            start,
            through: start,
            resumed: 0,
            sightings: Vec::new(),
        });
    }

    /// Takes one answer from `node`; `false` when it is time to go elsewhere.
    async fn step(&mut self, session: &Session, node: NodeId) -> bool {
        let Some(watch) = self.watch.as_mut() else { return false };
        let (resource, filter, cursor) = (watch.resource.clone(), watch.filter.clone(), watch.through);
        let plant = session.world().setup().plant;
        let answer =
            session.request(node, move |store: Handle| serve(store, plant, resource, filter, cursor)).await;
        match answer {
            Ok(Some(Answer::Events(sightings, through))) => {
                let (client, events) = (session.client(), sightings.len());
                let line = format_args!("watch c{client} n{}: {events} events through {through}", node.0);
                if events > 0 {
                    session.world().trace().event(line);
                }
                watch.sightings.extend(sightings);
                watch.through = watch.through.max(through);
                true
            }
            Ok(Some(Answer::Compacted)) => {
                session
                    .world()
                    .trace()
                    .event(format_args!("watch c{} compacted at {cursor}", session.client()));
                self.end(session);
                false
            }
            Ok(None) | Err(_) => false,
        }
    }
}

/// What a server does for a watch: tells what came after the cursor, or waits for it.
async fn serve(
    store: Handle,
    plant: Option<Plant>,
    resource: Arc<str>,
    filter: Filter,
    cursor: Revision,
) -> Option<Answer> {
    let mut subscription = store.subscribe(&resource);
    for last in [false, true] {
        let state = store.state();
        let applied = state.applied();
        if applied > cursor {
            let Ok(changes) = changes_after(plant, &state, &resource, cursor) else {
                return Some(Answer::Compacted);
            };
            let sightings: Vec<Sighting> = changes.iter().filter_map(|change| filter.sight(change)).collect();
            if last || !sightings.is_empty() {
                return Some(Answer::Events(sightings, applied));
            }
        }
        drop(state);
        // Whether something came or time passed, the state says what there is.
        let _newest = NodeRuntime::timeout(BOOKMARK, subscription.changed()).await;
    }
    None
}
