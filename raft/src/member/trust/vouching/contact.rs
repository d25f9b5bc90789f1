//! Decides whether a peer may act as a member, and keeps the contact with a leader.
//!
//! Owns the order in which the own log and other members are asked. The contact itself is the parent's.

use std::sync::Arc;

use openraft::async_runtime::watch::WatchReceiver;
use openraft_rt::Instant;

use super::{CONTACT_AGE, Voucher};
use crate::Runtime;
use crate::disk::Disk;
use crate::key::Revision;
use crate::member::consensus::{LogId, term_of};
use crate::member::core::Core;
use crate::member::trust::peer_reports::ReportedStanding;
use crate::member::trust::standing::Standing;
use crate::transport::{NodeId, Transport};

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// The source that vouches for `from`; `None` if `from` may not act as a member.
    pub(crate) async fn vouch(self: &Arc<Self>, from: NodeId) -> Option<Voucher> {
        let membership = self.membership();
        let membership = membership.membership();
        if self.standing(from) == Standing::Removed {
            return None;
        }
        let introduced = || self.joining.is_introduced(from);
        let (is_voter, knows_nobody) = match membership.nodes().next().is_some() {
            true => (membership.voter_ids().any(|id| id == from.0), false),
            false => (introduced(), self.knows_of_no_cluster()),
        };
        if knows_nobody || (is_voter && self.is_in_touch()) {
            return Some(Voucher::Own);
        }
        match self.reported_standing(from).await {
            ReportedStanding::Member => Some(Voucher::Another),
            ReportedStanding::Undecided if is_voter => Some(Voucher::Own),
            ReportedStanding::Removed | ReportedStanding::Undecided => {
                if self.warnings.may_warn("no member knows it") {
                    tracing::warn!(peer = %from, "refused: no member knows it, or it was removed");
                }
                None
            }
        }
    }

    /// Whether this member, which has no log, was neither told of any voter nor takes part in a founding: it has no data to
    /// lose.
    fn knows_of_no_cluster(&self) -> bool {
        self.joining.knows_of_no_cluster()
    }

    /// Notes a heartbeat of `from`, the leader of `term`, with its commit index. Ignored unless the committed entry is of
    /// `term` and `from` is a member that is believed (see peer_reports).
    pub(crate) fn note_contact(&self, from: NodeId, term: u64, committed: Option<LogId>) {
        let Some(committed) = committed.filter(|id| term_of(id) == term) else { return };
        if self.standing(from) == Standing::Member && self.is_believed(from) {
            let Revision(applied) = self.applied.revision();
            self.trust.vouchers.0.lock().note(committed.index, applied, R::Instant::now());
        }
    }

    /// Whether this member's log names the cluster's members as of a moment ago.
    pub(crate) fn is_in_touch(&self) -> bool {
        let contact = self.trust.vouchers.0.lock().at;
        self.is_followed() || contact.is_some_and(|contact| contact.elapsed() < CONTACT_AGE)
    }

    /// Whether this member leads, and a quorum acknowledged that within [`CONTACT_AGE`] or it is the only voter. A leader that
    /// is cut off still takes itself for the leader.
    pub(crate) fn is_followed(&self) -> bool {
        if self.leader().is_none_or(|leader| !leader.local) {
            return false;
        }
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let is_recent = |acked: R::Instant| acked.elapsed() < CONTACT_AGE;
        metrics.membership_config.membership().voter_ids().count() == 1
            || metrics.last_quorum_acked.is_some_and(|acked| is_recent(acked.into_inner()))
    }

    /// Whether the rate limit allows another warning about a refused snapshot.
    pub(crate) fn may_warn(&self) -> bool {
        self.warnings.may_warn("a snapshot")
    }
}
