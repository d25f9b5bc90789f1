//! One run: a cluster under clients and faults, then calm, then the checks.
//!
//! Owns the phases of a run and the least that it must have done to count: a test without load proves nothing.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use openraft_rt::AsyncRuntime;
use orch_raft::{Revision, Store};

use super::clients;
use super::faults;
use super::judgement::{Verified, answered, calls_min, judge};
use super::majority;
use super::operator::Operator;
use super::outsider;
use super::plant::Plant;
use super::runtime::{NodeRuntime, TaskGroup, spawn_detached};
use super::session::Session;
use super::setup::Setup;
use super::silent_rot;
use super::versions;
use super::world::World;

/// Interval at which all logs are observed: a compromise between every event and the duration of a run.
const LOOK: Duration = Duration::from_millis(20);

/// Virtual time in which a calm cluster must serve every member's clients again.
const RECOVERY_MAX: Duration = Duration::from_secs(30);

/// Virtual time in which any write or read is answered without faults: one late election fits in.
const QUIET_MAX: Duration = Duration::from_secs(2);

/// Writes and reads through each member that must keep `QUIET_MAX`.
const PROBES: u32 = 8;

/// Requests for one digest: each may be lost, or ask for a revision before the history's floor.
const DIGEST_ATTEMPTS: u32 = 5;

/// Concurrent writes before a run with many objects.
const POPULATE_AT_ONCE: u64 = 64;

/// First client number of the populating clients.
const POPULATORS: u64 = 1000;

/// Virtual time in which the controllers must have fulfilled their duties: twice their longest back-off after failures.
const CONTROL_MAX: Duration = Duration::from_secs(60);

/// Interval at which the duties are checked.
const CONTROL_LOOK: Duration = Duration::from_millis(250);

/// Pause of watches before the last write: longer than a network delay, so that they wait for its event.
const SETTLE: Duration = Duration::from_millis(300);

/// Multiple of its length by which a run may extend into the calm to get its calls: much of it may pass without a
/// quorum.
const EXTENSION_MAX: u32 = 3;

/// Percentage of runs in which the cluster is founded under faults.
const FOUNDED_UNDER_FAULTS_PERCENT: u64 = 25;

/// Client number of the operator.
const OPERATOR: u64 = 100;

/// Client number of the founding operator.
const FOUNDER: u64 = 101;

/// Last lines of the trace in a failure report.
const TAIL_LINES: usize = 120;

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// Its choices.
    pub setup: Setup,
    /// The first failure, if any.
    pub failure: Option<String>,
    /// Calls with an outcome.
    pub calls: usize,
    /// Changes recorded in the ledger.
    pub changes: usize,
    /// Counts of the checks against the ledger.
    pub verified: Verified,
    /// The newest revision.
    pub revision: Revision,
    /// Clusters of the run: more than one where a recovery or a restore made another.
    pub clusters: usize,
    /// Virtual time of the run.
    pub took: Duration,
    /// Hash of all events.
    pub trace_hash: u64,
    /// Hash of all changes and digests.
    pub ledger_hash: u64,
    /// The last events.
    pub tail: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { setup, calls, changes, verified, revision, clusters, trace_hash, ledger_hash, .. } =
            self;
        write!(
            f,
            "seed {} members {}: {calls} calls, {changes} changes, {verified}, revision {revision}, clusters {clusters}, {:.1} s, \
             trace {trace_hash:016x}, ledger {ledger_hash:016x}",
            setup.seed,
            setup.members,
            self.took.as_secs_f64(),
        )?;
        let Some(failure) = &self.failure else { return Ok(()) };
        writeln!(f)?;
        for line in &self.tail {
            writeln!(f, "  {line}")?;
        }
        writeln!(f, "seed {} failed: {failure}", setup.seed)?;
        write!(f, "replay: {}", setup.command())
    }
}

/// Runs one simulation from its seed to its report.
pub fn run(setup: Setup) -> Report {
    NodeRuntime::with_seed(setup.seed).block_on(async move {
        let world = World::new(setup);
        live(&world).await;
        let verified = if world.failure().is_none() { judge(&world) } else { Verified::default() };
        let report = report(&world, verified);
        world.end();
        report
    })
}

