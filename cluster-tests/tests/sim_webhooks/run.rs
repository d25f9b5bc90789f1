//! One run: a cluster, webhooks, clients and faults from a seed, then the calm, then the judgement.
//!
//! Owns the phases of a run. The oracles of the cluster watch it all the time; their first finding, or one of the judge, ends it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use openraft_rt::AsyncRuntime;
use orch_cluster_tests::sim::faults as member_faults;
use orch_cluster_tests::sim::operator::Operator;
use orch_cluster_tests::sim::requests::Patience;
use orch_cluster_tests::sim::runtime::{NodeRuntime, TaskGroup, spawn_detached};
use orch_cluster_tests::sim::search::Report;
use orch_cluster_tests::sim::setup::Setup;
use orch_cluster_tests::sim::world::World;
use orch_raft::transport::NodeId;
use serde_json::Value;

use super::hosts::{Hosts, configurations, path_of};
use super::judge::{Counts, judge};
use super::plant::Plant;
use super::writers::{CODES, OBJECTS, Seen, Writer};

/// Virtual time of clients and faults.
const LENGTH_MIN: Duration = Duration::from_secs(5);
const LENGTH_MAX: Duration = Duration::from_secs(12);

/// Interval at which the members' logs are observed.
const LOGS_LOOK: Duration = Duration::from_millis(50);

/// Percentage of runs in which the members have faults.
const FAULTS_PERCENT: u64 = 70;

/// How long a member may still work on requests that nobody waits for.
const GIVEN_UP: Duration = Duration::from_secs(30);

/// Within this time every member must serve once nothing is wrong, and webhooks that answer must be asked again.
const PATIENCE: Patience = Patience { look: Duration::from_millis(100), longest: Duration::from_secs(40) };

/// Clients that write.
const WRITERS: u64 = 4;

/// Numbers of the founding operator and of the client that settles, among the clients.
const FOUNDER: u64 = 101;
const SETTLER: u64 = 102;

/// Does the run of `seed`, with a planted bug or without.
pub(crate) fn run(seed: u64, plant: Option<Plant>) -> Report<Counts> {
    NodeRuntime::with_seed(seed).block_on(async move {
        let members = if seed % 3 == 2 { 5 } else { 3 };
        let world = World::new(Setup::new(seed, members));
        world.ledger().keep(&["configmaps"]);
        let report = whole(&world, plant).await;
        world.end();
        report
    })
}

async fn whole(world: &World, plant: Option<Plant>) -> Report<Counts> {
    let (hosts, seen) = (Hosts::default(), Arc::new(Seen::default()));
    hosts.join(world, plant);
    live(world, &hosts, &seen, plant).await;
    let calls = hosts.calls();
    // A run that was broken off is not judged: what it failed with is the finding.
    let stored = match world.failure() {
        Some(_) => Ok(Some(0)),
        None => judge(world.ledger(), &calls),
    };
    let stored = stored.unwrap_or_else(|broken| {
        world.fail(broken);
        Some(0)
    });
    let number = |count: &AtomicU64| usize::try_from(count.load(Ordering::Relaxed)).unwrap_or(usize::MAX);
    let (denied, failed) = (number(&seen.denied), number(&seen.failed));
    Report::of(world, stored.map(|stored| Counts { stored, denied, failed, calls: calls.len() }))
}

async fn live(world: &World, hosts: &Hosts, seen: &Arc<Seen>, plant: Option<Plant>) {
    world.members().into_iter().for_each(|node| world.start(node));
    drop(spawn_detached(Operator::new(world, FOUNDER).found()));
    let settler = Writer::new(world, SETTLER, seen, plant);
    PATIENCE.await_service(settler.session(), &CODES, "the start").await;
    configure(&settler).await;
    let clients = (1..=WRITERS).map(|number| Writer::new(world, number, seen, plant));
    let clients: Vec<_> = clients.map(|client| spawn_detached(client.write())).collect();
    let (rage, dice) = (TaskGroup::default(), world.dice("webhooks"));
    if dice.percent(FAULTS_PERCENT) {
        drop(rage.spawn(member_faults::rage(world.clone())));
    }
    let end = NodeRuntime::elapsed() + dice.duration(LENGTH_MIN, LENGTH_MAX);
    while NodeRuntime::elapsed() < end && world.failure().is_none() {
        NodeRuntime::sleep(LOGS_LOOK).await;
        world.observe_logs();
    }
    world.end_busy();
    rage.kill();
    member_faults::calm(world);
    hosts.calm();
    for client in clients {
        if client.await.is_err() {
            world.fail("a client ended badly");
        }
    }
    // Requests that their clients gave up may still be carried out.
    NodeRuntime::sleep(GIVEN_UP).await;
    PATIENCE.await_service(settler.session(), &CODES, "the last fault").await;
    for node in world.members() {
        await_write(&settler, node).await;
    }
}

/// Has the configurations in force on every member.
async fn configure(client: &Writer) {
    for (kind, document) in configurations() {
        let path = path_of(kind);
        PATIENCE
            .until(client.world(), "the configurations are not stored", async || {
                matches!(client.ask(client.pick(), "POST", &path, &document).await, Some(201 | 409))
            })
            .await;
        for node in client.world().members() {
            let what = format!("n{} does not have the configurations", node.0);
            let path = format!("{path}/sim");
            PATIENCE
                .until(client.world(), &what, async || {
                    client.ask(node, "GET", &path, &Value::Null).await == Some(200)
                })
                .await;
        }
    }
}

/// Waits until `node` creates an object. A webhook refuses some.
async fn await_write(client: &Writer, node: NodeId) {
    let (what, name) = (format!("n{} stores nothing in the end", node.0), format!("last-{}", node.0));
    PATIENCE.until(client.world(), &what, async || client.create(node, &name).await == Some(201)).await;
    let path = format!("{OBJECTS}/{name}");
    let what = format!("n{} does not have what it stored", node.0);
    PATIENCE
        .until(client.world(), &what, async || {
            client.ask(node, "GET", &path, &Value::Null).await == Some(200)
        })
        .await;
}
