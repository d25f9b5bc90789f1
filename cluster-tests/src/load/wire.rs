//! One HTTP/1.1 connection, written for speed: requests are formatted into one buffer, responses are framed and counted
//! in place. Only the head is decoded; of a body only the first bytes are kept.

use std::io::{Error, ErrorKind, Result};

use memchr::memmem;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::target::Target;
use crate::client::Stream;

/// Read buffer: four TLS records, so that one wake-up takes everything that has arrived. A head must fit in it.
const BUFFER_BYTES: usize = 64 << 10;

/// Bytes of a body that are kept: they hold a list's metadata or an error's message.
const HEAD_BYTES_MAX: usize = 4 << 10;

/// Headers of a response. The reference sends about ten.
const HEADERS_MAX: usize = 64;

/// One request.
pub(super) struct Call<'a> {
    pub(super) method: &'static str,
    pub(super) path: &'a str,
    pub(super) content_type: &'static str,
    pub(super) body: &'a [u8],
}

/// Status and body size of a response.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reply {
    pub(super) status: u16,
    /// Bytes of the body, without framing.
    pub(super) bytes: u64,
}

/// Framing of the rest of a body.
enum Framing {
    Length(u64),
    Chunk(u64),
    BetweenChunks,
    UntilClose,
    Done,
}

/// A connection with its buffers.
pub(super) struct Connection {
    stream: Box<dyn Stream>,
    /// The constant part of the request head: host, authorization and the like.
    preamble: String,
    request: Vec<u8>,
    buffer: Box<[u8]>,
    // Invariant: start <= end <= buffer.len(). The bytes between are received and not taken yet.
    start: usize,
    end: usize,
    framing: Framing,
    head: Vec<u8>,
}

impl Connection {
    /// Connects to `target`.
    pub(super) async fn open(target: &Target) -> anyhow::Result<Self> {
        let stream = target.endpoint.connect(&target.access).await?;
        Ok(Self {
            stream,
            preamble: target.preamble(),
            request: Vec::new(),
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            framing: Framing::Done,
            head: Vec::with_capacity(HEAD_BYTES_MAX),
        })
    }

    /// The first bytes of the last body, at most 4 KiB.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    /// Sends `call` and reads the whole response.
    pub(super) async fn exchange(&mut self, call: &Call<'_>) -> Result<Reply> {
        let status = self.begin(call).await?;
        let mut bytes = 0;
        self.head.clear();
        while let Some((from, to)) = self.data().await? {
            bytes += (to - from) as u64;
            let room = HEAD_BYTES_MAX - self.head.len();
            let kept = from + room.min(to - from);
            self.head.extend_from_slice(&self.buffer[from..kept]);
        }
        Ok(Reply { status, bytes })
    }

    /// Sends `call` and reads the head of the response; returns the status. The body follows through `piece`.
    pub(super) async fn begin(&mut self, call: &Call<'_>) -> Result<u16> {
        self.request.clear();
        self.request.extend_from_slice(call.method.as_bytes());
        self.request.push(b' ');
        self.request.extend_from_slice(call.path.as_bytes());
        self.request.extend_from_slice(self.preamble.as_bytes());
        if !call.content_type.is_empty() {
            let length = call.body.len();
            let head = format!("Content-Type: {}\r\nContent-Length: {length}\r\n", call.content_type);
            self.request.extend_from_slice(head.as_bytes());
        }
        self.request.extend_from_slice(b"\r\n");
        self.request.extend_from_slice(call.body);
        self.stream.write_all(&self.request).await?;
        self.stream.flush().await?;
        self.answer_head().await
    }

    /// The next piece of the body; `None` at its end.
    pub(super) async fn piece(&mut self) -> Result<Option<&[u8]>> {
        let range = self.data().await?;
        Ok(range.map(|(from, to)| &self.buffer[from..to]))
    }

    async fn answer_head(&mut self) -> Result<u16> {
        let mut searched = 0;
        let end = loop {
            let unread = &self.buffer[self.start..self.end];
            if let Some(at) = memmem::find(&unread[searched..], b"\r\n\r\n") {
                break self.start + searched + at + 4;
            }
            searched = unread.len().saturating_sub(3);
            self.fill().await?;
        };
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut answer = httparse::Response::new(&mut headers);
        answer
            .parse(&self.buffer[self.start..end])
            .map_err(|error| Error::new(ErrorKind::InvalidData, error))?;
        let status = answer.code.unwrap_or_default();
        self.framing = framing(status, answer.headers)?;
        self.start = end;
        Ok(status)
    }

