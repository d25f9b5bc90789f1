//! Conversion between the consensus library's types and the Protobuf messages of `orch_proto::store`.
//!
//! Owns the form of log entries, votes, memberships and state marks on disk and on the wire. The library's own serialized
//! forms are never used: they change between its versions.

use bytes::Bytes;
use openraft::EntryPayload;
use openraft::entry::RaftEntry;
use orch_proto::store as wire;
use prost::Message;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::encoding::{
    DecodeError, FEATURE_LEVEL_MAX, LEVEL_EXPLICIT_BLANK, check_format, check_transaction, decode,
};
use crate::key::Revision;
use crate::member::consensus::{
    Command, Entry, LogId, Membership, Place, StoredMembership, Vote, log_id, term_of,
};
use crate::transport::{NodeId, Peer};

pub(crate) fn log_id_to_wire(id: &LogId) -> wire::LogId {
    wire::LogId { term: term_of(id), index: id.index }
}

pub(crate) fn log_id_from_wire(id: wire::LogId) -> LogId {
    log_id(id.term, id.index)
}

pub(crate) fn vote_to_wire(vote: &Vote) -> wire::Vote {
    wire::Vote { term: vote.leader_id.term, node: vote.leader_id.voted_for, committed: vote.committed }
}

pub(crate) fn vote_from_wire(vote: wire::Vote) -> Vote {
    if vote.committed { Vote::new_committed(vote.term, vote.node) } else { Vote::new(vote.term, vote.node) }
}

/// Reads the vote of a message; an error where it is absent.
pub(crate) fn required_vote(vote: Option<wire::Vote>) -> Result<Vote, DecodeError> {
    vote.map(vote_from_wire).ok_or_else(|| DecodeError::new("message", "no vote"))
}

pub(crate) fn peer_to_wire(peer: &Peer) -> wire::Member {
    wire::Member { id: peer.id.0, name: peer.name.to_string(), address: peer.address.to_string() }
}

pub(crate) fn peer_from_wire(member: wire::Member) -> Peer {
    Peer { id: NodeId(member.id), name: Arc::from(member.name), address: Arc::from(member.address) }
}

fn membership_to_wire(membership: &Membership) -> wire::Membership {
    let voters = membership.get_joint_config().iter();
    wire::Membership {
        voters: voters.map(|set| wire::VoterSet { ids: set.iter().copied().collect() }).collect(),
        members: membership.nodes().map(|(id, place)| peer_to_wire(&place.peer(*id))).collect(),
    }
}

fn membership_from_wire(membership: wire::Membership) -> Result<Membership, DecodeError> {
    let voters: Vec<BTreeSet<u64>> =
        membership.voters.into_iter().map(|set| set.ids.into_iter().collect()).collect();
    let members: BTreeMap<u64, Place> = membership
        .members
        .into_iter()
        .map(|member| (member.id, Place::of(&peer_from_wire(member))))
        .collect();
    if voters.is_empty() && members.is_empty() {
        return Ok(Membership::default());
    }
    Membership::new(voters, members).map_err(|error| DecodeError::new("membership", error))
}

pub(crate) fn stored_membership_to_wire(stored: &StoredMembership) -> wire::AppliedMembership {
    wire::AppliedMembership {
        log_id: stored.log_id().as_ref().map(log_id_to_wire),
        membership: Some(membership_to_wire(stored.membership())),
    }
}

pub(crate) fn stored_membership_from_wire(
    stored: Option<wire::AppliedMembership>,
) -> Result<StoredMembership, DecodeError> {
    let Some(stored) = stored else { return Ok(StoredMembership::default()) };
    let membership = membership_from_wire(stored.membership.unwrap_or_default())?;
    Ok(StoredMembership::new(stored.log_id.map(log_id_from_wire), membership))
}

