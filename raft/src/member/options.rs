//! What a member is started with.
//!
//! Owns every number of the member that an operator or a test may choose. Time, randomness and identity come in here;
//! the member itself consults no clock and draws no number.

use std::sync::Arc;

use crate::encoding::FEATURE_LEVEL_MAX;
use crate::transport::{NodeId, Peer};

/// Reads the wall clock: milliseconds since 1970. Only dates this member's own proposals; the age of history is counted by
/// the runtime's monotonic clock.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Everything a member needs beside its disk and its transport.
#[derive(Clone)]
pub struct Options {
    /// This member. Its id and name must be those its disk was first used with.
    pub node: Peer,
    /// The voters of a cluster to be founded, this member among them; the same set on each. They found nothing by
    /// themselves (see `Handle::found`) and are ignored once the disk holds a log. Empty for a member that is added to a
    /// running cluster.
    pub initial_cluster: Vec<Peer>,
    /// Members of the cluster that this one is to join. With an empty disk it asks them first whether they know it
    /// with another one. May be empty.
    pub join: Vec<Peer>,
    /// What a new cluster is given. Only the first leader's is used; the cluster's own is then read from its state.
    pub seed: ClusterSeed,
    /// The cluster this member must belong to, if the caller knows it: a disk of another one is refused.
    pub expected_cluster: Option<Arc<str>>,
    /// A random number, new for each start of the process: no proposal of an earlier start is mistaken for one of this.
    pub incarnation: u64,
    /// The wall clock.
    pub clock: Clock,
    /// Heartbeat interval and election timeout.
    pub timing: Timing,
    /// How much history is kept for watches and older revisions.
    pub history: HistoryOptions,
    /// How the log is compacted.
    pub log: LogOptions,
    /// Bytes of all objects that the cluster may hold; 0 for no limit. The leader writes it to the state, where it counts
    /// for everyone. `None` leaves what the cluster has.
    pub state_bytes_max: Option<u64>,
    /// How much of the disk is left alone.
    pub space: SpaceOptions,
    /// The highest feature level that this program is to support: less than [`FEATURE_LEVEL_MAX`] only in tests of
    /// clusters of several versions.
    pub feature_level_max: u32,
    /// A member that knows of no other listens for a second before it elects itself: it may be an older copy of one that
    /// has since been joined by others. `false` where nobody can have joined it.
    pub listens_alone: bool,
}

/// The identity of a cluster to be.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterSeed {
    /// A random name, for example a UUID.
    pub cluster: Arc<str>,
    /// The brand's name, as in `orch_proto::Brand::name`.
    pub brand: Arc<str>,
    /// Random bytes that authenticate continue tokens on every member.
    pub token_key: [u8; 32],
}

/// Periods in milliseconds. An election waits for a random time between the two bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Between two heartbeats of a leader.
    pub heartbeat_ms: u64,
    /// At least this long without a leader before an election.
    pub election_ms_min: u64,
    /// At most this long.
    pub election_ms_max: u64,
}

/// Bounds of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryOptions {
    /// Milliseconds that a change is kept.
    pub age_ms: u64,
    /// Bytes that the changes in memory keep alive. Older ones go to the disk.
    pub bytes_max: usize,
    /// Log entries whose changes are kept in memory, which are also what a restart replays.
    pub entries_max: u64,
    /// Bytes of changes on the disk. Beyond that the resource with the most loses its oldest.
    pub disk_bytes_max: u64,
}

/// When the log is compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Entries between two compactions.
    pub snapshot_every: u64,
    /// Entries kept behind a compaction: a member that lags by fewer catches up from the log. More than
    /// `HistoryOptions::entries_max`, so that compaction seldom has to wait for the state on disk.
    pub keep: u64,
    /// Bytes of entries kept, whatever their number.
    pub bytes_max: u64,
}

/// How much of its disk a member leaves alone. The default is none of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceOptions {
    /// Bytes that log, compaction and deletions are to find free: what would make the state larger is refused while
    /// less is left. 0 for none.
    pub reserve_bytes: u64,
    /// Bytes that the store may take, if that is to be less than the disk has.
    pub quota_bytes: Option<u64>,
}

