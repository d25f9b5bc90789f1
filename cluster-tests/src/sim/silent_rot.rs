//! A stored object that changes without a checksum error.
//!
//! Owns one fault, in some runs, after all others: a byte of an object that one member has stored differs when the
//! member's process starts. Only the comparison between members can detect that: it must, and the member must be
//! repaired from the others, unless a client writes the object again before. At the end the member's state is checked
//! like every other.

use std::time::Duration;

use bytes::Bytes;
use openraft_rt::AsyncRuntime;
use orch_raft::Store;
use orch_raft::transport::NodeId;

use super::plant::Occasion;
use super::runtime::NodeRuntime;
use super::world::World;

/// Percentage of runs with this fault.
const RUNS_PERCENT: u64 = 15;

/// Virtual time in which the member must be repaired: several rounds of comparison, and a snapshot.
const REPAIRED_MAX: Duration = Duration::from_secs(30);

/// Polling interval of the repair.
const LOOK: Duration = Duration::from_millis(50);

/// Changes a byte on a random member's disk, and waits until the members have repaired it.
pub async fn strike(world: &World) {
    let dice = world.dice("silent rot");
    let members = world.members();
    let victim = members[dice.index(members.len())];
    // In a cluster of two no majority tells which state is right.
    let happens = dice.percent(RUNS_PERCENT) || world.is_due(Occasion::SilentRot);
    if !happens || members.len() < 3 || world.failure().is_some() {
        return;
    }
    let Some(sound) = members.into_iter().find(|node| *node != victim) else { return };
    let Some(store) = world.store(sound) else { return };
    let state = store.state();
    // An object that a later log entry writes again would be repaired by the start.
    let is_current = |resource: &str, path: &str, revision: u64| {
        state.collection(resource).get(path).is_some_and(|object| object.revision.0 == revision)
    };
    world.kill(victim, false);
    let changed = world.disk(victim).change_silently(is_current);
    world.set_rotten(victim, changed.is_some());
    world.start(victim);
    let Some((resource, path)) = changed else { return };
    let is_repaired = || {
        serves(world, victim)
            && object(world, victim, &resource, &path) == object(world, sound, &resource, &path)
    };
    world.trace().event(format_args!("a stored object of n{} has another byte", victim.0));
    let began = NodeRuntime::elapsed();
    while world.failure().is_none() && !is_repaired() {
        if NodeRuntime::elapsed() - began > REPAIRED_MAX {
            world.fail(format_args!("n{} stored another byte and is not repaired", victim.0));
        }
        NodeRuntime::sleep(LOOK).await;
        world.observe_logs();
    }
    world.trace().event(format_args!("n{} is repaired", victim.0));
    world.set_rotten(victim, false);
    world.observe_whole(victim);
}

/// `node` runs and is not quarantined.
fn serves(world: &World, node: NodeId) -> bool {
    let store = world.store(node);
    store.is_some_and(|store| store.may_serve().is_ok())
}

/// An object's JSON in the state of `node`.
fn object(world: &World, node: NodeId, resource: &str, path: &str) -> Option<Bytes> {
    let state = world.store(node)?.state();
    state.collection(resource).get(path).map(|object| object.json.clone())
}
