//! The trace of a request, and the log line of a slow one.
//!
//! Owns whether a header `traceparent` is believed: from `system:masters` and `system:monitoring` it is the parent and decides whether the
//! trace is recorded, as in the reference; from other users it becomes a link, and the rate decides. Spans
//! hold path, verb, code and id, bounded; no query, header or body.
//!
//! Invariant: a fast request without a recorded trace allocates nothing here.

use axum::body::Body;
use http::Response;
use http::header::HeaderName;
use orch_bounded::WarningLimit;
use orch_raft::Store;
use orch_spans::{ActiveSpan, Parent, SpanKind, TraceContext};

use super::Api;
use super::headers::header_text;
use super::stages::Arrived;
use crate::authn::{GROUP_MASTERS, User};
use crate::metrics::Measured;

/// The group of programs that watch over the cluster.
const GROUP_MONITORING: &str = "system:monitoring";

/// A request that took longer is logged with its steps: the threshold of the reference.
const SLOW_MICROS: u64 = 500_000;

/// The header of a client's trace.
pub(super) const TRACEPARENT: HeaderName = HeaderName::from_static(orch_spans::HEADER);

/// Limits the log: a busy server has many slow requests at once.
static SLOW: WarningLimit = WarningLimit::new();

/// Begins the trace of a request of `user`, if it is to be recorded.
pub(super) fn begin_trace(arrived: &Arrived, user: &User) {
    if !orch_spans::is_on() {
        return;
    }
    let parent = parent_of(header_text(&arrived.headers, &TRACEPARENT), user);
    if let Some(trace) = ActiveSpan::begin(parent) {
        arrived.exchange.set_trace(trace);
    }
}

/// The trace that the header `traceparent` of a request of `user` places it in.
fn parent_of(header: &str, user: &User) -> Parent {
    let is_believed = user.is_in_group(GROUP_MASTERS) || user.is_in_group(GROUP_MONITORING);
    match TraceContext::parse(header) {
        Some(caller) if is_believed => Parent::Caller(caller),
        Some(other) => Parent::Linked(other),
        None => Parent::None,
    }
}

impl<S: Store> Api<S> {
    /// Ends the trace of an answered request, and logs a slow one. Requests that last are slow by their nature.
    pub(super) fn end_trace(&self, arrived: &Arrived, response: &Response<Body>) {
        let (exchange, now) = (&arrived.exchange, self.pipeline.ambient.now());
        let measured = arrived.measured().get();
        let code = response.status().as_u16();
        if let Some(trace) = exchange.trace() {
            let name = measured.map_or_else(|| Measured::of_path(&arrived.method).title(), Measured::title);
            let span = trace.ended(SpanKind::Server, name, (exchange.received().0, now.0));
            let span = span
                .with_text("http.request.method", arrived.method.to_string())
                .with_text("url.path", arrived.path.clone())
                .with_text("audit-id", exchange.id().into_owned())
                .with_number("http.response.status_code", code);
            let span = if code >= 500 { span.with_failure("the server failed") } else { span };
            span.record();
        }
        let micros = exchange.micros_until(now);
        if micros < SLOW_MICROS || measured.is_some_and(Measured::is_long_running) {
            return;
        }
        let Some(left_out) = SLOW.pass() else { return };
        tracing::info!(
            id = &*exchange.id(),
            method = %arrived.method,
            path = &*orch_schema::excerpt::part(&arrived.path),
            user = exchange.user().map_or("", |user| &user.name),
            code,
            millis = micros / 1000,
            steps = %exchange.steps(),
            left_out,
            "slow request"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_administrators_and_monitoring_place_their_requests_in_traces_of_their_own() {
        let text = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context = TraceContext::parse(text).unwrap();
        let of = |group: &str, header: &str| {
            parent_of(header, &User { groups: vec![group.to_owned()], ..User::default() })
        };
        assert_eq!(of(GROUP_MASTERS, text), Parent::Caller(context));
        assert_eq!(of(GROUP_MONITORING, text), Parent::Caller(context));
        assert_eq!(of("system:authenticated", text), Parent::Linked(context));
        assert_eq!(of(GROUP_MASTERS, ""), Parent::None);
        assert_eq!(of(GROUP_MASTERS, "00-0-0-01"), Parent::None);
    }
}
