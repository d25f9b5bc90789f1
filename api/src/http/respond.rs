//! Responses: bytes with their length, streams, caching headers, `Retry-After`.

use std::any::Any;
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{Stream, stream};
use http::header::{
    CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH, RETRY_AFTER, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::BodyExt;
use parking_lot::Mutex;

use crate::flow::InitialEvents;
use crate::render::Payload;

/// Responses are per user and must not be cached.
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache, private");

/// A response whose body exists as a whole.
pub(super) fn bytes(code: u16, content_type: &'static str, bytes: Bytes) -> Response<Body> {
    let length = HeaderValue::from(bytes.len());
    let mut response = respond(code, content_type, Body::from(bytes));
    response.headers_mut().insert(CONTENT_LENGTH, length);
    response
}

/// A response with a JSON document.
pub(super) fn json(code: u16, document: Bytes) -> Response<Body> {
    bytes(code, "application/json", document)
}

/// The reference's plain-text 404 for paths outside of all APIs.
pub(super) fn no_page() -> Response<Body> {
    let text = Bytes::from_static(b"404 page not found\n");
    let mut response = bytes(404, "text/plain; charset=utf-8", text);
    put(response.headers_mut(), X_CONTENT_TYPE_OPTIONS, "nosniff");
    response
}

/// The reference's plain-text 429 of flow control.
pub(super) fn too_many_requests(retry_after_s: u32) -> Response<Body> {
    let text = Bytes::from_static(b"Too many requests, please try again later.\n");
    let mut response = bytes(429, "text/plain; charset=utf-8", text);
    put(response.headers_mut(), X_CONTENT_TYPE_OPTIONS, "nosniff");
    retry_after(&mut response, retry_after_s);
    response
}

/// Lets clients and proxies cache the response, for each `Accept`. `etag` includes its quotes.
pub(super) fn set_etag(response: &mut Response<Body>, etag: &str) {
    let headers = response.headers_mut();
    put(headers, ETAG, etag);
    put(headers, VARY, "Accept");
    put(headers, CACHE_CONTROL, "public");
}

/// The response 304 Not Modified.
pub(super) fn not_modified() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    response
}

/// Whether `If-None-Match` contains `etag`, which includes its quotes, or `*`.
pub(super) fn is_known(asked: &HeaderMap, etag: &str) -> bool {
    let texts = asked.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut known = texts.flat_map(|text| text.split(',')).map(str::trim);
    known.any(|known| known == "*" || known.trim_start_matches("W/") == etag)
}

/// Sets a header, unless `text` is no valid header value.
pub(super) fn put(headers: &mut HeaderMap, name: HeaderName, text: &str) {
    if let Ok(value) = HeaderValue::from_str(text) {
        headers.insert(name, value);
    }
}

/// A response whose frames are built as the socket takes them.
pub(super) fn payload(code: u16, content_type: &'static str, payload: Payload) -> Response<Body> {
    frames(code, content_type, payload.len(), payload.into_frames())
}

/// A response of `length` bytes, the sum of `frames`.
pub(super) fn frames(
    code: u16,
    content_type: &'static str,
    length: usize,
    mut frames: impl Iterator<Item = Bytes> + Send + 'static,
) -> Response<Body> {
    let first = frames.next().unwrap_or_default();
    if first.len() == length {
        return bytes(code, content_type, first);
    }
    let frames = std::iter::once(first).chain(frames).map(Ok::<Bytes, Infallible>);
    let mut response = respond(code, content_type, Body::from_stream(stream::iter(frames)));
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(length));
    response
}

/// Marks a response, in its extensions, as one that lasts as long as its client stays connected: a watch, or what another
/// server answers. The listener gives clients a time limit to read every other response.
#[derive(Clone, Debug)]
pub struct WatchResponse {
    /// Until the initial events are sent, the time limit applies to the watch, too.
    pub initial_events: InitialEvents,
}

/// Values that are kept until a response that lasts has ended: rooms, counts, the audit's end. Where the connection leaves
/// HTTP with the response, whoever carries its bytes keeps a clone until both sides are closed.
#[derive(Clone, Default)]
pub struct Lasting(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    values: Vec<Box<dyn Any + Send>>,
    end: Option<BoxFuture<'static, ()>>,
}

impl Lasting {
    /// Keeps `value` until the last clone is dropped.
    pub(crate) fn keep(&self, value: impl Any + Send) {
        self.0.lock().values.push(Box::new(value));
    }

    /// Has the connection end with `end`, if it leaves HTTP with the response.
    pub(crate) fn end_with(&self, end: BoxFuture<'static, ()>) {
        self.0.lock().end = Some(end);
    }

    /// The future that ends an upgraded connection, for the task that copies its bytes. Returned once.
    pub fn take_end(&self) -> Option<BoxFuture<'static, ()>> {
        self.0.lock().end.take()
    }
}

/// `response` as one that lasts, with its body streamed as it comes. Unless the other server says so, it is not cached.
pub(super) fn lasting(mut response: Response<Body>, lasting: Lasting) -> Response<Body> {
    response.headers_mut().entry(CACHE_CONTROL).or_insert(NO_CACHE);
    let initial_events = InitialEvents::new(false);
    response.extensions_mut().insert(WatchResponse { initial_events });
    response.extensions_mut().insert(lasting.clone());
    response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            // Moved into the body, and dropped with it.
            let _ = &lasting;
            frame
        }))
    })
}

/// The response 204 No Content.
pub(super) fn no_content() -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(CACHE_CONTROL, NO_CACHE);
    response
}

/// A response whose text comes from another server, piece by piece.
pub(super) fn text_stream(body: Body) -> Response<Body> {
    respond(200, "text/plain", body)
}

/// A response that lasts until the watch ends whose `frames` it sends; `initial_events`: whether it still begins.
pub(super) fn stream(
    content_type: &str,
    initial_events: InitialEvents,
    frames: impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
) -> Response<Body> {
    let mut response = respond(200, "application/json", Body::from_stream(frames));
    response.extensions_mut().insert(WatchResponse { initial_events });
    if let Ok(content_type) = HeaderValue::from_str(content_type) {
        response.headers_mut().insert(CONTENT_TYPE, content_type);
    }
    response
}

/// Sets `Retry-After`, unless `seconds` is 0.
pub(super) fn retry_after(response: &mut Response<Body>, seconds: u32) {
    if seconds > 0 {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
}

fn respond(code: u16, content_type: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(CACHE_CONTROL, NO_CACHE);
    response
}
