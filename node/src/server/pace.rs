//! The pace at which a client takes an answer.
//!
//! Owns the deadlines of answers, which the connection does not see: an HTTP/2 client may keep its connection lively and
//! open no window for a stream, and any client may take a byte now and then, while a list keeps the state of its moment
//! in memory. Three things end an answer: a frame that is not taken in a minute; an answer with an end that comes slower
//! than a least rate, or takes longer than a limit; and bytes of one that the connection holds, ready to be sent, for
//! more than a minute ([`Untaken`]), which ends the connection. A watch has only the first of them, and none while it
//! waits for something to send; until its initial events are through, which are a list of the moment it began, it has
//! the second, too.
//!
//! [`paced`] goes around what drives bodies: a stream's task of HTTP/2, the whole connection of HTTP/1.1. It ends what
//! it drives, which resets the stream or closes the connection.

use std::io::IoSlice;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::{Buf, Bytes};
use http::Response;
use hyper::body::{Frame, SizeHint};
use orch_api::http::WatchResponse;
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep};

use super::limits;
use super::places::UnderWay;

/// Deadlines and rates that differ only where a test cannot wait for them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    /// For the first request after the handshake.
    pub(super) first_request: Duration,
    /// For one frame of an answer to be taken.
    pub(super) frame: Duration,
    /// For the whole of an answer that has an end.
    pub(super) answer: Duration,
    /// Bytes of such an answer that are taken in a second, once it has lasted for longer than `frame`. Not 0.
    pub(super) bytes_per_second: u32,
}

impl Default for Waits {
    fn default() -> Self {
        Waits {
            first_request: limits::FIRST_REQUEST_MAX,
            frame: limits::STALL_MAX,
            answer: limits::ANSWER_MAX,
            bytes_per_second: limits::BYTES_PER_SECOND_MIN,
        }
    }
}

/// When what is polled is given up; `None` while nothing waits for its client.
#[derive(Clone, Debug, Default)]
struct Clock(Arc<Mutex<Option<Instant>>>);

tokio::task_local! {
    /// Of the stream or connection whose future is polled.
    static CLOCK: Clock;
}

/// Drives `work` and gives it up once the deadline of an answer in it is over.
pub(super) async fn paced<F: Future>(work: F) -> Option<F::Output> {
    let clock = Clock::default();
    let mut work = std::pin::pin!(CLOCK.scope(clock.clone(), work));
    let mut timer: Option<Pin<Box<Sleep>>> = None;
    std::future::poll_fn(move |cx| {
        if let Poll::Ready(output) = work.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        let Some(end) = *clock.0.lock() else {
            timer = None;
            return Poll::Pending;
        };
        let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
        if timer.deadline() != end {
            timer.as_mut().reset(end);
        }
        timer.as_mut().poll(cx).map(|()| None)
    })
    .await
}

/// What the answers of one connection have in common.
#[derive(Clone, Debug)]
pub(super) struct Pacing {
    waits: Waits,
    untaken: Arc<Untaken>,
}

impl Pacing {
    /// Of a new connection.
    pub(super) fn new(waits: Waits) -> Pacing {
        Pacing { waits, untaken: Arc::default() }
    }

    /// `response`, whose body [`paced`] around it keeps an eye on, with what is to be dropped at its end.
    pub(super) fn around(&self, response: Response<Body>, under_way: UnderWay) -> Response<Paced> {
        let watch = response.extensions().get::<WatchResponse>().cloned();
        response.map(|body| {
            let paced = Paced {
                body,
                clock: CLOCK.try_with(Clone::clone).unwrap_or_default(),
                waits: self.waits,
                began: Instant::now(),
                bytes: 0,
                untaken: watch.is_none().then(|| Arc::clone(&self.untaken)),
                watch,
                _under_way: under_way,
            };
            // A stream without a window is not asked for its first frame.
            paced.wait_for_client(paced.began);
            paced
        })
    }

    /// Ends when bytes of an answer have waited for longer than a frame may, and before they have for twice as long.
    pub(super) async fn not_taken(&self) {
        loop {
            tokio::time::sleep(self.waits.frame).await;
            if !self.untaken.turn() {
                return;
            }
        }
    }
}

