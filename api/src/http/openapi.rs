//! OpenAPI documents over HTTP: representations, hashes and caching.
//!
//! Owns the headers. Documents are kept compressed, and clients that accept gzip get the compressed bytes.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, EXPIRES, LOCATION, VARY,
};
use http::{HeaderMap, Method, Response, StatusCode};
use orch_proto::Brand;
use orch_schema::json;
use orch_schema::value::Value;
use time::OffsetDateTime;
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;

use super::headers::accept;
use super::node_documents::Served;
use super::respond;
use super::stages::Arrived;
use crate::aggregation::Aggregation;
use crate::ambient::Timestamp;
use crate::document;
use crate::error::ApiError;
use crate::negotiate::clauses;
use crate::openapi::{Document, Form, VERSION_2, VERSION_3, url};

/// Paths at and below which documents lie.
pub(super) const ROOTS: [&str; 2] = [VERSION_2, VERSION_3];

/// Media type of the Protobuf form of version 2, and its alias, which most clients send.
const PROTOBUF_2: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
];

/// Media type of the Protobuf form of version 3, and its older alias.
const PROTOBUF_3: [&str; 2] = [
    "application/com.github.proto-openapi.spec.v3.v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v3@v1.0+protobuf",
];

/// Seconds for which a client may cache a document requested by hash, which never changes.
const KEPT_SECONDS: u64 = 365 * 24 * 3600;

/// Format of dates in headers.
const DATE: &[BorrowedFormatItem<'_>] =
    format_description!("[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT");

/// Whether `path` is at or below a root of OpenAPI documents, served or not.
pub(super) fn is_openapi_path(path: &str) -> bool {
    ROOTS
        .iter()
        .any(|root| path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/')))
}

/// The additions of aggregated servers to a document.
pub(super) enum Beside {
    /// Entries of the index besides this server's, the path of each document and where it is.
    Entries(Vec<(String, String)>),
    /// The documents of these APIServices are merged into this server's of version 2.
    Documents {
        /// Holds these documents.
        aggregation: Aggregation,
        names: Vec<Arc<str>>,
        brand: &'static Brand,
    },
    /// The document was made for the server of this APIService, and this server has none at the path.
    Instead {
        /// Holds the document.
        aggregation: Aggregation,
        name: Arc<str>,
    },
}

/// The response to a request for the document at `path`, which has no empty segments.
pub(super) async fn answer(
    arrived: &Arrived,
    path: &str,
    now: Timestamp,
    beside: Beside,
) -> Result<Response<Body>, ApiError> {
    let Some(form) = form(path, accept(&arrived.headers).as_deref()) else {
        return Ok(empty(StatusCode::NOT_ACCEPTABLE));
    };
    let served = || arrived.served().clone();
    let document = match beside {
        Beside::Instead { aggregation, name } => match aggregation.documents().version3(&name, form) {
            Some(document) => document,
            None => return Ok(empty(StatusCode::NOT_ACCEPTABLE)),
        },
        Beside::Entries(elsewhere) => {
            let own = find(served(), path, form).await?;
            match elsewhere.is_empty() {
                true => own,
                false => on_blocking_thread(path, move || indexed(&own, &elsewhere)).await?,
            }
        }
        Beside::Documents { aggregation, names, brand } => {
            let asked = find(served(), path, form).await?;
            match names.is_empty() {
                true => asked,
                false => {
                    let own = match form {
                        Form::Json => asked.clone(),
                        Form::Protobuf => find(served(), path, Form::Json).await?,
                    };
                    let merge = move || aggregation.documents().merged((&*own, &*asked, form), &names, brand);
                    on_blocking_thread(path, merge).await?
                }
            }
        }
    };
    if arrived.method != Method::GET && arrived.method != Method::HEAD {
        return Err(ApiError::MethodNotAllowed);
    }
    let hash = arrived.query.text("hash");
    let by_hash = !hash.is_empty() && path != VERSION_3 && path != VERSION_2;
    if by_hash && hash != document.hash {
        let mut response = empty(StatusCode::MOVED_PERMANENTLY);
        respond::put(response.headers_mut(), LOCATION, &url(path, &document));
        return Ok(response);
    }
    let etag = format!("\"{}\"", document.hash);
    let mut response = if respond::is_known(&arrived.headers, &etag) {
        respond::not_modified()
    } else {
        whole(document, path, form, takes_gzip(&arrived.headers)).await?
    };
    let headers = response.headers_mut();
    respond::put(headers, ETAG, &etag);
    respond::put(headers, VARY, "Accept, Accept-Encoding");
    if by_hash {
        respond::put(headers, CACHE_CONTROL, "public, immutable");
        respond::put(headers, EXPIRES, &date(now.millis() / 1000 + KEPT_SECONDS));
    }
    Ok(response)
}

/// Media type and alias of the Protobuf form of the document at `path`.
fn protobuf(path: &str) -> [&'static str; 2] {
    if path == VERSION_2 { PROTOBUF_2 } else { PROTOBUF_3 }
}

/// The document itself, compressed where the client takes that.
async fn whole(
    document: Arc<Document>,
    path: &str,
    form: Form,
    compressed: bool,
) -> Result<Response<Body>, ApiError> {
    let content_type = match form {
        Form::Json => "application/json",
        Form::Protobuf => protobuf(path)[0],
    };
    if compressed {
        let mut response = respond::bytes(200, content_type, document.compressed.clone());
        respond::put(response.headers_mut(), CONTENT_ENCODING, "gzip");
        return Ok(response);
    }
    let text = on_blocking_thread(path, move || document.text()).await?;
    Ok(respond::bytes(200, content_type, text))
}

/// The document behind `path`, which may have to be made.
async fn find(served: Served, path: &str, form: Form) -> Result<Arc<Document>, ApiError> {
    let asked = path.to_owned();
    let found = on_blocking_thread(path, move || served.openapi(&asked, form)).await?;
    found.ok_or(ApiError::UnknownPath)
}

/// The index with these further entries.
fn indexed(index: &Document, elsewhere: &[(String, String)]) -> io::Result<Arc<Document>> {
    let mut index: Value = serde_json::from_slice(&index.text()?)?;
    for (path, url) in elsewhere {
        index["paths"][path.as_str()] = json!({"serverRelativeURL": url});
    }
    document::whole(&index.to_string()).map(Arc::new)
}

/// Making and decompressing documents take a blocking thread: they would hold up one that serves.
async fn on_blocking_thread<T: Send + 'static>(
    path: &str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, ApiError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(Ok(made)) => Ok(made),
        Ok(Err(error)) => Err(broken(path, &error)),
        Err(error) => Err(broken(path, &error)),
    }
}

