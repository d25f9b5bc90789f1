//! Fair queuing of the requests of one priority level.
//!
//! Owns the seats, and which request is next: `requests` are those that are here, `queues` where they wait and in which
//! order, `virtual_time` the clock of their fairness. It has no clock, task or lock: the time comes in with each call, and
//! [`QueueSet::take_dispatched`] gives out the requests whose turn has come.
//!
//!     arrive ---> waiting in a queue ---> executing on seats ---> leave
//!         \                 \
//!          rejected          leave (timed out, or its client has gone)
//!
//! The queues share the seats as in the fair queuing of packets. Virtual time R is the work (in seat-microseconds) that
//! each busy queue would have received by now if all busy queues had shared what was done in equal parts. A queue's
//! `next_r` is the R at which its next request would begin in that ideal. The request that would end first in the ideal
//! is dispatched first. When a request begins, its duration is a guess, corrected when it ends.
//!
//! Turns are fair among requests that wait, and long lists keep their seats for long: without more, one flow's lists would
//! hold every seat while a get of another waits for the first of them to end. So a flow's wide requests have a share of
//! the seats ([`QueueSet::is_within_share`]), and those beyond it let other flows by.
//!
//! Invariant: seats in use <= the limit, but for one request alone that is wider than the limit.
//! Invariant: a request waits only while the next one in turn, of those within their share, does not fit into the free
//! seats.
//! Invariant: `queues` holds exactly the queues with a request; an idle queue has no claim to past R.

use hashbrown::HashMap;

mod queues;
mod requests;
#[cfg(test)]
mod tests;
mod virtual_time;

use self::queues::Queues;
pub(super) use self::queues::{QueueView, work_of};
pub(super) use self::requests::Ticket;
use self::requests::{Phase, Request, Requests};
use self::virtual_time::VirtualTime;
use super::demand::Demand;
use super::shuffle::deal;
use super::usage::{Limits, Totals, Usage};

/// Most microseconds between two calls, and of one request, that count: the longest deadline. A clock that jumps costs no
/// queue more than that.
const SPAN_MAX: u64 = 60_000_000;

/// Fewest seats of a flow's share of wide requests: two long lists, so that small levels go without shares.
const WIDE_SEATS_MIN: u32 = 20;

/// How a level queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Number of queues; 0: a request that finds no seat is rejected.
    pub queues: u32,
    /// Queues among which a flow's request chooses.
    pub hand_size: u32,
    /// Requests that wait in a queue.
    pub queue_length_max: usize,
}

impl Shape {
    /// Requests that wait in all queues at most.
    pub(super) fn places(self) -> u32 {
        self.queues.saturating_mul(u32::try_from(self.queue_length_max).unwrap_or(u32::MAX))
    }
}

/// Outcome of an arriving request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// The request has its seats.
    Dispatched(Ticket),
    /// The request waits in a queue.
    Queued(Ticket),
    /// No seat is free, and the level has no queues.
    ConcurrencyLimit,
    /// It has to wait, and the shortest of its queues is full.
    QueueFull,
}

/// The requests of one level.
#[derive(Debug)]
pub(super) struct QueueSet {
    shape: Shape,
    seats_max: u32,
    requests: Requests,
    queues: Queues,
    /// Seats that each flow's wide requests use. Flows without one are absent.
    wide: HashMap<u64, u32>,
    dispatched: Vec<Ticket>,
    virtual_time: VirtualTime,
    /// Time of the last call.
    last: u64,
    totals: Totals,
    demand: Demand,
    usage: Usage,
}

impl QueueSet {
    /// An empty level with `seats_max` seats, at time `now` in microseconds.
    pub(super) fn new(shape: Shape, seats_max: u32, now: u64) -> QueueSet {
        QueueSet {
            shape,
            seats_max,
            requests: Requests::default(),
            queues: Queues::default(),
            wide: HashMap::new(),
            dispatched: Vec::new(),
            virtual_time: VirtualTime::default(),
            last: now,
            totals: Totals::default(),
            demand: Demand::default(),
            usage: Usage::new(),
        }
    }

