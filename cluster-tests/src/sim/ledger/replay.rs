//! The objects at one revision after another.
//!
//! Owns a model that advances to each requested revision, so that a hundred lists of one run cost one pass over its
//! changes. It checks nothing.

use orch_raft::Revision;

use super::{Ledger, Model};

/// Models of a ledger's past. Cheapest for growing revisions.
#[derive(Debug)]
pub struct Replay {
    ledger: Ledger,
    now: Option<(Revision, Model)>,
}

impl Replay {
    pub(super) fn new(ledger: Ledger) -> Self {
        Replay { ledger, now: None }
    }

    /// All objects at `revision`; `None` if a change up to it may be unknown.
    pub fn at(&mut self, revision: Revision) -> Option<&Model> {
        let inner = self.ledger.0.lock();
        let now = match self.now.take() {
            Some((at, mut model)) if at <= revision && !inner.in_gap(at, revision) => {
                inner.replay_into(&mut model, at, revision);
                Some(model)
            }
            _ => inner.model_at(revision),
        };
        self.now = now.map(|model| (revision, model));
        self.now.as_ref().map(|(_, model)| model)
    }
}
