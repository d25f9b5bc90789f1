//! Accepting connections on all ports, and ending them.

use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{Answers, serve_plain, serve_tls};
use super::limits;
use crate::tls::Reloader;

/// A port and how it is spoken to.
#[derive(Debug)]
pub enum Port {
    /// HTTPS.
    Tls {
        /// The open port.
        listener: TcpListener,
        /// Certificates.
        tls: Reloader,
    },
    /// Plain HTTP where everybody is the administrator. On the loopback interface only.
    Plain {
        /// The open port.
        listener: TcpListener,
    },
}

/// All ports of a server and their connections.
#[derive(Debug)]
pub struct Server<S> {
    service: S,
    permits: Arc<Semaphore>,
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
    /// A server whose requests go to `service`.
    pub fn new(service: S) -> Server<S> {
        Server {
            service,
            permits: Arc::new(Semaphore::new(limits::CONNECTIONS_MAX)),
            stopping: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// Serves `port` from now on.
    pub fn listen(&self, port: Port) {
        let (service, permits, stopping, tasks) =
            (self.service.clone(), Arc::clone(&self.permits), self.stopping.clone(), self.tasks.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                () = stopping.cancelled() => {}
                () = accept_all(&port, &service, permits, &stopping, &tasks) => {}
            }
        });
    }

    /// Closes the ports and lets requests under way finish, for ten seconds. Answers how many connections were cut.
    pub async fn stop(&self) -> usize {
        self.stopping.cancel();
        self.tasks.close();
        if tokio::time::timeout(limits::DRAIN_MAX, self.tasks.wait()).await.is_ok() {
            return 0;
        }
        self.tasks.len()
    }
}

/// Accepts connections for ever.
async fn accept_all<S: Answers>(
    port: &Port,
    service: &S,
    permits: Arc<Semaphore>,
    stopping: &CancellationToken,
    tasks: &TaskTracker,
) {
    let (Port::Tls { listener, .. } | Port::Plain { listener }) = port;
    loop {
        let permit = permit(&permits).await;
        match listener.accept().await {
            Ok((stream, address)) => {
                let connection = connection(port, stream, address, service.clone(), stopping.clone());
                tasks.spawn(async move {
                    connection.await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(limits::ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Waits for a free place among the connections.
async fn permit(permits: &Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    if let Ok(permit) = Arc::clone(permits).try_acquire_owned() {
        return Some(permit);
    }
    tracing::warn!(connections = limits::CONNECTIONS_MAX, "no place for another connection, new ones wait");
    // It fails only when the semaphore is closed, which nobody does.
    Arc::clone(permits).acquire_owned().await.ok()
}

/// The life of one connection, boxed: thousands of them lie in memory at once, each as small as it can be.
fn connection<S: Answers>(
    port: &Port,
    stream: TcpStream,
    address: std::net::SocketAddr,
    service: S,
    stopping: CancellationToken,
) -> impl Future<Output = ()> + Send + 'static {
    let tls = match port {
        Port::Tls { tls, .. } => Some(tls.current()),
        Port::Plain { .. } => None,
    };
    async move {
        let served = match tls {
            Some(tls) => Box::pin(serve_tls(stream, address, tls, service, stopping)).await,
            None => Box::pin(serve_plain(stream, address, service, stopping)).await,
        };
        if let Err(error) = served {
            tracing::debug!(%address, %error, "connection ended");
        }
    }
}
