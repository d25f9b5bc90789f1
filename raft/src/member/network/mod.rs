//! Links to other members, for the consensus library and for a leader that confirms that it still leads.
//!
//! Owns the translation of their calls into frames. Votes, heartbeats and leader transfers are single calls with purpose
//! Control; replication is one ordered stream with many frames under way; each snapshot has a stream of its own. So neither
//! a full replication stream nor a snapshot delays a heartbeat.

mod append;
mod shape;
mod snapshot;

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{Backoff, RPCOption, stream_append_sequential};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use openraft::{OptionalSend, RaftNetworkFactory, RaftNetworkV2};
use orch_proto::store as wire;
use prost::Message;
use wire::control_request::Kind as Request;
use wire::control_response::Kind as Response;

pub(crate) use self::append::{append_from_wire, append_response_to_wire, stream_result_to_wire};
pub(crate) use self::shape::INDEX_MAX;
pub(crate) use self::snapshot::send_pulled;
use crate::Runtime;
use crate::encoding::{DecodeError, decode};
use crate::member::agreement::Agreement;
use crate::member::codec::{log_id_from_wire, log_id_to_wire, required_vote, vote_to_wire};
use crate::member::consensus::{Place, Snapshot, Types, Vote};
use crate::member::feature::FeatureLevel;
use crate::member::holds::Holds;
use crate::member::machine::SnapshotBody;
use crate::member::old_disk::promises::Promises;
use crate::member::old_disk::recall::Recollection;
use crate::member::traces::Traces;
use crate::member::trust::answer_checks::{Scrutinized, Scrutiny};
use crate::transport::{Peer, Purpose, Transport, TransportError};

/// The parts of a member that all its links use.
pub(crate) struct Shared<T> {
    pub(crate) transport: T,
    /// Holds of snapshots that are being sent.
    pub(crate) holds: Arc<Holds>,
    /// The agreed feature level, at which frames are written.
    pub(crate) level: Arc<FeatureLevel>,
    /// The promises of peers.
    pub(crate) promises: Promises,
    /// Makes the recall that is sent to a peer.
    pub(crate) recollection: Recollection,
    /// The checks of answers.
    pub(crate) scrutiny: Scrutinized,
    /// Tells whether this member's state may be sent: not in quarantine.
    pub(crate) agreement: Arc<Agreement>,
    /// The traces of writes under way, which go with their appends.
    pub(crate) traces: Arc<Traces>,
}

/// Makes links to members.
pub(crate) struct Network<R, T> {
    shared: Arc<Shared<T>>,
    runtime: PhantomData<fn() -> R>,
}

impl<R, T> Clone for Network<R, T> {
    fn clone(&self) -> Self {
        Network { shared: self.shared.clone(), runtime: PhantomData }
    }
}

/// A link to one member, for one task.
pub(crate) struct Link<R, T> {
    shared: Arc<Shared<T>>,
    peer: Peer,
    /// Whether appends go over a stream. Links for heartbeats and snapshots send at most an append without entries, as a call.
    pipelined: bool,
    runtime: PhantomData<fn() -> R>,
}

type Rpc<R> = RPCError<Types<R>>;

impl<R: Runtime, T: Transport> Network<R, T> {
    pub(crate) fn new(shared: Shared<T>) -> Self {
        Network { shared: Arc::new(shared), runtime: PhantomData }
    }

    /// A link to `target`, at `place`.
    pub(crate) fn link(&self, target: u64, place: &Place, pipelined: bool) -> Link<R, T> {
        Link { shared: self.shared.clone(), peer: place.peer(target), pipelined, runtime: PhantomData }
    }
}

impl<R: Runtime, T: Transport> RaftNetworkFactory<Types<R>> for Network<R, T> {
    type Network = Link<R, T>;

    async fn new_client(&mut self, target: u64, place: &Place) -> Link<R, T> {
        self.link(target, place, true)
    }

    async fn new_heartbeat_client(&mut self, target: u64, place: &Place) -> Link<R, T> {
        self.link(target, place, false)
    }

    async fn new_snapshot_client(&mut self, target: u64, place: &Place) -> Link<R, T> {
        self.link(target, place, false)
    }
}

impl<R: Runtime, T: Transport> Link<R, T> {
    /// One control call, with the recall of the peer's disk.
    async fn control(&self, request: Request, timeout: Duration) -> Result<Response, Rpc<R>> {
        let recall = Some((self.shared.recollection)(self.peer.id.0));
        control_with(&self.shared.transport, &self.peer, request, recall, timeout).await.map_err(to_rpc_error)
    }

