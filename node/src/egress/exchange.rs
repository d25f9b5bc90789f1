//! One request and its answer over a connection.
//!
//! Owns the bounds of heads and bodies. A status is returned as it is: a redirect is an answer like any other.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::rt::Executor;
use hyper_util::rt::{TokioIo, TokioTimer};
use orch_api::egress::{EgressError, Outgoing, Reply};
use tokio::io::{AsyncRead, AsyncWrite};

use super::lasting::{Life, life};

/// Bytes of an answer's head, and of what is read ahead of it.
pub(super) const HEAD_BYTES_MAX: u32 = 64 << 10;

/// Time between two looks whether a connection of HTTP/2 still lives, and the wait for the answer: a dead one is left before
/// the next requests wait for their time-outs on it.
pub(super) const ALIVE_EVERY: Duration = Duration::from_secs(20);
/// See [`ALIVE_EVERY`].
pub(super) const ALIVE_WITHIN: Duration = Duration::from_secs(5);

/// Greatest age of a connection that takes a new request. Behind it the name is resolved, and the certificate verified, anew: a server
/// that moved, or lost its trust, is not asked for as long as somebody asks it.
const AGE_MAX: Duration = Duration::from_secs(600);

/// Whether a connection that was `opened` then takes no new request.
pub(super) fn is_old(opened: Instant) -> bool {
    opened.elapsed() >= AGE_MAX
}

/// An open connection.
pub(crate) struct Sender {
    wire: Wire,
    opened: Instant,
}

enum Wire {
    /// One request at a time.
    One(http1::SendRequest<Full<Bytes>>),
    /// Several requests at once. The connection ends with those who hold its life.
    Several(http2::SendRequest<Full<Bytes>>, Life),
}

/// The reason why a request over an open connection has no answer.
pub(super) enum Unanswered {
    /// The connection had ended before the request was sent: it may be sent over another one.
    Unsent(EgressError),
    Failed(EgressError),
}

impl From<Unanswered> for EgressError {
    fn from(unanswered: Unanswered) -> EgressError {
        let (Unanswered::Unsent(error) | Unanswered::Failed(error)) = unanswered;
        error
    }
}

impl Sender {
    fn new(wire: Wire) -> Sender {
        Sender { wire, opened: Instant::now() }
    }

    /// Whether it may take a new request.
    pub(super) fn is_usable(&self) -> bool {
        !self.is_closed() && !is_old(self.opened)
    }

    /// The same, as if it had been opened before the greatest age.
    #[cfg(test)]
    pub(super) fn aged(self) -> Sender {
        Sender { opened: self.opened.checked_sub(AGE_MAX).expect("the clock began before"), ..self }
    }

