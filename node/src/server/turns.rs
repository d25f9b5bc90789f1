//! Turns of writers: connections that write much do so in turn, a few at a time.
//!
//! A client that reads as fast as it is sent to keeps its connection's task ready to run for as long as a list lasts. Two
//! hundred such tasks would all stand before the task of a small request, each time that one waits: until it is read,
//! until the store has answered, until its answer is written. A stream of [`Turns`] that has written [`TURN_BYTES`] in less
//! than [`LIGHT_PERIOD`] therefore needs the permit of its event loop's [`Writers`] for each further share. Those that wait for
//! it are in the semaphore's queue, not in the runtime's.
//!
//! Owns no bytes and no deadline. Invariant: who holds a permit has bytes to write and a socket that takes them: it is
//! given back when the share is written, when the socket is full, and when everything is flushed.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::PollSemaphore;

/// Bytes of a share: those of one write ([`super::limits::TLS_BUFFER`]), which takes 25 us with its encryption.
const TURN_BYTES: usize = 64 << 10;

/// A connection whose shares last as long needs no permit: a thousand of them write 0.65 GB each second, which leaves
/// the processors idle.
const LIGHT_PERIOD: Duration = Duration::from_millis(100);

/// The permits of an event loop's connections that write much; clones share them.
#[derive(Clone, Debug)]
pub(super) struct Writers(Arc<Semaphore>);

impl Writers {
    /// One permit, since a loop is one thread: more would only wait for one another.
    pub(super) fn of_loop() -> Writers {
        Writers::new(1)
    }

    fn new(permits: usize) -> Writers {
        Writers(Arc::new(Semaphore::new(permits)))
    }
}

/// A stream that writes in turn with others.
#[derive(Debug)]
pub(super) struct Turns<T> {
    inner: T,
    writers: PollSemaphore,
    permit: Option<OwnedSemaphorePermit>,
    /// Bytes left of this share.
    left: usize,
    /// When this share began.
    began: Instant,
    /// The next share has waited, so that others have run since the last.
    has_waited: bool,
}

impl<T> Turns<T> {
    pub(super) fn new(inner: T, writers: &Writers) -> Turns<T> {
        let writers = PollSemaphore::new(Arc::clone(&writers.0));
        Turns { inner, writers, permit: None, left: TURN_BYTES, began: Instant::now(), has_waited: false }
    }

