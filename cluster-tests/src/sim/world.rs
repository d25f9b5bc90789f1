//! A cluster and everything around it: disks, network, processes, clock, and who watches them.
//!
//! Owns the lives of the members' processes: they start, die, stop and start again on what their disk still holds.
//! After each step of any process the oracles look at it; the first thing they find ends the run.

mod accidents;
mod records;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use orch_raft::transport::{NodeId, Peer};
use orch_raft::{Revision, Store};
use parking_lot::Mutex;

use super::consensus::Protocol;
use super::dice::Dice;
use super::disk::SimDisk;
use super::history::History;
use super::ledger::{Cursor, Ledger};
use super::network::SimNetwork;
use super::plant::PlantedStore;
use super::points::Points;
use super::process::{self, MemberStore, SimMember};
use super::runtime::{NodeRuntime, TaskGroup};
use super::setup::Setup;
use super::sightings::{Listed, Watched};
use super::trace::Trace;
use super::versions::Versions;

/// The wall clock at the start of every run, milliseconds since 1970.
const EPOCH_MS: u64 = 1_700_000_000_000;

/// Names for members to be added in the course of a run, beside those that found the cluster.
const SPARES: u64 = 4;

/// What clients are served by.
pub type Handle = PlantedStore<MemberStore>;

/// A simulated cluster. Clones share it.
#[derive(Clone)]
pub struct World(Arc<Inner>);

struct Inner {
    setup: Setup,
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
    /// Revision after which watches may end; 0 while clients write.
    drained_at: AtomicU64,
}

struct Member {
    peer: Peer,
    disk: SimDisk,
    /// How far its wall clock is ahead, in milliseconds.
    clock_ahead_ms: Arc<AtomicU64>,
    starts: AtomicU64,
    /// Its disk was replaced by an empty one: it must not take part any more.
    disk_lost: AtomicBool,
    /// The operator is removing it, or has: it stops by itself.
    leaving: AtomicBool,
    /// It is kept down, whatever else would start it.
    held: AtomicBool,
    process: Mutex<Option<Process>>,
}

/// One run of a member's process.
#[derive(Clone)]
pub struct Process {
    /// Its tasks.
    pub group: TaskGroup,
    /// What it serves, once it has started.
    pub store: Option<Handle>,
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
                clock_ahead_ms: Arc::default(),
                starts: AtomicU64::new(0),
                disk_lost: AtomicBool::new(false),
                leaving: AtomicBool::new(false),
                held: AtomicBool::new(false),
                process: Mutex::new(None),
            };
            (NodeId(id), member)
        };
        let trace = Trace::default();
        if setup.echo {
            trace.echo();
        }
        let members = (1..=setup.members + SPARES).map(member).collect();
        let inner = Arc::new(Inner {
            setup,
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
            drained_at: AtomicU64::new(0),
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
        let unused = |(id, member): (&NodeId, &Member)| {
            let fresh = id.0 > self.0.setup.members && member.starts.load(Ordering::Relaxed) == 0;
            fresh.then_some(*id)
        };
        let id = self.0.members.iter().find_map(unused)?;
        self.0.roster.lock().insert(id);
        Some(id)
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

    /// The member that leads the newest term any disk knows of.
    pub fn leader(&self) -> Option<NodeId> {
        self.0.protocol.lock().leader().map(|(_, node)| node)
    }

    /// The wall clock of `node`.
    pub fn clock(&self, node: NodeId) -> Arc<dyn Fn() -> u64 + Send + Sync> {
        let ahead = self.member(node).clock_ahead_ms.clone();
        Arc::new(move || {
            let elapsed = u64::try_from(NodeRuntime::elapsed().as_millis()).unwrap_or(u64::MAX);
            EPOCH_MS + elapsed + ahead.load(Ordering::Relaxed)
        })
    }

    /// Makes the wall clock of `node` differ from the others'.
    pub fn set_clock_ahead(&self, node: NodeId, ahead: Duration) {
        let millis = u64::try_from(ahead.as_millis()).unwrap_or(u64::MAX);
        self.member(node).clock_ahead_ms.store(millis, Ordering::Relaxed);
    }

    /// Whether writing clients should go on.
    pub fn is_busy(&self) -> bool {
        self.0.busy.load(Ordering::Relaxed) && self.failure().is_none()
    }

    /// Tells writing clients to end.
    pub fn end_busy(&self) {
        self.0.busy.store(false, Ordering::Relaxed);
    }

    /// Tells watches to end once they have been promised everything up to `revision`.
    pub fn drain(&self, revision: Revision) {
        self.0.drained_at.store(revision.0, Ordering::Relaxed);
    }

    /// Where watches may end, once that is known.
    pub fn drained_at(&self) -> Option<Revision> {
        let revision = self.0.drained_at.load(Ordering::Relaxed);
        (revision > 0).then_some(Revision(revision))
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
        let process =
            Process { group: group.clone(), store: None, member: Arc::default(), seen: Arc::default() };
        *member.process.lock() = Some(process);
        let (world, own) = (self.clone(), group.clone());
        group.spawn(async move {
            match process::start(&world, node, start, &own).await {
                Ok(started) => world.started(node, &own, started),
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
            let found = self.0.ledger.observe(node, &state, &mut process.seen.lock());
            if let Err(disagreement) = found {
                self.fail(disagreement);
            }
        }
    }

    /// How far the process of `node` has applied, if it serves.
    pub fn applied(&self, node: NodeId) -> Option<Revision> {
        Some(self.process(node)?.store?.state().applied())
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

    fn started(&self, node: NodeId, group: &TaskGroup, started: SimMember) {
        let member = self.member(node);
        let mut process = member.process.lock();
        if let Some(process) = process.as_mut().filter(|process| process.group == *group) {
            let (plant, disk) = (self.0.setup.plant, member.disk.clone());
            process.store = Some(PlantedStore::new(started.handle(), plant, disk));
            *process.member.lock() = Some(started);
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
