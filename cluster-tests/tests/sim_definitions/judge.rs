//! The promises of definitions, recomputed from the ledger of all changes.
//!
//! - no object is created or written but under a definition that is there, and by the schema which that has at the revision of the
//!   write: writes that were judged by an earlier one are refused;
//! - no object is left when its definition goes, and none is created once its deletion has begun;
//! - no process creates an object by an edition that it had acknowledged to be over;
//! - no member that is asked no older than a definition in force says that there is no such kind, unless that has ended since.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use orch_api::definitions::DEFINITIONS;
use orch_cluster_tests::sim::ledger::{Ledger, ObjectChange};
use orch_cluster_tests::sim::search::Counted;
use orch_raft::object::SharedObject;
use orch_raft::{Revision, State};
use serde_json::Value;

use super::documents::{Custom, KINDS, LATE, edition_of, edition_of_definition};
use super::sightings::Sightings;

/// All kinds of a run.
pub(crate) fn kinds() -> impl Iterator<Item = Custom> {
    KINDS.into_iter().chain([LATE])
}

/// Counts of what was judged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Judged {
    /// Editions of definitions that came into being.
    pub(crate) editions: usize,
    /// Definitions that went.
    pub(crate) endings: usize,
    /// Writes of objects.
    pub(crate) written: usize,
    /// Answers that were compared with what their process had acknowledged.
    pub(crate) answers: usize,
}

impl Counted for Judged {
    fn add(&mut self, other: &Judged) {
        self.editions += other.editions;
        self.endings += other.endings;
        self.written += other.written;
        self.answers += other.answers;
    }
}

impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Judged { editions, endings, written, answers } = self;
        write!(f, "{editions} editions, {endings} endings, {written} writes of objects, {answers} answers")
    }
}

/// A definition at a revision.
#[derive(Clone, Copy, Debug)]
struct Definition {
    edition: u64,
    is_ending: bool,
}

/// The result of a run, kind by kind.
#[derive(Default)]
struct Course {
    definition: Option<Definition>,
    objects: BTreeSet<String>,
    /// Revision by edition.
    introduced: BTreeMap<u64, Revision>,
    /// Revisions at which a deletion of the definition began.
    endings: Vec<Revision>,
}

/// Judges a run; `None`: a change may be unknown.
///
/// # Errors
/// The first broken promise.
pub(crate) fn judge(ledger: &Ledger, seen: &Sightings) -> Result<Option<Judged>, String> {
    let Some((_, changes)) = ledger.kept_after(Revision(0)) else { return Ok(None) };
    let mut courses: BTreeMap<Custom, Course> = kinds().map(|kind| (kind, Course::default())).collect();
    let mut judged = Judged::default();
    for change in &changes {
        let found = courses.iter_mut().find(|(kind, _)| match &*change.resource {
            DEFINITIONS => kind.definition() == *change.path,
            storage => kind.storage() == storage,
        });
        let Some((kind, course)) = found else { continue };
        match &*change.resource {
            DEFINITIONS => course.take_definition(*kind, change, &mut judged)?,
            _ => course.take_object(*kind, change, &mut judged)?,
        }
    }
    for created in seen.created() {
        let introduced = courses[&created.kind].introduced.get(&created.edition);
        let Some(introduced) = introduced else {
            return Err(format!("{created:?} has an edition that no definition had"));
        };
        if introduced.0 < created.floor {
            return Err(format!(
                "n{} serves edition {} of {}, which it had acknowledged to be over at {}",
                created.node.0, created.edition, created.kind.0, created.floor
            ));
        }
        judged.answers += 1;
    }
    for absent in seen.absent() {
        let has_ended = courses[&absent.kind].endings.iter().any(|ending| ending.0 > absent.revision);
        if !has_ended {
            return Err(format!(
                "n{} knows no {} behind {}, when they were in force",
                absent.node.0, absent.kind.0, absent.revision
            ));
        }
    }
    Ok(Some(judged))
}

/// The document of a stored object.
pub(crate) fn document(object: &SharedObject) -> Value {
    serde_json::from_slice(&object.json).unwrap_or_default()
}

impl Course {
    fn take_definition(
        &mut self,
        kind: Custom,
        change: &ObjectChange,
        judged: &mut Judged,
    ) -> Result<(), String> {
        let (at, before) = (change.revision, self.definition);
        let Some(object) = &change.new else {
            judged.endings += 1;
            self.definition = None;
            return match self.objects.len() {
                0 => Ok(()),
                left => {
                    Err(format!("{left} objects of {} outlive their definition, which went at {at}", kind.0))
                }
            };
        };
        let Some(edition) = edition_of_definition(&document(object)) else {
            return Err(format!("the definition of {} has no edition at {at}", kind.0));
        };
        let is_ending = object.index.terminating;
        self.definition = Some(Definition { edition, is_ending });
        if before.is_none_or(|before| before.edition != edition) {
            judged.editions += 1;
            self.introduced.insert(edition, at);
        }
        if is_ending && before.is_some_and(|before| !before.is_ending) {
            self.endings.push(at);
        }
        Ok(())
    }

    fn take_object(
        &mut self,
        kind: Custom,
        change: &ObjectChange,
        judged: &mut Judged,
    ) -> Result<(), String> {
        let (path, at) = (change.path.to_string(), change.revision);
        let Some(object) = &change.new else {
            self.objects.remove(&path);
            return Ok(());
        };
        judged.written += 1;
        let told = format!("{} {path}, written at {at}", kind.0);
        let Some(definition) = self.definition else {
            return Err(format!("{told}, is of a kind that is gone"));
        };
        if self.objects.insert(path) && definition.is_ending {
            return Err(format!("{told}, is created though its definition ends"));
        }
        let edition = edition_of(&document(object));
        if edition != Some(definition.edition) {
            return Err(format!(
                "{told}, was judged by another form of its definition: {edition:?} instead of {}",
                definition.edition
            ));
        }
        Ok(())
    }
}

/// An object whose owner is gone, as `state` has it.
pub(crate) fn orphan(state: &State) -> Option<String> {
    let maps = state.collection("configmaps");
    let owners: BTreeSet<&str> = maps.range_from("").map(|(_, object)| object.index.uid.as_str()).collect();
    for kind in kinds() {
        let objects = state.collection(&kind.storage());
        let orphan = objects
            .range_from("")
            .find(|(_, object)| object.index.owners.iter().any(|owner| !owners.contains(owner.as_str())));
        if let Some((path, _)) = orphan {
            return Some(format!("{} {path} outlives its owner", kind.0));
        }
    }
    None
}
