//! Raft's safety properties, checked on the members' disks.
//!
//! Owns the states that no disk may show: two leaders of one term, two entries of one term and index, two logs that
//! agree on an entry and differ before it, a committed entry that changes, a member that applied an uncommitted entry.
//! It decodes only the position of an entry; the ledger checks the effects.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use orch_proto::store as wire;
use orch_raft::Revision;
use orch_raft::disk::MetaKey;
use orch_raft::transport::NodeId;
use prost::Message;

use super::disk::SimDisk;
use super::trace::Hash64;

/// A violation of the protocol.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Breach {
    /// A term has two leaders.
    #[error("term {term} has two leaders: {first} and {second}, as node {node:?} knows it")]
    TwoLeaders {
        /// The term.
        term: u64,
        /// One leader.
        first: u64,
        /// The other leader.
        second: u64,
        /// The member whose disk shows this.
        node: NodeId,
    },
    /// Logs that agree on an entry differ before it, or in the entry.
    #[error(
        "node {node:?} has another entry {index} of term {term}, or another one before it, than a node had earlier"
    )]
    LogMismatch {
        /// The member whose disk shows this.
        node: NodeId,
        /// Term of the entry.
        term: u64,
        /// Index of the entry.
        index: u64,
    },
    /// A committed entry has changed.
    #[error(
        "node {node:?} has term {found} at committed index {index}, which was committed with term {committed}"
    )]
    CommittedChanged {
        /// The member whose disk shows this.
        node: NodeId,
        /// Index of the entry.
        index: u64,
        /// Its term on that disk.
        found: u64,
        /// Its term when it was committed.
        committed: u64,
    },
    /// A member applied an uncommitted entry.
    #[error("node {node:?} applied {applied}, the newest index known as committed is {committed}")]
    AppliedUncommitted {
        /// The member.
        node: NodeId,
        /// Its applied index.
        applied: Revision,
        /// The newest committed index that is known.
        committed: u64,
    },
    /// A vote was answered and is not on the disk.
    #[error("node {node:?} answered in term {answered} and starts in term {kept}: its vote was not durable")]
    VoteForgotten {
        /// The member.
        node: NodeId,
        /// The newest term it answered in.
        answered: u64,
        /// The term on its disk.
        kept: u64,
    },
    /// A member voted for two candidates in one term.
    #[error("node {node:?} voted for {first} and for {second} in term {term}")]
    VotedTwice {
        /// The member.
        node: NodeId,
        /// The term of both votes.
        term: u64,
        /// One candidate.
        first: u64,
        /// The other candidate.
        second: u64,
    },
    /// Bytes on a disk that are no message of the store.
    #[error("node {node:?} has an unreadable {what}")]
    Unreadable {
        /// The member whose disk shows this.
        node: NodeId,
        /// The kind of message.
        what: &'static str,
    },
}

/// Observations of all disks so far.
#[derive(Debug, Default)]
pub struct Protocol {
    leaders: BTreeMap<u64, u64>,
    /// By term and index: a hash of the entry, and the term of the entry before it if that was seen.
    entries: BTreeMap<(u64, u64), (u64, Option<u64>)>,
    /// The term of each committed entry.
    committed: BTreeMap<u64, u64>,
    /// By index and term: the voter sets of a membership entry, one, or two in a joint configuration.
    voters: BTreeMap<(u64, u64), Vec<BTreeSet<u64>>>,
    nodes: BTreeMap<NodeId, Glance>,
    /// The newest term that each member has answered in on the wire.
    promised: BTreeMap<NodeId, u64>,
    /// The candidate that a member voted for in a term, according to its answer.
    granted: BTreeMap<(NodeId, u64), u64>,
}

/// The content of one disk at the last observation.
#[derive(Debug, Default)]
struct Glance {
    vote: Option<Bytes>,
    /// The term of each entry.
    log: BTreeMap<u64, u64>,
    /// Index up to which its entries were compared with the committed ones.
    committed_through: u64,
}

impl Protocol {
    /// The observations of a cluster that begins at `index` of `term` with `node` alone, which has everything before.
    pub fn beginning(node: NodeId, term: u64, index: u64) -> Self {
        let committed = BTreeMap::from([(index, term)]);
        let voters = BTreeMap::from([((index, term), vec![BTreeSet::from([node.0])])]);
        Protocol { committed, voters, ..Protocol::default() }
    }

