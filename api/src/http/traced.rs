//! The trace of a request, and the log line of a slow one.
//!
//! Owns whether the headers `traceparent` and `tracestate` are believed: from `system:masters` and `system:monitoring` they are the parent, which decides
//! whether the trace is recorded, as in the reference; from other users they become a link, and the rate decides. Where no trace
//! is recorded at all, the headers of every user go on to the servers that are asked for the request. Spans
//! hold path, verb, code and id, bounded; no query, other header or body.
//!
//! Invariant: a fast request without a recorded trace and these headers allocates nothing here.

use axum::body::Body;
use http::header::HeaderName;
use http::{HeaderMap, HeaderValue, Response};
use orch_bounded::WarningLimit;
use orch_raft::Store;
use orch_spans::{ActiveSpan, Parent, SpanKind, TraceContext, TraceState};

use super::Api;
use super::headers::header_text;
use super::respond;
use super::stages::Arrived;
use crate::authn::{GROUP_MASTERS, User};
use crate::metrics::Measured;

/// The group of programs that watch over the cluster.
const GROUP_MONITORING: &str = "system:monitoring";

/// A request that took longer is logged with its steps: the threshold of the reference.
const SLOW_MICROS: u64 = 500_000;

/// The header of a client's trace.
const TRACEPARENT: HeaderName = HeaderName::from_static(orch_spans::HEADER);
/// The header with what other systems have noted about it.
const TRACESTATE: HeaderName = HeaderName::from_static(orch_spans::STATE_HEADER);

/// Limits the log: a busy server has many slow requests at once.
static SLOW: WarningLimit = WarningLimit::new();

/// Begins the trace of a request of `user`, if there is something to record or to tell other servers.
pub(super) fn begin_trace(arrived: &Arrived, user: &User) {
    let context = context_in(&arrived.headers);
    let trace = match orch_spans::is_on() {
        true => ActiveSpan::begin(parent_of(context, user)),
        // As in the reference the headers of every user go on.
        false => context.map(ActiveSpan::passed),
    };
    if let Some(trace) = trace {
        arrived.exchange.set_trace(trace);
    }
}

/// Writes the context of a request to another server in place of the client's.
pub(super) fn put_context(headers: &mut HeaderMap, context: &TraceContext) {
    respond::put(headers, TRACEPARENT, &context.to_string());
    match HeaderValue::from_str(context.state.as_str()) {
        Ok(state) if !state.is_empty() => drop(headers.insert(TRACESTATE, state)),
        // That of the client belongs to another trace.
        _ => drop(headers.remove(TRACESTATE)),
    }
}

/// The place in a trace that a request's headers name.
fn context_in(headers: &HeaderMap) -> Option<TraceContext> {
    let context = TraceContext::parse(header_text(headers, &TRACEPARENT))?;
    // A value that is no text is none that the recommendation knows.
    let states = headers.get_all(&TRACESTATE).iter().map(|value| value.to_str().unwrap_or("?"));
    Some(context.with_state(TraceState::parse(states)))
}

/// The trace that a request of `user` is in, which names the place `context`.
fn parent_of(context: Option<TraceContext>, user: &User) -> Parent {
    let is_believed = || user.is_in_group(GROUP_MASTERS) || user.is_in_group(GROUP_MONITORING);
    match context {
        Some(caller) if is_believed() => Parent::Caller(caller),
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
        let context = TraceContext::parse(text).unwrap().with_state(TraceState::parse(["a=1,b=2"]));
        let of = |group: &str, header: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(TRACEPARENT, HeaderValue::from_static(header));
            for state in ["a=1", "b=2"] {
                headers.append(TRACESTATE, HeaderValue::from_static(state));
            }
            let user = User { groups: vec![group.to_owned()], ..User::default() };
            parent_of(context_in(&headers), &user)
        };
        assert_eq!(of(GROUP_MASTERS, text), Parent::Caller(context.clone()));
        assert_eq!(of(GROUP_MONITORING, text), Parent::Caller(context.clone()));
        assert_eq!(of("system:authenticated", text), Parent::Linked(context));
        assert_eq!(of(GROUP_MASTERS, ""), Parent::None);
        assert_eq!(of(GROUP_MASTERS, "00-0-0-01"), Parent::None);
    }

    #[test]
    fn a_context_takes_the_place_of_the_client_s() {
        let mut headers = HeaderMap::new();
        headers.append(TRACESTATE, HeaderValue::from_static("client=1"));
        headers.append(TRACESTATE, HeaderValue::from_static("client=2"));
        let own = TraceContext { trace_id: 7, span_id: 9, is_sampled: false, state: TraceState::default() };
        put_context(&mut headers, &own);
        assert_eq!(headers[TRACEPARENT], own.to_string());
        assert!(!headers.contains_key(TRACESTATE), "it belongs to the client's trace");
        put_context(&mut headers, &own.with_state(TraceState::parse(["a=1"])));
        assert_eq!(headers.get_all(TRACESTATE).iter().collect::<Vec<_>>(), ["a=1"]);
    }
}
