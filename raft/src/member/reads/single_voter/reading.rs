//! Reads of a leader that is the only voter.
//!
//! Owns the conditions under which it answers without a question. The result of a term's first round is the parent's.

use openraft::ServerState;
use openraft::async_runtime::watch::WatchReceiver;

use crate::Runtime;
use crate::disk::Disk;
use crate::key::Revision;
use crate::member::core::Core;
use crate::transport::Transport;

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// The revision of the published state, if only this member acknowledges writes: that state then has every write
    /// acknowledged before the call. `None` if a quorum must be asked.
    pub(crate) fn read_alone(&self) -> Option<Revision> {
        let (term, since) = self.term_led_alone()?;
        let first = self.barriers.first_read().index(term)?;
        let applied = self.applied.revision();
        (applied.0 >= first.max(since)).then_some(applied)
    }

    /// Whether this member leads as the only member.
    pub(crate) fn leads_alone(&self) -> bool {
        self.term_led_alone().is_some()
    }

    /// The term in which this member leads as the only member, and the log index of that membership.
    fn term_led_alone(&self) -> Option<(u64, u64)> {
        let metrics = self.raft.server_metrics();
        let now = metrics.borrow_watched();
        let own = self.options.id().0;
        if now.state != ServerState::Leader || now.current_leader != Some(own) {
            return None;
        }
        let membership = &now.membership_config;
        let mut voters = membership.membership().get_joint_config().iter().flatten();
        let is_only_voter = voters.next() == Some(&own) && voters.next().is_none();
        let is_alone = is_only_voter && membership.membership().nodes().all(|(id, _)| *id == own);
        let shown = membership.log_id().as_ref().map_or(0, |id| id.index);
        let is_newest = shown >= self.log.newest_membership();
        (is_alone && is_newest).then_some((now.vote.leader_id.term, shown))
    }
}
