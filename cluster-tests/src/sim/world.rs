//! A cluster and everything around it: disks, network, processes, clocks, and observers.
//!
//! Owns the members, their membership, and the state that the parts of a run share. Their processes start, are killed,
//! are paused and restart on the content of their disk (`lives`). After each step of any process the oracles check it
//! (`observation`); their first finding ends the run.

mod accidents;
mod anew;
mod clock;
mod lives;
mod observation;
mod quiet;
mod records;
mod ways;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use orch_raft::transport::{NodeId, Peer, PeerService};
use parking_lot::Mutex;

use self::clock::WallClock;
pub use self::lives::Process;
pub use self::quiet::Condition;
use self::ways::Ways;
pub use self::ways::{Callers, Relays};
use super::answers::Answered;
use super::consensus::Protocol;
use super::dice::Dice;
use super::disk::{DiskCopy, SimDisk};
use super::duties::Duties;
use super::eras::Era;
use super::history::History;
use super::ledger::Ledger;
use super::network::SimNetwork;
use super::plant::{Exchange, Heard, Plant, PlantedStore, Pretender};
use super::points::Points;
use super::process::MemberStore;
use super::scale::Scale;
use super::setup::Setup;
use super::sightings::{Listed, Watched};
use super::trace::Trace;
use super::versions::Versions;

/// One run in this many is about cuts of minutes.
const MINUTES_ONE_IN: u64 = 150;

/// Shortest and longest duration of those cuts.
const MINUTES_MIN: Duration = Duration::from_secs(60);
const MINUTES_MAX: Duration = Duration::from_secs(180);

/// Names for members that are added during a run, beside the founders.
const SPARES: u64 = 4;

/// The store that clients use.
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
    /// Members of the cluster, or about to be.
    roster: Mutex<BTreeSet<NodeId>>,
    /// Observations of each cluster of the run, the current one last.
    protocols: Mutex<Vec<Protocol>>,
    /// The clusters made anew: one less than `protocols`.
    eras: Mutex<Vec<Era>>,
    /// Number of times that all members were stopped for a new cluster.
    upheavals: AtomicU64,
    founders: Mutex<Vec<NodeId>>,
    /// Members that were given up, and run on their old disks.
    visitors: Mutex<BTreeSet<NodeId>>,
    watched: Mutex<Vec<Watched>>,
    listed: Mutex<Vec<Listed>>,
    failure: Mutex<Option<String>>,
    /// Writing clients continue.
    busy: AtomicBool,
    /// The time of faults is over.
    calm: AtomicBool,
    /// Faults are suspended.
    truce: AtomicBool,
    /// Writes on a store that were answered as applied.
    taken: AtomicU64,
    /// Revision after which watches may end; 0 while clients write.
    drained_at: AtomicU64,
    /// Watching clients must stay on their members and report it.
    settling: AtomicBool,
    /// Number of watching clients that have reported so.
    settled: AtomicU64,
    /// The newest revision that any client knows.
    acknowledged: AtomicU64,
    answers: Mutex<Vec<Answered>>,
    /// Copies of the founders' disks from before the founding.
    early: Mutex<BTreeMap<NodeId, DiskCopy>>,
    duties: Mutex<Duties>,
    /// Answers that a plant remembers.
    heard: Heard,
    /// A removed member whose certificate is in use, and `true` if its own program uses it.
    ghost: Mutex<Option<(NodeId, bool)>>,
    ways: Ways,
}

struct Member {
    peer: Peer,
    disk: SimDisk,
    clock: Arc<WallClock>,
    /// The cluster that its disk belongs to: a position in `protocols`.
    cluster: AtomicUsize,
    starts: AtomicU64,
    /// Its disk was replaced by an empty one or an older copy: it must not take part any more.
    disk_lost: AtomicBool,
    /// The operator is removing it, or has: its process ends by itself.
    leaving: AtomicBool,
    /// It is held: nothing may start its process.
    held: AtomicBool,
    /// One of its tasks is starved.
    starved: AtomicBool,
    /// Its stored state differs from what it applied, and is exempt from the ledger.
    rotten: AtomicBool,
    process: Mutex<Option<Process>>,
}

