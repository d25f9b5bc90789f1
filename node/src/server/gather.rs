//! Batches the frames that an HTTP/2 connection writes in one poll into full TLS records.
//!
//! The HTTP library writes one frame at a time and asks for a flush after each: 16 KiB of a list, or one event of one
//! of a hundred watches. Written one by one, each frame costs a TLS record (a full frame costs two, because its head
//! does not fit beside it) and a system call. [`Gathered`] fills whole records instead and leaves them in the buffer of
//! the TLS session until the connection's poll is pending or the buffer holds [`RECORDS_MAX`]. Payload of full records
//! goes from the frame into the cipher; only the rest, for the next record, is copied here.
//!
//! Invariant: the driver of the connection calls [`Gatherer::poll_send`] after each poll that returned pending. Nothing
//! else sends the last bytes.

use std::io::{self, IoSlice};
use std::iter;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use super::streams::Company;

/// Bytes of a full TLS record (RFC 8446, 5.1).
const RECORD_BYTES: usize = 16 << 10;

/// Records that wait in the session's buffer before they are sent: 64 KiB, as much as HTTP/1.1 writes at once;
/// more was not faster. A connection whose client does not read holds them until its writes time out
/// ([`super::stall`]).
const RECORDS_MAX: usize = 4;

/// Bytes of capacity that an idle connection keeps: an event or two, or the heads of some responses.
const KEPT_BYTES_MAX: usize = 4 << 10;

/// A stream with a send buffer: bytes go into it without being sent, and a flush sends them.
pub(super) trait SendBuffer: AsyncRead + AsyncWrite + Unpin {
    /// Puts bytes of `slices` into the buffer, in order, and returns how many; 0 while it is full.
    ///
    /// # Errors
    /// Writing to the stream failed.
    fn buffer(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize>;
}

impl<T: AsyncRead + AsyncWrite + Unpin> SendBuffer for TlsStream<T> {
    fn buffer(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        io::Write::write_vectored(&mut self.get_mut().1.writer(), slices)
    }
}

/// The stream that the HTTP library writes to: it collects frames.
#[derive(Debug)]
pub(super) struct Gathered<T>(Arc<Mutex<Inner<T>>>);

/// Sends the bytes that a [`Gathered`] has collected.
#[derive(Debug)]
pub(super) struct Gatherer<T>(Arc<Mutex<Inner<T>>>);

// Invariant: `partial` is shorter than a record. Its bytes come after those of the stream's buffer.
#[derive(Debug)]
struct Inner<T> {
    stream: T,
    /// Bytes for the next record, fewer than fill it; often empty.
    partial: Vec<u8>,
    /// Records in the stream's buffer.
    records: usize,
    /// The stream's buffer has bytes, or a flush was asked for.
    is_to_flush: bool,
    /// `poll_send` has yielded to other tasks since the last send.
    has_yielded: bool,
}

/// Wraps `stream` into one that collects frames, and the handle that sends them.
pub(super) fn gathered<T>(stream: T) -> (Gathered<T>, Gatherer<T>) {
    let inner = Inner { stream, partial: Vec::new(), records: 0, is_to_flush: false, has_yielded: false };
    let inner = Arc::new(Mutex::new(inner));
    (Gathered(Arc::clone(&inner)), Gatherer(inner))
}

impl<T: SendBuffer> Gatherer<T> {
    /// Sends the collected bytes. If they are less than a record and several streams are open, it first yields once to other
    /// tasks: one change wakes a hundred watches one after the other, and the first of them wakes the connection.
    ///
    /// # Errors
    /// Writing to the stream failed.
    pub(super) fn poll_send(&self, cx: &mut Context<'_>, company: Company) -> Poll<io::Result<()>> {
        let mut inner = self.0.lock();
        let is_little = inner.records == 0 && !inner.partial.is_empty();
        if is_little && company == Company::Several && !inner.has_yielded {
            inner.has_yielded = true;
            // A task that wakes itself is queued behind those that are ready.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        inner.poll_send(cx)
    }
}

impl<T: SendBuffer> Inner<T> {
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.partial.is_empty() {
            if self.records >= RECORDS_MAX {
                ready!(self.poll_flush(cx))?;
            }
            let buffered = self.stream.buffer(&[IoSlice::new(&self.partial)])?;
            self.partial.drain(..buffered);
            self.records += usize::from(buffered > 0);
            self.is_to_flush |= buffered > 0;
            if buffered == 0 {
                ready!(self.poll_make_room(cx))?;
            }
        }
        self.has_yielded = false;
        if self.partial.capacity() > KEPT_BYTES_MAX {
            self.partial = Vec::new();
        }
        if self.is_to_flush { self.poll_flush(cx) } else { Poll::Ready(Ok(())) }
    }

    /// Flushes the stream's full buffer. A buffer that is full and has nothing to flush is an error.
    fn poll_make_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_to_flush {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        self.poll_flush(cx)
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        (self.records, self.is_to_flush) = (0, false);
        Poll::Ready(Ok(()))
    }

