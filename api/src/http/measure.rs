//! The measurements of requests, taken at the points of their way that know what is measured.
//!
//! Owns the translation of a request into labels. It changes no response.

use axum::body::{Body, HttpBody};
use http::{Method, Response};
use orch_raft::Store;

use super::{Api, Parts, header_text, respond};
use crate::endpoint::Endpoint;
use crate::error::ApiError;
use crate::metrics::{InFlight, LongRunning, Measured, RequestMetrics, TEXT_FORMAT};
use crate::pipeline::Request;
use crate::request::{Target, Verb};

/// The path of the metrics.
const METRICS_PATH: &str = "/metrics";

/// Content types of server-side apply begin so.
const APPLY: &str = "application/apply-patch";

impl<S: Store> Api<S> {
    /// Counts a request for a resource as under way, and notes what it is.
    pub(super) fn measure_begin(
        &self,
        parts: &Parts,
        target: &Target,
        endpoint: Option<&Endpoint<'_>>,
        verb: Option<Verb>,
    ) -> Option<InFlight> {
        let endpoint = endpoint?;
        let content_type = header_text(&parts.headers, &http::header::CONTENT_TYPE);
        let is_apply = verb == Some(Verb::Patch) && content_type.starts_with(APPLY);
        let is_dry_run = verb.is_some_and(|verb| !verb.is_read()) && parts.query.value("dryRun").is_some();
        let subresource = endpoint.action.subresource();
        let measured =
            Measured::of_resource(endpoint.resource, subresource, verb, target, is_apply, is_dry_run);
        if endpoint.action.is_passed_on() {
            let _ = parts.measured.set(measured.passed_on(endpoint.action));
            return None;
        }
        // A request has one endpoint.
        let _ = parts.measured.set(measured);
        self.metrics.begin(verb?)
    }

    /// Counts an answered request.
    pub(super) fn measure_end(&self, parts: &Parts, response: &Response<Body>) {
        let measured = parts.measured.get_or_init(|| Measured::of_path(&parts.method));
        let micros = parts.exchange.micros_until(self.pipeline.ambient.now());
        let bytes = response.body().size_hint().exact();
        self.metrics.end(measured, response.status().as_u16(), micros, bytes);
    }

    /// Counts a watch as under way.
    pub(super) fn measure_watch(&self, request: Request<'_>) -> LongRunning {
        let part = request.action.subresource();
        let measured =
            Measured::of_resource(request.resource, part, Some(Verb::Watch), request.target, false, false);
        self.metrics.long_running(&measured)
    }

    /// Counts a request that is passed on as under way.
    pub(super) fn measure_passing(&self, parts: &Parts) -> Option<LongRunning> {
        parts.measured.get().map(|measured| self.metrics.long_running(measured))
    }

    /// Reports the objects of every resource that is stored, in its first group and version.
    fn measure_objects(&self, parts: &Parts) {
        let state = self.pipeline.store.state();
        let resources = parts.served.registry.resources();
        for resource in
            resources.filter(|resource| resource.review.is_none() && resource.is_storage_version())
        {
            let objects = state.collection(&resource.storage);
            RequestMetrics::note_objects(
                &resource.group,
                &resource.plural,
                objects.len(),
                objects.object_bytes(),
            );
        }
    }

    /// The path of the metrics, where they are served.
    pub(super) fn metrics_paths(&self) -> &'static [&'static str] {
        if self.exposition.is_some() { &[METRICS_PATH] } else { &[] }
    }

    /// The response for `/metrics`; `None` for other paths, and where no metrics are kept.
    pub(super) fn metrics_page(&self, parts: &Parts, path: &str) -> Option<Result<Response<Body>, ApiError>> {
        let exposition = self.exposition.as_ref().filter(|_| path == METRICS_PATH)?;
        let is_read = matches!(parts.method, Method::GET | Method::HEAD);
        if !is_read {
            return Some(Err(ApiError::MethodNotAllowed));
        }
        self.flow.refresh_gauges();
        self.measure_objects(parts);
        let mut text = exposition.render();
        self.flow.write_usage(&mut text);
        Some(Ok(respond::bytes(200, TEXT_FORMAT, text.into())))
    }
}
