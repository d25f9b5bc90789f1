//! Whether a member with an empty disk may take part.
//!
//! Owns the decision between a new cluster, a new member, and a member that lost its data. The last must never vote or
//! acknowledge again under its name: entries it once acknowledged may be on one other disk only. Until the decision this
//! member answers nothing but the question that others decide by.
//!
//! - A majority of the founders, this member included, whose logs no leader ever wrote to: a new cluster. Found it.
//! - A member that has a leader behind it and does not know this one with another disk: join and be replicated to.
//! - A member that knows this one with another disk: refuse to start.
//!
//! Invariant: what a disk holds decides; configuration and clocks do not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::join_all;
use openraft::errors::{InitializeError, RaftError};
use orch_proto::store as wire;
use wire::control_request::Kind as Request;
use wire::control_response::Kind as Response;

use crate::Runtime;
use crate::disk::Disk;
use crate::member::codec::stored_membership_to_wire;
use crate::member::consensus::Place;
use crate::member::core::{Core, within};
use crate::member::identity::{ClusterIdentity, founding, registered, registration, save};
use crate::member::network::control;
use crate::member::options::StartError;
use crate::store::ProposeError;
use crate::transaction::Transaction;
use crate::transport::{NodeId, Peer, Transport};

/// Between two rounds of asking everyone. They may start in any order, minutes apart.
const ASK_PAUSE: Duration = Duration::from_millis(100);

/// One member's answer; includes its own question to its leader.
const ASK_TIMEOUT: Duration = Duration::from_secs(1);

/// How long a member asked may take to hear from its leader.
const CONFIRM_TIMEOUT: Duration = Duration::from_millis(700);

/// Between two attempts to write what the cluster is to know of this member.
const WRITE_PAUSE: Duration = Duration::from_millis(200);

/// A log that ends here has at most the founding membership in it, which every founder writes for itself.
const FRESH_LOG_END: u64 = 1;

/// What the answers of one round say.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    Found,
    Join,
    LostData,
    /// Not enough answers.
    Ask,
}

