//! A client that lists: what a member has now, without asking the others, and what was there a while ago.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use orch_raft::{Revision, Store};

use crate::sim::history::Version;
use crate::sim::ledger::{MIRRORS, THINGS};
use crate::sim::session::{Driver, Session};
use crate::sim::sightings::Listed;
use crate::sim::world::Handle;

/// Longest time between two lists.
const THINK_MS_MAX: u64 = 120;

/// How far back a list may go: beyond what the history holds, sometimes.
const BACK_MAX: u64 = 80;

/// A listing client.
pub struct Lister;

impl Driver for Lister {
    fn name(&self) -> &'static str {
        "lister"
    }

    fn drive(self: Box<Self>, session: Session) -> BoxFuture<'static, ()> {
        async move {
            while session.world().is_busy() {
                session.think(THINK_MS_MAX).await;
                let dice = session.dice();
                let resource: Arc<str> = Arc::from(if dice.percent(30) { MIRRORS } else { THINGS });
                let back = if dice.percent(40) { 0 } else { dice.number(0..BACK_MAX) };
                let ahead = if dice.percent(20) { dice.number(0..4) } else { 0 };
                let node = session.pick();
                let answer =
                    session.request(node, move |store: Handle| list(store, resource, back, ahead)).await;
                let Ok(Some(listed)) = answer else { continue };
                let (world, items) = (session.world(), listed.items.len());
                world.trace().event(format_args!("list n{} at {}: {items} items", node.0, listed.revision));
                world.record_list(listed);
            }
        }
        .boxed()
    }
}

/// The collection as it was `back` revisions ago, or as it will be `ahead` of now; `None` when that cannot be had.
async fn list(store: Handle, resource: Arc<str>, back: u64, ahead: u64) -> Option<Listed> {
    let revision = Revision(store.state().applied().0.saturating_sub(back) + ahead);
    if !store.wait_applied(revision, Duration::from_secs(1)).await {
        return None;
    }
    let collection = store.collection_at(&resource, revision).await.ok()?;
    let version = |object: &Arc<orch_raft::Object>| Version::of(object);
    let items = collection.range_from("").filter_map(|(path, object)| Some((path.clone(), version(object)?)));
    let items = items.collect();
    Some(Listed { resource, revision, items })
}
