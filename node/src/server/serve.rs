//! Accepts connections on all ports, gives each to an event loop, and drains them at the stop.

use std::future::poll_fn;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::task::{Context, Poll};

use orch_bounded::WarningLimit;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{Terms, serve_plain, serve_socket, serve_tls};
use super::event_loops::{EventLoops, Seat};
use super::limits;
use super::load::Room;
use super::pace::Waits;
use super::places::Places;
use super::visitor::Answers;
use crate::tls::Reloader;

/// A listener and its protocol.
#[derive(Debug)]
pub enum Port {
    /// HTTPS.
    Tls {
        /// The open port.
        listener: TcpListener,
        /// Server certificate and client authorities, reloaded on change.
        tls: Reloader,
    },
    /// Plain HTTP where every client is the administrator. On the loopback interface only.
    Plain {
        /// The open port.
        listener: TcpListener,
    },
    /// Plain HTTP on a Unix socket that its owner alone may open; every client is the administrator.
    Socket {
        /// The open socket.
        listener: UnixListener,
    },
}

impl Port {
    /// Waits for the next connection, whose socket belongs to the loop of the seat: the runtime registers an accepted socket where it
    /// is entered.
    async fn accept(&self, loops: &EventLoops) -> io::Result<(Stream, SocketAddr, Seat)> {
        poll_fn(|cx| {
            let chosen = loops.fewest();
            let _entered = chosen.enter();
            self.poll_accept(cx).map_ok(|(stream, address)| (stream, address, loops.seat(chosen)))
        })
        .await
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Stream, SocketAddr)>> {
        match self {
            Port::Tls { listener, .. } | Port::Plain { listener } => {
                listener.poll_accept(cx).map_ok(|(stream, address)| (Stream::Tcp(stream), address))
            }
            Port::Socket { listener } => {
                listener.poll_accept(cx).map_ok(|(stream, _)| (Stream::Unix(stream), OF_A_SOCKET))
            }
        }
    }
}

/// The address that stands for clients of the Unix socket, which have none.
const OF_A_SOCKET: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// An accepted connection.
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// All ports of a server and their connections.
#[derive(Debug)]
pub struct Server<S> {
    service: S,
    loops: EventLoops,
    pub(super) places: Places,
    pub(super) waits: Waits,
    pub(super) room: Room,
    stopping: CancellationToken,
    tasks: TaskTracker,
}

impl<S> Server<S>
where
    S: tower::Service<
            http::Request<hyper::body::Incoming>,
            Response = http::Response<axum::body::Body>,
            Error = std::convert::Infallible,
            Future: Send,
        > + Clone
        + Send
        + Sync
        + 'static,
{
    /// A server whose requests go to `service`, with at most `connections` at once, which `loops` serve.
    pub fn new(service: S, connections: usize, loops: EventLoops) -> Server<S> {
        Server {
            service,
            loops,
            places: Places::new(connections),
            waits: Waits::default(),
            room: Room::of_node(),
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// Serves `port` from now on.
    pub fn listen(&self, port: Port) {
        let (service, stopping, tasks) = (self.service.clone(), self.stopping.clone(), self.tasks.clone());
        let given = (self.places.clone(), self.waits, self.room.clone(), self.loops.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                () = stopping.cancelled() => {}
                () = accept_all(&port, &service, given, &stopping, &tasks) => {}
            }
        });
    }

    /// Closes the ports and lets requests under way finish, for ten seconds. Returns the number of tasks (connections)
    /// that have not ended by then.
    pub async fn stop(&self) -> usize {
        self.stopping.cancel();
        self.tasks.close();
        if tokio::time::timeout(limits::DRAIN_MAX, self.tasks.wait()).await.is_ok() {
            return 0;
        }
        self.tasks.len()
    }
}

/// Accepts connections until dropped.
async fn accept_all<S: Answers>(
    port: &Port,
    service: &S,
    (places, waits, room, loops): (Places, Waits, Room, EventLoops),
    stopping: &CancellationToken,
    tasks: &TaskTracker,
) {
    let failures = WarningLimit::new();
    loop {
        match port.accept(&loops).await {
            Ok((stream, address, seat)) => {
                let place = places.take(address.ip()).await;
                let (writers, handshakes) = (seat.writers(), seat.handshakes());
                let (room, stopping) = (room.clone(), stopping.clone());
                let terms = Terms { place, waits, writers, handshakes, room, stopping };
                let runtime = seat.runtime().clone();
                tasks.spawn_on(connection(port, stream, address, service.clone(), terms, seat), &runtime);
                // Yields, so that in a flood of connections other tasks of the accepting thread get their turns.
                tokio::task::yield_now().await;
            }
            Err(error) => {
                if let Some(left_out) = failures.pass() {
                    tracing::warn!(%error, left_out, "cannot accept a connection");
                }
                tokio::time::sleep(limits::ACCEPT_PAUSE).await;
            }
        }
    }
}

/// The task of one connection. The futures are boxed: thousands of them are in memory at once, each no larger than its
/// protocol needs.
fn connection<S: Answers>(
    port: &Port,
    stream: Stream,
    address: SocketAddr,
    service: S,
    terms: Terms,
    seat: Seat,
) -> impl Future<Output = ()> + Send + 'static {
    let tls = match port {
        Port::Tls { tls, .. } => Some(tls.subscribe()),
        Port::Plain { .. } | Port::Socket { .. } => None,
    };
    async move {
        let _until_the_end = seat;
        let served = match (stream, tls) {
            (Stream::Tcp(stream), Some(tls)) => {
                Box::pin(serve_tls(stream, address, tls, service, terms)).await
            }
            (Stream::Tcp(stream), None) => Box::pin(serve_plain(stream, address, service, terms)).await,
            (Stream::Unix(stream), _) => Box::pin(serve_socket(stream, address, service, terms)).await,
        };
        if let Err(error) = served {
            tracing::debug!(%address, %error, "connection ended");
        }
    }
}