    /// Changes how later requests are queued.
    pub(super) fn reshape(&mut self, shape: Shape) {
        self.shape = shape;
    }

    /// Changes what the use of the level is measured by.
    pub(super) fn set_limits(&mut self, now: u64, limits: Limits) {
        self.advance(now);
        self.usage.set_limits(limits);
    }

    /// Changes the number of seats. Requests that have theirs keep them.
    pub(super) fn set_seats_max(&mut self, now: u64, seats_max: u32) {
        self.advance(now);
        self.seats_max = seats_max;
        self.dispatch(now);
    }

    /// A request of the flow with `hash` wants `seats`, at least 1.
    pub(super) fn arrive(&mut self, now: u64, hash: u64, seats: u32) -> Arrival {
        self.advance(now);
        let (seats, arrival_r) = (seats.max(1), self.virtual_time.r());
        if self.shape.queues == 0 {
            if !self.fits(seats) {
                return Arrival::ConcurrencyLimit;
            }
            let phase = Phase::Executing(now);
            let request = Request { queue: None, flow: hash, seats, arrival_r, phase };
            self.count_wide(&request, true);
            self.totals.executing += 1;
            self.totals.seats_in_use += seats;
            return Arrival::Dispatched(self.requests.insert(request));
        }
        let index = self.choose_queue(hash);
        let waiting = self.queues.waiting_in(index);
        // Free seats are no place for it behind a request that is too wide for them.
        if waiting >= self.shape.queue_length_max && (waiting > 0 || !self.fits(seats)) {
            return Arrival::QueueFull;
        }
        let request = Request { queue: Some(index), flow: hash, seats, arrival_r, phase: Phase::Waiting };
        let ticket = self.requests.insert(request);
        self.queues.enqueue(index, ticket, seats, arrival_r, &self.requests);
        self.totals.waiting += 1;
        self.totals.seats_waiting += seats;
        self.dispatch(now);
        // Its own dispatch, if any, is the last: nothing that waits behind it was passed over.
        match self.dispatched.last() == Some(&ticket) {
            true => {
                self.dispatched.pop();
                Arrival::Dispatched(ticket)
            }
            false if self.is_executing(ticket) => {
                self.dispatched.retain(|other| *other != ticket);
                Arrival::Dispatched(ticket)
            }
            false => Arrival::Queued(ticket),
        }
    }

    /// A request ends, or stops waiting.
    pub(super) fn leave(&mut self, now: u64, ticket: Ticket) {
        self.advance(now);
        let Some(request) = self.requests.take(ticket) else { return };
        let Request { queue, seats, phase, .. } = request;
        match phase {
            Phase::Executing(since) => {
                self.count_wide(&request, false);
                self.totals.executing -= 1;
                self.totals.seats_in_use -= seats;
                let lasted = i64::try_from(now.saturating_sub(since).min(SPAN_MAX)).unwrap_or(i64::MAX);
                if let Some(index) = queue {
                    self.queues.end(index, seats, lasted, &self.requests);
                }
            }
            Phase::Waiting => {
                self.totals.waiting -= 1;
                self.totals.seats_waiting -= seats;
                if let Some(index) = queue {
                    self.queues.withdraw(index, ticket, seats, &self.requests);
                }
            }
        }
        self.dispatch(now);
    }