/// The body of an answer.
pub(super) struct Paced {
    body: Body,
    clock: Clock,
    waits: Waits,
    began: Instant,
    /// Handed out so far.
    bytes: u64,
    /// `None` for an answer without an end.
    untaken: Option<Arc<Untaken>>,
    /// Of an answer without an end.
    watch: Option<WatchResponse>,
    _under_way: UnderWay,
}

impl Paced {
    /// Something is there for the client since `now`.
    fn wait_for_client(&self, now: Instant) {
        let frame_end = now + self.waits.frame;
        let end = if self.has_end() { frame_end.min(self.end()) } else { frame_end };
        *self.clock.0.lock() = Some(end);
    }

    /// Whether the client has to reach an end in time: that of the answer, or that of a watch's initial events.
    fn has_end(&self) -> bool {
        self.watch.as_ref().is_none_or(|watch| watch.initial_events.are_due())
    }

    /// When an answer that has an end must have been taken as far as it was handed out.
    fn end(&self) -> Instant {
        let seconds = self.bytes / u64::from(self.waits.bytes_per_second);
        let at_least_rate = self.waits.frame + Duration::from_secs(seconds);
        self.began + at_least_rate.min(self.waits.answer)
    }
}

impl hyper::body::Body for Paced {
    type Data = Piece;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, axum::Error>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            // Not the client is waited for, but the time of an answer that has an end goes on.
            *self.clock.0.lock() = self.has_end().then(|| self.began + self.waits.answer);
            return Poll::Pending;
        };
        if let Some(Ok(frame)) = &frame {
            self.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
            self.wait_for_client(Instant::now());
        } else {
            *self.clock.0.lock() = None;
        }
        let untaken = self.untaken.as_ref();
        Poll::Ready(frame.map(|frame| {
            frame.map(|frame| frame.map_data(|bytes| Piece { bytes, _mark: untaken.map(Untaken::mark) }))
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Paced {
    fn drop(&mut self) {
        // The next answer of the connection starts anew.
        *self.clock.0.lock() = None;
    }
}

/// Pieces of answers that a connection took over and has not written yet. An HTTP/2 stream's task ends when its last
/// piece is handed over, and the piece waits for as long as the client opens no window.
///
/// They are counted in two generations. A turn starts a new one, unless something of the one before is left.
#[derive(Debug, Default)]
struct Untaken {
    generations: [AtomicUsize; 2],
    turns: AtomicUsize,
}

impl Untaken {
    /// Counts one more piece.
    fn mark(self: &Arc<Untaken>) -> Mark {
        let generation = self.turns.load(Ordering::Relaxed) % 2;
        self.generations[generation].fetch_add(1, Ordering::Relaxed);
        Mark { untaken: Arc::clone(self), generation }
    }

    /// Starts a new generation; `false` when a piece is left of the last but one, which began two turns ago.
    fn turn(&self) -> bool {
        let next = (self.turns.load(Ordering::Relaxed) + 1) % 2;
        if self.generations[next].load(Ordering::Relaxed) > 0 {
            return false;
        }
        self.turns.fetch_add(1, Ordering::Relaxed);
        true
    }
}

#[derive(Debug)]
struct Mark {
    untaken: Arc<Untaken>,
    generation: usize,
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.untaken.generations[self.generation].fetch_sub(1, Ordering::Relaxed);
    }
}

/// Bytes of an answer in the connection's hands, counted until they are written or gathered ([`super::gather`]). Gathered bytes, at
/// most 80 KiB of a connection, are past the deadlines of their streams and under the connection's ([`super::stall`]).
#[derive(Debug)]
pub(super) struct Piece {
    bytes: Bytes,
    _mark: Option<Mark>,
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        self.bytes.chunks_vectored(slices)
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }

    fn copy_to_bytes(&mut self, len: usize) -> Bytes {
        self.bytes.copy_to_bytes(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_may_wait_for_one_turn_and_not_for_two() {
        let untaken = Arc::new(Untaken::default());
        let first = untaken.mark();
        assert!(untaken.turn());
        let second = untaken.mark();
        assert!(!untaken.turn(), "the first waits since before the last turn");
        drop(first);
        assert!(untaken.turn());
        assert!(!untaken.turn(), "the second does");
        drop(second);
        assert!(untaken.turn());
    }
}
