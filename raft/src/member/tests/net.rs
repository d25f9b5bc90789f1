//! A network in memory: a millisecond of delay for each frame, cuts by direction, hung and broken streams.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft_rt_sim::SimRuntime;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::Runtime;
use crate::transport::{Duplex, NodeId, Peer, PeerService, Purpose, Transport, TransportError};

const DELAY: Duration = Duration::from_millis(1);

/// Frames that one direction of a stream buffers at each end.
const STREAM_FRAMES: usize = 8;

#[derive(Clone, Default)]
pub(crate) struct MemoryNetwork(Arc<Mutex<Net>>);

#[derive(Default)]
struct Net {
    services: BTreeMap<NodeId, Arc<dyn PeerService>>,
    cuts: BTreeSet<(NodeId, NodeId)>,
    frames: BTreeMap<Purpose, u64>,
    /// Number of streams opened so far; the number of the newest.
    opened: u64,
    streams: BTreeMap<Purpose, u64>,
    /// Streams up to this number accept frames and deliver none.
    hung: BTreeMap<Purpose, u64>,
    /// Bytes sent by the openers of streams.
    bytes: BTreeMap<Purpose, u64>,
    /// Numbers of frames after which the next opened streams break, one number for each stream.
    breaks: BTreeMap<Purpose, VecDeque<u64>>,
    /// Purposes for which no stream is opened to a member.
    refused: BTreeSet<(Purpose, NodeId)>,
    /// The clusters that members belong to, where their disks tell at their start. A peer of another one is refused, as by
    /// the product's transport.
    clusters: BTreeMap<NodeId, Arc<str>>,
    /// Sender and receiver of each frame that was refused for that.
    strangers: BTreeSet<(NodeId, NodeId)>,
}

/// One direction of a stream.
struct Direction {
    purpose: Purpose,
    number: u64,
    from_opener: bool,
    /// Frames left until it breaks; `None` never breaks.
    breaks: Option<u64>,
}

#[derive(Clone)]
pub(crate) struct MemoryTransport {
    from: NodeId,
    network: MemoryNetwork,
}

impl MemoryNetwork {
    pub(super) fn transport(&self, from: NodeId) -> MemoryTransport {
        MemoryTransport { from, network: self.clone() }
    }

    pub(super) fn serve(&self, node: NodeId, service: Arc<dyn PeerService>) {
        self.0.lock().services.insert(node, service);
    }

    pub(super) fn unserve(&self, node: NodeId) {
        self.0.lock().services.remove(&node);
    }

    /// Sets the cluster that `node` belongs to.
    pub(super) fn pin(&self, node: NodeId, cluster: Option<Arc<str>>) {
        let clusters = &mut self.0.lock().clusters;
        match cluster {
            Some(cluster) => clusters.insert(node, cluster),
            None => clusters.remove(&node),
        };
    }

    /// Whether a frame of `from` was refused by `to` as one of another cluster.
    pub(super) fn refused_cluster(&self, from: NodeId, to: NodeId) -> bool {
        self.0.lock().strangers.contains(&(from, to))
    }

    /// Whether both members are known to belong to clusters, and to different ones.
    fn are_of_two_clusters(&self, from: NodeId, to: NodeId) -> bool {
        let mut net = self.0.lock();
        let (own, claimed) = (net.clusters.get(&to), net.clusters.get(&from));
        let differ = own.zip(claimed).is_some_and(|(own, claimed)| own != claimed);
        if differ {
            net.strangers.insert((from, to));
        }
        differ
    }

    /// Cuts both directions between `node` and the others.
    pub(super) fn isolate(&self, node: NodeId, others: impl Iterator<Item = NodeId>) {
        let mut net = self.0.lock();
        for other in others.filter(|other| *other != node) {
            net.cuts.extend([(node, other), (other, node)]);
        }
    }

    pub(super) fn heal(&self) {
        self.0.lock().cuts.clear();
    }

    /// Hangs every open stream for `purpose`: it accepts frames until its buffers are full, delivers none and does not
    /// end.
    pub(super) fn hang(&self, purpose: Purpose) {
        let mut net = self.0.lock();
        let opened = net.opened;
        net.hung.insert(purpose, opened);
    }

    /// Streams opened for `purpose` so far.
    pub(super) fn streams(&self, purpose: Purpose) -> u64 {
        self.0.lock().streams.get(&purpose).copied().unwrap_or(0)
    }

    /// Sets whether streams and calls for `purpose` to `node` fail from now on, before any frame is sent.
    pub(super) fn refuse(&self, purpose: Purpose, node: NodeId, refuse: bool) {
        let refused = &mut self.0.lock().refused;
        if refuse {
            refused.insert((purpose, node))
        } else {
            refused.remove(&(purpose, node))
        };
    }

