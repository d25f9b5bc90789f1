//! Comparison of members and of clients' outcomes with the ledger.
//!
//! Owns the detection of each disagreement. A change that no member showed before is recorded on the way.

use std::collections::BTreeMap;
use std::sync::Arc;

use orch_raft::transport::NodeId;
use orch_raft::{Object, Revision, State};

use super::{Disagreement, Inner, MIRRORS, Model, Noted, THINGS, object_hash};
use crate::sim::history::{Ask, Call, Told, Version};

impl Inner {
    pub(super) fn compare_changes(
        &mut self,
        node: NodeId,
        state: &State,
        from: Revision,
    ) -> Result<(), Disagreement> {
        let mut resources: Vec<Arc<str>> = self.changes.keys().cloned().collect();
        resources.extend(state.collections().map(|(resource, _)| resource.clone()));
        resources.sort();
        resources.dedup();
        for resource in resources {
            let collection = state.collection(&resource);
            if self.keeps.contains(&resource) {
                collection
                    .changes_after(from)
                    .into_iter()
                    .flatten()
                    .for_each(|change| self.keep(&resource, change));
            }
            let changes = collection.changes_after(from).into_iter().flatten();
            let shown: BTreeMap<Revision, Noted> =
                changes.map(|change| (change.revision, Noted::of(&resource, change))).collect();
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
            // A restored state has no history yet.
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
            let written = written.filter(|tag| tag.names_a_write());
            let before = written.and_then(|tag| Some((tag, self.tags.insert(tag, revision)?)));
            if let Some((tag, first)) = before {
                return Err(Disagreement::AppliedTwice { tag, first, second: revision });
            }
            known.insert(revision, noted);
        }
        Ok(())
    }

    pub(super) fn compare_digest(&mut self, node: NodeId, state: &State) -> Result<(), Disagreement> {
        let (revision, found) = (state.applied(), digest(state));
        let known =
            if self.in_gap(revision, revision) { None } else { self.sums.range(..=revision).next_back() };
        let known = known.map(|(_, sum)| *sum);
        let first = *self.digests.entry(revision).or_insert(found);
        for expected in known.into_iter().chain([first]) {
            if found != expected {
                let difference = self.difference(state);
                return Err(Disagreement::Digest { node, revision, found, expected, difference });
            }
        }
        Ok(())
    }

    /// Describes the difference of a state from the sum of the known changes.
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

    pub(super) fn check_call(&self, call: &Call) -> Result<(), Disagreement> {
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

    /// A mirror is written together with its thing, or neither is.
    pub(super) fn check_transactions(&self) -> Result<(), Disagreement> {
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

/// Digest of a state's objects: the sum of their hashes, so that updating it costs in proportion to the changes.
fn digest(state: &State) -> u64 {
    let hashes = state.collections().flat_map(|(resource, collection)| {
        let hash = |(path, object): (&Arc<str>, &Arc<Object>)| object_hash(resource, path, object);
        collection.range_from("").map(hash).collect::<Vec<u64>>()
    });
    hashes.fold(0, u64::wrapping_add)
}

/// All objects of a state as a model.
fn model_of(state: &State) -> Model {
    let mut model = Model::new();
    for (resource, collection) in state.collections() {
        let objects = collection.range_from("");
        model.extend(objects.map(|(path, object)| ((resource.clone(), path.clone()), Version::of(object))));
    }
    model
}
