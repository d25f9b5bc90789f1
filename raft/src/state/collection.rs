//! All objects of one resource, and its recent changes.
//!
//! Owns reads of one resource: by path, in order, at an older revision, and the changes since a revision. It never
//! decides what is evicted: [`super::State`] trims all resources together.
//!
//! The floor of a resource is its newest change that is no longer held, so a resource without new changes keeps its
//! floor while others change.
//!
//! Invariant: `floor <= changed`; `history` is in revision order and holds every change after `floor`.
//! Invariant: the objects with every change undone are the objects as they were at `floor`.
//! Invariant: a root in `roots` holds the objects as they were after all changes of its revision, which is that of a
//! change in `history`.

use std::ops::Bound;
use std::sync::Arc;

use imbl::Vector;

use super::objects::Objects;
use crate::key::Revision;
use crate::object::SharedObject;

/// All objects of one resource, and its recent changes. Cloning shares structure.
#[derive(Clone, Debug, Default)]
pub struct Collection {
    objects: Objects,
    history: Vector<Change>,
    /// Objects at certain revisions of the history, oldest first. Older revisions are rebuilt from them.
    roots: Vector<Root>,
    /// Changes since the newest root.
    since_root: usize,
    /// The newest change that is no longer in `history`; zero when all of them are.
    floor: Revision,
    /// The newest change, removals included; zero when there never was one.
    changed: Revision,
    /// Sum of the cost of all changes ever recorded, in bytes. Only differences are meaningful: the start value is
    /// arbitrary, and the sum wraps.
    changes_cost: usize,
}

/// All objects as they were at a revision.
#[derive(Clone, Debug)]
struct Root {
    revision: Revision,
    objects: Objects,
    changes_cost: usize,
}

/// A change of an object.
#[derive(Clone, Debug)]
pub struct Change {
    /// Revision of the log entry that made the change.
    pub revision: Revision,
    /// Proposer's clock, milliseconds since 1970.
    pub time_ms: u64,
    /// The object's path: `namespace/name`, or `name`.
    pub path: Arc<str>,
    /// The object before; `None` if this created it.
    pub old: Option<SharedObject>,
    /// The object after; `None` if this removed it.
    pub new: Option<SharedObject>,
}

/// The requested revision is older than the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("revision {requested} is compacted; the oldest is {oldest}")]
pub struct Compacted {
    /// The requested revision.
    pub requested: Revision,
    /// The oldest revision that can be served.
    pub oldest: Revision,
}

/// Changes between two roots. Rebuilding a revision undoes at most this many changes, which takes half a millisecond; a
/// root costs about a kilobyte for each change if the changed paths are random.
const CHANGES_PER_ROOT: usize = 512;

/// Bytes that a root keeps alive for each change since the root before: the leaf and the inner node of the map that the
/// change copied. A root of a small map costs at most the whole map.
const ROOT_BYTES_PER_CHANGE: usize = 2048;

/// Bytes of a map for each object: two reference-counted pointers, in nodes that are half full.
const ROOT_BYTES_PER_OBJECT: usize = 64;

/// Bytes of a change beside the JSON of its objects: two ring slots, path, reference counts, and the parsed index.
const CHANGE_OVERHEAD_BYTES: usize = 512;

impl Collection {
    /// The object under `path` (`namespace/name`).
    pub fn get(&self, path: &str) -> Option<&SharedObject> {
        self.objects.get(path)
    }

    /// The object under `path`, and the path as it is kept.
    pub fn find(&self, path: &str) -> Option<(&Arc<str>, &SharedObject)> {
        self.objects.find(path)
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.objects.len() == 0
    }

    /// Number of objects of `namespace`, of all namespaces if that is empty. It is known without counting.
    pub fn count(&self, namespace: &str) -> usize {
        self.objects.count(namespace)
    }

    /// Bytes of all objects' JSON.
    pub fn object_bytes(&self) -> usize {
        self.objects.bytes()
    }

