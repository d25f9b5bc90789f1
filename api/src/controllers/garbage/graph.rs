//! The graph of owner references, kept up to date with changes.
//!
//! Owns which edges there are from an owner to its dependents, and the set of terminating objects. Both come from the index
//! that the store keeps beside the bytes: nothing is decoded here, and an object with neither owners nor dependents
//! costs two comparisons. Objects that a change affects go to the queue.
//!
//! Invariant: an edge is here if and only if the dependent, as of the newest state taken in, is stored and names the owner.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use orch_raft::object::SharedObject;
use orch_raft::{Change, Index, ObjectPath, State};

use super::edges::Edges;
use super::remote_owners::RemoteOwners;
use crate::aggregation::API_SERVICES;
use crate::controllers::queue::Queue;
use crate::controllers::turns::SETTLE;
use crate::follow::Derived;

/// Wait of the look at a terminating owner for each of its dependents: the look may go over all of them, so an
/// owner of ten thousand is looked at ten times a second at most, and takes the same share of a core as one of ten.
const DELAY_PER_DEPENDENT: Duration = Duration::from_micros(10);

/// Resource and path of a stored object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ObjectRef {
    /// Its storage resource.
    pub storage: Arc<str>,
    /// `namespace/name`, or `name` for cluster scope.
    pub path: Arc<str>,
}

impl ObjectRef {
    /// The object in `state`; `None` where it is absent.
    pub(super) fn find(&self, state: &State) -> Option<SharedObject> {
        state.collection(&self.storage).get(&self.path).cloned()
    }

    /// The namespace; empty for cluster scope.
    pub(super) fn namespace(&self) -> &str {
        ObjectPath::of(&self.path).namespace()
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.storage, self.path)
    }
}

/// The edges from owner uids to dependents, and the terminating objects by uid.
#[derive(Debug, Default)]
pub(super) struct Graph {
    edges: Edges,
    terminating: BTreeMap<String, ObjectRef>,
    /// Uids of owners whose end was seen, as long as dependents name them: their kinds may go, too.
    gone: BTreeSet<String>,
}

/// The graph, and the queue of objects to decide on.
#[derive(Debug, Default)]
pub(super) struct Watched {
    storages: Vec<Arc<str>>,
    pub graph: Graph,
    pub queue: Queue<ObjectRef>,
    /// Answers of aggregated servers about owners.
    pub owners: RemoteOwners,
    /// Objects with an owner whose kind was not served when they were looked at.
    unserved: BTreeSet<ObjectRef>,
    /// Objects that stay because an owner at an aggregated server is absent whose end nobody has seen.
    pub undecided: BTreeSet<ObjectRef>,
}

impl Watched {
    /// An empty graph of the objects stored in `storages`, at the time `now`.
    pub(super) fn new(storages: Vec<Arc<str>>, now: Duration) -> Self {
        let mut watched = Watched { storages, ..Watched::default() };
        watched.queue.advance(now);
        watched
    }

    /// Looks at the objects stored in `storages`, which are sorted, from now on. The graph is that of `state`.
    pub(super) fn follow(&mut self, storages: Vec<Arc<str>>, state: &State) {
        let before = std::mem::replace(&mut self.storages, storages);
        let [old, new] = [&before, &self.storages].map(|all| all.iter().cloned().collect::<BTreeSet<_>>());
        for storage in old.difference(&new) {
            self.take_over(storage, state, false);
        }
        for storage in new.difference(&old) {
            self.take_over(storage, state, true);
        }
        // Their owners' kinds may be served now.
        for object in std::mem::take(&mut self.unserved) {
            self.queue.add(&object, Duration::ZERO);
        }
    }

    /// Has `object` looked at again when other kinds are served.
    pub(super) fn await_kinds(&mut self, object: ObjectRef) {
        self.unserved.insert(object);
    }

    /// Notes whether `object` stays because an owner is absent whose end nobody has seen.
    pub(super) fn note_undecided(&mut self, object: &ObjectRef, is_undecided: bool) {
        if is_undecided {
            self.undecided.insert(object.clone());
        } else if !self.undecided.is_empty() {
            self.undecided.remove(object);
        }
    }

