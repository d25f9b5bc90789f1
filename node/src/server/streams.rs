//! Runs the HTTP/2 streams of a connection in the connection's own task.
//!
//! The HTTP library asks an executor to run each HTTP/2 stream. On tasks of their own, streams and connection wake each
//! other across threads: a response is made on one core, and read into the cipher on another. Here the task of the
//! connection polls them, so that a response stays in one core's cache, the events of many watches go out in one write,
//! and a client has one core for each of its connections. Streams end with their connection.

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use hyper::rt::Executor;
use parking_lot::Mutex;

use super::pace::paced;

type Stream = Pin<Box<dyn Future<Output = ()> + Send>>;

type Queue = Mutex<Vec<Stream>>;

/// The streams of one connection.
#[derive(Default)]
pub(super) struct Streams {
    queue: Arc<Queue>,
    running: FuturesUnordered<Stream>,
}

/// Queues new streams for the [`Streams`] that it was made by; drops them once those are gone.
///
/// The HTTP library keeps an executor in each stream. If that held the queue, streams in the queue would hold
/// themselves and everything of their connection.
#[derive(Clone)]
pub(super) struct StreamExecutor(Weak<Queue>);

impl Streams {
    /// The executor to hand to the HTTP library.
    pub(super) fn executor(&self) -> StreamExecutor {
        StreamExecutor(Arc::downgrade(&self.queue))
    }

    /// Whether streams were queued since the last poll.
    pub(super) fn has_new(&self) -> bool {
        !self.queue.lock().is_empty()
    }

    /// Polls every new and every woken stream.
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
        let Some(queue) = self.0.upgrade() else { return };
        queue.lock().push(Box::pin(async move {
            if paced(work).await.is_none() {
                tracing::debug!("a client does not take its answer: the stream ends");
            }
        }));
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::sync::oneshot;

    use super::*;

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
        drop(streams);
        is_dropped.await.expect_err("dropped with its sender");
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
