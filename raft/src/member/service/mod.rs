//! Answers the requests of other members.
//!
//! Owns the dispatch of peers' frames. The transport has authenticated the peer; a message in another member's name is
//! refused here. No frame of a peer can cause a panic.

mod gate;
mod history;
mod partial;
mod snapshot;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt};
use openraft::raft::{AppendEntriesRequest, TransferLeaderRequest};
use orch_proto::store as wire;
use prost::Message;
use tokio::sync::mpsc;
use wire::control_request::Kind as Request;
use wire::control_response::Kind as Response;

pub(crate) use self::partial::Partial;
pub(crate) use self::snapshot::receive_pulled;
use crate::Runtime;
use crate::disk::Disk;
use crate::encoding::{check_format, decode};
use crate::member::codec::{log_id_from_wire, required_vote};
use crate::member::consensus::{Types, Vote};
use crate::member::core::Core;
use crate::member::forward::serve_forwarded;
use crate::member::network::{
    append_from_wire, append_response_to_wire, stream_result_to_wire, vote_request_from_wire,
    vote_response_to_wire,
};
use crate::member::traces::transaction;
use crate::member::trust::standing::Standing;
use crate::transport::{Duplex, NodeId, PeerService, Purpose, Transport};

/// The receiver of peers' frames, to which a transport's server delivers.
pub(crate) struct Service<R: Runtime, D: Disk, T: Transport>(pub(crate) Arc<Core<R, D, T>>);

/// Why a request is refused; the peer sees the text.
type Refusal = String;

/// Forward streams of a removed member stay open this long, so that its writes are answered as refused; a cut stream would
/// make their outcome unknown.
const REFUSAL_GRACE: Duration = Duration::from_millis(500);

impl<R: Runtime, D: Disk, T: Transport> PeerService for Service<R, D, T> {
    fn call(
        &self,
        from: NodeId,
        purpose: Purpose,
        frame: Bytes,
    ) -> BoxFuture<'static, Result<Bytes, String>> {
        let core = self.0.clone();
        async move {
            if purpose != Purpose::Control {
                return Err(format!("{purpose:?} is not a call"));
            }
            let request: wire::ControlRequest = decode("control request", frame).map_err(text)?;
            check_format("control request", request.format, core.feature.level.supported()).map_err(text)?;
            let wire::ControlRequest { kind, recall, .. } = request;
            let request = kind.ok_or("the control request is empty, or of a newer version")?;
            core.check_call(from, &request, recall.as_ref()).await?;
            let response = answer(&core, from, request).await?;
            Ok(Bytes::from(wire::ControlResponse { kind: Some(response) }.encode_to_vec()))
        }
        .boxed()
    }

    fn stream(&self, from: NodeId, purpose: Purpose, duplex: Duplex) -> BoxFuture<'static, ()> {
        let core = self.0.clone();
        async move {
            if !core.joining.is_enrolled() {
                core.note_speaker(from, None);
                return;
            }
            let removed = async {
                core.wait_removed(from).await;
                if purpose == Purpose::Forward {
                    R::sleep(REFUSAL_GRACE).await;
                }
            };
            let ended = R::select2(core.stop.stopped(), removed.boxed());
            let serving = async {
                match purpose {
                    Purpose::Control if core.warnings.may_warn("control is not a stream") => {
                        tracing::warn!(%from, "control is not a stream");
                    }
                    Purpose::Control => {}
                    Purpose::Append => {
                        serve_appends(&core, from, duplex).await;
                        core.check_leader(from).await;
                    }
                    Purpose::Snapshot => snapshot::receive(&core, from, duplex).await,
                    Purpose::Forward if core.standing(from) == Standing::Member => {
                        serve_forwarded(core.clone(), from, duplex).await;
                    }
                    Purpose::Forward => tracing::debug!(%from, "a stream of writes is refused"),
                }
            };
            R::select2(ended, serving.boxed()).await;
        }
        .boxed()
    }
}

fn text(error: impl ToString) -> Refusal {
    error.to_string()
}

/// Refuses a vote that names a member other than its sender.
fn in_own_name(from: NodeId, vote: &Vote) -> Result<(), Refusal> {
    let named = NodeId(vote.leader_id.voted_for);
    if named == from { Ok(()) } else { Err(format!("member {from} speaks for member {named}")) }
}

async fn answer<R: Runtime, D: Disk, T: Transport>(
    core: &Arc<Core<R, D, T>>,
    from: NodeId,
    request: Request,
) -> Result<Response, Refusal> {
    let raft = &core.raft;
    match request {
        Request::Vote(request) => {
            let request = vote_request_from_wire(request).map_err(text)?;
            in_own_name(from, &request.vote)?;
            Ok(Response::Vote(vote_response_to_wire(&raft.vote(request).await.map_err(text)?)))
        }
        Request::PreVote(request) => {
            let request = vote_request_from_wire(request).map_err(text)?;
            in_own_name(from, &request.vote)?;
            Ok(Response::Vote(vote_response_to_wire(&raft.pre_vote(request).await.map_err(text)?)))
        }
        Request::Heartbeat(request) => {
            let request = append_from_wire(request, core.feature.level.supported()).map_err(text)?;
            in_own_name(from, &request.vote)?;
            core.check_history(from, &request)?;
            let (term, committed) = (request.vote.leader_id.term, request.leader_commit);
            let answer = raft.append_entries(request).await.map_err(text)?;
            if answer.is_success() {
                core.note_contact(from, term, committed);
            }
            Ok(Response::Heartbeat(append_response_to_wire(&answer)))
        }
        Request::Transfer(request) => Ok(Response::Transfer(transfer(core, from, request).await?)),
        Request::ReadIndex(_) => Ok(Response::ReadIndex(core.answer_read_index().await)),
        Request::Digest(request) => Ok(Response::Digest(core.answer_digest(&request))),
        Request::Change(request) => Ok(Response::Change(core.answer_change(request).await)),
        Request::Identity(request) => Ok(Response::Identity(core.answer_identity(from, request).await)),
        Request::Found(_) => Ok(Response::Found(core.answer_found().await)),
        Request::Agreement(request) => Ok(Response::Agreement(core.answer_agreement(from, request))),
        Request::SnapshotOffset(request) => {
            Ok(Response::SnapshotOffset(core.answer_snapshot_offset(request).map_err(text)?))
        }
        Request::Feature(_) => Ok(Response::Feature(core.answer_feature())),
    }
}

