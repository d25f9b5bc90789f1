//! Deadlines for clients that read a response too slowly.
//!
//! Owns the deadlines of responses, which the connection cannot enforce: an HTTP/2 client may answer pings and never
//! open a stream's flow control window, and any client may read a byte now and then, while a list keeps the state of
//! its revision in memory. Three things end a response: a frame that is not taken within a minute; a finite response
//! that is read slower than a minimum rate, or takes longer than a limit; and bytes of a finite response that the
//! connection holds, ready to be sent, for more than a minute ([`Untaken`]), which ends the connection. A watch has
//! only the first deadline, and none while it has nothing to send; until its initial events are sent, which are a list
//! of the revision where it began, it has the second, too.
//!
//! The bytes of responses are counted for their connection ([`super::load`]). A frame is made when there is room for it, and, but for
//! the first, in the connection's [`Slice`]: the HTTP library takes frames for as long as its buffers have room, and a buffer of
//! compressed ones is tens of milliseconds of work.
//!
//! [`paced`] wraps the future that drives bodies: that of an HTTP/2 stream, the whole connection of HTTP/1.1. When
//! it drops the future, the stream is reset or the connection closed.

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
use super::load::{Load, Weight, whole_bytes};
use super::places::UnderWay;
use super::slice::Slice;

/// Deadlines and rates, shorter in tests.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    /// From the handshake to the first request.
    pub(super) first_request: Duration,
    /// For the client to take one frame of a response.
    pub(super) frame: Duration,
    /// For the whole of a finite response.
    pub(super) answer: Duration,
    /// Least bytes per second of a finite response, once it has lasted for longer than `frame`. Not 0.
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

/// Deadline of the future that is polled; `None` while no response waits for its client.
#[derive(Clone, Debug, Default)]
struct Clock(Arc<Mutex<Option<Instant>>>);

tokio::task_local! {
    /// Deadline of the stream or connection whose future is polled.
    static CLOCK: Clock;
}

/// Work whose responses have deadlines: its output, or `None` when the deadline of a response in it passes first.
///
/// A future of its own, since an `async` block would hold the work twice: that of every watch lasts for hours.
pub(super) struct PacedWork<F: ?Sized> {
    work: Pin<Box<F>>,
    clock: Clock,
    timer: Option<Pin<Box<Sleep>>>,
}

/// Drives `work` within the deadlines of its responses.
pub(super) fn paced<F: Future + ?Sized>(work: Pin<Box<F>>) -> PacedWork<F> {
    PacedWork { work, clock: Clock::default(), timer: None }
}

impl<F: Future + ?Sized> Future for PacedWork<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let PacedWork { work, clock, timer } = &mut *self;
        if let Poll::Ready(output) = CLOCK.sync_scope(clock.clone(), || work.as_mut().poll(cx)) {
            return Poll::Ready(Some(output));
        }
        let Some(end) = *clock.0.lock() else {
            *timer = None;
            return Poll::Pending;
        };
        let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
        if timer.deadline() != end {
            timer.as_mut().reset(end);
        }
        timer.as_mut().poll(cx).map(|()| None)
    }
}

/// Deadlines, the count of untaken pieces, the memory and the slice that the responses of one connection share. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Pacing(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    waits: Waits,
    untaken: Arc<Untaken>,
    load: Arc<Load>,
    slice: Arc<Slice>,
}

impl Pacing {
    /// The pacing of a new connection, whose bytes are counted in `load` and whose frames are made within `slice`.
    pub(super) fn new(waits: Waits, load: Arc<Load>, slice: Arc<Slice>) -> Pacing {
        Pacing(Arc::new(Shared { waits, untaken: Arc::default(), load, slice }))
    }

    /// The bytes of the connection.
    pub(super) fn load(&self) -> &Arc<Load> {
        &self.0.load
    }

    /// Wraps the body of `response`, so that [`paced`] enforces its deadlines and its bytes are counted. `under_way` is
    /// dropped with the body. A body for which there is no room is dropped, and its stream ends when the client reads it:
    /// the request was carried out, so that the head is its outcome.
    pub(super) fn around(&self, response: Response<Body>, under_way: UnderWay) -> Response<Paced> {
        let watch = response.extensions().get::<WatchResponse>().cloned();
        response.map(|body| match whole_bytes(&body).map(|bytes| self.0.load.try_add(bytes)) {
            None => self.paced(body, None, watch, under_way),
            Some(Some(weight)) => self.paced(body, Some(weight), watch, under_way),
            Some(None) => self.paced(without_room(), None, watch, under_way),
        })
    }

    /// Wraps the body of the refusal of a request that was not carried out: a few words, for which there is always room.
    pub(super) fn around_refusal(&self, response: Response<Body>, under_way: UnderWay) -> Response<Paced> {
        response.map(|body| {
            let weight = whole_bytes(&body).map(|bytes| self.0.load.add_frame(bytes));
            self.paced(body, weight, None, under_way)
        })
    }

    fn paced(
        &self,
        body: Body,
        weight: Option<Weight>,
        watch: Option<WatchResponse>,
        under_way: UnderWay,
    ) -> Paced {
        let paced = Paced {
            body,
            of: Arc::clone(&self.0),
            weight,
            clock: CLOCK.try_with(Clone::clone).unwrap_or_default(),
            began: Instant::now(),
            bytes: 0,
            watch,
            _under_way: under_way,
        };
        // The body of a stream without a window is not polled, so the deadline starts here.
        paced.wait_for_client(paced.began);
        paced
    }

