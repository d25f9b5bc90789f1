//! Every change that any member ever applied, and the agreement of members about them.
//!
//! Owns the one truth the other oracles compare with. It looks at each member's state after each of its steps: what
//! the first member to get there changed is noted, and every other member must then show exactly that, no change
//! missing, none more, and the same bytes at the same revision.
//!
//! Invariant: a revision changes at most one object of a resource. Invariant: a write's tag is noted once.

mod disagreement;

use std::collections::BTreeMap;
use std::sync::Arc;

use orch_raft::transport::NodeId;
use orch_raft::{Object, Revision, State};
use parking_lot::Mutex;

pub use self::disagreement::Disagreement;
use super::history::{Ask, Call, Tag, Told, Version};
use super::trace::Hash64;

/// The resource that calls of the [`super::history::History`] are about.
pub const THINGS: &str = "things";

/// Written in one transaction with some writes to [`THINGS`]: same path, same tag, same revision.
pub const MIRRORS: &str = "mirrors";

/// One change as the ledger keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    /// Which object.
    pub path: Arc<str>,
    /// Before.
    pub old: Option<Version>,
    /// After.
    pub new: Option<Version>,
}

/// How far one process has been looked at.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cursor {
    applied: Revision,
}

/// The ledger of a run. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Mutex<Inner>>);

#[derive(Debug, Default)]
struct Inner {
    changes: BTreeMap<Arc<str>, BTreeMap<Revision, Noted>>,
    tags: BTreeMap<Tag, Revision>,
    /// Everything up to here is in `changes`, but for `gaps`.
    frontier: Revision,
    /// What no member that was looked at still knew: after the first, up to and with the second.
    gaps: Vec<(Revision, Revision)>,
    /// Bytes of the whole state, by the revision at which some member had them.
    digests: BTreeMap<Revision, u64>,
    /// All objects at the frontier.
    newest: Model,
    /// A hash of all objects after each change, where all changes up to there are known.
    sums: BTreeMap<Revision, u64>,
}

/// All objects at a revision: resource and path, and the version there.
pub type Model = BTreeMap<(Arc<str>, Arc<str>), Version>;

fn version(object: &Object) -> Version {
    Version::of(object).unwrap_or_else(|| {
        // An object of the store's own: its bytes name it.
        let (revision, tag) = (object.revision, Tag(Hash64::of(&object.json).0 | 1 << 63));
        Version { revision, tag, marked: false }
    })
}

/// The digest of a state's objects: where they are, their bytes and their revisions.
pub fn digest(state: &State) -> u64 {
    let mut hash = Hash64::default();
    for (resource, collection) in state.collections() {
        for (path, object) in collection.range_from("") {
            hash.add(resource.as_bytes());
            hash.add(path.as_bytes());
            hash.add(&object.json);
            hash.add(&object.revision.0.to_le_bytes());
            hash.add(&object.created.0.to_le_bytes());
        }
    }
    hash.0
}

fn sum(model: &Model) -> u64 {
    let mut hash = Hash64::default();
    for ((resource, path), version) in model {
        hash.add(resource.as_bytes());
        hash.add(path.as_bytes());
        hash.add(&version.revision.0.to_le_bytes());
        hash.add(&version.tag.0.to_le_bytes());
        hash.add(&[u8::from(version.marked)]);
    }
    hash.0
}

/// All objects of a state as a model.
fn model_of(state: &State) -> Model {
    let mut model = Model::new();
    for (resource, collection) in state.collections() {
        let objects = collection.range_from("");
        model.extend(objects.map(|(path, object)| ((resource.clone(), path.clone()), version(object))));
    }
    model
}

impl Ledger {
    /// Looks at what `node` applied since `cursor`.
    ///
    /// # Errors
    /// The first thing in which it differs from its own past or from another member.
    pub fn observe(&self, node: NodeId, state: &State, cursor: &mut Cursor) -> Result<(), Disagreement> {
        let applied = state.applied();
        if applied < cursor.applied {
            return Err(Disagreement::WentBack { node, from: cursor.applied, to: applied });
        }
        if applied == cursor.applied {
            return Ok(());
        }
        let mut inner = self.0.lock();
        // What lies before its floor a member no longer tells; others have told it, or nobody can.
        let (from, frontier) = (cursor.applied.max(state.floor()), inner.frontier);
        if from > frontier {
            inner.gaps.push((frontier, from));
        }
        inner.compare_changes(node, state, from)?;
        if from > frontier {
            inner.take_over(from, state);
        }
        inner.add_up(frontier.max(from), applied);
        inner.frontier = inner.frontier.max(applied);
        cursor.applied = applied;
        inner.compare_digest(node, state)
    }

