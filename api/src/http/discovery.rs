//! Responses with discovery documents: which document, its representation, and whether the client has it already.
//!
//! Owns the choice between plain and aggregated documents by `Accept`. `crate::registry::discovery` makes them.

use axum::body::Body;
use bytes::Bytes;
use http::{Method, Response, header};
use orch_proto::Brand;

use super::headers::{accept, header_text};
use super::openapi::takes_gzip;
use super::respond;
use super::stages::Arrived;
use crate::aggregation::Merged;
use crate::error::ApiError;
use crate::negotiate::{Encoding, JSON, Representation, clauses, encoding_of, negotiate_whole, wants_pretty};
use crate::registry::discovery::{Aggregated, GROUP_STEM, LIST_KIND, LIST_MESSAGE, Plain, VERSIONS};
use crate::render::{meta_document, whole_document};

/// Whether the document at `path` may tell of groups that aggregated servers have.
pub(super) fn may_be_merged(path: &str) -> bool {
    let group = path.strip_prefix(NAMED).and_then(|rest| rest.strip_prefix('/'));
    path == NAMED || group.is_some_and(|group| !group.contains('/'))
}

/// The path of the named groups.
const NAMED: &str = "/apis";

/// The response with the document at `path`, which has no trailing slash. `merged`: the documents in place of the registry's.
///
/// # Errors
/// `UnknownPath`, `NoPage`: there is none. `MethodNotAllowed`: the method is no read.
pub(super) async fn answer(
    arrived: &Arrived,
    path: &str,
    merged: Option<&Merged>,
) -> Result<Response<Body>, ApiError> {
    let registry = &arrived.served().registry;
    if let Some(making) = registry.discovery_to_make(path) {
        // Definitions may give a group thousands of resources: a thread for blocking work does that once.
        let (own, place) = (registry.clone(), path.to_owned());
        making.make_once(move || own.make_discovery(&place)).await;
        if registry.discovery_to_make(path).is_some() {
            return Err(ApiError::Internal(format!("discovery at {path} cannot be made")));
        }
    }
    let found = match merged {
        _ if path == "/api" => Some(&arrived.served().node.versions),
        Some(merged) if path == NAMED => Some(&merged.groups),
        Some(merged) => {
            path.rsplit('/').next().and_then(|group| merged.group(group)).or(registry.discovery(path))
        }
        None => registry.discovery(path),
    };
    let Some(document) = found else { return Err(arrived.not_found_error()) };
    if arrived.method != Method::GET && arrived.method != Method::HEAD {
        return Err(ApiError::MethodNotAllowed);
    }
    let accept = accept(&arrived.headers);
    let aggregated = aggregated_version(path, accept.as_deref().unwrap_or_default(), registry.brand);
    if let Some((version, encoding)) = aggregated
        && let Some(found) = match merged {
            Some(merged) if path == NAMED => merged.aggregated(version),
            _ => registry.aggregated_discovery(path == "/api", version),
        }
    {
        return Ok(answer_aggregated(found, encoding, arrived));
    }
    answer_plain(document, arrived, accept.as_deref())
}

/// Whether the document at `path` is made of several groups.
fn is_over_all(path: &str) -> bool {
    path == "/api" || path == "/apis"
}

/// The version, by its place in [`VERSIONS`], and the encoding of the aggregated document that `accept` asks for at `path`.
/// `None`: `accept` prefers the plain document, or `path` is neither root.
fn aggregated_version(path: &str, accept: &str, brand: &Brand) -> Option<(usize, Encoding)> {
    if !is_over_all(path) {
        return None;
    }
    for clause in clauses(accept) {
        let Some(encoding) = encoding_of(clause.media_type, brand) else { continue };
        let is_group = clause.parameter("g") == brand.group(GROUP_STEM);
        let version = VERSIONS.iter().position(|version| clause.parameter("v") == *version);
        match (clause.parameter("as"), version) {
            ("", _) => return None,
            (LIST_KIND, Some(version)) if is_group => return Some((version, encoding)),
            _ => {}
        }
    }
    None
}

/// A plain discovery document in the representation that the client asks for.
fn answer_plain(
    document: &Plain,
    arrived: &Arrived,
    accept: Option<&str>,
) -> Result<Response<Body>, ApiError> {
    let registry = &arrived.served().registry;
    let agent = header_text(&arrived.headers, &header::USER_AGENT);
    let representation = negotiate_whole(accept, agent, &arrived.query, registry.brand)?;
    let bytes = meta_document(document.kind, &document.value, representation, &registry.schema);
    Ok(respond::bytes(200, representation.media_type(registry.brand), bytes))
}

/// An aggregated discovery document, or 304 if the client has it.
fn answer_aggregated(found: &Aggregated, encoding: Encoding, arrived: &Arrived) -> Response<Body> {
    let registry = &arrived.served().registry;
    if respond::is_known(&arrived.headers, &found.etag) {
        let mut response = respond::not_modified();
        respond::set_etag(&mut response, &found.etag);
        return response;
    }
    let pretty = wants_pretty(&arrived.query, header_text(&arrived.headers, &header::USER_AGENT));
    let representation = Representation { encoding, pretty, ..JSON };
    let media_type = representation.media_type(registry.brand);
    let is_plain = encoding == Encoding::Json && !pretty;
    let compressed = found.compressed().filter(|_| is_plain && takes_gzip(&arrived.headers));
    let mut response = match compressed {
        Some(compressed) => pieces(media_type, compressed),
        None if is_plain => pieces(media_type, found.frames()),
        None => {
            let document = whole_document(LIST_MESSAGE, &found.value(), representation, &registry.schema);
            respond::bytes(200, media_type, document)
        }
    };
    let content_type = format!("{media_type}{}", found.parameters);
    respond::put(response.headers_mut(), header::CONTENT_TYPE, &content_type);
    respond::set_etag(&mut response, &found.etag);
    if compressed.is_some() {
        respond::put(response.headers_mut(), header::CONTENT_ENCODING, "gzip");
        respond::put(response.headers_mut(), header::VARY, "Accept, Accept-Encoding");
    }
    response
}

/// A response with a document in pieces, which are shared.
fn pieces(media_type: &'static str, pieces: &[Bytes]) -> Response<Body> {
    let length = pieces.iter().map(Bytes::len).sum();
    respond::frames(200, media_type, length, pieces.to_vec().into_iter())
}
