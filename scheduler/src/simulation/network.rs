//! The network between scheduler processes and the API servers.
//!
//! ```text
//!   request ──transit──> server acts ──transit──> answer          each leg has its own delay
//!      │ refused to connect   │ lost before        │ lost after, late, held while cut off
//! ```
//!
//! Owns what is under way. A request that was sent arrives although its sender crashed meanwhile. Its transit is shorter
//! than the time between the end of a leadership and the next one's begin ([`Manner::transit_max`]): no lease can protect
//! from a request that arrives later, and the product does not claim it. Answers may take any time. One exception is made,
//! and counted: a process that is stopped may have handed a request over, and the system sends its bytes only when the
//! process goes on ([`World::hold`]). Such a request has travelled for too long.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::channel::oneshot;
use futures::future::BoxFuture;
use http::{Request, Response};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::time::Instant;

use super::Moment;
use super::api::{Store, uid_of};
use super::check::Told;
use super::extenders::{self, Extender};
use super::lease::{Arrived, Sent, Tenures};
use super::manner::Manner;
use super::server::{Asked, Reply, refusal};
use super::watches::Watches;
use crate::client::{Failure, Network, ResponseBody};

/// API servers: addresses of one store.
pub(super) const SERVERS: usize = 2;

/// A process, and the number of its start among all of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Life {
    pub(super) process: usize,
    pub(super) number: u64,
}

/// The fate of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Served,
    Unconnected,
    LostBefore,
    LostAfter,
    Refused(u16, u64),
}

pub(super) type Answer = Result<Response<ResponseBody>, Failure>;

enum Flight {
    Arrival(Arrival),
    // Without a server: noticed on the process's own side, cut off or not.
    Return { from: Life, server: Option<usize>, outcome: Box<Answer>, answer: Waiter },
}

/// The sender of a request, which waits for its answer.
struct Waiter {
    sender: oneshot::Sender<Answer>,
    // When the process sent this renewal of its lease, by its own clock; `None` for other requests.
    renewal: Option<Duration>,
}

/// A request under way.
struct Arrival {
    from: Life,
    server: usize,
    sent: Moment,
    asked: Box<Asked>,
    fate: Fate,
    answer: Waiter,
}

/// A process whose next renewal arrives, whose answer to it comes late, and that reaches nothing else for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LastRenewal {
    pub(super) delay: Moment,
    pub(super) silence: Moment,
}

/// Store, network, and all that the checks read of them.
pub(super) struct World {
    pub(super) now: Moment,
    pub(super) random: StdRng,
    pub(super) manner: Manner,
    pub(super) store: Store,
    pub(super) watches: Watches,
    pub(super) sent: Vec<Sent>,
    pub(super) arrived: Vec<Arrived>,
    tenures: Tenures,
    pub(super) told: Vec<Told>,
    /// The extender, in a run that has one.
    pub(super) extender: Option<Extender>,
    /// The process that wrote each name into the lease.
    pub(super) holders: BTreeMap<String, Life>,
    pub(super) trace: Vec<String>,
    // Until when a process reaches a server no more.
    pub(super) cuts: BTreeMap<(usize, usize), Moment>,
    // Until when requests of a process are lost, although its answers are not.
    silent: BTreeMap<usize, Moment>,
    pub(super) last_renewals: BTreeMap<usize, LastRenewal>,
    flights: BTreeMap<(Moment, u64), Flight>,
    serial: u64,
}

impl World {
    pub(super) fn new(seed: u64, manner: Manner) -> Self {
        Self {
            now: 0,
            random: StdRng::seed_from_u64(seed ^ 0x6e65_7477_6f72_6b00),
            manner,
            store: Store::default(),
            watches: Watches::default(),
            sent: Vec::new(),
            arrived: Vec::new(),
            tenures: Tenures::default(),
            told: Vec::new(),
            extender: None,
            holders: BTreeMap::new(),
            trace: Vec::new(),
            cuts: BTreeMap::new(),
            silent: BTreeMap::new(),
            last_renewals: BTreeMap::new(),
            flights: BTreeMap::new(),
            serial: 0,
        }
    }

    pub(super) fn note(&mut self, what: &str) {
        self.trace.push(format!("{:>7} {what}", self.now));
    }

    /// Until when `process` does not reach `server`; `None` if it does.
    fn cut(&self, process: usize, server: usize) -> Option<Moment> {
        self.cuts.get(&(process, server)).copied().filter(|until| *until > self.now)
    }

    pub(super) fn chance(&mut self, thousandths: u32) -> bool {
        self.random.random_range(0..1_000) < thousandths
    }

    /// A delay of up to `max`, of which most are short.
    fn delay(&mut self, max: Moment) -> Moment {
        self.delay_of(self.manner.slow, max)
    }

    fn delay_of(&mut self, slow: u32, max: Moment) -> Moment {
        let short = self.manner.slice * 2;
        let max = if self.chance(slow) { max.max(short + 1) } else { short + 1 };
        self.manner.slice + self.random.random_range(0..max)
    }