/// The form that `accept` asks for; `None` if the document has no such form. The index exists as JSON alone and ignores
/// `accept`.
fn form(path: &str, accept: Option<&str>) -> Option<Form> {
    let Some(accept) = accept.filter(|accept| !accept.trim().is_empty() && path != VERSION_3) else {
        return Some(Form::Json);
    };
    clauses(accept).iter().find_map(|clause| match clause.media_type {
        "application/json" | "application/*" | "*/*" => Some(Form::Json),
        name if protobuf(path).contains(&name) => Some(Form::Protobuf),
        _ => None,
    })
}

/// Whether the client of a request with these headers takes gzip.
pub(super) fn takes_gzip(asked: &HeaderMap) -> bool {
    let texts = asked.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    texts.flat_map(clauses).any(|clause| clause.media_type == "gzip" && clause.quality > 0)
}

fn empty(code: StatusCode) -> Response<Body> {
    let mut response = respond::bytes(code.as_u16(), "application/json", Default::default());
    response.headers_mut().remove(CONTENT_TYPE);
    response
}

/// `seconds` since 1970 as an HTTP date; empty beyond the calendar's range.
fn date(seconds: u64) -> String {
    let time =
        i64::try_from(seconds).ok().and_then(|seconds| OffsetDateTime::from_unix_timestamp(seconds).ok());
    time.and_then(|time| time.format(DATE).ok()).unwrap_or_default()
}

fn broken(path: &str, error: &dyn std::error::Error) -> ApiError {
    ApiError::Internal(format!("cannot make the document {path}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_as_headers_hold_them() {
        assert_eq!(date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
    }
}
