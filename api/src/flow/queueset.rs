//! Fair queuing of the requests of one priority level.
//!
//! Owns the queues, the seats, and which request is next. It has no clock, task or lock: the time comes in with each call,
//! and [`QueueSet::take_dispatched`] gives out the requests whose turn has come.
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
//! Invariant: seats in use <= the limit, but for one request alone that is wider than the limit.
//! Invariant: a request waits only while the next one in turn does not fit into the free seats.
//! Invariant: `queues` holds exactly the queues with a request; an idle queue has no claim to past R.

use std::cmp::max;
use std::collections::{BTreeSet, VecDeque};

use hashbrown::HashMap;

use super::demand::Demand;
use super::shuffle::deal;

/// Guess of a request's duration: a usual one, in microseconds.
const DURATION_GUESS: i64 = 3_000;

/// Most microseconds between two calls, and of one request, that count: the longest deadline. A clock that jumps costs no
/// queue more than that.
const SPAN_MAX: u64 = 60_000_000;

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

/// Names a request from its arrival until it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Ticket(u32);

impl Ticket {
    /// A small number, unique among the requests that are here.
    pub(super) fn index(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// What becomes of a request when it arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It has its seats.
    Dispatched(Ticket),
    /// It waits.
    Queued(Ticket),
    /// No seat is free, and the level has no queues.
    ConcurrencyLimit,
    /// It has to wait, and the shortest of its queues is full.
    QueueFull,
}

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Waiting,
    /// Since this time.
    Executing(u64),
}

#[derive(Clone, Copy, Debug)]
struct Request {
    /// `None`: the level has no queues.
    queue: Option<u32>,
    seats: u32,
    arrival_r: i64,
    phase: Phase,
}

#[derive(Debug)]
struct Queue {
    waiting: VecDeque<Ticket>,
    executing: u32,
    seats_waiting: u32,
    seats_in_use: u32,
    next_r: i64,
    /// Number of its last dispatch: among equals, the queue that was served longest ago is next.
    served: u64,
    /// Its entry in `turns`, if any.
    turn: Option<Turn>,
}

/// Virtual end of a queue's oldest request; then the last dispatch and the index of the queue.
type Turn = (i64, u64, u32);

/// The requests of one level.
#[derive(Debug)]
pub(super) struct QueueSet {
    shape: Shape,
    seats_max: u32,
    requests: Vec<Option<Request>>,
    free: Vec<u32>,
    queues: HashMap<u32, Queue>,
    /// The queues with a waiting request, in the order of their turns.
    turns: BTreeSet<Turn>,
    dispatched: Vec<Ticket>,
    r: i64,
    /// Work that was too little to raise R, in shares of a seat-microsecond.
    remainder: u64,
    last: u64,
    dispatches: u64,
    waiting: u32,
    executing: u32,
    seats_waiting: u32,
    seats_in_use: u32,
    demand: Demand,
}

/// What a debug page shows of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueueView {
    pub index: u32,
    pub waiting: Vec<Ticket>,
    pub executing: u32,
    pub seats_in_use: u32,
    pub seats_waiting: u32,
    /// In seat-microseconds.
    pub next_r: i64,
}

impl QueueSet {
    /// An empty level with `seats_max` seats, at time `now` in microseconds.
    pub(super) fn new(shape: Shape, seats_max: u32, now: u64) -> QueueSet {
        QueueSet {
            shape,
            seats_max,
            requests: Vec::new(),
            free: Vec::new(),
            queues: HashMap::new(),
            turns: BTreeSet::new(),
            dispatched: Vec::new(),
            r: 0,
            remainder: 0,
            last: now,
            dispatches: 0,
            waiting: 0,
            executing: 0,
            seats_waiting: 0,
            seats_in_use: 0,
            demand: Demand::default(),
        }
    }