    /// Sends an append without entries: a heartbeat.
    pub(crate) async fn heartbeat(
        &self,
        request: &AppendEntriesRequest<Types<R>>,
        timeout: Duration,
    ) -> Result<AppendEntriesResponse<Types<R>>, Rpc<R>> {
        self.require_compared()?;
        let (term, previous) = (request.vote.leader_id.term, request.prev_log_id.map_or(0, |id| id.index));
        let mut request = append::append_to_wire(request, self.shared.level.agreed());
        // The stream of appends carries the commit index unfiltered: committed entries stay committed, and only heartbeats
        // count as contact.
        request.committed = request.committed.filter(|_| self.shared.scrutiny.is_followed());
        let request = Request::Heartbeat(request);
        let answer = match self.control(request, timeout).await? {
            Response::Heartbeat(answer) => append::append_response_from_wire(answer)?,
            _ => return Err(unexpected()),
        };
        if let AppendEntriesResponse::HigherVote(vote) = &answer {
            self.require_possible(vote)?;
        }
        let conflicts = matches!(answer, AppendEntriesResponse::Conflict);
        let peer = self.peer.id.0;
        if conflicts
            && append::is_reversion(&self.shared.promises, &self.shared.scrutiny, peer, term, previous)
        {
            return Err(network_error(&append::REVERSION));
        }
        Ok(answer)
    }

    async fn ballot(&self, request: Request, option: &RPCOption) -> Result<VoteResponse<Types<R>>, Rpc<R>> {
        self.require_compared()?;
        match self.control(request, option.soft_ttl()).await? {
            Response::Vote(answer) => {
                let answer = vote_response_from_wire(answer).map_err(|error| network_error(&error))?;
                self.require_possible(&answer.vote)?;
                Ok(answer)
            }
            _ => Err(unexpected()),
        }
    }

    /// Fails for a peer with which this disk is not compared: it may show the disk to be an older copy, so its promises do not
    /// count.
    fn require_compared(&self) -> Result<(), Rpc<R>> {
        match self.shared.scrutiny.may_promise(self.peer.id.0) {
            true => Ok(()),
            false => Err(not_compared()),
        }
    }

    /// Fails for an answer in a term that no election can have led to: the consensus library would adopt that term.
    fn require_possible(&self, vote: &Vote) -> Result<(), Rpc<R>> {
        let term = vote.leader_id.term;
        if self.shared.scrutiny.is_term_possible(term) {
            return Ok(());
        }
        if self.shared.scrutiny.may_warn("an impossible term") {
            tracing::error!(peer = %self.peer.name, term, "a peer answers in a term that cannot be");
        }
        Err(network_error(&"the member answered in a term that cannot be"))
    }
}

