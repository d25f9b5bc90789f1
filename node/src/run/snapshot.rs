//! `/orch/v1/snapshot`: the whole state at one revision as a stream, for administrators.
//!
//!     POST   /orch/v1/snapshot               with every write that was acknowledged before the request
//!     POST   /orch/v1/snapshot?point=held    as this member holds it: for a cluster without a quorum
//!     POST   /orch/v1/snapshot?resume=NAME&from=BYTES    the rest of a stream that broke, from this byte on
//!
//! A stream has a name, the digest of its header (`archive::stream_of`), which its reader finds in the first bytes. A member that
//! still has the state of the stream (`resumable`) writes the same bytes again and sends those that are missing; any other answers 410. A
//! byte behind the end of the stream is answered 400, or, where the end is found only later, by a body that breaks off.
//!
//! The answer is a snapshot file (`orch_raft::archive`). It holds every secret of the cluster in clear, so it takes the right
//! to `post` to the path, which by default only `system:masters` has; roles that may read all paths have `get` alone. Each one is
//! logged with the user before its first byte. It is made of one root of the state on a thread of its own (`stream`): nothing is
//! locked, and nothing is copied but the blocks under way.
//!
//! Invariant: a state that is withdrawn meanwhile ends the stream before the end mark of the file.

mod resumable;
mod stream;

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use axum::routing::post;
use axum::{Extension, Router};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{iter, poll_fn};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, StatusCode};
use orch_raft::{ClusterIdentity, Store};
use tokio::sync::mpsc::Receiver;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use self::resumable::ResumableStates;
use super::cluster::{Asker, failure};
use super::store::Handle;

pub(super) use self::stream::{Point, root, stream, yield_to_requests};

/// The path.
pub(super) const SNAPSHOT_PATH: &str = "/orch/v1/snapshot";

/// Query for the state as the member holds it.
const HELD: &str = "point=held";

/// Header of an answer: the name of its stream.
pub(crate) const STREAM_HEADER: &str = "snapshot-stream";

/// Streams at once, of scheduled backups and of clients: each keeps a processor busy with compression, and the objects of its
/// revision in memory. Further clients are told to come again, and a backup waits.
const STREAMS_MAX: usize = 2;

/// Seconds after which a refused client should ask again: a stream of a small state takes one.
const RETRY_AFTER_S: u16 = 5;

/// Longest wait for the first piece of a rest before the head of the answer is sent: a quarter of the time that clients wait for it.
const FIRST_PIECE_MAX: Duration = Duration::from_secs(5);

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
    resumable: Arc<ResumableStates>,
}

/// The state that is asked for.
#[derive(Debug, PartialEq, Eq)]
enum Wanted<'a> {
    /// The present one.
    Fresh(Point),
    /// The one of the stream with this name; its first `from` bytes are not sent.
    Rest { stream: &'a str, from: u64 },
}

impl Wanted<'_> {
    /// The meaning of a query.
    fn of(query: &str) -> Option<Wanted<'_>> {
        match query {
            "" => Some(Wanted::Fresh(Point::Newest)),
            HELD => Some(Wanted::Fresh(Point::Held)),
            query => {
                let (stream, from) = query.strip_prefix("resume=")?.split_once("&from=")?;
                Some(Wanted::Rest { stream, from: from.parse().ok()? })
            }
        }
    }
}

/// The path, to be put behind the gate.
pub(super) fn router(handle: Handle, cluster: &ClusterIdentity, places: Places) -> Router {
    let state = Snapshots { handle, cluster: Arc::new(cluster.clone()), places, resumable: Arc::default() };
    // It changes nothing, and is no GET all the same: roles that let monitoring read every path (`get` on `*`) would give it
    // every secret.
    Router::new().route(SNAPSHOT_PATH, post(send)).with_state(state)
}