    /// Takes as much of `slices` as fits: full records into the stream's buffer, the rest into `partial`.
    fn poll_collect(&mut self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
        if self.partial.len() + bytes < RECORD_BYTES {
            slices.iter().for_each(|slice| self.partial.extend_from_slice(slice));
            return Poll::Ready(Ok(bytes));
        }
        if self.records >= RECORDS_MAX {
            ready!(self.poll_flush(cx))?;
        }
        let records = ((self.partial.len() + bytes) / RECORD_BYTES).min(RECORDS_MAX - self.records);
        let buffered = self.buffer_records(slices, records * RECORD_BYTES)?;
        if buffered == 0 {
            ready!(self.poll_make_room(cx))?;
            return self.poll_collect(cx, slices);
        }
        self.records += buffered.div_ceil(RECORD_BYTES);
        self.is_to_flush = true;
        let Some(from_slices) = buffered.checked_sub(self.partial.len()) else {
            self.partial.drain(..buffered);
            return self.poll_collect(cx, slices);
        };
        self.partial.clear();
        Poll::Ready(Ok(from_slices + self.keep_partial(slices, from_slices)))
    }

    /// Passes `partial` and then `slices`, at most `bytes_max` together, to the stream's buffer.
    fn buffer_records(&mut self, slices: &[IoSlice<'_>], bytes_max: usize) -> io::Result<usize> {
        let mut left = bytes_max;
        let mut chosen = Vec::with_capacity(1 + slices.len());
        for slice in iter::once(&*self.partial).chain(slices.iter().map(|slice| &**slice)) {
            let taken = &slice[..slice.len().min(left)];
            left -= taken.len();
            chosen.push(IoSlice::new(taken));
        }
        self.stream.buffer(&chosen)
    }

    /// Copies `slices` without their first `skipped` bytes into the empty `partial`, less than a record of it. Returns
    /// the number of bytes copied.
    fn keep_partial(&mut self, slices: &[IoSlice<'_>], mut skipped: usize) -> usize {
        for slice in slices {
            let rest = &slice[skipped.min(slice.len())..];
            skipped -= slice.len() - rest.len();
            let room = RECORD_BYTES - 1 - self.partial.len();
            self.partial.extend_from_slice(&rest[..rest.len().min(room)]);
        }
        self.partial.len()
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Gathered<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.lock().stream).poll_read(cx, buf)
    }
}

impl<T: SendBuffer> AsyncWrite for Gathered<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().poll_collect(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.lock().poll_collect(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Only notes the request: [`Gatherer::poll_send`] flushes.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.lock().is_to_flush = true;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.0.lock();
        ready!(inner.poll_send(cx))?;
        Pin::new(&mut inner.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

    use super::*;

    /// A pipe behind a send buffer of `room` bytes; records the calls that fill the buffer.
    #[derive(Debug)]
    struct Pipe {
        end: DuplexStream,
        held: Vec<u8>,
        room: usize,
        /// Bytes taken by each call of `buffer` that took any.
        calls: Vec<usize>,
    }

    impl SendBuffer for Pipe {
        fn buffer(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            let before = self.held.len();
            for slice in slices {
                let room = self.room - self.held.len();
                self.held.extend_from_slice(&slice[..room.min(slice.len())]);
            }
            let bytes = self.held.len() - before;
            self.calls.extend(Some(bytes).filter(|&bytes| bytes > 0));
            Ok(bytes)
        }
    }

    impl AsyncRead for Pipe {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.end).poll_read(cx, buf)
        }
    }

    impl AsyncWrite for Pipe {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
            unreachable!("bytes go through the buffer")
        }

        fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            let pipe = &mut *self;
            while !pipe.held.is_empty() {
                let written = ready!(Pin::new(&mut pipe.end).poll_write(cx, &pipe.held))?;
                pipe.held.drain(..written);
            }
            Pin::new(&mut pipe.end).poll_flush(cx)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            ready!(self.as_mut().poll_flush(cx))?;
            Pin::new(&mut self.end).poll_shutdown(cx)
        }
    }

    /// A pipe with `room` bytes in the buffer and `capacity` in the pipe, and its other end.
    fn pipe(room: usize, capacity: usize) -> (Pipe, DuplexStream) {
        let (end, far) = tokio::io::duplex(capacity);
        (Pipe { end, held: Vec::new(), room, calls: Vec::new() }, far)
    }

    fn numbers(count: u32) -> Vec<u8> {
        (0..count).map(|number| (number % 251) as u8).collect()
    }