    /// All objects as they were at `revision`; `None` when not all changes up to there are known.
    pub fn model_at(&self, revision: Revision) -> Option<Model> {
        self.0.lock().model_at(revision)
    }

    /// The changes of `resource` after `from` up to and with `through`; `None` when some may be unknown.
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

    /// Number of changes noted.
    pub fn len(&self) -> usize {
        self.0.lock().changes.values().map(BTreeMap::len).sum()
    }

    /// Whether nothing was noted.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A hash over everything noted and every digest.
    pub fn hash(&self) -> Hash64 {
        let inner = self.0.lock();
        let mut hash = Hash64::default();
        hash.add(format!("{:?} {:?} {:?}", inner.changes, inner.digests, inner.gaps).as_bytes());
        hash
    }

    /// Compares what clients were told with what happened, once nothing moves any more.
    ///
    /// # Errors
    /// The first answer that is not what happened.
    pub fn check_calls(&self, calls: &[Call]) -> Result<(), Disagreement> {
        let inner = self.0.lock();
        calls.iter().try_for_each(|call| inner.check_call(call))?;
        inner.check_transactions()
    }
}

impl Inner {
    fn compare_changes(&mut self, node: NodeId, state: &State, from: Revision) -> Result<(), Disagreement> {
        let mut resources: Vec<Arc<str>> = self.changes.keys().cloned().collect();
        resources.extend(state.collections().map(|(resource, _)| resource.clone()));
        resources.sort();
        resources.dedup();
        for resource in resources {
            let collection = state.collection(&resource);
            let changes = collection.changes_after(from).into_iter().flatten();
            let shown: BTreeMap<Revision, Noted> = changes
                .map(|change| {
                    let (old, new) = (change.old.as_deref().map(version), change.new.as_deref().map(version));
                    (change.revision, Noted { path: change.path.clone(), old, new })
                })
                .collect();
            self.compare_resource(node, &resource, from, state.applied(), shown)?;
        }
        Ok(())
    }

    fn compare_resource(
        &mut self,
        node: NodeId,
        resource: &Arc<str>,
        from: Revision,
        applied: Revision,
        shown: BTreeMap<Revision, Noted>,
    ) -> Result<(), Disagreement> {
        let differs = |revision: Revision, shown: Option<Noted>, noted: Option<Noted>| {
            Err(Disagreement::Change { node, resource: resource.clone(), revision, shown, noted })
        };
        let known = self.changes.entry(resource.clone()).or_default();
        if from >= applied {
            // A state just restored has no history yet.
            return Ok(());
        }
        for (revision, noted) in known.range(Revision(from.0 + 1)..=applied) {
            if shown.get(revision) != Some(noted) {
                return differs(*revision, shown.get(revision).cloned(), Some(noted.clone()));
            }
        }
        for (revision, noted) in shown {
            if known.contains_key(&revision) {
                continue;
            }
            let gap = self.gaps.iter().any(|(after, to)| *after < revision && revision <= *to);
            if revision <= self.frontier && !gap {
                return differs(revision, Some(noted), None);
            }
            let written = noted.new.filter(|_| &**resource == THINGS).map(|new| new.tag);
            let before = written.and_then(|tag| Some((tag, self.tags.insert(tag, revision)?)));
            if let Some((tag, first)) = before {
                return Err(Disagreement::AppliedTwice { tag, first, second: revision });
            }
            known.insert(revision, noted);
        }
        Ok(())
    }

    fn compare_digest(&mut self, node: NodeId, state: &State) -> Result<(), Disagreement> {
        let (revision, found) = (state.applied(), digest(state));
        let expected = *self.digests.entry(revision).or_insert(found);
        if found != expected {
            let difference = self.difference(state);
            return Err(Disagreement::Digest { node, revision, found, expected, difference });
        }
        if self.in_gap(revision, revision) {
            return Ok(());
        }
        let (found, newest) = (sum(&model_of(state)), self.sums.range(..=revision).next_back());
        match newest {
            Some((_, expected)) if *expected != found => {
                let (expected, difference) = (*expected, self.difference(state));
                Err(Disagreement::Digest { node, revision, found, expected, difference })
            }
            _ => Ok(()),
        }
    }

