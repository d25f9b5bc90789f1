//! Reading a request's body: never more than the limit, whatever `Content-Length` says.
//!
//! Owns the handling of refused bodies. A client that is still sending when its connection is closed sees a broken pipe
//! instead of the response, so that the rest is read and dropped first, up to a bound. A client that sent
//! `Expect: 100-continue` gets the response instead of `100 Continue`. A body with a content encoding is refused, never
//! decoded or taken for a plain one.
//!
//! Owns the pace of bodies as well: a request holds a seat of flow control while its body comes, which a client that sends
//! slowly, or not at all, must not keep from others.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::{Body, HttpBody};
use bytes::Bytes;
use futures::future::{Either, select};
use http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use orch_raft::Store;
use orch_schema::excerpt::quoted;

use crate::error::ApiError;
use crate::flow::Seat;
use crate::request::Verb;

/// Bytes of a request body: the reference's limit.
pub(super) const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Bytes of a refused body that are read so that its client reads the response; five times the limit of a body. Beyond
/// them the connection is closed.
const DROPPED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Most time for reading the rest of a refused body, which holds nothing but the connection.
const DROPPING_MAX: Duration = Duration::from_secs(10);

/// How often the pace of a body is measured: longest that a body may stand still, and some time to begin in.
const PACE_EVERY: Duration = Duration::from_secs(5);

/// Fewest bytes of a body in that time, unless it ends: 50 KiB a second, so that the largest body has a minute.
const PACE_BYTES_MIN: usize = 256 << 10;

/// How slowly a body may come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// Within the request's time.
    Any,
    /// [`PACE_BYTES_MIN`] in each [`PACE_EVERY`]: others wait for the seat.
    Steady,
}

impl Pace {
    /// The pace of a body whose request holds `seat`.
    pub(super) fn of(seat: &Seat) -> Pace {
        if seat.is_limited() { Pace::Steady } else { Pace::Any }
    }
}

/// The body of one request.
pub(super) struct Upload {
    body: Body,
    /// `Content-Length`, if sent and valid.
    announced: Option<u64>,
    /// The client sent `Expect: 100-continue`. Reading the body sends `100 Continue`.
    awaits_leave: bool,
    /// `Content-Encoding`; `None` where absent or `identity`.
    encoding: Option<String>,
}

impl Upload {
    /// The body of a request with `headers`.
    pub(super) fn new(headers: &HeaderMap, body: Body) -> Self {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let awaits_leave =
            text(header::EXPECT).is_some_and(|expected| expected.eq_ignore_ascii_case("100-continue"));
        Upload {
            body,
            announced: text(header::CONTENT_LENGTH).and_then(|length| length.parse().ok()),
            awaits_leave,
            encoding: encoding(headers),
        }
    }

    /// Most bytes that [`Upload::read`] can return.
    pub(super) fn may_hold(&self, verb: Verb) -> usize {
        let announced = self.announced.or(self.body.size_hint().exact());
        match announced {
            _ if verb.is_read() => 0,
            // A body whose announced length is over the limit is refused unread.
            Some(length) if length > BODY_BYTES_MAX as u64 => 0,
            Some(length) => usize::try_from(length).unwrap_or(BODY_BYTES_MAX),
            None => BODY_BYTES_MAX,
        }
    }

    /// Reads the whole body of a write; empty for reads, whose body is ignored.
    ///
    /// # Errors
    /// Before reading: `UnsupportedMediaType` for a body with a content encoding, `BodyTooLarge` if the announced
    /// length is over the limit. While reading: `BodyTooLarge` as well, `BadRequest` when the body breaks off, and
    /// `NothingChanged` when it comes more slowly than at `pace`.
    pub(super) async fn read<S: Store>(
        &mut self,
        verb: Verb,
        store: &S,
        pace: Pace,
    ) -> Result<Bytes, ApiError> {
        if verb.is_read() {
            return Ok(Bytes::new());
        }
        if self.announced.is_some_and(|length| length > BODY_BYTES_MAX as u64) {
            return Err(ApiError::BodyTooLarge { limit: BODY_BYTES_MAX });
        }
        if let Some(encoding) = self.encoding.as_ref().filter(|_| self.may_hold(verb) > 0) {
            return Err(ApiError::UnsupportedMediaType(format!(
                "the body of the request has the content encoding {}: bodies are taken without any",
                quoted(encoding)
            )));
        }
        self.awaits_leave = false;
        let received = AtomicUsize::new(0);
        let counted = BodyExt::map_frame(&mut self.body, |frame| {
            received.fetch_add(frame.data_ref().map_or(0, Bytes::len), Ordering::Relaxed);
            frame
        });
        let reading = pin!(Limited::new(counted, BODY_BYTES_MAX).collect());
        let collected = match pace {
            Pace::Any => reading.await,
            Pace::Steady => match select(reading, pin!(falls_behind(store, &received))).await {
                Either::Left((collected, _)) => collected,
                Either::Right(_) => return Err(ApiError::NothingChanged),
            },
        };
        match collected {
            Ok(collected) => Ok(collected.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => {
                Err(ApiError::BodyTooLarge { limit: BODY_BYTES_MAX })
            }
            Err(error) => {
                Err(ApiError::BadRequest(format!("the body of the request cannot be read: {error}")))
            }
        }
    }

    /// Takes the body to be passed on; it is empty from now on.
    pub(super) fn take(&mut self) -> Body {
        self.awaits_leave = false;
        std::mem::take(&mut self.body)
    }

    /// Reads and drops the rest of the body, bounded in bytes and time.
    pub(super) async fn drop_rest<S: Store>(mut self, store: &S) {
        if self.awaits_leave || self.body.is_end_stream() {
            return;
        }
        let deadline = std::pin::pin!(store.sleep(DROPPING_MAX));
        let dropping = std::pin::pin!(async move {
            let mut left = DROPPED_BYTES_MAX;
            while let Some(Ok(frame)) = self.body.frame().await {
                let size = frame.data_ref().map_or(0, Bytes::len);
                let Some(rest) = left.checked_sub(size) else { return };
                left = rest;
            }
        });
        futures::future::select(dropping, deadline).await;
    }
}

/// Completes when a body, of which `received` bytes have come, comes too slowly.
async fn falls_behind<S: Store>(store: &S, received: &AtomicUsize) {
    let mut before = 0;
    loop {
        store.sleep(PACE_EVERY).await;
        let bytes = received.load(Ordering::Relaxed);
        if bytes - before < PACE_BYTES_MIN {
            return;
        }
        before = bytes;
    }
}

/// The content encodings of a body; `None` if there is none but `identity`.
fn encoding(headers: &HeaderMap) -> Option<String> {
    let texts: Vec<_> = headers
        .get_all(header::CONTENT_ENCODING)
        .iter()
        .map(|text| String::from_utf8_lossy(text.as_bytes()))
        .collect();
    let all = texts.join(", ");
    let is_plain = |name: &str| name.trim().is_empty() || name.trim().eq_ignore_ascii_case("identity");
    Some(all).filter(|all| !all.split(',').all(is_plain))
}
