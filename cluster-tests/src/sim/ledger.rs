//! Every change that any member ever applied, and the check that members agree on them.
//!
//! Owns the order of changes that the other oracles compare with. It observes each member's state after each of its
//! steps: the first member at a revision defines its changes, and every other member must then show exactly these, none
//! missing, none more, and the same bytes at the same revision.
//!
//! Invariant: a revision changes at most one object of a resource. Invariant: a write's tag is recorded once.

mod compare;
mod disagreement;
mod kept;
mod remade;
mod replay;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orch_raft::transport::NodeId;
use orch_raft::{Change, Object, Revision, State};
use parking_lot::Mutex;

pub use self::disagreement::Disagreement;
pub use self::kept::ObjectChange;
pub use self::replay::Replay;
use super::history::{Call, Tag, Version};
use super::trace::Hash64;

/// The resource of the calls in [`super::history::History`].
pub const THINGS: &str = "configmaps";

/// The resource written in one transaction with some writes to [`THINGS`]: same path, same tag, same revision.
pub const MIRRORS: &str = "replicationcontrollers";

/// Revisions after which a member's whole state is read again. Reading it costs in proportion to its objects (so it
/// also waits for a quarter as many revisions as there are objects), comparing changes only in proportion to the
/// changes.
const WHOLE_EVERY: u64 = 24;

/// One recorded change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    /// Path of the object.
    pub path: Arc<str>,
    /// The version before; `None` for a creation.
    pub old: Option<Version>,
    /// The version after; `None` for a removal.
    pub new: Option<Version>,
    /// Hash of the object after the change: place, bytes and revisions. 0 for a removal.
    pub hash: u64,
}

impl Noted {
    /// Records a member's change of `resource`.
    pub fn of(resource: &str, change: &Change) -> Noted {
        Noted {
            path: change.path.clone(),
            old: change.old.as_deref().map(Version::of),
            new: change.new.as_deref().map(Version::of),
            hash: change.new.as_deref().map_or(0, |object| object_hash(resource, &change.path, object)),
        }
    }
}

/// Position up to which one process was observed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    applied: Revision,
    /// Revision at which its whole state was last read.
    whole: Revision,
}

/// The ledger of a run. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    changes: BTreeMap<Arc<str>, BTreeMap<Revision, Noted>>,
    tags: BTreeMap<Tag, Revision>,
    /// Revision up to which all changes are in `changes`, but for `gaps`.
    frontier: Revision,
    /// Ranges of revisions that no observed member still had: after the first, up to and with the second.
    gaps: Vec<(Revision, Revision)>,
    /// Hashes of whole states by revision.
    digests: BTreeMap<Revision, u64>,
    /// The hash of each object at the frontier.
    newest: BTreeMap<Place, u64>,
    /// The sum of `newest`.
    sum: u64,
    /// The sum after each change, where all changes up to it are known.
    sums: BTreeMap<Revision, u64>,
    /// All objects at the end of a gap, as a member had them: later changes build on them.
    bases: BTreeMap<Revision, Model>,
    /// Objects that clusters made anew must begin with, by the beginning.
    expected: BTreeMap<Revision, remade::Expected>,
    /// Resources whose changes are kept whole.
    keeps: BTreeSet<Arc<str>>,
    kept: BTreeMap<Revision, Vec<ObjectChange>>,
}

/// All objects at a revision: version by resource and path.
pub type Model = BTreeMap<Place, Version>;

/// Resource and path of an object.
type Place = (Arc<str>, Arc<str>);

/// Hash of one object: place, bytes and revisions.
fn object_hash(resource: &str, path: &str, object: &Object) -> u64 {
    let mut hash = Hash64::default();
    hash.add(resource.as_bytes());
    hash.add(path.as_bytes());
    hash.add(&object.json);
    hash.word(object.revision.0);
    hash.word(object.created.0);
    hash.0
}