    /// Checks a member's stored vote; cheap enough for every step.
    ///
    /// # Errors
    /// [`Breach::TwoLeaders`], or an unreadable vote.
    pub fn observe_vote(&mut self, node: NodeId, disk: &SimDisk) -> Result<(), Breach> {
        let vote = disk.meta(MetaKey::Vote);
        let glance = self.nodes.entry(node).or_default();
        if glance.vote == vote {
            return Ok(());
        }
        glance.vote.clone_from(&vote);
        let Some(bytes) = vote else { return Ok(()) };
        let vote = wire::Vote::decode(bytes).map_err(|_| Breach::Unreadable { node, what: "vote" })?;
        if !vote.committed {
            return Ok(());
        }
        let first = *self.leaders.entry(vote.term).or_insert(vote.node);
        if first == vote.node {
            return Ok(());
        }
        Err(Breach::TwoLeaders { term: vote.term, first, second: vote.node, node })
    }

    /// Checks an answer of `node` to a peer's call.
    ///
    /// # Errors
    /// [`Breach::VotedTwice`] if it has voted for another candidate in the same term.
    pub fn overhear(&mut self, node: NodeId, asked: &Bytes, answered: &Bytes) -> Result<(), Breach> {
        use wire::control_request::Kind as Asked;
        use wire::control_response::Kind as Answered;
        let asked = wire::ControlRequest::decode(asked.clone()).ok().and_then(|message| message.kind);
        let answered = wire::ControlResponse::decode(answered.clone()).ok().and_then(|message| message.kind);
        let candidate = match (asked, answered) {
            (Some(Asked::Vote(asked)), Some(Answered::Vote(answered))) if answered.granted => {
                asked.vote.unwrap_or_default()
            }
            (Some(Asked::Heartbeat(asked)), Some(Answered::Heartbeat(answered))) => {
                let accepted = matches!(answered.outcome, Some(wire::append_response::Outcome::Accepted(_)));
                let leader = asked.vote.filter(|_| accepted).unwrap_or_default();
                self.promise(node, leader.term);
                return Ok(());
            }
            _ => return Ok(()),
        };
        self.promise(node, candidate.term);
        let first = *self.granted.entry((node, candidate.term)).or_insert(candidate.node);
        let (term, second) = (candidate.term, candidate.node);
        if first == second { Ok(()) } else { Err(Breach::VotedTwice { node, term, first, second }) }
    }

    fn promise(&mut self, node: NodeId, term: u64) {
        let newest = self.promised.entry(node).or_default();
        *newest = term.max(*newest);
    }

    /// Checks the stored vote that a process of `node` starts with.
    ///
    /// # Errors
    /// [`Breach::VoteForgotten`] if the member has answered in a later term: it could vote there again.
    pub fn observe_start(&mut self, node: NodeId, disk: &SimDisk) -> Result<(), Breach> {
        let vote = disk.meta(MetaKey::Vote).map(wire::Vote::decode).transpose();
        let vote = vote.map_err(|_| Breach::Unreadable { node, what: "vote" })?;
        let (kept, answered) = (vote.unwrap_or_default().term, self.promised.get(&node).copied());
        match answered {
            Some(answered) if answered > kept => Err(Breach::VoteForgotten { node, answered, kept }),
            _ => Ok(()),
        }
    }

    /// Checks a member's log and its stored commit index.
    ///
    /// # Errors
    /// The first violation found.
    pub fn observe_log(&mut self, node: NodeId, disk: &SimDisk) -> Result<(), Breach> {
        self.read_log(node, disk)?;
        let committed = match disk.meta(MetaKey::Committed) {
            Some(bytes) => wire::LogId::decode(bytes)
                .map_err(|_| Breach::Unreadable { node, what: "committed log id" })?,
            None => wire::LogId::default(),
        };
        let glance = self.nodes.entry(node).or_default();
        let through = committed.index.max(glance.committed_through);
        for (index, term) in glance.log.range(glance.committed_through + 1..through + 1) {
            let first = *self.committed.entry(*index).or_insert(*term);
            if first != *term {
                return Err(Breach::CommittedChanged { node, index: *index, found: *term, committed: first });
            }
        }
        glance.committed_through = through;
        if committed.index > 0 {
            let term = *self.committed.entry(committed.index).or_insert(committed.term);
            if term != committed.term {
                let (index, found) = (committed.index, committed.term);
                return Err(Breach::CommittedChanged { node, index, found, committed: term });
            }
        }
        Ok(())
    }