async fn live(world: &World) {
    versions::found(world);
    world.members().into_iter().for_each(|node| world.start(node));
    drop(spawn_detached(Operator::new(world, FOUNDER).found()));
    // In some runs faults begin before the founding.
    let objects = world.scale().objects;
    let founded_in_peace = objects > 0 || !world.dice("founding").percent(FOUNDED_UNDER_FAULTS_PERCENT);
    if founded_in_peace && !recovers(world, "start").await {
        return;
    }
    populate(world, objects).await;
    let began = NodeRuntime::elapsed();
    let length = world.minutes().unwrap_or_default() + world.setup().length;
    let clients = match world.setup().plant {
        Some(Plant::NoLoad) => Vec::new(),
        _ => clients::usual(),
    };
    let sessions = clients.into_iter().zip(1..).map(|(driver, number)| {
        let session = Session::new(world, number);
        spawn_detached(driver.drive(session))
    });
    let clients: Vec<_> = sessions.collect();
    let operator = spawn_detached(Operator::new(world, OPERATOR).operate());
    let onlooker = TaskGroup::default();
    drop(onlooker.spawn(majority::watch(world.clone())));
    let rage = TaskGroup::default();
    drop(rage.spawn(faults::rage(world.clone())));
    drop(rage.spawn(versions::roll(world.clone())));
    drop(rage.spawn(outsider::attack(world.clone())));
    look_on(world, |passed, _| passed > began + length).await;
    rage.kill();
    faults::calm(world);
    versions::upgrade_all(world).await;
    // Clients make up for the calls that faults prevented.
    let (longest, enough) = (began + length + world.setup().length * EXTENSION_MAX, calls_min(world));
    look_on(world, |passed, done| done >= enough || passed > longest).await;
    world.end_busy();
    if NodeRuntime::timeout(RECOVERY_MAX * 2, operator).await.is_err() {
        world.fail("the operator does not get its change done in the calm");
    }
    // From here on every member must serve within `RECOVERY_MAX`.
    onlooker.kill();
    if !recovers(world, "calm").await {
        return;
    }
    silent_rot::strike(world).await;
    let served = recovers(world, "silent rot").await && serves_quickly(world).await;
    if !served || !controllers_are_done(world).await {
        return;
    }
    drain(world).await;
    for client in clients {
        if let Ok(Err(gone)) = NodeRuntime::timeout(RECOVERY_MAX, client).await {
            world.fail(format_args!("a client ended badly: {gone}"));
        }
    }
    versions::agree(world).await;
    agree(world).await;
}

/// Waits until every member's state shows that the controllers' duties are fulfilled.
async fn controllers_are_done(world: &World) -> bool {
    let began = NodeRuntime::elapsed();
    while world.failure().is_none() {
        let states = world.members().into_iter().map(|node| Some(world.store(node)?.state()));
        let unmet = states.map(|state| match state {
            Some(state) => world.duties(|duties| duties.unmet(&state)),
            None => Some("a member does not run".to_owned()),
        });
        let Some(unmet) = unmet.into_iter().flatten().next() else { return true };
        if NodeRuntime::elapsed() - began > CONTROL_MAX {
            world.fail(format_args!("{CONTROL_MAX:?} after calm: {unmet}"));
        }
        NodeRuntime::sleep(CONTROL_LOOK).await;
        world.observe_logs();
    }
    false
}

/// Keeps all watches on their members, makes the last write, and ends the watches when they have seen it.
async fn drain(world: &World) {
    world.settle();
    let began = NodeRuntime::elapsed();
    let watching = if world.setup().plant == Some(Plant::NoLoad) { 0 } else { clients::INFORMERS };
    while world.settled() < watching && world.failure().is_none() {
        if NodeRuntime::elapsed() - began > RECOVERY_MAX {
            let settled = world.settled();
            return world.fail(format_args!("only {settled} of {watching} watches start in the calm"));
        }
        NodeRuntime::sleep(LOOK).await;
    }
    // Watches that lagged have caught up.
    NodeRuntime::sleep(SETTLE).await;
    let session = Session::new(world, 0);
    while world.failure().is_none() {
        if let Some(revision) = clients::write_last(&session, session.pick()).await {
            return world.drain(revision);
        }
    }
}

/// Waits until `enough` accepts the time since the start and the number of calls, and observes all logs meanwhile.
async fn look_on(world: &World, enough: impl Fn(Duration, usize) -> bool) {
    while world.failure().is_none() && !enough(NodeRuntime::elapsed(), answered(world)) {
        NodeRuntime::sleep(LOOK).await;
        world.observe_logs();
    }
}