    /// The connection over `stream`, of HTTP/2 where both sides agreed on it. Its task ends with the sender.
    pub(super) async fn over<S>(stream: S, is_http2: bool) -> Result<Sender, hyper::Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        // The connection's errors show at the requests that it carries.
        if is_http2 {
            let (life, tasks) = life();
            let mut builder = http2::Builder::new(tasks.clone());
            builder.timer(TokioTimer::new()).keep_alive_interval(ALIVE_EVERY);
            builder.keep_alive_timeout(ALIVE_WITHIN).max_header_list_size(HEAD_BYTES_MAX);
            let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
            tasks.execute(connection);
            return Ok(Sender::new(Wire::Several(sender, life)));
        }
        let mut builder = http1::Builder::new();
        builder.max_buf_size(HEAD_BYTES_MAX as usize);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Sender::new(Wire::One(sender)))
    }

    /// Sends `request` as it is. The caller bounds the time, and what is read of the answer.
    pub(crate) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, hyper::Error> {
        match &mut self.wire {
            Wire::One(sender) => sender.send_request(request).await,
            Wire::Several(sender, _) => sender.send_request(request).await,
        }
    }

    fn is_closed(&self) -> bool {
        match &self.wire {
            Wire::One(sender) => sender.is_closed(),
            Wire::Several(sender, _) => sender.is_closed(),
        }
    }

    pub(super) fn is_ready(&self) -> bool {
        match &self.wire {
            Wire::One(sender) => sender.is_ready(),
            Wire::Several(sender, _) => sender.is_ready(),
        }
    }

    /// The same connection for another request; `None` where it carries one at a time.
    pub(super) fn shared(&self) -> Option<Sender> {
        match &self.wire {
            Wire::One(_) => None,
            Wire::Several(sender, life) => {
                Some(Sender { wire: Wire::Several(sender.clone(), life.clone()), opened: self.opened })
            }
        }
    }

    /// Whether it carries several requests at once.
    pub(super) fn is_shared(&self) -> bool {
        self.life().is_some()
    }

    /// The life of a connection that carries several requests at once.
    pub(super) fn life(&self) -> Option<&Life> {
        match &self.wire {
            Wire::One(_) => None,
            Wire::Several(_, life) => Some(life),
        }
    }

    /// Sends `request` and reads the answer, of at most `answer_bytes_max` of body. The connection is ready for another one
    /// afterwards, or closed.
    pub(super) async fn exchange(
        &mut self,
        request: &Outgoing,
        authorization: Option<HeaderValue>,
        answer_bytes_max: usize,
    ) -> Result<Reply, Unanswered> {
        let host = || request.url.host.clone();
        let lost = |reason: String| EgressError::Lost { host: host(), reason };
        let outgoing = http_request(request, authorization, self.is_shared());
        let outgoing = outgoing.map_err(|error| Unanswered::Failed(lost(error.to_string())))?;
        let response = match &mut self.wire {
            Wire::One(sender) => sender.try_send_request(outgoing).await,
            Wire::Several(sender, _) => sender.try_send_request(outgoing).await,
        };
        let response = response.map_err(|mut error| {
            let is_unsent = error.take_message().is_some();
            let error = lost(error.into_error().to_string());
            if is_unsent { Unanswered::Unsent(error) } else { Unanswered::Failed(error) }
        })?;
        let (status, retry_after) = (response.status().as_u16(), retry_after(response.headers()));
        let body = Limited::new(response.into_body(), answer_bytes_max).collect().await;
        let body = body.map_err(|error| {
            Unanswered::Failed(match error.downcast_ref::<LengthLimitError>() {
                Some(_) => EgressError::TooLarge { host: host() },
                None => lost(error.to_string()),
            })
        })?;
        if let Wire::One(sender) = &mut self.wire {
            // A connection whose body ended may need a moment until it takes the next request; one that fails here is closed.
            let _ = sender.ready().await;
        }
        Ok(Reply { status, retry_after, body: body.to_bytes() })
    }
}

fn http_request(
    request: &Outgoing,
    authorization: Option<HeaderValue>,
    is_http2: bool,
) -> Result<Request<Full<Bytes>>, http::Error> {
    let method = if request.document.is_some() { Method::POST } else { Method::GET };
    let mut builder = Request::builder().method(method);
    // Scheme and host are part of the request in HTTP/2, and a header before.
    builder = match is_http2 {
        true => builder.uri(request.url.to_string()),
        false => builder.uri(request.url.target.as_str()).header(HOST, request.url.authority()),
    };
    builder = builder
        .header(ACCEPT, "application/json")
        .header(USER_AGENT, concat!("orch/", env!("CARGO_PKG_VERSION")));
    if request.document.is_some() {
        builder = builder.header(CONTENT_TYPE, "application/json");
    }
    if let Some(trace) = &request.trace {
        builder = builder.header(orch_spans::HEADER, trace.to_string());
        if !trace.state.as_str().is_empty() {
            builder = builder.header(orch_spans::STATE_HEADER, trace.state.as_str());
        }
    }
    if let Some(authorization) = authorization {
        builder = builder.header(AUTHORIZATION, authorization);
    }
    builder.body(Full::new(request.document.clone().unwrap_or_default()))
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use orch_spans::{TraceContext, TraceState};

    use super::*;

    #[test]
    fn a_server_is_told_of_the_span_and_of_what_others_noted_about_its_trace() {
        let headers = |state: &str| {
            let context = TraceContext {
                trace_id: 7,
                span_id: 9,
                is_sampled: false,
                state: TraceState::parse([state]),
            };
            let url = orch_api::egress::Url::parse("https://h.example/a").unwrap();
            let request =
                Outgoing { url, document: None, timeout: Duration::from_secs(1), trace: Some(context) };
            http_request(&request, None, false).unwrap().headers().clone()
        };
        let told = headers("a=1");
        assert_eq!(told[orch_spans::HEADER], "00-00000000000000000000000000000007-0000000000000009-00");
        assert_eq!(told[orch_spans::STATE_HEADER], "a=1");
        assert!(!headers("").contains_key(orch_spans::STATE_HEADER));
    }
}
