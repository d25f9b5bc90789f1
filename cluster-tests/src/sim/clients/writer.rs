//! A client that creates, updates, removes and reads a few objects that it shares with all other writers.
//!
//! It updates optimistically: under the revision it last saw, which is often no longer the newest. It never repeats a
//! write with an unknown outcome; its next request is a new write.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use orch_api::request::Verb;
use orch_raft::transport::NodeId;
use orch_raft::{Outcome, ProposeError, Revision, Store};

use crate::sim::history::{Ask, Guard, Tag, Told, Version};
use crate::sim::ledger::MIRRORS;
use crate::sim::session::{Driver, Gone, Session};
use crate::sim::things::{Extras, filler, thing, transaction};
use crate::sim::world::Handle;

/// Few keys, so that writers collide.
const KEYS: [&str; 4] = ["a", "b", "c", "d"];

/// Longest time between two calls of one client.
const THINK_MS_MAX: u64 = 60;

/// A writing client.
#[derive(Default)]
pub struct Writer {
    /// The revision of each key that it last saw; `None` for an absent object.
    seen: BTreeMap<&'static str, Option<Revision>>,
}

#[derive(Clone, Copy)]
enum Plan {
    Create,
    Update,
    Overwrite,
    Remove,
    RemoveBlindly,
    Read,
}

const PLANS: [(Plan, u64); 6] = [
    (Plan::Create, 18),
    (Plan::Update, 34),
    (Plan::Overwrite, 14),
    (Plan::Remove, 8),
    (Plan::RemoveBlindly, 3),
    (Plan::Read, 23),
];

impl Driver for Writer {
    fn name(&self) -> &'static str {
        "writer"
    }

    fn drive(mut self: Box<Self>, session: Session) -> BoxFuture<'static, ()> {
        async move {
            while session.world().is_busy() {
                session.think(THINK_MS_MAX).await;
                let key = KEYS[session.dice().index(KEYS.len())];
                let ask = self.plan(&session, key);
                let told = match ask {
                    Ask::Read => read(&session, key).await,
                    Ask::Write { guard, tag } => write(&session, session.pick(), key, guard, tag).await,
                };
                if let Some(now) = believed(ask, told) {
                    self.seen.insert(key, now);
                }
            }
        }
        .boxed()
    }
}

impl Writer {
    fn plan(&self, session: &Session, key: &str) -> Ask {
        let seen = self.seen.get(key).copied().flatten();
        let guard = seen.map_or(Guard::Absent, Guard::At);
        let tag = || Some(session.world().history().tag());
        match session.dice().weighted(&PLANS) {
            Plan::Create => Ask::Write { guard: Guard::Absent, tag: tag() },
            Plan::Update => Ask::Write { guard, tag: tag() },
            Plan::Overwrite => Ask::Write { guard: Guard::Always, tag: tag() },
            Plan::Remove if seen.is_some() => Ask::Write { guard, tag: None },
            Plan::RemoveBlindly => Ask::Write { guard: Guard::Always, tag: None },
            Plan::Remove | Plan::Read => Ask::Read,
        }
    }
}

/// The revision of the key after this answer; the outer `None` if the answer does not tell.
fn believed(ask: Ask, told: Told) -> Option<Option<Revision>> {
    match (ask, told) {
        (Ask::Write { tag: Some(_), .. }, Told::Applied { revision, .. }) => Some(Some(revision)),
        (Ask::Write { tag: None, .. }, Told::Applied { .. }) => Some(None),
        (_, Told::NotDone | Told::Unknown) => None,
        (_, told) => Some(told.seen().map(|version| version.revision)),
    }
}

async fn write(session: &Session, node: NodeId, key: &'static str, guard: Guard, tag: Option<Tag>) -> Told {
    let (dice, world) = (session.dice(), session.world());
    let filling = match world.scale().filling_max {
        0 if dice.percent(5) => 2000,
        0 => dice.index(40),
        largest if dice.percent(15) => usize::try_from(dice.number(1000..largest)).unwrap_or_default(),
        _ => dice.index(40),
    };
    let extras = Extras { marked: dice.percent(40), mirrored: dice.percent(25), filling };
    write_with(session, node, key, (guard, tag), extras).await
}

