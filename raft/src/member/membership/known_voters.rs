//! Refuses a promotion or removal after which some majority of the voters could not elect a leader, because its voters do
//! not know each other.
//!
//! A member follows a voter of its own log, and a candidate that a member it knows vouches for (see vouching). So a majority
//! can elect a leader when it holds one voter that knows all the others and that all the others know. A voter whose log
//! lacks another voter's promotion does not know that voter, whether it is silent, or answers and waits for a
//! snapshot. Its registration does not tell how far its log reaches, since registrations are written through the leader.
//! Only its acknowledgements to this leader count.
//!
//! Owns that refusal; since which entry each voter is known to be one is in `voters_since`. The argument is in
//! docs/decisions/0016.
//!
//! Invariant: a voter counts as known to another only if the other's log has the entry that promoted it.

use std::collections::{BTreeMap, BTreeSet};

use openraft::async_runtime::watch::WatchReceiver;
use orch_proto::store as wire;
use wire::change_request::Kind as Change;

use crate::Runtime;
use crate::disk::Disk;
use crate::member::core::Core;
use crate::member::identity::is_founder;
use crate::transport::{NodeId, Transport};

/// The voters that the voter `id` may not know.
struct Unknown {
    id: u64,
    /// Voters before the change that `id` may not know.
    present: BTreeSet<u64>,
    /// Whether `id` answers this leader now.
    answers: bool,
}

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Notes the voters of the committed membership; returns for each an index at which it was a voter. Called before every
    /// change, so that a leader misses no change of its own.
    pub(crate) fn note_voters(&self) -> BTreeMap<u64, u64> {
        let committed = self.applied.membership();
        let at = committed.log_id().as_ref().map_or(0, |id| id.index);
        self.changes.voters_since.note(at, &committed.membership().voter_ids().collect())
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
            // A silent voter vouches for no other: removing it loses nothing. A voter that answers may vouch, even if this
            // leader knows little of its log: to a leader that was just elected all voters seem to be behind.
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
            // No voter knows the promoted voter yet. Those that answer and know the others will know it in a moment.
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

    /// Fails with the names of voters that answer and lack the entry of the last promotion: the voter to be removed may be
    /// the last that both they and the promoted voter know.
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
