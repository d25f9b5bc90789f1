//! Metrics of requests to API servers, under the names of the reference's client library.
//!
//! Owns names and labels of these series. Each request is counted by its server; a path is no label, which would make a
//! series of each object.

use std::time::{Duration, SystemTime};

use http::Method;

/// The label `code` of a request without an answer.
const NO_ANSWER: &str = "<error>";

/// The outcome of a request that was sent.
pub(super) struct Sent<'a> {
    /// Host and port of the server.
    pub(super) host: &'a str,
    /// The method.
    pub(super) method: &'a Method,
    /// The code of the answer; `None` without one.
    pub(super) code: Option<u16>,
}

/// Counts a transport that is made anew: none is kept to be used again.
pub(super) fn transport_made() {
    ::metrics::counter!("rest_client_transport_create_calls_total", "result" => "miss").increment(1);
    ::metrics::gauge!("rest_client_transport_cache_entries").increment(1.0);
}

/// The transport is gone.
pub(super) fn transport_dropped() {
    ::metrics::gauge!("rest_client_transport_cache_entries").decrement(1.0);
}

/// A request waited for the limit of requests a second.
pub(super) fn limited(host: &str, method: &Method, waited: Duration) {
    ::metrics::histogram!("rest_client_rate_limiter_duration_seconds", labels(host, method))
        .record(waited.as_secs_f64());
}

/// A request was answered, or not.
pub(super) fn counted(sent: &Sent<'_>) {
    let code = sent.code.map_or_else(|| NO_ANSWER.to_owned(), |code| code.to_string());
    ::metrics::counter!(
        "rest_client_requests_total",
        "code" => code, "host" => sent.host.to_owned(), "method" => sent.method.to_string()
    )
    .increment(1);
}

/// A request that is no watch ended: its duration, and the sizes of its body and of the answer's.
pub(super) fn ended(sent: &Sent<'_>, took: Duration, asked_bytes: usize, answer_bytes: Option<usize>) {
    let labels = || labels(sent.host, sent.method);
    ::metrics::histogram!("rest_client_request_duration_seconds", labels()).record(took.as_secs_f64());
    ::metrics::histogram!("rest_client_request_size_bytes", labels()).record(bytes(asked_bytes));
    if let Some(answer_bytes) = answer_bytes {
        ::metrics::histogram!("rest_client_response_size_bytes", labels()).record(bytes(answer_bytes));
    }
}

/// How long the certificate that a program gave is still valid.
pub(super) fn certificate_ends(ends: SystemTime, now: SystemTime) {
    let left = match ends.duration_since(now) {
        Ok(left) => left.as_secs_f64(),
        Err(over) => -over.duration().as_secs_f64(),
    };
    ::metrics::gauge!("rest_client_exec_plugin_ttl_seconds").set(left);
}

/// A program gave another certificate in place of one of this age.
pub(super) fn certificate_replaced(age: Duration) {
    ::metrics::histogram!("rest_client_exec_plugin_certificate_rotation_age").record(age.as_secs_f64());
}

fn labels(host: &str, method: &Method) -> Vec<::metrics::Label> {
    vec![::metrics::Label::new("host", host.to_owned()), ::metrics::Label::new("verb", method.to_string())]
}

fn bytes(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
