//! A cluster and everything around it: disks, network, processes, clock, and who watches them.
//!
//! Owns the lives of the members' processes: they start, die, stop and start again on what their disk still holds.
//! After each step of any process the oracles look at it; the first thing they find ends the run.

mod accidents;
mod records;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use orch_raft::transport::{NodeId, Peer};
use orch_raft::{Revision, State, Store};
use parking_lot::Mutex;

use super::answers::Answered;
use super::consensus::Protocol;
use super::dice::Dice;
use super::disk::SimDisk;
use super::duties::Duties;
use super::history::History;
use super::ledger::{Cursor, Ledger};
use super::network::SimNetwork;
use super::plant::PlantedStore;
use super::points::Points;
use super::process::{self, MemberStore, SimMember};
use super::runtime::{NodeRuntime, TaskGroup};
use super::scale::Scale;
use super::server::Server;
use super::setup::Setup;
use super::sightings::{Listed, Watched};
use super::trace::Trace;
use super::versions::Versions;

/// The wall clock at the start of every run, milliseconds since 1970.
const EPOCH_MS: u64 = 1_700_000_000_000;

/// One run of so many is about cuts of minutes.
const MINUTES_ONE_IN: u64 = 150;

/// How long those last.
const MINUTES_MIN: Duration = Duration::from_secs(60);
const MINUTES_MAX: Duration = Duration::from_secs(180);

/// Names for members to be added in the course of a run, beside those that found the cluster.
const SPARES: u64 = 4;

/// What clients are served by.
pub type Handle = PlantedStore<MemberStore>;

/// A simulated cluster. Clones share it.
#[derive(Clone)]
pub struct World(Arc<Inner>);

struct Inner {
    setup: Setup,
    minutes: Option<Duration>,
    scale: Scale,
    trace: Trace,
    history: History,
    ledger: Ledger,
    network: SimNetwork,
    points: Points,
    versions: Versions,
    members: BTreeMap<NodeId, Member>,
    /// Who belongs to the cluster, or is about to.
    roster: Mutex<BTreeSet<NodeId>>,
    protocol: Mutex<Protocol>,
    watched: Mutex<Vec<Watched>>,
    listed: Mutex<Vec<Listed>>,
    failure: Mutex<Option<String>>,
    /// Writing clients go on.
    busy: AtomicBool,
    /// Nothing new goes wrong.
    calm: AtomicBool,
    /// Revision after which watches may end; 0 while clients write.
    drained_at: AtomicU64,
    /// Clients that watch shall stay where they are and say when they do.
    settling: AtomicBool,
    /// How many of them do.
    settled: AtomicU64,
    /// The newest revision that any client was told.
    acknowledged: AtomicU64,
    answers: Mutex<Vec<Answered>>,
    duties: Mutex<Duties>,
}

struct Member {
    peer: Peer,
    disk: SimDisk,
    clock: Arc<WallClock>,
    starts: AtomicU64,
    /// Its disk was replaced by an empty one: it must not take part any more.
    disk_lost: AtomicBool,
    /// The operator is removing it, or has: it stops by itself.
    leaving: AtomicBool,
    /// It is kept down, whatever else would start it.
    held: AtomicBool,
    /// One of its tasks gets hardly any time.
    starved: AtomicBool,
    /// What it stores differs from what it applied, and is not held against the ledger.
    rotten: AtomicBool,
    process: Mutex<Option<Process>>,
}

/// A wall clock that is wrong.
#[derive(Debug, Default)]
struct WallClock {
    /// How far it is ahead, in milliseconds.
    ahead_ms: AtomicI64,
    /// How much faster it runs than time passes, in millionths.
    drift_ppm: AtomicI64,
}

impl WallClock {
    fn now_ms(&self) -> u64 {
        let elapsed = i64::try_from(NodeRuntime::elapsed().as_millis()).unwrap_or(i64::MAX);
        let drifted = elapsed.saturating_mul(self.drift_ppm.load(Ordering::Relaxed)) / 1_000_000;
        let ahead = self.ahead_ms.load(Ordering::Relaxed).saturating_add(drifted);
        EPOCH_MS.saturating_add_signed(elapsed.saturating_add(ahead))
    }
}

/// One run of a member's process.
#[derive(Clone)]
pub struct Process {
    /// Its tasks.
    pub group: TaskGroup,
    /// What it serves, once it has started.
    pub store: Option<Handle>,
    /// Its API, once it knows its cluster.
    pub server: Option<Server>,
    /// The member itself, until it is told to shut down.
    member: Arc<Mutex<Option<SimMember>>>,
    seen: Arc<Mutex<Cursor>>,
}

