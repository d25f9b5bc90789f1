//! Peers that are not, or no longer, members, and the frames they send.
//!
//! Owns the frames. Recipients and expected reactions are in the scenarios.

use futures::FutureExt;
use futures::future::BoxFuture;
use orch_proto::store as wire;
use prost::Message;
use wire::control_request::Kind as Request;
use wire::control_response::Kind as Response;

use super::*;
use crate::transport::{Duplex, NodeId, PeerService, Purpose, Transport};

/// Timeout of a request of an impostor.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// A service at a removed member's address, in an attacker's hands: it gives every identity request the same answer,
/// and refuses other requests.
pub(super) struct Liar(pub(super) wire::IdentityResponse);

impl PeerService for Liar {
    fn call(&self, _: NodeId, _: Purpose, frame: Bytes) -> BoxFuture<'static, Result<Bytes, String>> {
        let request = wire::ControlRequest::decode(frame).unwrap();
        answered(match request.kind {
            Some(Request::Identity(_)) => Ok(Response::Identity(self.0.clone())),
            _ => Err("no".to_owned()),
        })
    }

    fn stream(&self, _: NodeId, _: Purpose, _: Duplex) -> BoxFuture<'static, ()> {
        async {}.boxed()
    }
}

/// The result of [`PeerService::call`] for an answer to a control request.
pub(super) fn answered(answer: Result<Response, String>) -> BoxFuture<'static, Result<Bytes, String>> {
    let answer = answer.map(|kind| Bytes::from(wire::ControlResponse { kind: Some(kind) }.encode_to_vec()));
    async { answer }.boxed()
}

/// Sends `request` to `to` with the certificate of `from`; `recall` is what the sender claims to know of the
/// recipient's disk.
pub(super) async fn ask(
    cluster: &Cluster,
    from: usize,
    to: usize,
    request: Request,
    recall: wire::Recall,
) -> Result<Response, String> {
    let frame = wire::ControlRequest { kind: Some(request), recall: Some(recall), format: 0 };
    let transport = cluster.network.transport(peer(from).id);
    let frame = Bytes::from(frame.encode_to_vec());
    let answer = transport.call(&peer(to), Purpose::Control, frame, ANSWER_TIMEOUT).await;
    let answer = answer.map_err(|error| error.to_string())?;
    Ok(wire::ControlResponse::decode(answer).unwrap().kind.unwrap())
}

/// A vote request of `from` with a made-up, longer log, as in a leader transfer.
pub(super) fn ballot(from: usize, term: u64) -> wire::VoteRequest {
    let vote = Some(wire::Vote { term, node: peer(from).id.0, committed: false });
    let last_log_id = Some(wire::LogId { term, index: 1_000_000 });
    wire::VoteRequest { vote, last_log_id, leader_transfer: true }
}

/// A heartbeat of `from` as the leader of term 30, without an election, with an entry that was never proposed. The
/// entry follows entry `end` of term `end_term`.
pub(super) fn forged(from: usize, end: u64, end_term: u64) -> Request {
    let vote = wire::Vote { term: 30, node: peer(from).id.0, committed: true };
    let log_id = |index| Some(wire::LogId { term: if index == end { end_term } else { 30 }, index });
    let blank = Some(wire::entry::Payload::Blank(wire::Blank {}));
    let entry = wire::Entry { log_id: log_id(end + 1), payload: blank, format: 1 };
    Request::Heartbeat(wire::AppendRequest {
        vote: Some(vote),
        previous: log_id(end),
        committed: log_id(end + 1),
        entries: vec![entry],
        format: 1,
        ..Default::default()
    })
}
