//! Changes with the objects before and after them, and when a member first applied each.
//!
//! Owns them for the resources that a run asks for: judges that read objects recompute their promises from here. Other
//! runs keep versions and hashes only.

use std::sync::Arc;
use std::time::Duration;

use orch_raft::object::SharedObject;
use orch_raft::{Change, Revision};

use super::{Inner, Ledger};
use crate::sim::runtime::NodeRuntime;

/// A change of an object.
#[derive(Clone, Debug)]
pub struct ObjectChange {
    /// Virtual time at which a member first showed it.
    pub at: Duration,
    /// Revision of the change.
    pub revision: Revision,
    /// Storage name of the resource, for example `pods`.
    pub resource: Arc<str>,
    /// Path of the object.
    pub path: Arc<str>,
    /// The object before; `None` for a creation.
    pub old: Option<SharedObject>,
    /// The object after; `None` for a removal.
    pub new: Option<SharedObject>,
}

impl Ledger {
    /// Keeps the objects of every later change of `resources`.
    pub fn keep(&self, resources: &[&str]) {
        self.0.lock().keeps.extend(resources.iter().map(|resource| Arc::from(*resource)));
    }

    /// The kept changes after `from` up to the frontier, in their order; `None` if a change may be unknown.
    pub fn kept_after(&self, from: Revision) -> Option<(Revision, Vec<ObjectChange>)> {
        let inner = self.0.lock();
        let frontier = inner.frontier;
        if inner.in_gap(from, frontier) {
            return None;
        }
        let kept = inner.kept.range(Revision(from.0 + 1)..).flat_map(|(_, kept)| kept.iter().cloned());
        Some((frontier, kept.collect()))
    }
}

impl Inner {
    /// Keeps a change that no member showed before.
    pub(super) fn keep(&mut self, resource: &Arc<str>, change: &Change) {
        let kept = self.kept.entry(change.revision).or_default();
        if kept.iter().any(|known| known.resource == *resource) {
            return;
        }
        kept.push(ObjectChange {
            at: NodeRuntime::elapsed(),
            revision: change.revision,
            resource: resource.clone(),
            path: change.path.clone(),
            old: change.old.clone(),
            new: change.new.clone(),
        });
    }
}
