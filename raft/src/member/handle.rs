//! The handle on a running member, which the API and the node binary call.
//!
//! Owns the deadlines of proposals and digests. It has no state; clones are cheap.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft_rt::Instant;
use orch_proto::store as wire;
use orch_spans::TraceContext;
use wire::change_request::Kind as MembershipChange;
use wire::control_request::Kind as Request;
use wire::control_response::Kind as Response;
use wire::digest_response::Outcome as DigestOutcome;

use crate::Runtime;
use crate::digest::{Digest, DigestError, digest};
use crate::disk::Disk;
use crate::interest::{Interest, Subscription};
use crate::key::Revision;
use crate::member::codec::peer_to_wire;
use crate::member::core::{Core, within};
use crate::member::counters::since;
use crate::member::figures::Figures;
use crate::member::identity::{CLUSTER_RESOURCE, ClusterIdentity, DiskIdentity, node_id};
use crate::member::joining::founding::FoundError;
use crate::member::membership::change::ChangeError;
use crate::member::network::control;
use crate::member::status::Status;
use crate::member::trust::standing::Standing;
use crate::state::{Change, Collection, Compacted, State};
use crate::store::{ProposeError, ReadError, Store};
use crate::transaction::{Outcome, Transaction};
use crate::transport::{Known, NodeId, Peer, Transport};

/// How long a proposal may wait to be sent: several elections on a slow machine.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a proposal may take in all, before its outcome is called unknown.
const OUTCOME_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for a peer's digest: it reads its whole state.
const DIGEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A handle on a running member. Cheap to clone.
pub struct Handle<R: Runtime, D: Disk, T: Transport>(pub(crate) Arc<Core<R, D, T>>);

impl<R: Runtime, D: Disk, T: Transport> Clone for Handle<R, D, T> {
    fn clone(&self) -> Self {
        Handle(self.0.clone())
    }
}

impl<R: Runtime, D: Disk, T: Transport> Store for Handle<R, D, T> {
    fn state(&self) -> Arc<State> {
        self.0.applied.state()
    }

    async fn propose_traced(
        &self,
        transaction: Transaction,
        trace: Option<TraceContext>,
    ) -> Result<Outcome, ProposeError> {
        let (began, under_way) = (R::Instant::now(), self.0.counters.begin_proposal());
        let result = self.0.propose_for_client(transaction, trace).await;
        under_way.end();
        self.0.counters.note_proposal(&result, since::<R>(began));
        result
    }

    async fn barrier(&self) -> Result<Revision, ReadError> {
        let revision = self.0.barrier().await?;
        self.0.agreement.may_serve()?;
        Ok(revision)
    }

    async fn wait_applied(&self, at_least: Revision, timeout: Duration) -> bool {
        within::<R, _>(timeout, self.0.applied.gate().wait(at_least)).await.is_some()
    }

    fn subscribe_to(&self, resource: &Arc<str>, interest: Interest) -> Subscription {
        self.0.applied.subscribe(resource, interest)
    }

    fn past_changes(&self, resource: &Arc<str>, after: Revision) -> Result<Arc<[Change]>, Compacted> {
        self.0.applied.past_changes(resource, after)
    }

    async fn collection_at(
        &self,
        resource: &Arc<str>,
        revision: Revision,
    ) -> Result<Arc<Collection>, Compacted> {
        self.0.applied.collection_at(resource, revision).await
    }

    fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send {
        R::sleep(duration)
    }

    fn elapsed(&self) -> Duration {
        self.0.started.elapsed()
    }

    fn may_serve(&self) -> Result<(), ReadError> {
        self.0.agreement.may_serve()
    }

    fn revocations(&self) -> u64 {
        self.0.agreement.revocations()
    }

    fn is_short_of_space(&self) -> bool {
        self.0.space.is_short()
    }

    fn is_leader(&self) -> bool {
        self.0.leader().is_some_and(|leader| leader.local) && !self.0.agreement.is_quarantined()
    }
}

impl<R: Runtime, D: Disk, T: Transport> Handle<R, D, T> {
    /// The status of this member and of its cluster, as this member sees them now.
    pub fn status(&self) -> Status {
        self.0.status()
    }