/// Converts an entry to the form of the feature level `level`.
pub(crate) fn entry_to_wire(entry: &Entry, level: u32) -> wire::Entry {
    use wire::entry::Payload;
    let (payload, format) = match &entry.payload {
        EntryPayload::Blank if level >= LEVEL_EXPLICIT_BLANK => {
            (Some(Payload::Blank(wire::Blank {})), LEVEL_EXPLICIT_BLANK)
        }
        EntryPayload::Blank => (None, 0),
        // An encoded transaction carries its own format.
        EntryPayload::Normal(command) => (Some(Payload::Transaction(command.0.clone())), 0),
        EntryPayload::Membership(membership) => {
            (Some(Payload::Membership(membership_to_wire(membership))), 0)
        }
    };
    wire::Entry { log_id: Some(log_id_to_wire(&entry.log_id)), payload, format }
}

/// Reads an entry and checks its payload, as a program of feature level `reads`. An entry is never skipped: an entry that
/// such a program does not understand is an error. The transaction in it shares the memory of `entry`.
pub(crate) fn entry_from_wire(entry: wire::Entry, reads: u32) -> Result<Entry, DecodeError> {
    use wire::entry::Payload;
    check_format("log entry", entry.format, reads)?;
    let id = entry.log_id.ok_or_else(|| DecodeError::new("log entry", "no log id"))?;
    let payload = match entry.payload {
        None if entry.format < LEVEL_EXPLICIT_BLANK => EntryPayload::Blank,
        None => return Err(DecodeError::new("log entry", "no payload")),
        Some(Payload::Blank(wire::Blank {})) => EntryPayload::Blank,
        Some(Payload::Transaction(bytes)) => {
            check_transaction(&bytes, reads)?;
            EntryPayload::Normal(Command(bytes))
        }
        Some(Payload::Membership(membership)) => EntryPayload::Membership(membership_from_wire(membership)?),
    };
    Ok(Entry::new(log_id_from_wire(id), payload))
}

/// Reads an entry out of a frame of many and copies its transaction: it stays in the log's tail long after the frame.
pub(crate) fn entry_from_frame(entry: wire::Entry, reads: u32) -> Result<Entry, DecodeError> {
    let mut entry = entry_from_wire(entry, reads)?;
    if let EntryPayload::Normal(command) = &mut entry.payload {
        command.0 = Bytes::copy_from_slice(&command.0);
    }
    Ok(entry)
}

/// Approximate bytes of an entry in memory and in a frame.
pub(crate) fn entry_bytes(entry: &Entry) -> usize {
    /// Log id, lengths, and the slot it is kept in.
    const OVERHEAD_BYTES: usize = 64;
    match &entry.payload {
        EntryPayload::Normal(command) => OVERHEAD_BYTES + command.0.len(),
        EntryPayload::Blank | EntryPayload::Membership(_) => OVERHEAD_BYTES,
    }
}

/// The position up to which a state is complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) log_id: Option<LogId>,
    pub(crate) membership: StoredMembership,
    /// The revision of each resource's newest change, removals included; `None` in marks of the older format without it.
    pub(crate) changed: Option<BTreeMap<Arc<str>, Revision>>,
}

impl Mark {
    /// The revision of the state: its log index, 0 before the first entry.
    pub(crate) fn revision(&self) -> Revision {
        Revision(self.log_id.map_or(0, |id| id.index))
    }

    pub(crate) fn to_wire(&self) -> wire::StateMark {
        wire::StateMark {
            log_id: self.log_id.as_ref().map(log_id_to_wire),
            membership: Some(stored_membership_to_wire(&self.membership)),
            revision: self.revision().0,
            changed: self.changed.iter().flatten().map(resource_change).collect(),
            changed_is_known: self.changed.is_some(),
            format: 0,
        }
    }

    pub(crate) fn from_wire(mark: wire::StateMark) -> Result<Self, DecodeError> {
        check_format("state mark", mark.format, FEATURE_LEVEL_MAX)?;
        let membership = stored_membership_from_wire(mark.membership)?;
        let of_resource = |one: wire::ResourceChange| (Arc::from(one.resource), Revision(one.revision));
        let changed = mark.changed_is_known.then(|| mark.changed.into_iter().map(of_resource).collect());
        let mark_read = Mark { log_id: mark.log_id.map(log_id_from_wire), membership, changed };
        if mark_read.revision().0 != mark.revision {
            return Err(DecodeError::new("state mark", "its revision is not its log index"));
        }
        Ok(mark_read)
    }

