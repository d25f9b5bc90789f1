//! Figures of requests, observed at the points of their way that know them.
//!
//! Owns the translation of a request into labels. It changes no response.

use std::fmt::Write;

use axum::body::{Body, HttpBody};
use http::{Method, Response};
use orch_raft::{State, Store};

use super::headers::header_text;
use super::relay::Unreachable;
use super::stages::{Arrived, RequestInfo};
use super::{Api, respond};
use crate::endpoint::Endpoint;
use crate::error::ApiError;
use crate::follow::Applied;
use crate::metrics::{Ended, Exposition, InFlight, LongRunning, Measured, TEXT_FORMAT};
use crate::pipeline::Request;
use crate::request::Verb;

/// The path of the metrics.
const METRICS_PATH: &str = "/metrics";

/// The series of the memory of a node by part.
const MEMORY: &str = "orch_memory_bytes";

/// The path of the results of health checks.
const SLIS_PATH: &str = "/metrics/slis";

/// Content types of server-side apply begin so.
const APPLY: &str = "application/apply-patch";

impl<S: Store> Api<S> {
    /// Counts a request for a resource as under way, and notes what it is; `endpoint` is `None` where its path leads nowhere.
    pub(super) fn measure_begin(
        &self,
        arrived: &Arrived,
        info: &RequestInfo,
        endpoint: Option<&Endpoint<'_>>,
    ) -> Option<InFlight> {
        let (RequestInfo { target, verb, .. }, endpoint) = (info, endpoint?);
        let verb = *verb;
        let content_type = header_text(&arrived.headers, &http::header::CONTENT_TYPE);
        let is_apply = verb == Some(Verb::Patch) && content_type.starts_with(APPLY);
        let is_dry_run = verb.is_some_and(|verb| !verb.is_read()) && arrived.query.value("dryRun").is_some();
        let subresource = endpoint.action.subresource();
        let measured =
            Measured::of_resource(endpoint.resource, subresource, verb, target, is_apply, is_dry_run);
        if endpoint.action.is_passed_on() {
            let _ = arrived.measured().set(measured.passed_on());
            return None;
        }
        // A request has one endpoint.
        let _ = arrived.measured().set(measured);
        self.metrics.begin(verb?)
    }

    /// Counts an answered request; `error` is what `response` tells of.
    pub(super) fn measure_end(&self, arrived: &Arrived, response: &Response<Body>, error: Option<&ApiError>) {
        use ApiError::{DeadlineExceeded, NothingChanged, OutcomeUnknown};
        let measured = arrived.measured().get_or_init(|| Measured::of_path(&arrived.method));
        let is_late = matches!(error, Some(DeadlineExceeded | NothingChanged | OutcomeUnknown(_)));
        let ended = Ended {
            code: response.status().as_u16(),
            micros: arrived.exchange.micros_until(self.pipeline.ambient.now()),
            waited_micros: arrived.exchange.waited_micros(),
            bytes: response.body().size_hint().exact(),
            is_terminated: is_late || response.extensions().get::<Unreachable>().is_some(),
        };
        self.metrics.end(measured, ended);
    }

    /// Notes that the server of an APIService answers the request.
    pub(super) fn measure_elsewhere(&self, arrived: &Arrived) {
        // A request has one destination.
        let _ = arrived.measured().set(Measured::of_aggregated(&arrived.method));
    }

    /// Counts a watch as under way.
    pub(super) fn measure_watch(&self, request: Request<'_>) -> LongRunning {
        let part = request.action.subresource();
        let measured =
            Measured::of_resource(request.resource, part, Some(Verb::Watch), request.target, false, false);
        self.metrics.long_running(&measured)
    }

    /// Counts a request that is passed on as under way.
    pub(super) fn measure_passing(&self, arrived: &Arrived) -> Option<LongRunning> {
        arrived.measured().get().map(|measured| self.metrics.long_running(measured))
    }

    /// The path of the metrics, where they are served.
    pub(super) fn metrics_paths(&self) -> &'static [&'static str] {
        if self.exposition.is_some() { &[METRICS_PATH, SLIS_PATH] } else { &[] }
    }

    /// The response for `/metrics` and `/metrics/slis`; `None` for other paths, and where no metrics are kept.
    pub(super) async fn metrics_page(
        &self,
        arrived: &Arrived,
        path: &str,
    ) -> Option<Result<Response<Body>, ApiError>> {
        let exposition = self.exposition.as_ref()?;
        match path {
            METRICS_PATH => {}
            SLIS_PATH => return Some(self.slis_page(arrived, &**exposition)),
            _ => return None,
        }
        let is_read = matches!(arrived.method, Method::GET | Method::HEAD);
        if !is_read {
            return Some(Err(ApiError::MethodNotAllowed));
        }
        self.flow.refresh_gauges();
        let mut text = exposition.render();
        let state = self.pipeline.store.state();
        self.metrics.write(&mut text, &state, |name, kind| exposition.head(name, kind));
        let loops = &self.pipeline.loops;
        loops.write(&mut text, self.pipeline.store.elapsed(), |name, kind| exposition.head(name, kind));
        self.flow.write_usage(&mut text, |name| exposition.head(name, "histogram"));
        self.write_memory(&mut text, &state, &**exposition);
        let (aggregation, applied) = (&self.pipeline.aggregation, Applied::of(&self.pipeline.store));
        aggregation.write_figures(&mut text, &applied, |name, kind| exposition.head(name, kind)).await;
        Some(Ok(respond::bytes(200, TEXT_FORMAT, text.into())))
    }

    /// Appends the bytes that this node holds, by part: what counts against a bound. What else is in the process is the rest of
    /// `process_resident_memory_bytes`.
    fn write_memory(&self, text: &mut String, state: &State, exposition: &dyn Exposition) {
        text.push_str(&exposition.head(MEMORY, "gauge"));
        let parts = [
            ("history", state.history_bytes() as u64),
            ("requests", self.ledger.held_bytes() as u64),
            ("state", state.usage().bytes()),
            ("watches", self.watch_ledger.held_bytes() as u64),
        ];
        for (part, bytes) in parts {
            // A string takes every write.
            let _ = writeln!(text, "{MEMORY}{{part=\"{part}\"}} {bytes}");
        }
    }

    /// The results of health checks. A DELETE forgets them, as in the reference.
    fn slis_page(&self, arrived: &Arrived, exposition: &dyn Exposition) -> Result<Response<Body>, ApiError> {
        let slis = &self.checks.slis;
        match arrived.method {
            Method::GET | Method::HEAD => {
                let text = slis.render(arrived.served().registry.brand, exposition);
                Ok(respond::bytes(200, TEXT_FORMAT, text.into()))
            }
            Method::DELETE => {
                slis.reset();
                Ok(respond::bytes(200, "text/plain; charset=utf-8", "metrics reset\n".to_owned().into()))
            }
            _ => Err(ApiError::MethodNotAllowed),
        }
    }
}
