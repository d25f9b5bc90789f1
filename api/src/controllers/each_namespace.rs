//! Objects that every active namespace must have one of: the default service account, the config map of the authority.
//!
//! Owns which namespaces lack theirs, kept up to date with changes. An object that is deleted comes back; a namespace whose
//! deletion has started gets none. A write that takes long holds up no other namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use orch_raft::object::SharedObject;
use orch_raft::state::NAMESPACES;
use orch_raft::{Change, ObjectPath, Revision, State, Store};
use orch_rules::Action;
use orch_schema::value::Value;

use super::client::{Client, Place};
use super::queue::Queue;
use super::rounds::{Progress, Queued, Round, Rounds, end};
use crate::error::ApiError;
use crate::follow::{Applied, Derived};

/// Time until the object is created again in a namespace that refused it: a namespace that was ending is gone by then, and a
/// quota that was full may have room.
const REFUSED_PAUSE: Duration = Duration::from_secs(10);

/// Logged where an object cannot be written.
const WARNING: &str = "a namespace does not get an object that every one has yet";

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
    /// With the revision that is wrong.
    Wrong(Revision),
    /// Wrong and refused to be mended, for example because it is immutable: left alone until it changes.
    Stuck,
}

/// The part that an active namespace lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lack {
    Object,
    /// The object of this revision has to be mended.
    Mending(Revision),
}

/// Active namespaces, the objects in all of them, and the namespaces that have to be looked at.
struct Presence {
    wanted: Arc<Wanted>,
    sources: [Arc<str>; 2],
    active: BTreeSet<Arc<str>>,
    found: BTreeMap<Arc<str>, Found>,
    queue: Queue<Arc<str>>,
}

impl Presence {
    fn new(wanted: Arc<Wanted>) -> Self {
        let sources = [NAMESPACES.into(), wanted.storage.into()];
        let (active, found, queue) = (BTreeSet::new(), BTreeMap::new(), Queue::default());
        Presence { wanted, sources, active, found, queue }
    }

    fn lack_of(&self, namespace: &str) -> Option<Lack> {
        if !self.active.contains(namespace) {
            return None;
        }
        match self.found.get(namespace) {
            None => Some(Lack::Object),
            Some(Found::Wrong(revision)) => Some(Lack::Mending(*revision)),
            Some(Found::Right | Found::Stuck) => None,
        }
    }

    fn look_at(&mut self, namespace: &Arc<str>) {
        if self.lack_of(namespace).is_some() {
            self.queue.add(namespace, Duration::ZERO);
        }
    }

    fn set_namespace(&mut self, name: &Arc<str>, object: Option<&SharedObject>) {
        match object.is_some_and(|object| !object.index.terminating) {
            true => self.active.insert(name.clone()),
            false => self.active.remove(name),
        };
        self.look_at(name);
    }

    fn set_object(&mut self, path: &str, object: Option<&SharedObject>) {
        let (namespace, name) = ObjectPath::of(path).parts();
        if name != self.wanted.name {
            return;
        }
        let namespace: Arc<str> = namespace.into();
        match object {
            Some(object) => {
                let is_right = (self.wanted.is_right)(&self.wanted, object);
                let found = if is_right { Found::Right } else { Found::Wrong(object.revision) };
                self.found.insert(namespace.clone(), found);
            }
            None => drop(self.found.remove(&namespace)),
        }
        self.look_at(&namespace);
    }

    /// Leaves the object in `namespace` alone as long as it is of `revision`.
    fn give_up(&mut self, namespace: &str, revision: Revision) {
        if let Some(found) = self.found.get_mut(namespace).filter(|found| **found == Found::Wrong(revision)) {
            *found = Found::Stuck;
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
            // Before the namespace, which is looked at where it has none.
            let path = format!("{name}/{}", self.wanted.name);
            if let Some(object) = collection.get(&path) {
                self.set_object(&path, Some(object));
            }
            self.set_namespace(name, Some(object));
        }
    }
}

impl Queued for Presence {
    type Key = Arc<str>;

    fn queue(&mut self) -> &mut Queue<Arc<str>> {
        &mut self.queue
    }
}