impl World {
    /// A world without running processes.
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
                cluster: AtomicUsize::new(0),
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
            protocols: Mutex::new(vec![Protocol::default()]),
            eras: Mutex::default(),
            upheavals: AtomicU64::new(0),
            founders: Mutex::new((1..=setup.members).map(NodeId).collect()),
            visitors: Mutex::default(),
            watched: Mutex::default(),
            listed: Mutex::default(),
            failure: Mutex::default(),
            busy: AtomicBool::new(true),
            calm: AtomicBool::new(false),
            truce: AtomicBool::new(false),
            taken: AtomicU64::new(0),
            drained_at: AtomicU64::new(0),
            settling: AtomicBool::new(false),
            settled: AtomicU64::new(0),
            acknowledged: AtomicU64::new(0),
            answers: Mutex::default(),
            early: Mutex::default(),
            duties: Mutex::default(),
            heard: Heard::default(),
            ghost: Mutex::default(),
            ways: Ways::default(),
        });
        let world = World(inner);
        world.listen(&points);
        world
    }

    /// Observes the members' calls and answers, and lets planted bugs change them.
    fn listen(&self, points: &Points) {
        let weak = Arc::downgrade(&self.0);
        let overhears = move |asker: NodeId, node: NodeId, asked: &Bytes, answered: Option<&Bytes>| {
            let world = World(weak.upgrade()?);
            let plant = world.setup().plant;
            let Some(answered) = answered else { return plant.and_then(|plant| plant.speak_for_dead(asked)) };
            let forged = plant.and_then(|plant| {
                let (asker_is_odd, answerer_is_odd) = (world.is_rotten(asker), world.is_rotten(node));
                let answerer_is_removed = world.is_ghost(node);
                let exchange =
                    Exchange { asker, asked, answered, asker_is_odd, answerer_is_odd, answerer_is_removed };
                plant.forge(answered).or_else(|| plant.bend(&world.0.heard, &exchange))
            });
            world.overhear(asker, node, asked, answered);
            forged
        };
        self.network().observe(points, Arc::new(overhears));
        if self.setup().plant == Some(Plant::AcquaintanceClaimed) {
            let weak = Arc::downgrade(&self.0);
            let stands_in = move |node: NodeId| -> Option<Arc<dyn PeerService>> {
                let own = weak.clone();
                let is_away = move || own.upgrade().is_some_and(|inner| World(inner).is_kept_away(node));
                is_away().then(|| Arc::new(Pretender(Arc::new(is_away))) as Arc<dyn PeerService>)
            };
            self.network().stand_in(Arc::new(stands_in));
        }
    }

    /// The choices of the run.
    pub fn setup(&self) -> &Setup {
        &self.0.setup
    }

    /// The random stream of `concern`.
    pub fn dice(&self, concern: &str) -> Dice {
        Dice::new(self.0.setup.seed, concern)
    }

    /// The record of events.
    pub fn trace(&self) -> &Trace {
        &self.0.trace
    }

    /// The clients' calls and outcomes.
    pub fn history(&self) -> &History {
        &self.0.history
    }

    /// The changes that members applied.
    pub fn ledger(&self) -> &Ledger {
        &self.0.ledger
    }

    /// The network between the members.
    pub fn network(&self) -> &SimNetwork {
        &self.0.network
    }

    /// The armed points of members' work.
    pub fn points(&self) -> &Points {
        &self.0.points
    }

    /// The programs of the members.
    pub fn versions(&self) -> &Versions {
        &self.0.versions
    }

    /// All members of the cluster, running or not.
    pub fn members(&self) -> Vec<NodeId> {
        self.0.roster.lock().iter().copied().collect()
    }

    /// Puts an unused name on the roster; `None` if all are used up.
    pub fn enlist(&self) -> Option<NodeId> {
        let id = self.spare()?;
        self.0.roster.lock().insert(id);
        Some(id)
    }

    /// An unused name is left.
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

    /// Takes a member off the roster. Its name is never used again.
    pub fn retire(&self, node: NodeId) {
        self.0.trace.event(format_args!("n{} is retired", node.0));
        self.0.roster.lock().remove(&node);
        self.kill(node, true);
    }

    /// Identity and address of `node`.
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

    /// The store of `node`; `None` while its process does not run or is still loading.
    pub fn store(&self, node: NodeId) -> Option<Handle> {
        self.process(node)?.store
    }

    /// The leader of the newest term on any disk.
    pub fn leader(&self) -> Option<NodeId> {
        self.protocol(|protocol| protocol.leader().map(|(_, node)| node))
    }

    /// Records that a task of `node` is starved, or no longer.
    pub fn set_starved(&self, node: NodeId, starved: bool) {
        self.member(node).starved.store(starved, Ordering::Relaxed);
    }

    /// A task of `node` is starved.
    pub fn is_starved(&self, node: NodeId) -> bool {
        self.member(node).starved.load(Ordering::Relaxed)
    }

    /// Ends the time of faults.
    pub fn set_calm(&self) {
        self.0.calm.store(true, Ordering::Relaxed);
    }

    /// The time of faults is over.
    pub fn is_calm(&self) -> bool {
        self.0.calm.load(Ordering::Relaxed)
    }

    /// Scale of the run.
    pub fn scale(&self) -> &Scale {
        &self.0.scale
    }

    /// Duration of the cuts, in a run about cuts of minutes.
    pub fn minutes(&self) -> Option<Duration> {
        self.0.minutes
    }

    /// Writing clients must continue.
    pub fn is_busy(&self) -> bool {
        self.0.busy.load(Ordering::Relaxed) && self.failure().is_none()
    }

    /// Tells writing clients to end.
    pub fn end_busy(&self) {
        self.0.busy.store(false, Ordering::Relaxed);
    }

    fn member(&self, node: NodeId) -> &Member {
        &self.0.members[&node]
    }
}
