//! Turns of writers: a connection that has written its share gives way to those that are ready.
//!
//! A client that reads as fast as it is sent to would keep its connection's task busy for as long as a list lasts:
//! milliseconds for some megabytes, and the requests of others wait for one after the other. [`Turns`] ends a turn after
//! [`TURN_BYTES`]. It holds no bytes and knows no deadline.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes of a turn: those of one write ([`super::limits::TLS_BUFFER`]), which takes 25 us with its encryption. With two
/// hundred lists under way on two cores, a request waits for a hundred turns.
const TURN_BYTES: usize = 64 << 10;

/// A stream whose writes are pending once after each [`TURN_BYTES`].
#[derive(Debug)]
pub(super) struct Turns<T> {
    inner: T,
    /// Bytes left of this turn.
    left: usize,
}

impl<T> Turns<T> {
    pub(super) fn new(inner: T) -> Turns<T> {
        Turns { inner, left: TURN_BYTES }
    }

    /// Pending at the end of a turn; the next one has begun when the task is polled again.
    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.left > 0 {
            return Poll::Ready(());
        }
        self.left = TURN_BYTES;
        // A task that wakes itself is queued behind those that are ready.
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn count(&mut self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Ready(Ok(bytes)) => self.left = self.left.saturating_sub(*bytes),
            // The task waits, which is as good as a turn's end.
            Poll::Ready(Err(_)) | Poll::Pending => self.left = TURN_BYTES,
        }
        written
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
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
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
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// Bytes written before the first write that is pending, in writes of `step` bytes.
    async fn written_in_a_turn(stream: &mut Turns<tokio::io::DuplexStream>, step: usize) -> usize {
        let mut written = 0;
        while let Poll::Ready(bytes) = poll!(Box::pin(stream.write(&vec![0; step]))) {
            written += bytes.unwrap();
        }
        written
    }

    #[tokio::test]
    async fn a_turn_ends_after_its_share_and_another_follows() {
        let (server, _client) = tokio::io::duplex(8 * TURN_BYTES);
        let mut stream = Turns::new(server);
        assert_eq!(written_in_a_turn(&mut stream, TURN_BYTES / 4).await, TURN_BYTES);
        assert_eq!(written_in_a_turn(&mut stream, 2 * TURN_BYTES).await, 2 * TURN_BYTES);
        assert_eq!(written_in_a_turn(&mut stream, TURN_BYTES).await, TURN_BYTES);
    }

    #[tokio::test]
    async fn everything_is_written_in_the_end() {
        let (server, mut client) = tokio::io::duplex(3 * TURN_BYTES);
        let sent: Vec<u8> = (0..=255).cycle().take(20 * TURN_BYTES + 7).collect();
        let expected = sent.clone();
        let writer = tokio::spawn(async move { Turns::new(server).write_all(&sent).await });
        let mut received = Vec::new();
        tokio::io::AsyncReadExt::read_to_end(&mut client, &mut received).await.unwrap();
        writer.await.unwrap().unwrap();
        assert!(received == expected);
    }
}
