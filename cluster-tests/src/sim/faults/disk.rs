//! The faults of a disk: slow, hanging and failing syncs, refused writes, unreadable records.
//!
//! Owns their durations and ends. It also checks that a process stops after a refused write.

use std::time::Duration;

use openraft_rt::AsyncRuntime;
use orch_raft::transport::NodeId;

use super::{Fault, down, strike_down};
use crate::sim::dice::Dice;
use crate::sim::disk::{DiskManner, SimDisk};
use crate::sim::runtime::{NodeRuntime, spawn_detached};
use crate::sim::world::World;

/// Time within which a process must stop after a refused write: enough for its operations under way.
const STOP_MAX: Duration = Duration::from_secs(1);

/// Injects a fault of the disk.
pub(super) fn spoil(world: &World, dice: &Dice, fault: Fault, victim: NodeId) {
    match fault {
        Fault::FailedSync => {
            world.disk(victim).behave(|manner| manner.sync_fails = true);
            let (world, after) = (world.clone(), dice.millis(5..100));
            let away = dice.millis(5..1000);
            spawn_detached(async move {
                NodeRuntime::sleep(after).await;
                world.disk(victim).behave(|manner| manner.sync_fails = false);
                strike_down(&world, victim, away);
            });
        }
        Fault::SlowDisk => slow(world, victim, dice),
        Fault::HungSync => {
            world.disk(victim).behave(|manner| manner.sync_hangs = true);
            let (disk, length) = (world.disk(victim).clone(), dice.millis(50..4000));
            spawn_detached(async move {
                NodeRuntime::sleep(length).await;
                disk.behave(|manner| manner.sync_hangs = false);
            });
        }
        Fault::WriteError => fail_writes(world, victim, "input/output error (injected)", dice),
        Fault::FullDisk => fail_writes(world, victim, "no space left on device (injected)", dice),
        _ => {
            world.disk(victim).rot(dice);
            // Most records are read only at a start.
            if dice.percent(50) {
                down(world, victim, dice.percent(50), dice.millis(5..300));
            }
            let (disk, length) = (world.disk(victim).clone(), dice.millis(300..2500));
            spawn_detached(async move {
                NodeRuntime::sleep(length).await;
                disk.restore();
            });
        }
    }
}

/// Fails writes to the disk of `node` for a while. Its process must stop, and may start again once writes succeed.
fn fail_writes(world: &World, node: NodeId, reason: &'static str, dice: &Dice) {
    world.disk(node).behave(|manner| manner.write_fails = Some(reason));
    let (world, length) = (world.clone(), dice.millis(100..2500));
    let process = world.process(node);
    spawn_detached(async move {
        NodeRuntime::sleep(length).await;
        let is_down = |world: &World| {
            let now = world.process(node);
            let same = now.zip(process.as_ref()).is_some_and(|(now, then)| now.group == then.group);
            let stopped = process.as_ref().is_some_and(|process| process.group.is_paused());
            same && !stopped && world.disk(node).has_failed()
        };
        if is_down(&world) {
            NodeRuntime::sleep(STOP_MAX).await;
        }
        if is_down(&world) && !world.is_starved(node) {
            world.fail(format_args!("n{} goes on {STOP_MAX:?} after its disk refused a write", node.0));
        }
        world.disk(node).behave(|manner| manner.write_fails = None);
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

pub(super) fn restore_speed(disk: &SimDisk) {
    let usual = DiskManner::default();
    disk.behave(|manner| (manner.sync_min, manner.sync_max) = (usual.sync_min, usual.sync_max));
}
