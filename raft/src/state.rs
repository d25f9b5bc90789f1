//! The applied state and how a transaction changes it.
//!
//! Owns `apply`: a pure function of state and entry, the same bytes on every node for ever. State lives in persistent
//! ordered maps, one for each resource; a reader holds a root and is never blocked. Each resource keeps its recent
//! changes with their old values, which serve watches and rebuild any revision inside the window.
//!
//! Invariant: no clock, no randomness, no unordered map. Invariant: a resource's history is in revision order and
//! every change in it is later than `floor`.

use std::sync::{Arc, OnceLock};

use imbl::{OrdMap, Vector};

use crate::key::{Key, Revision};
use crate::object::{Object, SharedObject, splice_revision};
use crate::transaction::{Condition, Operation, Outcome, Put, Transaction};

/// The resource that holds namespaces: a condition looks there.
pub const NAMESPACES: &str = "namespaces";

/// Everything applied up to one revision. Cloning shares structure.
#[derive(Clone, Debug, Default)]
pub struct State {
    applied: Revision,
    collections: OrdMap<Arc<str>, Arc<Collection>>,
    /// What a resource without objects and changes looks like: its floor is where this state was restored.
    untouched: Arc<Collection>,
}

/// All objects of one resource, and its recent changes.
#[derive(Clone, Debug, Default)]
pub struct Collection {
    objects: OrdMap<Arc<str>, SharedObject>,
    history: Vector<Change>,
    history_bytes: usize,
    /// The oldest revision that can still be rebuilt: all changes after it are in `history`.
    floor: Revision,
    /// The newest change.
    changed: Revision,
    object_bytes: usize,
}

/// One change of one object.
#[derive(Clone, Debug)]
pub struct Change {
    /// When.
    pub revision: Revision,
    /// Proposer's clock, milliseconds since 1970.
    pub time_ms: u64,
    /// Which.
    pub path: Arc<str>,
    /// The object before; `None` if this created it.
    pub old: Option<SharedObject>,
    /// The object after; `None` if this removed it.
    pub new: Option<SharedObject>,
}

/// The revision asked for is older than what history holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("revision {requested} is compacted; the oldest is {oldest}")]
pub struct Compacted {
    /// What was asked for.
    pub requested: Revision,
    /// The oldest that can be served.
    pub oldest: Revision,
}

/// What a change costs beside the objects it holds: ring slot, path, reference counts.
const CHANGE_OVERHEAD_BYTES: usize = 160;

impl State {
    /// The index of the last entry applied, whatever it held.
    pub fn applied(&self) -> Revision {
        self.applied
    }

    /// Notes that an entry without a transaction (a blank or membership entry) was applied.
    pub fn advance(&mut self, to: Revision) {
        debug_assert!(self.applied <= to, "entries are applied in order");
        self.applied = to;
    }

    /// The objects of `resource`; an empty collection when nothing was ever stored there.
    pub fn collection(&self, resource: &str) -> Arc<Collection> {
        self.collections.get(resource).unwrap_or(&self.untouched).clone()
    }

    /// The object under `key`.
    pub fn object(&self, key: &Key) -> Option<&SharedObject> {
        self.collections.get(key.resource())?.objects.get(key.path())
    }

    /// Every resource with its objects, in the order of their names.
    pub fn collections(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<Collection>)> {
        self.collections.iter()
    }

    /// Applies one transaction as entry `revision`.
    pub fn apply(&mut self, revision: Revision, transaction: &Transaction) -> Outcome {
        debug_assert!(self.applied < revision, "entries are applied once, in order");
        self.applied = revision;
        for (position, condition) in transaction.conditions.iter().enumerate() {
            if let Err(current) = self.check(condition) {
                return Outcome::Refused { condition: position, current, revision };
            }
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

    /// Drops changes that are older than `before_ms` or, oldest first, beyond `bytes_max` for each resource.
    /// Local to a node: what is dropped differs between nodes, what is kept never does.
    pub fn trim_history(&mut self, before_ms: u64, bytes_max: usize) {
        let stale: Vec<Arc<str>> = self
            .collections
            .iter()
            .filter(|(_, collection)| collection.must_trim(before_ms, bytes_max))
            .map(|(resource, _)| resource.clone())
            .collect();
        for resource in stale {
            if let Some(collection) = self.collections.get_mut(&resource) {
                Arc::make_mut(collection).trim(before_ms, bytes_max);
            }
        }
    }

    /// Puts back an object read from disk or a snapshot, without history. Used before the first apply only.
    pub fn restore(&mut self, key: &Key, object: SharedObject) {
        let revision = object.revision;
        let collection = self.collection_mut(key.resource());
        collection.object_bytes += object.json.len();
        collection.objects.insert(key.path().clone(), object);
        collection.changed = collection.changed.max(revision);
    }

    /// Ends a restore: everything up to `applied` is here, and history starts there.
    pub fn finish_restore(&mut self, applied: Revision) {
        self.applied = applied;
        let resources: Vec<Arc<str>> = self.collections.keys().cloned().collect();
        for resource in resources {
            self.collection_mut(&resource).floor = applied;
        }
        Arc::make_mut(&mut self.untouched).floor = applied;
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
                let found = self.collections.get(NAMESPACES).and_then(|all| all.objects.get(namespace));
                match found {
                    Some(object) if !object.index.terminating => Ok(()),
                    found => Err(found.cloned()),
                }
            }
        }
    }

