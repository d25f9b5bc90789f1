//! Measures this member's disk while it runs, gives space back, and refuses growth.
//!
//! Owns the loop and the refusal. What was measured and heard is the parent's.

use std::sync::Arc;

use super::Pressure;
use crate::Runtime;
use crate::disk::{Disk, Space};
use crate::member::core::Core;
use crate::store::ProposeError;
use crate::transaction::Transaction;
use crate::transport::Transport;

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Measures this member's disk until the member ends, and reclaims space while there is little room.
    pub(crate) async fn keep_space(self: Arc<Self>) {
        loop {
            match self.disk.space() {
                Ok(None) => return,
                Ok(Some(space)) => self.follow_space(space),
                Err(error) => tracing::warn!(%error, "the room on the disk is not known"),
            }
            R::sleep(self.space.pause()).await;
        }
    }

    fn follow_space(&self, space: Space) {
        let (before, now) = self.space.measure(space);
        let Space { used, free } = space;
        let reserve = self.options.space.reserve_bytes;
        match now {
            _ if now == before => {}
            Pressure::None => tracing::info!(used, free, reserve, "the disk has room again"),
            Pressure::Tight => {
                tracing::warn!(used, free, reserve, "the disk has little room: history is given up")
            }
            Pressure::Short => tracing::error!(
                used,
                free,
                reserve,
                "the disk has no room beside its reserve: what would make the state larger is refused"
            ),
        }
        self.applied.spare(now > Pressure::None);
        if now > Pressure::None {
            self.disk.reclaim();
        }
    }

    /// The refusal of a client's transaction for lack of space; `None` if it may be proposed.
    pub(crate) fn lacks_space_for(&self, transaction: &Transaction) -> Option<ProposeError> {
        if !self.space.is_short() {
            return None;
        }
        let nearly_full = self.space.is_anyone_very_short();
        if self.applied.state().is_allowed_when_short_of_space(&transaction.operations, nearly_full) {
            return None;
        }
        let short = self.space.status(self.options.id()).short;
        let names: Vec<String> = short.iter().map(|id| self.peer_name(id.0)).collect();
        Some(ProposeError::NoSpace { members: names.join(", ") })
    }
}