async fn write_with(
    session: &Session,
    node: NodeId,
    key: &'static str,
    (guard, tag): (Guard, Option<Tag>),
    extras: Extras,
) -> Told {
    let (ask, world) = (Ask::Write { guard, tag }, session.world());
    let transaction = transaction(key, guard, tag, extras, world.clock(node)());
    let pending = world.history().ask(session.client(), &Arc::from(key), ask);
    let answer = session.request(node, move |store: Handle| async move { store.propose(transaction).await });
    let told = match answer.await {
        Ok(Ok(outcome)) => told(&outcome),
        Ok(Err(
            ProposeError::NotProposed { .. }
            | ProposeError::NoSpace { .. }
            | ProposeError::TooLarge { .. }
            | ProposeError::Refused { .. },
        ))
        | Err(Gone::NotSent) => Told::NotDone,
        Ok(Err(ProposeError::Unknown { .. })) | Err(Gone::Lost) => Told::Unknown,
    };
    world.history().answer(pending, told);
    world.acknowledge(told.revision().unwrap_or_default());
    if matches!(told, Told::Applied { .. }) {
        world.note_taken();
    }
    world.trace().event(format_args!("c{} n{} {key} {ask:?} => {told:?}", session.client(), node.0));
    told
}

fn told(outcome: &Outcome) -> Told {
    let version = |object: &Option<Arc<orch_raft::Object>>| object.as_deref().map(Version::of);
    match outcome {
        Outcome::Applied { revision, previous, .. } => {
            Told::Applied { revision: *revision, previous: version(previous) }
        }
        Outcome::Refused { revision, current, .. } => {
            Told::Refused { revision: *revision, current: version(current) }
        }
        // Nothing changed.
        Outcome::Full { .. } => Told::NotDone,
    }
}

/// One blind write through `node` that every watch must see; its revision, if it was applied.
pub async fn write_last(session: &Session, node: NodeId) -> Option<Revision> {
    let tag = Some(session.world().history().tag());
    let extras = Extras { marked: true, mirrored: true, filling: 0 };
    match write_with(session, node, "a", (Guard::Always, tag), extras).await {
        Told::Applied { revision, .. } => Some(revision),
        _ => None,
    }
}

/// One blind write through `node`; `true` if it was applied.
pub async fn write_once(session: &Session, node: NodeId) -> bool {
    let tag = Some(session.world().history().tag());
    matches!(write(session, node, "probe", Guard::Always, tag).await, Told::Applied { .. })
}

/// Linearizable reads through `node`, of the store and of the API; `true` if both were answered.
pub async fn read_once(session: &Session, node: NodeId) -> bool {
    let barrier = session.request(node, |store: Handle| async move { store.barrier().await });
    let ask = crate::sim::server::Ask::new(Verb::List, MIRRORS, "", "");
    matches!(barrier.await, Ok(Ok(_))) && matches!(session.ask(node, &ask).await, Ok(Ok(_)))
}

/// Writes object number `object` of a large state, through any member; `true` if it was applied.
pub async fn fill(session: &Session, object: u64) -> bool {
    let (node, name) = (session.pick(), format!("f{object}"));
    let now = session.world().clock(node)();
    let written =
        session.request(node, move |store: Handle| async move { store.propose(filler(&name, now)).await });
    matches!(written.await, Ok(Ok(Outcome::Applied { .. })))
}

async fn read(session: &Session, key: &'static str) -> Told {
    let (world, node) = (session.world(), session.pick());
    let pending = world.history().ask(session.client(), &Arc::from(key), Ask::Read);
    let answer = session.request(node, move |store: Handle| async move {
        store.barrier().await.ok()?;
        let state = store.state();
        let current = state.object(&thing(key)).map(|object| Version::of(object));
        Some(Told::Found { revision: state.applied(), current })
    });
    let told = answer.await.ok().flatten().unwrap_or(Told::Unknown);
    world.history().answer(pending, told);
    world.acknowledge(told.revision().unwrap_or_default());
    world.trace().event(format_args!("c{} n{} {key} Read => {told:?}", session.client(), node.0));
    told
}
