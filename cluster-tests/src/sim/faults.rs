//! What goes wrong in a run, and when: a schedule drawn from the seed.
//!
//! Owns the kinds of faults, how long each lasts and how it is undone. Each seed weighs the kinds differently, so that
//! some runs are all crashes and others all cuts. Faults overlap. [`calm`] undoes everything.

use std::time::Duration;

use openraft_rt::AsyncRuntime;
use orch_raft::transport::NodeId;

use super::dice::Dice;
use super::disk::DiskManner;
use super::network::NetworkManner;
use super::points::POINTS;
use super::runtime::{NodeRuntime, spawn_detached};
use super::world::World;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A process dies, the machine goes on.
    Kill,
    /// A process is told to shut down.
    ShutDown,
    /// A machine loses power: what was not synced is gone.
    PowerLoss,
    /// All machines lose power at once.
    Blackout,
    /// The leader's machine loses power.
    LeaderLoss,
    /// A process stops and goes on later.
    Pause,
    /// The leader's process stops and goes on later.
    LeaderPause,
    /// One member is cut off.
    Isolate,
    /// The leader is cut off.
    IsolateLeader,
    /// The members fall into two halves.
    Partition,
    /// One direction between two members is cut.
    OneWay,
    /// All connections break.
    Break,
    /// Frames are lost.
    Loss,
    /// Frames take long.
    Delay,
    /// A disk syncs slowly.
    SlowDisk,
    /// A disk's syncs fail, and its process with them.
    FailedSync,
    /// A member is away long enough to need a snapshot.
    LongAbsence,
    /// A wall clock jumps.
    ClockJump,
    /// A machine loses power at a point of its work, or just after.
    AtPoint,
}

const KINDS: [Fault; 19] = [
    Fault::Kill,
    Fault::ShutDown,
    Fault::PowerLoss,
    Fault::Blackout,
    Fault::LeaderLoss,
    Fault::Pause,
    Fault::LeaderPause,
    Fault::Isolate,
    Fault::IsolateLeader,
    Fault::Partition,
    Fault::OneWay,
    Fault::Break,
    Fault::Loss,
    Fault::Delay,
    Fault::SlowDisk,
    Fault::FailedSync,
    Fault::LongAbsence,
    Fault::ClockJump,
    Fault::AtPoint,
];

/// The kinds of one run with their weights: about half of them play no part in it.
pub fn mix(dice: &Dice) -> Vec<(Fault, u64)> {
    let weights = [0, 0, 1, 2, 5];
    let mix: Vec<(Fault, u64)> =
        KINDS.iter().map(|kind| (*kind, weights[dice.index(weights.len())])).collect();
    // A run in which nothing can happen is drawn again.
    if mix.iter().all(|(_, weight)| *weight == 0) { self::mix(dice) } else { mix }
}

/// Lets things go wrong until the clients' time is over.
pub async fn rage(world: World) {
    let dice = world.dice("faults");
    let mix = mix(&dice);
    let pause_max = [600, 1500, 3000][dice.index(3)];
    while world.is_busy() {
        NodeRuntime::sleep(dice.millis(50..pause_max)).await;
        if world.is_busy() {
            strike(&world, &dice, dice.weighted(&mix));
        }
    }
}

