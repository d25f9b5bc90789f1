//! A network between members that delays, loses, cuts and breaks, driven by one seed.
//!
//! Owns the links: the listening services, the cut directions, delay and loss, and the observers. `transport.rs`
//! carries calls, `stream.rs` streams. Cuts have a direction. A frame names its sender's cluster, once that is known, and is
//! refused by the product's rule where the receiver belongs to another one.
//!
//! Invariant: a member's service runs as tasks of its own process only, so a dead or stopped process answers nothing. The
//! stand-ins of planted bugs belong to no process.

mod stream;
mod transport;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft_rt::AsyncRuntime;
use orch_raft::transport::tonic::ClusterPin;
use orch_raft::transport::{NodeId, PeerService};
use parking_lot::Mutex;

pub use self::transport::SimTransport;
use super::dice::Dice;
use super::points::Points;
use super::runtime::{NodeRuntime, TaskGroup};

/// Interval at which a stalled stream checks its link: well below a heartbeat interval, so that members notice a healed
/// link at once.
const STALL_STEP: Duration = Duration::from_millis(10);

/// Delay and loss of the links.
#[derive(Clone, Copy, Debug)]
pub struct NetworkManner {
    /// Shortest delay of a frame in one direction.
    pub delay_min: Duration,
    /// Longest delay of a frame in one direction.
    pub delay_max: Duration,
    /// Lost calls in a thousand; frames on streams in a thousand that break their connection.
    pub loss_per_mille: u64,
    /// Longest time a cut stream waits before it is given up.
    pub keep_alive_max: Duration,
}

impl Default for NetworkManner {
    fn default() -> Self {
        NetworkManner {
            delay_min: Duration::from_micros(100),
            delay_max: Duration::from_millis(3),
            loss_per_mille: 0,
            keep_alive_max: Duration::from_secs(3),
        }
    }
}

/// The network of one cluster. Clones share it.
#[derive(Clone)]
pub struct SimNetwork {
    links: Arc<Mutex<Links>>,
    dice: Dice,
}

#[derive(Default)]
struct Links {
    endpoints: BTreeMap<NodeId, Endpoint>,
    /// Directions in which nothing passes.
    cuts: BTreeSet<(NodeId, NodeId)>,
    /// Members cut off in both directions, which [`SimNetwork::heal`] leaves cut off.
    severed: BTreeSet<NodeId>,
    manner: NetworkManner,
    connections: Vec<TaskGroup>,
    points: Points,
    /// Sees every call and its answer, and may change the answer.
    overhears: Option<Overhears>,
    /// Names the service that takes a member's entries in the member's place.
    stands_in: Option<StandsIn>,
}

/// Sees a call on the wire: the caller, the callee, the request and the answer (`None` where the callee does not run).
/// Returns the answer that the caller gets in place of it, or `None` to leave the answer alone.
pub type Overhears = Arc<dyn Fn(NodeId, NodeId, &Bytes, Option<&Bytes>) -> Option<Bytes> + Send + Sync>;

/// Names the service that takes the entries sent to a member in the member's place. `None`: the member takes them.
pub type StandsIn = Arc<dyn Fn(NodeId) -> Option<Arc<dyn PeerService>> + Send + Sync>;

/// A service that listens, and the process whose tasks run it.
#[derive(Clone)]
struct Endpoint {
    process: TaskGroup,
    service: Arc<dyn PeerService>,
    /// The cluster that it belongs to.
    pin: ClusterPin,
}

/// The directions in which frames pass between two members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passage {
    /// Both directions.
    BothWays,
    /// One of the directions.
    OneWay,
    /// No direction.
    NoWay,
}

/// One direction between two members.
#[derive(Clone, Copy)]
struct Way {
    from: NodeId,
    to: NodeId,
}

impl Way {
    fn back(self) -> Way {
        Way { from: self.to, to: self.from }
    }
}

impl fmt::Debug for SimNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let links = self.links.lock();
        write!(f, "SimNetwork({} endpoints, {} cuts)", links.endpoints.len(), links.cuts.len())
    }
}

impl SimNetwork {
    /// A network without faults or members.
    pub fn new(dice: Dice) -> Self {
        SimNetwork { links: Arc::default(), dice }
    }

    /// The transport of `from`, which knows no cluster.
    pub fn transport(&self, from: NodeId) -> SimTransport {
        self.transport_of(from, ClusterPin::default())
    }

    /// The transport of `from`, a member of the cluster of `pin`.
    pub fn transport_of(&self, from: NodeId, pin: ClusterPin) -> SimTransport {
        SimTransport::new(self.clone(), from, pin)
    }

    /// Delivers frames for `id` to `service` from now on, in the tasks of `process`. It refuses none for its cluster.
    pub fn attach(&self, id: NodeId, process: TaskGroup, service: Arc<dyn PeerService>) {
        self.attach_member(id, process, service, ClusterPin::default());
    }

