//! Compression of large responses for clients that accept it.
//!
//! Owns the choice: responses of known length over a threshold. Watches are never compressed, because their events must
//! arrive one by one; nor what another server answers. Compressing small responses costs more than it saves. A body that is
//! sent as it is keeps nothing of the encoder's state, which would be a fifteenth of what a watch holds.

use axum::body::Body;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH};
use http::{Extensions, HeaderMap, Response, StatusCode, Version};
use tower::util::MapResponseLayer;
use tower_http::CompressionLevel;
use tower_http::compression::{CompressionBody, CompressionLayer};

use super::WatchResponse;
use crate::registry::discovery::COMPRESS_FROM_BYTES;

/// Compression level: fast, because the server's time is dearer than the network's bytes.
const LEVEL: i32 = 1;

type Large = fn(StatusCode, Version, &HeaderMap, &Extensions) -> bool;

type Unwrap = fn(Response<CompressionBody<Body>>) -> Response<Body>;

/// The layers that compress. The outer one takes bodies that are sent as they are out of the inner one's.
pub(super) fn layer() -> (MapResponseLayer<Unwrap>, CompressionLayer<Large>) {
    let compression =
        CompressionLayer::new().quality(CompressionLevel::Precise(LEVEL)).compress_when(is_large as Large);
    (MapResponseLayer::new(unwrap as Unwrap), compression)
}

/// `response` with its own body, unless that is compressed.
fn unwrap(response: Response<CompressionBody<Body>>) -> Response<Body> {
    let is_encoded = response.headers().contains_key(CONTENT_ENCODING);
    response.map(|mut body| if is_encoded { Body::new(body) } else { std::mem::take(body.get_mut()) })
}

fn is_large(_: StatusCode, _: Version, headers: &HeaderMap, extensions: &Extensions) -> bool {
    if extensions.get::<WatchResponse>().is_some() {
        return false;
    }
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    length.and_then(|text| text.parse::<usize>().ok()).is_some_and(|length| length >= COMPRESS_FROM_BYTES)
}
