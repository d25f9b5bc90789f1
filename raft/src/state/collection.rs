//! All objects of one resource, and its recent changes.
//!
//! Owns reads of one resource: by path, in order, at an older revision, and the changes since one. It never decides
//! what is kept: the state above trims all resources together.
//!
//! Invariant: `history` is in revision order and every change in it is later than `floor`. Invariant: the objects
//! with every change undone are the objects as they were at `floor`. Invariant: `forgotten <= floor`.

use std::ops::Bound;
use std::sync::Arc;

use imbl::{OrdMap, Vector};

use crate::key::Revision;
use crate::object::SharedObject;

/// All objects of one resource, and its recent changes. Cloning shares structure.
#[derive(Clone, Debug, Default)]
pub struct Collection {
    objects: OrdMap<Arc<str>, SharedObject>,
    history: Vector<Change>,
    /// The oldest revision that can still be rebuilt: all changes after it are in `history`.
    floor: Revision,
    /// The newest change that is no longer in `history`: a resource at rest keeps its watchers while others churn.
    forgotten: Revision,
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

/// What a change costs beside the bytes of the object it holds: two ring slots, path, reference counts, and what is
/// kept parsed beside the bytes.
const CHANGE_OVERHEAD_BYTES: usize = 512;

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

    /// The oldest revision that [`Collection::at`] can still serve.
    pub fn floor(&self) -> Revision {
        self.floor
    }

    /// All objects in path order, from the first path that is `>= from`.
    pub fn range_from<'a>(
        &'a self,
        from: &str,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a SharedObject)> + 'a {
        self.objects.range::<_, str>((Bound::Included(from), Bound::Unbounded))
    }

    /// The changes after `revision` in order.
    ///
    /// # Errors
    /// A change after `revision` is no longer held.
    pub fn changes_after(&self, revision: Revision) -> Result<impl Iterator<Item = &Change>, Compacted> {
        if revision < self.forgotten {
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
        let mut object_bytes = self.object_bytes;
        for change in self.history.iter().skip(start).rev() {
            object_bytes = object_bytes + bytes_of(&change.old) - bytes_of(&change.new);
            match &change.old {
                Some(old) => objects.insert(change.path.clone(), old.clone()),
                None => objects.remove(&change.path),
            };
        }
        let mut history = self.history.clone();
        history.truncate(start);
        let changed = history.last().map_or(self.floor, |change| change.revision);
        let (floor, forgotten) = (self.floor, self.forgotten);
        Ok(Collection { objects, history, floor, forgotten, changed, object_bytes })
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

    /// Makes `change` and keeps it in the history.
    pub(super) fn record(&mut self, change: Change) {
        self.object_bytes = self.object_bytes + bytes_of(&change.new) - bytes_of(&change.old);
        match &change.new {
            Some(new) => self.objects.insert(change.path.clone(), new.clone()),
            None => self.objects.remove(&change.path),
        };
        self.changed = change.revision;
        self.history.push_back(change);
    }

    /// Takes the oldest change out of the history; the caller raises the floor.
    pub(super) fn forget_oldest(&mut self) -> Option<Change> {
        let oldest = self.history.pop_front();
        if let Some(oldest) = &oldest {
            self.forgotten = oldest.revision;
        }
        oldest
    }

    /// Every change up to `floor` has been forgotten, here and everywhere.
    pub(super) fn raise_floor(&mut self, floor: Revision) {
        debug_assert!(
            self.history.front().is_none_or(|first| first.revision > floor),
            "a change below the floor"
        );
        self.floor = floor;
    }

    /// Ends a restore: what changed up to `floor` is not known here.
    pub(super) fn start_history(&mut self, floor: Revision) {
        self.raise_floor(floor);
        self.forgotten = floor;
    }

    /// Puts back an object without history.
    pub(super) fn restore(&mut self, path: Arc<str>, object: SharedObject) {
        self.object_bytes += object.json.len();
        self.changed = self.changed.max(object.revision);
        self.objects.insert(path, object);
    }
}

impl Change {
    /// Bytes this change keeps alive: what it replaced, and its own slot.
    pub(super) fn cost(&self) -> usize {
        CHANGE_OVERHEAD_BYTES + bytes_of(&self.old)
    }
}

fn bytes_of(object: &Option<SharedObject>) -> usize {
    object.as_ref().map_or(0, |object| object.json.len())
}
