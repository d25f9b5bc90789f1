//! The queues with a request, and the order of their turns.
//!
//! A queue's `next_r` is the virtual time at which its next request would begin if all busy queues shared the work
//! equally. The queue whose oldest request would end first is next. When a request begins, its duration is a guess,
//! corrected when it ends.
//!
//! Invariant: `by_index` holds exactly the queues with a request; an idle queue has no claim to past virtual time.
//! Invariant: `turns` holds each queue with a waiting request once.

use std::cmp::max;
use std::collections::{BTreeSet, VecDeque};

use hashbrown::HashMap;

use super::requests::{Requests, Ticket};

/// Guess of a request's duration: a usual one, in microseconds.
const DURATION_GUESS: i64 = 3_000;

/// Virtual end of a queue's oldest request; then the last dispatch and the index of the queue.
type Turn = (i64, u64, u32);

/// The queues of a level that hold a request.
#[derive(Debug, Default)]
pub(super) struct Queues {
    by_index: HashMap<u32, Queue>,
    turns: BTreeSet<Turn>,
    /// Dispatches so far.
    dispatches: u64,
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

/// A queue as debug pages show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::flow) struct QueueView {
    pub index: u32,
    pub waiting: Vec<Ticket>,
    pub executing: u32,
    pub seats_in_use: u32,
    pub seats_waiting: u32,
    /// In seat-microseconds.
    pub next_r: i64,
}

impl Queues {
    /// The number of queues with a request.
    pub(super) fn busy(&self) -> usize {
        self.by_index.len()
    }

    /// Requests that wait in the queue.
    pub(super) fn waiting_in(&self, index: u32) -> usize {
        self.by_index.get(&index).map_or(0, |queue| queue.waiting.len())
    }

    /// Seats of the queue's requests, waiting and executing.
    pub(super) fn load_of(&self, index: u32) -> u32 {
        self.by_index.get(&index).map_or(0, |queue| queue.seats_waiting + queue.seats_in_use)
    }

    /// The queues with a waiting request in the order of their turns, each with its oldest request.
    pub(super) fn in_turn(&self) -> impl Iterator<Item = (u32, Ticket)> + '_ {
        let oldest = |index: u32| Some((index, *self.by_index.get(&index)?.waiting.front()?));
        self.turns.iter().filter_map(move |&(_, _, index)| oldest(index))
    }

    /// A request with `seats` waits in the queue, behind the others, at virtual time `r`.
    pub(super) fn enqueue(&mut self, index: u32, ticket: Ticket, seats: u32, r: i64, requests: &Requests) {
        let queue = self.by_index.entry(index).or_insert_with(|| Queue::at(r));
        queue.waiting.push_back(ticket);
        queue.seats_waiting += seats;
        self.take_turn(index, requests);
    }

    /// A waiting request leaves the queue.
    pub(super) fn withdraw(&mut self, index: u32, ticket: Ticket, seats: u32, requests: &Requests) {
        if let Some(queue) = self.by_index.get_mut(&index) {
            queue.seats_waiting -= seats;
            // few: the requests of one queue, which its length bounds.
            queue.waiting.retain(|other| *other != ticket);
        }
        self.take_turn(index, requests);
    }

    /// The queue's oldest request, with `seats`, begins to execute.
    pub(super) fn begin_oldest(&mut self, index: u32, seats: u32, requests: &Requests) {
        self.dispatches += 1;
        if let Some(queue) = self.by_index.get_mut(&index) {
            queue.waiting.pop_front();
            queue.served = self.dispatches;
            queue.executing += 1;
            queue.seats_waiting -= seats;
            queue.seats_in_use += seats;
            queue.next_r += work_of(seats);
        }
        self.take_turn(index, requests);
    }

    /// A request of the queue with `seats` ends after `micros`.
    pub(super) fn end(&mut self, index: u32, seats: u32, micros: i64, requests: &Requests) {
        if let Some(queue) = self.by_index.get_mut(&index) {
            queue.executing -= 1;
            queue.seats_in_use -= seats;
            queue.next_r += i64::from(seats) * (micros - DURATION_GUESS);
        }
        self.take_turn(index, requests);
    }

    /// All queues, in the order of their indexes.
    pub(super) fn view(&self) -> Vec<QueueView> {
        let view = |(index, queue): (&u32, &Queue)| QueueView {
            index: *index,
            waiting: queue.waiting.iter().copied().collect(),
            executing: queue.executing,
            seats_in_use: queue.seats_in_use,
            seats_waiting: queue.seats_waiting,
            next_r: queue.next_r,
        };
        let mut views: Vec<QueueView> = self.by_index.iter().map(view).collect();
        views.sort_unstable_by_key(|view| view.index);
        views
    }

    /// Brings the queue's place in the order of turns up to date; forgets an idle queue.
    fn take_turn(&mut self, index: u32, requests: &Requests) {
        let Some(queue) = self.by_index.get_mut(&index) else { return };
        let oldest = queue.waiting.front().and_then(|ticket| requests.find(*ticket));
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
            self.by_index.remove(&index);
        }
    }
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

/// The guess of the work of requests with `seats` in all, in seat-microseconds.
pub(in crate::flow) fn work_of(seats: u32) -> i64 {
    i64::from(seats) * DURATION_GUESS
}