impl Ledger {
    /// Checks and records the changes that `node` applied since `cursor`.
    ///
    /// # Errors
    /// The first difference from its own past or from another member.
    pub fn observe(&self, node: NodeId, state: &State, cursor: &mut Cursor) -> Result<(), Disagreement> {
        let applied = state.applied();
        if applied < cursor.applied {
            return Err(Disagreement::WentBack { node, from: cursor.applied, to: applied });
        }
        if applied == cursor.applied {
            return Ok(());
        }
        let mut inner = self.0.lock();
        // A member no longer has changes before its floor. Other members have shown them, or they are lost.
        let (from, frontier) = (cursor.applied.max(state.floor()), inner.frontier);
        if from > frontier {
            inner.gaps.push((frontier, from));
        }
        inner.compare_changes(node, state, from)?;
        if from > frontier {
            inner.take_over(from, state);
            inner.check_beginning(from)?;
        }
        inner.add_up(frontier.max(from), applied);
        inner.frontier = inner.frontier.max(applied);
        let started = std::mem::replace(&mut cursor.applied, applied) == Revision(0);
        let objects = u64::try_from(inner.newest.len()).unwrap_or(u64::MAX);
        if started || applied.0 - cursor.whole.0 >= WHOLE_EVERY + objects / 4 {
            cursor.whole = applied;
            inner.compare_digest(node, state)?;
        }
        Ok(())
    }

    /// A replay of the objects at one revision after another.
    pub fn replay(&self) -> Replay {
        Replay::new(self.clone())
    }

    /// The versions that `path` of `resource` had after `from` and at it, up to and with `through`, oldest first;
    /// `None` if a change may be unknown.
    pub fn versions(
        &self,
        resource: &str,
        path: &str,
        from: Revision,
        through: Revision,
    ) -> Option<Vec<Option<Version>>> {
        let inner = self.0.lock();
        let through = through.max(from);
        let base = inner.base(from)?;
        if inner.in_gap(base, through) {
            return None;
        }
        let place = (Arc::from(resource), Arc::from(path));
        let first = inner.bases.get(&base).and_then(|model| model.get(&place)).copied();
        let changes =
            inner.changes.get(resource)?.range(Revision(base.0 + 1)..=through.max(Revision(base.0 + 1)));
        let mut versions = vec![first];
        for (revision, noted) in changes.filter(|(_, noted)| *noted.path == *path) {
            if *revision <= from {
                versions.clear();
            }
            if *revision <= through {
                versions.push(noted.new);
            }
        }
        Some(versions)
    }

    /// All removals with their resources and revisions.
    pub fn removals(&self) -> Vec<(Arc<str>, Revision, Noted)> {
        let inner = self.0.lock();
        let all = inner.changes.iter().flat_map(|(resource, changes)| {
            let gone = changes.iter().filter(|(_, noted)| noted.new.is_none());
            gone.map(|(revision, noted)| (resource.clone(), *revision, noted.clone()))
        });
        all.collect()
    }

    /// The revision of the write of `tag`, if any member applied it.
    pub fn revision_of(&self, tag: Tag) -> Option<Revision> {
        self.0.lock().tags.get(&tag).copied()
    }

    /// The change of `resource` at `revision`, if there was one; the outer `None` if that is unknown.
    pub fn change_at(&self, resource: &str, revision: Revision) -> Option<Option<Noted>> {
        let inner = self.0.lock();
        if inner.in_gap(Revision(revision.0.saturating_sub(1)), revision) {
            return None;
        }
        Some(inner.changes.get(resource).and_then(|changes| changes.get(&revision)).cloned())
    }

    /// The changes of `resource` after `from` up to and with `through`; `None` if a change may be unknown.
    pub fn changes(
        &self,
        resource: &str,
        from: Revision,
        through: Revision,
    ) -> Option<Vec<(Revision, Noted)>> {
        let inner = self.0.lock();
        if inner.in_gap(from, through) {
            return None;
        }
        let after = Revision(from.0 + 1);
        let range = |changes: &BTreeMap<Revision, Noted>| {
            let range = if after <= through { Some(changes.range(after..=through)) } else { None };
            range.into_iter().flatten().map(|(revision, noted)| (*revision, noted.clone())).collect()
        };
        Some(inner.changes.get(resource).map(range).unwrap_or_default())
    }

