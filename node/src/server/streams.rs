//! Runs the HTTP/2 streams of a connection in the connection's own task.
//!
//! The HTTP library asks an executor to run each HTTP/2 stream. On tasks of their own, streams and connection wake each
//! other across threads: a response is made on one core, and read into the cipher on another. Here the task of the
//! connection polls them, so that a response stays in one core's cache, the events of many watches go out in one write,
//! and a client has one core for each of its connections. Streams end with their connection.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use hyper::rt::Executor;
use parking_lot::Mutex;

use super::pace::paced;

type Stream = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The streams of one connection.
#[derive(Debug, Default)]
pub(super) struct Streams {
    executor: StreamExecutor,
    running: FuturesUnordered<Stream>,
}

/// Queues new streams for the [`Streams`] that it was made by.
#[derive(Clone, Default)]
pub(super) struct StreamExecutor(Arc<Mutex<Vec<Stream>>>);

impl Streams {
    /// The executor to hand to the HTTP library.
    pub(super) fn executor(&self) -> StreamExecutor {
        self.executor.clone()
    }

    /// Whether streams were queued since the last poll.
    pub(super) fn has_new(&self) -> bool {
        !self.executor.0.lock().is_empty()
    }

    /// Polls every new and every woken stream.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) {
        self.running.extend(self.executor.0.lock().drain(..));
        while let Poll::Ready(Some(())) = self.running.poll_next_unpin(cx) {}
    }
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, work: F) {
        self.0.lock().push(Box::pin(async move {
            if paced(work).await.is_none() {
                tracing::debug!("a client does not take its answer: the stream ends");
            }
        }));
    }
}

impl std::fmt::Debug for StreamExecutor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StreamExecutor").finish_non_exhaustive()
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
}
