//! Paths of requests for aggregated servers, as they are passed on.
//!
//! Owns which paths are passed on, and how they are written. Another server may read a path in its own way: it may decode it once more,
//! drop empty segments, cut parameters off, or take a backslash for a slash. A path that such a server could read as another one than
//! was authorized is refused, and the others are written anew from the segments that were authorized.
//!
//! Invariant: a path that is passed on parses to the target by which it was authorized, and a path that names no resource is passed on
//! only where it is that of the documents of a group and version.

use percent_encoding::percent_decode_str;

use crate::connect::path::encoded;
use crate::error::ApiError;
use crate::openapi::VERSION_3;
use crate::request::{SEGMENTS_MAX, TargetPath, parse_path};

/// Segments of the path of a group and version: `apis/GROUP/VERSION`.
const DOCUMENT_SEGMENTS: usize = 3;

/// `path`, decoded once and encoded anew.
///
/// # Errors
/// `BadRequest`: servers may read it in different ways. `NoPage`: it names no resource and no document of a group and version.
pub(crate) fn passed_path(path: &str) -> Result<String, ApiError> {
    let refused = |reason: &str| Err(ApiError::BadRequest(format!("the path is not passed on: {reason}")));
    let Ok(decoded) = percent_decode_str(path).decode_utf8() else {
        return refused("it holds escapes that are not UTF-8");
    };
    let inner = decoded.strip_prefix('/').unwrap_or(&decoded);
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    if inner.split('/').nth(SEGMENTS_MAX).is_some() {
        return refused("it has too many segments");
    }
    if let Some(fault) = inner.split('/').find_map(fault_of) {
        return refused(fault);
    }
    match parse_path(path) {
        TargetPath::Resource(_) => Ok(encoded(&decoded)),
        TargetPath::Other if is_document(&decoded) => Ok(encoded(&decoded)),
        TargetPath::Other | TargetPath::Malformed => Err(ApiError::NoPage),
    }
}

/// The reason why servers may read `segment`, decoded, in different ways.
fn fault_of(segment: &str) -> Option<&'static str> {
    // Some servers cut parameters (`;x`) off before they read a segment.
    match segment.split(';').next().unwrap_or_default() {
        "" => return Some("it has empty segments"),
        "." | ".." => return Some("it has segments of dots"),
        _ => {}
    }
    if segment.contains('\\') {
        return Some("it has backslashes");
    }
    // No name of an object has one; what is left of an escape after decoding could be decoded again.
    if segment.contains('%') {
        return Some("it is escaped twice");
    }
    segment.contains(char::is_control).then_some("it has control characters")
}

/// Whether `path`, decoded, is that of the documents of a group and version, or of their OpenAPI document.
fn is_document(path: &str) -> bool {
    let path = path.strip_prefix(VERSION_3).unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    path.strip_prefix('/').is_some_and(|path| path.split('/').count() == DOCUMENT_SEGMENTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const VERSION: &str = "/apis/a.example.com/v1";

    #[test]
    fn a_path_that_is_passed_on_names_what_was_authorized() {
        for (rest, passed) in [
            ("", ""),
            ("/", "/"),
            ("/things", "/things"),
            ("/things/", "/things/"),
            ("/things%2fx", "/things/x"),
            ("/things%2Fx%2f", "/things/x/"),
            ("/thing%73/a%20b", "/things/a%20b"),
            ("/namespaces/n%2Fthings/x;y", "/namespaces/n/things/x;y"),
            ("/things/a%3fb%23c", "/things/a%3Fb%23c"),
            ("/namespaces/n/pods/*/m.n:o|p", "/namespaces/n/pods/%2A/m.n:o%7Cp"),
            ("/things/...", "/things/..."),
            ("/things/%C3%A4", "/things/%C3%A4"),
        ] {
            let path = format!("{VERSION}{rest}");
            let found = passed_path(&path).unwrap();
            assert_eq!(found, format!("{VERSION}{passed}"));
            assert_eq!(parse_path(&found), parse_path(&path), "{path}");
        }
        let documents = format!("{VERSION_3}{VERSION}");
        assert_eq!(passed_path(&documents).unwrap(), documents);
    }

    #[test]
    fn paths_that_servers_read_in_different_ways_are_refused() {
        let long = |segments: usize| format!("/things/x/y{}", "/a".repeat(segments - 6));
        assert!(passed_path(&format!("{VERSION}{}", long(SEGMENTS_MAX))).is_ok());
        for rest in [
            "//things",
            "/things//x",
            "/things//",
            "//",
            "/%2fthings",
            "/things%2f%2fx",
            "/things%2f/",
            &long(SEGMENTS_MAX + 1),
            "/things/../x",
            "/things/%2e%2E/x",
            "/things/.",
            "/things/%2e",
            "/things/..%2fx",
            "/things/%252e%252e/x",
            "/things/%252fx",
            "/things/..;/x",
            "/things/..;a=b/x",
            "/things/%2e%2e%3b/x",
            "/;a/things",
            "/things/..\\x",
            "/things/%5cx",
            "/things/x%00",
            "/things/x%0d%0ay",
            "/things/%ff",
        ] {
            let refused = passed_path(&format!("{VERSION}{rest}"));
            assert!(matches!(refused, Err(ApiError::BadRequest(_))), "{rest}: {refused:?}");
        }
    }

    #[test]
    fn paths_of_no_resource_are_passed_on_for_documents_alone() {
        for path in [
            format!("{VERSION}/watch"),
            format!("{VERSION_3}{VERSION}/things"),
            "/apis/a.example.com".to_owned(),
            "/healthz/a/b/c".to_owned(),
        ] {
            let refused = passed_path(&path);
            assert!(matches!(refused, Err(ApiError::NoPage)), "{path}: {refused:?}");
        }
    }
}
