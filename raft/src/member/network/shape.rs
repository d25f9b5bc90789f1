//! Checks of an append's own consistency, which the consensus library takes for granted.
//!
//! Owns the refusal of appends that no leader sends: gaps, decreasing terms, memberships without voters. It never reads this
//! member's log: the comparison of an append with that is made where the append arrives (see service/history.rs).

use std::collections::BTreeSet;

use openraft::EntryPayload;
use openraft::raft::AppendEntriesRequest;

use crate::Runtime;
use crate::member::consensus::{Types, term_of};

/// An index that no log reaches: 36,000 years at a million entries a second. The consensus library adds to indexes, which
/// must not overflow.
pub(crate) const INDEX_MAX: u64 = 1 << 60;

/// Fails for an append that no leader sends.
pub(super) fn check_shape<R: Runtime>(request: &AppendEntriesRequest<Types<R>>) -> Result<(), &'static str> {
    if !request.vote.committed {
        return Err("its vote is not a leader's");
    }
    let mut next = request.prev_log_id.map_or(0, |id| id.index.saturating_add(1));
    let mut term = request.prev_log_id.as_ref().map_or(0, term_of);
    for entry in &request.entries {
        if entry.log_id.index != next {
            return Err("its entries do not follow each other");
        }
        if term_of(&entry.log_id) < term {
            return Err("its terms decrease");
        }
        (next, term) = (next.saturating_add(1), term_of(&entry.log_id));
        if let EntryPayload::Membership(membership) = &entry.payload {
            let sets = membership.get_joint_config();
            if sets.is_empty() || sets.iter().any(BTreeSet::is_empty) {
                return Err("a membership has no voters");
            }
        }
    }
    let committed = request.leader_commit.map_or(0, |id| id.index);
    match () {
        () if term > request.vote.leader_id.term => Err("its entries are of a later term"),
        () if next.max(committed) > INDEX_MAX => Err("its entries are too far ahead"),
        () => Ok(()),
    }
}
