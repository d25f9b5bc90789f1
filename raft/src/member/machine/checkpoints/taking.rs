//! Takes a checkpoint of the writer's state where one is due, and forgets those of a state that is replaced.
//!
//! Owns what is digested. The ring of checkpoints is the parent's.

use prost::Message;

use super::super::Writer;
use super::{CHECKPOINT_EVERY, Checkpoint};
use crate::member::codec::stored_membership_to_wire;

impl Writer {
    /// Keeps a checkpoint if the applied revision is a multiple of [`CHECKPOINT_EVERY`].
    pub(in crate::member) fn note_checkpoint(&mut self) {
        if self.state.applied().0.is_multiple_of(CHECKPOINT_EVERY) {
            let checkpoint = self.checkpoint();
            self.checkpoints.push(checkpoint);
        }
    }

    /// The checkpoint at the applied revision.
    fn checkpoint(&self) -> Checkpoint {
        let membership = stored_membership_to_wire(&self.lineage.membership()).encode_to_vec();
        let digest = self.state.fingerprint().with(&membership);
        let changes = Some(self.state.digest_of_changes());
        Checkpoint { revision: self.state.applied(), digest, changes }
    }

    /// The kept checkpoints and one at the applied revision, oldest first; empty before the first entry.
    pub(in crate::member) fn all_checkpoints(&self) -> Vec<Checkpoint> {
        let mut all: Vec<Checkpoint> = self.checkpoints.0.iter().copied().collect();
        let is_kept = all.last().is_some_and(|newest| newest.revision == self.state.applied());
        if self.lineage.last().is_some() && !is_kept {
            all.push(self.checkpoint());
        }
        all
    }
}
