//! Handing over the lead.
//!
//! Owns the choice of a successor and the wait until it leads. Whoever gives up the lead says why: it shuts down, it is to
//! be removed (change), or its state is wrong (agreement).

use std::collections::BTreeSet;
use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;

use crate::Runtime;
use crate::disk::Disk;
use crate::member::core::{Core, within};
use crate::transport::{NodeId, Peer, Transport};

/// How long a leader waits for its successor to take over.
const HAND_OVER_TIMEOUT: Duration = Duration::from_secs(3);

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
}
