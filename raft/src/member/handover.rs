//! Handing over the lead.
//!
//! Owns the choice of a successor and the wait until it leads. Whoever gives up the lead says why: it shuts down, it is to
//! be removed (change), or its state is wrong (agreement).
//!
//! To the consensus library a lead is given up when it is asked to hand over: it takes no writes from then on, and leads on
//! by name until another is elected. Where the successor did not take over and nobody else stands for election, that is never.
//! So whoever leads by name only for some seconds gives its vote to another in the next term: it follows, and may be elected anew.
//! A vote is not taken back, so this is as safe as any vote.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;
use openraft::raft::VoteRequest;

use crate::Runtime;
use crate::disk::Disk;
use crate::member::confirming::{hands_over, reign};
use crate::member::consensus::Vote;
use crate::member::core::{Core, within};
use crate::transport::{NodeId, Peer, Transport};

/// How long a leader waits for its successor to take over.
const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(3);

/// Between two looks at a lead that is held by name only.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// Looks in a row that find the same one before it is given up: several elections.
const LOOKS_MAX: u32 = 3;

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// The member to hand over to: of the other voters that answer and that are `fit`, the one with most of the log.
    pub(crate) fn successor(&self, fit: impl Fn(NodeId) -> bool) -> Option<Peer> {
        let answering = self.answering();
        let own = self.options.id();
        let voters = self.status().members.into_iter().filter(|member| {
            let id = member.peer.id;
            member.voter && id != own && answering.contains(&id.0) && fit(id)
        });
        voters.max_by_key(|member| (member.matched, member.peer.id)).map(|member| member.peer)
    }

    /// The successor among the voters that say that they may lead.
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

    /// Whether `peer` answers and would take the lead. Asked before the consensus library hands over, which gives up the lead
    /// whatever the successor answers.
    async fn may_lead(&self, peer: &Peer) -> bool {
        let answer = self.ask_identity(peer, true).await;
        answer.is_some_and(|answer| !answer.quarantined && !answer.waiting)
    }

    /// Asks `to` to take over. It has been asked when this returns.
    pub(crate) async fn transfer_leader(&self, to: NodeId) -> Result<(), String> {
        self.raft.trigger().transfer_leader(to.0).await.map_err(|error| error.to_string())
    }

    /// Asks `to` to take over, if it could lead. A leader that asks nobody stops to lead all the same.
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

    /// The term in which this member leads and takes no writes, having handed over.
    async fn led_by_name_only(&self) -> Option<u64> {
        let leader = self.leader().filter(|leader| leader.local)?;
        hands_over(&self.raft).await.then_some(leader.term)
    }

    /// Votes for another member in the next term. Of no effect where somebody has been elected meanwhile.
    async fn give_up_lead(&self) {
        let own = self.options.id().0;
        let Ok(reign) = reign(&self.raft, own).await else { return };
        let membership = reign.membership.membership();
        let Some((other, _)) = membership.nodes().find(|(id, _)| **id != own) else { return };
        let mut vote = Vote::new(reign.vote.leader_id.term.saturating_add(1), *other);
        vote.committed = false;
        let mut request = VoteRequest::new(vote, reign.last);
        // The leader that has to agree is this one.
        request.leadership_transfer = true;
        match self.raft.vote(request).await {
            Ok(_) => {
                tracing::warn!("nobody took over: this member gives up the lead, and may be elected anew")
            }
            Err(error) => self.fatal.report(error),
        }
    }
}
