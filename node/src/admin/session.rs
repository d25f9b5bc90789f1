//! Many requests to one server over a kept connection, and to the next server where that one fails.
//!
//! Owns the connection, the repetition of requests, and which server is asked. Every request here may be sent twice without harm:
//! commands that may not are sent by `request::send`.
//!
//! Invariant: a caller that relies on what a server has applied is told of another connection before anything is asked over it
//! (`Session::ask_in`).

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, RETRY_AFTER};
use http::{Method, Request, StatusCode};
use http_body_util::Full;
use hyper::client::conn::http1::SendRequest;
use serde_json::Value;
use tokio::time::{sleep, timeout};

use super::access::Access;
use super::request::{ANSWER_MAX, CONNECT_MAX, connect, document};

/// Attempts at one request: half a minute in all, longer than an election and than the restart of a small member.
const ATTEMPTS_MAX: u32 = 16;
/// The pause after the first failed attempt; each is twice as long as the last one, up to [`PAUSE_MAX`].
const PAUSE_FIRST: Duration = Duration::from_millis(20);
/// The longest pause, also where a server asks for a longer one.
const PAUSE_MAX: Duration = Duration::from_secs(3);
/// Bytes of an answer: 40 objects of the greatest size there is.
const BODY_BYTES_MAX: usize = 64 << 20;

/// A request that may be sent again.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    /// The type that is asked for.
    pub(crate) accept: String,
    /// Empty: none.
    pub(crate) body: Bytes,
    /// The type of the body.
    pub(crate) body_type: &'static str,
    pub(crate) on_conflict: OnConflict,
}

/// The type of documents.
pub(crate) const JSON: &str = "application/json";
/// The type of merge patches.
pub(crate) const MERGE_PATCH: &str = "application/merge-patch+json";

impl Call {
    /// A read of `path`.
    pub(crate) fn get(path: String) -> Call {
        Call {
            method: Method::GET,
            path,
            accept: JSON.to_owned(),
            body: Bytes::new(),
            body_type: JSON,
            on_conflict: OnConflict::Tell,
        }
    }

    /// A request with a document, of which a conflict is an answer.
    pub(crate) fn with_document(method: Method, path: String, document: &Value) -> Call {
        Call { method, body: document.to_string().into(), ..Call::get(path) }
    }
}

/// The meaning of a conflict (409) for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnConflict {
    /// It was overtaken, and is sent again.
    Repeat,
    /// It has a condition that does not hold any more: the conflict is its answer.
    Tell,
}

/// The answer to a request.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) body: Value,
    retry_after: Option<Duration>,
}

impl Reply {
    /// The answer's own words about a failure.
    pub(crate) fn message(&self) -> String {
        self.body["message"].as_str().map_or_else(|| self.status.to_string(), str::to_owned)
    }

    /// Whether the same request may succeed a moment later: it was overtaken, or the server has too much to do or is not ready.
    fn is_transient(&self, on_conflict: OnConflict) -> bool {
        let of_the_server = self.status.is_server_error()
            && self.status != StatusCode::INTERNAL_SERVER_ERROR
            && self.status != StatusCode::INSUFFICIENT_STORAGE;
        match self.status {
            StatusCode::CONFLICT => on_conflict == OnConflict::Repeat,
            StatusCode::TOO_MANY_REQUESTS => true,
            _ => of_the_server,
        }
    }
}

/// A client's connection to one of the servers of an access.
pub(crate) struct Session<'a> {
    access: &'a Access,
    /// Number of the server that is asked.
    at: usize,
    sender: Option<SendRequest<Full<Bytes>>>,
    turns: u64,
}

impl<'a> Session<'a> {
    pub(crate) fn new(access: &'a Access) -> Self {
        Session { access, at: 0, sender: None, turns: 0 }
    }

    /// Number of the connection: with another one another server may answer, or the same one after a restart.
    pub(super) fn turn(&self) -> u64 {
        self.turns
    }