impl World {
    /// A world in which nothing runs yet.
    pub fn new(setup: Setup) -> Self {
        let dice = |concern: &str| Dice::new(setup.seed, concern);
        let points = Points::default();
        let member = |id: u64| {
            let name: Arc<str> = Arc::from(format!("n{id}"));
            let peer = Peer { id: NodeId(id), address: Arc::from(format!("{name}:7000")), name };
            let disk = SimDisk::of(NodeId(id), &points, dice(&format!("disk {id}")));
            if let Some(plant) = setup.plant {
                disk.behave(|manner| plant.spoil(manner));
            }
            let member = Member {
                peer,
                disk,
                clock: Arc::default(),
                starts: AtomicU64::new(0),
                disk_lost: AtomicBool::new(false),
                leaving: AtomicBool::new(false),
                held: AtomicBool::new(false),
                starved: AtomicBool::new(false),
                rotten: AtomicBool::new(false),
                process: Mutex::new(None),
            };
            (NodeId(id), member)
        };
        let trace = Trace::default();
        if setup.echo {
            trace.echo();
        }
        let members = (1..=setup.members + SPARES).map(member).collect();
        let minutes = dice("minutes");
        let minutes =
            minutes.number(0..MINUTES_ONE_IN).eq(&0).then(|| minutes.duration(MINUTES_MIN, MINUTES_MAX));
        let inner = Arc::new(Inner {
            setup,
            minutes,
            scale: Scale::of(&setup),
            trace,
            history: History::default(),
            ledger: Ledger::default(),
            network: SimNetwork::new(dice("network")),
            points: points.clone(),
            versions: Versions::default(),
            members,
            roster: Mutex::new((1..=setup.members).map(NodeId).collect()),
            protocol: Mutex::default(),
            watched: Mutex::default(),
            listed: Mutex::default(),
            failure: Mutex::default(),
            busy: AtomicBool::new(true),
            calm: AtomicBool::new(false),
            drained_at: AtomicU64::new(0),
            settling: AtomicBool::new(false),
            settled: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
            answers: Mutex::default(),
            duties: Mutex::default(),
        });
        let weak = Arc::downgrade(&inner);
        let overhears = move |node: NodeId, asked: &Bytes, answered: &Bytes| {
            let inner = weak.upgrade()?;
            let forged = inner.setup.plant.and_then(|plant| plant.forge(answered));
            let heard = inner.protocol.lock().overhear(node, asked, answered);
            heard.unwrap_or_else(|breach| World(inner).fail(breach));
            forged
        };
        inner.network.observe(&points, Arc::new(overhears));
        World(inner)
    }

    /// What the run is made of.
    pub fn setup(&self) -> &Setup {
        &self.0.setup
    }

    /// The stream of chance of `concern`.
    pub fn dice(&self, concern: &str) -> Dice {
        Dice::new(self.0.setup.seed, concern)
    }

    /// The record of events.
    pub fn trace(&self) -> &Trace {
        &self.0.trace
    }

    /// What clients asked and were told.
    pub fn history(&self) -> &History {
        &self.0.history
    }

    /// What members applied.
    pub fn ledger(&self) -> &Ledger {
        &self.0.ledger
    }

    /// What connects the members.
    pub fn network(&self) -> &SimNetwork {
        &self.0.network
    }

    /// Points at which members may be struck.
    pub fn points(&self) -> &Points {
        &self.0.points
    }

    /// Which programs the members run.
    pub fn versions(&self) -> &Versions {
        &self.0.versions
    }

    /// All members of the cluster, running or not.
    pub fn members(&self) -> Vec<NodeId> {
        self.0.roster.lock().iter().copied().collect()
    }

    /// Those that found the cluster.
    pub fn founders(&self) -> Vec<Peer> {
        let ids = self.0.members.iter().take_while(|(id, _)| id.0 <= self.0.setup.members);
        ids.map(|(_, member)| member.peer.clone()).collect()
    }

    /// A name not used so far is to be a member's; `None` when all are used up.
    pub fn enlist(&self) -> Option<NodeId> {
        let id = self.spare()?;
        self.0.roster.lock().insert(id);
        Some(id)
    }

    /// Whether a name is left for another member.
    pub fn has_spare(&self) -> bool {
        self.spare().is_some()
    }

    fn spare(&self) -> Option<NodeId> {
        let unused = |(id, member): (&NodeId, &Member)| {
            let fresh = id.0 > self.0.setup.members && member.starts.load(Ordering::Relaxed) == 0;
            fresh.then_some(*id)
        };
        self.0.members.iter().find_map(unused)
    }