    fn fly(&mut self, delay: Moment, flight: Flight) {
        self.serial += 1;
        self.flights.insert((self.now + delay, self.serial), flight);
    }

    fn fate(&mut self, process: usize, server: usize, asked: &Asked) -> Fate {
        let Manner { lost_before, lost_after, refused, unconnected, bindings_refused, .. } = self.manner;
        let refused = if asked.is_binding() { refused.max(bindings_refused) } else { refused };
        let is_cut = self.cut(process, server).is_some();
        match () {
            () if is_cut && self.random.random_bool(0.5) => Fate::Unconnected,
            () if self.chance(unconnected) => Fate::Unconnected,
            () if self.chance(lost_before) => Fate::LostBefore,
            () if self.chance(lost_after) => Fate::LostAfter,
            () if self.chance(refused) => match self.random.random_range(0..4) {
                0 => Fate::Refused(500, 0),
                1 => Fate::Refused(503, 0),
                2 => Fate::Refused(429, self.random.random_range(1..4)),
                _ => Fate::Refused(503, self.random.random_range(1..11)),
            },
            () => Fate::Served,
        }
    }

    /// `from` hands a request over, at this time of its own clock.
    fn send(&mut self, from: Life, clock: Duration, request: Request<Bytes>) -> oneshot::Receiver<Answer> {
        let host = request.uri().host().unwrap_or_default();
        let server = usize::from(host != "api-0");
        let asked = Box::new(Asked::new(request));
        let (sender, receiver) = oneshot::channel();
        let fate = self.fate(from.process, server, &asked);
        if let Some((pod, deed)) = asked.deed() {
            let known = self.tenures.at(from, clock);
            self.note(&format!("{from:?} sends {deed:?} of {pod}: {fate:?}, {known:?}"));
            self.sent.push(Sent { at: self.now, by: from, pod, deed, known });
        }
        if let Some(binding) = asked.extender_binding()
            && let Some(extender) = &mut self.extender
        {
            extender.see(self.now, from, &binding);
        }
        let holder = asked.lease_holder();
        if holder.as_deref() == Some("") {
            self.tenures.released(from);
        }
        let answer = Waiter { sender, renewal: holder.filter(|holder| !holder.is_empty()).map(|_| clock) };
        if fate == Fate::Unconnected {
            let outcome = Box::new(Err(Failure::Connect("no connection".into())));
            let delay = self.delay(self.manner.answer_max.min(5_000));
            self.fly(delay, Flight::Return { from, server: None, outcome, answer });
            return receiver;
        }
        let Manner { slow, bindings_slow, transit_max, slice, .. } = self.manner;
        let slow = if asked.is_binding() { slow.max(bindings_slow) } else { slow };
        let delay = self.delay_of(slow, transit_max.saturating_sub(2 * slice));
        let sent = self.now;
        self.fly(delay, Flight::Arrival(Arrival { from, server, sent, asked, fate, answer }));
        receiver
    }

    /// The process stops until `until`: half of the requests that it has just handed over leave the machine after that.
    pub(super) fn hold(&mut self, process: usize, until: Moment) {
        let is_fresh = |flight: &Flight| match flight {
            Flight::Arrival(arrival) => {
                arrival.from.process == process && arrival.sent + self.manner.slice >= self.now
            }
            Flight::Return { .. } => false,
        };
        let fresh: Vec<_> =
            self.flights.iter().filter(|(_, flight)| is_fresh(flight)).map(|(key, _)| *key).collect();
        for key in fresh {
            if self.random.random_bool(0.5)
                && let Some(flight) = self.flights.remove(&key)
            {
                let delay = until - self.now + self.delay(0);
                self.fly(delay, flight);
            }
        }
    }

    /// Delivers what is due.
    pub(super) fn deliver(&mut self) {
        while let Some(entry) = self.flights.first_entry()
            && entry.key().0 <= self.now
        {
            match entry.remove() {
                Flight::Arrival(arrival) => self.arrive(arrival),
                Flight::Return { from, server, outcome, answer } => {
                    let cut = server.and_then(|server| Some((server, self.cut(from.process, server)?)));
                    match cut {
                        // Half of the connections outlive the cut, and bring their answers after it.
                        Some((_, until)) if self.random.random_bool(0.5) => {
                            let delay = until - self.now;
                            self.fly(delay, Flight::Return { from, server, outcome, answer });
                        }
                        Some((server, _)) => self.break_later(from, server, answer),
                        None => self.answer(from, *outcome, answer),
                    }
                }
            }
        }
        let Self { watches, store, random, manner, cuts, now, .. } = self;
        watches.flush(*now, store, random, manner, cuts);
    }

    /// Gives an answer. Nobody takes it where the process has crashed, or waits no more.
    fn answer(&mut self, from: Life, outcome: Answer, answer: Waiter) {
        let is_done = matches!(&outcome, Ok(response) if response.status() == 200);
        let is_taken = answer.sender.send(outcome).is_ok();
        if is_done
            && is_taken
            && let Some(sent) = answer.renewal
        {
            self.tenures.renewed(from, sent, self.manner.renew_deadline);
        }
    }

