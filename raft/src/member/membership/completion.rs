//! Completes a change of the voters that an earlier leader has left half done.
//!
//! A change is two entries: a joint membership with the old and the new voters, and a membership with the new voters alone.
//! A leader that dies between them, or loses the lead, leaves the joint one. Under it every write needs a majority of each
//! set, so the cluster must not stay there.
//!
//! Owns the second step of such a change. The present leader makes it once the joint membership is applied and has been
//! the newest for some seconds, and once majorities of both sets answer (see feasible): the consensus library takes no
//! entry from a leader that they do not answer. Until then the operator may act: `undo` in change goes back to the old
//! voters, which needs the same majorities.
//!
//! Why that is safe: the consensus protocol prescribes this step after the first one, whoever leads.
//! Invariant: one task of a leader changes the membership at a time (`Core::changing`).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use openraft::ChangeMembers;
use openraft_rt::Select2;

use crate::Runtime;
use crate::disk::Disk;
use crate::member::consensus::LogId;
use crate::member::core::Core;
use crate::transport::Transport;

/// Pause between two looks at the membership.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// Looks in a row that find the same change half done before it is completed: an operator that asks the new leader for
/// the same change, or for `undo`, comes first.
const LOOKS_MAX: u32 = 5;

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Completes changes that were left half done, for as long as the member lives.
    pub(crate) async fn complete_changes(self: Arc<Self>) {
        let (mut found, mut looks) = (None, 0);
        loop {
            R::sleep(LOOK_PERIOD).await;
            let before = std::mem::replace(&mut found, self.half_done());
            looks = if found.is_some() && found == before { looks + 1 } else { 0 };
            if looks >= LOOKS_MAX {
                self.complete_change().boxed().await;
                looks = 0;
            }
        }
    }

    /// The log id of the joint membership that this leader finds newest and applied, if none of its tasks works on it.
    fn half_done(&self) -> Option<LogId> {
        let _leader = self.leader().filter(|leader| leader.local)?;
        let _idle = self.changes.changing.try_lock().ok()?;
        let (applied, newest) = (self.applied.membership(), self.membership());
        let is_half_done = applied.membership().get_joint_config().len() > 1;
        if is_half_done && applied.log_id() == newest.log_id() { *applied.log_id() } else { None }
    }

    async fn complete_change(&self) {
        let Ok(_alone) = self.changes.changing.try_lock() else { return };
        let Some(leader) = self.leader().filter(|leader| leader.local) else { return };
        let membership = self.membership();
        let sets = membership.membership().get_joint_config();
        if sets.len() < 2 {
            return;
        }
        if let Err(reason) = self.majorities_answer(sets).await {
            return tracing::warn!(%reason, "a change of the voters stays half done");
        }
        // Adding no voter leaves the second step to do. `retain: false`: a former voter leaves the membership, as in every
        // removal; a promotion has no former voters.
        let change = self.raft.change_membership(ChangeMembers::AddVoterIds(BTreeSet::new()), false);
        match R::select2(change.boxed(), self.deposed(&leader).boxed()).await {
            Select2::First(Ok(_)) => {
                tracing::info!("completed a change of the voters that was left half done");
            }
            Select2::First(Err(error)) => {
                tracing::warn!(%error, "a change of the voters stays half done");
            }
            Select2::Second(()) => {}
        }
    }
}
