//! Programs of different versions in one cluster.
//!
//! Owns the version of each member's program: the feature level that it supports. In some runs the cluster is founded
//! by older programs, upgraded one member after another under writes and faults, and a member is downgraded again. The
//! promises: no entry is skipped and no member diverges (the ledger and the logs are checked anyway); a process ends
//! only if the cluster agreed on a level that its program lacks; once all are upgraded the cluster agrees on the newest
//! level.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use openraft_rt::AsyncRuntime;
use orch_proto::store as wire;
use orch_raft::transport::{NodeId, PeerService, Purpose};
use orch_raft::{FEATURE_LEVEL_MAX, State};
use parking_lot::Mutex;
use prost::Message;

use super::dice::Dice;
use super::plant::Altered;
use super::runtime::NodeRuntime;
use super::world::World;

/// Percentage of runs with programs of different versions.
const RUNS_PERCENT: u64 = 40;

/// Percentage of founders in such a run that run the older program.
const OLD_PERCENT: u64 = 75;

/// Percentage of steps of an upgrade that downgrade a member.
const DOWNGRADES_PERCENT: u64 = 25;

/// Feature level of the older program: that of programs from before levels, whose forms differ most.
const OLD: u32 = 0;

/// Virtual time in which a calm cluster of new programs must agree on the newest level.
const AGREED_MAX: Duration = Duration::from_secs(30);

/// Polling interval of the agreed level.
const LOOK: Duration = Duration::from_millis(50);

/// The programs of the members.
#[derive(Debug, Default)]
pub struct Versions {
    /// Members that run the older program, with its feature level.
    old: Mutex<BTreeMap<NodeId, u32>>,
    /// The highest level that any member has applied.
    agreed: AtomicU32,
}

impl Versions {
    /// The feature level that the program of `node` supports.
    pub fn program(&self, node: NodeId) -> u32 {
        self.old.lock().get(&node).copied().unwrap_or(FEATURE_LEVEL_MAX)
    }

    /// The cluster has agreed on a level that the program of `node` lacks: it must end.
    pub fn must_end(&self, node: NodeId) -> bool {
        self.program(node) < self.agreed.load(Ordering::Relaxed)
    }

    /// Records the agreed level in a member's applied state.
    pub fn observe(&self, state: &State) {
        if self.agreed.load(Ordering::Relaxed) < FEATURE_LEVEL_MAX {
            self.agreed.fetch_max(orch_raft::member::agreed_feature_level(state), Ordering::Relaxed);
        }
    }

    /// Gives `node`, which does not run, the newest program.
    pub fn upgrade(&self, node: NodeId) {
        self.set(node, FEATURE_LEVEL_MAX);
    }

    fn set(&self, node: NodeId, program: u32) {
        let mut old = self.old.lock();
        match program < FEATURE_LEVEL_MAX {
            true => old.insert(node, program),
            false => old.remove(&node),
        };
    }
}

/// Draws the programs of the founders.
pub fn found(world: &World) {
    let dice = world.dice("versions");
    if !dice.percent(RUNS_PERCENT) {
        return;
    }
    for node in world.members() {
        if dice.percent(OLD_PERCENT) {
            world.trace().event(format_args!("n{} runs the older program", node.0));
            world.versions().set(node, OLD);
        }
    }
}

/// Upgrades the members one after another, in a run with older programs, and downgrades some.
pub async fn roll(world: World) {
    let dice = world.dice("upgrades");
    let mixed = world.members().into_iter().any(|node| world.versions().program(node) < FEATURE_LEVEL_MAX);
    while mixed && world.is_busy() {
        NodeRuntime::sleep(dice.millis(100..1500)).await;
        let members = world.members();
        let node = members[dice.index(members.len())];
        let back = dice.percent(DOWNGRADES_PERCENT);
        if world.is_quiet() {
            continue;
        }
        replace_program(&world, node, if back { OLD } else { FEATURE_LEVEL_MAX }, &dice).await;
    }
}

/// Restarts `node` with another program.
async fn replace_program(world: &World, node: NodeId, program: u32, dice: &Dice) {
    if world.versions().program(node) == program {
        return;
    }
    world.trace().event(format_args!("n{} gets a program of feature level {program}", node.0));
    world.kill(node, false);
    world.versions().set(node, program);
    NodeRuntime::sleep(dice.millis(5..300)).await;
    world.start(node);
}

/// Upgrades every member to the newest program.
pub async fn upgrade_all(world: &World) {
    let dice = world.dice("last upgrades");
    for node in world.members() {
        replace_program(world, node, FEATURE_LEVEL_MAX, &dice).await;
    }
}

/// Waits until every member has applied the newest level.
pub async fn agree(world: &World) {
    let began = NodeRuntime::elapsed();
    let follows = |node| {
        let store = world.store(node);
        store.is_some_and(|store| store.inner().status().feature_level == FEATURE_LEVEL_MAX)
    };
    while world.failure().is_none() && !world.members().into_iter().all(follows) {
        if NodeRuntime::elapsed() - began > AGREED_MAX {
            return world.fail("the cluster does not agree on the feature level that all of it supports");
        }
        NodeRuntime::sleep(LOOK).await;
    }
}

/// `service` of a member whose program takes unknown entries for blank ones, as a program without entry formats would.
/// It claims to support every level, so that the cluster does not wait for it.
pub fn skips_unknown(service: Arc<dyn PeerService>) -> Arc<dyn PeerService> {
    Altered::before(service, |purpose, frame| match purpose {
        Purpose::Append => skip_unknown(frame),
        _ => frame,
    })
}

/// An append request as a program of the older level decodes it without a check of formats.
fn skip_unknown(frame: Bytes) -> Bytes {
    use wire::entry::Payload;
    let Ok(mut request) = wire::AppendRequest::decode(frame.clone()) else { return frame };
    let format = |bytes: &Bytes| wire::Transaction::decode(bytes.clone()).map_or(0, |read| read.format);
    for entry in &mut request.entries {
        let unknown = match &entry.payload {
            Some(Payload::Transaction(bytes)) => format(bytes) > OLD,
            Some(Payload::Blank(_)) => true,
            Some(Payload::Membership(_)) | None => false,
        };
        if unknown {
            (entry.payload, entry.format) = (None, 0);
        }
    }
    Bytes::from(request.encode_to_vec())
}
