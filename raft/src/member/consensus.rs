//! The consensus library's type parameters and settings.
//!
//! Owns both. Neither these nor any type of the library leave this crate.

use std::cmp::Ordering;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;
use openraft::impls::{BoxedErrorSource, InlineBatch, leader_id_std};
use openraft::raft::responder::Responder;
use openraft::vote::RaftLeaderId;
use openraft::{Config, OptionalSend, RaftTypeConfig, SnapshotPolicy};

use crate::Runtime;
use crate::member::options::Options;
use crate::transport::{NodeId, Peer};

pub(crate) type LeaderId = leader_id_std::LeaderId<u64, u64>;
pub(crate) type CommittedLeader = <LeaderId as RaftLeaderId>::Committed;
pub(crate) type LogId = openraft::LogId<CommittedLeader>;
pub(crate) type Vote = openraft::Vote<LeaderId>;
pub(crate) type Membership = openraft::Membership<u64, Place>;
pub(crate) type StoredMembership = openraft::StoredMembership<CommittedLeader, u64, Place>;
pub(crate) type Payload = openraft::EntryPayload<Command, u64, Place>;
pub(crate) type Entry = openraft::Entry<CommittedLeader, Payload>;
pub(crate) type SnapshotMeta = openraft::SnapshotMeta<CommittedLeader, u64, Place>;
pub(crate) type Snapshot<S> = openraft::Snapshot<CommittedLeader, u64, Place, S>;
pub(crate) type WriteResult<R> = openraft::raft::ClientWriteResult<Types<R>>;

/// The term of the leader that appended an entry.
pub(crate) fn term_of(log_id: &LogId) -> u64 {
    log_id.leader_id.term
}

/// The log id of an entry, from its term and index.
pub(crate) fn log_id(term: u64, index: u64) -> LogId {
    LogId { leader_id: CommittedLeader::new(term), index }
}

/// The library's type configuration, over the runtime `R`.
pub(crate) struct Types<R>(PhantomData<fn() -> R>);

impl<R: Runtime> RaftTypeConfig for Types<R> {
    type D = Command;
    type R = ();
    type NodeId = u64;
    type Node = Place;
    type Term = u64;
    type LeaderId = LeaderId;
    type Vote = Vote;
    type Payload = Payload;
    type Entry = Entry;
    type AsyncRuntime = R;
    type Responder<T>
        = Callback<T>
    where
        T: OptionalSend + 'static;
    type Batch<T>
        = InlineBatch<T>
    where
        T: OptionalSend + 'static;
    type ErrorSource = BoxedErrorSource;
}

// The library requires these traits of its configuration; a derive would require them of the runtime, too.
impl<R> Clone for Types<R> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<R> Copy for Types<R> {}
impl<R> Default for Types<R> {
    fn default() -> Self {
        Types(PhantomData)
    }
}
impl<R> fmt::Debug for Types<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Types")
    }
}
impl<R> PartialEq for Types<R> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl<R> Eq for Types<R> {}
impl<R> PartialOrd for Types<R> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<R> Ord for Types<R> {
    fn cmp(&self, _: &Self) -> Ordering {
        Ordering::Equal
    }
}

/// An encoded transaction, as its proposer made it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Command(pub(crate) Bytes);

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "transaction of {} bytes", self.0.len())
    }
}

/// A member's name and address, as the membership holds them beside its id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) name: Arc<str>,
    pub(crate) address: Arc<str>,
}

impl Place {
    pub(crate) fn of(peer: &Peer) -> Self {
        Place { name: peer.name.clone(), address: peer.address.clone() }
    }

    pub(crate) fn peer(&self, id: u64) -> Peer {
        Peer { id: NodeId(id), name: self.name.clone(), address: self.address.clone() }
    }
}

/// Called with the library's answer, on the library's task that has it.
pub(crate) struct Callback<T>(pub(crate) Box<dyn FnOnce(T) + Send>);

impl<R: Runtime, T: OptionalSend + 'static> Responder<Types<R>, T> for Callback<T> {
    fn on_complete(self, result: T) {
        (self.0)(result);
    }
}

/// Milliseconds that the library gives a snapshot to be sent and installed; the link takes three quarters of it
/// (`soft_ttl`). The library's default of 200 never suffices.
const SNAPSHOT_MS_MAX: u64 = 120_000;

/// Entries in one frame of replication; frames are bounded by bytes as well.
const FRAME_ENTRIES_MAX: u64 = 1024;

/// The library's settings.
pub(crate) fn config(options: &Options) -> Result<Config, String> {
    let config = Config {
        cluster_name: "store".to_owned(),
        heartbeat_interval: options.timing.heartbeat_ms,
        election_timeout_min: options.timing.election_ms_min,
        election_timeout_max: options.timing.election_ms_max,
        install_snapshot_timeout: SNAPSHOT_MS_MAX,
        max_payload_entries: FRAME_ENTRIES_MAX,
        replication_lag_threshold: options.log.snapshot_every.saturating_add(options.log.keep),
        // Snapshots and purges are triggered by compaction.
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: u64::MAX,
        enable_pre_vote: Some(true),
        // The committed position may be lost in a crash, so a restarted leader must be elected anew.
        enable_leader_restore: Some(false),
        backoff: "50ms 100ms ...1s".to_owned(),
        ..Config::default()
    };
    config.validate().map_err(|error| error.to_string())
}
