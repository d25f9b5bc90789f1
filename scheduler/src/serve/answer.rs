//! Responses in the reference's forms.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde_json::json;

/// Plain text.
pub(super) const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";
const NO_SNIFFING: HeaderName = http::header::X_CONTENT_TYPE_OPTIONS;

/// A response.
pub(super) type Answer = Response<Full<Bytes>>;

/// A response with `body`.
pub(super) fn answer(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// `response`, whose type browsers must not guess.
pub(super) fn unsniffed(mut response: Answer) -> Answer {
    response.headers_mut().insert(NO_SNIFFING, HeaderValue::from_static("nosniff"));
    response
}

/// `response`, which is of this moment and for this client alone.
pub(super) fn uncached(mut response: Answer) -> Answer {
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// An error in plain text, with the line's end that the reference adds.
pub(super) fn error(status: StatusCode, text: &str) -> Answer {
    unsniffed(answer(status, TEXT, format!("{text}\n")))
}

/// The answer 404, for a path that is not served.
pub(super) fn not_found() -> Answer {
    error(StatusCode::NOT_FOUND, "404 page not found")
}

/// Credentials are bad.
pub(super) fn unauthorized() -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "Unauthorized",
        "reason": "Unauthorized", "code": 401,
    });
    answer(StatusCode::UNAUTHORIZED, JSON, format!("{status}\n"))
}

/// The user may not do this.
pub(super) fn forbidden(user: &str, verb: &str, path: &str, reason: &str) -> Answer {
    let colon = if reason.is_empty() { "" } else { ": " };
    let message = format!("forbidden: User {user:?} cannot {verb} path {path:?}{colon}{reason}");
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": "Forbidden", "details": {}, "code": 403,
    });
    unsniffed(answer(StatusCode::FORBIDDEN, JSON, format!("{status}\n")))
}

/// A JSON document.
pub(super) fn document(value: &serde_json::Value) -> Answer {
    unsniffed(answer(StatusCode::OK, JSON, value.to_string()))
}
