//! Leader transfer.
//!
//! Owns the choice of a successor and the wait until it leads. A leader hands over when it shuts down, when it is to be
//! removed (change), when its state is wrong (agreement), or when an operator asks.
//!
//! Once asked to hand over, the consensus library takes no more writes, but stays the leader by name until another is
//! elected. Where the successor does not take over and no other member stands for election, that would be for ever. So a
//! member that leads by name only for some seconds votes for another member in the next term: it becomes a follower, and may
//! be elected anew. A vote is not taken back, so this is as safe as any vote.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;
use openraft::raft::VoteRequest;

use crate::Runtime;
use crate::disk::Disk;
use crate::member::consensus::Vote;
use crate::member::core::{Core, within};
use crate::member::joining::enrolment::Backing;
use crate::member::reads::confirming::asking::{hands_over, reign};
use crate::transport::{NodeId, Peer, Transport};

/// How long a leader waits for its successor to take over.
const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(3);

/// Pause between two looks whether this member leads by name only.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// Looks in a row that find it so in the same term before the lead is given up: several elections.
const LOOKS_MAX: u32 = 3;

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// The member to hand over to: of the other voters that answer and are `fit`, the voter with most of the log.
    pub(crate) fn successor(&self, fit: impl Fn(NodeId) -> bool) -> Option<Peer> {
        let answering = self.answering();
        let own = self.options.id();
        let voters = self.status().members.into_iter().filter(|member| {
            let id = member.peer.id;
            member.voter && id != own && answering.contains(&id.0) && fit(id)
        });
        voters.max_by_key(|member| (member.matched, member.peer.id)).map(|member| member.peer)
    }

    /// The successor among the voters that answer that they may lead.
    pub(crate) async fn find_successor(&self, fit: impl Fn(NodeId) -> bool) -> Option<Peer> {
        let mut unfit = BTreeSet::new();
        loop {
            let found = self.successor(|id| fit(id) && !unfit.contains(&id))?;
            if self.may_lead(&found).await {
                return Some(found);
            }
            unfit.insert(found.id);
        }
    }

    /// Whether `peer` answers, is not quarantined, takes part and knows this member as one. Asked before the consensus library hands over, which gives
    /// up the lead whatever the successor answers.
    async fn may_lead(&self, peer: &Peer) -> bool {
        let answer = self.ask_identity(peer, Backing::OwnState).await;
        answer.is_some_and(|answer| !answer.quarantined && !answer.waiting && !answer.removed)
    }

    /// Asks `to` to take over, and does not wait until it leads.
    pub(crate) async fn transfer_leader(&self, to: NodeId) -> Result<(), String> {
        self.raft.trigger().transfer_leader(to.0).await.map_err(|error| error.to_string())
    }

    /// Asks `to` to take over, if it is a voter, answers and may lead. Checked first, because the consensus library stops
    /// leading even where the successor cannot take over.
    pub(crate) async fn give_lead(&self, to: NodeId) -> Result<(), String> {
        let status = self.status();
        let heir = status.members.iter().find(|member| member.peer.id == to && member.voter);
        let Some(heir) = heir else {
            return Err(format!("{} is no voter of the cluster", self.peer_name(to.0)));
        };
        if !self.answering().contains(&to.0) {
            return Err(format!("{} does not answer the leader", heir.peer.name));
        }
        if !self.may_lead(&heir.peer).await {
            return Err(format!("{} does not answer, or is quarantined", heir.peer.name));
        }
        self.transfer_leader(to).await
    }

    /// Gives the lead to `to` and waits until this member no longer leads.
    pub(crate) async fn hand_over(&self, to: &Peer) {
        let gone = async {
            if let Err(error) = self.transfer_leader(to.id).await {
                return tracing::warn!(%error, "could not hand over");
            }
            let mut metrics = self.raft.server_metrics();
            while self.leader().is_none_or(|leader| leader.local) {
                if metrics.changed().await.is_err() {
                    return;
                }
            }
        };
        if within::<R, _>(HAND_OVER_TIMEOUT, gone).await.is_none() {
            tracing::warn!(to = %to.name, "nobody took over in time");
        }
    }

    /// Gives up leads that are held by name only, for as long as the member lives.
    pub(crate) async fn give_up_vain_leads(self: Arc<Self>) {
        let (mut found, mut looks) = (None, 0);
        loop {
            R::sleep(LOOK_PERIOD).await;
            let before = std::mem::replace(&mut found, self.led_by_name_only().await);
            looks = if found.is_some() && found == before { looks + 1 } else { 0 };
            if looks >= LOOKS_MAX {
                self.give_up_lead().await;
                looks = 0;
            }
        }
    }

    /// The term in which this member leads by name only: it has handed over and takes no writes.
    async fn led_by_name_only(&self) -> Option<u64> {
        let leader = self.leader().filter(|leader| leader.local)?;
        hands_over(&self.raft).await.then_some(leader.term)
    }

    /// Votes for another member in the next term. Of no effect where a leader has been elected meanwhile.
    async fn give_up_lead(&self) {
        let own = self.options.id().0;
        let Ok(reign) = reign(&self.raft, own).await else { return };
        let membership = reign.membership.membership();
        let Some((other, _)) = membership.nodes().find(|(id, _)| **id != own) else { return };
        let mut vote = Vote::new(reign.vote.leader_id.term.saturating_add(1), *other);
        vote.committed = false;
        let mut request = VoteRequest::new(vote, reign.last);
        // Otherwise the library refuses the vote while a leader is there, which is this member.
        request.leadership_transfer = true;
        match self.raft.vote(request).await {
            Ok(_) => {
                tracing::warn!("nobody took over: this member gives up the lead, and may be elected anew")
            }
            Err(error) => self.fatal.report(error),
        }
    }
}
