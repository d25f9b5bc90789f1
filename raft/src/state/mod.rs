//! The applied state, and `apply`, by which a transaction changes it.
//!
//! Owns `apply`: a pure function of state and entry, the same bytes on every node for ever. State lives in persistent
//! ordered maps, one for each resource; a reader holds a root and is never blocked. Each resource keeps its recent
//! changes with their old values, which serve watches and rebuild any revision inside the window.
//!
//! All resources share one history window in memory: trimming evicts whole revisions, oldest first, and raises one
//! floor. It takes two steps: [`State::oldest`] lists the changes to evict, the caller writes them to the disk, then
//! [`State::drop_history_through`] drops them. So every change that has left memory is on the disk, which holds the
//! state as of the floor (docs/decisions/0002) and older changes (docs/decisions/0010).
//!
//! Invariant: no clock, no randomness, no unordered map.
//! Invariant: `floor <= applied`, and every change after the floor is in the history of its resource.

mod beginning;
mod collection;
mod fingerprint;
mod history;
mod objects;
#[cfg(test)]
mod tests;
mod usage;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use imbl::OrdMap;

pub(crate) use self::beginning::{BEGINNING_FIELD, ORIGIN};
pub use self::collection::{Change, Collection, Compacted};
pub use self::fingerprint::{Fingerprint, digest_of_changes};
use self::history::Ring;
pub use self::history::{Evicted, EvictionBatch, HistoryBounds};
use self::usage::Full;
pub(crate) use self::usage::QUOTA_FIELD;
pub use self::usage::{LIMITS, Usage};
use crate::key::{Key, Revision};
use crate::object::{Object, SharedObject, splice_revision};
use crate::transaction::{Condition, Operation, Outcome, Put, Transaction};

/// The resource of namespaces, where [`Condition::NamespaceActive`] looks.
pub const NAMESPACES: &str = "namespaces";

/// The resource of the store's own objects, such as registrations and the quota; no API serves it.
pub const CLUSTER_RESOURCE: &str = "_cluster";

/// Everything applied up to one revision. Cloning shares structure.
#[derive(Clone, Debug, Default)]
pub struct State {
    applied: Revision,
    collections: OrdMap<Arc<str>, Arc<Collection>>,
    /// The collection of every resource that has neither objects nor changes.
    untouched: Arc<Collection>,
    /// All changes of all resources in order, and their cost in bytes.
    ring: Ring,
    floor: Revision,
    /// The revision with which the cluster was made from an earlier one; 0 where it was founded. Every resource counts as
    /// changed at it: see [`State::beginning`].
    beginning: Revision,
    /// The digest of all objects as of `applied`.
    fingerprint: Fingerprint,
    /// The size of all objects, and the quota.
    usage: Usage,
}

/// An object before and after one operation.
type Changed = (Option<SharedObject>, Option<SharedObject>);

impl State {
    /// Index of the last applied log entry, of any kind.
    pub fn applied(&self) -> Revision {
        self.applied
    }

    /// The oldest revision at which memory can rebuild every resource. The state on disk is as of this revision.
    pub fn floor(&self) -> Revision {
        self.floor
    }

    /// The digest of all objects. Equal on every member that has applied the same entries.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The size of all objects, and the quota.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Bytes that the history in memory takes.
    pub fn history_bytes(&self) -> usize {
        self.ring.bytes()
    }

    /// Notes that an entry without a transaction (a blank or membership entry) was applied.
    pub fn advance(&mut self, to: Revision) {
        assert!(self.applied <= to, "entries are applied in order");
        self.applied = to;
    }

    /// The objects of `resource`; an empty collection when nothing was ever stored there.
    pub fn collection(&self, resource: &str) -> Arc<Collection> {
        self.collections.get(resource).unwrap_or(&self.untouched).clone()
    }

    /// The object under `key`.
    pub fn object(&self, key: &Key) -> Option<&SharedObject> {
        self.collections.get(key.resource())?.get(key.path())
    }

    /// Every resource and its objects, sorted by resource name.
    pub fn collections(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<Collection>)> {
        self.collections.iter()
    }