    /// Takes all objects of a storage resource in, or out. Those that are queued are found to be of no interest when they are due.
    fn take_over(&mut self, storage: &Arc<str>, state: &State, is_added: bool) {
        for (path, object) in state.collection(storage).range_from("") {
            if !object.index.owners.is_empty() || object.index.terminating {
                let found = ObjectRef { storage: storage.clone(), path: path.clone() };
                let index = Some(&object.index);
                let change = if is_added { (None, index) } else { (index, None) };
                self.graph.take_in(found, change, &mut self.queue);
            }
        }
    }
}

impl Derived for Watched {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        self.storages.iter()
    }

    fn change(&mut self, source: &Arc<str>, change: &Change) {
        if self.graph.is_relevant(change) {
            let object = ObjectRef { storage: source.clone(), path: change.path.clone() };
            self.graph.note_end(index(&change.old), index(&change.new));
            self.graph.take_in(object, (index(&change.old), index(&change.new)), &mut self.queue);
        }
        if &**source == API_SERVICES && change.old.is_none() {
            // Another server may keep their owners.
            for object in std::mem::take(&mut self.unserved) {
                self.queue.add(&object, SETTLE);
            }
        }
        let is_any_noted = !self.unserved.is_empty() || !self.undecided.is_empty();
        if is_any_noted && change.new.as_ref().is_none_or(|new| new.index.owners.is_empty()) {
            let object = ObjectRef { storage: source.clone(), path: change.path.clone() };
            self.note_undecided(&object, false);
            self.unserved.remove(&object);
        }
    }

    /// Queues every dependent and every terminating object: an earlier leader may not have got to them.
    fn rebuild(&mut self, state: &State) {
        self.graph = Graph::default();
        self.unserved.clear();
        self.undecided.clear();
        for storage in self.storages.clone() {
            self.take_over(&storage, state, true);
        }
    }
}

impl Graph {
    /// The objects that name `uid` as an owner.
    pub(super) fn dependents(&self, uid: &str) -> impl Iterator<Item = &ObjectRef> {
        self.edges.of(uid)
    }

    /// Whether the end of the owner with this uid was seen.
    pub(super) fn is_gone(&self, uid: &str) -> bool {
        self.gone.contains(uid)
    }

    /// Notes the end of an owner of others.
    fn note_end(&mut self, old: Option<&Index>, new: Option<&Index>) {
        let ended = old.filter(|old| new.is_none_or(|new| new.uid != old.uid));
        if let Some(old) = ended.filter(|old| self.edges.is_owner(&old.uid)) {
            self.gone.insert(old.uid.clone());
        }
    }

    /// The wait for the next look at the terminating owner with this uid.
    fn delay_of(&self, uid: &str) -> Duration {
        let count = self.edges.count(uid);
        DELAY_PER_DEPENDENT.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX))
    }

    /// Whether a change can affect ownership.
    fn is_relevant(&self, change: &Change) -> bool {
        let touches =
            |index: &Index| !index.owners.is_empty() || index.terminating || self.edges.is_owner(&index.uid);
        match (index(&change.old), index(&change.new)) {
            // A new object that others already name as their owner changes nothing for them.
            (None, Some(new)) => !new.owners.is_empty() || new.terminating,
            (old, new) => old.is_some_and(touches) || new.is_some_and(touches),
        }
    }

    fn take_in(
        &mut self,
        object: ObjectRef,
        (old, new): (Option<&Index>, Option<&Index>),
        queue: &mut Queue<ObjectRef>,
    ) {
        let (before, after) = (owners(old), owners(new));
        if before != after {
            self.reconnect(&object, before, after);
            if !after.is_empty() {
                queue.add(&object, SETTLE);
            }
        }
        // A terminating owner is looked at after each change of its dependents.
        for uid in before.iter().chain(after) {
            if let Some(owner) = self.terminating.get(uid) {
                queue.add(owner, self.delay_of(uid));
            }
        }
        if let Some(old) = old.filter(|old| new.is_none_or(|new| new.uid != old.uid)) {
            self.terminating.remove(&old.uid);
            self.dependents(&old.uid).for_each(|dependent| queue.add(dependent, Duration::ZERO));
        }
        if let Some(new) = new.filter(|new| new.terminating) {
            queue.add(&object, SETTLE);
            self.terminating.insert(new.uid.clone(), object);
        }
    }

    /// Replaces the edges of `dependent`. An object may name thousands of owners.
    fn reconnect(&mut self, dependent: &ObjectRef, before: &[String], after: &[String]) {
        let [old, new] = [before, after].map(|uids| uids.iter().collect::<BTreeSet<_>>());
        for uid in old.difference(&new) {
            self.edges.disconnect(uid, dependent);
            if !self.edges.is_owner(uid) {
                self.gone.remove(*uid);
            }
        }
        for uid in new.difference(&old) {
            self.edges.connect(uid, dependent);
        }
    }
}

