//! Headers of requests as text.

use http::HeaderMap;
use http::header::{ACCEPT, HeaderName};

/// The first header `name`; empty if there is none, or if it is no text.
pub(super) fn header_text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
}

/// All `Accept` headers joined.
pub(super) fn accept(headers: &HeaderMap) -> Option<String> {
    let texts: Vec<&str> = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    if texts.is_empty() { None } else { Some(texts.join(",")) }
}