    /// Breaks the next streams opened for `purpose`, each after the given number of its opener's frames.
    pub(super) fn break_after(&self, purpose: Purpose, frames: impl IntoIterator<Item = u64>) {
        self.0.lock().breaks.entry(purpose).or_default().extend(frames);
    }

    /// Bytes that the openers of streams for `purpose` have sent so far.
    pub(super) fn bytes(&self, purpose: Purpose) -> u64 {
        self.0.lock().bytes.get(&purpose).copied().unwrap_or(0)
    }

    /// Frames sent for `purpose` so far.
    pub(super) fn frames(&self, purpose: Purpose) -> u64 {
        self.0.lock().frames.get(&purpose).copied().unwrap_or(0)
    }

    fn passes(&self, from: NodeId, to: NodeId, purpose: Purpose) -> bool {
        let mut net = self.0.lock();
        *net.frames.entry(purpose).or_default() += 1;
        !net.cuts.contains(&(from, to)) && net.services.contains_key(&to)
    }

    fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        let net = self.0.lock();
        net.cuts.contains(&(from, to)) || net.cuts.contains(&(to, from))
    }

    /// Delivers frames of one direction until either end closes or the path is cut.
    async fn pump(
        self,
        (from, to): (NodeId, NodeId),
        Direction { purpose, number, from_opener, mut breaks }: Direction,
        mut receiver: mpsc::Receiver<Bytes>,
        sender: mpsc::Sender<Bytes>,
    ) {
        while let Some(frame) = receiver.recv().await {
            if from_opener {
                *self.0.lock().bytes.entry(purpose).or_default() += frame.len() as u64;
            }
            match &mut breaks {
                Some(0) => return,
                Some(left) => *left -= 1,
                None => {}
            }
            SimRuntime::sleep(DELAY).await;
            if self.0.lock().hung.get(&purpose).is_some_and(|hung| number <= *hung) {
                // Waits for the sender to close; meanwhile its buffer fills.
                return sender.closed().await;
            }
            if !self.passes(from, to, purpose) || sender.send(frame).await.is_err() {
                return;
            }
        }
    }
}

impl MemoryTransport {
    async fn reach(&self, peer: &Peer, purpose: Purpose) -> Result<Arc<dyn PeerService>, TransportError> {
        SimRuntime::sleep(DELAY).await;
        let service = self.network.0.lock().services.get(&peer.id).cloned();
        let passes = self.network.passes(self.from, peer.id, purpose)
            && !self.network.0.lock().refused.contains(&(purpose, peer.id));
        let name = peer.name.clone();
        match service {
            Some(_) if passes && self.network.are_of_two_clusters(self.from, peer.id) => {
                Err(TransportError::Refused { peer: name, reason: "another cluster".into() })
            }
            Some(service) if passes => Ok(service),
            None if !self.network.is_cut(self.from, peer.id) => {
                Err(TransportError::Refused { peer: name, reason: "not started".into() })
            }
            _ => Err(TransportError::Unreachable { peer: name, reason: "cut".into() }),
        }
    }
}

impl Transport for MemoryTransport {
    async fn call(
        &self,
        peer: &Peer,
        purpose: Purpose,
        frame: Bytes,
        timeout: Duration,
    ) -> Result<Bytes, TransportError> {
        let service = self.reach(peer, purpose).await?;
        let lost = |reason: String| TransportError::Lost { peer: peer.name.clone(), reason };
        let answered = SimRuntime::timeout(timeout, service.call(self.from, purpose, frame)).await;
        let answer = answered.map_err(|_| lost("timeout".into()))?.map_err(lost)?;
        SimRuntime::sleep(DELAY).await;
        if self.network.passes(peer.id, self.from, purpose) { Ok(answer) } else { Err(lost("cut".into())) }
    }

    async fn open(&self, peer: &Peer, purpose: Purpose) -> Result<Duplex, TransportError> {
        let service = self.reach(peer, purpose).await?;
        let channel = || mpsc::channel(STREAM_FRAMES);
        let ((near, out), (to_far, from_near)) = (channel(), channel());
        let ((far, back), (to_near, from_far)) = (channel(), channel());
        let (here, there) = (self.from, peer.id);
        let network = &self.network;
        let number = {
            let mut net = network.0.lock();
            net.opened += 1;
            *net.streams.entry(purpose).or_default() += 1;
            net.opened
        };
        let breaks = network.0.lock().breaks.get_mut(&purpose).and_then(VecDeque::pop_front);
        let stream = |from_opener, breaks| Direction { purpose, number, from_opener, breaks };
        drop(SimRuntime::spawn(network.clone().pump((here, there), stream(true, breaks), out, to_far)));
        drop(SimRuntime::spawn(network.clone().pump((there, here), stream(false, None), back, to_near)));
        let duplex = Duplex { sender: far, receiver: from_near };
        drop(SimRuntime::spawn(service.stream(here, purpose, duplex)));
        Ok(Duplex { sender: near, receiver: from_far })
    }
}
