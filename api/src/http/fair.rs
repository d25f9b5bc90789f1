//! Flow control of HTTP requests: where a request gets its seats, and how long it keeps them.
//!
//! Owns the translation between the two. The rules are in `flow`.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use http::{Method, Response};
use orch_raft::Store;

use super::held::COUNTED_BYTES_MIN;
use super::respond::WatchResponse;
use super::{Api, Parts, respond};
use crate::authn::User;
use crate::authz::Attributes;
use crate::error::ApiError;
use crate::flow::{FlowRequest, Seat, hold_while_sent};
use crate::follow::Applied;
use crate::registry::Resource;
use crate::request::Verb;

impl<S: Store> Api<S> {
    /// Waits for seats for an authorized request of `user`; `of` is the verb and the resource, if any.
    ///
    /// # Errors
    /// `TooManyRequests`: there is none, or not in time.
    pub(super) async fn seat(
        &self,
        parts: &Parts,
        user: &User,
        asked: Attributes<'_>,
        of: Option<(Verb, &Arc<Resource>)>,
        (limit, body_bytes): (Duration, usize),
    ) -> Result<Seat, ApiError> {
        let applied = Applied::of(&self.pipeline.store);
        let request = FlowRequest {
            user,
            asked,
            verb: of.map(|(verb, _)| verb),
            query: &parts.query,
            storage: of.map_or("", |(_, resource)| &resource.storage),
            applied: &applied,
            limit,
            body_bytes,
        };
        let entry = self.flow.classify(request);
        if let Some(entry) = &entry {
            parts.exchange.set_flow(entry.clone());
        }
        self.flow.admit(&self.pipeline.store, entry, request).await
    }

    /// `response`, keeping `seat` while a large list or the initial events of a watch are sent; other responses give it
    /// back now.
    pub(super) fn seat_while_sent(&self, seat: Seat, verb: Verb, response: Response<Body>) -> Response<Body> {
        let watch = response.extensions().get::<WatchResponse>();
        let initial_events = watch.map(|watch| watch.initial_events.clone());
        let large = u64::try_from(COUNTED_BYTES_MIN).unwrap_or(u64::MAX);
        let is_long = match &initial_events {
            Some(events) => events.are_due(),
            None => verb == Verb::List && response.body().size_hint().lower() >= large,
        };
        if is_long { hold_while_sent(response, seat, initial_events, &self.pipeline.store) } else { response }
    }

    /// The response for a debug page of flow control; `None` for other paths.
    pub(super) fn flow_page(&self, parts: &Parts, path: &str) -> Option<Result<Response<Body>, ApiError>> {
        let text = self.flow.page(path, &parts.query, &Applied::of(&self.pipeline.store))?;
        let is_read = matches!(parts.method, Method::GET | Method::HEAD);
        Some(match is_read {
            true => Ok(respond::bytes(200, "text/plain; charset=utf-8", text.into())),
            false => Err(ApiError::MethodNotAllowed),
        })
    }
}
