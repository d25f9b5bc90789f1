//! Programs of different versions in one cluster.
//!
//! Owns which version each member's process runs: the feature level that its program supports. In some runs the cluster
//! is founded by older programs, upgraded one member after another while clients write and things go wrong, and a
//! member is put back to the older program. What must hold: no entry is skipped and no member diverges (the ledger and
//! the logs are watched anyway); a process ends only if the cluster agreed on a level that its program lacks; once all
//! are upgraded the cluster agrees on the newest level.

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

/// Of a hundred runs, how many have programs of different versions.
const RUNS_PERCENT: u64 = 40;

/// Of a hundred founders in such a run, how many run the older program.
const OLD_PERCENT: u64 = 75;

/// Of a hundred steps of an upgrade, how many put a member back to the older program.
const DOWNGRADES_PERCENT: u64 = 25;

/// The level of the older program.
const OLD: u32 = FEATURE_LEVEL_MAX - 1;

/// Virtual time in which a calm cluster of new programs must agree on the newest level.
const AGREED_MAX: Duration = Duration::from_secs(30);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// Which program each member runs.
#[derive(Debug, Default)]
pub struct Versions {
    /// Members that run the older program.
    old: Mutex<BTreeMap<NodeId, u32>>,
    /// The highest level that any member has applied.
    agreed: AtomicU32,
}

impl Versions {
    /// The feature level that the program of `node` supports.
    pub fn program(&self, node: NodeId) -> u32 {
        self.old.lock().get(&node).copied().unwrap_or(FEATURE_LEVEL_MAX)
    }

    /// Whether the cluster has agreed on a level that the program of `node` lacks: it must end.
    pub fn must_end(&self, node: NodeId) -> bool {
        self.program(node) < self.agreed.load(Ordering::Relaxed)
    }

    /// Looks at a state that some member has applied.
    pub fn observe(&self, state: &State) {
        if self.agreed.load(Ordering::Relaxed) < FEATURE_LEVEL_MAX {
            self.agreed.fetch_max(orch_raft::member::agreed_feature_level(state), Ordering::Relaxed);
        }
    }

    fn set(&self, node: NodeId, program: u32) {
        let mut old = self.old.lock();
        match program < FEATURE_LEVEL_MAX {
            true => old.insert(node, program),
            false => old.remove(&node),
        };
    }
}

/// Draws the programs that the founders run.
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

/// Upgrades the members one after another, in a run that has older ones, and puts some back.
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

/// Ends the process of `node` and starts it with another program.
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

/// Every member runs the newest program from now on.
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

/// `service` of a member whose program takes what it does not know for blank entries, as one without formats would. It
/// claims to read everything, so that the cluster goes on without waiting for it.
pub fn skips_unknown(service: Arc<dyn PeerService>) -> Arc<dyn PeerService> {
    Altered::before(service, |purpose, frame| match purpose {
        Purpose::Append => skip_unknown(frame),
        _ => frame,
    })
}

/// A frame of appends as a program of the older level decodes it when it checks no format.
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
