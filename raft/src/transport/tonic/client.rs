//! Sends frames to peers.
//!
//! The error tells whether a frame may have been delivered: [`TransportError::Unreachable`] where it certainly was not
//! (no connection, a refusal by the peer's gate, too large), [`TransportError::Refused`] where nothing listens,
//! [`TransportError::Lost`] in every other case. A frame is sent again only if its connection was already closed.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use orch_proto::peer::Frame;
use orch_proto::peer::peer_link_client::PeerLinkClient;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, timeout_at};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

use super::claim::{ClusterPin, OwnClaim};
use super::connector::{Failure, Spent, innermost};
use super::link::{Link, Ready};
use super::server::receive;
use super::tls::PeerTls;
use super::{CONNECT_TIMEOUT, FRAME_BYTES_MAX, FRAME_OVERHEAD_BYTES, STREAM_FRAMES_MAX};
use crate::transport::{Duplex, NodeId, Peer, Purpose, Transport, TransportError};

/// Connections tried for one frame: one that turns out to be closed, and a new one.
const ATTEMPTS_MAX: u32 = 2;

/// The members' network over TLS. Cheap to clone; clones share the connections.
#[derive(Clone)]
pub struct TonicTransport(Arc<Shared>);

struct Shared {
    tls: PeerTls,
    claim: OwnClaim,
    // Runtime of the caller of `new`: it drives the connections, whichever thread sends the first frame.
    runtime: Handle,
    // Bounded by the members seen in one run of the process, times the purposes.
    links: Mutex<BTreeMap<(NodeId, Purpose), Link>>,
}

impl std::fmt::Debug for TonicTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TonicTransport").field("tls", &self.0.tls).finish_non_exhaustive()
    }
}

impl TonicTransport {
    /// Transport of the member `id`, whose name is the one in `tls`. Dials nothing before the first frame. Must be
    /// called on the runtime that is to drive its connections: `None` outside a runtime, and for a name that is no
    /// valid header value.
    ///
    /// A [`Peer`] with an empty name is the member at its address, whatever its name: a joining member knows only
    /// addresses.
    pub fn new(id: NodeId, tls: PeerTls, cluster: ClusterPin) -> Option<TonicTransport> {
        let claim = OwnClaim::new(id, tls.name(), cluster)?;
        let runtime = Handle::try_current().ok()?;
        Some(TonicTransport(Arc::new(Shared { tls, claim, runtime, links: Mutex::default() })))
    }

    /// The link to `peer`. A changed name or address makes a new link.
    fn link(&self, peer: &Peer, purpose: Purpose) -> Link {
        let fresh = || Link::new(Arc::clone(&peer.name), Arc::clone(&peer.address));
        let mut links = self.0.links.lock();
        let link = links.entry((peer.id, purpose)).or_insert_with(fresh);
        if link.name != peer.name || link.address != peer.address {
            *link = fresh();
        }
        link.clone()
    }

    async fn ready(&self, link: &Link, peer: &Peer, deadline: Instant) -> Result<Ready, TransportError> {
        let connected = timeout_at(deadline, link.ready(&self.0.tls, &self.0.runtime)).await;
        let connected = connected.unwrap_or_else(|_| Err(Failure::other("no connection in time")));
        connected.map_err(|Failure { reason, is_refusal }| match is_refusal {
            true => TransportError::Refused { peer: display_name(peer), reason: reason.to_string() },
            false => unreachable(peer, reason.to_string()),
        })
    }

    fn request<T>(&self, purpose: Purpose, message: T) -> Request<T> {
        let mut request = Request::new(message);
        self.0.claim.write(purpose, request.metadata_mut());
        request
    }
}