    /// Upper bound of the bytes that `earlier`, this collection at an older revision, keeps alive: objects replaced
    /// since.
    pub(crate) fn bytes_kept_by(&self, earlier: &Collection) -> usize {
        let whole = earlier.object_bytes() + earlier.len() * CHANGE_OVERHEAD_BYTES;
        whole.min(self.changes_cost.wrapping_sub(earlier.changes_cost))
    }

    /// The revision of the newest change, removals included.
    pub fn changed(&self) -> Revision {
        self.changed
    }

    /// The revision of the newest change up to `revision`, which is not before the floor.
    pub(super) fn changed_at(&self, revision: Revision) -> Revision {
        let before = self.first_after(revision).checked_sub(1);
        before.and_then(|at| self.history.get(at)).map_or(self.floor, |change| change.revision)
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
        self.objects.range((Bound::Included(from), Bound::Unbounded))
    }

    /// The objects of `namespace` (of all namespaces if empty) whose paths come after `after` (all if empty), in path
    /// order. Paths are compared only to find the two ends: iterating does not read the objects.
    pub fn within<'a>(
        &'a self,
        namespace: &str,
        after: &str,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a SharedObject)> + use<'a> {
        // '0' is the character after '/'.
        let [first, end] = ['/', '0'].map(|separator| format!("{namespace}{separator}"));
        let from = match (namespace.is_empty(), after.is_empty()) {
            (true, true) => Bound::Unbounded,
            (false, _) if *after < *first => Bound::Included(&*first),
            (_, false) => Bound::Excluded(after),
            (false, true) => Bound::Included(&*first),
        };
        let to = if namespace.is_empty() { Bound::Unbounded } else { Bound::Excluded(&*end) };
        self.objects.range((from, to))
    }

    /// The changes after `revision` in order.
    ///
    /// # Errors
    /// A change after `revision` is no longer held.
    pub fn changes_after(&self, revision: Revision) -> Result<impl Iterator<Item = &Change>, Compacted> {
        self.require(revision)?;
        let start = self.first_after(revision);
        Ok(self.history.focus().narrow(start..).into_iter())
    }

    /// Number of the changes after `revision`, known without counting, so that the time of going through them can be
    /// estimated before.
    ///
    /// # Errors
    /// A change after `revision` is no longer held.
    pub fn changes_since(&self, revision: Revision) -> Result<usize, Compacted> {
        self.require(revision)?;
        Ok(self.history.len() - self.first_after(revision))
    }

    /// The collection as it was at `revision`: the objects of the next root, or the current ones, with the changes in
    /// between undone.
    ///
    /// # Errors
    /// A change after `revision` is no longer held.
    pub fn at(&self, revision: Revision) -> Result<Collection, Compacted> {
        self.require(revision)?;
        let start = self.first_after(revision);
        let root = self.roots.iter().find(|root| root.revision >= revision);
        let (mut then, end) = match root {
            Some(Root { revision, objects, changes_cost }) => {
                let (objects, changes_cost) = (objects.clone(), *changes_cost);
                let then = Collection { objects, changes_cost, ..Collection::default() };
                (then, self.first_after(*revision))
            }
            None => (self.clone(), self.history.len()),
        };
        then.undo_in_place(self.history.focus().narrow(start..end).into_iter().rev());
        let mut history = self.history.clone();
        history.truncate(start);
        let mut roots = self.roots.clone();
        roots.retain(|root| root.revision <= revision);
        let changed = history.last().map_or(self.floor, |change| change.revision);
        Ok(Collection { history, roots, since_root: 0, floor: self.floor, changed, ..then })
    }

    /// The collection before `changes`, given newest first: for callers with changes older than the history. The result
    /// has an empty history.
    pub fn undo<'a>(&self, changes: impl Iterator<Item = &'a Change>) -> Collection {
        let mut undone = Collection { history: Vector::new(), roots: Vector::new(), ..self.clone() };
        undone.undo_in_place(changes);
        undone
    }

    /// Undoes changes, newest first, in the objects and in the cost of changes.
    fn undo_in_place<'a>(&mut self, changes: impl Iterator<Item = &'a Change>) {
        for change in changes {
            self.changes_cost = self.changes_cost.wrapping_sub(change.cost());
            self.objects.set(&change.path, change.old.clone());
        }
    }

    fn require(&self, revision: Revision) -> Result<(), Compacted> {
        if revision >= self.floor {
            return Ok(());
        }
        Err(Compacted { requested: revision, oldest: self.floor })
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

    /// Applies `change` and appends it to the history. Returns the bytes that the history grows by.
    pub(super) fn record(&mut self, change: Change) -> usize {
        // Equal revisions are allowed: a transaction may change several objects of a resource.
        assert!(self.changed <= change.revision, "a resource's changes are in the order of their revisions");
        let cost = change.cost() + self.keep_root(change.revision);
        self.changes_cost = self.changes_cost.wrapping_add(change.cost());
        let replaced = self.objects.set(&change.path, change.new.clone());
        let is_undone_by_it = replaced.as_ref().map(Arc::as_ptr) == change.old.as_ref().map(Arc::as_ptr);
        assert!(is_undone_by_it, "a change keeps the object that it replaced");
        self.changed = change.revision;
        self.since_root += 1;
        self.history.push_back(change);
        cost
    }

    /// Keeps a root once [`CHANGES_PER_ROOT`] changes were made, but only if `next`, the revision about to change the
    /// resource, is a new one: a revision may change several objects. Returns the bytes that the root costs.
    fn keep_root(&mut self, next: Revision) -> usize {
        let ends_revision = self.changed < next;
        if self.since_root < CHANGES_PER_ROOT || !ends_revision || self.history.is_empty() {
            return 0;
        }
        let (objects, changes_cost) = (self.objects.clone(), self.changes_cost);
        let cost = (self.since_root * ROOT_BYTES_PER_CHANGE).min(objects.len() * ROOT_BYTES_PER_OBJECT);
        self.since_root = 0;
        self.roots.push_back(Root { revision: self.changed, objects, changes_cost });
        cost
    }

    /// The change at `position` in the history; 0 is the oldest.
    pub(super) fn change(&self, position: usize) -> Option<&Change> {
        self.history.get(position)
    }

    /// Removes the oldest change, which is of `revision`, from the history.
    pub(super) fn forget_oldest(&mut self, revision: Revision) {
        let oldest = self.history.pop_front();
        let oldest = oldest.expect("the ring of all changes lists none that its resource does not hold");
        assert_eq!(oldest.revision, revision, "a resource's changes leave in the order of the ring");
        self.floor = oldest.revision;
        while self.roots.front().is_some_and(|root| root.revision <= oldest.revision) {
            self.roots.pop_front();
        }
    }

    /// Ends a restore: `changed` is the revision of the newest change, and no change up to it is held.
    pub(super) fn start_history(&mut self, changed: Revision) {
        assert!(self.changed <= changed, "no object is newer than its resource's last change");
        assert!(self.history.is_empty(), "history starts where none is held");
        self.changed = changed;
        self.floor = changed;
    }

    /// Puts back an object without history.
    pub(super) fn restore(&mut self, path: Arc<str>, object: SharedObject) {
        self.changed = self.changed.max(object.revision);
        self.objects.set(&path, Some(object));
    }
}

impl Change {
    /// Bytes of the objects before and after.
    pub fn object_bytes(&self) -> usize {
        bytes_of(&self.old) + bytes_of(&self.new)
    }

    /// Bytes this change keeps alive: the object it replaced, and its own slot.
    pub(super) fn cost(&self) -> usize {
        // A client chooses how much of an object its labels are.
        let labels = self.old.as_ref().map_or(0, |old| old.index.labels.held_bytes());
        CHANGE_OVERHEAD_BYTES + bytes_of(&self.old) + labels
    }

    /// Bytes to write this change to a disk: the objects before and after, with their parsed indexes.
    pub(super) fn written_bytes(&self) -> usize {
        CHANGE_OVERHEAD_BYTES + self.object_bytes()
    }
}

fn bytes_of(object: &Option<SharedObject>) -> usize {
    object.as_ref().map_or(0, |object| object.json.len())
}
