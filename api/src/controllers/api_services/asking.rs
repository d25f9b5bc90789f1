//! Requests of this server's own to aggregated servers, for loops.
//!
//! Owns the form of such a request, its time and how much of the answer is read.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::future::{Either, select};
use http::header::{ACCEPT, CONTENT_TYPE, ETAG, HOST, IF_NONE_MATCH, USER_AGENT};
use http::{Method, Request};
use http_body_util::{BodyExt, Limited};
use orch_raft::Store;
use orch_schema::value::Value;

use super::super::client::Client;
use crate::admission::View;
use crate::aggregation::Remote;
use crate::aggregation::identity::{aggregator, name_user};

/// Longest wait for an answer: the reference's.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Bytes of a document that are read.
const DOCUMENT_BYTES_MAX: usize = 3 << 20;

/// The answer of an aggregated server.
pub(in crate::controllers) struct Answer {
    /// Status code.
    pub(in crate::controllers) code: u16,
    pub(in crate::controllers) content_type: String,
    /// The document, where it is JSON of bounded size.
    pub(in crate::controllers) document: Option<Value>,
}

/// The same before its document is read.
pub(super) struct Unread {
    /// Status code.
    pub(super) code: u16,
    content_type: String,
    /// By which the server knows this version of the document; empty where it says nothing.
    pub(super) etag: String,
    /// `None` where it is larger than its bound.
    pub(super) body: Option<Bytes>,
}

impl Answer {
    /// Whether the server did what it was asked.
    pub(in crate::controllers) fn is_success(&self) -> bool {
        matches!(self.code, 200..300)
    }
}

/// Asks the server of `remote`, once, as this server. `None`: there is no answer in time.
pub(in crate::controllers) async fn ask<S: Store>(
    client: &Client<S>,
    remote: &Remote,
    asked: (Method, &str),
    accept: &str,
) -> Option<Answer> {
    let Unread { code, content_type, body, .. } = ask_unless(client, remote, asked, (accept, "")).await?;
    let document = body.and_then(|body| serde_json::from_slice::<Value>(&body).ok());
    Some(Answer { code, content_type, document })
}

/// The same, unless the document is still the one that the server knows as `etag`; empty: whatever it is.
pub(super) async fn ask_unless<S: Store>(
    client: &Client<S>,
    remote: &Remote,
    (method, target): (Method, &str),
    (accept, etag): (&str, &str),
) -> Option<Unread> {
    let (aggregation, brand) = (client.aggregation(), client.registry().brand);
    let server = aggregation.locate(remote, &View::of(client.store()), brand, client.random()).ok()?;
    let mut request = Request::builder()
        .method(method)
        .uri(target)
        .header(HOST, server.authority())
        .header(ACCEPT, accept)
        .header(USER_AGENT, concat!("orch/", env!("CARGO_PKG_VERSION")));
    if !etag.is_empty() {
        request = request.header(IF_NONE_MATCH, etag);
    }
    let mut request = request.body(Body::empty()).ok()?;
    name_user(request.headers_mut(), &aggregator(brand)).ok()?;
    let relay = aggregation.relay()?.clone();
    let asking = async move {
        let (head, body) = relay.relay(server, request).await.ok()?.into_parts();
        let body = Limited::new(body, DOCUMENT_BYTES_MAX).collect().await.ok();
        let text = |name| {
            head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
        };
        Some(Unread {
            code: head.status.as_u16(),
            content_type: text(CONTENT_TYPE),
            etag: text(ETAG),
            body: body.map(|body| body.to_bytes()),
        })
    };
    let late = client.store().sleep(ANSWER_MAX);
    match select(Box::pin(asking), Box::pin(late)).await {
        Either::Left((answer, _)) => answer,
        Either::Right(_) => None,
    }
}
