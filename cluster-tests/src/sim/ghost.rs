//! A removed member's address and certificate that remain in use.
//!
//! Owns the ghost of one removed member in some runs. Either the member's program is restarted again and again on its
//! old disk: it must learn that it was removed, and end. Or an attacker has its certificate: the ghost answers every
//! member that the member was removed or has an older copy of its disk, and asks for votes with the same claim. A
//! member that was down during the removal still has the ghost in its log, and must not believe it. Nothing is checked
//! here: the usual oracles see that no member ends and none stops serving.
//!
//! The ghost makes no claims about third members: docs/decisions/0016 tells the possible effect of such a claim.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use openraft_rt::AsyncRuntime;
use orch_proto::store as wire;
use orch_raft::transport::{Duplex, NodeId, PeerService, Purpose, Transport};
use prost::Message;
use wire::control_request::Kind as Ask;
use wire::control_response::Kind as Answer;

use super::dice::Dice;
use super::plant::Occasion;
use super::runtime::{NodeRuntime, TaskGroup, spawn_detached};
use super::world::World;

/// Percentage of runs with a removal in which the removed member's certificate stays in use.
const RUNS_PERCENT: u64 = 60;

/// Percentage of such certificates that an attacker has.
const LIARS_PERCENT: u64 = 70;

/// Timeout of one call.
const PATIENCE: Duration = Duration::from_millis(800);

/// Number of starts that the ghost claims for a disk: more than any member of a run has.
const STARTS_PRETENDED: u64 = 1_000_000;

/// The ghost's claims about the member that asks it.
#[derive(Clone, Copy, Debug)]
struct Lie {
    removed: bool,
    older_copy: bool,
}

const LIES: [Lie; 3] = [
    Lie { removed: true, older_copy: false },
    Lie { removed: false, older_copy: true },
    Lie { removed: true, older_copy: true },
];

/// Keeps the certificate of `node` in use, in some runs. `node` was removed and its process has ended.
pub fn rise(world: &World, node: NodeId) {
    let dice = world.dice("ghost");
    let must_lie = world.is_due(Occasion::Liar);
    let happens = dice.percent(RUNS_PERCENT) || must_lie;
    let lies = dice.percent(LIARS_PERCENT) || must_lie;
    let lie = LIES[dice.index(LIES.len())];
    if !happens || !world.set_ghost(node, !lies) {
        return;
    }
    let world = world.clone();
    match lies {
        true => drop(spawn_detached(lie_to_all(world, node, lie, dice))),
        false => drop(spawn_detached(start_again(world, node, dice))),
    }
}

/// The removed member's program, restarted by an operator who forgot to take it out of service.
async fn start_again(world: World, node: NodeId, dice: Dice) {
    while world.is_busy() {
        NodeRuntime::sleep(dice.millis(50..2000)).await;
        world.start(node);
    }
    world.kill(node, false);
}

/// An attacker with the removed member's certificate.
async fn lie_to_all(world: World, node: NodeId, lie: Lie, dice: Dice) {
    world.trace().event(format_args!("ghost: {lie:?} says who has the certificate of n{}", node.0));
    let group = TaskGroup::default();
    world.network().attach(node, group.clone(), Arc::new(lie));
    let transport = world.network().transport(node);
    while world.is_busy() {
        NodeRuntime::sleep(dice.millis(20..600)).await;
        let members = world.members();
        let Some(to) = members.get(dice.index(members.len())).copied() else { break };
        let term = world.store(to).map_or(1, |store| store.inner().status().term) + 1;
        let vote = Some(wire::Vote { term, node: node.0, committed: false });
        let last_log_id = world.disk(to).last_index().map(|index| wire::LogId { term, index });
        let ballot = wire::VoteRequest { vote, last_log_id, leader_transfer: false };
        let recall = lie.older_copy.then(|| wire::Recall {
            starts: STARTS_PRETENDED,
            incarnation: 1,
            ..wire::Recall::default()
        });
        let frame = wire::ControlRequest { kind: Some(Ask::PreVote(ballot)), recall, format: 0 };
        let called =
            transport.call(world.peer(to), Purpose::Control, frame.encode_to_vec().into(), PATIENCE).await;
        let answer = called.map(wire::ControlResponse::decode);
        world.trace().event(format_args!("ghost: asks n{} for its vote: {answer:?}", to.0));
    }
    world.network().detach(node);
    group.kill();
}

impl PeerService for Lie {
    fn call(&self, _: NodeId, _: Purpose, frame: Bytes) -> BoxFuture<'static, Result<Bytes, String>> {
        let asked = wire::ControlRequest::decode(frame).ok().and_then(|message| message.kind);
        let answer = match asked {
            Some(Ask::Identity(request)) if request.about == 0 => Ok(self.of_asker()),
            _ => Err("nothing to say".to_owned()),
        };
        async move { answer }.boxed()
    }

    fn stream(&self, _: NodeId, _: Purpose, _: Duplex) -> BoxFuture<'static, ()> {
        async {}.boxed()
    }
}

impl Lie {
    fn of_asker(self) -> Bytes {
        let (starts, incarnation) = if self.older_copy { (STARTS_PRETENDED, 1) } else { (0, 0) };
        let said = wire::IdentityResponse {
            removed: self.removed,
            starts,
            incarnation,
            ..wire::IdentityResponse::default()
        };
        Bytes::from(wire::ControlResponse { kind: Some(Answer::Identity(said)) }.encode_to_vec())
    }
}
