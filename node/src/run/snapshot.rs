//! `/orch/v1/snapshot`: the whole state at one revision as a stream, for administrators.
//!
//!     POST   /orch/v1/snapshot               with every write that was acknowledged before the request
//!     POST   /orch/v1/snapshot?point=held    as this member holds it: for a cluster without a quorum
//!
//! The answer is a snapshot file (`orch_raft::archive`). It holds every secret of the cluster in clear, so it takes the right
//! to `post` to the path, which by default only `system:masters` has; roles that may read all paths have `get` alone. Each one is
//! logged with the user before its first byte. It is made of one root of the state on a thread of its own, at a
//! lower priority than requests: nothing is locked, and nothing is copied but the blocks under way.
//!
//! Invariant: a state that is withdrawn meanwhile ends the stream before the end mark of the file.

use std::io::{self, ErrorKind, Write};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::post;
use axum::{Extension, Router};
use bytes::{Bytes, BytesMut};
use futures::stream::poll_fn;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use orch_raft::archive::{Header, MemberEntry, write_state};
use orch_raft::{ClusterIdentity, Fingerprint, Store};
use rustix::process::setpriority_process;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::cluster::{Asker, failure};
use super::store::Handle;

/// The path.
pub(super) const SNAPSHOT_PATH: &str = "/orch/v1/snapshot";

/// Query for the state as the member holds it.
const HELD: &str = "point=held";

/// Streams at once, of scheduled backups and of clients: each keeps a processor busy with compression, and the objects of its
/// revision in memory. Further clients are told to come again, and a backup waits.
const STREAMS_MAX: usize = 2;

/// Seconds after which a refused client should ask again: a stream of a small state takes one.
const RETRY_AFTER_S: u16 = 5;

/// Bytes of a piece of the body: several TLS records, and a small part of the room that answers have.
const PIECE_BYTES: usize = 128 << 10;

/// Pieces made and not sent yet. A client that reads slowly holds half a megabyte.
const PIECES_MAX: usize = 4;

/// Nice value of the threads: requests get three times its share of a busy processor.
const NICENESS: i32 = 5;

/// The places of this member's streams.
#[derive(Clone)]
pub(super) struct Places(Arc<Semaphore>);

impl Places {
    /// All places, free.
    pub(super) fn new() -> Places {
        Places(Arc::new(Semaphore::new(STREAMS_MAX)))
    }

    /// A place that is free now.
    fn try_take(&self) -> Option<OwnedSemaphorePermit> {
        self.0.clone().try_acquire_owned().ok()
    }

    /// A place, once one is free. Waiters come in their order, and before clients that ask later.
    pub(super) async fn take(&self) -> OwnedSemaphorePermit {
        let place = self.0.clone().acquire_owned().await;
        place.expect("nothing closes the places")
    }
}

/// Arguments of the handler.
#[derive(Clone)]
struct Snapshots {
    handle: Handle,
    cluster: Arc<ClusterIdentity>,
    places: Places,
}

/// The path, to be put behind the gate.
pub(super) fn router(handle: Handle, cluster: &ClusterIdentity, places: Places) -> Router {
    let state = Snapshots { handle, cluster: Arc::new(cluster.clone()), places };
    // It changes nothing, and is no GET all the same: roles that let monitoring read every path (`get` on `*`) would give it
    // every secret.
    Router::new().route(SNAPSHOT_PATH, post(send)).with_state(state)
}

