//! The faults of a run: a schedule drawn from the seed.
//!
//! Owns the kinds of faults, their durations and how each is undone. Each seed weighs the kinds differently, so that
//! some runs are all crashes and others all cuts. Faults overlap. [`calm`] undoes everything.

mod disk;
mod network;

use std::time::Duration;

use openraft_rt::AsyncRuntime;
use orch_raft::transport::NodeId;

use self::disk::{restore_speed, spoil};
use self::network::{cut_for_minutes, disturb, leave_one_link_to_leader};
use super::dice::Dice;
use super::network::NetworkManner;
use super::plant::Occasion;
use super::points::{POINTS, Point};
use super::runtime::{NodeRuntime, spawn_detached};
use super::world::World;

/// Time that a starved task runs at a turn.
const STARVED_TURN: Duration = Duration::from_micros(300);

/// Percentage of faults that are the one a run must have.
const DUE_PERCENT: u64 = 50;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A process dies, the machine goes on.
    Kill,
    /// A process is told to shut down.
    ShutDown,
    /// A machine loses power: unsynced data is lost.
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
    /// A member is down long enough to need a snapshot.
    LongAbsence,
    /// A wall clock jumps, by minutes or hours, ahead or back.
    ClockJump,
    /// A wall clock runs too fast or too slow.
    ClockDrift,
    /// A disk's syncs hang, then go on.
    HungSync,
    /// A disk's writes fail.
    WriteError,
    /// A disk is full.
    FullDisk,
    /// A stored entry or object becomes unreadable.
    Rot,
    /// One task of a process runs only now and then.
    Starve,
    /// Links between two sides are cut and come back one by one.
    SlowHeal,
    /// A machine loses power at a point of its work, or just after.
    AtPoint,
}

const KINDS: [Fault; 26] = [
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
    Fault::ClockDrift,
    Fault::HungSync,
    Fault::WriteError,
    Fault::FullDisk,
    Fault::Rot,
    Fault::Starve,
    Fault::SlowHeal,
    Fault::AtPoint,
];

/// The kinds of one run with their weights. About half of the kinds have weight 0.
pub fn mix(dice: &Dice) -> Vec<(Fault, u64)> {
    let weights = [0, 0, 1, 2, 5];
    let mix: Vec<(Fault, u64)> =
        KINDS.iter().map(|kind| (*kind, weights[dice.index(weights.len())])).collect();
    // A mix without any fault is drawn again.
    if mix.iter().all(|(_, weight)| *weight == 0) { self::mix(dice) } else { mix }
}

/// Injects faults until the clients' time is over.
pub async fn rage(world: World) {
    let dice = world.dice("faults");
    let mix = mix(&dice);
    if let Some(minutes) = world.minutes() {
        return cut_for_minutes(&world, &dice, minutes).await;
    }
    let pause_max = [600, 1500, 3000][dice.index(3)];
    while world.is_busy() {
        NodeRuntime::sleep(dice.millis(50..pause_max)).await;
        if world.is_busy() && !world.is_quiet() {
            match fault_due(&world).filter(|_| dice.percent(DUE_PERCENT)) {
                Some(Fault::AtPoint) => {
                    // The loss of the leader makes the other members vote.
                    world.members().into_iter().for_each(|node| arm(&world, node, &dice, (Point::Vote, 1)));
                    strike(&world, &dice, Fault::LeaderLoss);
                }
                Some(fault) => {
                    leave_one_link_to_leader(&world, &dice);
                    strike(&world, &dice, fault);
                }
                None => strike(&world, &dice, dice.weighted(&mix)),
            }
        }
    }
}

/// The fault that this run must have repeatedly; `None` if it is left to chance.
fn fault_due(world: &World) -> Option<Fault> {
    let due = [(Occasion::LostVotes, Fault::AtPoint), (Occasion::ForgottenLeaders, Fault::LeaderPause)];
    due.into_iter().find(|(occasion, _)| world.is_due(*occasion)).map(|(_, fault)| fault)
}