async fn send(
    State(snapshots): State<Snapshots>,
    Extension(asker): Extension<Asker>,
    RawQuery(query): RawQuery,
) -> Response {
    let Some(wanted) = Wanted::of(query.as_deref().unwrap_or_default()) else {
        let reason = "the query is none, point=held, or resume=NAME&from=BYTES";
        return failure(StatusCode::BAD_REQUEST, "BadRequest", reason);
    };
    let ready = match wanted {
        Wanted::Fresh(Point::Newest) => snapshots.handle.barrier().await.map(drop),
        Wanted::Fresh(Point::Held) | Wanted::Rest { .. } => snapshots.handle.may_serve(),
    };
    if let Err(error) = ready {
        return unavailable(&error.to_string());
    }
    let Some(place) = snapshots.places.try_take() else {
        let reason = format!(
            "{STREAMS_MAX} snapshots are being sent or saved by this member; ask again, or another one"
        );
        let mut response = failure(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", &reason);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
        return response;
    };
    answer(&snapshots, &wanted, &asker, place).await
}

fn unavailable(reason: &str) -> Response {
    failure(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", reason)
}

/// Begins the stream that is `wanted`, and logs who asked.
async fn answer(
    snapshots: &Snapshots,
    wanted: &Wanted<'_>,
    asker: &Asker,
    permit: OwnedSemaphorePermit,
) -> Response {
    let Snapshots { handle, cluster, resumable, .. } = snapshots;
    let (root, streaming, from) = match wanted {
        Wanted::Fresh(point) => {
            let root = Arc::new(root(handle, cluster, *point));
            match resumable.begin(root.clone(), permit) {
                Ok(streaming) => (root, streaming, 0),
                Err(error) => return unavailable(&error.to_string()),
            }
        }
        Wanted::Rest { stream, from } => match resumable.resume(stream, permit) {
            Some((root, streaming)) => (root, streaming, *from),
            None => {
                let reason = "this member has not, or no longer, the state of that snapshot; begin a new one";
                return failure(StatusCode::GONE, "Expired", reason);
            }
        },
    };
    resumable.watch(handle);
    // Before the first byte: a stream that breaks has shown secrets, too.
    let address = asker.address.map(tracing::field::display);
    let is_held = root.origin.time_ms == 0;
    tracing::info!(user = ?asker.user.name, address, held = is_held, from, "a user takes a snapshot");
    let name = HeaderValue::from_str(streaming.stream());
    match (name, stream(handle.clone(), root, from, Some(streaming))) {
        (Ok(name), Ok(mut pieces)) => {
            let first = match first(&mut pieces, from).await {
                Ok(first) => first,
                Err(reason) => return failure(StatusCode::BAD_REQUEST, "BadRequest", &reason),
            };
            let rest = poll_fn(move |context| pieces.poll_recv(context));
            let body = Body::from_stream(iter(first).chain(rest));
            let mut response = Response::new(body);
            let headers = response.headers_mut();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
            headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
            headers.insert(STREAM_HEADER, name);
            response
        }
        (Err(error), _) => unavailable(&error.to_string()),
        (_, Err(error)) => unavailable(&format!("no thread for a snapshot: {error}")),
    }
}

/// The first piece of a rest, where it comes in time: what is before byte `from` is made anew first. `None` where it does not, where
/// the rest is empty, and for a stream from its beginning.
///
/// # Errors
/// The stream has no byte `from`, nor is that its end.
async fn first(
    pieces: &mut Receiver<io::Result<Bytes>>,
    from: u64,
) -> Result<Option<io::Result<Bytes>>, String> {
    if from == 0 {
        return Ok(None);
    }
    match timeout(FIRST_PIECE_MAX, pieces.recv()).await.unwrap_or_default() {
        Some(Err(error)) if error.kind() == ErrorKind::InvalidInput => Err(error.to_string()),
        first => Ok(first),
    }
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn a_query_asks_for_a_state_of_now_or_for_the_rest_of_a_stream() {
        assert_eq!(Wanted::of(""), Some(Wanted::Fresh(Point::Newest)));
        assert_eq!(Wanted::of("point=held"), Some(Wanted::Fresh(Point::Held)));
        let rest = Wanted::Rest { stream: "5f", from: 70 };
        assert_eq!(Wanted::of("resume=5f&from=70"), Some(rest));
        for query in
            ["point=other", "resume=5f", "resume=5f&from=-1", "from=1", "resume=5f&from=1&point=held"]
        {
            assert_eq!(Wanted::of(query), None, "{query}");
        }
    }
}
