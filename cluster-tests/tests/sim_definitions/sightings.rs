//! The answers that clients got about definitions, and the process of the member that gave each.
//!
//! Owns the floors: the newest revision of a definition that a process has acknowledged. A process ends with its member's crash; the next
//! one starts with what its disk has, and has acknowledged nothing.

use std::sync::Arc;

use orch_cluster_tests::sim::runtime::TaskGroup;
use orch_raft::transport::NodeId;
use parking_lot::Mutex;

use super::documents::Custom;

/// A process of a member.
#[derive(Clone)]
pub(crate) struct Life {
    pub(crate) node: NodeId,
    pub(crate) group: TaskGroup,
}

/// An object that was created, or would have been (`dryRun`), by a schema.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Created {
    pub(crate) node: NodeId,
    pub(crate) kind: Custom,
    pub(crate) edition: u64,
    /// The change that the process had acknowledged before it was asked; 0: none.
    pub(crate) floor: u64,
}

/// A member that was asked no older than `revision`, at which the definition was in force, and knew nothing of the kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Absent {
    pub(crate) node: NodeId,
    pub(crate) kind: Custom,
    pub(crate) revision: u64,
}

#[derive(Default)]
struct Inner {
    floors: Vec<(Life, Custom, u64)>,
    /// Revisions at which definitions were in force.
    in_force: Vec<(Custom, u64)>,
    created: Vec<Created>,
    absent: Vec<Absent>,
    editions: u64,
    is_over: bool,
}

/// All sightings of a run. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Sightings(Arc<Mutex<Inner>>);

impl Sightings {
    /// The next edition: no two definitions have the same.
    pub(crate) fn next_edition(&self) -> u64 {
        let mut inner = self.0.lock();
        inner.editions += 1;
        inner.editions
    }

    /// The process has acknowledged what the definition was at `revision`.
    pub(crate) fn acknowledge(&self, life: &Life, kind: Custom, revision: u64) {
        self.0.lock().floors.push((life.clone(), kind, revision));
    }

    /// The last change of the definition that the process has acknowledged; 0: none.
    pub(crate) fn floor(&self, life: &Life, kind: Custom) -> u64 {
        let inner = self.0.lock();
        let of_the_process = |(known, of, _): &&(Life, Custom, u64)| {
            known.node == life.node && known.group == life.group && *of == kind
        };
        inner.floors.iter().filter(of_the_process).map(|(_, _, revision)| *revision).max().unwrap_or(0)
    }

    /// The definition was in force at `revision`.
    pub(crate) fn note_in_force(&self, kind: Custom, revision: u64) {
        self.0.lock().in_force.push((kind, revision));
    }

    /// The newest revision at which the definition was in force, as far as clients know.
    pub(crate) fn in_force(&self, kind: Custom) -> Option<u64> {
        let inner = self.0.lock();
        inner.in_force.iter().filter(|(of, _)| *of == kind).map(|(_, revision)| *revision).max()
    }

    pub(crate) fn note_created(&self, created: Created) {
        self.0.lock().created.push(created);
    }

    pub(crate) fn note_absent(&self, absent: Absent) {
        self.0.lock().absent.push(absent);
    }

    pub(crate) fn created(&self) -> Vec<Created> {
        self.0.lock().created.clone()
    }

    pub(crate) fn absent(&self) -> Vec<Absent> {
        self.0.lock().absent.clone()
    }

    /// Ends the informers.
    pub(crate) fn end(&self) {
        self.0.lock().is_over = true;
    }

    pub(crate) fn is_over(&self) -> bool {
        self.0.lock().is_over
    }
}
