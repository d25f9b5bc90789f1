//! Served custom kinds: a value derived from the definitions that this node has applied.
//!
//! Owns bringing the registry up to the definitions of the applied state, and when that is done. A definition is an object of the
//! kind CustomResourceDefinition with a record beside it; both are written in one transaction (`pipeline::definitions`), and each
//! write of an object of the kind depends on the record.
//!
//!     write of a definition -> applied here -> catch_up: one change of the registry for all that changed
//!
//! A loop on every node catches up after changes. Those who cannot wait for it do so themselves: the request that changed a
//! definition before it is answered, and a request whose path the registry does not know, or whose definition was written again.
//! A request that created a definition is answered when it is in force, or will not be ([`settling`]).
//!
//! It writes nothing, and decides on no condition: `controllers::definitions` does.
//!
//! Invariant: what is served is a function of the applied state: no member that installs a snapshot, starts, or lags behind serves
//! anything else than what its state says, but later.

mod compile;
mod converter;
mod declaration;
mod declared;
mod outline;
pub(crate) mod record;
mod settling;
mod tables;
#[cfg(test)]
mod tests;

use std::convert::Infallible;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::{Either, select};
use orch_proto::Brand;
use orch_raft::object::SharedObject;
use orch_raft::{Revision, Store};
use orch_schema::Schema;
use orch_schema::value::Value;
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use self::converter::Servers;
use self::declared::{Declared, Settled};
use self::outline::Outline;
use self::settling::{SETTLE_MAX, Waits};
use crate::ambient::Ambient;
use crate::follow::{Applied, Builder, Follower, any_changed};
use crate::registry::{Handle, Registry, storage_of};
use crate::webhook::Webhooks;

pub(crate) use self::settling::settled;

/// Storage resource of the definitions.
pub const DEFINITIONS: &str = "customresourcedefinitions.apiextensions";

/// Storage resource of the records. They are no API objects: nothing serves them.
pub const RECORDS: &str = "_definitions";

/// Wait for the changes that come together: each change of the registry takes a time that grows with the number of resources,
/// milliseconds with thousands of definitions.
const GATHER: Duration = Duration::from_millis(20);

/// Longest wait for the newest state. Members are behind by milliseconds; where no quorum answers, a path is said to lead nowhere by
/// the state that this node has.
const REFRESH_MAX: Duration = Duration::from_secs(2);

/// The definitions that a node follows. Clones share them.
#[derive(Clone, Debug)]
pub struct Definitions(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    base: Arc<Schema>,
    brand: &'static Brand,
    /// `None` before they were read for the first time.
    follower: Arc<tokio::sync::Mutex<Option<Follower<Declared>>>>,
    /// The state that the registry is up to date with.
    seen: Mutex<Option<Seen>>,
    /// The store's count of revoked states as of what is served, without a lock: each request for a custom kind looks.
    trusted: AtomicU64,
    /// Held while a quorum is asked for the newest state: the number of the last refresh that is over, and whether a quorum answered.
    refreshing: tokio::sync::Mutex<(u64, bool)>,
    /// Number of the last refresh that began.
    begun: Mutex<u64>,
    /// The loops of this node run, and on the leader that which brings definitions into force.
    is_followed: AtomicBool,
    waits: Waits,
    builder: Builder,
    /// The servers of conversion webhooks, as soon as this node calls any.
    servers: OnceLock<Servers>,
}

/// A state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    revision: Revision,
    revocations: u64,
}

/// The storage resources that what is served is derived from.
fn sources() -> [Arc<str>; 2] {
    [DEFINITIONS.into(), RECORDS.into()]
}

/// Name in the store of the objects of the definition called `name`.
pub fn storage_of_definition(name: &str) -> Arc<str> {
    let (plural, group) = name.split_once('.').unwrap_or((name, ""));
    storage_of(plural, group)
}

/// The definition that is stored as `object`, without its schemas; `None`: its bytes are none.
pub(crate) fn outline_of(object: &SharedObject) -> Option<Value> {
    Outline::of(&object.json).ok().map(|outline| outline.0)
}

impl Definitions {
    /// Definitions whose kinds stand on the types of `registry`. They are read by `builder`.
    pub fn new(registry: &Registry, builder: Builder) -> Self {
        Definitions(Arc::new(Shared {
            base: registry.schema.clone(),
            brand: registry.brand,
            follower: Arc::default(),
            seen: Mutex::default(),
            trusted: AtomicU64::new(0),
            refreshing: tokio::sync::Mutex::default(),
            begun: Mutex::default(),
            is_followed: AtomicBool::new(false),
            waits: Waits::default(),
            builder,
            servers: OnceLock::new(),
        }))
    }

    /// Has conversion webhooks called by `webhooks`. It is said once, before the definitions are read; otherwise none is called.
    pub(crate) fn call_webhooks(&self, webhooks: Webhooks, ambient: Arc<dyn Ambient>) {
        let servers = Servers::new(webhooks, ambient);
        assert!(self.0.servers.set(servers).is_ok(), "a node has one way to call webhooks");
    }

    /// Whether what is served was derived from a state of `store` that was not revoked since.
    pub(crate) fn is_trusted<S: Store>(&self, store: &S) -> bool {
        self.0.trusted.load(Ordering::Relaxed) == store.revocations()
    }

    /// Whether the registry is up to date with `applied`.
    pub fn is_current(&self, applied: &Applied) -> bool {
        let Some(seen) = *self.0.seen.lock() else { return false };
        let changed = |source: &str| applied.state.collection(source).changed();
        seen.revocations == applied.revocations()
            && changed(DEFINITIONS).max(changed(RECORDS)) <= seen.revision
    }