/// Injects one fault now and spawns its end.
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
                if !world.is_calm() {
                    NodeRuntime::sleep(away).await;
                }
                world.start(victim);
            });
        }
        Fault::PowerLoss | Fault::LeaderLoss => down(world, victim, true, dice.millis(5..1500)),
        Fault::LongAbsence => down(world, victim, true, dice.millis(2500..5000)),
        Fault::Blackout => {
            members.iter().for_each(|node| down(world, *node, true, dice.millis(5..700)));
        }
        Fault::Pause | Fault::LeaderPause => pause(world, victim, dice.millis(20..2500)),
        Fault::AtPoint => at_point(world, victim, dice),
        Fault::SlowDisk
        | Fault::FailedSync
        | Fault::HungSync
        | Fault::WriteError
        | Fault::FullDisk
        | Fault::Rot => spoil(world, dice, fault, victim),
        Fault::Starve => starve(world, victim, dice),
        Fault::ClockJump => {
            let longest: i64 = [400, 60_000, 6 * 3_600_000][dice.index(3)];
            let ahead = dice.number(0..longest.unsigned_abs() * 2);
            world.set_clock_ahead(victim, ahead.cast_signed() - longest);
        }
        Fault::ClockDrift => {
            let fast = dice.number(0..400_000).cast_signed();
            world.set_clock_drift(victim, fast - 200_000);
        }
        Fault::Isolate
        | Fault::IsolateLeader
        | Fault::Partition
        | Fault::OneWay
        | Fault::Break
        | Fault::Loss
        | Fault::SlowHeal
        | Fault::Delay => disturb(world, dice, fault, victim),
    }
}

/// Starves one task of a process: it runs for a moment now and then.
fn starve(world: &World, node: NodeId, dice: &Dice) {
    let Some(process) = world.process(node) else { return };
    let Some(task) = process.group.starve(|tasks| dice.index(tasks)) else { return };
    world.set_starved(node, true);
    let (world, dice, length) = (world.clone(), dice.clone(), dice.millis(100..3000));
    spawn_detached(async move {
        let began = NodeRuntime::elapsed();
        while NodeRuntime::elapsed() - began < length && !process.group.is_dead() {
            NodeRuntime::sleep(dice.millis(5..200)).await;
            process.group.feed();
            NodeRuntime::sleep(STARVED_TURN).await;
            if world.is_quiet() {
                break;
            }
            process.group.starve_again(task);
        }
        process.group.feed();
        world.set_starved(node, false);
    });
}

fn down(world: &World, node: NodeId, power_lost: bool, away: Duration) {
    world.kill(node, power_lost);
    let world = world.clone();
    spawn_detached(async move {
        NodeRuntime::sleep(away).await;
        world.start(node);
    });
}

/// A machine loses power, unless the run is quiet.
fn strike_down(world: &World, node: NodeId, away: Duration) {
    if !world.is_quiet() {
        down(world, node, true, away);
    }
}

fn at_point(world: &World, node: NodeId, dice: &Dice) {
    let at = (POINTS[dice.index(POINTS.len())], dice.number(1..4));
    arm(world, node, dice, at);
}

/// Cuts power when `node` passes a point for the `passes`-th time.
fn arm(world: &World, node: NodeId, dice: &Dice, (point, passes): (Point, u64)) {
    // During that work, or after its answer has left and before the next sync.
    let (after, away) = (dice.duration(Duration::ZERO, Duration::from_millis(4)), dice.millis(5..800));
    world.trace().event(format_args!("n{} is to lose power {after:?} after its {passes}. {point:?}", node.0));
    let own = world.clone();
    world.points().arm(node, point, passes, move || {
        spawn_detached(async move {
            NodeRuntime::sleep(after).await;
            strike_down(&own, node, away);
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

/// Ends the time of faults, and every fault in force.
pub fn calm(world: &World) {
    world.trace().event("calm");
    world.set_calm();
    mend(world);
}

/// Ends every fault in force: heals links, disks and processes, but those that are held.
pub fn mend(world: &World) {
    world.points().disarm();
    world.network().heal();
    world.network().behave(|manner| *manner = NetworkManner::default());
    for node in world.members() {
        let disk = world.disk(node);
        let failing = disk.fails();
        disk.behave(|manner| {
            (manner.sync_fails, manner.sync_hangs, manner.write_fails) = (false, false, None)
        });
        disk.restore();
        restore_speed(disk);
        if failing {
            // A process whose disk failed has stopped for good.
            world.kill(node, true);
        }
        if let Some(process) = world.process(node) {
            process.group.resume();
            process.group.feed();
        }
        world.start(node);
    }
}