    /// Applies one transaction as entry `revision`.
    pub fn apply(&mut self, revision: Revision, transaction: &Transaction) -> Outcome {
        assert!(self.applied < revision, "entries are applied once, in order");
        self.applied = revision;
        for (position, condition) in transaction.conditions.iter().enumerate() {
            if let Err(current) = self.check(condition) {
                return Outcome::Refused { condition: position, current, revision };
            }
        }
        if let Err(Full { used, quota }) = self.check_quota(&transaction.operations) {
            return Outcome::Full { used, quota, revision };
        }
        let mut first = None;
        for operation in &transaction.operations {
            let changed = match operation {
                Operation::Put(put) => self.put(revision, transaction.proposed_ms, put),
                Operation::Delete(key) => self.delete(revision, transaction.proposed_ms, key),
            };
            first.get_or_insert(changed);
        }
        let (previous, object) = first.unwrap_or_default();
        Outcome::Applied { revision, object, previous }
    }

    /// Whether the history holds more than `bounds` allow.
    pub fn exceeds(&self, bounds: &HistoryBounds) -> bool {
        self.applied.0 - self.floor.0 > bounds.entries_max || self.ring.exceeds(bounds)
    }

    /// The oldest changes, as many as must be evicted for `bounds` to hold. A batch ends with the revision at which its
    /// size on disk passes `batch_bytes`. `None` when the bounds hold.
    pub fn oldest(&self, bounds: &HistoryBounds, batch_bytes: usize) -> Option<EvictionBatch> {
        if !self.exceeds(bounds) && self.floor >= bounds.through.min(self.applied) {
            return None;
        }
        let entries_floor = Revision(self.applied.0.saturating_sub(bounds.entries_max));
        let wanted = self.floor.max(entries_floor).max(bounds.through.min(self.applied));
        let (resources, last) = self.ring.oldest(bounds, wanted, batch_bytes);
        let mut taken: BTreeMap<Arc<str>, usize> = BTreeMap::new();
        let mut changes = Vec::with_capacity(resources.len());
        for resource in resources {
            let position = taken.entry(resource.clone()).or_default();
            let change = self.collections.get(&resource).and_then(|all| all.change(*position)).cloned();
            // A change left out here would be dropped from memory without being written to the disk.
            let change = change.expect("the ring lists no change that its resource does not hold");
            *position += 1;
            changes.push(Evicted { resource, change });
        }
        let last = last.unwrap_or(self.floor);
        let cut_short = self.ring.first_after(last).is_some_and(|next| next <= wanted);
        let floor = if cut_short { last } else { wanted.max(last) };
        Some(EvictionBatch { floor, changes })
    }

    /// Drops every change up to `floor`, after the caller has written them elsewhere. Floors differ between members;
    /// changes above both floors do not.
    pub fn drop_history_through(&mut self, floor: Revision) {
        assert!(floor <= self.applied, "what leaves the history was applied");
        while let Some((resource, revision)) = self.ring.forget_through(floor) {
            self.collection_mut(&resource).forget_oldest(revision);
        }
        self.floor = self.floor.max(floor);
    }

    /// Evicts whole revisions, oldest first, until `bounds` hold, and returns their changes in order: [`State::oldest`]
    /// and [`State::drop_history_through`] at once, for stores without a disk.
    pub fn trim_history(&mut self, bounds: &HistoryBounds) -> Vec<Evicted> {
        let Some(EvictionBatch { floor, changes }) = self.oldest(bounds, usize::MAX) else {
            return Vec::new();
        };
        self.drop_history_through(floor);
        changes
    }

    /// Puts back an object read from disk or a snapshot, without history. Used before the first apply only.
    pub fn restore(&mut self, key: &Key, object: SharedObject) {
        self.fingerprint.add(key.resource(), key.path(), &object);
        self.usage.replace(key.resource(), key.path(), None, Some(&object));
        self.collection_mut(key.resource()).restore(key.path().clone(), object);
    }

