//! What a server of a test does wrong, as webhooks of both kinds and as an aggregated server, and the waits of those that it does not
//! concern.
//!
//! Owns the ways of misbehaving and what is counted of them. What a server that works answers is the test's.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use orch_cluster_tests::client::Client;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::sleep;

use super::tls_host::{Stream, answer};

/// Bytes of the answer that has too many of them.
pub(super) const HUGE_BYTES: usize = 100 << 20;

/// What a process may have more at its peak for such answers: the 3 MiB that are read of one, and copies of them, many times.
pub(super) const GROWTH_KB_MAX: u64 = 128 << 10;

/// Bound of the waits of others, but for one in a hundred, on a machine that does much else meanwhile: 20 ms on a quiet one.
pub(super) const OTHERS_MAX: Duration = Duration::from_secs(2);

/// A name that the system's resolver takes for the address of clouds' metadata services, 169.254.169.254, and that is no literal of an
/// address elsewhere.
pub(super) const METADATA_NAME: &str = "0xa9fea9fe";

/// The text of an answer that is no document.
pub(super) const GARBAGE: &str = "\u{0}]{ no document";

/// The path that redirects lead to.
pub(super) const ELSEWHERE: &str = "/elsewhere";

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// A way to misbehave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Never answers.
    Hang,
    /// Ends the connection.
    Die,
    /// Sends the client elsewhere.
    Redirect,
    /// Answers with [`GARBAGE`].
    Garbage,
    /// Answers with [`HUGE_BYTES`].
    Huge,
    /// Answers with a byte a second.
    Slow,
    /// Asks the server that asks it, and then answers well.
    Callback,
}

impl Mode {
    pub(super) const ALL: [Mode; 7] =
        [Mode::Hang, Mode::Die, Mode::Redirect, Mode::Garbage, Mode::Huge, Mode::Slow, Mode::Callback];

    /// The name in paths and objects.
    pub(super) fn name(self) -> &'static str {
        match self {
            Mode::Hang => "hang",
            Mode::Die => "die",
            Mode::Redirect => "redirect",
            Mode::Garbage => "garbage",
            Mode::Huge => "huge",
            Mode::Slow => "slow",
            Mode::Callback => "callback",
        }
    }

    /// The mode that the path of a request names.
    pub(super) fn at(path: &str) -> Option<Mode> {
        Mode::ALL.into_iter().find(|mode| path.strip_prefix('/') == Some(mode.name()))
    }
}

/// What a server that misbehaves knows, and counts.
pub(super) struct Misbehaving {
    api: Client,
    /// Clients that followed a redirect.
    pub(super) redirected: AtomicUsize,
    /// Requests that called back, with success.
    pub(super) called_back: AtomicUsize,
}

impl Misbehaving {
    /// One that calls back as `api`.
    pub(super) fn new(api: Client) -> Misbehaving {
        Misbehaving { api, redirected: AtomicUsize::new(0), called_back: AtomicUsize::new(0) }
    }

    /// Answers a request in the way `mode`; one that calls back leaves a note called `note`, and answers `well`.
    ///
    /// # Errors
    /// The connection has to end, or has.
    pub(super) async fn answer(
        &self,
        stream: &mut Stream,
        mode: Mode,
        (note, well): (&str, &str),
    ) -> io::Result<()> {
        match mode {
            Mode::Hang => {
                // Until the client ends the connection.
                while stream.read(&mut [0; 64]).await? > 0 {}
                Err(io::ErrorKind::UnexpectedEof.into())
            }
            Mode::Die => Err(io::ErrorKind::ConnectionAborted.into()),
            Mode::Redirect => {
                let head = format!(
                    "HTTP/1.1 307 Temporary Redirect\r\nLocation: {ELSEWHERE}\r\nContent-Length: 0\r\n\r\n"
                );
                stream.write_all(head.as_bytes()).await?;
                stream.flush().await
            }
            Mode::Garbage => answer(stream, "200 OK", GARBAGE).await,
            Mode::Huge => send_much(stream).await,
            Mode::Slow => send_slowly(stream).await,
            Mode::Callback => {
                let document = json!({"metadata": {"name": note}});
                let noted = self.api.post(SECRETS, &document).await;
                let listed = self.api.get("/api/v1/namespaces/default/configmaps").await;
                // A note that is there is of an earlier request with the same name.
                let is_done = noted.is_ok_and(|noted| matches!(noted.status, 201 | 409))
                    && listed.is_ok_and(|listed| listed.status == 200);
                self.called_back.fetch_add(usize::from(is_done), Ordering::Relaxed);
                answer(stream, "200 OK", well).await
            }
        }
    }

    /// Answers a client that has followed a redirect.
    pub(super) async fn note_redirected(&self, stream: &mut Stream, well: &str) -> io::Result<()> {
        self.redirected.fetch_add(1, Ordering::Relaxed);
        answer(stream, "200 OK", well).await
    }
}

/// An answer of [`HUGE_BYTES`].
async fn send_much(stream: &mut Stream) -> io::Result<()> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {HUGE_BYTES}\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let block = vec![b' '; 1 << 20];
    for _ in 0..HUGE_BYTES >> 20 {
        stream.write_all(&block).await?;
    }
    stream.flush().await
}

/// An answer of a byte a second.
async fn send_slowly(stream: &mut Stream) -> io::Result<()> {
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n").await?;
    for _ in 0..1000 {
        stream.write_all(b" ").await?;
        stream.flush().await?;
        sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

/// The waits of requests that a server that misbehaves does not concern.
#[derive(Default)]
pub(super) struct Waits(Vec<(Duration, String)>);

impl Waits {
    /// Takes in a request for `path` that was sent at `began` and has its answer now.
    pub(super) fn note(&mut self, began: Instant, path: &str) {
        self.0.push((began.elapsed(), path.to_owned()));
    }

    /// Shows the figures, and that there are more than `least` waits, of which all but one in a hundred are below [`OTHERS_MAX`].
    pub(super) fn must_be_short(mut self, least: usize) {
        self.0.sort();
        eprintln!("{self}");
        assert!(self.0.len() > least && self.share(99).0 < OTHERS_MAX, "{self}");
    }

    /// The wait that `percent` of all do not exceed.
    fn share(&self, percent: usize) -> &(Duration, String) {
        &self.0[self.0.len() * percent / 100]
    }
}

/// Of sorted waits.
impl fmt::Display for Waits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(longest) = self.0.last() else { return f.write_str("no requests of others") };
        let (p50, p99) = (self.share(50).0, self.share(99));
        write!(f, "{} requests of others: p50 {p50:?}, p99 {p99:?}, longest {longest:?}", self.0.len())
    }
}
