//! The faults of scheduler processes and their links, and their times.
//!
//! Owns their schedule; the members have faults of their own. Each seed weighs the kinds in its own way, and the leader is
//! struck more often than the others.

use std::time::Duration;

use openraft_rt::AsyncRuntime;
use orch_cluster_tests::sim::runtime::NodeRuntime;

use super::links::Origin;
use super::scheduler::Fleet;

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The process is gone between two slices.
    Crash,
    /// The process is told to end.
    Terminate,
    /// The process gets no time.
    Stop,
    /// The process does not reach a member.
    Cut,
    /// The process reaches no member.
    Isolate,
}

const KINDS: [Fault; 5] = [Fault::Crash, Fault::Terminate, Fault::Stop, Fault::Cut, Fault::Isolate];

/// Percentage of faults that strike the leader.
const LEADER_PERCENT: u64 = 60;

/// Strikes processes until the run is calm.
pub(crate) async fn rage(fleet: Fleet) {
    let world = fleet.links.world().clone();
    let dice = world.dice("scheduler faults");
    let weights = KINDS.map(|kind| (kind, [0, 1, 1, 4][dice.index(4)]));
    let every = dice.number(1_500..6_000);
    while world.is_busy() {
        NodeRuntime::sleep(dice.millis(every / 2..every * 3 / 2)).await;
        if !world.is_busy() || weights.iter().all(|(_, weight)| *weight == 0) {
            return;
        }
        let leader = fleet.leader().filter(|_| dice.percent(LEADER_PERCENT));
        let index = leader.unwrap_or_else(|| dice.index(fleet.len()));
        let fault = dice.weighted(&weights);
        let length = dice.millis(200..9_000);
        world.trace().event(format_args!("fault {fault:?} of scheduler {index} for {length:?}"));
        strike(&fleet, index, fault, length, dice.index(world.members().len()));
    }
}

fn strike(fleet: &Fleet, index: usize, fault: Fault, length: Duration, member: usize) {
    let members = fleet.links.world().members();
    match fault {
        Fault::Crash => fleet.kill(index),
        Fault::Terminate => fleet.terminate(index),
        Fault::Stop => fleet.pause(index, length),
        Fault::Cut => fleet.links.cut(Origin::Scheduler(index), members[member], length),
        Fault::Isolate => {
            members.iter().for_each(|node| fleet.links.cut(Origin::Scheduler(index), *node, length));
        }
    }
}
