//! What an HTTP/2 connection writes between two waits, put together.
//!
//! HTTP/2 hands over a frame at a time and asks for a flush after each: 16 KiB of a list, or one event of one of a hundred
//! watches. Encrypted and sent one by one, each costs a record (a full frame two, because its head does not fit beside it) and a
//! system call. Here they are collected while the connection has something to say, and written when it waits.
//!
//! Invariant: whoever drives the connection calls [`Gatherer::poll_send`] after each poll that left it waiting. Nothing else
//! sends what was collected last.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that are collected before they are written: four records of TLS, as many as HTTP/1.1 hands over at once.
/// Connections that nobody reads hold as many until their writes are given up, after a minute ([`super::stall`]).
const GATHERED_BYTES_MAX: usize = 64 << 10;

/// Bytes that a connection keeps room for while it has nothing to say: an event or two, or the heads of some answers.
const KEPT_BYTES_MAX: usize = 4 << 10;

/// Most bytes that wait until other tasks have run: from one record on there is nothing to win.
const YIELD_BYTES_MAX: usize = 16 << 10;

/// A stream that collects what is written to it, or passes it on.
#[derive(Debug)]
pub(super) struct Gathered<T> {
    inner: Arc<Mutex<Inner<T>>>,
    collects: bool,
}

/// Sends what a [`Gathered`] has collected.
#[derive(Debug)]
pub(super) struct Gatherer<T>(Arc<Mutex<Inner<T>>>);

#[derive(Debug)]
struct Inner<T> {
    stream: T,
    collected: Vec<u8>,
    /// So much of it is written.
    written: usize,
    /// A flush was asked for and not made yet.
    is_to_flush: bool,
    /// The connection was asked once more before this is sent.
    has_yielded: bool,
}

/// `stream`, and what sends its bytes. `collects`: whether they are put together.
pub(super) fn gathered<T>(stream: T, collects: bool) -> (Gathered<T>, Gatherer<T>) {
    let (collected, written, is_to_flush, has_yielded) = (Vec::new(), 0, false, false);
    let inner = Arc::new(Mutex::new(Inner { stream, collected, written, is_to_flush, has_yielded }));
    (Gathered { inner: Arc::clone(&inner), collects }, Gatherer(inner))
}

