//! One request and its answer over a connection.
//!
//! Owns the bounds of heads and bodies. A status is returned as it is: a redirect is an answer like any other.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use orch_api::egress::{ANSWER_BYTES_MAX, EgressError, Outgoing, Reply};
use tokio::io::{AsyncRead, AsyncWrite};

/// Bytes of an answer's head, and of what is read ahead of it.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// An open connection that carries one request at a time.
pub(crate) struct Sender(SendRequest<Full<Bytes>>);

impl Sender {
    /// The connection over `stream`. Its task ends with the sender.
    pub(super) async fn over<S>(stream: S) -> Result<Sender, hyper::Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let mut builder = Builder::new();
        builder.max_buf_size(HEAD_BYTES_MAX);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
        // The connection's errors show at the request that it carries.
        tokio::spawn(connection);
        Ok(Sender(sender))
    }

    /// Sends `request` as it is. The caller bounds the time, and what is read of the answer.
    pub(crate) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, hyper::Error> {
        self.0.send_request(request).await
    }

    pub(super) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    pub(super) fn is_ready(&self) -> bool {
        self.0.is_ready()
    }
}

/// Sends `request` and reads the answer. The connection is ready for another one afterwards, or closed.
pub(super) async fn exchange(
    sender: &mut Sender,
    request: &Outgoing,
    authorization: Option<HeaderValue>,
) -> Result<Reply, EgressError> {
    let host = || request.url.host.clone();
    let lost = |reason: String| EgressError::Lost { host: host(), reason };
    let outgoing = http_request(request, authorization).map_err(|error| lost(error.to_string()))?;
    let response = sender.0.send_request(outgoing).await.map_err(|error| lost(error.to_string()))?;
    let (status, retry_after) = (response.status().as_u16(), retry_after(response.headers()));
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
        Some(_) => EgressError::TooLarge { host: host() },
        None => lost(error.to_string()),
    })?;
    // A connection whose body ended may need a moment until it takes the next request; one that fails here is closed.
    let _ = sender.0.ready().await;
    Ok(Reply { status, retry_after, body: body.to_bytes() })
}

fn http_request(
    request: &Outgoing,
    authorization: Option<HeaderValue>,
) -> Result<Request<Full<Bytes>>, http::Error> {
    let method = if request.document.is_some() { Method::POST } else { Method::GET };
    let mut builder = Request::builder()
        .method(method)
        .uri(request.url.target.as_str())
        .header(HOST, request.url.authority())
        .header(ACCEPT, "application/json")
        .header(USER_AGENT, concat!("orch/", env!("CARGO_PKG_VERSION")));
    if request.document.is_some() {
        builder = builder.header(CONTENT_TYPE, "application/json");
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