fn owners(index: Option<&Index>) -> &[String] {
    index.map_or(&[], |index| &index.owners)
}

fn index(object: &Option<SharedObject>) -> Option<&Index> {
    object.as_ref().map(|object| &object.index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::testing::{Fixture, owned};
    use crate::follow::Follower;

    use orch_schema::json;

    /// The objects that are due after `time`, which are done with.
    fn due(follower: &mut Follower<Watched>, time: Duration) -> Vec<String> {
        let queue = &mut follower.value_mut().queue;
        queue.pass(time);
        let due = queue.take_due(100);
        due.iter().for_each(|object| queue.done(object));
        due.into_iter().map(|object| format!("{}:{}", object.storage, object.path)).collect()
    }

    fn named(follower: &Follower<Watched>, uid: &str) -> Vec<String> {
        follower.value().graph.dependents(uid).map(|object| object.path.to_string()).collect()
    }

    async fn with_graph() -> (Fixture, Follower<Watched>) {
        let fixture = Fixture::new();
        fixture.namespace("n").await;
        let storages = vec!["configmaps".into(), "secrets".into()];
        let follower = Follower::new(Watched::new(storages, Duration::ZERO), &fixture.applied());
        (fixture, follower)
    }

    #[tokio::test]
    async fn edges_come_and_go_with_the_references() {
        let (fixture, mut follower) = with_graph().await;
        fixture
            .create("configmaps", "n", owned("a", &[("ConfigMap", "o", "u-1"), ("Secret", "s", "u-2")]))
            .await;
        fixture.create("secrets", "n", owned("b", &[("ConfigMap", "o", "u-1")])).await;
        follower.advance(&fixture.applied());
        assert_eq!(
            (named(&follower, "u-1"), named(&follower, "u-2")),
            (vec!["n/a".into(), "n/b".into()], vec!["n/a".into()])
        );
        fixture.merge("configmaps", "n/a", owned("a", &[("Secret", "s", "u-2")])).await;
        fixture.remove_by_force("secrets", "n/b").await;
        follower.advance(&fixture.applied());
        assert_eq!((named(&follower, "u-1").len(), named(&follower, "u-2")), (0, vec!["n/a".to_owned()]));
        assert!(!follower.value().graph.edges.is_owner("u-1"), "an owner without dependents is forgotten");
    }

    #[tokio::test]
    async fn an_exchange_of_thousands_of_owners_leaves_the_new_edges() {
        let (fixture, mut follower) = with_graph().await;
        let uids: Vec<String> = (0..9_000).map(|number| format!("u-{number}")).collect();
        let of = |uids: &[String]| {
            let owners: Vec<_> = uids.iter().map(|uid| ("Secret", "s", uid.as_str())).collect();
            owned("a", &owners)
        };
        fixture.create("configmaps", "n", of(&uids[..6_000])).await;
        follower.advance(&fixture.applied());
        fixture.merge("configmaps", "n/a", of(&uids[3_000..])).await;
        follower.advance(&fixture.applied());
        for (at, uid) in uids.iter().enumerate() {
            assert_eq!(named(&follower, uid).len(), usize::from(at >= 3_000), "{uid}");
        }
    }

    #[tokio::test]
    async fn a_storage_resource_comes_and_goes_with_its_edges() {
        let (fixture, mut follower) = with_graph().await;
        fixture.create("configmaps", "n", owned("a", &[("ConfigMap", "o", "u-1")])).await;
        fixture.create("serviceaccounts", "n", owned("s", &[("ConfigMap", "o", "u-1")])).await;
        follower.advance(&fixture.applied());
        assert_eq!(named(&follower, "u-1"), ["n/a"]);
        let storages = vec!["configmaps".into(), "serviceaccounts".into()];
        follower.value_mut().follow(storages, &fixture.state());
        assert_eq!(named(&follower, "u-1"), ["n/a", "n/s"]);
        assert_eq!(due(&mut follower, SETTLE), ["configmaps:n/a", "serviceaccounts:n/s"]);
        follower.value_mut().follow(vec!["serviceaccounts".into()], &fixture.state());
        assert_eq!(named(&follower, "u-1"), ["n/s"]);
        fixture.merge("serviceaccounts", "n/s", json!({"metadata": {"ownerReferences": null}})).await;
        follower.advance(&fixture.applied());
        assert!(follower.value().graph.edges.is_empty());
    }

    #[tokio::test]
    async fn a_dependent_is_looked_at_when_the_write_of_its_references_has_settled() {
        let (fixture, mut follower) = with_graph().await;
        fixture.create("configmaps", "n", owned("a", &[("ConfigMap", "o", "u-1")])).await;
        follower.advance(&fixture.applied());
        assert!(due(&mut follower, SETTLE / 2).is_empty());
        assert_eq!(due(&mut follower, SETTLE / 2), ["configmaps:n/a"]);
        fixture.merge("configmaps", "n/a", json!({"data": {"k": "v"}})).await;
        follower.advance(&fixture.applied());
        assert!(follower.value().queue.wait().is_none(), "its content does not matter");
    }

    #[tokio::test]
    async fn objects_without_owners_and_dependents_are_no_work() {
        let (fixture, mut follower) = with_graph().await;
        fixture.create("configmaps", "n", json!({"metadata": {"name": "a"}})).await;
        fixture.create("configmaps", "n", json!({"metadata": {"name": "b"}})).await;
        fixture.merge("configmaps", "n/a", json!({"data": {"k": "v"}})).await;
        fixture.delete("configmaps", "n/b", json!({})).await;
        follower.advance(&fixture.applied());
        let Watched { graph, queue, .. } = follower.value();
        assert!(queue.wait().is_none() && graph.edges.is_empty() && graph.terminating.is_empty());
    }

    #[tokio::test]
    async fn the_end_of_an_owner_calls_for_its_dependents() {
        let (fixture, mut follower) = with_graph().await;
        let uid = fixture.create("configmaps", "n", json!({"metadata": {"name": "o"}})).await;
        fixture.create("secrets", "n", owned("d", &[("ConfigMap", "o", &uid)])).await;
        follower.advance(&fixture.applied());
        assert_eq!(due(&mut follower, SETTLE), ["secrets:n/d"]);
        fixture.delete("configmaps", "n/o", json!({})).await;
        follower.advance(&fixture.applied());
        assert_eq!(
            due(&mut follower, Duration::ZERO),
            ["secrets:n/d"],
            "a level of owners waits for nothing"
        );
    }

    #[tokio::test]
    async fn a_waiting_owner_sees_its_dependents_steps() {
        let (fixture, mut follower) = with_graph().await;
        let uid = fixture.create("configmaps", "n", json!({"metadata": {"name": "o"}})).await;
        fixture.create("secrets", "n", owned("d", &[("ConfigMap", "o", &uid)])).await;
        fixture.delete("configmaps", "n/o", json!({"propagationPolicy": "Foreground"})).await;
        follower.advance(&fixture.applied());
        assert_eq!(due(&mut follower, SETTLE), ["configmaps:n/o", "secrets:n/d"]);
        fixture.merge("secrets", "n/d", json!({"data": {"k": "dg=="}})).await;
        follower.advance(&fixture.applied());
        assert_eq!(due(&mut follower, DELAY_PER_DEPENDENT), ["configmaps:n/o"]);
        fixture.delete("secrets", "n/d", json!({})).await;
        follower.advance(&fixture.applied());
        assert_eq!(due(&mut follower, DELAY_PER_DEPENDENT), ["configmaps:n/o"]);
    }

    #[tokio::test]
    async fn lost_history_leads_to_the_same_graph() {
        let (fixture, mut follower) = with_graph().await;
        fixture.create("configmaps", "n", owned("gone", &[("ConfigMap", "o", "u-9")])).await;
        follower.advance(&fixture.applied());
        fixture.remove_by_force("configmaps", "n/gone").await;
        fixture.create("configmaps", "n", owned("a", &[("ConfigMap", "o", "u-1")])).await;
        fixture.forget_history();
        follower.advance(&fixture.applied());
        assert_eq!((named(&follower, "u-1"), named(&follower, "u-9").len()), (vec!["n/a".to_owned()], 0));
        assert!(due(&mut follower, SETTLE).contains(&"configmaps:n/a".to_owned()));
        fixture.create("configmaps", "n", owned("b", &[("ConfigMap", "o", "u-1")])).await;
        follower.advance(&fixture.applied());
        assert_eq!(named(&follower, "u-1").len(), 2, "it goes on from there");
    }
}