    /// The newest revision any member applied.
    pub fn frontier(&self) -> Revision {
        self.0.lock().frontier
    }

    /// Number of recorded changes.
    pub fn len(&self) -> usize {
        self.0.lock().changes.values().map(BTreeMap::len).sum()
    }

    /// No change was recorded.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hash of all recorded changes and digests.
    pub fn hash(&self) -> Hash64 {
        let inner = self.0.lock();
        let mut hash = Hash64::default();
        for (revision, noted) in inner.changes.values().flatten() {
            hash.word(revision.0);
            hash.word(noted.hash);
        }
        for (revision, digest) in inner.digests.iter().chain(&inner.sums) {
            hash.word(revision.0);
            hash.word(*digest);
        }
        hash
    }

    /// Checks the outcomes that clients saw against the changes, once the run is over.
    ///
    /// # Errors
    /// The first outcome that contradicts the changes.
    pub fn check_calls(&self, calls: &[Call]) -> Result<(), Disagreement> {
        let inner = self.0.lock();
        calls.iter().try_for_each(|call| inner.check_call(call))?;
        inner.check_transactions()
    }
}

impl Inner {
    /// Sets the objects at `from` from a state, since no known changes lead there.
    fn take_over(&mut self, from: Revision, state: &State) {
        self.newest.clear();
        let mut base = Model::new();
        for (resource, collection) in state.collections() {
            // A state has every revision from its floor on.
            let Ok(then) = collection.at(from) else { continue };
            for (path, object) in then.range_from("") {
                let place = (resource.clone(), path.clone());
                base.insert(place.clone(), Version::of(object));
                self.newest.insert(place, object_hash(resource, path, object));
            }
        }
        self.sum = self.newest.values().fold(0, |sum, hash| sum.wrapping_add(*hash));
        self.sums.insert(from, self.sum);
        self.bases.insert(from, base);
    }

    /// Applies the changes after `from` up to and with `applied` to the newest objects.
    fn add_up(&mut self, from: Revision, applied: Revision) {
        if applied <= from {
            return;
        }
        let mut fresh: Vec<(Revision, Place, u64)> = Vec::new();
        for (resource, changes) in &self.changes {
            for (revision, noted) in changes.range(Revision(from.0 + 1)..=applied) {
                fresh.push((*revision, (resource.clone(), noted.path.clone()), noted.hash));
            }
        }
        fresh.sort();
        for (revision, place, hash) in fresh {
            let before = match hash {
                0 => self.newest.remove(&place),
                hash => self.newest.insert(place, hash),
            };
            self.sum = self.sum.wrapping_sub(before.unwrap_or_default()).wrapping_add(hash);
            self.sums.insert(revision, self.sum);
        }
    }

    /// The newest base from which all changes up to `revision` are known; `None` if there is none.
    fn base(&self, revision: Revision) -> Option<Revision> {
        let base = self.bases.range(..=revision).next_back().map_or(Revision(0), |(base, _)| *base);
        (!self.in_gap(base, revision)).then_some(base)
    }

    /// A change after `from` up to and with `through` may be unknown.
    fn in_gap(&self, from: Revision, through: Revision) -> bool {
        through > self.frontier || self.gaps.iter().any(|(after, to)| *after < through && from < *to)
    }

    fn model_at(&self, revision: Revision) -> Option<Model> {
        let base = self.base(revision)?;
        let mut model = self.bases.get(&base).cloned().unwrap_or_default();
        self.replay_into(&mut model, base, revision);
        Some(model)
    }

    /// Applies the changes after `from` up to and with `through` to `model`.
    fn replay_into(&self, model: &mut Model, from: Revision, through: Revision) {
        if through <= from {
            return;
        }
        for (resource, changes) in &self.changes {
            for (_, noted) in changes.range(Revision(from.0 + 1)..=through) {
                let key = (resource.clone(), noted.path.clone());
                match noted.new {
                    Some(new) => model.insert(key, new),
                    None => model.remove(&key),
                };
            }
        }
    }
}

#[cfg(test)]
mod tests;
