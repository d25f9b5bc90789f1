//! Objects of this cluster whose end was seen.
//!
//! Owns their uids, as digests: those of every kind but of events, for as long as [`ENDS_MAX`] others have not ended since. A new
//! leader reads them from the history that is in memory. An owner that is absent and not among them may be yet to come, with an
//! import, or be known to a state that was replaced by a backup: dependents at aggregated servers stay then.
//!
//! Invariant: an owner that went with `Orphan` is not among them, nor one the beginning of whose deletion was not seen: its
//! dependents are to stay.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use orch_raft::object::SharedObject;
use orch_raft::{Change, State};

use super::super::ownership::{ORPHAN, Ownership};
use crate::follow::{Derived, Digest};

/// Ends that are remembered, of 50 bytes each: those of two minutes at a thousand deletions a second, while servers are looked at
/// once a minute. Dependents of older ones stay.
const ENDS_MAX: usize = 1 << 17;

/// How an object that is being deleted treats its dependents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    /// They go with it.
    WithDependents,
    /// They stay, or this is not known.
    Alone,
}

/// The objects whose end was seen.
#[derive(Debug, Default)]
pub(super) struct Ends {
    storages: Vec<Arc<str>>,
    ended: HashSet<Digest>,
    /// The same, oldest first.
    order: VecDeque<Digest>,
    leaving: HashMap<Digest, Leaving>,
}

impl Ends {
    /// None yet, of objects stored in `storages`.
    pub(super) fn new(storages: Vec<Arc<str>>) -> Ends {
        Ends { storages, ..Ends::default() }
    }

    /// Follows `storages`, which are sorted, beside those before: objects of a definition may end after it.
    pub(super) fn follow(&mut self, storages: &[Arc<str>]) {
        self.storages.extend_from_slice(storages);
        self.storages.sort();
        self.storages.dedup();
    }

    /// Whether the object with this uid has ended, and its dependents with it.
    pub(super) fn has_ended(&self, uid: &str) -> bool {
        // set: digests.
        self.ended.contains(&Digest::of(uid))
    }

    fn take_in(&mut self, old: Option<&SharedObject>, new: Option<&SharedObject>) {
        if let Some(new) = new.filter(|_| !self.ended.is_empty()) {
            // An import brings an object back under its uid.
            self.ended.remove(&Digest::of(&new.index.uid));
        }
        let left = new.filter(|new| new.index.terminating);
        if let Some(new) = left {
            // An import may make an object that is being deleted already: how, is not known.
            let began = old.is_some_and(|old| old.index.uid == new.index.uid && !old.index.terminating);
            self.note_leaving(new, began);
        }
        if let Some(old) = old.filter(|old| new.is_none_or(|new| new.index.uid != old.index.uid)) {
            self.note_end(old);
        }
    }

    fn note_leaving(&mut self, object: &SharedObject, began: bool) {
        let unseen = if began { Leaving::WithDependents } else { Leaving::Alone };
        let leaving = self.leaving.entry(Digest::of(&object.index.uid)).or_insert(unseen);
        if Ownership::of(object).is_ok_and(|held| !held.is_held_by(ORPHAN)) {
            return;
        }
        *leaving = Leaving::Alone;
    }

    fn note_end(&mut self, object: &SharedObject) {
        let uid = Digest::of(&object.index.uid);
        let leaving = self.leaving.remove(&uid);
        // An object that is not terminating goes by a request that does not orphan, which would have needed a finalizer.
        let is_whole = !object.index.terminating || leaving == Some(Leaving::WithDependents);
        match is_whole {
            true => self.remember(uid),
            false => drop(self.ended.remove(&uid)),
        }
    }

    #[cfg(test)]
    pub(super) fn remember_uid(&mut self, uid: &str) {
        self.remember(Digest::of(uid));
    }

    fn remember(&mut self, uid: Digest) {
        if !self.ended.insert(uid) {
            return;
        }
        self.order.push_back(uid);
        if self.order.len() > ENDS_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.ended.remove(&oldest);
        }
    }
}

