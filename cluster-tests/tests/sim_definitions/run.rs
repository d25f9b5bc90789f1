//! One run: a cluster, clients and faults from a seed, then the calm, then the judgement.
//!
//! Owns the phases of a run. The oracles of the cluster watch it all the time; their first finding, or one of the judge, ends it.

use std::time::Duration;

use openraft_rt::AsyncRuntime;
use orch_api::controllers::with_loop_bug;
use orch_api::definitions::DEFINITIONS;
use orch_cluster_tests::sim::faults as member_faults;
use orch_cluster_tests::sim::operator::Operator;
use orch_cluster_tests::sim::runtime::{NodeRuntime, TaskGroup, spawn_detached};
use orch_cluster_tests::sim::search::Report;
use orch_cluster_tests::sim::setup::Setup;
use orch_cluster_tests::sim::world::World;
use orch_raft::with_hub_bug;

use super::clients::{Client, DRIVERS};
use super::documents::KINDS;
use super::informer::{Informer, Selection};
use super::judge::{Judged, judge, kinds};
use super::plant::Bug;
use super::settling::{await_service, define, settle};
use super::sightings::Sightings;

/// Virtual time of clients and faults.
const LENGTH_MIN: Duration = Duration::from_secs(5);
const LENGTH_MAX: Duration = Duration::from_secs(12);

/// Interval at which the members' logs are observed.
const LOGS_LOOK: Duration = Duration::from_millis(50);

/// Percentage of runs in which the members have faults.
const FAULTS_PERCENT: u64 = 80;

/// How long a member may still work on requests that nobody waits for.
const GIVEN_UP: Duration = Duration::from_secs(30);

/// Informers of each kind.
const INFORMERS: [Selection; 3] = [Selection::All, Selection::All, Selection::ByField];

/// Numbers of the founding operator and of the client that settles, among the clients.
const FOUNDER: u64 = 101;
const SETTLER: u64 = 102;

/// Does the run of `seed`, with a planted bug or without.
pub(crate) fn run(seed: u64, bug: Option<Bug>) -> Report<Judged> {
    let plant = match bug {
        Some(Bug::Store(plant)) => Some(plant),
        Some(Bug::Loops(_) | Bug::Hubs(_)) | None => None,
    };
    let work = || {
        NodeRuntime::with_seed(seed).block_on(async move {
            let members = if seed % 3 == 2 { 5 } else { 3 };
            let world = World::new(Setup { plant, ..Setup::new(seed, members) });
            let stored: Vec<String> = kinds().map(|kind| kind.storage()).collect();
            let kept: Vec<&str> = stored.iter().map(String::as_str).chain([DEFINITIONS]).collect();
            world.ledger().keep(&kept);
            let report = whole(&world).await;
            world.end();
            report
        })
    };
    match bug {
        Some(Bug::Loops(bug)) => with_loop_bug(bug, work),
        Some(Bug::Hubs(bug)) => with_hub_bug(bug, work),
        Some(Bug::Store(_)) | None => work(),
    }
}

async fn whole(world: &World) -> Report<Judged> {
    let seen = Sightings::default();
    live(world, &seen).await;
    // A run that was broken off is not judged: what it failed with is the finding.
    let judged = match world.failure() {
        Some(_) => Ok(Some(Judged::default())),
        None => judge(world.ledger(), &seen),
    };
    let judged = judged.unwrap_or_else(|broken| {
        world.fail(broken);
        Some(Judged::default())
    });
    Report::of(world, judged)
}

async fn live(world: &World, seen: &Sightings) {
    world.members().into_iter().for_each(|node| world.start(node));
    drop(spawn_detached(Operator::new(world, FOUNDER).found()));
    let settler = Client::new(world, SETTLER, seen);
    await_service(&settler, "the start").await;
    for kind in KINDS {
        define(&settler, kind).await;
    }
    let mut number = 0;
    let mut client = || {
        number += 1;
        Client::new(world, number, seen)
    };
    let mut clients = Vec::new();
    for (drive, count) in DRIVERS {
        clients.extend((0..count).map(|_| spawn_detached(client().drive(drive))));
    }
    let asked = KINDS.into_iter().flat_map(|kind| INFORMERS.map(|selection| (kind, selection)));
    let informers: Vec<Informer> =
        asked.map(|(kind, selection)| Informer::new(client(), kind, selection)).collect();
    informers.iter().for_each(|informer| drop(spawn_detached(informer.clone().run())));
    let (rage, dice) = (TaskGroup::default(), world.dice("definitions"));
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
    for client in clients {
        if client.await.is_err() {
            world.fail("a client ended badly");
        }
    }
    // Requests that their clients gave up may still be carried out.
    NodeRuntime::sleep(GIVEN_UP).await;
    settle(&settler, &informers).await;
    seen.end();
}