    /// Has `make` report of this program to the statuses of other members: a JSON object of at most 16 KiB; a longer one is not sent. Called
    /// every two seconds for each of them, on a task of the store: it must not wait. The first call counts.
    pub fn report_by(&self, make: impl Fn() -> Bytes + Send + Sync + 'static) {
        // A member has one program, which calls this when it starts.
        let _ = self.0.reporter.set(Box::new(make));
    }

    /// The figures of this member now, for metrics. Looks up the bounds of the log on the disk.
    pub fn figures(&self) -> Figures {
        self.0.figures()
    }

    /// The cluster's identity; `None` until the first leader has written it.
    pub fn cluster(&self) -> Option<ClusterIdentity> {
        ClusterIdentity::read(&self.state())
    }

    /// Founds the cluster of the founders this member was started with: once, by an operator's decision. Every founder
    /// must run, with an empty disk and told of the same founders. Doing it again does nothing.
    ///
    /// # Errors
    /// A founder is missing or has data, or the answer of the deciding founder was lost.
    pub async fn found(&self) -> Result<(), FoundError> {
        self.0.found().await
    }

    /// Waits until the cluster has an identity and this start of the member is registered in it: before that the member
    /// is not ready. `None` when the member ends first.
    pub async fn wait_cluster(&self) -> Option<ClusterIdentity> {
        let mut changes = self.subscribe(&Arc::from(CLUSTER_RESOURCE));
        loop {
            match self.cluster() {
                Some(cluster) if self.0.is_registered() => return Some(cluster),
                _ => changes.changed().await?,
            };
        }
    }

    /// The member and cluster that own this data directory, as its disk says. The cluster's name and brand are `None` until
    /// this member knows them.
    pub fn identity(&self) -> DiskIdentity {
        DiskIdentity::of(self.0.identity())
    }

    /// The standing of a peer whose certificate has `name`, and which sends `id`. The configuration has no say: a founder's
    /// name grants nothing once the cluster is without that founder.
    pub fn known(&self, id: NodeId, name: &str) -> Known {
        if node_id(name) != id {
            return Known::Impostor;
        }
        match self.0.standing(id) {
            Standing::Member => Known::Member,
            Standing::Removed => Known::Removed,
            Standing::Stranger => {
                self.0.note_name(id, name);
                Known::Stranger
            }
        }
    }

    /// Adds a learner, which receives the log but does not vote. Returns when the leader has committed the change.
    ///
    /// # Errors
    /// The leader refused, or did not answer.
    pub async fn add_learner(&self, peer: &Peer) -> Result<(), ChangeError> {
        self.0.change(MembershipChange::AddLearner(peer_to_wire(peer))).await
    }

    /// Makes a learner a voter.
    ///
    /// # Errors
    /// The leader refused, or did not answer.
    pub async fn promote(&self, member: NodeId) -> Result<(), ChangeError> {
        self.0.change(MembershipChange::Promote(member.0)).await
    }

    /// Removes a member. Its name is never used again.
    ///
    /// # Errors
    /// The leader refused, or did not answer.
    pub async fn remove(&self, member: NodeId) -> Result<(), ChangeError> {
        self.0.change(MembershipChange::Remove(member.0)).await
    }

    /// Asks all other members once, for the status to tell which of them answer. Takes two seconds at most. Returns a member
    /// that says that this one was removed, long before this one believes it: its view of the cluster is one from before.
    pub async fn survey(&self) -> Option<Peer> {
        self.0.survey().await
    }

    /// Whether this member knows that it was removed from its cluster. It ends soon after it knows.
    pub fn is_removed(&self) -> bool {
        self.0.standing(self.0.options.id()) == Standing::Removed
    }

    /// Takes back a change of the voters that was begun and not completed.
    ///
    /// # Errors
    /// The leader refused, or did not answer; or no change is under way.
    pub async fn undo_change(&self) -> Result<(), ChangeError> {
        self.0.change(MembershipChange::Undo(wire::Done {})).await
    }

    /// Asks the leader to hand over to `member`, and does not wait until it has; the status tells the new leader.
    ///
    /// # Errors
    /// The leader refused, or did not answer.
    pub async fn transfer_leader(&self, member: NodeId) -> Result<(), ChangeError> {
        self.0.change(MembershipChange::TransferLeader(member.0)).await
    }

    /// Computes the digest of the state at `revision`. Reads every object.
    ///
    /// # Errors
    /// The revision is not applied here yet, or can no longer be rebuilt.
    pub fn digest(&self, revision: Revision) -> Result<Digest, DigestError> {
        digest(&self.state(), revision)
    }

