//! The survivor: a member's disk, from which a cluster without a quorum is made anew.
//!
//! Owns the description of it for an operator who decides, and the state that is kept: the stored one with every entry of
//! the log behind it. Entries that the survivor does not know to be committed are kept, too. Such an entry may have been
//! acknowledged by a majority; otherwise no client knows more of it than that it may be applied.

use std::sync::Arc;

use orch_proto::store as wire;

use super::{Origin, ReseedError, require_known_level};
use crate::archive::Record;
use crate::disk::{Disk, MetaKey};
use crate::encoding::{FEATURE_LEVEL_MAX, check_format};
use crate::member::consensus::term_of;
use crate::member::identity::ClusterIdentity;
use crate::member::log::read_meta;
use crate::member::machine::{Replayed, replay};
use crate::state::State;
use crate::transport::{NodeId, Peer};

/// The description of a survivor's disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The cluster's name.
    pub cluster: Arc<str>,
    /// The member's name.
    pub name: Arc<str>,
    /// The member with its peer address; `None` where it is not in its own membership.
    pub member: Option<Peer>,
    /// Every other member of the newest membership.
    pub others: Vec<Peer>,
    /// The last entry of the log.
    pub revision: u64,
    /// The term of that entry: of two survivors, the one with the higher term has more, with equal terms the one with the
    /// higher revision.
    pub term: u64,
    /// The last entry that the member knows to be committed; it is written with the write that follows and may be older.
    pub committed: u64,
    /// Time of the last write, by its proposer's clock: milliseconds since 1970; 0 for unknown.
    pub time_ms: u64,
    /// Number of objects.
    pub objects: u64,
    /// Why the member must not be trusted: it was found to differ from a majority, or to be an older copy of its disk.
    pub doubts: Vec<String>,
}

/// A survivor's state, read whole.
pub struct Survivor {
    found: Found,
    replayed: Replayed,
    /// The highest term that the member knew of.
    term: u64,
}

impl Survivor {
    /// Reads the disk of a stopped member to the end of its log.
    ///
    /// # Errors
    /// The disk cannot be read; a newer program wrote it; it never was part of a cluster; its member is the only voter.
    pub fn read(disk: &impl Disk) -> Result<Self, ReseedError> {
        let identity = read_meta::<wire::Identity>(disk, MetaKey::Identity, "identity")?;
        let identity = identity.ok_or(ReseedError::NoCluster)?;
        check_format("identity", identity.format, FEATURE_LEVEL_MAX)?;
        let replayed = replay(disk)?;
        require_known_level(&replayed.state)?;
        let cluster = ClusterIdentity::read(&replayed.state).ok_or(ReseedError::NoCluster)?;
        let name: Arc<str> = Arc::from(&*identity.name);
        let membership = replayed.mark.membership.membership();
        if membership.voter_ids().all(|id| id == identity.node) && membership.voter_ids().next().is_some() {
            return Err(ReseedError::NotNeeded(name));
        }
        let peers: Vec<Peer> = membership.nodes().map(|(id, place)| place.peer(*id)).collect();
        let (own, others): (Vec<_>, Vec<_>) =
            peers.into_iter().partition(|peer| peer.id == NodeId(identity.node));
        let vote = read_meta::<wire::Vote>(disk, MetaKey::Vote, "vote")?.unwrap_or_default();
        let committed = read_meta::<wire::LogId>(disk, MetaKey::Committed, "committed log id")?;
        let quarantine = read_meta::<wire::Quarantine>(disk, MetaKey::Quarantine, "quarantine")?;
        let quarantine = quarantine.map(|quarantine| quarantine.reason).unwrap_or_default();
        let doubts = [quarantine, identity.older_copy].into_iter().filter(|doubt| !doubt.is_empty());
        let last_term = replayed.mark.log_id.as_ref().map_or(0, term_of);
        let found = Found {
            cluster: cluster.cluster,
            name,
            member: own.into_iter().next(),
            others,
            revision: replayed.state.applied().0,
            term: last_term,
            committed: committed.map_or(0, |id| id.index),
            time_ms: replayed.last_ms,
            objects: replayed.state.fingerprint().objects(),
            doubts: doubts.collect(),
        };
        Ok(Survivor { found, replayed, term: vote.term.max(last_term) })
    }

    /// The description of the disk, for an operator's decision.
    pub fn found(&self) -> &Found {
        &self.found
    }

    /// The point whose objects are kept.
    pub fn origin(&self) -> Origin {
        let Found { cluster, revision, time_ms, .. } = &self.found;
        Origin { cluster: cluster.clone(), revision: *revision, time_ms: *time_ms }
    }

    /// The term of the new log's beginning: above each that the member knew of.
    pub fn next_term(&self) -> u64 {
        self.term.saturating_add(1)
    }

    /// Every object.
    pub fn records(&self) -> impl Iterator<Item = Result<Record, ReseedError>> + '_ {
        records(&self.replayed.state).map(Ok)
    }
}

/// Every object of `state`, in the order of resources and paths.
pub(crate) fn records(state: &State) -> impl Iterator<Item = Record> + '_ {
    state.collections().flat_map(|(resource, collection)| {
        collection.range_from("").map(move |(path, object)| Record {
            resource: resource.clone(),
            path: path.clone(),
            object: object.clone(),
        })
    })
}