fn decide(answers: &[wire::IdentityResponse], own_directory: &str, founders: usize) -> Decision {
    let other_disk =
        |answer: &wire::IdentityResponse| !answer.directory.is_empty() && answer.directory != own_directory;
    if answers.iter().any(other_disk) {
        return Decision::LostData;
    }
    if answers.iter().any(|answer| answer.confirmed) {
        return Decision::Join;
    }
    let fresh = 1 + answers.iter().filter(|answer| answer.log_end <= FRESH_LOG_END).count();
    if fresh > founders / 2 && founders > 0 { Decision::Found } else { Decision::Ask }
}

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Decides whether this member takes part, founds the cluster if that is its part, then keeps the identities.
    pub(crate) async fn take_part(self: Arc<Self>) {
        if !self.admitted.load(Ordering::Acquire) && !self.admit().await {
            return;
        }
        self.make_known().await;
    }

    /// Returns `false` when this member must not take part.
    async fn admit(&self) -> bool {
        let founders = &self.options.initial_cluster;
        let asked: Vec<&Peer> = founders.iter().chain(&self.options.join).collect();
        let asked: Vec<&Peer> = asked.into_iter().filter(|peer| peer.id != self.options.id()).collect();
        let mut rounds = 0u64;
        loop {
            let answers = join_all(asked.iter().map(|peer| self.ask_identity(peer))).await;
            let answers: Vec<wire::IdentityResponse> = answers.into_iter().flatten().collect();
            // Whoever joins without anyone to ask is found by the leader that it was added to.
            let decision = match asked.is_empty() && founders.is_empty() {
                true => Decision::Join,
                false => decide(&answers, &self.identity().directory, founders.len()),
            };
            match decision {
                Decision::Found => return self.found().await,
                Decision::Join if !self.supports_level_of(&asked).await => return false,
                Decision::Join => {
                    self.admitted.store(true, Ordering::Release);
                    return true;
                }
                Decision::LostData => {
                    let name = self.options.node.name.to_string();
                    self.fatal.report(StartError::LostData { name });
                    return false;
                }
                Decision::Ask => {}
            }
            if rounds.is_multiple_of(100) {
                tracing::info!(answers = answers.len(), asked = asked.len(), "waiting for other members");
            }
            rounds += 1;
            R::sleep(ASK_PAUSE).await;
        }
    }

    async fn found(&self) -> bool {
        self.admitted.store(true, Ordering::Release);
        let members: BTreeMap<u64, Place> =
            self.options.initial_cluster.iter().map(|peer| (peer.id.0, Place::of(peer))).collect();
        match self.raft.initialize(members).await {
            // Another founder may have been elected and sent us its log meanwhile.
            Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => true,
            Err(error) => {
                self.fatal.report(format!("cannot found the cluster: {error}"));
                false
            }
        }
    }

    async fn ask_identity(&self, peer: &Peer) -> Option<wire::IdentityResponse> {
        let request = Request::Identity(wire::IdentityRequest {});
        match control(&self.transport, peer, request, ASK_TIMEOUT).await {
            Ok(Response::Identity(answer)) => Some(answer),
            Ok(_) => None,
            Err(error) => {
                tracing::debug!(peer = %peer.name, %error, "asking for the cluster");
                None
            }
        }
    }

    /// Answers what other members decide by.
    pub(crate) async fn answer_identity(&self, asker: NodeId) -> wire::IdentityResponse {
        let confirmed = match self.admitted.load(Ordering::Acquire) && self.leader().is_some() {
            true => within::<R, _>(CONFIRM_TIMEOUT, self.barrier()).await.is_some_and(|read| read.is_ok()),
            false => false,
        };
        let last = self.raft.metrics();
        let last = openraft::async_runtime::watch::WatchReceiver::borrow_watched(&last).last_log_index;
        wire::IdentityResponse {
            identity: Some(self.identity()),
            membership: Some(stored_membership_to_wire(&self.applied.membership())),
            log_end: last.map_or(0, |last| last.saturating_add(1)),
            directory: registered(&self.applied.state(), asker).unwrap_or_default(),
            confirmed,
        }
    }

    /// This member's identity, as its disk has it.
    pub(crate) fn identity(&self) -> wire::Identity {
        self.identity.lock().clone()
    }

    /// Sees to it that the cluster has an identity, that this disk remembers it, and that the cluster knows this disk.
    async fn make_known(&self) {
        let now_ms = || (self.options.clock)();
        let cluster = loop {
            if let Some(cluster) = ClusterIdentity::read(&self.applied.state()) {
                break cluster;
            }
            if self.leader().is_some_and(|leader| leader.local) {
                self.write(founding(&self.options.seed, now_ms())).await;
            }
            R::sleep(WRITE_PAUSE).await;
        };
        if !self.remember(&cluster).await {
            return;
        }
        let directory = self.identity().directory;
        loop {
            match registered(&self.applied.state(), self.options.id()) {
                Some(known) if known == directory => return,
                Some(_) => {
                    let name = self.options.node.name.to_string();
                    return self.fatal.report(StartError::LostData { name });
                }
                None => self.write(registration(self.options.id(), &directory, now_ms())).await,
            }
            R::sleep(WRITE_PAUSE).await;
        }
    }

    /// Writes something once; whoever calls looks whether it is there and tries again.
    async fn write(&self, transaction: Transaction) {
        match self.propose(transaction).await {
            Ok(_) => {}
            Err(
                error @ (ProposeError::NotProposed { .. }
                | ProposeError::NoSpace { .. }
                | ProposeError::Unknown { .. }),
            ) => {
                tracing::debug!(%error, "writing an identity");
            }
            Err(error @ (ProposeError::TooLarge { .. } | ProposeError::Refused { .. })) => {
                self.fatal.report(error);
            }
        }
    }

    /// Notes the cluster on the disk; returns `false` when the disk is another cluster's.
    async fn remember(&self, cluster: &ClusterIdentity) -> bool {
        let mut identity = self.identity();
        if *identity.cluster == *cluster.cluster {
            return true;
        }
        if !identity.cluster.is_empty() {
            let (found, expected) = (identity.cluster, cluster.cluster.to_string());
            self.fatal.report(StartError::WrongCluster { found, expected });
            return false;
        }
        identity.cluster = cluster.cluster.to_string();
        identity.brand = cluster.brand.to_string();
        let saved = save(&*self.disk, &identity).await;
        *self.identity.lock() = identity;
        self.fatal.disk(saved).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(log_end: u64, directory: &str, confirmed: bool) -> wire::IdentityResponse {
        wire::IdentityResponse {
            log_end,
            directory: directory.into(),
            confirmed,
            ..wire::IdentityResponse::default()
        }
    }

    #[test]
    fn a_majority_of_untouched_disks_found_a_cluster() {
        assert_eq!(decide(&[], "d", 1), Decision::Found);
        assert_eq!(decide(&[], "d", 3), Decision::Ask);
        assert_eq!(decide(&[answer(0, "", false)], "d", 3), Decision::Found);
        assert_eq!(decide(&[answer(1, "", false)], "d", 3), Decision::Found, "another has just founded it");
        assert_eq!(decide(&[answer(1, "", false)], "d", 5), Decision::Ask);
    }

    #[test]
    fn a_log_with_entries_is_joined_only_with_its_leader_behind_it() {
        assert_eq!(decide(&[answer(9, "", false)], "d", 3), Decision::Ask);
        assert_eq!(decide(&[answer(9, "", false), answer(9, "", true)], "d", 3), Decision::Join);
        assert_eq!(decide(&[answer(9, "d", true)], "d", 3), Decision::Join);
        assert_eq!(decide(&[], "d", 0), Decision::Ask);
    }

    #[test]
    fn a_member_known_with_another_disk_is_refused() {
        assert_eq!(decide(&[answer(0, "", false), answer(9, "old", false)], "d", 3), Decision::LostData);
    }
}