    /// Changes how later requests are queued.
    pub(super) fn reshape(&mut self, shape: Shape) {
        self.shape = shape;
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
        let seats = seats.max(1);
        if self.shape.queues == 0 {
            return match self.fits(seats) {
                true => Arrival::Dispatched(self.execute_unqueued(now, seats)),
                false => Arrival::ConcurrencyLimit,
            };
        }
        let index = self.choose_queue(hash);
        // Free seats are no place for it behind a request that is too wide for them.
        let is_full = self.queues.get(&index).is_some_and(|queue| {
            queue.waiting.len() >= self.shape.queue_length_max
                && (!queue.waiting.is_empty() || !self.fits(seats))
        });
        if is_full {
            return Arrival::QueueFull;
        }
        let request = Request { queue: Some(index), seats, arrival_r: self.r, phase: Phase::Waiting };
        let ticket = self.insert(request);
        let r = self.r;
        let queue = self.queues.entry(index).or_insert_with(|| Queue::at(r));
        queue.waiting.push_back(ticket);
        queue.seats_waiting += seats;
        self.waiting += 1;
        self.seats_waiting += seats;
        self.take_turn(index);
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
        let Some(request) = self.requests.get_mut(ticket.index()).and_then(Option::take) else { return };
        self.free.push(ticket.0);
        match request.phase {
            Phase::Executing(since) => {
                self.executing -= 1;
                self.seats_in_use -= request.seats;
                let lasted = i64::try_from(now.saturating_sub(since).min(SPAN_MAX)).unwrap_or(i64::MAX);
                if let Some(queue) = request.queue.and_then(|index| self.queues.get_mut(&index)) {
                    queue.executing -= 1;
                    queue.seats_in_use -= request.seats;
                    queue.next_r += i64::from(request.seats) * (lasted - DURATION_GUESS);
                }
            }
            Phase::Waiting => {
                self.waiting -= 1;
                self.seats_waiting -= request.seats;
                if let Some(queue) = request.queue.and_then(|index| self.queues.get_mut(&index)) {
                    queue.seats_waiting -= request.seats;
                    // few: the requests of one queue, which its length bounds.
                    queue.waiting.retain(|other| *other != ticket);
                }
            }
        }
        if let Some(index) = request.queue {
            self.take_turn(index);
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
        let request = self.requests.get(ticket.index()).and_then(Option::as_ref);
        request.is_some_and(|request| matches!(request.phase, Phase::Executing(_)))
    }

    /// Requests that wait, and that execute.
    pub(super) fn counts(&self) -> (u32, u32) {
        (self.waiting, self.executing)
    }

    /// Seats in use.
    pub(super) fn seats_in_use(&self) -> u32 {
        self.seats_in_use
    }

    /// Virtual time, in seat-microseconds.
    pub(super) fn r(&self) -> i64 {
        self.r
    }

    /// What was demanded since the last call.
    pub(super) fn take_demand(&mut self, now: u64) -> Demand {
        self.advance(now);
        self.demand.take()
    }

    /// The number of queues.
    pub(super) fn queue_count(&self) -> u32 {
        self.shape.queues
    }

    /// The queues with a request, in the order of their indexes.
    pub(super) fn view(&self) -> Vec<QueueView> {
        let view = |(index, queue): (&u32, &Queue)| QueueView {
            index: *index,
            waiting: queue.waiting.iter().copied().collect(),
            executing: queue.executing,
            seats_in_use: queue.seats_in_use,
            seats_waiting: queue.seats_waiting,
            next_r: queue.next_r,
        };
        let mut views: Vec<QueueView> = self.queues.iter().map(view).collect();
        views.sort_unstable_by_key(|view| view.index);
        views
    }

    /// Seats of a request.
    pub(super) fn seats_of(&self, ticket: Ticket) -> u32 {
        self.requests.get(ticket.index()).and_then(Option::as_ref).map_or(0, |request| request.seats)
    }

    /// Raises R by the work since the last call.
    fn advance(&mut self, now: u64) {
        let passed = now.saturating_sub(self.last).min(SPAN_MAX);
        self.last = now;
        if passed == 0 {
            return;
        }
        let demand = self.seats_in_use + self.seats_waiting;
        self.demand.add(passed, demand);
        let busy = u64::try_from(self.queues.len()).unwrap_or(u64::MAX);
        // Seats that are free because the next request is too wide for them do no work for anybody.
        let work = passed * u64::from(self.seats_in_use) + self.remainder;
        if let Some(share) = work.checked_div(busy) {
            self.r += i64::try_from(share).unwrap_or(0);
            self.remainder = work % busy;
        }
    }

    fn fits(&self, seats: u32) -> bool {
        match seats > self.seats_max {
            true => self.executing == 0,
            false => self.seats_in_use + seats <= self.seats_max,
        }
    }

    /// The queue of the flow's hand with the fewest seats, waiting and in use.
    fn choose_queue(&self, hash: u64) -> u32 {
        let hand = deal(hash, self.shape.queues, self.shape.hand_size);
        let load =
            |index: &u32| self.queues.get(index).map_or(0, |queue| queue.seats_waiting + queue.seats_in_use);
        hand.into_iter().min_by_key(load).unwrap_or(0)
    }

    fn insert(&mut self, request: Request) -> Ticket {
        match self.free.pop() {
            Some(at) => {
                let ticket = Ticket(at);
                self.requests[ticket.index()] = Some(request);
                ticket
            }
            None => {
                self.requests.push(Some(request));
                Ticket(u32::try_from(self.requests.len() - 1).unwrap_or(u32::MAX))
            }
        }
    }

    fn execute_unqueued(&mut self, now: u64, seats: u32) -> Ticket {
        self.executing += 1;
        self.seats_in_use += seats;
        self.insert(Request { queue: None, seats, arrival_r: self.r, phase: Phase::Executing(now) })
    }

    /// Brings the queue's place in the order of turns up to date; forgets an idle queue.
    fn take_turn(&mut self, index: u32) {
        let Some(queue) = self.queues.get_mut(&index) else { return };
        let oldest = queue.waiting.front().and_then(|ticket| self.requests[ticket.index()]);
        let turn = oldest.map(|oldest| {
            // A queue whose guesses were too long does not gain from before its oldest request came.
            queue.next_r = max(queue.next_r, oldest.arrival_r);
            (queue.next_r + work_of(oldest.seats), queue.served, index)
        });
        if queue.turn != turn {
            if let Some(old) = queue.turn {
                self.turns.remove(&old);
            }
            self.turns.extend(turn);
            queue.turn = turn;
        }
        if queue.waiting.is_empty() && queue.executing == 0 {
            self.queues.remove(&index);
        }
    }

    /// Dispatches waiting requests in turn while they fit.
    fn dispatch(&mut self, now: u64) {
        while let Some(&(_, _, index)) = self.turns.first() {
            let Some(queue) = self.queues.get_mut(&index) else { return };
            let Some(&ticket) = queue.waiting.front() else { return };
            let Some(seats) = self.requests[ticket.index()].map(|request| request.seats) else { return };
            if !self.fits(seats) {
                return;
            }
            let Some(queue) = self.queues.get_mut(&index) else { return };
            queue.waiting.pop_front();
            self.dispatches += 1;
            queue.served = self.dispatches;
            queue.executing += 1;
            queue.seats_waiting -= seats;
            queue.seats_in_use += seats;
            queue.next_r += work_of(seats);
            if let Some(request) = &mut self.requests[ticket.index()] {
                request.phase = Phase::Executing(now);
            }
            self.waiting -= 1;
            self.executing += 1;
            self.seats_waiting -= seats;
            self.seats_in_use += seats;
            self.dispatched.push(ticket);
            self.take_turn(index);
        }
    }
}

/// The guess of the work of requests with `seats` in all, in seat-microseconds.
pub(super) fn work_of(seats: u32) -> i64 {
    i64::from(seats) * DURATION_GUESS
}

impl Queue {
    /// An idle queue at virtual time `r`.
    fn at(r: i64) -> Queue {
        Queue {
            waiting: VecDeque::new(),
            executing: 0,
            seats_waiting: 0,
            seats_in_use: 0,
            next_r: r,
            served: 0,
            turn: None,
        }
    }
}

#[cfg(test)]
mod tests;
