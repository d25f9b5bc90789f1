//! The beginning of a cluster that was made from the objects of an earlier one: a restored snapshot, a recovered member.
//!
//! Owns the floor under every resource of such a cluster. Clients hold revisions of the earlier cluster, all of them lower
//! than the beginning. Changes that the earlier cluster made after the restored point are not known here. So no read of an
//! older revision is answered, nor a watch from one, not even of a resource that has no objects and never had any here:
//! objects of it may have been made and seen after that point.
//!
//! The beginning is an object of the store's own, written with the first state and never again, so that every member
//! reads the same one from its disk or from a snapshot. Invariant: a resource whose newest change is the beginning is in
//! neither mark nor digest of changes; whether a member has a collection for it depends on when it started.

use std::sync::Arc;

use super::{CLUSTER_RESOURCE, Collection, State};
use crate::key::{Key, Revision};

/// Path of the object in [`CLUSTER_RESOURCE`] that tells where a cluster comes from that was not founded.
pub(crate) const ORIGIN: &str = "origin";

/// The field of that object with the revision of the beginning.
pub(crate) const BEGINNING_FIELD: &str = "beginning";

impl State {
    /// The revision with which the cluster was made from an earlier one: no resource serves an older one. 0 in a cluster
    /// that was founded.
    pub fn beginning(&self) -> Revision {
        self.beginning
    }

    /// The beginning as the stored object has it; 0 without one. Known once the objects are there, before the restore of a
    /// state ends.
    pub(crate) fn stored_beginning(&self) -> Revision {
        let key = Key::from_stored(Arc::from(CLUSTER_RESOURCE), Arc::from(ORIGIN));
        let text = self.object(&key).map(|object| object.index.fields.value(BEGINNING_FIELD, 0));
        Revision(text.and_then(|text| text.parse().ok()).unwrap_or(0))
    }

    /// Puts the floor of every resource at the beginning, before those with newer changes are raised.
    pub(super) fn begin(&mut self) {
        self.beginning = self.stored_beginning();
        assert!(self.beginning <= self.applied, "a cluster's state is no older than its beginning");
        if self.beginning == Revision(0) {
            return;
        }
        let beginning = self.beginning;
        let raise =
            |collection: &mut Collection| collection.start_history(collection.changed().max(beginning));
        raise(Arc::make_mut(&mut self.untouched));
        let resources: Vec<Arc<str>> = self.collections.keys().cloned().collect();
        resources.iter().for_each(|resource| raise(self.collection_mut(resource)));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytes::Bytes;

    use super::*;
    use crate::fields::Fields;
    use crate::object::Index;
    use crate::transaction::{Operation, Put, Transaction};

    const BEGINNING: Revision = Revision(1000);

    fn put(resource: &str, path: &str, fields: &[(&str, &str)]) -> Transaction {
        let key = Key::from_stored(Arc::from(resource), Arc::from(path));
        let index = Index { fields: Fields::new(fields.iter().copied()), ..Index::default() };
        let put = Put { key, json: Bytes::from_static(br#"{"v":""}"#), revision_at: 6, index };
        Transaction { operations: vec![Operation::Put(put)], ..Transaction::default() }
    }

    /// The objects of `state` as loaded from a disk whose mark is at `applied` and has `changed`.
    fn loaded(state: &State, applied: Revision, changed: &BTreeMap<Arc<str>, Revision>) -> State {
        let mut restored = State::default();
        for (resource, collection) in state.collections() {
            for (path, object) in collection.range_from("") {
                restored.restore(&Key::from_stored(resource.clone(), path.clone()), object.clone());
            }
        }
        restored.finish_restore(applied, Some(changed));
        restored
    }

    fn begun() -> State {
        let mut first = State::default();
        first.apply(Revision(3), &put("pods", "a/b", &[]));
        let origin = put(CLUSTER_RESOURCE, ORIGIN, &[(BEGINNING_FIELD, "1000")]);
        first.apply(BEGINNING, &origin);
        loaded(&first, BEGINNING, &BTreeMap::new())
    }

    #[test]
    fn no_resource_answers_from_before_the_beginning() {
        let state = begun();
        assert_eq!(state.beginning(), BEGINNING);
        for resource in ["pods", "secrets"] {
            let collection = state.collection(resource);
            assert_eq!((collection.floor(), collection.changed()), (BEGINNING, BEGINNING), "{resource}");
            assert!(collection.changes_after(Revision(999)).is_err(), "{resource}");
            assert!(collection.at(Revision(3)).is_err(), "{resource}");
            assert_eq!(collection.changes_after(BEGINNING).unwrap().count(), 0);
        }
    }

    #[test]
    fn members_that_started_at_other_times_agree() {
        let mut early = begun();
        early.apply(Revision(1001), &put("pods", "a/c", &[]));
        let at = early.applied();
        let late = loaded(&early, at, &early.changed_at_floor(at));
        assert_eq!(early.changed_at_floor(at), BTreeMap::from([(Arc::from("pods"), Revision(1001))]));
        assert_eq!(early.digest_of_changes(), late.digest_of_changes());
        // The mark of a floor before the first change of `secrets` does not name it, and neither does the digest after a
        // restart from that mark.
        early.apply(Revision(1002), &put("secrets", "a/c", &[]));
        assert!(!early.changed_at_floor(at).contains_key("secrets"));
        let mut late = loaded(&late, at, &early.changed_at_floor(at));
        assert!(late.collection("secrets").changes_after(Revision(999)).is_err());
        late.apply(Revision(1002), &put("secrets", "a/c", &[]));
        assert_eq!(early.digest_of_changes(), late.digest_of_changes());
        assert_eq!(early.fingerprint(), late.fingerprint());
    }

    #[test]
    fn a_cluster_that_was_founded_begins_at_nothing() {
        let mut state = State::default();
        state.apply(Revision(3), &put("pods", "a/b", &[]));
        let state = loaded(&state, Revision(3), &state.changed_at_floor(Revision(3)));
        assert_eq!((state.beginning(), state.collection("secrets").floor()), (Revision(0), Revision(0)));
    }
}
