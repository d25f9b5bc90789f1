//! Objects that every active namespace must have one of: the default service account, the config map of the authority.
//!
//! Owns which namespaces lack theirs, kept up to date with changes. An object that is deleted comes back; a namespace whose
//! deletion has started gets none.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use orch_raft::object::SharedObject;
use orch_raft::state::NAMESPACES;
use orch_raft::{Change, State, Store};
use orch_rules::Action;
use orch_schema::value::Value;

use super::client::{Client, Place, for_each, is_overtaken};
use super::turns::changed_within;
use crate::error::ApiError;
use crate::follow::{Derived, Follower};

/// Wait after a change: changes that come together are taken in together. Pods wait for the account of a new namespace.
const WAIT: Duration = Duration::from_millis(20);

/// Milliseconds until the object is created again in a namespace that refused it: a namespace that was ending is gone by
/// then, and a quota that was full may have room.
const REFUSED_PACE_MS: u64 = 10_000;

/// Writes under way at a time: enough to share a sync to disk, few beside the clients' writes.
const CONCURRENT_WRITES_MAX: usize = 32;

/// The object that every namespace must have.
pub(super) struct Wanted {
    /// Its storage resource.
    pub(super) storage: &'static str,
    /// Its name.
    pub(super) name: String,
    /// Its content when it is created.
    pub(super) object: Value,
    /// The merge patch that mends one that is wrong.
    pub(super) patch: Value,
    /// Whether a stored one is right.
    pub(super) is_right: fn(&Wanted, &SharedObject) -> bool,
}

/// The state of the object in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Right,
    Wrong,
    /// Wrong and refused to be mended, for example because it is immutable: left alone until it changes.
    Stuck,
}

/// Active namespaces, and the objects in all of them.
struct Presence {
    wanted: Arc<Wanted>,
    sources: [Arc<str>; 2],
    active: BTreeSet<Arc<str>>,
    found: BTreeMap<Arc<str>, Found>,
}

impl Presence {
    fn new(wanted: Arc<Wanted>) -> Self {
        let sources = [NAMESPACES.into(), wanted.storage.into()];
        Presence { wanted, sources, active: BTreeSet::new(), found: BTreeMap::new() }
    }

    /// The namespaces whose object is absent or wrong.
    fn due(&self) -> Vec<(Arc<str>, Option<Found>)> {
        let state = |namespace: &Arc<str>| (namespace.clone(), self.found.get(namespace).copied());
        self.active
            .iter()
            .map(state)
            .filter(|(_, found)| matches!(found, None | Some(Found::Wrong)))
            .collect()
    }

    fn set_namespace(&mut self, name: &Arc<str>, object: Option<&SharedObject>) {
        match object.is_some_and(|object| !object.index.terminating) {
            true => self.active.insert(name.clone()),
            false => self.active.remove(name),
        };
    }

    fn set_object(&mut self, path: &str, object: Option<&SharedObject>) {
        let Some((namespace, name)) = path.split_once('/') else { return };
        if name != self.wanted.name {
            return;
        }
        match object {
            Some(object) => {
                let is_right = (self.wanted.is_right)(&self.wanted, object);
                let found = if is_right { Found::Right } else { Found::Wrong };
                self.found.insert(namespace.into(), found);
            }
            None => drop(self.found.remove(namespace)),
        }
    }
}

impl Derived for Presence {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        self.sources.iter()
    }

    fn change(&mut self, source: &Arc<str>, change: &Change) {
        match **source == *NAMESPACES {
            true => self.set_namespace(&change.path, change.new.as_ref()),
            false => self.set_object(&change.path, change.new.as_ref()),
        }
    }

    fn rebuild(&mut self, state: &State) {
        self.active.clear();
        self.found.clear();
        let collection = state.collection(self.wanted.storage);
        for (name, object) in state.collection(NAMESPACES).range_from("") {
            self.set_namespace(name, Some(object));
            let path = format!("{name}/{}", self.wanted.name);
            if let Some(object) = collection.get(&path) {
                self.set_object(&path, Some(object));
            }
        }
    }
}

/// Keeps the object in every namespace. Completes only with an error.
pub(super) async fn run<S: Store>(client: &Client<S>, wanted: Wanted) -> Result<Infallible, ApiError> {
    let (store, wanted) = (client.store(), Arc::new(wanted));
    let presence = Presence::new(wanted.clone());
    let mut changed = presence.sources.clone().map(|source| store.subscribe(&source));
    let mut follower = Follower::new(presence, &client.newest().await?);
    // When a namespace that refused the object is tried again.
    let mut refused: BTreeMap<Arc<str>, u64> = BTreeMap::new();
    loop {
        let now = client.now_ms();
        // set: looked up by key.
        refused.retain(|_, again| *again > now);
        let mut due = follower.value().due();
        // set: looked up by key.
        due.retain(|(namespace, _)| !refused.contains_key(namespace));
        let is_idle = due.is_empty();
        let mend = |(namespace, found)| mend(client, &wanted, namespace, found);
        for mended in for_each(due, CONCURRENT_WRITES_MAX, mend).await {
            match mended? {
                Mended::Settled => {}
                Mended::Refused(namespace) => drop(refused.insert(namespace, now + REFUSED_PACE_MS)),
                Mended::Stuck(namespace) => {
                    follower.value_mut().found.insert(namespace, Found::Stuck);
                }
            }
        }
        if is_idle {
            let wait = (!refused.is_empty()).then_some(Duration::from_millis(REFUSED_PACE_MS));
            changed_within(store, &mut changed, wait).await;
        }
        store.sleep(WAIT).await;
        follower.advance(&client.newest().await?);
    }
}

/// Outcome of creating or mending the object in one namespace.
enum Mended {
    /// It is there, or what changed meanwhile is taken in with the next turn.
    Settled,
    /// The namespace ends, or one of its quotas is full: tried again later.
    Refused(Arc<str>),
    /// The object's own rules refuse the change: tried again when it changes.
    Stuck(Arc<str>),
}

/// Creates or mends the object in `namespace`.
async fn mend<S: Store>(
    client: &Client<S>,
    wanted: &Wanted,
    namespace: Arc<str>,
    found: Option<Found>,
) -> Result<Mended, ApiError> {
    let Some(resource) = client.stored_resource(wanted.storage) else { return Ok(Mended::Settled) };
    let written = match found {
        None => client.create(&resource, &namespace, &wanted.object).await,
        Some(_) => {
            let path = format!("{namespace}/{}", wanted.name);
            client.patch(Place { resource: &resource, path: &path }, Action::Object, &wanted.patch).await
        }
    };
    match written {
        Err(ApiError::Forbidden { .. }) => Ok(Mended::Refused(namespace)),
        Err(ApiError::Invalid { .. }) => Ok(Mended::Stuck(namespace)),
        Err(error) if !is_overtaken(&error) => Err(error),
        _ => Ok(Mended::Settled),
    }
}
