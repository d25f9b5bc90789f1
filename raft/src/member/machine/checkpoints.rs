//! Digests of the state at revisions that all members choose alike.
//!
//! Owns a bounded ring of them. Members apply at different speeds: at any moment their newest revisions differ, but the
//! multiples of [`CHECKPOINT_EVERY`] that they have passed are the same, so that two of them find one to compare.
//!
//! Invariant: equal on members that applied the same entries, however each came to its state: entry by entry, from its
//! disk, or from a snapshot.

use std::collections::VecDeque;

use prost::Message;

use super::Writer;
use crate::key::Revision;
use crate::member::codec::stored_membership_to_wire;

/// Entries between two checkpoints: at ten thousand entries a second forty checkpoints, each of them a few hundred
/// nanoseconds.
pub(crate) const CHECKPOINT_EVERY: u64 = 256;

/// Checkpoints kept: 32,768 entries, further back than a member in step lags; one that lags more is compared once it has
/// caught up. All of them are sent in every answer (6 kB). Older ones are dropped.
pub(crate) const CHECKPOINTS_MAX: usize = 128;

/// The digest of the state at one revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub(crate) revision: Revision,
    /// Over all objects and the membership.
    pub(crate) digest: u128,
    /// Over the newest change of every resource; `None` from a program that does not tell.
    pub(crate) changes: Option<u128>,
}

#[derive(Debug, Default)]
pub(super) struct Checkpoints(VecDeque<Checkpoint>);

impl Checkpoints {
    fn push(&mut self, checkpoint: Checkpoint) {
        if self.0.len() >= CHECKPOINTS_MAX {
            self.0.pop_front();
        }
        self.0.push_back(checkpoint);
    }
}

impl Writer {
    /// Keeps the digest of this revision if it is one of those that all members keep.
    pub(super) fn note_checkpoint(&mut self) {
        if self.state.applied().0.is_multiple_of(CHECKPOINT_EVERY) {
            let checkpoint = self.checkpoint();
            self.checkpoints.push(checkpoint);
        }
    }

    /// The digest of now.
    fn checkpoint(&self) -> Checkpoint {
        let membership = stored_membership_to_wire(&self.lineage.membership()).encode_to_vec();
        let digest = self.state.fingerprint().with(&membership);
        let changes = Some(self.state.digest_of_changes());
        Checkpoint { revision: self.state.applied(), digest, changes }
    }

    /// The kept digests and that of now, oldest first; empty before the first entry.
    pub(super) fn all_checkpoints(&self) -> Vec<Checkpoint> {
        let mut all: Vec<Checkpoint> = self.checkpoints.0.iter().copied().collect();
        let is_kept = all.last().is_some_and(|newest| newest.revision == self.state.applied());
        if self.lineage.last().is_some() && !is_kept {
            all.push(self.checkpoint());
        }
        all
    }
}