    /// Checks a member's applied index, once all logs were observed: a snapshot takes a member to its sender's commit
    /// index before it knows that index as committed.
    ///
    /// # Errors
    /// [`Breach::AppliedUncommitted`] if no member knows the index as committed.
    pub fn observe_applied(&self, node: NodeId, applied: Revision) -> Result<(), Breach> {
        let newest = self.committed.keys().next_back().copied().unwrap_or_default();
        // Index 1 is the membership that a cluster starts with: every member has it from the start.
        if applied.0 > newest.max(1) {
            return Err(Breach::AppliedUncommitted { node, applied, committed: newest });
        }
        Ok(())
    }

    /// The newest term with a known leader, and that leader.
    pub fn leader(&self) -> Option<(u64, NodeId)> {
        self.leaders.last_key_value().map(|(term, node)| (*term, NodeId(*node)))
    }

    /// The voter sets whose majorities are needed now, as far as `living` members know: those of the newest committed
    /// membership, and of each newer one in their logs. `None` before there is one.
    pub fn voter_sets(&self, living: &[NodeId]) -> Option<Vec<BTreeSet<u64>>> {
        let is_committed =
            |((index, term), _): &(&(u64, u64), &Vec<BTreeSet<u64>>)| self.committed.get(index) == Some(term);
        let (newest, sets) = self.voters.iter().rev().find(is_committed)?;
        let logs: Vec<&Glance> = living.iter().filter_map(|node| self.nodes.get(node)).collect();
        let is_held =
            |(index, term): &(u64, u64)| logs.iter().any(|glance| glance.log.get(index) == Some(term));
        let newer = self.voters.range((newest.0 + 1, 0)..).filter(|(at, _)| is_held(at));
        let mut all: Vec<BTreeSet<u64>> = newer.flat_map(|(_, sets)| sets).chain(sets).cloned().collect();
        all.sort();
        all.dedup();
        Some(all)
    }

    fn read_log(&mut self, node: NodeId, disk: &SimDisk) -> Result<(), Breach> {
        let glance = self.nodes.entry(node).or_default();
        let (log, known) = (std::cell::RefCell::new(&mut glance.log), &mut glance.committed_through);
        let (mut fresh, mut unreadable, voters) = (Vec::new(), false, &mut self.voters);
        let changed = |from: u64| {
            log.borrow_mut().split_off(&from);
            *known = (*known).min(from.saturating_sub(1));
        };
        disk.each_changed_entry(changed, |index, bytes| {
            let entry = wire::Entry::decode(bytes.clone()).unwrap_or_default();
            let id = entry.log_id;
            unreadable |= id.is_none_or(|id| id.index != index);
            let term = id.map_or(0, |id| id.term);
            if let Some(wire::entry::Payload::Membership(membership)) = &entry.payload {
                let sets = membership.voters.iter().map(|set| set.ids.iter().copied().collect());
                voters.insert((index, term), sets.collect());
            }
            let mut log = log.borrow_mut();
            let before = log.last_key_value().filter(|(last, _)| **last + 1 == index).map(|(_, term)| *term);
            fresh.push((term, index, content_hash(entry), before));
            log.insert(index, term);
        });
        // Entries that an installed snapshot replaced may have been of a term that was never committed.
        let first = disk.first_index().unwrap_or(u64::MAX);
        glance.log = glance.log.split_off(&first);
        if unreadable {
            return Err(Breach::Unreadable { node, what: "log entry" });
        }
        fresh
            .into_iter()
            .try_for_each(|(term, index, hash, before)| self.match_entry(node, term, index, hash, before))
    }

    /// Log matching: two entries of one term and index are equal and have equal entries before them; by induction, logs
    /// match.
    fn match_entry(
        &mut self,
        node: NodeId,
        term: u64,
        index: u64,
        hash: u64,
        before: Option<u64>,
    ) -> Result<(), Breach> {
        let known = self.entries.entry((term, index)).or_insert((hash, before));
        let differs = known.0 != hash || known.1.zip(before).is_some_and(|(one, other)| one != other);
        known.1 = known.1.or(before);
        if differs { Err(Breach::LogMismatch { node, term, index }) } else { Ok(()) }
    }
}

/// Hash of an entry's content. Members of different feature levels write a blank entry in different forms.
fn content_hash(mut entry: wire::Entry) -> u64 {
    entry.format = 0;
    entry.payload = entry.payload.filter(|payload| !matches!(payload, wire::entry::Payload::Blank(_)));
    Hash64::of(&entry.encode_to_vec()).0
}

#[cfg(test)]
mod tests;