    /// Delivers frames for `id` to `service` from now on, in the tasks of `process`, but those of other clusters than that of
    /// `pin`.
    pub fn attach_member(
        &self,
        id: NodeId,
        process: TaskGroup,
        service: Arc<dyn PeerService>,
        pin: ClusterPin,
    ) {
        self.links.lock().endpoints.insert(id, Endpoint { process, service, pin });
    }

    /// The cluster of the service that listens for `id`.
    pub fn pin(&self, id: NodeId) -> Option<ClusterPin> {
        self.links.lock().endpoints.get(&id).map(|endpoint| endpoint.pin.clone())
    }

    /// Reports sent snapshots to `points` and every call to `overhears` from now on.
    pub fn observe(&self, points: &Points, overhears: Overhears) {
        let mut links = self.links.lock();
        links.points = points.clone();
        links.overhears = Some(overhears);
    }

    /// Sends entries to the services that `stands_in` names from now on.
    pub fn stand_in(&self, stands_in: StandsIn) {
        self.links.lock().stands_in = Some(stands_in);
    }

    /// Drops the observers of [`SimNetwork::observe`] and [`SimNetwork::stand_in`].
    pub fn unobserve(&self) {
        let mut links = self.links.lock();
        let (overhears, stands_in) = (links.overhears.take(), links.stands_in.take());
        // Observers may own the network: their drop must not meet the lock.
        drop(links);
        drop((overhears, stands_in));
    }

    /// Removes the service of `id`.
    pub fn detach(&self, id: NodeId) {
        let endpoint = self.links.lock().endpoints.remove(&id);
        drop(endpoint);
    }

    /// Cuts the direction from `from` to `to`.
    pub fn cut(&self, from: NodeId, to: NodeId) {
        self.links.lock().cuts.insert((from, to));
    }

    /// Heals every cut; severed members stay severed.
    pub fn heal(&self) {
        self.links.lock().cuts.clear();
    }

    /// Heals the direction from `from` to `to`.
    pub fn mend(&self, from: NodeId, to: NodeId) {
        self.links.lock().cuts.remove(&(from, to));
    }

    /// Cuts `node` off from all others, however often the network heals, until [`SimNetwork::rejoin`].
    pub fn sever(&self, node: NodeId) {
        self.links.lock().severed.insert(node);
    }

    /// Ends [`SimNetwork::sever`].
    pub fn rejoin(&self, node: NodeId) {
        self.links.lock().severed.remove(&node);
    }

    /// `node` is severed from all others.
    pub fn is_severed(&self, node: NodeId) -> bool {
        self.links.lock().severed.contains(&node)
    }

    /// The directions in which frames pass between `one` and `other`.
    pub fn passage(&self, one: NodeId, other: NodeId) -> Passage {
        let there = Way { from: one, to: other };
        match (self.is_cut(there), self.is_cut(there.back())) {
            (false, false) => Passage::BothWays,
            (true, true) => Passage::NoWay,
            (true, false) | (false, true) => Passage::OneWay,
        }
    }

    /// Delay and loss are at most the defaults.
    pub fn is_usual(&self) -> bool {
        let (manner, usual) = (self.manner(), NetworkManner::default());
        manner.loss_per_mille == usual.loss_per_mille && manner.delay_max <= usual.delay_max
    }

    /// Breaks every connection that is open now.
    pub fn break_connections(&self) {
        let connections = std::mem::take(&mut self.links.lock().connections);
        connections.iter().for_each(TaskGroup::kill);
    }

    /// Changes delay and loss from now on.
    pub fn behave(&self, change: impl FnOnce(&mut NetworkManner)) {
        change(&mut self.links.lock().manner);
    }

    fn manner(&self) -> NetworkManner {
        self.links.lock().manner
    }

    fn is_cut(&self, way: Way) -> bool {
        let links = self.links.lock();
        links.cuts.contains(&(way.from, way.to))
            || links.severed.contains(&way.from)
            || links.severed.contains(&way.to)
    }

    fn delay(&self) -> Duration {
        let manner = self.manner();
        self.dice.duration(manner.delay_min, manner.delay_max)
    }

    fn loses(&self) -> bool {
        let per_mille = self.manner().loss_per_mille;
        per_mille > 0 && self.dice.number(0..1000) < per_mille
    }

    fn endpoint(&self, id: NodeId) -> Option<Endpoint> {
        self.links.lock().endpoints.get(&id).filter(|endpoint| !endpoint.process.is_dead()).cloned()
    }

    /// Waits for a cut direction to heal; `false` if the connection is given up first.
    async fn passable(&self, way: Way) -> bool {
        if !self.is_cut(way) {
            return true;
        }
        let patience = self.dice.duration(STALL_STEP, self.manner().keep_alive_max);
        let mut waited = Duration::ZERO;
        while self.is_cut(way) {
            if waited >= patience {
                return false;
            }
            NodeRuntime::sleep(STALL_STEP).await;
            waited += STALL_STEP;
        }
        true
    }
}

#[cfg(test)]
mod tests;
