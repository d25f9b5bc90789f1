//! Checkpoints: digests of the state at revisions that all members choose alike.
//!
//! Owns a bounded ring of checkpoints. Members apply at different speeds, so their newest revisions differ at any moment.
//! But all keep a checkpoint at each multiple of [`CHECKPOINT_EVERY`], so that two members find a revision to compare.
//!
//! Invariant: checkpoints are equal on members that applied the same entries, however each came to its state: entry by
//! entry, from its disk, or from a snapshot.

mod taking;

use std::collections::VecDeque;

use crate::key::Revision;

/// Entries between two checkpoints: at ten thousand entries a second forty checkpoints, each of them a few hundred
/// nanoseconds.
pub(crate) const CHECKPOINT_EVERY: u64 = 256;

/// Checkpoints kept: over 32,768 entries, more than a working follower lags. A member that lags more is compared once it
/// has caught up. Every answer carries all of them (6 kB). Older checkpoints are dropped.
pub(crate) const CHECKPOINTS_MAX: usize = 128;

/// The digest of the state at one revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    pub(crate) revision: Revision,
    /// Digest of all objects and the membership.
    pub(crate) digest: u128,
    /// Digest of the newest change of every resource; `None` from a peer whose program does not send it.
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