    /// The server that is asked, `HOST:PORT`.
    pub(crate) fn server(&self) -> &str {
        &self.access.servers[self.at]
    }

    /// The answer to `call`, of any server.
    ///
    /// # Errors
    /// The last failure, where no attempt had an answer that a repetition would not change.
    pub(crate) async fn ask(&mut self, call: &Call) -> anyhow::Result<Reply> {
        for _ in 0..ATTEMPTS_MAX {
            // A connection that was just made is as good as the last one.
            if let Some(reply) = self.ask_in(call, self.turns).await? {
                return Ok(reply);
            }
        }
        anyhow::bail!("{}: it ends every connection before it is asked anything", self.server())
    }

    /// The answer to `call` over the connection number `turn`. `None`: that one has ended, and another one was made, over which
    /// nothing was asked yet.
    ///
    /// # Errors
    /// The last failure, where no attempt had an answer that a repetition would not change.
    pub(super) async fn ask_in(&mut self, call: &Call, turn: u64) -> anyhow::Result<Option<Reply>> {
        let (mut pause, mut failure) = (PAUSE_FIRST, String::new());
        for _ in 0..ATTEMPTS_MAX {
            let mut wait = pause;
            match self.attempt(call, turn).await {
                Ok(None) => return Ok(None),
                Ok(Some(reply)) if !reply.is_transient(call.on_conflict) => return Ok(Some(reply)),
                Ok(Some(reply)) => {
                    failure = format!("{}: {}", self.server(), reply.message());
                    wait = reply.retry_after.unwrap_or(pause);
                    if reply.status.is_server_error() {
                        self.leave();
                    }
                }
                Err(reason) => {
                    failure = format!("{}: {reason}", self.server());
                    self.leave();
                }
            }
            sleep(wait.min(PAUSE_MAX)).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
        anyhow::bail!("{failure} ({ATTEMPTS_MAX} attempts at {} {})", call.method, call.path)
    }

    /// Goes on to the next server.
    fn leave(&mut self) {
        self.sender = None;
        self.at = (self.at + 1) % self.access.servers.len();
    }

    async fn attempt(&mut self, call: &Call, turn: u64) -> Result<Option<Reply>, String> {
        if self.sender.as_ref().is_none_or(SendRequest::is_closed) {
            let late = || Err("no connection in time".to_owned());
            self.sender = Some(timeout(CONNECT_MAX, self.open()).await.unwrap_or_else(|_| late())?);
            self.turns += 1;
        }
        if self.turns != turn {
            return Ok(None);
        }
        let late = || Err("no answer in time".to_owned());
        timeout(ANSWER_MAX, self.exchange(call)).await.unwrap_or_else(|_| late()).map(Some)
    }

    async fn open(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        let stream = connect(self.access, self.server(), None).await?;
        let made = hyper::client::conn::http1::handshake(stream).await;
        let (sender, connection) = made.map_err(|error| error.to_string())?;
        // The task ends with the sender; its errors show there.
        tokio::spawn(connection);
        Ok(sender)
    }

    async fn exchange(&mut self, call: &Call) -> Result<Reply, String> {
        let request = Request::builder().method(call.method.clone()).uri(&call.path);
        let mut request = request.header(HOST, self.server()).header(ACCEPT, &call.accept);
        if !call.body.is_empty() {
            request = request.header(CONTENT_TYPE, call.body_type);
        }
        if let Some(token) = &self.access.token {
            request = request.header(AUTHORIZATION, token);
        }
        let request = request.body(Full::new(call.body.clone())).map_err(|error| error.to_string())?;
        let sender = self.sender.as_mut().ok_or("no connection")?;
        sender.ready().await.map_err(|error| error.to_string())?;
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let (status, retry_after) = (response.status(), seconds.map(Duration::from_secs));
        Ok(Reply { status, body: document(response, BODY_BYTES_MAX).await?, retry_after })
    }
}