    /// Ends a restore: the state is complete up to `applied`, and history starts there. `changed` has the revision of
    /// each resource's newest change, also for resources without objects. It is `None` if the state was stored in a
    /// format without it: then reads of older changes return [`Compacted`].
    pub fn finish_restore(&mut self, applied: Revision, changed: Option<&BTreeMap<Arc<str>, Revision>>) {
        self.applied = applied;
        self.floor = applied;
        self.begin();
        let Some(changed) = changed else {
            Arc::make_mut(&mut self.untouched).start_history(applied);
            let resources: Vec<Arc<str>> = self.collections.keys().cloned().collect();
            return resources
                .iter()
                .for_each(|resource| self.collection_mut(resource).start_history(applied));
        };
        for (resource, revision) in changed {
            assert!(*revision <= applied, "no resource changed after the state's revision");
            let newest = (*revision).max(self.beginning);
            self.collection_mut(resource).start_history(newest);
        }
    }

    /// The revision of each resource's newest change up to `floor`, removals included. Resources without one since the
    /// beginning are left out.
    pub fn changed_at_floor(&self, floor: Revision) -> BTreeMap<Arc<str>, Revision> {
        let changed = |collection: &Collection| collection.changed_at(floor);
        self.collections
            .iter()
            .map(|(resource, collection)| (resource.clone(), changed(collection)))
            .filter(|(_, changed)| *changed > self.beginning)
            .collect()
    }

    /// A hash of the revision of each resource's newest change: equal on members that applied the same entries.
    pub fn digest_of_changes(&self) -> u128 {
        let changes =
            self.collections.iter().map(|(resource, collection)| (&**resource, collection.changed()));
        digest_of_changes(changes.filter(|(_, changed)| *changed > self.beginning))
    }

    fn check(&self, condition: &Condition) -> Result<(), Option<SharedObject>> {
        match condition {
            Condition::Absent(key) => self.object(key).map_or(Ok(()), |found| Err(Some(found.clone()))),
            Condition::Exists(key) => self.object(key).map_or(Err(None), |_| Ok(())),
            Condition::AtRevision(key, revision) => match self.object(key) {
                Some(found) if found.revision == *revision => Ok(()),
                found => Err(found.cloned()),
            },
            Condition::NamespaceActive(namespace) => {
                let found = self.collections.get(NAMESPACES).and_then(|all| all.get(namespace));
                match found {
                    Some(object) if !object.index.terminating => Ok(()),
                    found => Err(found.cloned()),
                }
            }
        }
    }

    fn put(&mut self, revision: Revision, time_ms: u64, put: &Put) -> Changed {
        let old = self.object(&put.key).cloned();
        let created = old.as_ref().map_or(revision, |old| old.created);
        assert!(created <= revision, "an object is created before it is changed");
        let new = Arc::new(Object {
            revision,
            created,
            written_ms: time_ms,
            json: splice_revision(&put.json, put.revision_at as usize, revision),
            revision_at: put.revision_at,
            index: put.index.clone(),
            protobuf: OnceLock::new(),
        });
        let path = put.key.path().clone();
        let change = Change { revision, time_ms, path, old: old.clone(), new: Some(new.clone()) };
        self.record(put.key.resource(), change);
        (old, Some(new))
    }

    fn delete(&mut self, revision: Revision, time_ms: u64, key: &Key) -> Changed {
        let Some(old) = self.object(key).cloned() else { return (None, None) };
        let change =
            Change { revision, time_ms, path: key.path().clone(), old: Some(old.clone()), new: None };
        self.record(key.resource(), change);
        (Some(old), None)
    }

    fn record(&mut self, resource: &Arc<str>, change: Change) {
        self.count(resource, &change);
        let (revision, written) = (change.revision, change.written_bytes());
        let cost = self.collection_mut(resource).record(change);
        self.ring.push(resource, revision, cost, written);
    }

    /// Updates the size and the fingerprint of all objects.
    fn count(&mut self, resource: &str, change: &Change) {
        self.usage.replace(resource, &change.path, change.old.as_deref(), change.new.as_deref());
        if let Some(old) = &change.old {
            self.fingerprint.remove(resource, &change.path, old);
        }
        if let Some(new) = &change.new {
            self.fingerprint.add(resource, &change.path, new);
        }
    }

    fn collection_mut(&mut self, resource: &Arc<str>) -> &mut Collection {
        let untouched = &self.untouched;
        Arc::make_mut(self.collections.entry(resource.clone()).or_insert_with(|| untouched.clone()))
    }
}
