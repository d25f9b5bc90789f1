//! One request to the server of a bucket, tried again where that may help.
//!
//! Owns the bounds of a request and of its answer, the pauses between attempts, and the text of a refusal: its status, and the
//! code in its document. Each attempt is signed anew and has a connection of its own. Requests are such that doing one twice
//! is doing it once, or leaves a part that no object has.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ETAG, HOST, USER_AGENT};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use orch_api::egress::{EgressError, Url};
use rand::Rng;
use rusty_s3::S3Action;
use tokio::time::{sleep, timeout};

use super::AccessError;
use crate::egress::Target;

/// Attempts of one request: with the pauses between them a server may be away for a quarter of a minute.
const ATTEMPTS_MAX: u32 = 5;
/// Pause before the second attempt; each further one is twice as long, and up to as much again by chance, so that members
/// that failed together do not ask together.
const PAUSE_MIN: Duration = Duration::from_millis(500);
/// Longest request until its answer's head: a part of 16 MiB at 60 KiB a second.
const REQUEST_MAX: Duration = Duration::from_secs(300);
/// Longest wait for the next piece of an answer.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// Validity of a signature: longer than the request that it is for.
const VALIDITY: Duration = Duration::from_secs(900);
/// Bytes of an answer that is a document: a list of a thousand objects has some hundred thousand.
const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Characters of a refusal's code that are repeated.
const CODE_CHARACTERS_MAX: usize = 64;

