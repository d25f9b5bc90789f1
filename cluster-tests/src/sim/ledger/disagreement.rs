//! What the ledger finds: members that differ, and answers that are not what happened.

use std::sync::Arc;

use orch_raft::Revision;
use orch_raft::transport::NodeId;

use super::{MIRRORS, Noted, THINGS};
use crate::sim::history::Tag;

/// What members may not do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Disagreement {
    /// One process applied less than before.
    #[error("node {node:?} went back from revision {from} to {to}")]
    WentBack {
        /// Who.
        node: NodeId,
        /// From.
        from: Revision,
        /// To.
        to: Revision,
    },
    /// Two members tell different things of one revision.
    #[error("node {node:?} shows {shown:?} for {resource} at revision {revision}, the ledger has {noted:?}")]
    Change {
        /// Who differs.
        node: NodeId,
        /// Of which resource.
        resource: Arc<str>,
        /// At which revision.
        revision: Revision,
        /// What this member has.
        shown: Option<Noted>,
        /// What a member showed before.
        noted: Option<Noted>,
    },
    /// Two members have different bytes.
    #[error("node {node:?} at revision {revision} has digest {found:x}, expected {expected:x}; {difference}")]
    Digest {
        /// Who differs.
        node: NodeId,
        /// At which revision.
        revision: Revision,
        /// What it has.
        found: u64,
        /// What others had, or what the changes amount to.
        expected: u64,
        /// Where it differs from what the changes amount to, printed.
        difference: String,
    },
    /// One write was applied twice.
    #[error("the write of {tag:?} was applied at {first} and again at {second}")]
    AppliedTwice {
        /// Which.
        tag: Tag,
        /// First.
        first: Revision,
        /// Again.
        second: Revision,
    },
    /// What a client was told is not what happened.
    #[error("a client was told otherwise than what happened ({happened}): {call}")]
    ToldOtherwise {
        /// The call, printed.
        call: String,
        /// What the ledger has.
        happened: String,
    },
    /// Half of a transaction.
    #[error("revision {revision} changed {MIRRORS} but not {THINGS} alike: all or nothing")]
    Torn {
        /// At which revision.
        revision: Revision,
    },
}
