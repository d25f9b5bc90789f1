//! The findings of the ledger: members that differ, and outcomes that contradict the changes.

use std::sync::Arc;

use orch_raft::Revision;
use orch_raft::transport::NodeId;

use super::{MIRRORS, Noted, THINGS};
use crate::sim::history::Tag;

/// A difference between members, or between an outcome and the changes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Disagreement {
    /// A process's applied revision decreased.
    #[error("node {node:?} went back from revision {from} to {to}")]
    WentBack {
        /// The member.
        node: NodeId,
        /// The revision before.
        from: Revision,
        /// The revision now.
        to: Revision,
    },
    /// Two members show different changes at one revision.
    #[error("node {node:?} shows {shown:?} for {resource} at revision {revision}, the ledger has {noted:?}")]
    Change {
        /// The member that differs.
        node: NodeId,
        /// The resource.
        resource: Arc<str>,
        /// The revision.
        revision: Revision,
        /// The change of this member.
        shown: Option<Noted>,
        /// The change that another member showed before.
        noted: Option<Noted>,
    },
    /// Two members have different bytes.
    #[error("node {node:?} at revision {revision} has digest {found:x}, expected {expected:x}; {difference}")]
    Digest {
        /// The member that differs.
        node: NodeId,
        /// The revision.
        revision: Revision,
        /// Its digest.
        found: u64,
        /// The digest of other members, or of the sum of the changes.
        expected: u64,
        /// The difference from the sum of the changes, printed.
        difference: String,
    },
    /// One write was applied twice.
    #[error("the write of {tag:?} was applied at {first} and again at {second}")]
    AppliedTwice {
        /// Tag of the write.
        tag: Tag,
        /// Revision of the first application.
        first: Revision,
        /// Revision of the second application.
        second: Revision,
    },
    /// The outcome that a client saw contradicts the changes.
    #[error("a client was told otherwise than what happened ({happened}): {call}")]
    ToldOtherwise {
        /// The call, printed.
        call: String,
        /// The changes in the ledger.
        happened: String,
    },
    /// A cluster that was made anew, or the objects that it is to be made from, are not those of the point.
    #[error("objects of a cluster made anew differ at {at}; lost: [{lost}], invented: [{invented}]")]
    Remade {
        /// The point, or the beginning of the new cluster.
        at: Revision,
        /// Objects that should be there, printed.
        lost: String,
        /// Objects that should not, printed.
        invented: String,
    },
    /// A transaction was applied in part.
    #[error("revision {revision} changed {MIRRORS} but not {THINGS} alike: all or nothing")]
    Torn {
        /// The revision.
        revision: Revision,
    },
}