/// A failure of work on a bucket.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ObjectStoreError {
    /// A request failed, or its answer was no use.
    #[error("cannot {act} {object}: {fault}")]
    Request { act: &'static str, object: String, fault: Fault },
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The file to be uploaded cannot be read.
    #[error("cannot read the file to upload")]
    File(#[from] std::io::Error),
}

impl ObjectStoreError {
    pub(super) fn new(act: &'static str, object: &str, fault: Fault) -> ObjectStoreError {
        ObjectStoreError::Request { act, object: object.to_owned(), fault }
    }
}

/// The failure of a request. It never quotes the address, which holds a signature.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    Connection(#[from] EgressError),
    #[error("the connection was lost: {0}")]
    Lost(String),
    #[error("no answer in time")]
    Timeout,
    #[error("the server answered {status}{}{}", shown(.code), advice(.status, .code))]
    Refused { status: StatusCode, code: String },
    #[error("the server began to answer, and then failed{}", shown(.0))]
    Unfinished(String),
    #[error("its answer cannot be used: {0}")]
    Unreadable(&'static str),
    #[error("what the server has of it is not what was sent; it was removed")]
    Differs,
    #[error("the file is another than the one that passed its test")]
    Changed,
    #[error("it was given up: it took too long, or the node stops")]
    GivenUp,
    #[error("a file of {0} bytes has more parts than an object may have")]
    TooLarge(u64),
}

impl Fault {
    /// Whether another attempt may succeed.
    fn may_pass(&self) -> bool {
        match self {
            Fault::Connection(_) | Fault::Lost(_) | Fault::Timeout | Fault::Unfinished(_) => true,
            Fault::Refused { status, .. } => {
                status.is_server_error()
                    || matches!(*status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
            }
            Fault::Unreadable(_) | Fault::Differs | Fault::Changed | Fault::GivenUp | Fault::TooLarge(_) => {
                false
            }
        }
    }
}

fn shown(code: &str) -> String {
    if code.is_empty() { String::new() } else { format!(" ({code})") }
}

/// The next step for an operator.
fn advice(status: &StatusCode, code: &str) -> &'static str {
    match (code, status) {
        ("SignatureDoesNotMatch" | "InvalidAccessKeyId", _) => "; check access key and secret",
        ("RequestTimeTooSkewed", _) => "; set the clock of this machine",
        ("NoSuchBucket", _) => "; make the bucket, or name another",
        ("AuthorizationHeaderMalformed" | "AuthorizationQueryParametersError" | "PermanentRedirect", _) => {
            "; name the region and the endpoint of the bucket"
        }
        (_, status) if status.is_redirection() => "; name the region and the endpoint of the bucket",
        ("ExpiredToken" | "InvalidToken", _) => "; renew the session's token",
        (_, &StatusCode::FORBIDDEN) => {
            "; the access key needs the rights to list the bucket, and to get, put, delete and abort uploads of objects"
        }
        _ => "",
    }
}

/// A document that the server answered.
pub(super) struct Answer {
    pub(super) body: Bytes,
    /// The header `ETag`; empty without one.
    pub(super) etag: String,
}

/// Requests to one server.
pub(super) struct Exchange {
    target: Target,
    /// See [`PAUSE_MIN`]; tests wait less.
    pub(super) pause_min: Duration,
}

impl Exchange {
    pub(super) fn new(target: Target) -> Exchange {
        Exchange { target, pause_min: PAUSE_MIN }
    }

    /// The same, whose server is at `address` whatever its name.
    #[cfg(test)]
    pub(super) fn at(self, address: std::net::SocketAddr) -> Exchange {
        Exchange { target: self.target.at(address), ..self }
    }

    /// Carries out `action` with `body`, and reads the document that answers it.
    pub(super) async fn call<'a>(
        &self,
        action: &(impl S3Action<'a> + Sync),
        body: Bytes,
    ) -> Result<Answer, Fault> {
        let mut attempts = Attempts { failed: 0, pause_min: self.pause_min };
        loop {
            match self.call_once(action, body.clone()).await {
                Ok(answer) => return Ok(answer),
                Err(fault) => attempts.pause(fault).await?,
            }
        }
    }

    /// Carries out `action`, whose answer is an object, and gives it to `receiver`.
    pub(super) async fn read<'a>(
        &self,
        action: &(impl S3Action<'a> + Sync),
        receiver: &mut (impl Receive + Send),
    ) -> Result<(), Fault> {
        let mut attempts = Attempts { failed: 0, pause_min: self.pause_min };
        loop {
            receiver.begin();
            match self.read_once(action, receiver).await {
                Ok(()) => return Ok(()),
                Err(fault) => attempts.pause(fault).await?,
            }
        }
    }

    async fn call_once<'a>(&self, action: &(impl S3Action<'a> + Sync), body: Bytes) -> Result<Answer, Fault> {
        let response = self.send(action, body).await?;
        let etag = response.headers().get(ETAG).and_then(|etag| etag.to_str().ok()).unwrap_or_default();
        let (status, etag) = (response.status(), etag.to_owned());
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect();
        let body = timeout(REQUEST_MAX, body).await.map_err(|_| Fault::Timeout)?;
        let body = body.map_err(|error| Fault::Lost(error.to_string()))?.to_bytes();
        if !status.is_success() {
            return Err(Fault::Refused { status, code: code(&body) });
        }
        // The head of an answer may be sent before the outcome is known.
        match is_error(&body) {
            true => Err(Fault::Unfinished(code(&body))),
            false => Ok(Answer { body, etag }),
        }
    }

    async fn read_once<'a>(
        &self,
        action: &(impl S3Action<'a> + Sync),
        receiver: &mut (impl Receive + Send),
    ) -> Result<(), Fault> {
        let response = self.send(action, Bytes::new()).await?;
        let status = response.status();
        let mut body = response.into_body();
        if !status.is_success() {
            let body = timeout(IDLE_MAX, Limited::new(body, ANSWER_BYTES_MAX).collect()).await;
            let body = body.ok().and_then(Result::ok).map(|body| body.to_bytes()).unwrap_or_default();
            return Err(Fault::Refused { status, code: code(&body) });
        }
        while let Some(frame) = timeout(IDLE_MAX, body.frame()).await.map_err(|_| Fault::Timeout)? {
            let frame = frame.map_err(|error| Fault::Lost(error.to_string()))?;
            if let Ok(piece) = frame.into_data()
                && !receiver.take(&piece)
            {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends `action` once, and reads the head of the answer.
    async fn send<'a>(
        &self,
        action: &(impl S3Action<'a> + Sync),
        body: Bytes,
    ) -> Result<Response<Incoming>, Fault> {
        let url = Url::parse(action.sign(VALIDITY).as_str());
        let url = url.map_err(|_| Fault::Unreadable("the request has no address"))?;
        let request = Request::builder()
            .method(method(action))
            .uri(url.target.as_str())
            .header(HOST, url.authority())
            .header(USER_AGENT, concat!("orch/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(body));
        let request = request.map_err(|_| Fault::Unreadable("the request cannot be sent"))?;
        let answered = timeout(REQUEST_MAX, async {
            let mut connection = self.target.connect(&url).await?;
            connection.send(request).await.map_err(|error| Fault::Lost(error.to_string()))
        });
        answered.await.unwrap_or(Err(Fault::Timeout))
    }
}

/// Takes an object piece by piece.
pub(super) trait Receive {
    /// Begins anew: an attempt before was broken off.
    fn begin(&mut self);
    /// Takes the next piece. Whether more of the object is of use.
    fn take(&mut self, piece: &[u8]) -> bool;
}

/// The attempts of one request.
struct Attempts {
    failed: u32,
    pause_min: Duration,
}

impl Attempts {
    /// Waits after an attempt that failed with `fault`, or returns that where no further one is worth it.
    async fn pause(&mut self, fault: Fault) -> Result<(), Fault> {
        self.failed += 1;
        if self.failed >= ATTEMPTS_MAX || !fault.may_pass() {
            return Err(fault);
        }
        tracing::debug!(%fault, failed = self.failed, "a request to the bucket is tried again");
        sleep(pause(self.pause_min, self.failed)).await;
        Ok(())
    }
}

/// The pause after `failed` attempts.
fn pause(pause_min: Duration, failed: u32) -> Duration {
    let least = pause_min * 2_u32.pow(failed.saturating_sub(1).min(ATTEMPTS_MAX));
    least + least.mul_f64(rand::rng().random::<f64>())
}

fn method<'a, A: S3Action<'a>>(_action: &A) -> http::Method {
    match A::METHOD {
        rusty_s3::Method::Head => http::Method::HEAD,
        rusty_s3::Method::Get => http::Method::GET,
        rusty_s3::Method::Post => http::Method::POST,
        rusty_s3::Method::Put => http::Method::PUT,
        rusty_s3::Method::Delete => http::Method::DELETE,
    }
}

/// Whether a document that came with a success is an error.
fn is_error(document: &[u8]) -> bool {
    document.windows(7).take(512).any(|part| part == b"<Error>")
}

/// The code in the document of a refusal; empty where it has none that may be shown.
fn code(document: &[u8]) -> String {
    let text = String::from_utf8_lossy(document);
    let code = text.split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    let is_code =
        |code: &&str| code.len() <= CODE_CHARACTERS_MAX && code.chars().all(|c| c.is_ascii_alphanumeric());
    code.map(|(code, _)| code).filter(is_code).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_shows_its_code_and_nothing_else_of_the_answer() {
        let document =
            b"<?xml version=\"1.0\"?><Error><Code>NoSuchBucket</Code><Message>s3cret</Message></Error>";
        assert_eq!(code(document), "NoSuchBucket");
        assert!(is_error(document));
        for odd in [&b"<Code>a b</Code>"[..], b"<Code>\x1b[2J</Code>", b"<Code>", b"", b"\xff"] {
            assert_eq!(code(odd), "");
        }
        let told = Fault::Refused { status: StatusCode::NOT_FOUND, code: code(document) }.to_string();
        assert!(
            told.contains("404") && told.contains("make the bucket") && !told.contains("s3cret"),
            "{told}"
        );
    }

    #[test]
    fn pauses_grow_and_only_failures_that_pass_are_tried_again() {
        let bounds = |failed| {
            let pauses: Vec<Duration> = (0..50).map(|_| pause(PAUSE_MIN, failed)).collect();
            (*pauses.iter().min().unwrap(), *pauses.iter().max().unwrap())
        };
        for failed in 1..ATTEMPTS_MAX {
            let least = PAUSE_MIN * 2_u32.pow(failed - 1);
            let (shortest, longest) = bounds(failed);
            assert!(shortest >= least && longest <= least * 2, "{failed}: {shortest:?} {longest:?}");
        }
        let refused = |status| Fault::Refused { status, code: String::new() };
        assert!(refused(StatusCode::SERVICE_UNAVAILABLE).may_pass());
        assert!(refused(StatusCode::TOO_MANY_REQUESTS).may_pass());
        assert!(!refused(StatusCode::FORBIDDEN).may_pass());
        assert!(!refused(StatusCode::NOT_FOUND).may_pass());
    }
}
