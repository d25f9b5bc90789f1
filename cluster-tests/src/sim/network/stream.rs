//! Streams between members: both directions of a connection, and its end.
//!
//! Frames on a stream arrive in order, or the stream ends: nothing is lost from the middle. Ending one direction ends
//! the other after a network delay.

use std::sync::Arc;

use bytes::Bytes;
use openraft_rt::AsyncRuntime;
use orch_raft::transport::{Duplex, PeerService, Purpose};
use tokio::sync::mpsc;

use super::{Endpoint, SimNetwork, Way};
use crate::sim::runtime::{NodeRuntime, TaskGroup, spawn_detached};

/// Frames queued at an end of a stream: as small as a flow control window, so that back-pressure occurs.
const WINDOW_FRAMES: usize = 16;

/// Opens a connection to `endpoint`, whose process serves it. The caller's end is returned.
pub(super) fn connect(network: &SimNetwork, way: Way, purpose: Purpose, endpoint: Endpoint) -> Duplex {
    let connection = TaskGroup::default();
    let (here, its_receiver) = pump(network, way, &connection);
    let (there, my_receiver) = pump(network, way.back(), &connection);
    {
        let mut links = network.links.lock();
        links.connections.retain(|open| !open.is_dead());
        links.connections.push(connection);
    }
    let Endpoint { process, service, pin: _ } = endpoint;
    let duplex = Duplex { sender: there, receiver: its_receiver };
    process.spawn(async move { service.stream(way.from, purpose, duplex).await });
    Duplex { sender: here, receiver: my_receiver }
}

/// Opens a stream to a service that belongs to no process, over no link.
pub(super) fn connect_stand_in(way: Way, purpose: Purpose, service: Arc<dyn PeerService>) -> Duplex {
    let (sender, taken) = mpsc::channel(WINDOW_FRAMES);
    let (answers, receiver) = mpsc::channel(WINDOW_FRAMES);
    let duplex = Duplex { sender: answers, receiver: taken };
    drop(spawn_detached(service.stream(way.from, purpose, duplex)));
    Duplex { sender, receiver }
}

/// One direction of a connection: bytes sent on the returned sender come out of the returned receiver, later.
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
        // The far side closed the stream; this side learns it after a network delay.
        NodeRuntime::sleep(network.delay()).await;
        network.passable(way.back()).await;
        own.kill();
    });
    (sender, receiver)
}

/// Delivers each frame when it is due, until a loss, a long cut or a closed side ends the connection.
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
    // The near side closed the stream; the whole connection ends after a network delay.
    NodeRuntime::sleep(network.delay()).await;
    network.passable(way).await;
    connection.kill();
}

type Instant = <NodeRuntime as AsyncRuntime>::Instant;

fn now() -> Instant {
    <Instant as openraft_rt::Instant>::now()
}
