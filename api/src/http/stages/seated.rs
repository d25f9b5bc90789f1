//! The fifth stage: a request that flow control gave its seats to, and how long it keeps them.
//!
//! Owns the translation between HTTP and flow control. The rules are in `flow`. Requests that are passed on have no such stage.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, HttpBody};
use http::Response;
use orch_raft::{Revision, Store};
use orch_schema::budget::Budget;

use super::super::Api;
use super::super::deadline::{REQUEST_MAX, deadline, run_until_deadline};
use super::super::memory_ledger::COUNTED_BYTES_MIN;
use super::super::respond::WatchResponse;
use super::authorized::Undeclared;
use super::{Arrived, Authorized, Elsewhere, Operation, Page};
use crate::authn::User;
use crate::error::ApiError;
use crate::exchange::Step;
use crate::flow::{FlowRequest, Seat, hold_while_sent};
use crate::follow::Applied;
use crate::request::Verb;

/// A request that may be carried out now.
pub(in crate::http) struct Seated<'a, D> {
    authorized: Authorized<'a, D>,
    seat: Seat,
}

impl<S: Store> Api<S> {
    /// Waits for seats for an operation, for at most `limit`; it holds `body_bytes` beside them.
    ///
    /// # Errors
    /// `TooManyRequests`: there is none, or not in time.
    pub(in crate::http) async fn seat<'a>(
        &self,
        authorized: Authorized<'a, Operation<'a>>,
        (limit, body_bytes): (Duration, usize),
    ) -> Result<Seated<'a, Operation<'a>>, ApiError> {
        let Operation { verb, endpoint, .. } = *authorized.destination();
        let of = (Some(verb), &*endpoint.resource.storage);
        let seat = self.seat_of(&authorized, of, (limit, body_bytes)).await?;
        Ok(Seated { authorized, seat })
    }

    /// Waits for seats for a page.
    ///
    /// # Errors
    /// `TooManyRequests`: there is none, or not in time.
    pub(super) async fn seat_page<'a>(
        &self,
        authorized: Authorized<'a, Page>,
    ) -> Result<Seated<'a, Page>, ApiError> {
        let seat = self.seat_of(&authorized, (None, ""), (REQUEST_MAX, 0)).await?;
        Ok(Seated { authorized, seat })
    }

    /// Waits for seats for a request that another server answers, for at most `limit`.
    ///
    /// # Errors
    /// `TooManyRequests`: there is none, or not in time.
    pub(in crate::http) async fn seat_elsewhere(
        &self,
        authorized: &Authorized<'_, Elsewhere>,
        limit: Duration,
    ) -> Result<Seat, ApiError> {
        self.seat_of(authorized, (authorized.destination().verb, ""), (limit, 0)).await
    }

    /// Looks for the path of a request that leads nowhere in the newest definitions of the cluster, with a seat and in its time:
    /// a quorum is asked. A definition that is not in force yet is waited for without a seat.
    ///
    /// # Errors
    /// `BadRequest`: `timeout` is no duration; `TooManyRequests`: there is no seat; `DeadlineExceeded`, `NothingChanged`;
    /// `RevisionTooLarge`: the client has seen a newer state than this node has, and no quorum answers.
    pub(super) async fn look_again(&self, authorized: &Authorized<'_, Undeclared>) -> Result<(), ApiError> {
        let (arrived, Undeclared(verb)) = (authorized.arrived(), *authorized.destination());
        let deadline = arrived.deadline_after(deadline(verb, &arrived.query)?);
        let left = deadline.left(&self.pipeline.store);
        let seat = self.seat_of(authorized, (Some(verb), ""), (left, 0)).await?;
        let looking = pin!(async move {
            let seen = arrived.query.text("resourceVersion").parse().map(Revision);
            if let (false, Ok(seen)) = (self.refresh_definitions().await, seen) {
                self.pipeline.not_older_than(seen).await?;
            }
            drop(seat);
            self.settle_definition(arrived).await;
            self.renew(arrived);
            Ok(())
        });
        run_until_deadline(&self.pipeline.store, deadline, verb, &Budget::default(), looking).await
    }

    /// Seats for a request of this verb for objects stored as `storage`; empty where there are none.
    async fn seat_of<D>(
        &self,
        authorized: &Authorized<'_, D>,
        (verb, storage): (Option<Verb>, &str),
        (limit, body_bytes): (Duration, usize),
    ) -> Result<Seat, ApiError> {
        let (arrived, applied) = (authorized.arrived(), Applied::of(&self.pipeline.store));
        let request = FlowRequest {
            user: authorized.user(),
            asked: authorized.attributes(),
            verb,
            query: &arrived.query,
            storage,
            applied: &applied,
            limit,
            body_bytes,
        };
        let entry = self.flow.classify(request);
        if let Some(entry) = &entry {
            arrived.exchange.set_flow(entry.clone());
        }
        let began = self.pipeline.ambient.now();
        let seat = self.flow.admit(&self.pipeline.store, entry, request).await;
        let now = self.pipeline.ambient.now();
        arrived.exchange.add_wait(now.0.saturating_sub(began.0));
        arrived.exchange.note(Step::FlowControl, began, now);
        seat
    }
}

impl<'a, D> Seated<'a, D> {
    /// The first stage.
    pub(in crate::http) fn arrived(&self) -> &'a Arrived {
        self.authorized.arrived()
    }

    /// The user that the request acts as.
    pub(in crate::http) fn user(&self) -> &Arc<User> {
        self.authorized.user()
    }

    /// The request's seat.
    pub(in crate::http) fn seat(&self) -> &Seat {
        &self.seat
    }
}

impl<'a> Seated<'a, Operation<'a>> {
    /// The operation to carry out.
    pub(in crate::http) fn operation(&self) -> Operation<'a> {
        *self.authorized.destination()
    }

    /// `response`, keeping the seat while a large list or the initial events of a watch are sent; other responses give it
    /// back now.
    pub(in crate::http) fn until_sent<S: Store>(self, store: &S, response: Response<Body>) -> Response<Body> {
        let watch = response.extensions().get::<WatchResponse>();
        let initial_events = watch.map(|watch| watch.initial_events.clone());
        let large = u64::try_from(COUNTED_BYTES_MIN).unwrap_or(u64::MAX);
        let is_long = match &initial_events {
            Some(events) => events.are_due(),
            None => self.operation().verb == Verb::List && response.body().size_hint().lower() >= large,
        };
        if is_long { hold_while_sent(response, self.seat, initial_events, store) } else { response }
    }
}