    /// Where a state differs from what the known changes amount to.
    fn difference(&self, state: &State) -> String {
        let Some(expected) = self.model_at(state.applied()) else { return "changes unknown".to_owned() };
        let found = model_of(state);
        let mut keys: Vec<_> = expected.keys().chain(found.keys()).collect();
        keys.sort();
        keys.dedup();
        let differ = keys.into_iter().filter(|key| expected.get(*key) != found.get(*key));
        let lines =
            differ.map(|key| format!("{key:?}: {:?}, expected {:?}", found.get(key), expected.get(key)));
        let lines: Vec<String> = lines.collect();
        if lines.is_empty() { "the same versions, other bytes".to_owned() } else { lines.join("; ") }
    }

    /// Takes the objects at `from` from a state, since no known changes lead there.
    fn take_over(&mut self, from: Revision, state: &State) {
        self.newest.clear();
        for (resource, collection) in state.collections() {
            // Every revision above its floor is a state's to tell.
            let Ok(then) = collection.at(from) else { continue };
            let objects = then.range_from("");
            self.newest
                .extend(objects.map(|(path, object)| ((resource.clone(), path.clone()), version(object))));
        }
        self.sums.insert(from, sum(&self.newest));
    }

    /// Adds the changes after `from` up to and with `applied` to the newest model.
    fn add_up(&mut self, from: Revision, applied: Revision) {
        if applied <= from {
            return;
        }
        let mut fresh: BTreeMap<Revision, Vec<(Arc<str>, &Noted)>> = BTreeMap::new();
        for (resource, changes) in &self.changes {
            for (revision, noted) in changes.range(Revision(from.0 + 1)..=applied) {
                fresh.entry(*revision).or_default().push((resource.clone(), noted));
            }
        }
        for (revision, changes) in fresh {
            for (resource, noted) in changes {
                let key = (resource, noted.path.clone());
                match noted.new {
                    Some(new) => self.newest.insert(key, new),
                    None => self.newest.remove(&key),
                };
            }
            self.sums.insert(revision, sum(&self.newest));
        }
    }

    /// Whether some change after `from` up to and with `through` may be unknown.
    fn in_gap(&self, from: Revision, through: Revision) -> bool {
        through > self.frontier || self.gaps.iter().any(|(after, to)| *after < through && from < *to)
    }

    fn model_at(&self, revision: Revision) -> Option<Model> {
        if self.in_gap(Revision(0), revision) {
            return None;
        }
        let mut model = Model::new();
        for (resource, changes) in &self.changes {
            for (_, noted) in changes.range(..=revision) {
                let key = (resource.clone(), noted.path.clone());
                match noted.new {
                    Some(new) => model.insert(key, new),
                    None => model.remove(&key),
                };
            }
        }
        Some(model)
    }

    fn check_call(&self, call: &Call) -> Result<(), Disagreement> {
        let Ask::Write { tag: Some(tag), .. } = call.ask else { return Ok(()) };
        let happened = self.tags.get(&tag).copied();
        let right = match call.told {
            Told::Applied { revision, .. } => {
                let forgotten = |(after, to): &(Revision, Revision)| *after < revision && revision <= *to;
                happened == Some(revision) || (happened.is_none() && self.gaps.iter().any(forgotten))
            }
            Told::Refused { .. } | Told::NotDone => happened.is_none(),
            Told::Found { .. } | Told::Unknown => true,
        };
        if right {
            return Ok(());
        }
        let happened = happened.map_or("never applied".to_owned(), |at| format!("applied at {at}"));
        Err(Disagreement::ToldOtherwise { call: format!("{call:?}"), happened })
    }

    /// A mirror is written together with its thing, or not at all.
    fn check_transactions(&self) -> Result<(), Disagreement> {
        let (Some(mirrors), Some(things)) = (self.changes.get(MIRRORS), self.changes.get(THINGS)) else {
            return Ok(());
        };
        let tag = |noted: &Noted| (noted.path.clone(), noted.new.map(|new| new.tag));
        match mirrors.iter().find(|(revision, mirror)| things.get(revision).map(tag) != Some(tag(mirror))) {
            Some((revision, _)) => Err(Disagreement::Torn { revision: *revision }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
