//! Requests of this server's own to aggregated servers, for loops.
//!
//! Owns the form of such a request, its time and how much of the answer is read.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::future::{Either, select};
use http::header::{ACCEPT, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::request::Builder;
use http::{Method, Request};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use orch_raft::Store;
use orch_schema::value::Value;

use super::super::client::Client;
use crate::admission::View;
use crate::aggregation::identity::aggregator;
use crate::aggregation::{Remote, own_request};

/// Longest wait for an answer: the reference's.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Bytes of a document that are read.
const DOCUMENT_BYTES_MAX: usize = 3 << 20;

const JSON: &str = "application/json";

/// The answer of an aggregated server.
pub(in crate::controllers) struct Answer {
    /// Status code.
    pub(in crate::controllers) code: u16,
    pub(in crate::controllers) content_type: String,
    /// The document, where it is JSON of bounded size.
    pub(in crate::controllers) document: Option<Value>,
}

/// The same before its document is read.
pub(in crate::controllers) struct Unread {
    /// Status code.
    pub(in crate::controllers) code: u16,
    content_type: String,
    /// By which the server knows this version of the document; empty where it says nothing.
    pub(super) etag: String,
    /// `None` where it is larger than its bound, or broke off.
    pub(in crate::controllers) body: Option<Bytes>,
    /// It broke off before its end.
    pub(in crate::controllers) is_torn: bool,
}

impl Unread {
    fn read(self) -> Answer {
        let Unread { code, content_type, body, .. } = self;
        let document = body.and_then(|body| serde_json::from_slice::<Value>(&body).ok());
        Answer { code, content_type, document }
    }
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
    Some(ask_unread(client, remote, asked, accept).await?.read())
}

/// The same, without reading the document.
pub(in crate::controllers) async fn ask_unread<S: Store>(
    client: &Client<S>,
    remote: &Remote,
    asked: (Method, &str),
    accept: &str,
) -> Option<Unread> {
    ask_unless(client, remote, asked, (accept, "")).await
}

/// The same, with a document of the media type `content_type` as what is sent.
pub(in crate::controllers) async fn ask_with<S: Store>(
    client: &Client<S>,
    remote: &Remote,
    (method, target): (Method, &str),
    (content_type, document): (&str, &Value),
) -> Option<Answer> {
    let request = Request::builder().method(method).uri(target).header(ACCEPT, JSON);
    let body = Body::from(document.to_string());
    Some(send(client, remote, request.header(CONTENT_TYPE, content_type), body).await?.read())
}

/// The same, unless the document is still the one that the server knows as `etag`; empty: whatever it is.
pub(super) async fn ask_unless<S: Store>(
    client: &Client<S>,
    remote: &Remote,
    (method, target): (Method, &str),
    (accept, etag): (&str, &str),
) -> Option<Unread> {
    let mut request = Request::builder().method(method).uri(target).header(ACCEPT, accept);
    if !etag.is_empty() {
        request = request.header(IF_NONE_MATCH, etag);
    }
    send(client, remote, request, Body::empty()).await
}

/// Sends `request` with `body`, once.
async fn send<S: Store>(client: &Client<S>, remote: &Remote, request: Builder, body: Body) -> Option<Unread> {
    let (aggregation, brand) = (client.aggregation(), client.registry().brand);
    let server = aggregation.locate(remote, &View::of(client.store()), brand, client.random()).ok()?;
    let request = own_request(&server, &aggregator(brand), request, body).ok()?;
    let relay = aggregation.relay()?.clone();
    let asking = async move {
        let (head, body) = relay.relay(server, request).await.ok()?.into_parts();
        let body = Limited::new(body, DOCUMENT_BYTES_MAX).collect().await;
        let is_torn = body.as_ref().is_err_and(|error| !error.is::<LengthLimitError>());
        let text = |name| {
            head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
        };
        Some(Unread {
            code: head.status.as_u16(),
            content_type: text(CONTENT_TYPE),
            etag: text(ETAG),
            body: body.ok().map(|body| body.to_bytes()),
            is_torn,
        })
    };
    let late = client.store().sleep(ANSWER_MAX);
    match select(Box::pin(asking), Box::pin(late)).await {
        Either::Left((answer, _)) => answer,
        Either::Right(_) => None,
    }
}