async fn send(
    State(snapshots): State<Snapshots>,
    Extension(asker): Extension<Asker>,
    request: Request,
) -> Response {
    let Snapshots { handle, cluster, places } = snapshots;
    let unavailable = |reason: &str| failure(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", reason);
    let query = request.uri().query().unwrap_or_default();
    let is_held = query == HELD;
    let ready = match query {
        "" => handle.barrier().await.map(drop),
        HELD => handle.may_serve(),
        _ => {
            let reason = "the query is none, or point=held";
            return failure(StatusCode::BAD_REQUEST, "BadRequest", reason);
        }
    };
    if let Err(error) = ready {
        return unavailable(&error.to_string());
    }
    let Some(place) = places.try_take() else {
        let reason = format!(
            "{STREAMS_MAX} snapshots are being sent or saved by this member; ask again, or another one"
        );
        let mut response = failure(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", &reason);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
        return response;
    };
    // Before the first byte: a stream that breaks has shown secrets, too.
    let address = asker.address.map(tracing::field::display);
    tracing::info!(user = ?asker.user.name, address, held = is_held, "a user takes a snapshot");
    match stream(handle, &cluster, if is_held { Point::Held } else { Point::Newest }, place) {
        Ok(Streaming { mut pieces, .. }) => {
            let body = Body::from_stream(poll_fn(move |context| pieces.poll_recv(context)));
            let mut response = Response::new(body);
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            response
        }
        Err(error) => unavailable(&format!("no thread for a snapshot: {error}")),
    }
}

/// The point in time that a snapshot shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Point {
    /// A quorum was asked: the cluster has given out no later revision before.
    Newest,
    /// The member may have been left behind for any time, so that the snapshot has no time (docs/decisions/0039).
    Held,
}

/// A snapshot on its way.
pub(super) struct Streaming {
    /// Its pieces. The last one is an error where the snapshot is not whole.
    pub(super) pieces: Receiver<io::Result<Bytes>>,
    /// The fingerprint of the state that it is of.
    pub(super) saved: Fingerprint,
}

/// Starts the thread that writes the state of now as pieces of a snapshot. `place` is given back when the thread ends.
pub(super) fn stream(
    handle: Handle,
    cluster: &ClusterIdentity,
    point: Point,
    place: impl Send + 'static,
) -> io::Result<Streaming> {
    let (sender, receiver) = channel(PIECES_MAX);
    // The count is read before the state: a state that is withdrawn in between is not sent to its end.
    let revocations = handle.revocations();
    let header = origin(&handle, cluster, point);
    let state = handle.state();
    let saved = state.fingerprint();
    std::thread::Builder::new().name("snapshot".to_owned()).spawn(move || {
        let _place = place;
        yield_to_requests();
        let revision = state.applied().0;
        let pieces = Pieces { sender: sender.clone(), piece: BytesMut::new(), handle, revocations };
        match write_state(pieces, &header, &state) {
            Ok(_) => tracing::info!(revision, "a snapshot was sent"),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                tracing::info!(revision, "the reader of a snapshot left before its end");
            }
            Err(error) => {
                tracing::warn!(revision, %error, "a snapshot was not sent to its end");
                // An error instead of a plain end, so that the stream is not taken for whole. The reader may be gone.
                let _ = sender.blocking_send(Err(error));
            }
        }
    })?;
    Ok(Streaming { pieces: receiver, saved })
}

/// Gives the thread the priority of snapshots.
pub(super) fn yield_to_requests() {
    if let Err(error) = setpriority_process(None, NICENESS) {
        tracing::debug!(%error, "a snapshot is made at the priority of requests");
    }
}

/// The header of a snapshot of now, without the contents.
fn origin(handle: &Handle, cluster: &ClusterIdentity, point: Point) -> Header {
    let status = handle.status();
    let member = |member: &orch_raft::member::MemberStatus| MemberEntry {
        name: member.peer.name.to_string(),
        address: member.peer.address.to_string(),
        voter: member.voter,
    };
    Header {
        cluster: cluster.cluster.clone(),
        brand: cluster.brand.clone(),
        time_ms: match point {
            Point::Newest => super::identity::clock()(),
            Point::Held => 0,
        },
        feature_level: status.feature_level,
        program: orch_proto::version::program(),
        member: status.node.name.to_string(),
        members: status.members.iter().map(member).collect(),
        ..Header::default()
    }
}

/// Passes what is written on to the body in pieces, and waits while the client does not read.
struct Pieces {
    sender: Sender<io::Result<Bytes>>,
    piece: BytesMut,
    handle: Handle,
    revocations: u64,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(PIECE_BYTES - self.piece.len());
        self.piece.extend_from_slice(&bytes[..taken]);
        if self.piece.len() == PIECE_BYTES {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.handle.revocations() != self.revocations {
            return Err(io::Error::other("the state of this member was withdrawn meanwhile; ask again"));
        }
        let piece = self.piece.split().freeze();
        match piece.is_empty() {
            true => Ok(()),
            false => self.sender.blocking_send(Ok(piece)).map_err(|_| ErrorKind::BrokenPipe.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn clients_and_a_scheduled_backup_share_the_places() {
        let places = Places::new();
        let first = places.try_take().unwrap();
        let backup = places.take().await;
        assert!(places.try_take().is_none(), "a client is told to come again while a backup is saved");
        let waits = timeout(Duration::from_secs(60), places.take());
        assert!(waits.await.is_err(), "a backup waits");
        let (next, ()) = tokio::join!(places.take(), async { drop(first) });
        assert!(places.try_take().is_none());
        drop((backup, next));
        assert!(places.try_take().is_some());
    }
}