    /// The range of the next piece in the buffer, taken from the stream; `None` at the end of the body.
    async fn data(&mut self) -> Result<Option<(usize, usize)>> {
        loop {
            match self.framing {
                Framing::Done | Framing::Length(0) => return Ok(None),
                Framing::Chunk(0) => {
                    self.line().await?;
                    self.framing = Framing::BetweenChunks;
                }
                Framing::BetweenChunks => self.chunk_head().await?,
                Framing::Length(rest) => {
                    let range = self.take(rest).await?;
                    self.framing = Framing::Length(rest - (range.1 - range.0) as u64);
                    return Ok(Some(range));
                }
                Framing::Chunk(rest) => {
                    let range = self.take(rest).await?;
                    self.framing = Framing::Chunk(rest - (range.1 - range.0) as u64);
                    return Ok(Some(range));
                }
                Framing::UntilClose => {
                    return match self.take(u64::MAX).await {
                        Ok(range) => Ok(Some(range)),
                        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
                        Err(error) => Err(error),
                    };
                }
            }
        }
    }

    async fn chunk_head(&mut self) -> Result<()> {
        let (from, to) = self.line().await?;
        let size = chunk_size(&self.buffer[from..to])?;
        if size > 0 {
            self.framing = Framing::Chunk(size);
            return Ok(());
        }
        loop {
            let (from, to) = self.line().await?; // trailers end with an empty line
            if from == to {
                self.framing = Framing::Done;
                return Ok(());
            }
        }
    }

    /// Range of the next line in the buffer, without its CRLF.
    async fn line(&mut self) -> Result<(usize, usize)> {
        loop {
            let unread = &self.buffer[self.start..self.end];
            if let Some(at) = memmem::find(unread, b"\r\n") {
                let range = (self.start, self.start + at);
                self.start += at + 2;
                return Ok(range);
            }
            self.fill().await?;
        }
    }

    /// Takes up to `limit` bytes, at least one, and returns their range in the buffer.
    async fn take(&mut self, limit: u64) -> Result<(usize, usize)> {
        if self.start == self.end {
            self.fill().await?;
        }
        let length = usize::try_from(limit).unwrap_or(usize::MAX).min(self.end - self.start);
        let range = (self.start, self.start + length);
        self.start += length;
        Ok(range)
    }

    async fn fill(&mut self) -> Result<()> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            return Err(Error::new(ErrorKind::InvalidData, "a head or a line is over the buffer"));
        }
        let read = self.stream.read(&mut self.buffer[self.end..]).await?;
        if read == 0 {
            return Err(Error::new(ErrorKind::UnexpectedEof, "the server closed the connection"));
        }
        self.end += read;
        Ok(())
    }
}

fn framing(status: u16, headers: &[httparse::Header<'_>]) -> Result<Framing> {
    if status == 204 || status == 304 {
        return Ok(Framing::Done);
    }
    for header in headers {
        if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Ok(Framing::BetweenChunks);
        }
        if header.name.eq_ignore_ascii_case("content-length") {
            let length = std::str::from_utf8(header.value).ok().and_then(|text| text.parse().ok());
            let bad = || Error::new(ErrorKind::InvalidData, "bad Content-Length");
            return length.map(Framing::Length).ok_or_else(bad);
        }
    }
    Ok(Framing::UntilClose)
}

fn chunk_size(line: &[u8]) -> Result<u64> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default();
    let text = std::str::from_utf8(digits).unwrap_or_default().trim();
    u64::from_str_radix(text, 16).map_err(|_| Error::new(ErrorKind::InvalidData, "bad chunk size"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `answer` in pieces of `step` bytes and reads `count` answers.
    async fn check(answer: &'static str, step: usize, want: &[(u16, u64, &str)]) {
        let (near, mut far) = tokio::io::duplex(1 << 16);
        let mut connection = Connection {
            stream: Box::new(near),
            preamble: " HTTP/1.1\r\nHost: x\r\n".into(),
            request: Vec::new(),
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            framing: Framing::Done,
            head: Vec::new(),
        };
        let feeder = tokio::spawn(async move {
            for piece in answer.as_bytes().chunks(step) {
                far.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
            let mut sent = vec![0; 18];
            far.read_exact(&mut sent).await.unwrap();
            sent
        });
        let call = Call { method: "GET", path: "/a", content_type: "", body: b"" };
        for (status, bytes, head) in want {
            let reply = connection.exchange(&call).await.unwrap();
            assert_eq!((reply.status, reply.bytes), (*status, *bytes), "step {step}");
            assert_eq!(connection.head(), head.as_bytes());
        }
        assert_eq!(feeder.await.unwrap(), b"GET /a HTTP/1.1\r\nH");
    }

    #[tokio::test]
    async fn answers_are_framed_however_they_are_cut() {
        let answers = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello\
            HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n\
            HTTP/1.1 204 No Content\r\n\r\n\
            HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";
        let want = [(200, 5, "hello"), (201, 13, "abc0123456789"), (204, 0, ""), (404, 0, "")];
        for step in [1, 2, 3, 7, 64, 4096] {
            check(answers, step, &want).await;
        }
    }

    #[tokio::test]
    async fn a_bad_chunk_size_is_an_error() {
        assert!(chunk_size(b"xyz").is_err());
        assert_eq!(chunk_size(b"1f;name=value").unwrap(), 31);
    }
}
