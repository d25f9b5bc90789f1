//! A network between members that delays, loses, cuts and breaks, by one seed.
//!
//! Owns the links between members and what is on the wire. A frame on a stream arrives in order or its stream ends; a
//! call is answered, or fails as unreachable (certainly not delivered) or lost (perhaps delivered). Cuts have a
//! direction. What is on the wire outlives its sender: a frame of a process that died meanwhile still arrives.
//!
//! Invariant: a service's code runs as a task of its own process only, so a dead or stopped process answers nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft_rt::AsyncRuntime;
use orch_raft::transport::{Duplex, NodeId, Peer, PeerService, Purpose, Transport, TransportError};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::dice::Dice;
use super::points::{Point, Points};
use super::runtime::{NodeRuntime, TaskGroup, spawn_detached};

/// Frames a stream's end may have queued: as small as a transport's window would be, so that back-pressure is met.
const WINDOW_FRAMES: usize = 16;

/// How often a stalled stream looks whether its link is whole again.
const STALL_STEP: Duration = Duration::from_millis(10);

/// How long a connection attempt into a cut link lasts.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(800);

/// How the links behave.
#[derive(Clone, Copy, Debug)]
pub struct NetworkManner {
    /// Shortest way.
    pub delay_min: Duration,
    /// Longest way.
    pub delay_max: Duration,
    /// Of a thousand calls, how many are lost; of a thousand frames on streams, how many break their connection.
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
    /// Whom nothing reaches and who reaches nobody, whatever heals.
    severed: BTreeSet<NodeId>,
    manner: NetworkManner,
    connections: Vec<TaskGroup>,
    points: Points,
    /// Sees every call that was answered.
    overhears: Option<Overhears>,
    /// Who takes a member's entries in its place.
    stands_in: Option<StandsIn>,
}

/// Sees, of two members, the request of the first and the answer of the second, as they pass on the wire; may give another
/// answer. There is no answer where the other does not run.
pub type Overhears = Arc<dyn Fn(NodeId, NodeId, &Bytes, Option<&Bytes>) -> Option<Bytes> + Send + Sync>;

/// Who takes the entries that are sent to a member, in its place, if anybody does.
pub type StandsIn = Arc<dyn Fn(NodeId) -> Option<Arc<dyn PeerService>> + Send + Sync>;

#[derive(Clone)]
struct Endpoint {
    process: TaskGroup,
    service: Arc<dyn PeerService>,
}

/// A member's side of the network.
#[derive(Clone)]
pub struct SimTransport {
    network: SimNetwork,
    from: NodeId,
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

impl fmt::Debug for SimTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimTransport(from {})", self.from.0)
    }
}

impl SimNetwork {
    /// A whole network without members.
    pub fn new(dice: Dice) -> Self {
        SimNetwork { links: Arc::default(), dice }
    }

    /// The transport of `from`.
    pub fn transport(&self, from: NodeId) -> SimTransport {
        SimTransport { network: self.clone(), from }
    }

    /// From now on frames to `id` reach `service`, in the tasks of `process`.
    pub fn attach(&self, id: NodeId, process: TaskGroup, service: Arc<dyn PeerService>) {
        self.links.lock().endpoints.insert(id, Endpoint { process, service });
    }

    /// From now on `points` is told when a snapshot is sent, and `overhears` what is called and answered: the answering
    /// member, the request and the answer.
    pub fn observe(&self, points: &Points, overhears: Overhears) {
        let mut links = self.links.lock();
        links.points = points.clone();
        links.overhears = Some(overhears);
    }

    /// From now on entries reach whom `stands_in` names.
    pub fn stand_in(&self, stands_in: StandsIn) {
        self.links.lock().stands_in = Some(stands_in);
    }

    /// Nothing observes any more.
    pub fn unobserve(&self) {
        let mut links = self.links.lock();
        let (overhears, stands_in) = (links.overhears.take(), links.stands_in.take());
        drop(links);
        drop((overhears, stands_in));
    }

    /// Nothing listens for `id` any more.
    pub fn detach(&self, id: NodeId) {
        let endpoint = self.links.lock().endpoints.remove(&id);
        drop(endpoint);
    }

    /// Stops everything from `from` to `to`.
    pub fn cut(&self, from: NodeId, to: NodeId) {
        self.links.lock().cuts.insert((from, to));
    }