    fn break_later(&mut self, from: Life, server: usize, answer: Waiter) {
        let until = self.cut(from.process, server).unwrap_or(self.now);
        let wait = self.random.random_range(0..=until - self.now);
        let outcome = Box::new(Err(Failure::Lost("the connection broke".to_owned())));
        match wait {
            0 => self.answer(from, *outcome, answer),
            wait => self.fly(wait, Flight::Return { from, server: None, outcome, answer }),
        }
    }

    fn arrive(&mut self, arrival: Arrival) {
        let Arrival { from, server, sent, asked, fate, answer } = arrival;
        let silent_until = self.silent.get(&from.process).copied().filter(|until| *until > self.now);
        if let Some(until) = silent_until {
            let outcome = Box::new(Err(Failure::Lost("the request was lost".to_owned())));
            let wait = self.random.random_range(0..=until - self.now);
            return self.fly(wait, Flight::Return { from, server: None, outcome, answer });
        }
        let is_cut = self.cut(from.process, server).is_some();
        if is_cut || fate == Fate::LostBefore {
            return self.break_later(from, server, answer);
        }
        let aimed = asked.deed().map(|(pod, deed)| {
            let uid = self.store.pod(&pod).map(|pod| uid_of(pod).to_owned()).unwrap_or_default();
            (pod, uid, deed)
        });
        let reply = match fate {
            Fate::Refused(code, retry_after) => {
                Reply::Whole(refusal(&(code, "", "planted".to_owned()), retry_after))
            }
            _ => self.store.serve(self.now, &asked),
        };
        let is_done = matches!(&reply, Reply::Whole(response) if response.status() == 200);
        self.see(from, &asked, fate, &reply);
        if is_done && let Some((pod, uid, deed)) = aimed {
            self.arrived.push(Arrived { at: self.now, sent, by: from, pod, uid, deed });
        }
        let outcome = match (fate, reply) {
            (Fate::LostAfter, _) => Err(Failure::Lost("the answer was lost".to_owned())),
            (_, Reply::Whole(response)) => Ok(response),
            (_, Reply::Watch(request)) => {
                let Self { watches, random, manner, now, .. } = self;
                Ok(watches.open(*now, from, server, request, random, manner))
            }
        };
        let is_renewal = is_done && asked.is_lease() && asked.method == "PUT";
        if is_renewal && let Some(last) = self.last_renewals.remove(&from.process) {
            self.note(&format!("{from:?} reaches nothing after this renewal: {last:?}"));
            self.silent.insert(from.process, self.now + last.silence);
            return self
                .fly(last.delay, Flight::Return { from, server: None, outcome: Box::new(outcome), answer });
        }
        let delay = self.delay(self.manner.answer_max);
        let flight = Flight::Return { from, server: Some(server), outcome: Box::new(outcome), answer };
        self.fly(delay, flight);
    }

    fn see(&mut self, from: Life, asked: &Asked, fate: Fate, reply: &Reply) {
        let Reply::Whole(response) = reply else { return };
        let code = response.status().as_u16();
        if !asked.is_watch() && asked.method != "GET" && !asked.is_event() {
            self.note(&format!("{from:?} {}: {code} {fate:?}", asked.described()));
        }
        if code == 200 && asked.is_lease() {
            let spec = self.store.lease.as_ref().and_then(|lease| lease.spec.clone());
            let holder = spec.and_then(|spec| spec.holder_identity).unwrap_or_default();
            if asked.method != "GET" && !holder.is_empty() {
                self.holders.insert(holder, from);
            }
        }
        if code == 200
            && let Some(event) = asked.event()
        {
            let regarding = event.regarding.unwrap_or_default();
            self.told.push(Told { by: from, reason: event.reason, note: event.note, uid: regarding.uid });
        }
    }

    /// All watches end in order, as those of a server that is replaced.
    pub(super) fn end_watches(&mut self) {
        let now = self.now;
        self.note("all watches end");
        self.watches.end_all(now);
    }

    /// Ends every fault: connections that were cut break or go on at once.
    pub(super) fn calm(&mut self) {
        self.manner.calm();
        self.cuts.clear();
        self.silent.clear();
        self.last_renewals.clear();
        self.watches.calm();
        let late: Vec<_> = self.flights.keys().copied().filter(|(at, _)| *at > self.now + 5_000).collect();
        for key in late {
            if let Some(flight) = self.flights.remove(&key) {
                self.fly(5_000, flight);
            }
        }
    }
}

/// The way of one process to the servers.
pub(super) struct Link {
    pub(super) from: Life,
    /// When the process began, by its own clock.
    pub(super) origin: Instant,
    pub(super) world: Arc<Mutex<World>>,
}

impl Network for Link {
    fn request(&self, request: Request<Bytes>) -> BoxFuture<'static, Answer> {
        let mut world = self.world.lock();
        if let Some(answer) = extenders::answer(&mut world, self.from, &request) {
            return answer;
        }
        let answer = world.send(self.from, self.origin.elapsed(), request);
        Box::pin(async move {
            answer.await.unwrap_or_else(|_| Err(Failure::Lost("the connection broke".to_owned())))
        })
    }
}