    /// Whether `peer` had the same state at `revision`, by digests.
    ///
    /// # Errors
    /// Either side cannot rebuild the revision, or the peer did not answer.
    pub async fn agrees_with(&self, peer: &Peer, revision: Revision) -> Result<bool, String> {
        let own = self.digest(revision).map_err(|error| error.to_string())?;
        let request = Request::Digest(wire::DigestRequest { revision: revision.0 });
        let answer = control(&self.0.transport, peer, request, DIGEST_TIMEOUT).await;
        match answer.map_err(|error| error.to_string())? {
            Response::Digest(wire::DigestResponse { outcome: Some(DigestOutcome::Digest(theirs)) }) => {
                Ok(*theirs == own.0)
            }
            Response::Digest(wire::DigestResponse { outcome: Some(DigestOutcome::Unavailable(reason)) }) => {
                Err(reason)
            }
            _ => Err("the member answered something else".to_owned()),
        }
    }

    /// Completes when this member cannot go on, with the reason: the process must exit.
    pub async fn fatal(&self) -> String {
        self.0.fatal.reason().await
    }
}

impl<R: Runtime, D: Disk, T: Transport> Core<R, D, T> {
    /// The same as [`Core::propose`], unless this member may not serve clients, or the transaction needs room that is not there.
    async fn propose_for_client(
        &self,
        transaction: Transaction,
        trace: Option<TraceContext>,
    ) -> Result<Outcome, ProposeError> {
        if let Err(error) = self.agreement.may_serve() {
            return Err(ProposeError::NotProposed { reason: error.reason });
        }
        if let Some(error) = self.lacks_space_for(&transaction) {
            return Err(error);
        }
        let outcome = self.propose_traced(transaction, trace).await?;
        // Where the state was found wrong meanwhile, the objects in the outcome may be wrong, too.
        if let Err(error) = self.agreement.may_serve() {
            return Err(ProposeError::Unknown { reason: error.reason });
        }
        Ok(outcome)
    }

    /// Proposes a transaction of the member's own and waits until this member has applied it.
    pub(crate) async fn propose(&self, transaction: Transaction) -> Result<Outcome, ProposeError> {
        self.propose_traced(transaction, None).await
    }

    async fn propose_traced(
        &self,
        transaction: Transaction,
        trace: Option<TraceContext>,
    ) -> Result<Outcome, ProposeError> {
        let (sequence, mut answer) = self.proposals.register(&transaction, trace)?;
        drop(transaction);
        let waiting = Withdraw { core: self, sequence, armed: true };
        let mut answered = within::<R, _>(SEND_TIMEOUT, &mut answer).await;
        if answered.is_none() {
            if let Some(error) = self.proposals.withdraw_queued(sequence, "no leader in time") {
                return Err(error);
            }
            answered = within::<R, _>(OUTCOME_TIMEOUT.saturating_sub(SEND_TIMEOUT), answer).await;
        }
        match answered {
            Some(Ok(outcome)) => {
                waiting.disarm();
                outcome
            }
            Some(Err(_)) => Err(ProposeError::Unknown { reason: "the member is shutting down".to_owned() }),
            None => {
                waiting.disarm();
                Err(self.proposals.withdraw(sequence, "not applied in time"))
            }
        }
    }

    /// Answers another member's request for a digest.
    pub(crate) fn answer_digest(&self, request: &wire::DigestRequest) -> wire::DigestResponse {
        let outcome = match digest(&self.applied.state(), Revision(request.revision)) {
            Ok(digest) => DigestOutcome::Digest(digest.0.to_vec().into()),
            Err(error) => DigestOutcome::Unavailable(error.to_string()),
        };
        wire::DigestResponse { outcome: Some(outcome) }
    }
}

/// Withdraws a proposal when its proposer's future is dropped, so that it does not count as waiting.
struct Withdraw<'a, R: Runtime, D: Disk, T: Transport> {
    core: &'a Core<R, D, T>,
    sequence: u64,
    armed: bool,
}

impl<R: Runtime, D: Disk, T: Transport> Withdraw<'_, R, D, T> {
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl<R: Runtime, D: Disk, T: Transport> Drop for Withdraw<'_, R, D, T> {
    fn drop(&mut self) {
        if self.armed {
            self.core.proposals.withdraw(self.sequence, "the proposer went away");
        }
    }
}
