//! A member's process: the member of production on a simulated runtime, disk and transport.
//!
//! Owns the options of a process, and the part of `main` around the member: serving peers, and exiting after a fatal
//! error of the member. An exit without an injected cause is a failure of the run.

use std::sync::Arc;
use std::time::Duration;

use openraft_rt::AsyncRuntime;
use orch_raft::FEATURE_LEVEL_MAX;
use orch_raft::member::{ClusterSeed, Member, Options, StartError, Timing};
use orch_raft::transport::NodeId;
use orch_raft::transport::tonic::ClusterPin;

use super::disk::DiskHandle;
use super::network::SimTransport;
use super::plant::{Plant, forgetful, spread};
use super::runtime::{NodeRuntime, TaskGroup, spawn_detached};
use super::server::Server;
use super::versions;
use super::world::{Handle, World};

/// The member under test.
pub type SimMember = Member<NodeRuntime, DiskHandle, SimTransport>;

/// The store interface of a member.
pub type MemberStore = orch_raft::Handle<NodeRuntime, DiskHandle, SimTransport>;

/// Short heartbeat intervals and election timeouts: a run sees as many elections in its seconds as a cluster in
/// minutes.
const TIMING: Timing = Timing { heartbeat_ms: 50, election_ms_min: 300, election_ms_max: 600 };

/// Time after an exit until the supervisor restarts the process.
const RESTART_DELAY: Duration = Duration::from_millis(50);

/// Starts the member of `node` for the `start`th time, as code of `process`.
///
/// # Errors
/// The member refuses to start on the content of its disk.
pub async fn start(
    world: &World,
    node: NodeId,
    start: u64,
    process: &TaskGroup,
) -> Result<SimMember, StartError> {
    let disk = Arc::new(world.disk(node).open());
    let pin = ClusterPin::default();
    let transport = world.network().transport_of(node, pin.clone());
    let member = Member::start(options(world, node, start), disk, transport).await?;
    if let Some(cluster) = member.handle().identity().cluster {
        set_cluster(world, node, &pin, &cluster);
    }
    let service = match skips_unknown(world, node) {
        true => versions::skips_unknown(member.service()),
        false => forgetful(member.service(), world.setup().plant),
    };
    let service = spread(service, world.setup().plant);
    world.network().attach_member(node, process.clone(), service, pin);
    process.spawn(exit_when_fatal(world.clone(), node, member.handle()));
    Ok(member)
}

fn options(world: &World, node: NodeId, start: u64) -> Options {
    // Each founder has another token key: the seed of the first leader becomes the cluster's.
    let token_key = std::array::from_fn(|at| u8::try_from((node.0 + at as u64) % 251).unwrap_or_default());
    let seed = ClusterSeed { cluster: "simulated".into(), brand: "orch".into(), token_key };
    let incarnation = world.dice(&format!("incarnation {} {start}", node.0)).number(0..u64::MAX);
    let (me, founders) = (world.peer(node).clone(), world.founders());
    let mut options = Options::new(me.clone(), founders.clone(), seed, incarnation, world.clock(node));
    // Founders may have left the cluster since.
    options.join = world.members().into_iter().map(|other| world.peer(other).clone()).collect();
    if !founders.contains(&me) {
        options.initial_cluster = Vec::new();
    }
    let scale = world.scale();
    (options.timing, options.history, options.log) = (TIMING, scale.history, scale.log);
    // A program that skips unknown entries sees no reason to end.
    options.feature_level_max = match skips_unknown(world, node) {
        true => FEATURE_LEVEL_MAX,
        false => world.versions().program(node),
    };
    options
}

fn skips_unknown(world: &World, node: NodeId) -> bool {
    world.setup().plant == Some(Plant::SkipsUnknown) && world.versions().program(node) < FEATURE_LEVEL_MAX
}

/// Serves the API once the cluster is known, and runs the controllers, as `orch serve` does. Never completes.
pub async fn serve_api(world: World, node: NodeId, start: u64, store: Handle, process: TaskGroup) {
    let Some(cluster) = store.inner().wait_cluster().await else { return };
    if let Some(pin) = world.network().pin(node) {
        set_cluster(&world, node, &pin, &cluster.cluster);
    }
    let server = Server::new(&world, node, start, store, &cluster);
    world.serves(node, &process, server.clone());
    server.control().await;
}

/// Makes `cluster` the one that the frames of `node` name. A member belongs to one for as long as its process lives.
fn set_cluster(world: &World, node: NodeId, pin: &ClusterPin, cluster: &str) {
    if let Err(error) = pin.pin(cluster) {
        world.fail(format_args!("n{}: {error}", node.0));
    }
}

/// Ends the process after a fatal error of the member.
async fn exit_when_fatal(world: World, node: NodeId, store: MemberStore) {
    let reason = store.fatal().await;
    exit(&world, node, &reason);
}

/// Ends the process as `main` would, and restarts it as its supervisor would.
pub fn exit(world: &World, node: NodeId, reason: &str) {
    world.trace().event(format_args!("n{} exits: {reason}", node.0));
    let was_removed = world.is_leaving(node) && reason.contains("was removed");
    let lost = was_removed || world.has_lost_disk(node);
    if !lost && !world.disk(node).fails() && !world.versions().must_end(node) {
        world.fail(format_args!("n{} exits without an injected cause: {reason}", node.0));
    }
    let world = world.clone();
    spawn_detached(async move {
        // After a failed sync the operating system may have dropped unsynced data.
        world.kill(node, world.disk(node).fails());
        if !lost {
            NodeRuntime::sleep(RESTART_DELAY).await;
            world.start(node);
        }
    });
}
