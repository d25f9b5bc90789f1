//! A deadline on writes: a client that takes no bytes for a minute loses its connection.
//!
//! Costs nothing while writes make progress: the timer starts with the first write that is pending and ends with the
//! next that is ready. A connection that left HTTP may stand still: a terminal is paused for as long as its user likes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use super::tunnel::TunnelSlot;

/// A stream whose writes fail when they make no progress for `limit`.
#[derive(Debug)]
pub(super) struct Stall<T> {
    inner: T,
    limit: Duration,
    waiting: Option<Pin<Box<Sleep>>>,
    /// Once it is open there is no deadline.
    tunnel: TunnelSlot,
}

impl<T> Stall<T> {
    pub(super) fn new(inner: T, limit: Duration) -> Stall<T> {
        Stall { inner, limit, waiting: None, tunnel: TunnelSlot::default() }
    }

    /// The same, without a deadline once `tunnel` is open.
    pub(super) fn sparing(self, tunnel: TunnelSlot) -> Stall<T> {
        Stall { tunnel, ..self }
    }

    /// Passes a write's result on, or replaces a pending one by an error after `limit`.
    fn judge<R>(&mut self, cx: &mut Context<'_>, result: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if result.is_ready() || self.tunnel.is_open() {
            self.waiting = None;
            return result;
        }
        let limit = self.limit;
        let timer = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes no data")))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Stall<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Stall<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.judge(cx, result)
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
        let result = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.judge(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn a_client_that_takes_nothing_is_given_up() {
        let (server, _client) = tokio::io::duplex(16);
        let limit = Duration::from_millis(20);
        let began = std::time::Instant::now();
        let error = Stall::new(server, limit).write_all(&[0; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= limit);
    }

    #[tokio::test]
    async fn a_tunnel_may_stand_still() {
        let (server, mut client) = tokio::io::duplex(16);
        let tunnel = TunnelSlot::default();
        tunnel.open(std::future::pending());
        let mut stalled = Stall::new(server, Duration::ZERO).sparing(tunnel);
        let mut writing = Box::pin(stalled.write_all(&[0; 32]));
        assert!(futures::poll!(writing.as_mut()).is_pending());
        client.read_exact(&mut [0; 16]).await.unwrap();
        writing.await.unwrap();
    }

    #[tokio::test]
    async fn progress_starts_the_deadline_anew() {
        let (server, mut client) = tokio::io::duplex(16);
        let mut stalled = Stall::new(server, Duration::from_secs(3600));
        stalled.write_all(&[0; 16]).await.unwrap();
        assert!(futures::poll!(Box::pin(stalled.write(&[0; 16]))).is_pending());
        assert!(stalled.waiting.is_some());
        client.read_exact(&mut [0; 16]).await.unwrap();
        stalled.write_all(&[0; 16]).await.unwrap();
        assert!(stalled.waiting.is_none());
    }
}
