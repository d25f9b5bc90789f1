//! A request's seats, given back when they are dropped.
//!
//! Owns how long a request keeps them: until its response is complete, and for a large list or the initial events of a
//! watch until they are sent, but no longer than a client that reads at once takes. A client that reads slowly holds
//! memory, which has an account of its own, and no seat.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use http::Response;
use http_body_util::BodyExt;
use orch_raft::Store;

use super::config::Entry;
use super::in_flight::Place;
use super::initial_events::InitialEvents;
use super::queueset::Ticket;

/// Longest hold of a seat for a response that is being sent, or that another server makes: a gigabyte on a fast network.
const SENDING_MAX: Duration = Duration::from_secs(1);

/// The seats of one request, or its place among the requests under way.
pub struct Seat {
    holding: Holding,
}

enum Holding {
    /// Without priority and fairness.
    Limited { _place: Option<Place> },
    /// Waiting at a level, or seated there.
    AtLevel { entry: Arc<Entry>, ticket: Ticket, seats: u32, since: u64, is_seated: bool },
    /// Given back.
    Nothing,
}

impl Seat {
    /// A place under the plain limits.
    pub(super) fn limited(place: Option<Place>) -> Seat {
        Seat { holding: Holding::Limited { _place: place } }
    }

    /// Seats that were free when the request arrived.
    pub(super) fn taken(entry: Arc<Entry>, ticket: Ticket, seats: u32, now: u64) -> Seat {
        entry.gauges.begin(seats, 0);
        Seat { holding: Holding::AtLevel { entry, ticket, seats, since: now, is_seated: true } }
    }

    /// The ticket of a request that waits.
    pub(super) fn waiting(entry: Arc<Entry>, ticket: Ticket, seats: u32, now: u64) -> Seat {
        entry.gauges.enqueue(seats);
        Seat { holding: Holding::AtLevel { entry, ticket, seats, since: now, is_seated: false } }
    }

    /// Whether the turn of a waiting request has come.
    pub(super) fn is_seated(&self) -> bool {
        match &self.holding {
            Holding::AtLevel { entry, ticket, .. } => entry.level.is_seated(*ticket),
            Holding::Limited { .. } | Holding::Nothing => true,
        }
    }

    /// Whether other requests may have to wait for what this one holds: at every level but the exempt one.
    pub(crate) fn is_limited(&self) -> bool {
        match &self.holding {
            Holding::Limited { _place: place } => place.is_some(),
            Holding::AtLevel { entry, .. } => !entry.level.is_exempt,
            Holding::Nothing => false,
        }
    }

    /// The wait of the request ends with its seats.
    pub(super) fn take(mut self) -> Seat {
        if let Holding::AtLevel { entry, seats, since, is_seated, .. } = &mut self.holding {
            let now = entry.level.now();
            entry.gauges.dequeue(*seats);
            entry.gauges.begin(*seats, now.saturating_sub(*since));
            (*is_seated, *since) = (true, now);
        }
        self
    }

    /// The wait of the request ends without a seat. Returns the seconds after which its client may come again.
    pub(super) fn refuse(self, reason: &'static str) -> u32 {
        let Holding::AtLevel { entry, since, .. } = &self.holding else { return 1 };
        entry.gauges.refuse(reason, entry.level.now().saturating_sub(*since));
        entry.level.refuse()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let holding = std::mem::replace(&mut self.holding, Holding::Nothing);
        let Holding::AtLevel { entry, ticket, seats, since, is_seated } = holding else { return };
        match is_seated {
            true => entry.gauges.end(seats, entry.level.now().saturating_sub(since)),
            false => entry.gauges.dequeue(seats),
        }
        entry.level.leave(ticket);
    }
}

/// `response`, keeping `seat` until its body has ended or, for a watch, its `initial_events` are sent, or until a client
/// that reads at once would have taken them.
pub(crate) fn hold_while_sent<S: Store>(
    response: Response<Body>,
    seat: Seat,
    initial_events: Option<InitialEvents>,
    store: &S,
) -> Response<Body> {
    let seat = hold_for_a_while(seat, store);
    response.map(|body| {
        Body::new(body.map_frame(move |frame| {
            if initial_events.as_ref().is_some_and(|events| !events.are_due()) {
                seat.free();
            }
            frame
        }))
    })
}

/// A seat that is given back when this is dropped, or after a while.
pub(crate) struct HeldSeat(Arc<Mutex<Option<Seat>>>);

impl HeldSeat {
    fn free(&self) {
        drop(self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// Keeps `seat` until the result is dropped, or until a client that reads at once, or a server that answers at once, would be done.
pub(crate) fn hold_for_a_while<S: Store>(seat: Seat, store: &S) -> HeldSeat {
    let seat = Arc::new(Mutex::new(Some(seat)));
    let (timed, store) = (Arc::downgrade(&seat), store.clone());
    let giving_back = async move {
        store.sleep(SENDING_MAX).await;
        if let Some(seat) = timed.upgrade() {
            HeldSeat(seat).free();
        }
    };
    // A simulation has no such runtime; there it is held until its request is over.
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(giving_back);
    }
    HeldSeat(seat)
}
