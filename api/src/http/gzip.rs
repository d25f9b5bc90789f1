//! Compression of large responses for clients that accept it.
//!
//! Owns the choice: responses of known length over a threshold. Watches are never compressed, because their events must
//! arrive one by one; nor what another server answers. Compressing small responses costs more than it saves.

use http::header::CONTENT_LENGTH;
use http::{Extensions, HeaderMap, StatusCode, Version};
use tower_http::CompressionLevel;
use tower_http::compression::CompressionLayer;

use super::WatchResponse;

/// Shortest compressed response: the reference's threshold.
const COMPRESS_FROM_BYTES: u64 = 128 * 1024;

/// Compression level: fast, because the server's time is dearer than the network's bytes.
const LEVEL: i32 = 1;

type Large = fn(StatusCode, Version, &HeaderMap, &Extensions) -> bool;

/// The compression layer.
pub(super) fn layer() -> CompressionLayer<Large> {
    CompressionLayer::new().quality(CompressionLevel::Precise(LEVEL)).compress_when(is_large as Large)
}

fn is_large(_: StatusCode, _: Version, headers: &HeaderMap, extensions: &Extensions) -> bool {
    if extensions.get::<WatchResponse>().is_some() {
        return false;
    }
    let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    length.and_then(|text| text.parse::<u64>().ok()).is_some_and(|length| length >= COMPRESS_FROM_BYTES)
}