/// Keeps the object in every namespace. `name`: that of the loop, for metrics. Completes only with an error.
pub(super) async fn run<S: Store>(
    (client, name): (&Client<S>, &'static str),
    wanted: Wanted,
) -> Result<Infallible, ApiError> {
    let wanted = Arc::new(wanted);
    let presence = Presence::new(wanted.clone());
    let mut rounds =
        Rounds::new((client, name), presence.sources.clone(), presence, CONCURRENT_WRITES_MAX).await?;
    loop {
        let ended = |presence: &mut Presence, namespace: &Arc<str>, mended: Result<Mended, ApiError>| {
            let progress = mended.map(|mended| match mended {
                Mended::Settled => Progress::Settled,
                Mended::Refused => Progress::After(REFUSED_PAUSE),
                Mended::Stuck(revision) => {
                    presence.give_up(namespace, revision);
                    Progress::Settled
                }
            });
            end(client, &mut presence.queue, (namespace, namespace), progress, WARNING);
        };
        let Round { due, .. } = rounds.next(ended).await;
        let mending = |presence: &mut Presence, _: &Applied, namespace: &Arc<str>| {
            let lack = presence.lack_of(namespace)?;
            Some(mend(client, wanted.clone(), namespace.clone(), lack))
        };
        rounds.start_all(due, mending).await?;
    }
}

/// Outcome of creating or mending the object in one namespace.
enum Mended {
    /// It is there.
    Settled,
    /// The namespace ends, or one of its quotas is full: tried again later.
    Refused,
    /// The rules of the object of this revision refuse the change: tried again when it changes.
    Stuck(Revision),
}

/// Makes good what `namespace` lacks.
async fn mend<S: Store>(
    client: &Client<S>,
    wanted: Arc<Wanted>,
    namespace: Arc<str>,
    lack: Lack,
) -> Result<Mended, ApiError> {
    let Some(resource) = client.stored_resource(wanted.storage) else { return Ok(Mended::Settled) };
    let written = match lack {
        Lack::Object => client.create(&resource, &namespace, &wanted.object).await,
        Lack::Mending(_) => {
            let path = format!("{namespace}/{}", wanted.name);
            client.patch(Place { resource: &resource, path: &path }, Action::Object, &wanted.patch).await
        }
    };
    match (written, lack) {
        (Ok(()), _) => Ok(Mended::Settled),
        (Err(ApiError::Forbidden { .. }), _) => Ok(Mended::Refused),
        (Err(ApiError::Invalid { .. }), Lack::Mending(revision)) => Ok(Mended::Stuck(revision)),
        (Err(error), _) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;
    use crate::controllers::service_accounts;
    use crate::controllers::testing::Fixture;

    const ACCOUNTS: &str = "serviceaccounts";

    async fn settled() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_never_ends_holds_up_no_other_namespace() {
        let fixture = Fixture::hanging();
        fixture.namespace("stuck").await;
        let steps = async {
            settled().await;
            fixture.namespace("n").await;
            settled().await;
            assert!(fixture.exists(ACCOUNTS, "n/default"));
        };
        fixture.beside(service_accounts::run(&fixture.client()), steps).await;
    }

    /// The clock of the fixture stands still: a wait by the time of day never ends.
    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_refused_the_object_gets_it_later_whatever_the_time_of_day() {
        let fixture = Fixture::new();
        let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/serviceaccounts": "0"}}});
        fixture.namespace("n").await;
        fixture.create("resourcequotas", "n", quota).await;
        fixture.while_running(crate::controllers::quota_usage::run(&fixture.client()), 2).await;
        let steps = async {
            settled().await;
            assert!(!fixture.exists(ACCOUNTS, "n/default"));
            fixture.delete("resourcequotas", "n/q", json!({})).await;
            settled().await;
            assert!(!fixture.exists(ACCOUNTS, "n/default"), "nothing tells of the room");
            tokio::time::sleep(REFUSED_PAUSE).await;
            assert!(fixture.exists(ACCOUNTS, "n/default"));
        };
        fixture.beside(service_accounts::run(&fixture.client()), steps).await;
    }

    #[test]
    fn an_object_that_changed_while_its_mending_was_refused_is_looked_at_again() {
        let wanted = Wanted {
            storage: "configmaps",
            name: "m".to_owned(),
            object: json!({}),
            patch: json!({}),
            is_right: |_, _| false,
        };
        let mut presence = Presence::new(Arc::new(wanted));
        let name: Arc<str> = "n".into();
        presence.active.insert(name.clone());
        presence.found.insert(name.clone(), Found::Wrong(Revision(2)));
        presence.give_up("n", Revision(1));
        assert_eq!(presence.lack_of("n"), Some(Lack::Mending(Revision(2))));
        presence.give_up("n", Revision(2));
        assert_eq!(presence.lack_of("n"), None);
    }
}
