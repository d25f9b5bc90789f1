//! Who belongs to the cluster, as this member has applied it, and the end of those who no longer do.
//!
//! Owns the difference between a member, a removed member and a stranger. A member that takes part has its disk
//! registered in the state (see identity), and names are never used again: so whoever is registered and in no membership
//! was removed. Nothing else has to be kept of removed members, and no crash can separate a removal from its record.
//!
//! - A member may do everything that peers do.
//! - A removed member may ask for the identity of the cluster, which tells it that it was removed, and nothing else. Its
//!   open streams end when the removal is applied. It stops by itself, because nobody replicates to it any more.
//! - A stranger may be a leader that is newer than what this member knows: it may do all but forward writes.
//!
//! Invariant: only a committed removal counts, so that a change that is taken back never locked anybody out.

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

/// Time between two questions of a member whether it still is one. A removed member delays no other, so seconds do.
const ASK_PERIOD: Duration = Duration::from_secs(1);

/// Time for one peer's answer; the next peer is asked a period later.
const ASK_TIMEOUT: Duration = Duration::from_millis(500);

/// From the moment a member knows of its removal to its end: the answer to whoever asked for the removal may go out.
const FAREWELL: Duration = Duration::from_millis(500);

/// What a peer is to this cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// In the newest membership of the log, or in the newest one applied.
    Member,
    /// Registered, and in no membership.
    Removed,
    /// Never heard of.
    Stranger,
}

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// What `node` is to the cluster, as far as this member has applied the log.
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

    /// Ends this member once it was removed: as it has applied itself, or as a peer tells it.
    pub(crate) async fn leave_when_removed(self: Arc<Self>) {
        R::select2(self.wait_removed(self.options.id()), self.hear_of_removal()).await;
        R::sleep(FAREWELL).await;
        self.fatal.report(StartError::Removed { name: self.options.node.name.to_string() });
    }

    /// Asks one member after another, the leader first. Whoever was removed gets no log that would say so.
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

    /// The other members, the leader first. Before this member has any log: the voters that enrolment noted.
    pub(crate) fn others(&self) -> Vec<Peer> {
        let membership = self.membership();
        let peers = membership.membership().nodes().map(|(id, place)| place.peer(*id));
        let mut peers: Vec<Peer> = peers.filter(|peer| peer.id != self.options.id()).collect();
        if membership.membership().nodes().next().is_none() {
            peers.clone_from(&self.introduced.lock());
        }
        let leader = self.leader().map(|leader| leader.peer.id);
        peers.sort_by_key(|peer| (Some(peer.id) != leader, peer.id));
        peers
    }

    /// Whether `peer` says that this member was removed; `None` when `peer` does not answer.
    async fn is_removed_according_to(&self, peer: &Peer) -> Option<bool> {
        let request = Request::Identity(wire::IdentityRequest { unconfirmed: true, about: 0 });
        let answer = control(&self.transport, peer, request, ASK_TIMEOUT).await;
        match answer {
            Ok(Response::Identity(answer)) => Some(answer.removed),
            _ => None,
        }
    }
}