    /// Brings what `served` leads to up to the state that `store` has applied.
    pub async fn catch_up<S: Store>(&self, store: &S, served: &Handle) {
        if self.is_current(&Applied::of(store)) {
            return;
        }
        let follower = self.0.follower.clone().lock_owned().await;
        // The newest one, behind the turn: a burst of changes is one change of the registry.
        let applied = Applied::of(store);
        if self.is_current(&applied) {
            return;
        }
        let (own, served) = (self.clone(), served.clone());
        match self.0.builder {
            Builder::Caller => own.take_in(follower, &applied, &served),
            Builder::BlockingThread => {
                // An error means that the runtime ends.
                drop(tokio::task::spawn_blocking(move || own.take_in(follower, &applied, &served)).await);
            }
        }
    }

    fn take_in(
        &self,
        mut follower: OwnedMutexGuard<Option<Follower<Declared>>>,
        applied: &Applied,
        served: &Handle,
    ) {
        let seen = self.0.seen.lock().map_or(0, |seen| seen.revocations);
        let follower = match &mut *follower {
            Some(follower) => {
                if seen < applied.revocations() {
                    follower.value_mut().distrust();
                }
                follower.advance(applied);
                follower
            }
            none => {
                let empty = Declared::new(self.0.base.clone(), self.0.brand, self.0.builder);
                none.insert(Follower::new(empty.with_servers(self.0.servers.get().cloned()), applied))
            }
        };
        let mut change = follower.value_mut().settle();
        let refused = if change.is_nothing() { Vec::new() } else { replace(served, &mut change) };
        follower.value_mut().note_served(change, refused);
        let revision = applied.state.applied();
        *self.0.seen.lock() = Some(Seen { revision, revocations: applied.revocations() });
        self.0.trusted.store(applied.revocations(), Ordering::Relaxed);
    }

    /// The same, of a state that is no older than the call; `false`: no quorum told of it, and the state is the one that this node has.
    /// Calls that come together ask the quorum once.
    pub async fn refresh<S: Store>(&self, store: &S, served: &Handle) -> bool {
        let wanted = *self.0.begun.lock() + 1;
        let mut done = self.0.refreshing.lock().await;
        if done.0 < wanted {
            let number = {
                let mut begun = self.0.begun.lock();
                *begun += 1;
                *begun
            };
            let (asked, given_up) = (pin!(newest(store)), pin!(store.sleep(REFRESH_MAX)));
            let is_newest = match select(asked, given_up).await {
                Either::Left((is_newest, _)) => is_newest,
                Either::Right(_) => false,
            };
            *done = (number, is_newest);
        }
        let is_newest = done.1;
        drop(done);
        self.catch_up(store, served).await;
        is_newest
    }

    /// Waits until the definition that was written as `object` is in force, or is known not to come into force, for [`SETTLE_MAX`] and
    /// half of `left` at most; `None`: the request has no end of its own. Returns whether it waited.
    pub(crate) async fn settle_written<S: Store>(
        &self,
        store: &S,
        object: &SharedObject,
        left: Option<Duration>,
    ) -> bool {
        match self.settling_time(left) {
            Some(time) => self.0.waits.written_settles(store, object, time).await,
            None => false,
        }
    }

    /// The same of the definition called `name`, if there is one.
    pub(crate) async fn settle_named<S: Store>(&self, store: &S, name: &str, left: Option<Duration>) {
        if let Some(time) = self.settling_time(left) {
            self.0.waits.named_settles(store, name, time).await;
        }
    }

    /// `None`: nothing waits, because no loops run here. It is so in trials, and in tests of the pipeline alone.
    fn settling_time(&self, left: Option<Duration>) -> Option<Duration> {
        let is_followed = self.0.is_followed.load(Ordering::Relaxed);
        // The answer has to go out in the other half.
        is_followed.then(|| left.map_or(SETTLE_MAX, |left| SETTLE_MAX.min(left / 2)))
    }

    /// Keeps what is served equal to the definitions.
    pub async fn follow<S: Store>(&self, store: &S, served: &Handle) -> Infallible {
        self.0.is_followed.store(true, Ordering::Relaxed);
        let mut changed = sources().map(|source| store.subscribe(&source));
        loop {
            self.catch_up(store, served).await;
            if self.is_current(&Applied::of(store)) {
                any_changed(&mut changed).await;
            }
            store.sleep(GATHER).await;
        }
    }
}

/// Waits until `store` has applied what was written before. `false`: it has not.
async fn newest<S: Store>(store: &S) -> bool {
    match store.barrier().await {
        Ok(revision) => store.wait_applied(revision, REFRESH_MAX).await,
        Err(error) => {
            tracing::debug!(%error, "a path is looked for in the state that this node has");
            false
        }
    }
}

/// Serves what `change` says. A kind that would take the place of another one is not served; returns the places of these.
fn replace(served: &Handle, change: &mut Settled) -> Vec<usize> {
    let (gone, kinds) = (&change.gone, std::mem::take(&mut change.kinds));
    let mut places = Vec::new();
    let Ok(_) = served.update(|now| {
        let (next, refused) = now.replaced(gone, kinds);
        for (at, occupied) in refused {
            tracing::warn!(%occupied, "a definition is not served");
            places.push(at);
        }
        Ok::<_, Infallible>(next)
    });
    places
}
