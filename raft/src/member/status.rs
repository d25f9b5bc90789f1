//! The status of a member, and of its cluster as seen by that member.
//!
//! Owns the report for operators and metrics. No decision of the store depends on it.

use std::time::Duration;

use bytes::Bytes;
use openraft::ServerState;
use openraft::async_runtime::watch::WatchReceiver;
use openraft_rt::Instant;

use crate::Runtime;
use crate::disk::Disk;
use crate::key::Revision;
use crate::member::agreement::AgreementStatus;
use crate::member::contact::Seen;
use crate::member::core::Core;
use crate::member::log::SyncTimes;
use crate::member::space::SpaceStatus;
use crate::state::Usage;
use crate::transport::{Peer, Transport};

/// A member's role in consensus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Appends proposals to the log and replicates it.
    Leader,
    /// Follows a leader and has a vote.
    Follower,
    /// Stands for election.
    Candidate,
    /// Follows without a vote.
    Learner,
    /// The consensus task has ended.
    Stopped,
}

/// The status of one member of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Its id, name and address.
    pub peer: Peer,
    /// Whether the member is a voter; else it is a learner.
    pub voter: bool,
    /// The last index known to be on the member's disk. `None` unless this member leads and has an acknowledgement of it.
    pub matched: Option<u64>,
    /// The highest feature level that the member's program supports; `None` before its first answer, and for programs that
    /// do not say so.
    pub feature_level_max: Option<u32>,
    /// Whether the member answered the last question of this one (see [`crate::member::Handle::survey`]); `None` before the
    /// first.
    pub answers: Option<bool>,
    /// The time since any member that answers this one heard it; `None` if none has since it started.
    pub heard_ago: Option<Duration>,
    /// The last index that it had applied when it was heard. `None` when unknown.
    pub applied: Option<u64>,
    /// For how long this member has had more than that, to the two seconds of a round. `None` when unknown.
    pub behind: Option<Duration>,
    /// How long its appends of the last minute took until they were durable. `None` when unknown.
    pub syncs: Option<SyncTimes>,
    /// Milliseconds by which its wall clock is ahead of this member's. `None` when unknown.
    pub skew_ms: Option<i64>,
    /// Bytes that its store may still take. `None` when unknown, and on a disk without a bound.
    pub room: Option<u64>,
    /// The report of another member's program about itself ([`crate::member::Handle::report_by`]). `None` when unknown, and of this one.
    pub report: Option<Bytes>,
}

/// The status of a member, and of its cluster as seen by that member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// This member.
    pub node: Peer,
    /// This member's role.
    pub role: Role,
    /// The leader; `None` if this member knows none.
    pub leader: Option<Peer>,
    /// This member's current term.
    pub term: u64,
    /// The last index of this member's log; 0 if empty.
    pub last_log: u64,
    /// This member's commit index; 0 if it knows none.
    pub committed: u64,
    /// The last index applied here.
    pub applied: Revision,
    /// The feature level that the cluster has agreed on, as far as this member has applied it.
    pub feature_level: u32,
    /// The oldest revision that the history in memory can rebuild.
    pub oldest: Revision,
    /// Whether the membership is a joint one: decisions need majorities of two sets of voters.
    pub changing: bool,
    /// Whether the newest membership is not applied here yet: it may not be committed, and `members` may be reverted.
    pub uncommitted: bool,
    /// All members, by id.
    pub members: Vec<MemberStatus>,
    /// The size of the state here, and its quota.
    pub usage: Usage,
    /// Room on the members' disks.
    pub space: SpaceStatus,
    /// The result of comparing the members' states.
    pub agreement: AgreementStatus,
    /// Leads that this member has given up because of a slow disk, since it started.
    pub slow_disk_handovers: u64,
}

/// Span of the figures of appends.
const SPAN: Duration = Duration::from_secs(60);

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    pub(crate) fn status(&self) -> Status {
        let state = self.applied.state();
        let leader = self.leader().map(|leader| leader.peer);
        let receiver = self.raft.metrics();
        let metrics = receiver.borrow_watched();
        let membership = metrics.membership_config.membership();
        let is_applied = metrics.membership_config.log_id() == self.applied.membership().log_id();
        let matched = |id: &u64| {
            let replication = metrics.replication.as_ref()?;
            replication.get(id)?.as_ref().map(|matched| matched.index)
        };
        let (own, level) = (self.options.id().0, &self.feature.level);
        let (now, applied) = (R::Instant::now(), state.applied().0);
        let seen = |id: u64| match id == own {
            true => Seen {
                answers: Some(true),
                age: Some(Duration::ZERO),
                applied: Some(applied),
                supported: Some(level.supported()),
                syncs: Some(self.log.times(now, SPAN)),
                skew_ms: Some(0),
                room: self.space.status(self.options.id()).room,
                report: None,
            },
            false => self.contacts.of(id, now),
        };
        let members = membership.nodes().map(|(id, place)| {
            let Seen { answers, age, applied, supported, syncs, skew_ms, room, report } = seen(*id);
            MemberStatus {
                peer: place.peer(*id),
                voter: membership.voter_ids().any(|voter| voter == *id),
                matched: matched(id),
                feature_level_max: supported.or_else(|| self.feature.heard(*id)),
                answers,
                heard_ago: age,
                applied,
                behind: applied.map(|applied| self.contacts.behind(now, applied)),
                syncs,
                skew_ms,
                room,
                report,
            }
        });
        Status {
            node: self.options.node.clone(),
            role: match metrics.state {
                ServerState::Leader => Role::Leader,
                ServerState::Follower => Role::Follower,
                ServerState::Candidate => Role::Candidate,
                ServerState::Learner => Role::Learner,
                ServerState::Shutdown => Role::Stopped,
            },
            leader,
            term: metrics.current_term,
            last_log: metrics.last_log_index.unwrap_or(0),
            committed: metrics.local_committed.map_or(0, |id| id.index),
            applied: state.applied(),
            feature_level: level.agreed(),
            oldest: state.floor(),
            changing: membership.get_joint_config().len() > 1,
            uncommitted: !is_applied,
            members: members.collect(),
            usage: state.usage(),
            space: self.space.status(self.options.id()),
            agreement: self.agreement.status(),
            slow_disk_handovers: self.changes.slow_disk_handovers(),
        }
    }
}