    /// The member is no longer one, and its name is never used again.
    pub fn retire(&self, node: NodeId) {
        self.0.trace.event(format_args!("n{} is retired", node.0));
        self.0.roster.lock().remove(&node);
        self.kill(node, true);
    }

    /// Who `node` is.
    pub fn peer(&self, node: NodeId) -> &Peer {
        &self.member(node).peer
    }

    /// The disk of `node`.
    pub fn disk(&self, node: NodeId) -> &SimDisk {
        &self.member(node).disk
    }

    /// The process of `node`, if one runs.
    pub fn process(&self, node: NodeId) -> Option<Process> {
        self.member(node).process.lock().clone()
    }

    /// What `node` serves, once its process has started.
    pub fn store(&self, node: NodeId) -> Option<Handle> {
        self.process(node)?.store
    }

    /// The member that leads the newest term any disk knows of.
    pub fn leader(&self) -> Option<NodeId> {
        self.0.protocol.lock().leader().map(|(_, node)| node)
    }

    /// The wall clock of `node`.
    pub fn clock(&self, node: NodeId) -> Arc<dyn Fn() -> u64 + Send + Sync> {
        let clock = self.member(node).clock.clone();
        Arc::new(move || clock.now_ms())
    }

    /// Makes the wall clock of `node` differ from the others', by so many milliseconds.
    pub fn set_clock_ahead(&self, node: NodeId, ahead_ms: i64) {
        self.member(node).clock.ahead_ms.store(ahead_ms, Ordering::Relaxed);
    }

    /// Makes the wall clock of `node` run faster, or slower, by so many millionths.
    pub fn set_clock_drift(&self, node: NodeId, drift_ppm: i64) {
        self.member(node).clock.drift_ppm.store(drift_ppm, Ordering::Relaxed);
    }

    /// One of the tasks of `node` gets hardly any time, or all do again.
    pub fn set_starved(&self, node: NodeId, starved: bool) {
        self.member(node).starved.store(starved, Ordering::Relaxed);
    }

    /// Whether one of the tasks of `node` gets hardly any time.
    pub fn is_starved(&self, node: NodeId) -> bool {
        self.member(node).starved.load(Ordering::Relaxed)
    }

    /// From now on nothing new goes wrong.
    pub fn set_calm(&self) {
        self.0.calm.store(true, Ordering::Relaxed);
    }

    /// Whether the time of faults is over.
    pub fn is_calm(&self) -> bool {
        self.0.calm.load(Ordering::Relaxed)
    }

    /// How large the world is.
    pub fn scale(&self) -> &Scale {
        &self.0.scale
    }

    /// How long the network stays cut, in a run that is about that.
    pub fn minutes(&self) -> Option<Duration> {
        self.0.minutes
    }

    /// Whether writing clients should go on.
    pub fn is_busy(&self) -> bool {
        self.0.busy.load(Ordering::Relaxed) && self.failure().is_none()
    }

    /// Tells writing clients to end.
    pub fn end_busy(&self) {
        self.0.busy.store(false, Ordering::Relaxed);
    }

    /// Starts the process of `node` on its disk, unless one runs or it is no member any more.
    pub fn start(&self, node: NodeId) {
        let member = self.member(node);
        let is_held = member.held.load(Ordering::Relaxed);
        if is_held || member.process.lock().is_some() || !self.0.roster.lock().contains(&node) {
            return;
        }
        let start = member.starts.fetch_add(1, Ordering::Relaxed);
        self.0.trace.event(format_args!("start n{} ({start})", node.0));
        if !self.has_lost_disk(node) {
            let kept = self.0.protocol.lock().observe_start(node, &member.disk);
            kept.unwrap_or_else(|breach| self.fail(breach));
        }
        let weak = Arc::downgrade(&self.0);
        let group = TaskGroup::observed(move || {
            if let Some(inner) = weak.upgrade() {
                World(inner).observe(node);
            }
        });
        let process = Process {
            group: group.clone(),
            store: None,
            server: None,
            member: Arc::default(),
            seen: Arc::default(),
        };
        *member.process.lock() = Some(process);
        let (world, own) = (self.clone(), group.clone());
        group.spawn(async move {
            match process::start(&world, node, start, &own).await {
                Ok(started) => world.started(node, start, &own, started),
                Err(error) => process::exit(&world, node, &error.to_string()),
            }
        });
    }

