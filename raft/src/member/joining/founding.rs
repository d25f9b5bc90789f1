//! Founding a cluster: one explicit act of an operator, decided by one founder, recorded on every founder's disk.
//!
//! An operator asks for it once ([`Core::found`]), at any founder. The founder with the lowest id decides, and only when
//! every founder answers it, waits with an empty disk, and was told of the same founders:
//!
//!     operator -> any founder -> first founder: asks all, writes the founding to its disk = decided
//!     every other founder: asks all, finds the founding with its own disk in it, writes it to its disk
//!     each: takes part from then on, with the founders of the founding as the first membership
//!
//! The founding names each founder's disk, and the first transaction of the cluster registers all of them. So there is
//! no moment at which an emptied disk would be taken for one that starts late, and no member starts a cluster because of
//! its flags. The argument stands in docs/decisions/0016.
//!
//! Invariant: one founder decides, so no two foundings of the same founders are decided while its disk lasts.
//! Invariant: a member takes part in a founding only if the founding names the very disk it has.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use futures::future::join_all;
use openraft::errors::{InitializeError, RaftError};
use openraft_rt::Instant;
use orch_proto::store as wire;
use wire::control_request::Kind as Request;
use wire::control_response::Kind as Response;
use wire::found_response::Outcome;

use crate::Runtime;
use crate::disk::Disk;
use crate::member::codec::{peer_from_wire, peer_to_wire};
use crate::member::consensus::Place;
use crate::member::core::Core;
use crate::member::joining::enrolment::Backing;
use crate::member::network::{ControlError, control};
use crate::transport::{NodeId, Peer, Transport, TransportError};

/// Time for the first founder to decide: it asks all the others, each within a second, and syncs its disk.
const FOUND_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a single founder listens before it decides. If its cluster has grown and its disk has lost that, the leader
/// sends it heartbeats, and connects anew at least twice a second.
pub(crate) const LISTEN_ALONE: Duration = Duration::from_secs(1);

/// How long a request to a waiting member counts as evidence of a running cluster: a leader sends several in a second.
const SPEAKER_AGE: Duration = Duration::from_secs(10);

/// Names kept of peers that are no members, for messages: certificates of one authority are few.
const NAMES_MAX: usize = 64;

