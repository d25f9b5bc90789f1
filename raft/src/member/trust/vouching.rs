//! Whether a peer may act as a member: ask for votes, lead, send or pull a state.
//!
//! A certificate proves a name and nothing more. The log names the members, but the log of a member that was away may be
//! old: it lacks members that were added, and still has members that were removed. So:
//!
//! - a member that is in touch with a leader judges voters by its own log;
//! - a member that is not, and every member about a peer that is no voter in its log, asks the members that it knows and
//!   goes by their answers together (see hearsay);
//! - without a usable answer the own log decides: its voters are accepted, since a whole cluster may be starting, and no
//!   other peer is. A member without a log goes by the voters that enrolment told it of; a member that was told of none has
//!   no data to lose, and accepts any leader.
//!
//! In touch: this member has applied the entries that a leader called committed less than [`CONTACT_AGE`] ago. That leader
//! must have committed an entry of its own term, since before that it does not know the commit index; a majority must
//! follow it, which it shows by sending a commit index in heartbeats; and another member must vouch for it, where the own
//! log may be old.
//!
//! Owns the contact with a leader.

use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;
use openraft_rt::Instant;
use parking_lot::Mutex;

use crate::Runtime;
use crate::disk::Disk;
use crate::key::Revision;
use crate::member::consensus::{LogId, term_of};
use crate::member::core::Core;
use crate::member::trust::hearsay::ReportedStanding;
use crate::member::trust::standing::Standing;
use crate::transport::{NodeId, Transport};

/// How long a contact with a leader counts: many heartbeats. A removal committed within it may not be known here.
const CONTACT_AGE: Duration = Duration::from_secs(2);

/// The source of the knowledge that a peer is a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Voucher {
    /// This member's own log.
    Own,
    /// Other members, which were asked.
    Another,
}

/// When this member was last in contact with a leader.
pub(crate) struct Vouchers<I>(Mutex<Contact<I>>);

/// Commit indexes heard from a leader, and when.
struct Contact<I> {
    /// The newest time at which every entry then known as committed is applied here by now.
    at: Option<I>,
    /// A commit index that is not applied here yet, and when it was heard.
    told: Option<(u64, I)>,
}

impl<I> Default for Vouchers<I> {
    fn default() -> Self {
        Vouchers(Mutex::new(Contact { at: None, told: None }))
    }
}

impl<I: Copy> Contact<I> {
    /// Notes the leader's commit index and the applied index at `now`. Under load the newest committed entry is never applied
    /// yet: then the contact is as old as the commit index that the applied index has reached.
    fn note(&mut self, committed: u64, applied: u64, now: I) {
        let (index, at) = *self.told.get_or_insert((committed, now));
        if applied < index {
            return;
        }
        (self.at, self.told) = (Some(at), Some((committed, now)));
        if applied >= committed {
            (self.at, self.told) = (Some(now), None);
        }
    }
}

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
    /// `term` and `from` is a member that is believed (see hearsay).
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contact_is_as_old_as_what_is_applied() {
        let mut contact = Contact { at: None, told: None };
        let mut note = |committed, applied, now: u64| {
            contact.note(committed, applied, now);
            contact.at
        };
        assert_eq!(note(10, 5, 1), None, "it lacks something");
        assert_eq!(note(20, 9, 2), None);
        assert_eq!(note(30, 10, 3), Some(1), "what was committed at 1 is applied");
        assert_eq!(note(40, 29, 4), Some(1));
        assert_eq!(note(50, 35, 5), Some(3));
        assert_eq!(note(50, 50, 6), Some(6));
        // This member was cut off, and the others went on committing.
        assert_eq!(note(5000, 50, 7000), Some(6), "what it has says nothing of what was committed meanwhile");
        assert_eq!(note(5001, 5000, 7100), Some(7000));
    }
}
