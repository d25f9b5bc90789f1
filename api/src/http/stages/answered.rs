//! The last stage: a response on its way out, which is counted, audited and logged here.
//!
//! Owns the form of failures: a Status, except on health paths, on paths outside of all APIs, and the 406 of an OpenAPI document.

use axum::body::Body;
use http::{HeaderValue, Response, Version, header};
use orch_bounded::WarningLimit;
use orch_raft::Store;

use super::super::{Api, respond, response_events};
use super::Arrived;
use crate::connect::headers::asks_for_upgrade;
use crate::error::ApiError;
use crate::negotiate::{JSON, Representation, negotiate};
use crate::registry::Registry;
use crate::status::Status;

/// Limits the log: a client can cause the same internal error again and again.
static INTERNAL_ERRORS: WarningLimit = WarningLimit::new();

/// A response that was counted and logged.
pub(super) struct Answered {
    response: Response<Body>,
    /// The failure that it tells.
    error: Option<ApiError>,
}

/// The treatment of the body's bytes that were not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Read and dropped, after a failure: the client may be sending them still.
    Drained,
    /// Left where they are.
    Left,
}

impl<S: Store> Api<S> {
    /// The response that tells `result`, counted and logged.
    pub(super) fn answered(&self, arrived: &Arrived, result: Result<Response<Body>, ApiError>) -> Answered {
        let (mut response, error) = match result {
            Ok(response) => (response, None),
            Err(error) => (failure(arrived, &error), Some(error)),
        };
        arrived.exchange.close(&mut response, self.pipeline.ambient.now());
        self.measure_end(arrived, &response, error.as_ref());
        self.end_trace(arrived, &response);
        self.flow.mark(arrived.exchange.flow(), response.headers_mut());
        Answered { response, error }
    }
}

impl Answered {
    /// The same response, once its audit events are stored.
    pub(super) async fn audited(mut self, arrived: &Arrived) -> Self {
        if arrived.exchange.trail().is_some() {
            let brand = arrived.served().registry.brand;
            response_events::record_failure(&arrived.exchange, self.error.as_ref(), brand);
            let finished = response_events::finish_audit(&arrived.exchange, &arrived.headers, self.response);
            self.response = Box::pin(finished).await;
        }
        self
    }

    /// The response as it is sent, and what becomes of the rest of the request's body.
    pub(super) fn leave(mut self, arrived: &Arrived) -> (Response<Body>, Rest) {
        let Some(error) = self.error else { return (self.response, Rest::Left) };
        // The client may still be sending the body, or bytes of the protocol that it wants to go over to, so that the
        // connection cannot carry another request.
        let is_spent = matches!(error, ApiError::BodyTooLarge { .. }) || asks_for_upgrade(&arrived.headers);
        if is_spent && arrived.version < Version::HTTP_2 {
            self.response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        // After a timeout the rest of the body is not waited for.
        let is_late = matches!(error, ApiError::DeadlineExceeded | ApiError::NothingChanged);
        (self.response, if is_late { Rest::Left } else { Rest::Drained })
    }
}

fn failure(arrived: &Arrived, error: &ApiError) -> Response<Body> {
    if let ApiError::Internal(reason) = error
        && let Some(left_out) = INTERNAL_ERRORS.pass()
    {
        let (id, method, path) = (arrived.exchange.id(), &arrived.method, &arrived.path);
        tracing::error!(id = &*id, %method, path, reason, left_out, "internal error");
    }
    if matches!(error, ApiError::NoPage) {
        return respond::no_page();
    }
    if let ApiError::TooManyRequests { retry_after_s } = error {
        return respond::too_many_requests(*retry_after_s);
    }
    let registry = &arrived.served().registry;
    let status = Status::of(error, registry.brand);
    // A failure has a body even where nothing in `Accept` can be written.
    let representation = arrived.representation(negotiate).unwrap_or(JSON);
    status_response(status.code, registry, &status, representation)
}

/// A response with `status` as its document.
pub(in crate::http) fn status_response(
    code: u16,
    registry: &Registry,
    status: &Status,
    representation: Representation,
) -> Response<Body> {
    let bytes = crate::render::status(status, representation, &registry.schema);
    let retry = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    let mut response = respond::bytes(code, representation.media_type(registry.brand), bytes);
    respond::retry_after(&mut response, retry);
    response
}
