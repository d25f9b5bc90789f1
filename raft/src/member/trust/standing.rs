//! Standing of peers: member, removed member or stranger, by the log applied here. Ends this member when it is removed.
//!
//! Owns that distinction. A member that takes part has its disk registered in the state (see identity), and names are never
//! used again: so a peer that is registered and in no membership was removed. No other record of removed members is
//! needed, and no crash can separate a removal from its record.
//!
//! - A member may send every request.
//! - A removed member may send an identity request alone, whose answer says that it was removed, and nothing else: no address,
//!   term or position, which the holder of its machine could use. Its open streams end when the removal is applied. It has
//!   to learn of its removal by asking, because no leader replicates to it any more.
//! - A stranger may be a leader that was added after the last entry of this member's log: it may send all requests but
//!   forwarded writes.
//!
//! Invariant: only a committed removal counts, so that a change that is taken back never locked a member out.

use std::sync::Arc;
use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;
use openraft_rt::Select2;
use orch_proto::store as wire;
use wire::control_request::Kind as Request;
use wire::control_response::Kind as Response;

use crate::Runtime;
use crate::disk::Disk;
use crate::key::Revision;
use crate::member::core::Core;
use crate::member::identity::registered;
use crate::member::network::control;
use crate::member::options::StartError;
use crate::transport::{NodeId, Peer, Transport};

/// Time between two requests by which a member asks whether it was removed. A removed member delays no other, so that a
/// second is soon enough.
const ASK_PERIOD: Duration = Duration::from_secs(1);

/// Time for one peer's answer; the next peer is asked a period later.
const ASK_TIMEOUT: Duration = Duration::from_millis(500);

/// Time for which a member runs on after it knows of its removal, so that the answer to the request for it still goes out.
const FAREWELL: Duration = Duration::from_millis(500);

/// A peer's relation to this cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// In the newest membership of the log, or in the newest one applied.
    Member,
    /// Registered, and in no membership.
    Removed,
    /// Neither registered nor in a membership.
    Stranger,
}

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// The standing of `node`, by the newest membership in the log and by the applied state.
    pub(crate) fn standing(&self, node: NodeId) -> Standing {
        if self.membership().membership().get_node(&node.0).is_some() {
            return Standing::Member;
        }
        // In this order: a state with a registration comes after the membership that let the member in.
        let is_registered = registered(&self.applied.state(), node).is_some();
        let is_applied_member = self.applied.membership().membership().get_node(&node.0).is_some();
        match (is_applied_member, is_registered) {
            (true, _) => Standing::Member,
            (false, true) => Standing::Removed,
            (false, false) => Standing::Stranger,
        }
    }

    /// Completes when the removal of `node` is applied here.
    pub(crate) async fn wait_removed(&self, node: NodeId) {
        let mut changes = self.raft.server_metrics();
        loop {
            let newest = self.membership();
            if newest.membership().get_node(&node.0).is_none() {
                let changed_at = newest.log_id().as_ref().map_or(0, |id| id.index);
                let applied = self.applied.gate().wait(Revision(changed_at));
                if let Select2::Second(changed) = R::select2(applied, changes.changed()).await {
                    if changed.is_err() {
                        return std::future::pending().await;
                    }
                    continue;
                }
                if self.standing(node) == Standing::Removed {
                    return;
                }
            }
            if changes.changed().await.is_err() {
                // The consensus task has ended, and this member with it.
                return std::future::pending().await;
            }
        }
    }

    /// Ends this member once it has applied its own removal, or peers have told it of the removal.
    pub(crate) async fn leave_when_removed(self: Arc<Self>) {
        R::select2(self.wait_removed(self.options.id()), self.hear_of_removal()).await;
        R::sleep(FAREWELL).await;
        self.fatal.report(StartError::Removed { name: self.options.node.name.to_string() });
    }

    /// Completes when peers have told this member of its removal: no leader sends a removed member the log entry that removes
    /// it. Asks one member after another, the leader first.
    async fn hear_of_removal(&self) {
        let mut turn = 0;
        loop {
            R::sleep(ASK_PERIOD).await;
            let mut peers = self.others();
            if peers.is_empty() && self.membership().membership().nodes().next().is_none() {
                // This member was added, and removed before a leader sent it anything.
                let told = self.options.initial_cluster.iter().chain(&self.options.join);
                peers.extend(told.filter(|peer| peer.id != self.options.id()).cloned());
            }
            if peers.is_empty() {
                continue;
            }
            let peer = &peers[turn % peers.len()];
            let answer = self.is_removed_according_to(peer).await;
            if answer.is_some_and(|says_so| self.note_removal_said(peer, says_so)) {
                return;
            }
            turn += 1;
        }
    }

    /// The other members, the leader first. While this member has no membership: the voters that enrolment noted.
    pub(crate) fn others(&self) -> Vec<Peer> {
        let membership = self.membership();
        let peers = membership.membership().nodes().map(|(id, place)| place.peer(*id));
        let mut peers: Vec<Peer> = peers.filter(|peer| peer.id != self.options.id()).collect();
        if membership.membership().nodes().next().is_none() {
            peers = self.joining.introduced();
        }
        let leader = self.leader().map(|leader| leader.peer.id);
        peers.sort_by_key(|peer| (Some(peer.id) != leader, peer.id));
        peers
    }

    /// Whether `peer` says that this member was removed; `None` when `peer` does not answer.
    pub(crate) async fn is_removed_according_to(&self, peer: &Peer) -> Option<bool> {
        let request = Request::Identity(wire::IdentityRequest { unconfirmed: true, about: 0 });
        let answer = control(&self.transport, peer, request, ASK_TIMEOUT).await;
        match answer {
            Ok(Response::Identity(answer)) => Some(answer.removed),
            _ => None,
        }
    }
}