    /// Pending until the stream may write, by what is left of its share or by the next one.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.left > 0 {
            return Poll::Ready(());
        }
        let now = Instant::now();
        if !self.has_waited && now.duration_since(self.began) >= LIGHT_PERIOD {
            (self.left, self.began) = (TURN_BYTES, now);
            return Poll::Ready(());
        }
        let Poll::Ready(permit) = self.writers.poll_acquire(cx) else {
            self.has_waited = true;
            return Poll::Pending;
        };
        // The semaphore is never closed; if it were, everyone might write.
        (self.permit, self.left, self.began) = (permit, TURN_BYTES, now);
        if std::mem::take(&mut self.has_waited) {
            return Poll::Ready(());
        }
        // A task that wakes itself is queued behind those that are ready.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn count(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Ready(Ok(bytes)) => {
                self.left = self.left.saturating_sub(*bytes);
                if self.left == 0 {
                    self.permit = None;
                }
            }
            Poll::Ready(Err(_)) | Poll::Pending => self.give_back(),
        }
        written
    }

    /// Ends a turn before its share is written. What is left of the share is not kept: it would be written without a
    /// permit.
    fn give_back(&mut self) {
        if self.permit.take().is_some() {
            self.left = 0;
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Turns<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Turns<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_turn(cx));
        let written = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.count(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.give_back();
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.give_back();
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_turn(cx));
        let written = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use futures::poll;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    /// A stream whose client holds `room` bytes.
    fn stream(writers: &Writers, room: usize) -> (Turns<DuplexStream>, DuplexStream) {
        let (server, client) = duplex(room);
        (Turns::new(server, writers), client)
    }

    /// Bytes written before the first write that is pending, in writes of `step` bytes.
    async fn written_in_a_turn(stream: &mut Turns<DuplexStream>, step: usize) -> usize {
        let mut written = 0;
        while let Poll::Ready(bytes) = poll!(Box::pin(stream.write(&vec![0; step]))) {
            written += bytes.unwrap();
        }
        written
    }

    #[tokio::test]
    async fn a_turn_ends_after_its_share_and_another_follows() {
        let (mut stream, _client) = stream(&Writers::new(1), 8 * TURN_BYTES);
        assert_eq!(written_in_a_turn(&mut stream, TURN_BYTES / 4).await, TURN_BYTES);
        assert_eq!(written_in_a_turn(&mut stream, 2 * TURN_BYTES).await, 2 * TURN_BYTES);
        assert_eq!(written_in_a_turn(&mut stream, TURN_BYTES).await, TURN_BYTES);
    }

    #[tokio::test]
    async fn without_a_permit_a_stream_writes_one_share_and_waits_for_its_turn() {
        let writers = Writers::new(1);
        let (mut first, _first) = stream(&writers, 8 * TURN_BYTES);
        let (mut second, _second) = stream(&writers, 8 * TURN_BYTES);
        for stream in [&mut first, &mut second] {
            assert_eq!(written_in_a_turn(stream, TURN_BYTES).await, TURN_BYTES);
        }
        assert_eq!(written_in_a_turn(&mut second, TURN_BYTES).await, 0, "the first one has the permit");
        assert_eq!(written_in_a_turn(&mut first, TURN_BYTES).await, TURN_BYTES);
        assert_eq!(
            written_in_a_turn(&mut first, TURN_BYTES).await,
            0,
            "the second one is before it in the queue"
        );
        assert_eq!(written_in_a_turn(&mut second, TURN_BYTES).await, TURN_BYTES);
    }

    #[tokio::test]
    async fn a_full_socket_and_a_flush_give_the_permit_back() {
        let writers = Writers::new(1);
        let (mut slow, _slow) = stream(&writers, TURN_BYTES + 10);
        written_in_a_turn(&mut slow, TURN_BYTES).await;
        assert_eq!(writers.0.available_permits(), 0);
        assert_eq!(written_in_a_turn(&mut slow, TURN_BYTES).await, 10);
        assert_eq!(writers.0.available_permits(), 1, "its socket is full");
        let (mut quick, _quick) = stream(&writers, 8 * TURN_BYTES);
        written_in_a_turn(&mut quick, TURN_BYTES).await;
        assert_eq!(writers.0.available_permits(), 0);
        quick.flush().await.unwrap();
        assert_eq!(writers.0.available_permits(), 1, "it has nothing more to write");
        written_in_a_turn(&mut quick, TURN_BYTES).await;
        drop(quick);
        assert_eq!(writers.0.available_permits(), 1, "it is gone");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_writes_little_needs_no_permit() {
        let writers = Writers::new(0);
        let (mut stream, _client) = stream(&writers, 8 * TURN_BYTES);
        for _ in 0..3 {
            assert_eq!(stream.write(&[0; TURN_BYTES]).await.unwrap(), TURN_BYTES);
            tokio::time::advance(LIGHT_PERIOD).await;
        }
        assert_eq!(written_in_a_turn(&mut stream, TURN_BYTES).await, TURN_BYTES);
        assert_eq!(written_in_a_turn(&mut stream, TURN_BYTES).await, 0);
    }

    #[tokio::test]
    async fn everything_is_written_in_the_end() {
        let writers = Writers::new(1);
        let sent: Vec<u8> = (0..=255).cycle().take(20 * TURN_BYTES + 7).collect();
        let streams: Vec<_> = (0..3).map(|_| stream(&writers, 3 * TURN_BYTES)).collect();
        let (tasks, clients): (Vec<_>, Vec<_>) = streams
            .into_iter()
            .map(|(mut stream, client)| {
                let sent = sent.clone();
                let written = async move {
                    stream.write_all(&sent).await.unwrap();
                    stream.flush().await.unwrap();
                    stream
                };
                (tokio::spawn(written), client)
            })
            .unzip();
        for mut client in clients {
            let mut received = vec![0; sent.len()];
            client.read_exact(&mut received).await.unwrap();
            assert!(received == sent);
        }
        for task in tasks {
            drop(task.await.unwrap());
        }
    }
}
