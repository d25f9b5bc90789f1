//! Reserves memory for what a request holds: its body, and the response to it.
//!
//! Owns how much is reserved, and when. The account is in `memory_ledger`.

use std::pin::pin;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::future::{Either, select};
use http::Response;
use orch_raft::Store;
use orch_schema::budget::Budget;

use super::body::{Pace, Upload};
use super::deadline::{Deadline, run_until_deadline};
use super::memory_ledger::{COUNTED_BYTES_MIN, HeldFrames, Hold, Payer, with_answer};
use super::{Api, respond};
use crate::error::ApiError;
use crate::flow::Seat;
use crate::negotiate::Representation;
use crate::pipeline::Request;
use crate::render::Payload;
use crate::request::Verb;

/// Longest wait for room with a seat that others wait for: as long as a request waits for a seat.
const SEATED_WAIT_MAX: Duration = Duration::from_secs(15);

impl<S: Store> Api<S> {
    /// The body of `upload` if it is small, read before the request waits for a seat, which a client would keep from others
    /// by not sending it. It takes no more memory than the connection, which reads that far anyway. `None`: it is large.
    ///
    /// # Errors
    /// Those of [`Upload::read`], and of `deadline`.
    pub(super) async fn small_body(
        &self,
        upload: &mut Upload,
        verb: Verb,
        deadline: Deadline,
        budget: &Budget,
    ) -> Result<Option<Bytes>, ApiError> {
        if upload.may_hold(verb) >= COUNTED_BYTES_MIN {
            return Ok(None);
        }
        let store = &self.pipeline.store;
        let read = pin!(upload.read(verb, store, Pace::Any));
        run_until_deadline(store, deadline, verb, budget, read).await.map(Some)
    }

    /// Reads the body of `upload` into memory that is reserved first, at the pace that the request's `seat` asks for. The
    /// reservation is `None` for small bodies.
    ///
    /// # Errors
    /// Those of [`Upload::read`]; `NothingChanged` as well if there is no room in time.
    pub(super) async fn take_body(
        &self,
        upload: &mut Upload,
        verb: Verb,
        payer: Payer<'_>,
        seat: &Seat,
    ) -> Result<(Option<Hold>, Bytes), ApiError> {
        let (store, pace) = (&self.pipeline.store, Pace::of(seat));
        let room = self.room_for_body(upload.may_hold(verb), verb, payer);
        let hold = match pace {
            Pace::Any => room.await?,
            Pace::Steady => match select(pin!(room), pin!(store.sleep(SEATED_WAIT_MAX))).await {
                Either::Left((hold, _)) => hold?,
                Either::Right(_) => return Err(ApiError::NothingChanged),
            },
        };
        Ok((hold, upload.read(verb, store, pace).await?))
    }

    /// Reserves memory for a body of `bytes` and the response, before the body is read. `None` for small bodies.
    async fn room_for_body(
        &self,
        bytes: usize,
        verb: Verb,
        payer: Payer<'_>,
    ) -> Result<Option<Hold>, ApiError> {
        match bytes {
            small if small < COUNTED_BYTES_MIN => Ok(None),
            bytes => self.ledger.wait(&payer, with_answer(verb, bytes)).await.map(Some),
        }
    }

    /// Reserves memory for the response to a small request about one large object, before any work: a write that was
    /// carried out can no longer be refused. `None` for lists, whose size is not known yet, and for plain reads, which
    /// share the stored bytes.
    pub(super) async fn room_for_answer(
        &self,
        request: Request<'_>,
        representation: Representation,
    ) -> Result<Option<Hold>, ApiError> {
        let is_of_one = !matches!(request.verb, Verb::List | Verb::Watch | Verb::DeleteCollection);
        if !is_of_one || request.verb == Verb::Get && representation.is_as_stored(request.resource) {
            return Ok(None);
        }
        let stored = request.key().ok().and_then(|key| {
            let state = self.pipeline.store.state();
            state.object(&key).map(|object| object.json.len())
        });
        let payer = Payer::of(request.user, request.exchange);
        self.ledger.wait(&payer, stored.unwrap_or_default()).await.map(Some)
    }

    /// The response to a list, with a reservation for the bytes that it holds.
    pub(super) fn list_answer(
        &self,
        payer: Payer<'_>,
        content_type: &'static str,
        payload: Payload,
    ) -> Result<Response<Body>, ApiError> {
        let bytes = payload.own_bytes();
        if bytes < COUNTED_BYTES_MIN {
            return Ok(respond::payload(200, content_type, payload));
        }
        let hold = self.ledger.take(&payer, bytes)?;
        let (length, frames) = (payload.len(), HeldFrames::new(payload.into_frames(), hold));
        Ok(respond::frames(200, content_type, length, frames))
    }
}
