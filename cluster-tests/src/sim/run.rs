//! One run: a cluster under clients and faults, then calm, then judgement.
//!
//! Owns the order of a run and what a run must have done to count: a test without load proves nothing.

use std::fmt;
use std::time::Duration;

use openraft_rt::AsyncRuntime;
use orch_raft::Revision;

use super::clients;
use super::faults;
use super::linearizability::{check_order, check_registers};
use super::operator::Operator;
use super::plant::Plant;
use super::runtime::{NodeRuntime, TaskGroup, spawn_detached};
use super::session::Session;
use super::setup::Setup;
use super::versions;
use super::world::World;

/// How often all logs are looked at: a compromise between every event and the time a run takes.
const LOOK: Duration = Duration::from_millis(20);

/// Virtual time in which a calm cluster must serve every member's clients again.
const RECOVERY_MAX: Duration = Duration::from_secs(30);

/// Calls with an outcome, for each second of its length, below which a run counts for nothing.
const CALLS_PER_SECOND_MIN: usize = 12;

/// How many times its length a run may go on in the calm to get its calls: much of it may pass without a quorum.
const EXTENSION_MAX: u32 = 3;

/// Of a hundred runs, in how many the cluster is founded while things go wrong.
const FOUNDED_UNDER_FAULTS_PERCENT: u64 = 25;

/// The operator's number among the clients.
const OPERATOR: u64 = 100;

/// The number of the one who founds the cluster.
const FOUNDER: u64 = 101;

/// Lines of the trace that a failure shows.
const TAIL_LINES: usize = 120;

/// What became of a run.
#[derive(Clone, Debug)]
pub struct Report {
    /// What it was made of.
    pub setup: Setup,
    /// What was found wrong, if anything.
    pub failure: Option<String>,
    /// Calls with an outcome.
    pub calls: usize,
    /// Changes noted in the ledger.
    pub changes: usize,
    /// Watches and lists that were held against the ledger.
    pub sightings: usize,
    /// The newest revision.
    pub revision: Revision,
    /// Virtual time that passed.
    pub took: Duration,
    /// A hash over all events.
    pub trace_hash: u64,
    /// A hash over all changes and digests.
    pub ledger_hash: u64,
    /// The last events.
    pub tail: Vec<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { setup, calls, changes, sightings, revision, trace_hash, ledger_hash, .. } = self;
        write!(
            f,
            "seed {} members {}: {calls} calls, {changes} changes, {sightings} watches and lists, revision {revision}, \
             {:.1} s, trace {trace_hash:016x}, ledger {ledger_hash:016x}",
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
        if world.failure().is_none() {
            judge(&world);
        }
        let report = report(&world);
        world.end();
        report
    })
}

async fn live(world: &World) {
    versions::found(world);
    world.members().into_iter().for_each(|node| world.start(node));
    drop(spawn_detached(Operator::new(world, FOUNDER).found()));
    // In some runs things go wrong while the cluster is being founded.
    let founded_in_peace = !world.dice("founding").percent(FOUNDED_UNDER_FAULTS_PERCENT);
    if founded_in_peace && !recovers(world, "start").await {
        return;
    }
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
    let rage = TaskGroup::default();
    drop(rage.spawn(faults::rage(world.clone())));
    drop(rage.spawn(versions::roll(world.clone())));
    look_on(world, |passed, _| passed > world.setup().length).await;
    rage.kill();
    faults::calm(world);
    versions::upgrade_all(world).await;
    // What the faults kept clients from, they do now.
    let (longest, enough) = (world.setup().length * (1 + EXTENSION_MAX), calls_min(world));
    look_on(world, |passed, done| done >= enough || passed > longest).await;
    world.end_busy();
    if NodeRuntime::timeout(RECOVERY_MAX * 2, operator).await.is_err() {
        world.fail("the operator does not get its change done in the calm");
    }
    if !recovers(world, "calm").await {
        return;
    }
    world.drain(world.ledger().frontier());
    for client in clients {
        if let Ok(Err(gone)) = NodeRuntime::timeout(RECOVERY_MAX, client).await {
            world.fail(format_args!("a client ended badly: {gone}"));
        }
    }
    versions::agree(world).await;
    agree(world).await;
}

/// Lets time pass until the time since the start and the calls answered are `enough`, and looks at all logs again and
/// again.
async fn look_on(world: &World, enough: impl Fn(Duration, usize) -> bool) {
    while world.failure().is_none() && !enough(NodeRuntime::elapsed(), world.history().answered()) {
        NodeRuntime::sleep(LOOK).await;
        world.observe_logs();
    }
}

fn calls_min(world: &World) -> usize {
    let seconds = usize::try_from(world.setup().length.as_secs()).unwrap_or(usize::MAX);
    seconds.saturating_mul(CALLS_PER_SECOND_MIN)
}

/// Waits until a write through every member succeeds; records a failure when that takes too long.
async fn recovers(world: &World, when: &str) -> bool {
    let began = NodeRuntime::elapsed();
    let session = Session::new(world, 0);
    for node in world.members() {
        while !clients::write_once(&session, node).await {
            world.observe_logs();
            if world.failure().is_some() {
                return false;
            }
            if NodeRuntime::elapsed() - began > RECOVERY_MAX {
                world.fail(format_args!("no write through n{} within {RECOVERY_MAX:?} after {when}", node.0));
                return false;
            }
            session.think(100).await;
        }
    }
    let took = NodeRuntime::elapsed() - began;
    world.trace().event(format_args!("serving {} ms after {when}", took.as_millis()));
    true
}

/// Waits until every member has applied the same, which the ledger compares.
async fn agree(world: &World) {
    let began = NodeRuntime::elapsed();
    loop {
        world.observe_logs();
        let applied: Vec<Option<Revision>> =
            world.members().into_iter().map(|node| world.applied(node)).collect();
        if world.failure().is_some() || applied.iter().all(|one| one.is_some() && *one == applied[0]) {
            return;
        }
        if NodeRuntime::elapsed() - began > RECOVERY_MAX {
            return world.fail(format_args!("members do not converge: {applied:?}"));
        }
        NodeRuntime::sleep(LOOK).await;
    }
}

/// Holds everything that clients saw against what happened.
fn judge(world: &World) {
    let calls = world.history().calls();
    let ledger = world.ledger();
    let fail = |error: &dyn fmt::Display| world.fail(error);
    check_registers(&calls).unwrap_or_else(|error| fail(&error));
    check_order(&calls).unwrap_or_else(|error| fail(&error));
    ledger.check_calls(&calls).unwrap_or_else(|error| fail(&error));
    for watched in world.watched() {
        watched.check(ledger).map_or_else(|error| fail(&error), drop);
    }
    for listed in world.listed() {
        listed.check(ledger).map_or_else(|error| fail(&error), drop);
    }
    let (done, least) = (world.history().answered(), calls_min(world));
    if done < least {
        world.fail(format_args!("only {done} calls had an outcome, {least} make a test"));
    }
}

fn report(world: &World) -> Report {
    let (trace, ledger) = (world.trace(), world.ledger());
    Report {
        setup: *world.setup(),
        failure: world.failure(),
        calls: world.history().answered(),
        changes: ledger.len(),
        sightings: world.watched().len() + world.listed().len(),
        revision: ledger.frontier(),
        took: NodeRuntime::elapsed(),
        trace_hash: trace.hash().0,
        ledger_hash: ledger.hash().0,
        tail: trace.tail(TAIL_LINES),
    }
}
