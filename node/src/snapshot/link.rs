//! A member's stream of a snapshot, which is taken up again where it breaks.
//!
//! Owns the requests, how often they are repeated, and the passing on of the bytes through a bounded channel to the thread that
//! verifies them. A stream can be resumed at a member that still has its state; another one is asked for a new stream by the
//! caller. The bytes are those of one stream, whatever connections they came over: its digest proves it.

use std::io::{self, Write};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::Incoming;
use orch_raft::archive::Reader;
use tokio::sync::mpsc::Sender;
use tokio::time::{sleep, timeout};

use super::draft::{Draft, DraftError};
use super::notes::Notes;
use super::readable;
use crate::admin::{Access, RequestError, download};
use crate::run::STREAM_HEADER;

/// The member's path.
const PATH: &str = "/orch/v1/snapshot";

/// Longest wait for the next piece of a stream. A member sends one in well under a second where the client reads; this is also
/// more than a change of the route to it takes.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// Attempts to reach a member that may have the state of a stream. With the waits between them they take less than the time for
/// which a member keeps it.
const TRIES_MAX: u32 = 10;
const TRY_EVERY: Duration = Duration::from_secs(2);

/// Streams one after another that broke without a further byte: more would bring none either.
const FRUITLESS_MAX: u32 = 5;

/// Bounds of the kernel's receive buffer under a limit of the rate. Less than the lower one makes a packet a buffer; more than the
/// upper one is no use to any rate that a limit is given for.
const RECEIVE_BYTES_MIN: u64 = 32 << 10;
const RECEIVE_BYTES_MAX: u64 = 4 << 20;

/// The beginning of a stream that an earlier process left.
pub(super) struct Begun {
    /// The name of the stream.
    stream: String,
    /// Bytes that were found sound: whole blocks.
    pub(super) bytes: u64,
}

impl Begun {
    /// The beginning in `draft`; `None` where it is none.
    pub(super) fn of(draft: &Draft) -> Result<Option<Begun>, DraftError> {
        let Ok(mut reader) = Reader::open(draft.beginning(draft.length()?)?) else { return Ok(None) };
        while let Some(Ok(_)) = reader.next() {}
        Ok(Some(Begun { stream: reader.stream().to_owned(), bytes: reader.sound_bytes() }))
    }
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Its reader has all that came, and judges it.
    Passed,
    /// It broke, and no member can resume it.
    Lost,
}

/// The bound of the kernel's receive buffer at `limit` bytes a second: a quarter of a second, so that a route with a longer round trip
/// is slower than the limit, and a reader that stops has hardly more than it asked for.
pub(super) fn receive_bytes(limit: u64) -> u32 {
    let bytes = (limit / 4).clamp(RECEIVE_BYTES_MIN, RECEIVE_BYTES_MAX);
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// A stream that is being received.
pub(super) struct Link<'a> {
    access: &'a Access,
    receive_bytes: Option<u32>,
    /// The member that sends it.
    pub(super) server: String,
    /// Its name; `None` where the member tells none, which an older one does not.
    stream: Option<String>,
    /// Bytes of the stream that were passed on, or were there before.
    at: u64,
    body: Incoming,
}