impl Transport for TonicTransport {
    async fn call(
        &self,
        peer: &Peer,
        purpose: Purpose,
        frame: Bytes,
        timeout: Duration,
    ) -> Result<Bytes, TransportError> {
        if frame.len() > FRAME_BYTES_MAX {
            return Err(unreachable(peer, format!("a frame of {} bytes is too large", frame.len())));
        }
        let deadline = Instant::now() + timeout;
        let link = self.link(peer, purpose);
        for _ in 0..ATTEMPTS_MAX {
            let ready = self.ready(&link, peer, deadline).await?;
            let mut request = self.request(purpose, Frame { body: frame.clone() });
            request.set_timeout(deadline.saturating_duration_since(Instant::now()));
            let mut client = client(&ready);
            match timeout_at(deadline, client.call(request)).await {
                Ok(Ok(answer)) => return Ok(answer.into_inner().body),
                Ok(Err(status)) if is_spent(&status) => link.closed(&ready),
                Ok(Err(status)) => return Err(failure(peer, &status)),
                Err(_) => return Err(lost(peer, "no answer in time".to_owned())),
            }
        }
        Err(unreachable(peer, Spent.to_string()))
    }

    async fn open(&self, peer: &Peer, purpose: Purpose) -> Result<Duplex, TransportError> {
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        let link = self.link(peer, purpose);
        for _ in 0..ATTEMPTS_MAX {
            let ready = self.ready(&link, peer, deadline).await?;
            let (sender, frames) = mpsc::channel(STREAM_FRAMES_MAX);
            // Dropping the receiver must end our direction, too: only then is the stream reset and the peer stops
            // sending.
            let (unread, is_unread) = oneshot::channel::<()>();
            let unread_for_good = async {
                if is_unread.await.is_err() {
                    std::future::pending().await
                }
            };
            let frames = ReceiverStream::new(frames).map(|body| Frame { body }).take_until(unread_for_good);
            let request = self.request(purpose, frames);
            let mut client = client(&ready);
            match timeout_at(deadline, client.stream(request)).await {
                Ok(Ok(answer)) => {
                    let on_unread = || {
                        // Fails if our direction has already ended, which is as good.
                        let _ = unread.send(());
                    };
                    return Ok(Duplex { sender, receiver: receive(answer.into_inner(), on_unread) });
                }
                Ok(Err(status)) if is_spent(&status) => link.closed(&ready),
                // No frame has been given to the stream yet, so none can have been delivered.
                Ok(Err(status)) => return Err(unreachable(peer, reason(&status))),
                Err(_) => return Err(unreachable(peer, "no answer in time".to_owned())),
            }
        }
        Err(unreachable(peer, Spent.to_string()))
    }
}

fn client(ready: &Ready) -> PeerLinkClient<Channel> {
    let limit = FRAME_BYTES_MAX + FRAME_OVERHEAD_BYTES;
    PeerLinkClient::new(ready.channel.clone())
        .max_decoding_message_size(limit)
        .max_encoding_message_size(limit)
}

fn unreachable(peer: &Peer, reason: String) -> TransportError {
    TransportError::Unreachable { peer: display_name(peer), reason }
}

fn lost(peer: &Peer, reason: String) -> TransportError {
    TransportError::Lost { peer: display_name(peer), reason }
}

fn display_name(peer: &Peer) -> Arc<str> {
    Arc::clone(if peer.name.is_empty() { &peer.address } else { &peer.name })
}

/// The error for a call that was answered with `status`.
fn failure(peer: &Peer, status: &Status) -> TransportError {
    match status.code() {
        // Only the gate sends these codes, before a frame is read.
        Code::PermissionDenied | Code::InvalidArgument | Code::Unauthenticated => {
            unreachable(peer, reason(status))
        }
        _ => lost(peer, reason(status)),
    }
}

fn reason(status: &Status) -> String {
    status.source().map_or_else(|| status.message().to_owned(), innermost)
}

/// The connection was closed before the request, which was therefore not sent.
fn is_spent(status: &Status) -> bool {
    let mut cause: Option<&(dyn Error + 'static)> = status.source();
    while let Some(error) = cause {
        if error.is::<Spent>() {
            return true;
        }
        cause = error.source();
    }
    false
}