/// Does one fault now and sees to its end.
fn strike(world: &World, dice: &Dice, fault: Fault) {
    let members = world.members();
    let victim = match fault {
        Fault::LeaderLoss | Fault::LeaderPause | Fault::IsolateLeader => world.leader(),
        _ => None,
    };
    let victim = victim.unwrap_or_else(|| members[dice.index(members.len())]);
    world.trace().event(format_args!("fault {fault:?} n{}", victim.0));
    match fault {
        Fault::Kill => down(world, victim, false, dice.millis(5..1500)),
        Fault::ShutDown => {
            let (world, away) = (world.clone(), dice.millis(5..500));
            spawn_detached(async move {
                world.shut_down(victim).await;
                NodeRuntime::sleep(away).await;
                world.start(victim);
            });
        }
        Fault::PowerLoss | Fault::LeaderLoss => down(world, victim, true, dice.millis(5..1500)),
        Fault::LongAbsence => down(world, victim, true, dice.millis(2500..5000)),
        Fault::Blackout => {
            members.iter().for_each(|node| down(world, *node, true, dice.millis(5..700)));
        }
        Fault::Pause | Fault::LeaderPause => pause(world, victim, dice.millis(20..2500)),
        Fault::FailedSync => {
            world.disk(victim).behave(|manner| manner.sync_fails = true);
            let (world, after) = (world.clone(), dice.millis(5..100));
            let away = dice.millis(5..1000);
            spawn_detached(async move {
                NodeRuntime::sleep(after).await;
                world.disk(victim).behave(|manner| manner.sync_fails = false);
                down(&world, victim, true, away);
            });
        }
        Fault::AtPoint => at_point(world, victim, dice),
        Fault::SlowDisk => slow(world, victim, dice),
        Fault::ClockJump => world.set_clock_ahead(victim, dice.millis(0..400_000)),
        Fault::Isolate
        | Fault::IsolateLeader
        | Fault::Partition
        | Fault::OneWay
        | Fault::Break
        | Fault::Loss
        | Fault::Delay => disturb(world, dice, fault, victim),
    }
}

/// The faults of the network.
fn disturb(world: &World, dice: &Dice, fault: Fault, victim: NodeId) {
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

fn cut_between(world: &World, one: &[NodeId], other: &[NodeId]) {
    for (left, right) in one.iter().flat_map(|left| other.iter().map(move |right| (*left, *right))) {
        world.network().cut(left, right);
        world.network().cut(right, left);
    }
}

fn down(world: &World, node: NodeId, power_lost: bool, away: Duration) {
    world.kill(node, power_lost);
    let world = world.clone();
    spawn_detached(async move {
        NodeRuntime::sleep(away).await;
        world.start(node);
    });
}

fn at_point(world: &World, node: NodeId, dice: &Dice) {
    let (point, passes) = (POINTS[dice.index(POINTS.len())], dice.number(1..4));
    // In the middle of it, or after its answer has left and before the next sync.
    let (after, away) = (dice.duration(Duration::ZERO, Duration::from_millis(4)), dice.millis(5..800));
    world.trace().event(format_args!("n{} is to lose power {after:?} after its {passes}. {point:?}", node.0));
    let own = world.clone();
    world.points().arm(node, point, passes, move || {
        spawn_detached(async move {
            NodeRuntime::sleep(after).await;
            down(&own, node, true, away);
        });
    });
}

fn pause(world: &World, node: NodeId, length: Duration) {
    let Some(process) = world.process(node) else { return };
    process.group.pause();
    spawn_detached(async move {
        NodeRuntime::sleep(length).await;
        process.group.resume();
    });
}

fn slow(world: &World, node: NodeId, dice: &Dice) {
    let (from, to) = [(5, 30), (30, 120), (200, 900)][dice.index(3)];
    let disk = world.disk(node).clone();
    disk.behave(|manner| {
        manner.sync_min = Duration::from_millis(from);
        manner.sync_max = Duration::from_millis(to);
    });
    let length = dice.millis(200..4000);
    spawn_detached(async move {
        NodeRuntime::sleep(length).await;
        restore_speed(&disk);
    });
}

fn restore_speed(disk: &super::disk::SimDisk) {
    let usual = DiskManner::default();
    disk.behave(|manner| (manner.sync_min, manner.sync_max) = (usual.sync_min, usual.sync_max));
}

/// Ends everything that is wrong: links whole, disks quick, processes running.
pub fn calm(world: &World) {
    world.trace().event("calm");
    world.points().disarm();
    world.network().heal();
    world.network().behave(|manner| *manner = NetworkManner::default());
    for node in world.members() {
        let failing = std::cell::Cell::new(false);
        world.disk(node).behave(|manner| failing.set(std::mem::replace(&mut manner.sync_fails, false)));
        restore_speed(world.disk(node));
        if failing.get() {
            // A process whose sync failed has stopped for good.
            world.kill(node, true);
        }
        if let Some(process) = world.process(node) {
            process.group.resume();
        }
        world.start(node);
    }
}