impl<'a> Link<'a> {
    /// Asks for a new stream. `is_held`: of the state as the member holds it.
    pub(super) async fn begin(
        access: &'a Access,
        receive_bytes: Option<u32>,
        is_held: bool,
    ) -> Result<Link<'a>, RequestError> {
        let path = if is_held { format!("{PATH}?point=held") } else { PATH.to_owned() };
        let (server, response) = download(access, &path, receive_bytes).await?;
        let stream = stream_of(&response);
        Ok(Link { access, receive_bytes, server, stream, at: 0, body: response.into_body() })
    }

    /// Asks for the rest of the stream that was `begun`.
    pub(super) async fn take_up(
        access: &'a Access,
        receive_bytes: Option<u32>,
        begun: &Begun,
    ) -> Result<Link<'a>, RequestError> {
        let Begun { stream, bytes } = begun;
        let (server, response) = rest(access, receive_bytes, stream, *bytes).await?;
        let stream = Some(stream.clone());
        Ok(Link { access, receive_bytes, server, stream, at: *bytes, body: response.into_body() })
    }

    /// Passes the stream on to `sender`, over as many connections as it takes, and tells `notes` of each that broke. The failure
    /// of a stream that is lost is passed on, too.
    pub(super) async fn feed(
        &mut self,
        sender: Sender<io::Result<Bytes>>,
        notes: &mut Notes<impl Write>,
    ) -> Ending {
        let mut fruitless = 0;
        loop {
            let before = self.at;
            let Some(error) = self.pass_on(&sender).await else { return Ending::Passed };
            fruitless = if self.at > before { 0 } else { fruitless + 1 };
            let at = readable(self.at);
            notes.tell(format_args!("the stream from {} broke after {at}: {error}", self.server));
            match self.resume(fruitless).await {
                Ok(()) => notes.tell(format_args!("resumed after {at}, from {}", self.server)),
                Err(reason) => {
                    notes.tell(format_args!("it cannot be resumed: {reason}"));
                    // The reader may be gone.
                    let _ = sender.send(Err(error)).await;
                    return Ending::Lost;
                }
            }
        }
    }

    /// Passes the body on. Returns the error at which it broke; `None` where it ended, or nothing reads it any more.
    async fn pass_on(&mut self, sender: &Sender<io::Result<Bytes>>) -> Option<io::Error> {
        loop {
            let data = match timeout(IDLE_MAX, self.body.frame()).await {
                Ok(None) => return None,
                Err(_) => {
                    let reason = format!("nothing came for {} s", IDLE_MAX.as_secs());
                    return Some(io::Error::new(io::ErrorKind::TimedOut, reason));
                }
                Ok(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => data,
                    // Trailers: the format has its own end.
                    Err(_) => continue,
                },
                Ok(Some(Err(error))) => return Some(io::Error::other(error)),
            };
            self.at += u64::try_from(data.len()).unwrap_or(u64::MAX);
            if sender.send(Ok(data)).await.is_err() {
                return None;
            }
        }
    }

    /// Asks for the rest. A member that cannot be reached, or is busy with the connection that broke, is asked again.
    async fn resume(&mut self, fruitless: u32) -> Result<(), String> {
        let stream = self.stream.as_ref().ok_or("the member gives its stream no name: it is older")?;
        if fruitless >= FRUITLESS_MAX {
            return Err(format!("{fruitless} connections one after another brought nothing"));
        }
        let mut tries = 1;
        loop {
            match rest(self.access, self.receive_bytes, stream, self.at).await {
                Ok((server, response)) => {
                    (self.server, self.body) = (server, response.into_body());
                    return Ok(());
                }
                Err(RequestError::Unreachable(_)) if tries < TRIES_MAX => {
                    tries += 1;
                    sleep(TRY_EVERY).await;
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

async fn rest(
    access: &Access,
    receive_bytes: Option<u32>,
    stream: &str,
    from: u64,
) -> Result<(String, Response<Incoming>), RequestError> {
    download(access, &format!("{PATH}?resume={stream}&from={from}"), receive_bytes).await
}

/// The name of the stream in a response. It is put into a path, so only a digest in hex counts.
fn stream_of(response: &Response<Incoming>) -> Option<String> {
    let name = response.headers().get(STREAM_HEADER)?.to_str().ok()?;
    let is_name = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_name.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_receive_buffer_is_a_quarter_of_a_second_within_bounds() {
        assert_eq!(receive_bytes(64 << 10), 32 << 10);
        assert_eq!(receive_bytes(1 << 20), 256 << 10);
        assert_eq!(receive_bytes(1 << 40), 4 << 20);
    }
}