impl Default for Timing {
    /// For real machines. A leader whose process is gone is replaced without waiting for its lease, whatever stands here
    /// (`succession`). One that falls silent is replaced after its lease, which is the longest election timeout, and a random
    /// one: 400 to 500 ms. A stall that is shorter than the lease, on either side, is never taken for a death; a longer one
    /// is only where it befalls a majority (decision 0015).
    fn default() -> Self {
        Timing { heartbeat_ms: 50, election_ms_min: 150, election_ms_max: 250 }
    }
}

impl Default for HistoryOptions {
    /// Five minutes as the reference keeps; 40 MiB so that a burst cannot fill the memory; 50,000 entries are replayed in
    /// well under a second; 2 GiB hold five minutes of 10,000 renewed leases a second.
    fn default() -> Self {
        HistoryOptions {
            age_ms: 5 * 60 * 1000,
            bytes_max: 40 << 20,
            entries_max: 50_000,
            disk_bytes_max: 2 << 30,
        }
    }
}

impl Default for LogOptions {
    /// 60,000 entries are what a member lacks after some seconds at the highest rate; 256 MiB bound what large objects
    /// make of them.
    fn default() -> Self {
        LogOptions { snapshot_every: 50_000, keep: 60_000, bytes_max: 256 << 20 }
    }
}

impl Options {
    /// Options with the default numbers.
    pub fn new(
        node: Peer,
        initial_cluster: Vec<Peer>,
        seed: ClusterSeed,
        incarnation: u64,
        clock: Clock,
    ) -> Self {
        Options {
            node,
            initial_cluster,
            join: Vec::new(),
            seed,
            expected_cluster: None,
            incarnation,
            clock,
            timing: Timing::default(),
            history: HistoryOptions::default(),
            log: LogOptions::default(),
            state_bytes_max: None,
            space: SpaceOptions::default(),
            feature_level_max: FEATURE_LEVEL_MAX,
            listens_alone: true,
        }
    }

    pub(crate) fn id(&self) -> NodeId {
        self.node.id
    }
}

/// Why a member cannot start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The options contradict themselves.
    #[error("bad options: {reason}")]
    Options {
        /// What is wrong.
        reason: String,
    },
    /// The disk belongs to another member.
    #[error("the data belongs to member {found} and not to {expected}")]
    WrongNode {
        /// Whose it is.
        found: String,
        /// Who was started.
        expected: String,
    },
    /// The disk belongs to another cluster.
    #[error("the data belongs to cluster {found} and not to {expected}")]
    WrongCluster {
        /// Whose it is.
        found: String,
        /// What was expected.
        expected: String,
    },
    /// The disk is empty, but the cluster knows this member with another disk: its vote and log are lost, and it must
    /// not take part as if they were not.
    #[error("member {name} has lost its data: remove it from the cluster and add one with a new name")]
    LostData {
        /// The member.
        name: String,
    },
    /// The cluster uses forms that this program does not know. Nothing was changed.
    #[error(
        "this program is too old: the cluster agreed on feature level {agreed}, it supports up to {supported}; upgrade it"
    )]
    OldProgram {
        /// The cluster's level.
        agreed: u32,
        /// The program's.
        supported: u32,
    },
    /// The disk is an older copy of itself: a snapshot or a backup was put back.
    #[error(
        "member {name} has an older copy of its data ({reason}): what it promised since is lost; remove it from the \
         cluster and add one with a new name"
    )]
    RolledBack {
        /// The member.
        name: String,
        /// What shows it.
        reason: String,
    },
    /// The cluster has removed this member. Its name is never used again.
    #[error(
        "member {name} was removed from the cluster: its data is of no more use, and a new member has a new name"
    )]
    Removed {
        /// The member.
        name: String,
    },
    /// The disk failed, or holds what cannot be read.
    #[error("cannot start from the data: {reason}")]
    Disk {
        /// What the layer below said.
        reason: String,
    },
}
