//! The faults of the network: cuts, breaks, losses and delays.
//!
//! Owns the choice of links, the durations of cuts, and the order of healing.

use std::time::Duration;

use openraft_rt::AsyncRuntime;
use orch_raft::transport::NodeId;

use super::Fault;
use crate::sim::dice::Dice;
use crate::sim::network::NetworkManner;
use crate::sim::runtime::{NodeRuntime, spawn_detached};
use crate::sim::world::World;

/// Injects a fault of the network.
pub(super) fn disturb(world: &World, dice: &Dice, fault: Fault, victim: NodeId) {
    let (network, members) = (world.network(), world.members());
    match fault {
        Fault::Isolate | Fault::IsolateLeader => {
            let others: Vec<NodeId> = members.into_iter().filter(|node| *node != victim).collect();
            cut_between(world, &[victim], &others);
        }
        Fault::Partition => {
            let mut sides = (Vec::new(), Vec::new());
            for node in members {
                if dice.percent(50) { sides.0.push(node) } else { sides.1.push(node) }
            }
            cut_between(world, &sides.0, &sides.1);
        }
        Fault::OneWay => {
            let other = members[dice.index(members.len())];
            if dice.percent(50) { network.cut(victim, other) } else { network.cut(other, victim) }
        }
        Fault::Break => return network.break_connections(),
        Fault::SlowHeal => {
            let (links, length) = (part(world, dice), dice.millis(200..3000));
            let (world, dice) = (world.clone(), dice.clone());
            spawn_detached(async move {
                NodeRuntime::sleep(length).await;
                mend_one_by_one(&world, &dice, links, 400).await;
            });
            return;
        }
        Fault::Loss => {
            let loss = [5, 30, 150][dice.index(3)];
            network.behave(|manner| manner.loss_per_mille = loss);
        }
        _ => {
            let longest = [20, 80, 300][dice.index(3)];
            network.behave(|manner| manner.delay_max = Duration::from_millis(longest));
        }
    }
    let (network, length) = (network.clone(), dice.millis(50..3000));
    spawn_detached(async move {
        NodeRuntime::sleep(length).await;
        network.heal();
        network.behave(|manner| *manner = NetworkManner::default());
    });
}

/// Cuts the leader off from all other members but one, for a while.
pub(super) fn leave_one_link_to_leader(world: &World, dice: &Dice) {
    let Some(leader) = world.leader() else { return };
    let mut others: Vec<NodeId> = world.members().into_iter().filter(|node| *node != leader).collect();
    if !others.is_empty() {
        others.remove(dice.index(others.len()));
    }
    cut_between(world, &[leader], &others);
    let (network, length) = (world.network().clone(), dice.millis(500..3000));
    spawn_detached(async move {
        NodeRuntime::sleep(length).await;
        network.heal();
    });
}

/// The faults of a run of minutes: the network is partitioned for most of it, and heals link by link.
pub(super) async fn cut_for_minutes(world: &World, dice: &Dice, minutes: Duration) {
    let began = NodeRuntime::elapsed();
    while world.is_busy() && NodeRuntime::elapsed() - began < minutes {
        NodeRuntime::sleep(dice.millis(500..5000)).await;
        let links = part(world, dice);
        world.trace().event(format_args!("cut for minutes: {links:?}"));
        NodeRuntime::sleep(dice.duration(minutes / 4, minutes / 2)).await;
        mend_one_by_one(world, dice, links, 8000).await;
    }
}

/// Partitions the members into two sides, neither of them empty, and returns the cut links.
fn part(world: &World, dice: &Dice) -> Vec<(NodeId, NodeId)> {
    let mut rest = world.members();
    let mut side = Vec::new();
    for _ in 0..dice.number(1..rest.len().max(2) as u64) {
        side.push(rest.remove(dice.index(rest.len())));
    }
    cut_between(world, &side, &rest);
    let both = |left: NodeId| rest.iter().flat_map(move |right| [(left, *right), (*right, left)]);
    side.iter().flat_map(|left| both(*left).collect::<Vec<_>>()).collect()
}

/// Heals one direction after another, in a seeded order.
async fn mend_one_by_one(world: &World, dice: &Dice, mut links: Vec<(NodeId, NodeId)>, pause_ms_max: u64) {
    while !links.is_empty() {
        let (from, to) = links.remove(dice.index(links.len()));
        world.network().mend(from, to);
        world.trace().event(format_args!("n{} reaches n{} again", from.0, to.0));
        NodeRuntime::sleep(dice.millis(0..pause_ms_max)).await;
    }
}

fn cut_between(world: &World, one: &[NodeId], other: &[NodeId]) {
    for (left, right) in one.iter().flat_map(|left| other.iter().map(move |right| (*left, *right))) {
        world.network().cut(left, right);
        world.network().cut(right, left);
    }
}