impl Derived for Ends {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        self.storages.iter()
    }

    fn change(&mut self, _source: &Arc<str>, change: &Change) {
        self.take_in(change.old.as_ref(), change.new.as_ref());
    }

    /// Begins anew with what the history still has: objects may have come back in what it has lost.
    fn rebuild(&mut self, state: &State) {
        self.leaving.clear();
        self.ended.clear();
        self.order.clear();
        for storage in self.storages.clone() {
            let collection = state.collection(&storage);
            let Ok(changes) = collection.changes_after(collection.floor()) else { continue };
            for change in changes {
                self.take_in(change.old.as_ref(), change.new.as_ref());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;
    use orch_schema::value::Value;

    use super::*;
    use crate::controllers::testing::Fixture;
    use crate::follow::Follower;

    async fn made(fixture: &Fixture, name: &str, finalizers: &[&str]) -> String {
        let metadata = json!({"name": name, "finalizers": finalizers.to_vec()});
        fixture.create("configmaps", "n", json!({"metadata": metadata})).await
    }

    async fn release(fixture: &Fixture, name: &str, left: Value) {
        let patch = json!({"metadata": {"finalizers": left}});
        fixture.merge("configmaps", &format!("n/{name}"), patch).await;
    }

    async fn fixture() -> Fixture {
        let fixture = Fixture::new();
        fixture.namespace("n").await;
        fixture
    }

    fn follower(fixture: &Fixture) -> Follower<Ends> {
        Follower::new(Ends::new(vec!["configmaps".into()]), &fixture.applied())
    }

    /// Ends objects in each way, and returns their uids: at once, after a finalizer, with `Orphan` alone and beside a finalizer.
    async fn end_all(fixture: &Fixture) -> [String; 4] {
        let mut uids = Vec::new();
        for (name, finalizers, policy) in [
            ("at-once", &[][..], "Background"),
            ("held", &["example.com/hold"], "Background"),
            ("orphaning", &[], "Orphan"),
            ("orphaning-held", &["example.com/hold"], "Orphan"),
        ] {
            uids.push(made(fixture, name, finalizers).await);
            let options = json!({"propagationPolicy": policy});
            fixture.delete("configmaps", &format!("n/{name}"), options).await;
        }
        release(fixture, "held", Value::Null).await;
        release(fixture, "orphaning", Value::Null).await;
        release(fixture, "orphaning-held", json!(["example.com/hold"])).await;
        release(fixture, "orphaning-held", Value::Null).await;
        assert!(fixture.state().collection("configmaps").is_empty());
        uids.try_into().unwrap()
    }

    #[tokio::test]
    async fn an_owner_that_went_with_orphan_has_not_ended_for_its_dependents() {
        let fixture = fixture().await;
        let mut ends = follower(&fixture);
        let uids = end_all(&fixture).await;
        let ends = ends.advance(&fixture.applied());
        assert_eq!(uids.each_ref().map(|uid| ends.has_ended(uid)), [true, true, false, false]);
        assert!(!ends.has_ended("unheard-of") && ends.leaving.is_empty());
    }

    #[tokio::test]
    async fn a_new_leader_knows_the_ends_of_the_history_and_those_whose_beginning_it_has_not_seen_are_none() {
        let fixture = fixture().await;
        let uids = end_all(&fixture).await;
        let ends = follower(&fixture);
        assert_eq!(uids.each_ref().map(|uid| ends.value().has_ended(uid)), [true, true, false, false]);
        let unclear = made(&fixture, "unclear", &["example.com/hold"]).await;
        fixture.delete("configmaps", "n/unclear", json!({"propagationPolicy": "Orphan"})).await;
        release(&fixture, "unclear", json!(["example.com/hold"])).await;
        fixture.forget_history();
        let mut ends = follower(&fixture);
        assert!(!uids.iter().any(|uid| ends.value().has_ended(uid)), "nothing is left of them");
        release(&fixture, "unclear", Value::Null).await;
        assert!(!ends.advance(&fixture.applied()).has_ended(&unclear));
    }

    #[tokio::test]
    async fn a_lost_history_is_one_without_ends() {
        let fixture = fixture().await;
        let mut ends = follower(&fixture);
        let first = made(&fixture, "a", &[]).await;
        fixture.delete("configmaps", "n/a", json!({})).await;
        assert!(ends.advance(&fixture.applied()).has_ended(&first));
        fixture.forget_history();
        made(&fixture, "a", &[]).await;
        fixture.forget_history();
        assert!(!ends.advance(&fixture.applied()).has_ended(&first));
    }

    /// A version of the object `uid`.
    fn version(uid: &str, finalizers: Option<&[&str]>) -> SharedObject {
        let metadata = json!({"finalizers": finalizers.unwrap_or_default().to_vec()});
        let index = orch_raft::Index {
            uid: uid.to_owned(),
            terminating: finalizers.is_some(),
            ..orch_raft::Index::default()
        };
        Arc::new(orch_raft::Object {
            revision: orch_raft::Revision(1),
            created: orch_raft::Revision(1),
            written_ms: 0,
            json: json!({"metadata": metadata}).to_string().into(),
            revision_at: 0,
            index,
            protobuf: std::sync::OnceLock::new(),
        })
    }

    #[test]
    fn an_object_that_an_import_brings_back_has_not_ended() {
        let (live, orphaning, held) =
            (version("u", None), version("u", Some(&["orphan"])), version("u", Some(&["example.com/hold"])));
        let mut ends = Ends::default();
        ends.take_in(Some(&live), None);
        assert!(ends.has_ended("u"));
        ends.take_in(None, Some(&live));
        assert!(!ends.has_ended("u"), "it is there again");
        ends.take_in(Some(&live), Some(&orphaning));
        ends.take_in(Some(&orphaning), None);
        assert!(!ends.has_ended("u"), "and leaves its dependents");
        ends.take_in(None, Some(&held));
        ends.take_in(Some(&held), None);
        assert!(!ends.has_ended("u"), "it may have had the finalizer where it comes from");
        ends.take_in(None, Some(&live));
        ends.take_in(Some(&live), Some(&held));
        ends.take_in(Some(&held), None);
        assert!(ends.has_ended("u"));
    }

    #[test]
    fn the_oldest_ends_make_room() {
        let mut ends = Ends::default();
        (0..=ENDS_MAX).for_each(|at| ends.remember_uid(&at.to_string()));
        assert!(!ends.has_ended("0") && ends.has_ended("1") && ends.ended.len() == ENDS_MAX);
    }
}