    /// Lets everything pass again.
    pub fn heal(&self) {
        self.links.lock().cuts.clear();
    }

    /// Lets frames from `from` to `to` pass again.
    pub fn mend(&self, from: NodeId, to: NodeId) {
        self.links.lock().cuts.remove(&(from, to));
    }

    /// Cuts `node` off from all others, however often the network heals, until it is joined again.
    pub fn sever(&self, node: NodeId) {
        self.links.lock().severed.insert(node);
    }

    /// Ends what [`SimNetwork::sever`] began.
    pub fn rejoin(&self, node: NodeId) {
        self.links.lock().severed.remove(&node);
    }

    /// Whether `node` is cut off from all others.
    pub fn is_severed(&self, node: NodeId) -> bool {
        self.links.lock().severed.contains(&node)
    }

    /// Whether frames pass between `one` and `other`: in both directions, in none, or (`None`) in one of them.
    pub fn passes(&self, one: NodeId, other: NodeId) -> Option<bool> {
        let there = self.is_cut(Way { from: one, to: other });
        let back = self.is_cut(Way { from: other, to: one });
        (there == back).then_some(!there)
    }

    /// Whether frames that pass are neither lost nor late.
    pub fn is_usual(&self) -> bool {
        let (manner, usual) = (self.manner(), NetworkManner::default());
        manner.loss_per_mille == usual.loss_per_mille && manner.delay_max <= usual.delay_max
    }

    /// Breaks every connection that is open now.
    pub fn break_connections(&self) {
        let connections = std::mem::take(&mut self.links.lock().connections);
        connections.iter().for_each(TaskGroup::kill);
    }

    /// Changes how the links behave from now on.
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

    /// Waits for a cut way to heal; `false` when the connection's patience ends first.
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

type Answer = Result<Bytes, TransportError>;

/// Carries one frame there and its answer back. A frame that is swallowed leaves the caller waiting until it gives up.
async fn carry_call(
    network: SimNetwork,
    way: Way,
    peer: Arc<str>,
    request: (Purpose, Bytes),
    mut answer: oneshot::Sender<Answer>,
) {
    let swallowed = |network: &SimNetwork, way: Way| network.is_cut(way) || network.loses();
    NodeRuntime::sleep(network.delay()).await;
    if swallowed(&network, way) {
        return answer.closed().await;
    }
    let (purpose, frame) = request;
    let overhears = network.links.lock().overhears.clone();
    let Some(endpoint) = network.endpoint(way.to) else {
        NodeRuntime::sleep(network.delay()).await;
        let forged = overhears.and_then(|overhears| overhears(way.from, way.to, &frame, None));
        let refused = TransportError::Refused { peer, reason: "connection refused".to_owned() };
        return drop(answer.send(forged.ok_or(refused)));
    };
    let service = endpoint.service.clone();
    let asked = frame.clone();
    let mut served =
        endpoint.process.spawn(async move { service.call(way.from, purpose, frame).await }).await;
    drop(endpoint);
    if let (Some(overhears), Ok(Ok(answered))) = (overhears, &mut served)
        && let Some(other) = overhears(way.from, way.to, &asked, Some(answered))
    {
        *answered = other;
    }
    NodeRuntime::sleep(network.delay()).await;
    if swallowed(&network, way.back()) {
        return answer.closed().await;
    }
    let outcome = match served {
        Ok(Ok(frame)) => Ok(frame),
        Ok(Err(reason)) => Err(TransportError::Lost { peer, reason }),
        Err(gone) => Err(TransportError::Lost { peer, reason: gone.to_string() }),
    };
    // The caller may have given up meanwhile.
    drop(answer.send(outcome));
}

impl Transport for SimTransport {
    async fn call(&self, peer: &Peer, purpose: Purpose, frame: Bytes, timeout: Duration) -> Answer {
        let way = Way { from: self.from, to: peer.id };
        let (sender, receiver) = oneshot::channel();
        spawn_detached(carry_call(self.network.clone(), way, peer.name.clone(), (purpose, frame), sender));
        let lost = |reason: &str| TransportError::Lost { peer: peer.name.clone(), reason: reason.to_owned() };
        match NodeRuntime::timeout(timeout, receiver).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(lost("connection broken")),
            Err(_) => Err(lost("no answer in time")),
        }
    }