    /// Writes `bytes` as frames of `frame` bytes behind heads of nine, each flushed; returns the bytes read at the
    /// other end.
    async fn through(room: usize, capacity: usize, frame: usize, bytes: &[u8]) -> Vec<u8> {
        let (near, mut far) = pipe(room, capacity);
        let (mut stream, gatherer) = gathered(near);
        let reading = tokio::spawn(async move {
            let mut bytes = Vec::new();
            far.read_to_end(&mut bytes).await.unwrap();
            bytes
        });
        for piece in bytes.chunks(frame + 9) {
            let (head, payload) = piece.split_at(piece.len().min(9));
            let mut written = 0;
            while written < piece.len() {
                let slices = match written < head.len() {
                    true => vec![IoSlice::new(&head[written..]), IoSlice::new(payload)],
                    false => vec![IoSlice::new(&payload[written - head.len()..])],
                };
                written +=
                    poll_fn(|cx| Pin::new(&mut stream).poll_write_vectored(cx, &slices)).await.unwrap();
            }
            stream.flush().await.unwrap();
        }
        poll_fn(|cx| gatherer.poll_send(cx, Company::Several)).await.unwrap();
        drop((stream, gatherer));
        reading.await.unwrap()
    }

    #[tokio::test]
    async fn every_byte_comes_out_once_and_in_order() {
        let bytes = numbers(400_000);
        for room in [100, 1_000, RECORD_BYTES, 70_000, 1 << 20] {
            for (capacity, frame) in [(7, 30_000), (1 << 16, 100), (1 << 20, 16_384), (1 << 10, 200_000)] {
                let out = through(room, capacity, frame, &bytes).await;
                assert!(out == bytes, "{room} {capacity} {frame}");
            }
        }
    }

    #[tokio::test]
    async fn full_frames_become_full_records() {
        let (near, _far) = pipe(1 << 20, 1 << 20);
        let (mut stream, gatherer) = gathered(near);
        for _ in 0..8 {
            stream.write_all(&[0; 9]).await.unwrap();
            stream.write_all(&[1; RECORD_BYTES]).await.unwrap();
        }
        let full = [RECORD_BYTES; 8];
        assert_eq!(gatherer.0.lock().stream.calls, full);
        poll_fn(|cx| gatherer.poll_send(cx, Company::Several)).await.unwrap();
        assert_eq!(gatherer.0.lock().stream.calls[8..], [8 * 9]);
    }

    #[tokio::test]
    async fn frames_wait_for_more_until_they_are_sent() {
        let (near, mut far) = pipe(1 << 20, 1 << 20);
        let (mut stream, gatherer) = gathered(near);
        for _ in 0..3 {
            stream.write_all(b"frame").await.unwrap();
            stream.flush().await.unwrap();
        }
        let mut buffer = [0; 64];
        assert!(futures::poll!(Box::pin(far.read(&mut buffer))).is_pending());
        poll_fn(|cx| gatherer.poll_send(cx, Company::Several)).await.unwrap();
        assert_eq!(far.read(&mut buffer).await.unwrap(), 15, "they came together");
        stream.write_all(b"end").await.unwrap();
        stream.shutdown().await.unwrap();
        assert_eq!(far.read(&mut buffer).await.unwrap(), 3, "the end sends what is left");
    }

    #[tokio::test]
    async fn frames_of_other_tasks_go_out_with_the_first() {
        let (near, mut far) = pipe(1 << 20, 1 << 20);
        let (mut stream, gatherer) = gathered(near);
        stream.write_all(b"one ").await.unwrap();
        // `write_all` is polled once, after `poll_send` has yielded.
        let sending = poll_fn(|cx| gatherer.poll_send(cx, Company::Several));
        let (sent, added) = tokio::join!(sending, stream.write_all(b"two"));
        sent.unwrap();
        added.unwrap();
        let mut buffer = [0; 64];
        assert_eq!(far.read(&mut buffer).await.unwrap(), 7, "in one write");
        // With a full record, or with a single stream, `poll_send` does not yield.
        stream.write_all(&[3; RECORD_BYTES + 1]).await.unwrap();
        assert!(futures::poll!(poll_fn(|cx| gatherer.poll_send(cx, Company::Several))).is_ready());
        stream.write_all(b"three").await.unwrap();
        assert!(futures::poll!(poll_fn(|cx| gatherer.poll_send(cx, Company::Alone))).is_ready());
    }

    #[tokio::test]
    async fn full_records_are_sent_before_more_are_taken() {
        let (near, mut far) = pipe(1 << 20, 1 << 10);
        let (mut stream, _gatherer) = gathered(near);
        let records = vec![1; RECORDS_MAX * RECORD_BYTES];
        stream.write_all(&records).await.unwrap();
        let more = [2; RECORD_BYTES];
        assert!(futures::poll!(Box::pin(stream.write(&more))).is_pending(), "nobody reads");
        let reading = tokio::spawn(async move {
            far.read_exact(&mut vec![0; RECORDS_MAX * RECORD_BYTES]).await.unwrap();
        });
        stream.write_all(&more).await.unwrap();
        reading.await.unwrap();
    }

    #[tokio::test]
    async fn an_idle_connection_keeps_little_capacity() {
        let (near, _far) = pipe(1 << 20, 1 << 20);
        let (mut stream, gatherer) = gathered(near);
        stream.write_all(&[1; RECORD_BYTES - 1]).await.unwrap();
        poll_fn(|cx| gatherer.poll_send(cx, Company::Several)).await.unwrap();
        assert!(gatherer.0.lock().partial.capacity() <= KEPT_BYTES_MAX);
    }
}
