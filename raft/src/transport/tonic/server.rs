//! The peer port: hands frames of admitted peers to the service.
//!
//! Every call and stream has passed the [`Gate`] before it comes here, so the ids given to the service are checked.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt};
use orch_proto::peer::Frame;
use orch_proto::peer::peer_link_server::{PeerLink, PeerLinkServer};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use super::claim::{Admits, Claim, ClusterPin, Gate};
use super::incoming::incoming;
use super::tls::PeerTls;
use super::{
    CONNECTION_WINDOW_BYTES, FRAME_BYTES_MAX, FRAME_OVERHEAD_BYTES, PING_INTERVAL, PING_TIMEOUT,
    STREAM_FRAMES_MAX, STREAM_WINDOW_BYTES, spawn,
};
use crate::transport::{Duplex, PeerService};

/// Concurrent calls and streams of one connection. A member has one stream of appends, one of forwarded writes and a
/// handful of calls. Calls to a slow member queue up to here and no further.
const STREAMS_PER_CONNECTION_MAX: u32 = 256;
/// Time for calls under way to finish after the signal to stop. Streams do not end by themselves.
const DRAIN_MAX: Duration = Duration::from_secs(2);

/// Serves the peer port of one member.
pub struct PeerServer {
    tls: PeerTls,
    gate: Gate,
    service: Arc<dyn PeerService>,
}

impl std::fmt::Debug for PeerServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PeerServer").field("tls", &self.tls).finish_non_exhaustive()
    }
}

impl PeerServer {
    /// `admits` decides about each call and stream, from the membership as it is then.
    pub fn new(
        tls: PeerTls,
        cluster: ClusterPin,
        admits: Admits,
        service: Arc<dyn PeerService>,
    ) -> PeerServer {
        PeerServer { tls, gate: Gate::new(cluster, admits), service }
    }

    /// Serves connections of `listener` until `stop` is ready, then lets calls under way finish for two seconds. The
    /// listener is closed when `stop` is ready.
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<(), String> {
        let link = PeerLinkServer::new(Link { service: self.service })
            .max_decoding_message_size(FRAME_BYTES_MAX + FRAME_OVERHEAD_BYTES);
        let gated = InterceptedService::new(link, self.gate);
        let (stopping, stopped) = tokio::sync::oneshot::channel();
        let stop = async {
            stop.await;
            // The receiver is gone if serving has ended by itself.
            let _ = stopping.send(());
        };
        let serving = Server::builder()
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
            .http2_keepalive_interval(Some(PING_INTERVAL))
            .http2_keepalive_timeout(Some(PING_TIMEOUT))
            .serve_with_incoming_shutdown(gated, incoming(listener, self.tls), stop);
        let drained = async {
            if stopped.await.is_err() {
                return std::future::pending().await;
            }
            drain_time().await;
        };
        tokio::select! {
            served = serving => served.map_err(|error| error.to_string()),
            () = drained => Ok(()),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "an adapter of sockets, which only tokio drives")]
async fn drain_time() {
    tokio::time::sleep(DRAIN_MAX).await;
}

/// The generated gRPC service over a [`PeerService`].
struct Link {
    service: Arc<dyn PeerService>,
}

#[tonic::async_trait]
impl PeerLink for Link {
    async fn call(&self, request: Request<Frame>) -> Result<Response<Frame>, Status> {
        let claim = admitted(&request)?;
        let frame = request.into_inner().body;
        let body = self.service.call(claim.id, claim.purpose, frame).await.map_err(Status::aborted)?;
        if body.len() > FRAME_BYTES_MAX {
            return Err(Status::aborted(format!(
                "the answer has {} bytes, more than a frame may",
                body.len()
            )));
        }
        Ok(Response::new(Frame { body }))
    }

    type StreamStream = Pin<Box<dyn Stream<Item = Result<Frame, Status>> + Send>>;

    async fn stream(
        &self,
        request: Request<Streaming<Frame>>,
    ) -> Result<Response<Self::StreamStream>, Status> {
        let claim = admitted(&request)?;
        let (sender, frames) = mpsc::channel(STREAM_FRAMES_MAX);
        // The service may stop reading and still answer.
        let receiver = receive(request.into_inner(), || {});
        let serving = self.service.stream(claim.id, claim.purpose, Duplex { sender, receiver });
        spawn(serving);
        Ok(Response::new(Box::pin(send(frames))))
    }
}

fn admitted<T>(request: &Request<T>) -> Result<Claim, Status> {
    request.extensions().get().cloned().ok_or_else(|| Status::unauthenticated("the peer was not admitted"))
}

/// The outgoing frames of a stream. A frame that is too large ends it, because skipping one would leave a gap.
fn send(frames: mpsc::Receiver<Bytes>) -> impl Stream<Item = Result<Frame, Status>> + Send {
    ReceiverStream::new(frames).map(|body| {
        if body.len() > FRAME_BYTES_MAX {
            return Err(Status::aborted(format!("a frame of {} bytes is too large", body.len())));
        }
        Ok(Frame { body })
    })
}

/// The incoming frames of a stream, until the other side ends it. Calls `on_unread` if this side drops the receiver
/// first.
pub(super) fn receive(
    mut frames: Streaming<Frame>,
    on_unread: impl FnOnce() + Send + 'static,
) -> mpsc::Receiver<Bytes> {
    let (sender, receiver) = mpsc::channel(STREAM_FRAMES_MAX);
    spawn(async move {
        loop {
            let next = tokio::select! {
                next = frames.message() => next,
                () = sender.closed() => return on_unread(),
            };
            match next {
                Ok(Some(frame)) => {
                    if sender.send(frame.body).await.is_err() {
                        return on_unread();
                    }
                }
                Ok(None) => return,
                Err(status) => {
                    tracing::debug!(reason = status.message(), "a stream from a peer has ended");
                    return;
                }
            }
        }
    });
    receiver
}