impl<T: AsyncWrite + Unpin> Gatherer<T> {
    /// Writes and flushes what is collected; not yet, while other work may add to it: what one change means for a hundred
    /// watches is found by a hundred tasks, and the first of them wakes the connection.
    ///
    /// # Errors
    /// The stream's.
    pub(super) fn poll_send(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.0.lock();
        let waits_for_more = (1..=YIELD_BYTES_MAX).contains(&(inner.collected.len() - inner.written));
        if waits_for_more && !inner.has_yielded {
            inner.has_yielded = true;
            // A task that wakes itself comes after those that are ready to run.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        inner.poll_send(cx)
    }
}

impl<T: AsyncWrite + Unpin> Inner<T> {
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_write_collected(cx))?;
        if self.is_to_flush {
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.is_to_flush = false;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_write_collected(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.collected.len() {
            let rest = &self.collected[self.written..];
            match ready!(Pin::new(&mut self.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
        }
        (self.written, self.has_yielded) = (0, false);
        match self.collected.capacity() > KEPT_BYTES_MAX {
            true => self.collected = Vec::new(),
            false => self.collected.clear(),
        }
        Poll::Ready(Ok(()))
    }

    /// Takes in as much of `slices` as there is room for, which is made by writing.
    fn poll_collect(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        if self.collected.len() >= GATHERED_BYTES_MAX {
            ready!(self.poll_write_collected(cx))?;
        }
        let before = self.collected.len();
        let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
        if before + bytes > KEPT_BYTES_MAX && self.collected.capacity() < GATHERED_BYTES_MAX {
            self.collected.reserve_exact(GATHERED_BYTES_MAX - before);
        }
        for slice in slices {
            let room = GATHERED_BYTES_MAX - self.collected.len();
            self.collected.extend_from_slice(&slice[..room.min(slice.len())]);
        }
        Poll::Ready(Ok(self.collected.len() - before))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Gathered<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner.lock().stream).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Gathered<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let mut inner = self.inner.lock();
        match self.collects {
            true => inner.poll_collect(cx, &[IoSlice::new(buf)]),
            false => Pin::new(&mut inner.stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut inner = self.inner.lock();
        match self.collects {
            true => inner.poll_collect(cx, bufs),
            false => Pin::new(&mut inner.stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.collects || self.inner.lock().stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.inner.lock();
        if self.collects {
            inner.is_to_flush = true;
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut inner.stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.inner.lock();
        ready!(inner.poll_send(cx))?;
        Pin::new(&mut inner.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::*;

    /// Bytes that come out at the other end of a pipe with room for `room`, while `write` writes and what it left is sent.
    async fn sent(
        room: usize,
        collects: bool,
        write: impl AsyncFnOnce(&mut Gathered<DuplexStream>),
    ) -> Vec<u8> {
        let (near, mut far) = tokio::io::duplex(room);
        let (mut stream, gatherer) = gathered(near, collects);
        let reading = tokio::spawn(async move {
            let mut bytes = Vec::new();
            far.read_to_end(&mut bytes).await.unwrap();
            bytes
        });
        write(&mut stream).await;
        poll_fn(|cx| gatherer.poll_send(cx)).await.unwrap();
        drop((stream, gatherer));
        reading.await.unwrap()
    }

    #[tokio::test]
    async fn every_byte_comes_out_once_and_in_order() {
        let bytes: Vec<u8> = (0..400_000_u32).map(|number| (number % 251) as u8).collect();
        for collects in [true, false] {
            for (room, piece) in [(7, 30_000), (1 << 16, 1_000), (1 << 20, 16_393), (1 << 10, 200_000)] {
                let out = sent(room, collects, async |stream| {
                    for piece in bytes.chunks(piece) {
                        stream.write_all(piece).await.unwrap();
                        stream.flush().await.unwrap();
                    }
                });
                assert!(out.await == bytes, "{collects} {room} {piece}");
            }
        }
    }

    #[tokio::test]
    async fn what_is_written_waits_for_more_until_it_is_sent() {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let (mut stream, gatherer) = gathered(near, true);
        for _ in 0..3 {
            stream.write_all(b"frame").await.unwrap();
            stream.flush().await.unwrap();
        }
        let mut buffer = [0; 64];
        assert!(futures::poll!(Box::pin(far.read(&mut buffer))).is_pending());
        poll_fn(|cx| gatherer.poll_send(cx)).await.unwrap();
        assert_eq!(far.read(&mut buffer).await.unwrap(), 15, "they came together");
        stream.write_all(b"end").await.unwrap();
        stream.shutdown().await.unwrap();
        assert_eq!(far.read(&mut buffer).await.unwrap(), 3, "the end sends what is left");
    }

    #[tokio::test]
    async fn what_other_tasks_add_goes_out_with_it() {
        let (near, mut far) = tokio::io::duplex(1 << 20);
        let (mut stream, gatherer) = gathered(near, true);
        stream.write_all(b"one ").await.unwrap();
        // The second polls once, after the first was asked to send.
        let sending = poll_fn(|cx| gatherer.poll_send(cx));
        let (sent, added) = tokio::join!(sending, stream.write_all(b"two"));
        (sent.unwrap(), added.unwrap());
        let mut buffer = [0; 64];
        assert_eq!(far.read(&mut buffer).await.unwrap(), 7, "in one write");
        // More than a record is not kept back.
        stream.write_all(&[3; YIELD_BYTES_MAX + 1]).await.unwrap();
        assert!(futures::poll!(poll_fn(|cx| gatherer.poll_send(cx))).is_ready());
    }

    #[tokio::test]
    async fn a_full_buffer_is_written_before_more_is_taken() {
        let (near, mut far) = tokio::io::duplex(1 << 10);
        let (mut stream, _gatherer) = gathered(near, true);
        stream.write_all(&[1; GATHERED_BYTES_MAX]).await.unwrap();
        assert!(futures::poll!(Box::pin(stream.write(&[2; 1]))).is_pending(), "nobody reads");
        let reading = tokio::spawn(async move {
            far.read_exact(&mut vec![0; GATHERED_BYTES_MAX]).await.unwrap();
        });
        stream.write_all(&[2; 1]).await.unwrap();
        reading.await.unwrap();
    }
}
