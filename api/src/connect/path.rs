//! Paths in backends: made plain, joined and encoded as the reference does.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Bytes that stand in a path as they are.
const PATH: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// Bytes that stand in a value of a query as they are.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// `path` with the bytes escaped that a path cannot hold.
pub(crate) fn encoded(path: &str) -> String {
    utf8_percent_encode(path, PATH).to_string()
}

/// `path` without empty segments, `.` and `..`: what is behind a proxy stays behind it. A slash at the end stays. The empty
/// path stays empty.
pub(crate) fn cleaned(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            other => segments.push(other),
        }
    }
    if path.is_empty() {
        return String::new();
    }
    let mut joined = format!("/{}", segments.join("/"));
    if path.ends_with('/') && !joined.ends_with('/') {
        joined.push('/');
    }
    joined
}

/// A query of `pairs`, sorted by name.
pub(crate) fn query(mut pairs: Vec<(&str, String)>) -> String {
    pairs.sort_by_key(|(name, _)| *name);
    let escaped = |text: &str| utf8_percent_encode(text, QUERY).to_string().replace("%20", "+");
    let pairs: Vec<String> = pairs.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
    pairs.join("&")
}