    async fn open(&self, peer: &Peer, purpose: Purpose) -> Result<Duplex, TransportError> {
        let (network, way) = (&self.network, Way { from: self.from, to: peer.id });
        if purpose == Purpose::Snapshot {
            let points = network.links.lock().points.clone();
            points.pass(self.from, Point::SnapshotSend);
        }
        let unreachable =
            |reason: &str| TransportError::Unreachable { peer: peer.name.clone(), reason: reason.to_owned() };
        NodeRuntime::sleep(network.delay()).await;
        let stands_in = network.links.lock().stands_in.clone().filter(|_| purpose == Purpose::Append);
        if let Some(service) = stands_in.and_then(|stands_in| stands_in(way.to)) {
            let (sender, taken) = mpsc::channel(WINDOW_FRAMES);
            let (answers, receiver) = mpsc::channel(WINDOW_FRAMES);
            let duplex = Duplex { sender: answers, receiver: taken };
            drop(spawn_detached(service.stream(way.from, purpose, duplex)));
            return Ok(Duplex { sender, receiver });
        }
        if network.is_cut(way) || network.is_cut(way.back()) {
            NodeRuntime::sleep(CONNECT_TIMEOUT).await;
            return Err(unreachable("connection timed out"));
        }
        let refused =
            || TransportError::Refused { peer: peer.name.clone(), reason: "connection refused".to_owned() };
        let endpoint = network.endpoint(way.to).ok_or_else(refused)?;
        let connection = TaskGroup::default();
        let (here, its_receiver) = pump(network, way, &connection);
        let (there, my_receiver) = pump(network, way.back(), &connection);
        {
            let mut links = network.links.lock();
            links.connections.retain(|open| !open.is_dead());
            links.connections.push(connection);
        }
        let service = endpoint.service.clone();
        let duplex = Duplex { sender: there, receiver: its_receiver };
        endpoint.process.spawn(async move { service.stream(way.from, purpose, duplex).await });
        NodeRuntime::sleep(network.delay()).await;
        Ok(Duplex { sender: here, receiver: my_receiver })
    }
}

/// One direction of a connection: what is sent on the returned sender comes out of the returned receiver, later.
fn pump(
    network: &SimNetwork,
    way: Way,
    connection: &TaskGroup,
) -> (mpsc::Sender<Bytes>, mpsc::Receiver<Bytes>) {
    let (sender, mut entering) = mpsc::channel::<Bytes>(WINDOW_FRAMES);
    let (wire, on_wire) = mpsc::channel(WINDOW_FRAMES);
    let (leaving, receiver) = mpsc::channel(WINDOW_FRAMES);
    let stamping = network.clone();
    connection.spawn(async move {
        let mut last = now();
        while let Some(frame) = entering.recv().await {
            last = last.max(now() + stamping.delay());
            if wire.send((last, frame)).await.is_err() {
                return;
            }
        }
    });
    connection.spawn(deliver(network.clone(), way, connection.clone(), on_wire, leaving.clone()));
    let (network, own) = (network.clone(), connection.clone());
    connection.spawn(async move {
        leaving.closed().await;
        // The far side hung up: this side learns it when the news has travelled.
        NodeRuntime::sleep(network.delay()).await;
        network.passable(way.back()).await;
        own.kill();
    });
    (sender, receiver)
}

async fn deliver(
    network: SimNetwork,
    way: Way,
    connection: TaskGroup,
    mut on_wire: mpsc::Receiver<(Instant, Bytes)>,
    leaving: mpsc::Sender<Bytes>,
) {
    while let Some((at, frame)) = on_wire.recv().await {
        NodeRuntime::sleep_until(at).await;
        let broken = network.loses() || !network.passable(way).await;
        if broken || leaving.send(frame).await.is_err() {
            return connection.kill();
        }
    }
    // The near side hung up: the whole connection ends once the news has travelled.
    NodeRuntime::sleep(network.delay()).await;
    network.passable(way).await;
    connection.kill();
}

type Instant = <NodeRuntime as AsyncRuntime>::Instant;

fn now() -> Instant {
    <Instant as openraft_rt::Instant>::now()
}

#[cfg(test)]
mod tests;