/// Why a control call has no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ControlError {
    #[error(transparent)]
    Transport(#[from] TransportError),
    #[error(transparent)]
    Decode(#[from] DecodeError),
}

impl ControlError {
    /// Whether the peer certainly did not get the call.
    pub(crate) fn is_undelivered(&self) -> bool {
        let ControlError::Transport(error) = self else { return false };
        matches!(error, TransportError::Unreachable { .. } | TransportError::Refused { .. })
    }
}

/// One control call to `peer`.
pub(crate) async fn control(
    transport: &impl Transport,
    peer: &Peer,
    request: Request,
    timeout: Duration,
) -> Result<Response, ControlError> {
    control_with(transport, peer, request, None, timeout).await
}

async fn control_with(
    transport: &impl Transport,
    peer: &Peer,
    request: Request,
    recall: Option<wire::Recall>,
    timeout: Duration,
) -> Result<Response, ControlError> {
    let frame = Bytes::from(wire::ControlRequest { kind: Some(request), format: 0, recall }.encode_to_vec());
    let answer = transport.call(peer, Purpose::Control, frame, timeout).await?;
    let answer: wire::ControlResponse = decode("control response", answer)?;
    Ok(answer.kind.ok_or_else(|| DecodeError::new("control response", "no kind"))?)
}

fn to_rpc_error<R: Runtime>(error: ControlError) -> Rpc<R> {
    match error {
        ControlError::Transport(error) => from_transport(&error),
        ControlError::Decode(error) => network_error(&error),
    }
}

fn from_transport<R: Runtime>(error: &TransportError) -> Rpc<R> {
    match error {
        TransportError::Unreachable { .. } | TransportError::Refused { .. } => {
            RPCError::Unreachable(Unreachable::from_string(error))
        }
        TransportError::Lost { .. } => network_error(error),
    }
}

fn network_error<R: Runtime>(error: &impl ToString) -> Rpc<R> {
    RPCError::Network(NetworkError::from_string(error.to_string()))
}

fn not_compared<R: Runtime>() -> Rpc<R> {
    RPCError::Unreachable(Unreachable::from_string("the disks are not compared yet"))
}

fn unexpected<R: Runtime>() -> Rpc<R> {
    network_error(&"the member answered something else")
}

impl<R: Runtime, T: Transport> RaftNetworkV2<Types<R>> for Link<R, T> {
    type SnapshotData = SnapshotBody;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types<R>>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types<R>>, Rpc<R>> {
        self.heartbeat(&request, option.soft_ttl()).await
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        option: RPCOption,
    ) -> BoxFuture<'s, Result<BoxStream<'s, Result<StreamAppendResult<Types<R>>, Rpc<R>>>, Rpc<R>>>
    where
        S: Stream<Item = AppendEntriesRequest<Types<R>>> + OptionalSend + Unpin + 'static,
    {
        if self.pipelined { self.pipeline(input) } else { stream_append_sequential(self, input, option) }
    }

    async fn vote(
        &mut self,
        request: VoteRequest<Types<R>>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types<R>>, Rpc<R>> {
        let answer = self.ballot(Request::Vote(vote_request_to_wire(&request)), &option).await?;
        if answer.vote_granted {
            self.shared.promises.note(self.peer.id.0, answer.vote.leader_id.term, None);
        }
        Ok(answer)
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<Types<R>>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types<R>>, Rpc<R>> {
        self.ballot(Request::PreVote(vote_request_to_wire(&request)), &option).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot<SnapshotBody>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        option: RPCOption,
    ) -> Result<SnapshotResponse<Types<R>>, StreamingError<Types<R>>> {
        self.send_snapshot(vote, snapshot, cancel, option.soft_ttl()).await
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Types<R>>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types<R>>, Rpc<R>> {
        let message = wire::TransferRequest {
            from: Some(vote_to_wire(request.from_leader())),
            to: *request.to_node_id(),
            last_log_id: request.last_log_id().map(log_id_to_wire),
        };
        match self.control(Request::Transfer(message), option.soft_ttl()).await? {
            Response::Transfer(answer) => transfer_response(answer),
            _ => Err(unexpected()),
        }
    }

    fn backoff(&self) -> Option<Backoff> {
        None
    }
}

fn transfer_response<R: Runtime>(
    answer: wire::TransferResponse,
) -> Result<TransferLeaderResponse<Types<R>>, Rpc<R>> {
    use wire::transfer_response::Outcome;
    match answer.outcome {
        Some(Outcome::Accepted(_)) => Ok(Ok(())),
        Some(Outcome::Refused(reason)) => Err(network_error(&reason)),
        None => Err(unexpected()),
    }
}

fn vote_request_to_wire<R: Runtime>(request: &VoteRequest<Types<R>>) -> wire::VoteRequest {
    wire::VoteRequest {
        vote: Some(vote_to_wire(&request.vote)),
        last_log_id: request.last_log_id.as_ref().map(log_id_to_wire),
        leader_transfer: request.leadership_transfer,
    }
}

/// Decodes a vote or pre-vote request.
pub(crate) fn vote_request_from_wire<R: Runtime>(
    request: wire::VoteRequest,
) -> Result<VoteRequest<Types<R>>, DecodeError> {
    let vote = required_vote(request.vote)?;
    let mut read = VoteRequest::new(vote, request.last_log_id.map(log_id_from_wire));
    read.leadership_transfer = request.leader_transfer;
    Ok(read)
}

/// The wire form of the answer to a vote or pre-vote request.
pub(crate) fn vote_response_to_wire<R: Runtime>(answer: &VoteResponse<Types<R>>) -> wire::VoteResponse {
    wire::VoteResponse {
        vote: Some(vote_to_wire(&answer.vote)),
        last_log_id: answer.last_log_id.as_ref().map(log_id_to_wire),
        granted: answer.vote_granted,
    }
}

fn vote_response_from_wire<R: Runtime>(
    answer: wire::VoteResponse,
) -> Result<VoteResponse<Types<R>>, DecodeError> {
    let vote = required_vote(answer.vote)?;
    Ok(VoteResponse::new(vote, answer.last_log_id.map(log_id_from_wire), answer.granted))
}
