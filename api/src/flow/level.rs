//! A priority level at work: its fair queuing, and the tasks that wait for a seat.
//!
//! Owns the lock around a level's [`QueueSet`], which is held for a fraction of a microsecond and never across a wait,
//! and wakes the task of each request whose turn has come. A request with a free seat costs no allocation.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::demand::Demand;
use super::gauges::LevelGauges;
use super::limits::{Bounds, Shares, smooth};
use super::queueset::{Arrival, QueueSet, QueueView, Shape, Ticket};
use super::retry_after::RetryAfter;
use super::usage::{Limits, Totals, Usage};
use crate::ambient::Ambient;

/// Most seats of one request.
const WIDTH_MAX: u32 = 10;

/// Percent of a level's nominal seats that one request may take.
const WIDTH_PERCENT_MAX: u32 = 15;

/// Microseconds in a second.
const SECOND: u64 = 1_000_000;

/// A priority level.
pub(super) struct Level {
    pub name: String,
    pub is_exempt: bool,
    ambient: Arc<dyn Ambient>,
    work: Mutex<Work>,
    width_max: AtomicU32,
    pub gauges: LevelGauges,
}

struct Work {
    set: QueueSet,
    /// By the index of the ticket; `None`: not waiting.
    waiters: Vec<Option<Waiter>>,
    smoothed: f64,
    bounds: Bounds,
    current: u32,
    places: u32,
    retry_after: RetryAfter,
}

/// A request that waits, and what a debug page shows of it.
pub(super) struct Waiter {
    pub wake: oneshot::Sender<()>,
    pub schema: String,
    pub distinguisher: String,
    /// Microseconds since 1970.
    pub arrived: u64,
    pub user: String,
    pub verb: String,
    pub path: String,
    pub namespace: String,
    pub name: String,
    pub api_version: String,
    pub resource: String,
    pub subresource: String,
}

/// Outcome of an arriving request at its level.
pub(super) enum Entered {
    /// The request has its seats.
    Seated(Ticket),
    /// The request waits until the receiver is told.
    Waiting {
        ticket: Ticket,
        woken: oneshot::Receiver<()>,
        /// Requests in its queue, itself among them.
        queue_length: usize,
    },
    /// It is refused, for this reason.
    Refused(&'static str),
}

/// The state of a level, for debug pages and metrics.
pub(super) struct LevelView {
    pub totals: Totals,
    pub queue_count: u32,
    pub queues: Vec<QueueView>,
    pub r: i64,
}

impl Level {
    pub(super) fn new(name: &str, is_exempt: bool, ambient: Arc<dyn Ambient>) -> Level {
        let shape = Shape { queues: 0, hand_size: 0, queue_length_max: 0 };
        let bounds = Bounds { nominal: 0, lower: 0, upper: 0 };
        let set = QueueSet::new(shape, 0, ambient.now().0);
        let work = Work {
            set,
            waiters: Vec::new(),
            smoothed: 0.0,
            bounds,
            current: 0,
            places: 0,
            retry_after: RetryAfter::new(),
        };
        Level {
            name: name.to_owned(),
            is_exempt,
            ambient,
            work: Mutex::new(work),
            width_max: AtomicU32::new(1),
            gauges: LevelGauges::of(name),
        }
    }

    /// Applies a changed configuration. A new level begins with its nominal seats.
    pub(super) fn configure(&self, shape: Shape, bounds: Bounds) {
        let mut work = self.lock();
        work.set.reshape(shape);
        let is_changed = work.bounds != bounds;
        (work.bounds, work.places) = (bounds, shape.places());
        work.set_limits(self.now());
        self.gauges.set_bounds(bounds);
        let most = bounds.nominal.saturating_mul(WIDTH_PERCENT_MAX).div_ceil(100);
        self.width_max.store(most.clamp(1, WIDTH_MAX), Ordering::Relaxed);
        drop(work);
        if is_changed {
            self.set_current(bounds.nominal);
        }
    }

    /// Changes the number of seats until the next adjustment.
    pub(super) fn set_current(&self, seats: u32) {
        let mut work = self.lock();
        work.current = seats;
        let seats_max = if self.is_exempt { u32::MAX } else { seats };
        work.set.set_seats_max(self.now(), seats_max);
        work.set_limits(self.now());
        self.gauges.set_current(seats);
        work.wake();
    }

    /// Most seats of one request.
    pub(super) fn width_max(&self) -> u32 {
        self.width_max.load(Ordering::Relaxed)
    }

