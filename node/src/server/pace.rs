//! The pace at which a client takes an answer: one that takes no frame of it for a minute loses the answer.
//!
//! Owns the deadline of an answer's body, which the connection does not see: an HTTP/2 client may keep its connection
//! lively and open no window for a stream, and any client may take a byte now and then, while a list keeps the state of
//! its moment in memory. A body that waits for something to send, as a watch does, has no deadline.
//!
//! [`paced`] goes around what drives bodies: a stream's task of HTTP/2, the whole connection of HTTP/1.1. It ends what
//! it drives, which resets the stream or closes the connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as _, Frame, SizeHint};
use hyper::rt::Executor;
use parking_lot::Mutex;
use tokio::time::{Instant, Sleep};

/// When the last frame was handed out, while nobody has asked for the next.
#[derive(Clone, Debug, Default)]
struct Clock(Arc<Mutex<Option<Instant>>>);

tokio::task_local! {
    /// Of the stream or connection whose future is polled.
    static CLOCK: Clock;
}

/// Drives `work` and gives it up once a body of an answer in it has waited for `limit` to be taken on.
pub(super) async fn paced<F: Future>(work: F, limit: Duration) -> Option<F::Output> {
    let clock = Clock::default();
    let mut work = std::pin::pin!(CLOCK.scope(clock.clone(), work));
    let mut timer: Option<Pin<Box<Sleep>>> = None;
    std::future::poll_fn(move |cx| {
        if let Poll::Ready(output) = work.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        let Some(handed_out) = *clock.0.lock() else {
            timer = None;
            return Poll::Pending;
        };
        let end = handed_out + limit;
        let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
        if timer.deadline() != end {
            timer.as_mut().reset(end);
        }
        timer.as_mut().poll(cx).map(|()| None)
    })
    .await
}

/// `body`, which [`paced`] around it keeps an eye on. One that is there as a whole holds no more than its bytes.
pub(super) fn watched(body: Body) -> Body {
    let is_whole = body.size_hint().exact().is_some_and(|size| size <= WHOLE_BYTES_MAX);
    match CLOCK.try_with(Clone::clone) {
        Ok(clock) if !is_whole => Body::new(Watched { body, clock }),
        _ => body,
    }
}

/// Answers up to this size are one frame and not worth a clock.
const WHOLE_BYTES_MAX: u64 = 64 << 10;

struct Watched {
    body: Body,
    clock: Clock,
}

impl hyper::body::Body for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        let is_waiting = matches!(frame, Poll::Ready(Some(Ok(_))));
        *self.clock.0.lock() = is_waiting.then(Instant::now);
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // The next answer of the connection starts anew.
        *self.clock.0.lock() = None;
    }
}

/// Runs the streams of HTTP/2 connections, each at its client's pace but not slower than that.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacedExecutor {
    /// How long a frame may wait to be taken.
    pub(super) limit: Duration,
}

impl<F> Executor<F> for PacedExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, work: F) {
        let limit = self.limit;
        tokio::spawn(async move {
            if paced(work, limit).await.is_none() {
                tracing::debug!("a client does not take its answer: the stream ends");
            }
        });
    }
}
