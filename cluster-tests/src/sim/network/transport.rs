//! A member's transport on the simulated network.
//!
//! Owns the carriage of calls: a call is answered, or fails as unreachable or refused (certainly not delivered) or as
//! lost (perhaps delivered). A frame on the wire outlives its sender: a frame of a process that died meanwhile still
//! arrives. The parent module decides about delay, loss and cuts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft_rt::AsyncRuntime;
use orch_raft::transport::tonic::ClusterPin;
use orch_raft::transport::{Duplex, NodeId, Peer, Purpose, Transport, TransportError};
use tokio::sync::oneshot;

use super::{SimNetwork, Way, stream};
use crate::sim::points::Point;
use crate::sim::runtime::{NodeRuntime, spawn_detached};

/// Timeout of a connection attempt into a cut link.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(800);

/// A member's transport.
#[derive(Clone)]
pub struct SimTransport {
    network: SimNetwork,
    from: NodeId,
    /// The sender's cluster, which each frame names.
    pin: ClusterPin,
}

impl SimTransport {
    pub(super) fn new(network: SimNetwork, from: NodeId, pin: ClusterPin) -> Self {
        SimTransport { network, from, pin }
    }

    fn cluster(&self) -> Option<Arc<str>> {
        self.pin.cluster().cloned()
    }
}

impl fmt::Debug for SimTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimTransport(from {})", self.from.0)
    }
}

impl Transport for SimTransport {
    async fn call(&self, peer: &Peer, purpose: Purpose, frame: Bytes, timeout: Duration) -> Answer {
        let way = Way { from: self.from, to: peer.id };
        let (sender, receiver) = oneshot::channel();
        let request = Sent { purpose, frame, cluster: self.cluster() };
        spawn_detached(carry_call(self.network.clone(), way, peer.name.clone(), request, sender));
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
            return Ok(stream::connect_stand_in(way, purpose, service));
        }
        if network.is_cut(way) || network.is_cut(way.back()) {
            NodeRuntime::sleep(CONNECT_TIMEOUT).await;
            return Err(unreachable("connection timed out"));
        }
        let refused =
            || TransportError::Refused { peer: peer.name.clone(), reason: "connection refused".to_owned() };
        let endpoint = network.endpoint(way.to).ok_or_else(refused)?;
        if endpoint.pin.refuses(self.cluster().as_deref()) {
            NodeRuntime::sleep(network.delay()).await;
            return Err(unreachable(ANOTHER_CLUSTER));
        }
        let duplex = stream::connect(network, way, purpose, endpoint);
        NodeRuntime::sleep(network.delay()).await;
        Ok(duplex)
    }
}

pub(super) type Answer = Result<Bytes, TransportError>;

/// The refusal of a frame of another cluster, before the service sees it.
const ANOTHER_CLUSTER: &str = "the peer belongs to another cluster";

/// A request on the wire.
struct Sent {
    purpose: Purpose,
    frame: Bytes,
    /// The sender's cluster, as it was known when the frame was sent.
    cluster: Option<Arc<str>>,
}

/// Carries one frame and its answer. A lost frame leaves the caller waiting until its timeout.
async fn carry_call(
    network: SimNetwork,
    way: Way,
    peer: Arc<str>,
    request: Sent,
    mut answer: oneshot::Sender<Answer>,
) {
    let swallowed = |network: &SimNetwork, way: Way| network.is_cut(way) || network.loses();
    NodeRuntime::sleep(network.delay()).await;
    if swallowed(&network, way) {
        return answer.closed().await;
    }
    let Sent { purpose, frame, cluster } = request;
    let overhears = network.links.lock().overhears.clone();
    let Some(endpoint) = network.endpoint(way.to) else {
        NodeRuntime::sleep(network.delay()).await;
        let forged = overhears.and_then(|overhears| overhears(way.from, way.to, &frame, None));
        let refused = TransportError::Refused { peer, reason: "connection refused".to_owned() };
        return drop(answer.send(forged.ok_or(refused)));
    };
    if endpoint.pin.refuses(cluster.as_deref()) {
        NodeRuntime::sleep(network.delay()).await;
        let refused = TransportError::Unreachable { peer, reason: ANOTHER_CLUSTER.to_owned() };
        return drop(answer.send(Err(refused)));
    }
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
