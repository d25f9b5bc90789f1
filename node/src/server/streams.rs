//! Runs the HTTP/2 streams of a connection in the connection's own task.
//!
//! The HTTP library asks an executor to run each HTTP/2 stream. On tasks of their own, streams and connection wake each
//! other across threads: a response is made on one core, and read into the cipher on another. Here the task of the
//! connection polls them, so that a response stays in one core's cache, the events of many watches go out in one write,
//! and a client has one core for each of its connections. Streams end with their connection.
//!
//! A connection takes turns with the others of its thread: once its streams have taken a [`Slice`], those not polled yet wait
//! for the next poll of the task, which is behind the tasks that are ready.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use hyper::rt::Executor;
use parking_lot::Mutex;

use super::pace::{PacedWork, paced};
use super::slice::Slice;

type Queue = Mutex<Vec<Stream>>;

/// The streams of one connection.
#[derive(Default)]
pub(super) struct Streams {
    queue: Arc<Queue>,
    slice: Arc<Slice>,
    running: FuturesUnordered<Stream>,
}

/// Whether other responses of the connection may follow at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Company {
    /// No stream is open, or one: nothing would join what it has written.
    Alone,
    /// Several streams are open.
    Several,
}

/// A stream of the HTTP library, with the deadlines of its response.
struct Stream {
    work: PacedWork<dyn Future<Output = ()> + Send>,
    slice: Arc<Slice>,
}

impl Future for Stream {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.slice.is_over() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let ended = ready!(Pin::new(&mut self.work).poll(cx));
        if ended.is_none() {
            tracing::debug!("a client does not take its answer: the stream ends");
        }
        Poll::Ready(())
    }
}

/// Queues new streams for the [`Streams`] that it was made by; drops them once those are gone.
///
/// The HTTP library keeps an executor in each stream. If that held the queue, streams in the queue would hold
/// themselves and everything of their connection.
#[derive(Clone)]
pub(super) struct StreamExecutor {
    queue: Weak<Queue>,
    slice: Arc<Slice>,
}

impl Streams {
    /// The executor to hand to the HTTP library.
    pub(super) fn executor(&self) -> StreamExecutor {
        StreamExecutor { queue: Arc::downgrade(&self.queue), slice: Arc::clone(&self.slice) }
    }

    /// Whether streams were queued since the last poll.
    pub(super) fn has_new(&self) -> bool {
        !self.queue.lock().is_empty()
    }

    /// Whether several streams are open.
    pub(super) fn company(&self) -> Company {
        if self.running.len() > 1 { Company::Several } else { Company::Alone }
    }

    /// The slice of the connection that they take turns by.
    pub(super) fn slice(&self) -> &Arc<Slice> {
        &self.slice
    }

    /// Polls new and woken streams until the slice is over. The task is woken if some are left.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) {
        self.running.extend(self.queue.lock().drain(..));
        while let Poll::Ready(Some(())) = self.running.poll_next_unpin(cx) {}
    }
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, work: F) {
        let Some(queue) = self.queue.upgrade() else { return };
        let work = paced(Box::pin(work) as Pin<Box<dyn Future<Output = ()> + Send>>);
        queue.lock().push(Stream { work, slice: Arc::clone(&self.slice) });
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::sync::oneshot;

    use super::*;
    use crate::server::slice::SLICE;

    #[tokio::test]
    async fn new_and_woken_streams_are_polled_and_end_with_their_connection() {
        let mut streams = Streams::default();
        let executor = streams.executor();
        let poll = async |streams: &mut Streams| {
            poll_fn(|cx| {
                streams.poll(cx);
                Poll::Ready(())
            })
            .await;
        };
        let (go_on, waits) = oneshot::channel::<()>();
        let (done, mut is_done) = oneshot::channel();
        executor.execute(async move {
            waits.await.unwrap();
            done.send(()).unwrap();
        });
        assert!(streams.has_new());
        poll(&mut streams).await;
        assert!(!streams.has_new());
        is_done.try_recv().unwrap_err();
        go_on.send(()).unwrap();
        poll(&mut streams).await;
        is_done.try_recv().unwrap();
        let (held, is_dropped) = oneshot::channel::<()>();
        executor.execute(async move {
            let _held = held;
            std::future::pending().await
        });
        poll(&mut streams).await;
        assert_eq!(streams.company(), Company::Alone, "the other one has ended");
        executor.execute(std::future::pending());
        poll(&mut streams).await;
        assert_eq!(streams.company(), Company::Several);
        drop(streams);
        is_dropped.await.expect_err("dropped with its sender");
    }

    #[tokio::test]
    async fn streams_behind_the_end_of_a_slice_are_polled_in_the_next() {
        let mut streams = Streams::default();
        let executor = streams.executor();
        let polled = Arc::new(Mutex::new(Vec::new()));
        for number in 0..4 {
            let polled = Arc::clone(&polled);
            executor.execute(async move {
                polled.lock().push(number);
                std::thread::sleep(SLICE);
            });
        }
        for turn in 1..=4 {
            poll_fn(|cx| {
                streams.slice().begin();
                streams.poll(cx);
                Poll::Ready(())
            })
            .await;
            assert_eq!(polled.lock().len(), turn, "one stream takes a slice");
        }
        polled.lock().sort_unstable();
        assert_eq!(*polled.lock(), [0, 1, 2, 3]);
    }

    #[tokio::test]
    async fn a_stream_that_was_never_polled_ends_with_its_connection() {
        let streams = Streams::default();
        let executor = streams.executor();
        let (held, is_dropped) = oneshot::channel::<()>();
        let of_stream = executor.clone();
        executor.execute(async move {
            let _held = (held, of_stream);
            std::future::pending().await
        });
        drop(streams);
        is_dropped.await.expect_err("dropped with its sender");
        let (held, is_dropped) = oneshot::channel::<()>();
        executor.execute(async move { drop(held) });
        is_dropped.await.expect_err("nothing runs behind the end");
    }
}
