//! A member and its cluster as it sees them.
//!
//! Owns what operators and metrics are told. It is a view: nothing decides by it.

use openraft::ServerState;
use openraft::async_runtime::watch::WatchReceiver;

use crate::Runtime;
use crate::disk::Disk;
use crate::key::Revision;
use crate::member::agreement::AgreementStatus;
use crate::member::core::Core;
use crate::member::space::SpaceStatus;
use crate::state::Usage;
use crate::transport::{Peer, Transport};

/// What a member does in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Orders writes.
    Leader,
    /// Votes and follows.
    Follower,
    /// Stands for election.
    Candidate,
    /// Follows without a vote.
    Learner,
    /// Has ended.
    Stopped,
}

/// One member of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberStatus {
    /// Who and where.
    pub peer: Peer,
    /// It votes.
    pub voter: bool,
    /// The last index known to be on its disk. Only a leader knows.
    pub matched: Option<u64>,
    /// The highest feature level that its program supports. Known of this member, and to a leader since it last asked.
    pub feature_level_max: Option<u32>,
}

/// A member and its cluster as it sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// This member.
    pub node: Peer,
    /// What it does.
    pub role: Role,
    /// Who leads, if it knows.
    pub leader: Option<Peer>,
    /// The term it is in.
    pub term: u64,
    /// The last index of its log.
    pub last_log: u64,
    /// The last index it knows to be committed.
    pub committed: u64,
    /// The last index it has applied.
    pub applied: Revision,
    /// The feature level that the cluster has agreed on, as far as this member has applied it.
    pub feature_level: u32,
    /// The oldest revision that its history can rebuild.
    pub oldest: Revision,
    /// The cluster is between two sets of voters, and needs majorities of both.
    pub changing: bool,
    /// The newest change of the members is not known to be committed: `members` may not stay.
    pub uncommitted: bool,
    /// All members, by id.
    pub members: Vec<MemberStatus>,
    /// The size of the state here, and how large it may become.
    pub usage: Usage,
    /// Room on the members' disks.
    pub space: SpaceStatus,
    /// Whether the members hold the same state, as far as this one has compared.
    pub agreement: AgreementStatus,
}

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
        let members = membership.nodes().map(|(id, place)| MemberStatus {
            peer: place.peer(*id),
            voter: membership.voter_ids().any(|voter| voter == *id),
            matched: matched(id),
            feature_level_max: if *id == own { Some(level.supported()) } else { self.feature.heard(*id) },
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
        }
    }
}
