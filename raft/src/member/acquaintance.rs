//! Refuses changes of the voters after which some majority could not elect a leader.
//!
//! A member follows a voter of its own log, and a candidate that a member it knows vouches for (see vouching). So a majority
//! can elect a leader if one of its voters knows all the others and all the others know it. A voter whose log lacks the
//! entry that promoted another does not know that one, whether it is silent or waits for a snapshot. How far its log came
//! follows only from its acknowledgements to this leader: registrations are written through the leader, so they do not tell.
//!
//! Owns the index since which each voter is known to be one, and the refusals that follow from it. The argument is in
//! docs/decisions/0016.
//!
//! Invariant: a member counts as known to a voter only if that voter's log has the entry that promoted the member.

use std::collections::{BTreeMap, BTreeSet};

use openraft::async_runtime::watch::WatchReceiver;
use orch_proto::store as wire;
use parking_lot::Mutex;
use wire::change_request::Kind as Change;

use crate::Runtime;
use crate::disk::Disk;
use crate::member::core::Core;
use crate::member::identity::is_founder;
use crate::transport::{NodeId, Transport};

/// For each voter of the newest committed membership, an index by which it was a voter: that of the first membership with
/// it that this process saw, so at least that of the entry that promoted it.
#[derive(Default)]
pub(crate) struct VotersSince(Mutex<BTreeMap<u64, u64>>);

impl VotersSince {
    /// Adds the `voters` of the committed membership of entry `at`, and returns the index of each.
    fn note(&self, at: u64, voters: &BTreeSet<u64>) -> BTreeMap<u64, u64> {
        let mut since = self.0.lock();
        since.retain(|id, _| voters.contains(id));
        for id in voters {
            since.entry(*id).or_insert(at);
        }
        since.clone()
    }
}

/// The voters that one of the voters after the change may not know.
struct Unknown {
    id: u64,
    /// Voters before the change that `id` may not know.
    present: BTreeSet<u64>,
    /// Whether `id` answers this leader now.
    answers: bool,
}

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Records the index since which each voter is one, and returns all of them. Called before every change, so that a leader
    /// misses none of its own changes.
    pub(crate) fn note_voters(&self) -> BTreeMap<u64, u64> {
        let committed = self.applied.membership();
        let at = committed.log_id().as_ref().map_or(0, |id| id.index);
        self.voters_since.note(at, &committed.membership().voter_ids().collect())
    }

    /// Fails when `change`, which leaves `voters`, could leave a majority that cannot elect a leader.
    pub(crate) fn are_acquainted(
        &self,
        change: &Change,
        voters: &BTreeSet<u64>,
        answering: &BTreeSet<u64>,
    ) -> Result<(), String> {
        let promoted = match change {
            Change::Promote(id) => Some(*id),
            Change::Remove(_) => None,
            Change::AddLearner(_) | Change::Undo(_) | Change::TransferLeader(_) => return Ok(()),
        };
        let since = self.note_voters();
        if let Change::Remove(id) = change {
            if !self.membership().membership().voter_ids().any(|voter| voter == *id) {
                return Ok(());
            }
            // A silent voter vouches for no other, so its removal loses nothing. A voter that answers may vouch, even if this
            // leader does not know how far its log came: to a leader that was just elected all voters seem to be behind.
            if !answering.contains(id) {
                return Ok(());
            }
        }
        let unknown: Vec<Unknown> = voters.iter().map(|id| self.unknown_to(*id, &since, answering)).collect();
        if promoted.is_none() {
            self.have_last_change(&unknown)?;
        }
        let lacks = |one: &Unknown| {
            let mut lacking: BTreeSet<u64> = one.present.intersection(voters).copied().collect();
            // No voter knows the promoted member yet. Those that answer and know all others get the entry at once.
            let is_behind = !one.answers || !lacking.is_empty();
            lacking.extend(promoted.filter(|id| is_behind && *id != one.id));
            lacking
        };
        let behind: BTreeMap<u64, BTreeSet<u64>> = unknown
            .iter()
            .map(|one| (one.id, lacks(one)))
            .filter(|(_, lacking)| !lacking.is_empty())
            .collect();
        let newer: BTreeSet<u64> = behind.values().flatten().copied().collect();
        let strangers: BTreeSet<u64> = behind.keys().chain(&newer).copied().collect();
        if 2 * strangers.len() <= voters.len() {
            return Ok(());
        }
        let (behind, newer) = (self.names(behind.keys()), self.names(&newer));
        Err(format!(
            "{behind} would not know {newer} if the others were lost: start or remove {behind} first, or wait until it has \
             the log"
        ))
    }

    /// Fails with the names of voters that answer and lack the entry of the last promotion: the voter to be removed may be the
    /// only one that both they and the promoted member know.
    fn have_last_change(&self, unknown: &[Unknown]) -> Result<(), String> {
        let lacking = unknown.iter().filter(|one| one.answers && !one.present.is_empty());
        let lacking: Vec<u64> = lacking.map(|one| one.id).collect();
        match lacking.is_empty() {
            true => Ok(()),
            false => Err(format!(
                "{} has not received the last change of the voters yet: wait for it, or stop it",
                self.names(&lacking)
            )),
        }
    }

    /// The voters in `since` that `id` may not know. All members know the founders, which are in the first entry of every log.
    fn unknown_to(&self, id: u64, since: &BTreeMap<u64, u64>, answering: &BTreeSet<u64>) -> Unknown {
        let own = self.options.id().0;
        let matched = match id == own {
            true => u64::MAX,
            false => {
                let metrics = self.raft.metrics();
                let metrics = metrics.borrow_watched();
                let matched = metrics.replication.as_ref().and_then(|all| *all.get(&id)?);
                matched.map_or(0, |matched| matched.index)
            }
        };
        let state = self.applied.state();
        let present = since
            .iter()
            .filter(|(other, at)| **other != id && **at > matched && !is_founder(&state, NodeId(**other)))
            .map(|(other, _)| *other)
            .collect();
        Unknown { id, present, answers: answering.contains(&id) }
    }

    fn names<'a>(&self, ids: impl IntoIterator<Item = &'a u64>) -> String {
        ids.into_iter().map(|id| self.peer_name(*id)).collect::<Vec<_>>().join(", ")
    }
}
