//! Accepts connections on all ports, and drains them at the stop.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use orch_bounded::WarningLimit;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{ConnectionError, Terms, serve_plain, serve_socket, serve_tls};
use super::event_loops::EventLoops;
use super::limits;
use super::load::Room;
use super::pace::Waits;
use super::places::Places;
use super::turns::Writers;
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
    /// Waits for the next connection.
    async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        match self {
            Port::Tls { listener, .. } | Port::Plain { listener } => {
                let (stream, address) = listener.accept().await?;
                Ok((Stream::Tcp(stream.into_std()?), address))
            }
            Port::Socket { listener } => {
                let (stream, _) = listener.accept().await?;
                Ok((Stream::Unix(stream.into_std()?), OF_A_SOCKET))
            }
        }
    }
}

/// The address that stands for clients of the Unix socket, which have none.
const OF_A_SOCKET: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// An accepted connection, which belongs to no runtime yet.
enum Stream {
    Tcp(std::net::TcpStream),
    Unix(std::os::unix::net::UnixStream),
}

/// All ports of a server and their connections.
#[derive(Debug)]
pub struct Server<S> {
    service: S,
    loops: EventLoops,
    pub(super) places: Places,
    pub(super) waits: Waits,
    writers: Writers,
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
            writers: Writers::of_machine(),
            room: Room::of_node(),
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// Serves `port` from now on.
    pub fn listen(&self, port: Port) {
        let (service, stopping) = (self.service.clone(), self.stopping.clone());
        let connections = Connections { loops: self.loops.clone(), tasks: self.tasks.clone() };
        let given = (self.places.clone(), self.waits, self.writers.clone(), self.room.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                () = stopping.cancelled() => {}
                () = accept_all(&port, &service, given, &stopping, &connections) => {}
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

/// Starts the tasks of connections.
struct Connections {
    loops: EventLoops,
    tasks: TaskTracker,
}

impl Connections {
    /// Runs `connection` on the loop with the fewest connections.
    fn start(&self, connection: impl Future<Output = ()> + Send + 'static) {
        let seat = self.loops.take_seat();
        let runtime = seat.runtime();
        let served = async move {
            connection.await;
            drop(seat);
        };
        self.tasks.spawn_on(served, &runtime);
    }
}

/// Accepts connections until dropped.
async fn accept_all<S: Answers>(
    port: &Port,
    service: &S,
    (places, waits, writers, room): (Places, Waits, Writers, Room),
    stopping: &CancellationToken,
    connections: &Connections,
) {
    let failures = WarningLimit::new();
    loop {
        match port.accept().await {
            Ok((stream, address)) => {
                let place = places.take(address.ip()).await;
                let (writers, room, stopping) = (writers.clone(), room.clone(), stopping.clone());
                let terms = Terms { place, waits, writers, room, stopping };
                connections.start(connection(port, stream, address, service.clone(), terms));
                // Yields, so that in a flood of connections other tasks get a turn after each handshake, which costs a
                // signature.
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
) -> impl Future<Output = ()> + Send + 'static {
    let tls = match port {
        Port::Tls { tls, .. } => Some(tls.subscribe()),
        Port::Plain { .. } | Port::Socket { .. } => None,
    };
    async move {
        let served = match (stream, tls) {
            (Stream::Tcp(stream), tls) => match (TcpStream::from_std(stream), tls) {
                (Ok(stream), Some(tls)) => Box::pin(serve_tls(stream, address, tls, service, terms)).await,
                (Ok(stream), None) => Box::pin(serve_plain(stream, address, service, terms)).await,
                (Err(error), _) => Err(ConnectionError::Socket(error)),
            },
            (Stream::Unix(stream), _) => match UnixStream::from_std(stream) {
                Ok(stream) => Box::pin(serve_socket(stream, address, service, terms)).await,
                Err(error) => Err(ConnectionError::Socket(error)),
            },
        };
        if let Err(error) = served {
            tracing::debug!(%address, %error, "connection ended");
        }
    }
}
