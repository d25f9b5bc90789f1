//! An outsider: a machine with a certificate of the cluster's authority that was never added to the cluster.
//!
//! Owns the outsider's requests, in some runs. It stands for election, sends heartbeats as a leader that was never
//! elected, with entries that were never proposed, claims that disks are older copies, and requests changes and digests
//! of the state. No request may be granted, however few members can be asked about the sender.

use std::time::Duration;

use openraft_rt::AsyncRuntime;
use orch_proto::store as wire;
use orch_raft::transport::{NodeId, Purpose, Transport};
use prost::Message;
use wire::append_response::Outcome as Appended;
use wire::change_response::Outcome as Changed;
use wire::control_request::Kind as Ask;
use wire::control_response::Kind as Answer;

use super::dice::Dice;
use super::runtime::NodeRuntime;
use super::world::World;

/// Percentage of runs with an outsider.
const RUNS_PERCENT: u64 = 30;

/// The outsider's id: no member of any run has it.
const OUTSIDER: NodeId = NodeId(900);

/// Timeout of one call.
const PATIENCE: Duration = Duration::from_millis(800);

/// Number of starts that the outsider claims for a disk: more than any member of a run has.
const STARTS_PRETENDED: u64 = 1_000_000;

/// Sends requests that only members may make, to one member after another.
pub async fn attack(world: World) {
    let dice = world.dice("outsider");
    if !dice.percent(RUNS_PERCENT) {
        return;
    }
    let transport = world.network().transport(OUTSIDER);
    loop {
        NodeRuntime::sleep(dice.millis(20..600)).await;
        let members = world.members();
        let Some(node) = members.get(dice.index(members.len())).copied() else { return };
        let term = world.store(node).map_or(1, |store| store.inner().status().term);
        let end = world.disk(node).last_index().unwrap_or_default();
        let kind = pick(&dice, term, end, node);
        let recall = dice.percent(50).then_some(wire::Recall {
            starts: STARTS_PRETENDED,
            incarnation: 1,
            ..wire::Recall::default()
        });
        let frame = wire::ControlRequest { kind: Some(kind.clone()), recall, format: 0 }.encode_to_vec();
        let called = transport.call(world.peer(node), Purpose::Control, frame.into(), PATIENCE).await;
        let answer = called.ok().and_then(|answer| wire::ControlResponse::decode(answer).ok()?.kind);
        world.trace().event(format_args!("outsider: {kind:?} to n{}: {answer:?}", node.0));
        if answer.as_ref().is_some_and(is_granted) {
            world.fail(format_args!(
                "n{} grants {kind:?} to somebody that was never added: {answer:?}",
                node.0
            ));
        }
    }
}

fn pick(dice: &Dice, term: u64, end: u64, node: NodeId) -> Ask {
    let term = term + dice.number(1..30);
    let vote = |committed| Some(wire::Vote { term, node: OUTSIDER.0, committed });
    let last_log_id = Some(wire::LogId { term, index: end + dice.number(0..50) });
    let ballot = wire::VoteRequest { vote: vote(false), last_log_id, leader_transfer: true };
    match dice.number(0..6) {
        0 => Ask::Vote(ballot),
        1 => Ask::PreVote(ballot),
        2 | 3 => {
            let log_id = Some(wire::LogId { term, index: 1 });
            let payload = Some(wire::entry::Payload::Blank(wire::Blank {}));
            let entries = vec![wire::Entry { log_id, payload, format: 1 }];
            let committed = log_id;
            Ask::Heartbeat(wire::AppendRequest { vote: vote(true), committed, entries, ..Default::default() })
        }
        4 => Ask::Change(wire::ChangeRequest { kind: Some(wire::change_request::Kind::Remove(node.0)) }),
        _ => Ask::ReadIndex(wire::ReadIndexRequest {}),
    }
}

/// The answer grants a request that only members may make.
fn is_granted(answer: &Answer) -> bool {
    match answer {
        Answer::Vote(vote) => vote.granted,
        Answer::Heartbeat(wire::AppendResponse { outcome }) => matches!(outcome, Some(Appended::Accepted(_))),
        Answer::Change(wire::ChangeResponse { outcome }) => matches!(outcome, Some(Changed::Done(_))),
        Answer::ReadIndex(_) => true,
        _ => false,
    }
}