    pub(crate) fn encode(&self) -> Bytes {
        Bytes::from(self.to_wire().encode_to_vec())
    }

    pub(crate) fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        Mark::from_wire(decode("state mark", bytes)?)
    }
}

fn resource_change((resource, revision): (&Arc<str>, &Revision)) -> wire::ResourceChange {
    wire::ResourceChange { resource: resource.to_string(), revision: revision.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::{ProposalId, encode_transaction};
    use crate::transaction::Transaction;

    fn membership() -> Membership {
        let place = |n: u64| (n, Place { name: format!("n{n}").into(), address: format!("h{n}:1").into() });
        Membership::new(vec![[1, 2].into(), [2, 3].into()], (1..=4).map(place).collect::<BTreeMap<_, _>>())
            .unwrap()
    }

    #[test]
    fn entries_of_every_kind_survive_at_every_level() {
        let transaction = encode_transaction(ProposalId::default(), &Transaction::default(), 0);
        let payloads = [
            EntryPayload::Blank,
            EntryPayload::Normal(Command(transaction)),
            EntryPayload::Membership(membership()),
        ];
        for (payload, level) in
            payloads.iter().flat_map(|one| (0..=FEATURE_LEVEL_MAX).map(move |at| (one, at)))
        {
            let entry = Entry::new(log_id(3, 9), payload.clone());
            let bytes = Bytes::from(entry_to_wire(&entry, level).encode_to_vec());
            assert_eq!(entry_from_wire(decode("entry", bytes).unwrap(), level).unwrap(), entry);
        }
    }

    #[test]
    fn an_entry_that_is_not_understood_is_no_blank() {
        let log_id = Some(wire::LogId { term: 3, index: 9 });
        // A payload of a later version is dropped by the decoder: only the format is left of it.
        let later = wire::Entry { log_id, payload: None, format: FEATURE_LEVEL_MAX + 1 };
        let error = entry_from_wire(later, FEATURE_LEVEL_MAX).unwrap_err();
        assert!(error.newer, "{error}");
        let text = error.to_string();
        let (of_entry, readable) =
            (format!("format {}", FEATURE_LEVEL_MAX + 1), format!("up to {FEATURE_LEVEL_MAX}"));
        assert!(text.contains(&of_entry) && text.contains(&readable) && text.contains("upgrade"), "{text}");
        let lost = wire::Entry { log_id, payload: None, format: LEVEL_EXPLICIT_BLANK };
        assert!(!entry_from_wire(lost, FEATURE_LEVEL_MAX).unwrap_err().newer);
        let old = wire::Entry { log_id, payload: None, format: 0 };
        assert_eq!(entry_from_wire(old, 0).unwrap().payload, EntryPayload::Blank);
        let explicit = entry_to_wire(&Entry::new(super::log_id(3, 9), EntryPayload::Blank), 1);
        assert!(entry_from_wire(explicit, 0).unwrap_err().newer, "a program of level 0");
        let unreadable = wire::entry::Payload::Transaction(Bytes::from_static(b"\xff"));
        let unreadable = wire::Entry { log_id, payload: Some(unreadable), format: 0 };
        assert!(entry_from_wire(unreadable, FEATURE_LEVEL_MAX).is_err());
    }

    #[test]
    fn votes_and_marks_survive() {
        for vote in [Vote::new(4, 7), Vote::new_committed(5, 1), Vote::new(0, 0)] {
            assert_eq!(vote_from_wire(vote_to_wire(&vote)), vote);
        }
        let stored = StoredMembership::new(Some(log_id(1, 2)), membership());
        let changed = Some(BTreeMap::from([(Arc::from("pods"), Revision(7))]));
        let mark = Mark { log_id: Some(log_id(2, 8)), membership: stored, changed };
        assert_eq!(Mark::decode(mark.encode()).unwrap(), mark);
        assert_eq!(Mark::decode(Mark::default().encode()).unwrap(), Mark::default());
    }

    #[test]
    fn a_mark_that_contradicts_itself_is_refused() {
        let mut wire = Mark { log_id: Some(log_id(2, 8)), ..Mark::default() }.to_wire();
        wire.revision = 9;
        assert!(Mark::from_wire(wire).is_err());
    }
}