    fn put(
        &mut self,
        revision: Revision,
        time_ms: u64,
        put: &Put,
    ) -> (Option<SharedObject>, Option<SharedObject>) {
        let json = splice_revision(&put.json, put.revision_at as usize, revision);
        let collection = self.collection_mut(put.key.resource());
        let old = collection.objects.get(put.key.path()).cloned();
        let created = old.as_ref().map_or(revision, |old| old.created);
        let new = Arc::new(Object {
            revision,
            created,
            written_ms: time_ms,
            json,
            revision_at: put.revision_at,
            index: put.index.clone(),
            protobuf: OnceLock::new(),
        });
        collection.record(Change {
            revision,
            time_ms,
            path: put.key.path().clone(),
            old: old.clone(),
            new: Some(new.clone()),
        });
        (old, Some(new))
    }

    fn delete(
        &mut self,
        revision: Revision,
        time_ms: u64,
        key: &Key,
    ) -> (Option<SharedObject>, Option<SharedObject>) {
        let Some(old) = self.object(key).cloned() else { return (None, None) };
        let collection = self.collection_mut(key.resource());
        collection.record(Change {
            revision,
            time_ms,
            path: key.path().clone(),
            old: Some(old.clone()),
            new: None,
        });
        (Some(old), None)
    }

    fn collection_mut(&mut self, resource: &Arc<str>) -> &mut Collection {
        let untouched = &self.untouched;
        Arc::make_mut(self.collections.entry(resource.clone()).or_insert_with(|| untouched.clone()))
    }
}

impl Collection {
    /// The object under `path` (`namespace/name`).
    pub fn get(&self, path: &str) -> Option<&SharedObject> {
        self.objects.get(path)
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Bytes of all objects' JSON.
    pub fn object_bytes(&self) -> usize {
        self.object_bytes
    }

    /// The newest change of the resource.
    pub fn changed(&self) -> Revision {
        self.changed
    }

    /// The oldest revision that [`Collection::at`] and [`Collection::changes_after`] can still serve.
    pub fn floor(&self) -> Revision {
        self.floor
    }

    /// All objects in path order, from the first path that is `>= from`.
    pub fn range_from<'a>(
        &'a self,
        from: &str,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a SharedObject)> + 'a {
        self.objects.range::<_, str>((std::ops::Bound::Included(from), std::ops::Bound::Unbounded))
    }

    /// The changes after `revision` in order.
    ///
    /// # Errors
    /// The changes right after `revision` are no longer held.
    pub fn changes_after(&self, revision: Revision) -> Result<impl Iterator<Item = &Change>, Compacted> {
        if revision < self.floor {
            return Err(Compacted { requested: revision, oldest: self.floor });
        }
        let start = self.first_after(revision);
        Ok(self.history.focus().narrow(start..).into_iter())
    }

    /// The collection as it was at `revision`: today's objects with every later change undone.
    ///
    /// # Errors
    /// The revision lies before what history holds.
    pub fn at(&self, revision: Revision) -> Result<Collection, Compacted> {
        if revision < self.floor {
            return Err(Compacted { requested: revision, oldest: self.floor });
        }
        let start = self.first_after(revision);
        let mut objects = self.objects.clone();
        for change in self.history.iter().skip(start).rev() {
            match &change.old {
                Some(old) => objects.insert(change.path.clone(), old.clone()),
                None => objects.remove(&change.path),
            };
        }
        let mut history = self.history.clone();
        history.truncate(start);
        let changed = history.last().map_or(self.floor, |change| change.revision);
        Ok(Collection { objects, history, history_bytes: 0, floor: self.floor, changed, object_bytes: 0 })
    }

    /// Position in `history` of the first change later than `revision`.
    fn first_after(&self, revision: Revision) -> usize {
        let (mut low, mut high) = (0, self.history.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.history[middle].revision <= revision { low = middle + 1 } else { high = middle }
        }
        low
    }

    fn record(&mut self, change: Change) {
        self.object_bytes += change.new.as_ref().map_or(0, |new| new.json.len());
        self.object_bytes -= change.old.as_ref().map_or(0, |old| old.json.len());
        match &change.new {
            Some(new) => self.objects.insert(change.path.clone(), new.clone()),
            None => self.objects.remove(&change.path),
        };
        self.changed = change.revision;
        self.history_bytes += change.cost();
        self.history.push_back(change);
    }

    fn must_trim(&self, before_ms: u64, bytes_max: usize) -> bool {
        self.history_bytes > bytes_max || self.history.front().is_some_and(|first| first.time_ms < before_ms)
    }

    fn trim(&mut self, before_ms: u64, bytes_max: usize) {
        while self.must_trim(before_ms, bytes_max) {
            let Some(change) = self.history.pop_front() else { return };
            self.history_bytes -= change.cost();
            self.floor = change.revision;
        }
    }
}

impl Change {
    /// Bytes this change keeps alive: what it replaced, and its own slot.
    fn cost(&self) -> usize {
        CHANGE_OVERHEAD_BYTES + self.old.as_ref().map_or(0, |old| old.json.len())
    }
}