    /// A request arrives. `describe` is called only if it has to wait.
    pub(super) fn enter(
        &self,
        hash: u64,
        seats: u32,
        describe: impl FnOnce(oneshot::Sender<()>) -> Waiter,
    ) -> Entered {
        let mut work = self.lock();
        let arrival = work.set.arrive(self.now(), hash, seats);
        work.wake();
        match arrival {
            Arrival::Dispatched(ticket) => Entered::Seated(ticket),
            Arrival::Queued(ticket) => {
                let (wake, woken) = oneshot::channel();
                let at = ticket.index();
                if work.waiters.len() <= at {
                    work.waiters.resize_with(at + 1, || None);
                }
                work.waiters[at] = Some(describe(wake));
                Entered::Waiting { ticket, woken, queue_length: work.set.waiting_beside(ticket) }
            }
            Arrival::ConcurrencyLimit => Entered::Refused("concurrency-limit"),
            Arrival::QueueFull => Entered::Refused("queue-full"),
        }
    }

    /// A request leaves: it has ended, or no longer waits.
    pub(super) fn leave(&self, ticket: Ticket) {
        let mut work = self.lock();
        if let Some(waiter) = work.waiters.get_mut(ticket.index()) {
            *waiter = None;
        }
        work.set.leave(self.now(), ticket);
        work.wake();
    }

    /// Whether the request has its seats.
    pub(super) fn is_seated(&self, ticket: Ticket) -> bool {
        self.lock().set.is_executing(ticket)
    }

    /// Ends a period of demand: its measure, and the smoothed demand after it.
    pub(super) fn take_demand(&self) -> (Demand, f64) {
        let mut work = self.lock();
        let demand = work.set.take_demand(self.now());
        work.smoothed = smooth(work.smoothed, demand.mean(), demand.deviation());
        (demand, work.smoothed)
    }

    /// The state now.
    pub(super) fn view(&self) -> LevelView {
        let work = self.lock();
        LevelView {
            totals: work.set.totals(),
            queue_count: work.set.queue_count(),
            queues: work.set.view(),
            r: work.set.r(),
        }
    }

    /// The use of the level until now.
    pub(super) fn usage(&self) -> Usage {
        self.lock().set.usage(self.now())
    }

    /// A request is refused. Returns the seconds after which its client may come again.
    pub(super) fn refuse(&self) -> u32 {
        self.lock().retry_after.refuse(self.now() / SECOND)
    }

    /// Calls `show` with each waiting request: its queue, its place in it, its seats.
    pub(super) fn for_each_waiting(&self, mut show: impl FnMut(u32, usize, u32, &Waiter)) {
        let work = self.lock();
        for queue in work.set.view() {
            for (place, ticket) in queue.waiting.iter().enumerate() {
                if let Some(Some(waiter)) = work.waiters.get(ticket.index()) {
                    show(queue.index, place, work.set.seats_of(*ticket), waiter);
                }
            }
        }
    }

    /// Microseconds since 1970.
    pub(super) fn now(&self) -> u64 {
        self.ambient.now().0
    }

    fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Work {
    fn set_limits(&mut self, now: u64) {
        let limits = Limits { current: self.current, nominal: self.bounds.nominal, places: self.places };
        self.set.set_limits(now, limits);
    }

    /// Wakes the tasks of requests that were given seats.
    fn wake(&mut self) {
        if !self.set.has_dispatched() {
            return;
        }
        for ticket in self.set.take_dispatched() {
            if let Some(waiter) = self.waiters.get_mut(ticket.index()).and_then(Option::take) {
                // A task that stopped waiting leaves with its ticket.
                let _ = waiter.wake.send(());
            }
        }
    }
}

/// Queuing and shares of a level, from the spec of its stored object.
pub(super) fn shape_and_shares(spec: &orch_schema::value::Value) -> (Shape, Shares) {
    use orch_rules::validate::tree::Tree;
    let (exempt, limited) = (spec.at("exempt"), spec.at("limited"));
    let is_exempt = spec.text("type") == "Exempt";
    let of = if is_exempt { exempt } else { limited };
    let number =
        |of: &orch_schema::value::Value, field: &str| u32::try_from(of.int(field).unwrap_or(0)).unwrap_or(0);
    let borrowing = limited.int("borrowingLimitPercent").and_then(|percent| u32::try_from(percent).ok());
    let shares = Shares {
        nominal: number(of, "nominalConcurrencyShares"),
        lendable_percent: number(of, "lendablePercent"),
        borrowing_limit_percent: borrowing,
        is_exempt,
    };
    let queuing = limited.at("limitResponse").at("queuing");
    let shape = Shape {
        queues: number(queuing, "queues"),
        hand_size: number(queuing, "handSize"),
        queue_length_max: usize::try_from(number(queuing, "queueLengthLimit")).unwrap_or(usize::MAX),
    };
    (shape, shares)
}
