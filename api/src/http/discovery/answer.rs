//! Responses with discovery documents: their representation, and whether the client has them already.

use axum::body::Body;
use http::{Response, header};

use super::super::headers::header_text;
use super::super::respond;
use super::super::stages::Arrived;
use super::{Aggregated, LIST_MESSAGE, Plain};
use crate::error::ApiError;
use crate::negotiate::{Encoding, JSON, Representation, negotiate_whole, wants_pretty};
use crate::render::{meta_document, whole_document};

/// A plain discovery document in the representation that the client asks for.
pub(in crate::http) fn answer_plain(
    document: &Plain,
    arrived: &Arrived,
    accept: Option<&str>,
) -> Result<Response<Body>, ApiError> {
    let registry = &arrived.served.registry;
    let agent = header_text(&arrived.headers, &header::USER_AGENT);
    let representation = negotiate_whole(accept, agent, &arrived.query, registry.brand)?;
    let bytes = meta_document(document.kind, &document.value, representation, &registry.schema);
    Ok(respond::bytes(200, representation.media_type(registry.brand), bytes))
}

/// An aggregated discovery document, or 304 if the client has it.
pub(in crate::http) fn answer_aggregated(
    found: &Aggregated,
    encoding: Encoding,
    arrived: &Arrived,
) -> Response<Body> {
    let registry = &arrived.served.registry;
    let mut response = if respond::is_known(&arrived.headers, &found.etag) {
        respond::not_modified()
    } else {
        let pretty = wants_pretty(&arrived.query, header_text(&arrived.headers, &header::USER_AGENT));
        let representation = Representation { encoding, pretty, ..JSON };
        let media_type = representation.media_type(registry.brand);
        let document = whole_document(LIST_MESSAGE, &found.value, representation, &registry.schema);
        let mut response = respond::bytes(200, media_type, document);
        let content_type = format!("{media_type}{}", found.parameters);
        respond::put(response.headers_mut(), header::CONTENT_TYPE, &content_type);
        response
    };
    respond::set_etag(&mut response, &found.etag);
    response
}