/// The error of founding a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FoundError {
    /// This call has certainly not founded the cluster.
    #[error("not founded: {reason}")]
    Refused {
        /// Why: a founder does not answer, or has data.
        reason: String,
    },
    /// The cluster may have been founded; asking again tells.
    #[error("outcome unknown: {reason}")]
    Unknown {
        /// The failure: a lost answer, a failed write.
        reason: String,
    },
}

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// Founds the cluster of this member's founders, unless it has been founded.
    pub(crate) async fn found(&self) -> Result<(), FoundError> {
        let refused = |reason: String| FoundError::Refused { reason };
        let Some(first) = self.options.initial_cluster.iter().min_by_key(|peer| peer.id) else {
            return Err(refused("this member was told of no founders; it joins a cluster".to_owned()));
        };
        if first.id == self.options.id() {
            return self.decide_founding().await;
        }
        match control(&self.transport, first, Request::Found(wire::FoundRequest {}), FOUND_TIMEOUT).await {
            Ok(Response::Found(wire::FoundResponse { outcome: Some(Outcome::Done(_)) })) => Ok(()),
            Ok(Response::Found(wire::FoundResponse { outcome: Some(Outcome::Refused(reason)) })) => {
                Err(refused(reason))
            }
            Ok(Response::Found(wire::FoundResponse { outcome: Some(Outcome::Unknown(reason)) })) => {
                Err(FoundError::Unknown { reason })
            }
            Ok(_) => Err(refused(format!("{} answered something else", first.name))),
            Err(ControlError::Transport(
                TransportError::Unreachable { .. } | TransportError::Refused { .. },
            )) => Err(refused(format!("{} does not answer", first.name))),
            Err(error) => Err(FoundError::Unknown { reason: error.to_string() }),
        }
    }

    /// Answers another founder's request.
    pub(crate) async fn answer_found(&self) -> wire::FoundResponse {
        let outcome = match self.decide_founding().await {
            Ok(()) => Outcome::Done(wire::Done {}),
            Err(FoundError::Refused { reason }) => Outcome::Refused(reason),
            Err(FoundError::Unknown { reason }) => Outcome::Unknown(reason),
        };
        wire::FoundResponse { outcome: Some(outcome) }
    }

    /// As the first founder: decides, and saves the founding on its disk.
    async fn decide_founding(&self) -> Result<(), FoundError> {
        let _alone = self.joining.deciding.lock().await;
        if self.identity().founding.is_some() {
            return Ok(());
        }
        let founding = self.agree_on_founding().await.map_err(|reason| FoundError::Refused { reason })?;
        tracing::info!(founders = founding.founders.len(), "founding the cluster");
        // A write that failed may have reached the disk all the same.
        self.enter(founding).await.map_err(|error| FoundError::Unknown { reason: error.to_string() })
    }

    /// Asks every other founder for its disk. Fails with the reason when one of them does not agree, or a running cluster
    /// speaks to this member.
    async fn agree_on_founding(&self) -> Result<wire::Founding, String> {
        if self.joining.is_enrolled() {
            return Err("this member belongs to a cluster that was not founded by its founders".to_owned());
        }
        let founders = &self.options.initial_cluster;
        if founders.iter().map(|peer| peer.id).min() != Some(self.options.id()) {
            return Err("this member is not the first of its founders".to_owned());
        }
        let others = founders.iter().filter(|peer| peer.id != self.options.id());
        let asked =
            others.map(|peer| async move { (peer, self.ask_identity(peer, Backing::OwnState).await) });
        let mut decided = vec![founder(&self.options.node, self.identity().directory)];
        for (peer, answer) in join_all(asked).await {
            let answer = answer.ok_or_else(|| format!("{} does not answer", peer.name))?;
            decided.push(founder(peer, self.agreeing_disk(peer, answer)?));
        }
        if founders.len() == 1 && self.options.listens_alone {
            // There is no other founder to ask: listen for a cluster that this disk may have forgotten.
            R::sleep(LISTEN_ALONE).await;
        }
        // A running cluster speaks only to its members, so it knows this member, with another disk.
        if let Some(speaker) = self.speaker() {
            return Err(format!(
                "member {speaker} of a running cluster speaks to this one; if it belongs to none, stop it"
            ));
        }
        Ok(wire::Founding { cluster: self.options.seed.cluster.to_string(), founders: decided })
    }

    /// The data directory of another founder, by its answer. Fails with the reason when a cluster must not be founded.
    fn agreeing_disk(&self, peer: &Peer, answer: wire::IdentityResponse) -> Result<String, String> {
        let name = &peer.name;
        let own: BTreeSet<u64> = self.options.initial_cluster.iter().map(|peer| peer.id.0).collect();
        let theirs: BTreeSet<u64> = answer.founders.into_iter().collect();
        let identity = answer.identity.unwrap_or_default();
        match () {
            () if !answer.directory.is_empty() => Err(format!("{name} knows this member from a cluster")),
            () if !answer.waiting => Err(format!("{name} belongs to a cluster already")),
            () if own != theirs => Err(format!("{name} was told of other founders")),
            () if identity.node != peer.id.0 || identity.directory.is_empty() => {
                Err(format!("{name} does not say which disk it has"))
            }
            () => Ok(identity.directory),
        }
    }

    /// Takes part in a founding: writes it to the disk, then enters the cluster's first membership.
    ///
    /// # Errors
    /// The write failed, and this member ends.
    pub(crate) async fn enter(&self, founding: wire::Founding) -> io::Result<()> {
        let write = |identity: &mut wire::Identity| {
            identity.cluster.clone_from(&founding.cluster);
            identity.founding = Some(founding);
        };
        self.change_identity(write).await?;
        self.enter_first_membership().await;
        Ok(())
    }

    /// Writes the first membership to the log. The founding is on the disk already.
    pub(crate) async fn enter_first_membership(&self) {
        let founding = self.identity().founding.unwrap_or_default();
        let peers = founding.founders.into_iter().filter_map(|founder| founder.member).map(peer_from_wire);
        let peers: Vec<Peer> = peers.collect();
        let members: BTreeMap<u64, Place> = peers.iter().map(|peer| (peer.id.0, Place::of(peer))).collect();
        // Until the membership is in the log, only these peers may have this member's vote.
        *self.joining.introduced.lock() =
            peers.into_iter().filter(|peer| peer.id != self.options.id()).collect();
        self.joining.enrol();
        match self.raft.initialize(members).await {
            // Another founder may have been elected and sent us its log meanwhile.
            Ok(()) | Err(RaftError::APIError(InitializeError::NotAllowed(_))) => {}
            Err(error) => self.fatal.report(format!("cannot found the cluster: {error}")),
        }
    }

    /// Notes a request of `from` to this waiting member, other than identity, feature level and founding, if it shows a
    /// running cluster: `from` is a founder, or knows this member with another disk. Founders send such requests also in
    /// the moment in which they have the founding and this member does not. Any other sender only holds a certificate.
    pub(crate) fn note_speaker(&self, from: NodeId, recall: Option<&wire::Recall>) {
        let is_founder = self.options.initial_cluster.iter().any(|founder| founder.id == from);
        let own = self.identity().directory;
        let knows_other =
            recall.is_some_and(|recall| !recall.directory.is_empty() && recall.directory != own);
        if is_founder || knows_other {
            self.joining.spoken_to_by.lock().replace((from, R::Instant::now()));
        }
    }

    /// The name of the last noted sender; `None` once its request is older than `SPEAKER_AGE`.
    fn speaker(&self) -> Option<String> {
        let spoken = *self.joining.spoken_to_by.lock();
        let (speaker, _) = spoken.filter(|(_, at)| at.elapsed() < SPEAKER_AGE)?;
        Some(self.name_heard(speaker))
    }

    /// Remembers the name in the certificate of `id`, which is no member here.
    pub(crate) fn note_name(&self, id: NodeId, name: &str) {
        let mut names = self.joining.names_heard.lock();
        if names.len() < NAMES_MAX {
            names.entry(id).or_insert_with(|| name.into());
        }
    }

    /// The name of `id` for the log and for operators: from the membership, the flags, or its certificate.
    pub(crate) fn name_heard(&self, id: NodeId) -> String {
        let founders = &self.options.initial_cluster;
        let told = founders.iter().chain(&self.options.join).find(|peer| peer.id == id);
        let told =
            told.map(|peer| peer.name.clone()).or_else(|| self.joining.names_heard.lock().get(&id).cloned());
        told.map_or_else(|| self.peer_name(id.0), |name| name.to_string())
    }

    /// Logs that this member waits, and what its operator can do.
    pub(crate) fn log_waiting(&self, answers: usize, asked: usize) {
        match self.speaker().filter(|_| !self.options.initial_cluster.is_empty()) {
            Some(speaker) => tracing::warn!(
                speaker,
                "a member of a running cluster speaks to this one, which has an empty disk: if it had data, it has \
                 lost it; remove it from the cluster and add one with a new name"
            ),
            None => tracing::info!(
                answers,
                asked,
                "waiting: a new cluster is founded by `orch cluster found`, a running one takes this member in"
            ),
        }
    }
}

fn founder(peer: &Peer, directory: String) -> wire::Founder {
    wire::Founder { member: Some(peer_to_wire(peer)), directory }
}
