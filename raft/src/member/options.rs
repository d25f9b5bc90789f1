//! The options of a member.
//!
//! Owns every number of the member that an operator or a test may choose. Time, randomness and identity come in here:
//! the member itself consults no wall clock and draws no random number.

use std::sync::Arc;

use crate::encoding::FEATURE_LEVEL_MAX;
use crate::transport::{NodeId, Peer};

/// Reads the wall clock: milliseconds since 1970. Only dates this member's own proposals; the age of history is counted by
/// the runtime's monotonic clock.
pub type Clock = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The options of a member, which needs a disk and a transport besides.
#[derive(Clone)]
pub struct Options {
    /// This member. Its id and name must be those its disk was first used with.
    pub node: Peer,
    /// The voters of a cluster to be founded, this member among them; the same set on each. They do not found it by themselves
    /// (see `Handle::found`) and are ignored once the disk holds a log. Empty for a member that is added to a running cluster.
    pub initial_cluster: Vec<Peer>,
    /// Members of the cluster that this one is to join. A member with an empty disk first asks them whether the cluster
    /// knows it with another disk. May be empty.
    pub join: Vec<Peer>,
    /// The identity for a new cluster. Only the first leader's is used; after that the identity is read from the state.
    pub seed: ClusterSeed,
    /// The name of the cluster this member must belong to: the disk of another cluster is refused. `None` accepts any.
    pub expected_cluster: Option<Arc<str>>,
    /// A random number, new for each start of the process: tells proposals of this start from those of earlier ones.
    pub incarnation: u64,
    /// The wall clock.
    pub clock: Clock,
    /// Heartbeat interval and election timeout.
    pub timing: Timing,
    /// How much history is kept for watches and older revisions.
    pub history: HistoryOptions,
    /// How the log is compacted.
    pub log: LogOptions,
    /// Bytes of all objects that the cluster may hold; 0 for no limit. The leader writes the limit to the state, where it
    /// counts for all members. `None` leaves the limit in the state as it is.
    pub state_bytes_max: Option<u64>,
    /// The disk's reserve and the store's quota.
    pub space: SpaceOptions,
    /// The highest feature level that this member supports: below [`FEATURE_LEVEL_MAX`] only in tests of clusters of
    /// several versions.
    pub feature_level_max: u32,
    /// Makes a member that knows no other member listen for a second before it founds a cluster or elects itself: its disk
    /// may be an older copy, from before others joined, or have lost all. `false` where no other member can have joined.
    pub listens_alone: bool,
}

/// The identity of a cluster that is to be founded.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterSeed {
    /// A random name, for example a UUID.
    pub cluster: Arc<str>,
    /// The brand's name, as in `orch_proto::Brand::name`.
    pub brand: Arc<str>,
    /// Random bytes that authenticate continue tokens on every member.
    pub token_key: [u8; 32],
}

/// Heartbeat interval and election timeout, in milliseconds. The timeout is random between its two bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Interval between two heartbeats of a leader.
    pub heartbeat_ms: u64,
    /// Lower bound of the election timeout.
    pub election_ms_min: u64,
    /// Upper bound of the election timeout.
    pub election_ms_max: u64,
}

/// Bounds of the history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryOptions {
    /// Milliseconds for which a change is kept.
    pub age_ms: u64,
    /// Bytes that the changes in memory keep alive. Beyond that the oldest go to the disk.
    pub bytes_max: usize,
    /// Log entries whose changes are kept in memory; a restart replays the same number.
    pub entries_max: u64,
    /// Bytes of changes on the disk. Beyond that the resource with the most bytes loses its oldest changes.
    pub disk_bytes_max: u64,
}

/// When the log is compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Entries between two compactions.
    pub snapshot_every: u64,
    /// Entries kept by a compaction: a follower that lags by fewer catches up from the log and needs no snapshot. More
    /// than `HistoryOptions::entries_max`, so that compaction seldom has to wait for the state on disk.
    pub keep: u64,
    /// Bytes of entries kept by a compaction, whatever their number.
    pub bytes_max: u64,
}

/// Bounds of the disk space that a member uses. By default there is neither a reserve nor a quota.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceOptions {
    /// Bytes kept free for log, compaction and deletions: while less is left, writes that make the state larger are
    /// refused. 0 for none.
    pub reserve_bytes: u64,
    /// Bytes that the store may take. `None` for as many as the disk has.
    pub quota_bytes: Option<u64>,
}

impl Default for Timing {
    /// For real machines. A leader whose process is gone is replaced without waiting for its lease, whatever the timeouts
    /// (`succession`). A silent leader is replaced after its lease, which is as long as the longest election timeout, and a
    /// random election timeout: 400 to 500 ms. A stall shorter than the lease, of leader or follower, causes no election; a
    /// longer one does only if it affects a majority (decision 0015).
    fn default() -> Self {
        Timing { heartbeat_ms: 50, election_ms_min: 150, election_ms_max: 250 }
    }
}

impl Default for HistoryOptions {
    /// The reference keeps five minutes, too; 40 MiB so that a burst cannot fill the memory; 50,000 entries are replayed in
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
    /// A follower lags by 60,000 entries after some seconds at the highest rate of writes; 256 MiB bound their size where
    /// objects are large.
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
        /// The contradiction.
        reason: String,
    },
    /// The disk belongs to another member.
    #[error("the data belongs to member {found} and not to {expected}")]
    WrongNode {
        /// Name and id of the member that the disk belongs to.
        found: String,
        /// Name and id of the member that was started.
        expected: String,
    },
    /// The disk belongs to another cluster.
    #[error("the data belongs to cluster {found} and not to {expected}")]
    WrongCluster {
        /// The cluster that the disk belongs to.
        found: String,
        /// The cluster that the options name.
        expected: String,
    },
    /// The disk is empty, but the cluster knows this member with another disk: its vote and log are lost, so it must not
    /// take part.
    #[error("member {name} has lost its data: remove it from the cluster and add one with a new name")]
    LostData {
        /// The member.
        name: String,
    },
    /// The cluster agreed on a feature level above what this program supports. The disk was not changed.
    #[error(
        "this program is too old: the cluster agreed on feature level {agreed}, it supports up to {supported}; upgrade it"
    )]
    OldProgram {
        /// The feature level that the cluster agreed on.
        agreed: u32,
        /// The highest feature level that this program supports.
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
        /// The evidence.
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
    /// The disk failed, or its content cannot be decoded.
    #[error("cannot start from the data: {reason}")]
    Disk {
        /// The error of the disk or of the decoding.
        reason: String,
    },
}