    /// Takes the waiting requests whose turn has come since the last call.
    pub(super) fn take_dispatched(&mut self) -> impl Iterator<Item = Ticket> + '_ {
        self.dispatched.drain(..)
    }

    /// Whether requests were dispatched that nobody has taken.
    pub(super) fn has_dispatched(&self) -> bool {
        !self.dispatched.is_empty()
    }

    /// Whether the request has its seats.
    pub(super) fn is_executing(&self, ticket: Ticket) -> bool {
        self.requests.find(ticket).is_some_and(|request| matches!(request.phase, Phase::Executing(_)))
    }

    /// Requests that wait in the queue of a request, itself among them.
    pub(super) fn waiting_beside(&self, ticket: Ticket) -> usize {
        let index = self.requests.find(ticket).and_then(|request| request.queue);
        index.map_or(0, |index| self.queues.waiting_in(index))
    }

    /// The requests that are here.
    pub(super) fn totals(&self) -> Totals {
        self.totals
    }

    /// Virtual time, in seat-microseconds.
    pub(super) fn r(&self) -> i64 {
        self.virtual_time.r()
    }

    /// The demand for seats since the last call.
    pub(super) fn take_demand(&mut self, now: u64) -> Demand {
        self.advance(now);
        self.demand.take()
    }

    /// The use of the level until now.
    pub(super) fn usage(&mut self, now: u64) -> Usage {
        self.advance(now);
        self.usage.clone()
    }

    /// The number of queues.
    pub(super) fn queue_count(&self) -> u32 {
        self.shape.queues
    }

    /// The queues with a request, in the order of their indexes.
    pub(super) fn view(&self) -> Vec<QueueView> {
        self.queues.view()
    }

    /// Seats of a request.
    pub(super) fn seats_of(&self, ticket: Ticket) -> u32 {
        self.requests.find(ticket).map_or(0, |request| request.seats)
    }

    /// Counts the time since the last call.
    fn advance(&mut self, now: u64) {
        let passed = now.saturating_sub(self.last).min(SPAN_MAX);
        self.last = now;
        if passed == 0 {
            return;
        }
        self.demand.add(passed, self.totals.demand());
        self.usage.add(passed, self.totals);
        self.virtual_time.advance(passed, self.totals.seats_in_use, self.queues.busy());
    }

    fn fits(&self, seats: u32) -> bool {
        match seats > self.seats_max {
            true => self.totals.executing == 0,
            false => self.totals.seats_in_use + seats <= self.seats_max,
        }
    }

    /// The queue of the flow's hand with the fewest seats, waiting and in use.
    fn choose_queue(&self, hash: u64) -> u32 {
        let hand = deal(hash, self.shape.queues, self.shape.hand_size);
        hand.into_iter().min_by_key(|index| self.queues.load_of(*index)).unwrap_or(0)
    }

    /// Whether `request` may begin beside those of its flow: wide ones use half of the seats together, or one is alone.
    fn is_within_share(&self, request: &Request) -> bool {
        let in_use = self.wide.get(&request.flow).copied().unwrap_or(0);
        let share = (self.seats_max / 2).max(WIDE_SEATS_MIN);
        !request.is_wide() || in_use == 0 || in_use + request.seats <= share
    }

    /// Counts a request that begins, or one that ends.
    fn count_wide(&mut self, request: &Request, begins: bool) {
        if !request.is_wide() {
            return;
        }
        let seats = self.wide.entry(request.flow).or_insert(0);
        *seats = if begins { *seats + request.seats } else { seats.saturating_sub(request.seats) };
        if *seats == 0 {
            self.wide.remove(&request.flow);
        }
    }

    /// The queue whose turn is next, of those whose oldest request is within its flow's share, and that request.
    fn next_in_turn(&self) -> Option<(u32, Ticket)> {
        // few: the queues of a level.
        self.queues.in_turn().find(|(_, ticket)| {
            self.requests.find(*ticket).is_some_and(|request| self.is_within_share(request))
        })
    }

    /// Dispatches waiting requests in turn while they fit.
    fn dispatch(&mut self, now: u64) {
        while let Some((index, ticket)) = self.next_in_turn() {
            let Some(request) = self.requests.find(ticket).copied() else { return };
            let seats = request.seats;
            if !self.fits(seats) {
                return;
            }
            self.count_wide(&request, true);
            self.requests.begin(ticket, now);
            self.queues.begin_oldest(index, seats, &self.requests);
            self.totals.waiting -= 1;
            self.totals.executing += 1;
            self.totals.seats_waiting -= seats;
            self.totals.seats_in_use += seats;
            self.dispatched.push(ticket);
        }
    }
}
