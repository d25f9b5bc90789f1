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
use orch_raft::{ClusterIdentity, Store};
use rustix::process::setpriority_process;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::cluster::{Asker, failure};
use super::store::Handle;

/// The path.
pub(super) const SNAPSHOT_PATH: &str = "/orch/v1/snapshot";

/// Query for the state as the member holds it.
const HELD: &str = "point=held";

/// Streams at once: each keeps a processor busy with compression, and the objects of its revision in memory. More are told
/// to come again.
const STREAMS_MAX: usize = 2;

/// Seconds after which a refused client should ask again: a stream of a small state takes one.
const RETRY_AFTER_S: u16 = 5;

/// Bytes of a piece of the body: several TLS records, and a small part of the room that answers have.
const PIECE_BYTES: usize = 128 << 10;

/// Pieces made and not sent yet. A client that reads slowly holds half a megabyte.
const PIECES_MAX: usize = 4;

/// Nice value of the thread: requests get three times its share of a busy processor.
const NICENESS: i32 = 5;

/// Arguments of the handler.
#[derive(Clone)]
struct Snapshots {
    handle: Handle,
    cluster: Arc<ClusterIdentity>,
    streams: Arc<Semaphore>,
}

/// The path, to be put behind the gate.
pub(super) fn router(handle: Handle, cluster: &ClusterIdentity) -> Router {
    let streams = Arc::new(Semaphore::new(STREAMS_MAX));
    let state = Snapshots { handle, cluster: Arc::new(cluster.clone()), streams };
    // It changes nothing, and is no GET all the same: roles that let monitoring read every path (`get` on `*`) would give it
    // every secret.
    Router::new().route(SNAPSHOT_PATH, post(send)).with_state(state)
}

async fn send(
    State(snapshots): State<Snapshots>,
    Extension(asker): Extension<Asker>,
    request: Request,
) -> Response {
    let Snapshots { handle, cluster, streams } = snapshots;
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
    let Ok(permit) = streams.try_acquire_owned() else {
        let reason =
            format!("{STREAMS_MAX} snapshots are being sent by this member; ask again, or another one");
        let mut response = failure(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", &reason);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
        return response;
    };
    // Before the first byte: a stream that breaks has shown secrets, too.
    let address = asker.address.map(tracing::field::display);
    tracing::info!(user = ?asker.user.name, address, held = is_held, "a user takes a snapshot");
    match stream(handle, &cluster, if is_held { Point::Held } else { Point::Newest }, permit) {
        Ok(mut pieces) => {
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

/// Starts the thread that writes the state of now as pieces of a snapshot. The last one is an error where the snapshot is not
/// whole. `permit` is dropped when the thread ends.
pub(super) fn stream(
    handle: Handle,
    cluster: &ClusterIdentity,
    point: Point,
    permit: impl Send + 'static,
) -> io::Result<Receiver<io::Result<Bytes>>> {
    let (sender, receiver) = channel(PIECES_MAX);
    // The count is read before the state: a state that is withdrawn in between is not sent to its end.
    let revocations = handle.revocations();
    let header = origin(&handle, cluster, point);
    std::thread::Builder::new().name("snapshot".to_owned()).spawn(move || {
        let _permit = permit;
        if let Err(error) = setpriority_process(None, NICENESS) {
            tracing::debug!(%error, "a snapshot is made at the priority of requests");
        }
        let state = handle.state();
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
    Ok(receiver)
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