/// Waits until a write and a read through every member succeed; records a failure after `RECOVERY_MAX`.
async fn recovers(world: &World, when: &str) -> bool {
    let began = NodeRuntime::elapsed();
    let session = Session::new(world, 0);
    for node in world.members() {
        while !(clients::write_once(&session, node).await && clients::read_once(&session, node).await) {
            world.observe_logs();
            if world.failure().is_some() {
                return false;
            }
            if NodeRuntime::elapsed() - began > RECOVERY_MAX {
                world.fail(format_args!(
                    "no write and read through n{} within {RECOVERY_MAX:?} after {when}",
                    node.0
                ));
                return false;
            }
            session.think(100).await;
        }
    }
    let took = NodeRuntime::elapsed() - began;
    world.trace().event(format_args!("serving {} ms after {when}", took.as_millis()));
    true
}

/// Writes `objects` objects into a resource of their own, many at a time.
async fn populate(world: &World, objects: u64) {
    let next = Arc::new(AtomicU64::new(0));
    let workers = (0..POPULATE_AT_ONCE.min(objects)).map(|number| {
        let (world, next) = (world.clone(), next.clone());
        spawn_detached(async move {
            let session = Session::new(&world, POPULATORS + number);
            loop {
                let object = next.fetch_add(1, Ordering::Relaxed);
                if object >= objects || world.failure().is_some() {
                    return;
                }
                while !clients::fill(&session, object).await && world.failure().is_none() {}
            }
        })
    });
    for worker in workers.collect::<Vec<_>>() {
        drop(worker.await);
    }
    world.observe_logs();
}

/// Without faults, every write and read through every member is answered within `QUIET_MAX`.
async fn serves_quickly(world: &World) -> bool {
    let session = Session::new(world, 0);
    for node in world.members() {
        for probe in 0..PROBES {
            let began = NodeRuntime::elapsed();
            let (what, mut done) = if probe % 2 == 0 { ("write", false) } else { ("read", false) };
            while !done && world.failure().is_none() {
                done = match what {
                    "write" => clients::write_once(&session, node).await,
                    _ => clients::read_once(&session, node).await,
                };
                let took = NodeRuntime::elapsed() - began;
                if took > QUIET_MAX {
                    let millis = took.as_millis();
                    world.fail(format_args!(
                        "a {what} through n{} takes {millis} ms with nothing wrong",
                        node.0
                    ));
                }
            }
        }
    }
    world.failure().is_none()
}

/// Waits until every member has applied the same revision, then compares their whole states: here, and by their own
/// digests.
async fn agree(world: &World) {
    let began = NodeRuntime::elapsed();
    let revision = loop {
        world.observe_logs();
        let applied: Vec<Option<Revision>> =
            world.members().into_iter().map(|node| world.applied(node)).collect();
        if world.failure().is_some() {
            return;
        }
        match applied[0] {
            Some(first) if applied.iter().all(|one| *one == Some(first)) => break first,
            _ => {}
        }
        if NodeRuntime::elapsed() - began > RECOVERY_MAX {
            return world.fail(format_args!("members do not converge: {applied:?}"));
        }
        NodeRuntime::sleep(LOOK).await;
    };
    world.members().into_iter().for_each(|node| world.observe_whole(node));
    let (session, members) = (Session::new(world, 0), world.members());
    for other in members.iter().skip(1) {
        let mut compared = Err("not asked".to_owned());
        for _ in 0..DIGEST_ATTEMPTS {
            let peer = world.peer(*other).clone();
            let asked = session.request(members[0], move |store: super::world::Handle| async move {
                store.inner().agrees_with(&peer, revision).await
            });
            compared = asked.await.unwrap_or_else(|gone| Err(format!("{gone:?}")));
            if compared.is_ok() {
                break;
            }
        }
        match compared {
            Ok(true) => {}
            Ok(false) => world.fail(format_args!("n{} reports another digest at {revision}", other.0)),
            Err(reason) => world.fail(format_args!("no digest of n{} to compare: {reason}", other.0)),
        }
    }
}

fn report(world: &World, verified: Verified) -> Report {
    let (trace, ledger) = (world.trace(), world.ledger());
    Report {
        setup: *world.setup(),
        failure: world.failure(),
        calls: answered(world),
        verified,
        changes: ledger.len(),
        revision: ledger.frontier(),
        clusters: world.eras().len() + 1,
        took: NodeRuntime::elapsed(),
        trace_hash: trace.hash().0,
        ledger_hash: ledger.hash().0,
        tail: trace.tail(TAIL_LINES),
    }
}