    /// Completes when bytes of a response have been untaken for one to two times `frame`.
    pub(super) async fn not_taken(&self) {
        loop {
            tokio::time::sleep(self.0.waits.frame).await;
            if !self.0.untaken.turn() {
                return;
            }
        }
    }
}

/// A body that breaks off at once.
fn without_room() -> Body {
    let error = std::io::Error::other("too many responses of this client are not taken");
    Body::from_stream(futures::stream::once(std::future::ready(Err::<Bytes, _>(error))))
}

/// The body of a response, with its deadlines.
pub(super) struct Paced {
    body: Body,
    /// The state that it shares with the other responses of its connection.
    of: Arc<Shared>,
    /// Of a response in one piece, until that is handed out.
    weight: Option<Weight>,
    clock: Clock,
    began: Instant,
    /// Bytes handed to the connection so far.
    bytes: u64,
    /// `Some` for a watch, whose pieces may stay untaken.
    watch: Option<WatchResponse>,
    _under_way: UnderWay,
}

impl Paced {
    /// Sets the deadline for a frame that is ready since `now`.
    fn wait_for_client(&self, now: Instant) {
        let frame_end = now + self.of.waits.frame;
        let end = if self.has_end() { frame_end.min(self.end()) } else { frame_end };
        *self.clock.0.lock() = Some(end);
    }

    /// `bytes` as a piece that counts until it is written.
    fn piece(&mut self, bytes: Bytes) -> Piece {
        let weight = self.weight.take().unwrap_or_else(|| self.of.load.add_frame(bytes.len()));
        let mark = self.watch.is_none().then(|| self.of.untaken.mark());
        Piece { bytes, _mark: mark, _weight: weight }
    }

    /// Whether the minimum rate and the total time apply: to a finite response, and to a watch until its initial events
    /// are sent.
    fn has_end(&self) -> bool {
        self.watch.as_ref().is_none_or(|watch| watch.initial_events.are_due())
    }

    /// Deadline for the bytes handed out so far, by the minimum rate and the total time.
    fn end(&self) -> Instant {
        let seconds = self.bytes / u64::from(self.of.waits.bytes_per_second);
        let at_least_rate = self.of.waits.frame + Duration::from_secs(seconds);
        self.began + at_least_rate.min(self.of.waits.answer)
    }
}

impl hyper::body::Body for Paced {
    type Data = Piece;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, axum::Error>>> {
        // The deadline stays that of the frames before, which the client has to take.
        if self.weight.is_none() && !self.body.is_end_stream() && !self.of.load.has_room_for_frame(cx) {
            return Poll::Pending;
        }
        if self.bytes > 0 && self.of.slice.is_over() {
            // A task that wakes itself is queued behind those that are ready.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            // The response waits for the server, not for the client; only the total time of a finite response runs on.
            *self.clock.0.lock() = self.has_end().then(|| self.began + self.of.waits.answer);
            return Poll::Pending;
        };
        if let Some(Ok(frame)) = &frame {
            self.bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
            self.wait_for_client(Instant::now());
        } else {
            *self.clock.0.lock() = None;
        }
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(|bytes| self.piece(bytes)))))
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
        // The next response of the connection sets its own deadline.
        *self.clock.0.lock() = None;
    }
}

/// Pieces of responses that a connection took over and has not written yet. An HTTP/2 stream's future ends when its last
/// piece is handed over, and the piece waits for as long as the client opens no window.
///
/// They are counted in two generations. `turn` starts a new one, unless pieces of the one before are left.
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

    /// Starts a new generation; `false` while pieces are left of the previous one, which then are at least one turn
    /// old.
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

/// Bytes of a response that the connection took over, counted until they are written or gathered ([`super::gather`]).
/// Gathered bytes, at most 80 KiB of a connection, have left the deadlines of their streams and are under the
/// connection's ([`super::stall`]).
#[derive(Debug)]
pub(super) struct Piece {
    bytes: Bytes,
    _mark: Option<Mark>,
    _weight: Weight,
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
    use std::convert::Infallible;

    use http_body_util::BodyExt;

    use super::*;
    use crate::server::load::Room;
    use crate::server::places::Places;
    use crate::server::slice::SLICE;

    #[tokio::test]
    async fn a_response_of_many_frames_stops_at_the_end_of_a_slice() {
        let place = Places::new(1).take([127, 0, 0, 1].into()).await;
        let (under_way, _) = place.request();
        let slice = Arc::new(Slice::default());
        let load = Arc::new(Load::new(place, Room::of_node()));
        let pacing = Pacing::new(Waits::default(), load, Arc::clone(&slice));
        let frames = futures::stream::repeat_with(|| {
            std::thread::sleep(SLICE);
            Ok::<_, Infallible>(Bytes::from_static(b"frame"))
        });
        let mut body = pacing.around(Response::new(Body::from_stream(frames)), under_way).into_body();
        slice.begin();
        std::thread::sleep(SLICE);
        assert!(futures::poll!(body.frame()).is_ready(), "the first goes out with the head");
        assert!(futures::poll!(body.frame()).is_pending());
        for _ in 0..3 {
            slice.begin();
            assert!(futures::poll!(body.frame()).is_ready());
            assert!(futures::poll!(body.frame()).is_pending());
        }
        // It has woken its task: nothing else would.
        slice.begin();
        assert!(body.frame().await.is_some());
    }

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