async fn transfer<R: Runtime, D: Disk, T: Transport>(
    core: &Core<R, D, T>,
    from: NodeId,
    request: wire::TransferRequest,
) -> Result<wire::TransferResponse, Refusal> {
    use wire::transfer_response::Outcome;
    let vote = required_vote(request.from).map_err(text)?;
    in_own_name(from, &vote)?;
    if core.agreement.is_quarantined() {
        let refused = Outcome::Refused("this member is quarantined".to_owned());
        return Ok(wire::TransferResponse { outcome: Some(refused) });
    }
    let request = TransferLeaderRequest::new(vote, request.to, request.last_log_id.map(log_id_from_wire));
    let outcome = match core.raft.handle_transfer_leader(request).await.map_err(text)? {
        Ok(()) => Outcome::Accepted(wire::Done {}),
        Err(refused) => Outcome::Refused(refused.to_string()),
    };
    Ok(wire::TransferResponse { outcome: Some(outcome) })
}

/// Serves one leader's stream of appends: passes requests to the library as they come, and sends the answers in order.
async fn serve_appends<R: Runtime, D: Disk, T: Transport>(
    core: &Arc<Core<R, D, T>>,
    from: NodeId,
    duplex: Duplex,
) {
    let Duplex { sender, receiver } = duplex;
    let requests = requests(core.clone(), from, receiver);
    let mut answers = std::pin::pin!(core.raft.stream_append(requests));
    while let Some(answer) = answers.next().await {
        let answer = match &answer {
            Ok(result) => stream_result_to_wire(result),
            Err(fatal) => {
                let failure = wire::append_response::Outcome::Failure(fatal.to_string());
                wire::AppendResponse { outcome: Some(failure) }
            }
        };
        if sender.send(Bytes::from(answer.encode_to_vec())).await.is_err() {
            return;
        }
    }
}

/// The appends in a stream of frames, up to the first that is refused.
fn requests<R: Runtime, D: Disk, T: Transport>(
    core: Arc<Core<R, D, T>>,
    from: NodeId,
    receiver: mpsc::Receiver<Bytes>,
) -> impl futures::Stream<Item = AppendEntriesRequest<Types<R>>> + Send + 'static {
    type Left<R, D, T> = (Arc<Core<R, D, T>>, mpsc::Receiver<Bytes>, Option<Vote>);
    let next = move |(core, mut receiver, leader): Left<R, D, T>| async move {
        let frame = receiver.recv().await?;
        let request = decode("append request", frame).map_err(text);
        let taken = match request {
            Ok(request) => take_append(&core, from, request, leader).await,
            Err(reason) => Err(reason),
        };
        match taken {
            Ok(request) => {
                let leader = Some(request.vote);
                Some((request, (core, receiver, leader)))
            }
            Err(reason) => {
                if core.warnings.may_warn("a stream of appends is ended") {
                    tracing::warn!(reason, %from, "a stream of appends is ended");
                }
                None
            }
        }
    };
    futures::stream::unfold((core, receiver, None), next)
}

/// Decodes an append and checks that `from` may lead. `leader`: the vote of the stream's first append, which all others must
/// repeat; `None` for the first.
async fn take_append<R: Runtime, D: Disk, T: Transport>(
    core: &Arc<Core<R, D, T>>,
    from: NodeId,
    mut request: wire::AppendRequest,
    leader: Option<Vote>,
) -> Result<AppendEntriesRequest<Types<R>>, Refusal> {
    let vote = required_vote(request.vote).map_err(text)?;
    in_own_name(from, &vote)?;
    match leader {
        None => core.check_leader_to_be(from, request.vote.as_ref(), request.recall.as_ref()).await?,
        // The checks of the first append hold for the leader of its term alone.
        Some(leader) if leader != vote => return Err("the stream is one of another term".to_owned()),
        Some(_) => {}
    }
    let traces = std::mem::take(&mut request.traces);
    let request = match append_from_wire(request, core.feature.level.supported()) {
        Ok(request) => request,
        Err(error) => {
            // A sender in an earlier term does not lead, so its entries end no member.
            if error.newer && vote.leader_id.term >= core.term() {
                core.stop_for_newer(from, &error).await;
            }
            return Err(error.to_string());
        }
    };
    core.check_history(from, &request)?;
    let at = |position| transaction(request.entries.get(position)?);
    core.proposals.traces().note_marks(&traces, at);
    Ok(request)
}