    /// Ends the process of `node` between two instructions. With `power_lost`, its disk forgets what was not synced.
    pub fn kill(&self, node: NodeId, power_lost: bool) {
        let member = self.member(node);
        let Some(process) = member.process.lock().take() else { return };
        let how = if power_lost { "power lost at" } else { "kill" };
        self.0.trace.event(format_args!("{how} n{}", node.0));
        self.0.network.detach(node);
        process.group.kill();
        self.look_for_panics(node, &process);
        if power_lost { member.disk.crash() } else { member.disk.close() }
    }

    /// Tells the process of `node` to shut down in good order, and waits until it has.
    pub async fn shut_down(&self, node: NodeId) {
        let Some(process) = self.process(node) else { return };
        let Some(member) = process.member.lock().take() else { return };
        self.0.trace.event(format_args!("shut down n{}", node.0));
        let ended = process.group.spawn(member.shutdown()).await;
        let current = self.process(node).is_some_and(|now| now.group == process.group);
        if ended.is_ok() && current {
            self.kill(node, false);
        }
    }

    /// Ends every process and connection. Their tasks hold the world and the world holds them: without this, a run's
    /// memory would never be given back.
    pub fn end(&self) {
        self.0.members.keys().for_each(|node| self.kill(*node, false));
        self.0.network.break_connections();
        self.0.network.unobserve();
        self.0.points.disarm();
    }

    /// Looks at `node` after one of its steps.
    fn observe(&self, node: NodeId) {
        let Some(process) = self.process(node) else { return };
        self.look_for_panics(node, &process);
        let disk = &self.member(node).disk;
        if let Err(breach) = self.0.protocol.lock().observe_vote(node, disk) {
            self.fail(breach);
        }
        if let Some(store) = &process.store {
            let state = store.inner().state();
            self.0.versions.observe(&state);
            self.compare(node, &state, &mut process.seen.lock());
        }
    }

    /// Looks at the whole state of `node`, whatever was looked at before.
    pub fn observe_whole(&self, node: NodeId) {
        if let Some(store) = self.store(node) {
            self.compare(node, &store.state(), &mut Cursor::default());
        }
    }

    fn compare(&self, node: NodeId, state: &State, seen: &mut Cursor) {
        if self.member(node).rotten.load(Ordering::Relaxed) {
            return;
        }
        if let Err(disagreement) = self.0.ledger.observe(node, state, seen) {
            self.fail(disagreement);
        }
    }

    /// Whether the stored state of some member is wrong and not repaired.
    pub fn has_rotten(&self) -> bool {
        self.0.members.values().any(|member| member.rotten.load(Ordering::Relaxed))
    }

    /// The stored state of `node` is wrong, which the members have to find and to repair themselves; or that is over.
    pub fn set_rotten(&self, node: NodeId, rotten: bool) {
        self.member(node).rotten.store(rotten, Ordering::Relaxed);
    }

    /// How far the process of `node` has applied, if it serves.
    pub fn applied(&self, node: NodeId) -> Option<Revision> {
        Some(self.store(node)?.state().applied())
    }

    /// Looks at every member's log, as often as the run can afford.
    pub fn observe_logs(&self) {
        let mut protocol = self.0.protocol.lock();
        let members = &self.0.members;
        let logs = members.iter().try_for_each(|(node, member)| protocol.observe_log(*node, &member.disk));
        let applied = |node: &NodeId| self.applied(*node).unwrap_or_default();
        let all = || members.keys().try_for_each(|node| protocol.observe_applied(*node, applied(node)));
        if let Err(breach) = logs.and_then(|()| all()) {
            drop(protocol);
            self.fail(breach);
        }
    }

    fn started(&self, node: NodeId, start: u64, group: &TaskGroup, started: SimMember) {
        let member = self.member(node);
        let mut process = member.process.lock();
        if let Some(process) = process.as_mut().filter(|process| process.group == *group) {
            let (plant, disk) = (self.0.setup.plant, member.disk.clone());
            let store = PlantedStore::new(started.handle(), plant, disk);
            process.store = Some(store.clone());
            *process.member.lock() = Some(started);
            group.spawn(process::serve_api(self.clone(), node, start, store, group.clone()));
        }
    }

    /// The process of `node` serves its API from now on.
    pub fn serves(&self, node: NodeId, group: &TaskGroup, server: Server) {
        let mut process = self.member(node).process.lock();
        if let Some(process) = process.as_mut().filter(|process| process.group == *group) {
            process.server = Some(server);
        }
    }

    fn look_for_panics(&self, node: NodeId, process: &Process) {
        for message in process.group.take_panics() {
            self.fail(format_args!("n{} panicked: {message}", node.0));
        }
    }

    fn member(&self, node: NodeId) -> &Member {
        &self.0.members[&node]
    }
}
