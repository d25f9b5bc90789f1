//! Flow control: who is served now, who waits, and who is sent away, so that no user starves the rest.
//!
//!     request ---> schema (first match) ---> level (seats) ---> queue (of its flow) ---> seats ---> handler
//!                                                  \                 \
//!                                                   429               429 (queue full, or waited too long)
//!
//! Owns the classification of requests by the stored FlowSchemas, the seats of the stored PriorityLevelConfigurations, and
//! fair queuing inside each level. A request passes after authorization and before a large body is read, so that a request
//! that waits holds none; a small one is there, so that nobody keeps a seat by not sending it. Without priority and fairness, two plain limits take its place (`in_flight`).
//!
//! Invariant: requests of the level `exempt` (administrators, probes) are never held back.
//! Invariant: a waiting request waits at most a quarter of its time limit.
//! Invariant: a seat is given back when the request ends, also where its client has gone.

mod config;
mod demand;
mod dump;
mod gauges;
mod in_flight;
mod initial_events;
mod level;
mod limits;
mod queueset;
mod retry_after;
mod schema;
mod seat;
mod shuffle;
#[cfg(test)]
mod tests;
mod usage;
mod width;

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use futures::future::{Either, select};
use http::{HeaderMap, HeaderName};
use metrics::{Gauge, gauge};
use orch_proto::Brand;
use orch_raft::{Interest, Store};

pub use self::config::Entry;
use self::config::{Config, version};
use self::in_flight::InFlightLimits;
pub use self::initial_events::InitialEvents;
use self::level::{Entered, Waiter};
pub use self::seat::Seat;
pub(crate) use self::seat::{hold_for_a_while, hold_while_sent};
pub(crate) use self::width::Watcher;
use self::width::estimate;
use crate::ambient::Ambient;
use crate::authn::User;
use crate::authz::Attributes;
use crate::error::ApiError;
use crate::follow::Applied;
use crate::request::{Query, Verb};

/// Time between two divisions of the seats by demand, in microseconds: the reference's.
const ADJUST_EVERY: u64 = 10_000_000;

/// A request waits for this part of its time limit: what is left has to suffice for its work.
const WAIT_DIVISOR: u32 = 4;

/// Settings of flow control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether levels and schemas are in force; else the two limits are.
    pub is_fair: bool,
    /// Reads under way at once; 0 is no limit.
    pub reads_max: u32,
    /// Writes under way at once; 0 is no limit.
    pub writes_max: u32,
}

impl Default for Options {
    /// The reference's defaults.
    fn default() -> Self {
        Options { is_fair: true, reads_max: 400, writes_max: 200 }
    }
}

/// The parts of a request that flow control reads.
#[derive(Clone, Copy)]
pub(crate) struct FlowRequest<'a> {
    pub user: &'a User,
    pub asked: Attributes<'a>,
    /// `None`: a path that is no resource.
    pub verb: Option<Verb>,
    pub query: &'a Query,
    /// The collection in the store; empty for paths.
    pub storage: &'a str,
    pub applied: &'a Applied,
    /// Its time limit.
    pub limit: Duration,
    /// Bytes of its body that are still to come.
    pub body_bytes: usize,
}

/// Flow control of one node.
pub struct FlowControl {
    options: Options,
    ambient: Arc<dyn Ambient>,
    config: ArcSwapOption<Config>,
    /// Held while a configuration is made, or the seats are divided.
    changing: Mutex<()>,
    /// Microseconds since 1970.
    adjusted: AtomicU64,
    /// Keyed, because clients choose what is hashed.
    hasher: RandomState,
    limits: InFlightLimits,
    queued: QueuedRequests,
    watchers: width::Watchers,
    /// Headers that name the schema and the level of a response by their uids.
    schema_header: HeaderName,
    level_header: HeaderName,
}

impl FlowControl {
    /// Flow control without a request.
    pub fn new(options: Options, brand: &Brand, ambient: Arc<dyn Ambient>) -> FlowControl {
        let header = |of: &str| {
            let name = format!("x-{}-pf-{of}-uid", brand.name);
            HeaderName::from_bytes(name.as_bytes()).expect("a brand's name is in lower case")
        };
        let adjusted = AtomicU64::new(ambient.now().0);
        FlowControl {
            options,
            ambient,
            config: ArcSwapOption::empty(),
            changing: Mutex::default(),
            adjusted,
            hasher: RandomState::new(),
            limits: InFlightLimits::new(options.reads_max, options.writes_max),
            queued: QueuedRequests::new(),
            watchers: width::Watchers::default(),
            schema_header: header("flowschema"),
            level_header: header("prioritylevel"),
        }
    }

    /// Names the schema and the level in the headers of a response: by uid, since names tell how users are classed.
    pub(crate) fn mark(&self, entry: Option<&Arc<Entry>>, headers: &mut HeaderMap) {
        let Some(entry) = entry else { return };
        let uids = [(&self.schema_header, &entry.schema.uid), (&self.level_header, &entry.level_uid)];
        for (name, uid) in uids {
            if let Some(uid) = uid.clone() {
                // In the place of one that another server wrote.
                headers.insert(name.clone(), uid);
            }
        }
    }

    /// The schema of a request; `None` without priority and fairness.
    pub(crate) fn classify(&self, request: FlowRequest<'_>) -> Option<Arc<Entry>> {
        if !self.options.is_fair {
            return None;
        }
        self.config(request.applied).classify(request.user, request.asked).cloned()
    }

    /// Waits for a seat for a request of the schema `entry`.
    ///
    /// # Errors
    /// `TooManyRequests`: the level has no seat, and no place in a queue, or not in time.
    pub(crate) async fn admit<S: Store>(
        &self,
        store: &S,
        entry: Option<Arc<Entry>>,
        request: FlowRequest<'_>,
    ) -> Result<Seat, ApiError> {
        let Some(entry) = entry else {
            return self.limits.admit(request.user, request.verb).map(Seat::limited);
        };
        let estimate = estimate(request, &self.watchers);
        if let Some(watches) = estimate.watches {
            entry.gauges.note_watches(watches);
        }
        let seats = estimate.seats.clamp(1, entry.level.width_max().max(1));
        let distinguisher = entry.schema.distinguisher(request.user, request.asked);
        let hash = self.hasher.hash_one((entry.schema.name.as_str(), distinguisher));
        let arrived = entry.level.now();
        let describe = |wake| describe(&entry, request, distinguisher, arrived, wake);
        let (ticket, woken, queue_length) = match entry.level.enter(hash, seats, describe) {
            Entered::Seated(ticket) => return Ok(Seat::taken(entry, ticket, seats, arrived)),
            Entered::Refused(reason) => {
                entry.gauges.refuse(reason, 0);
                return Err(ApiError::TooManyRequests { retry_after_s: entry.level.refuse() });
            }
            Entered::Waiting { ticket, woken, queue_length } => (ticket, woken, queue_length),
        };
        entry.gauges.note_queue(queue_length);
        let _queued = self.queued.count(request.verb);
        let waiting = Seat::waiting(entry, ticket, seats, arrived);
        let patience = std::pin::pin!(store.sleep(request.limit / WAIT_DIVISOR));
        match select(woken, patience).await {
            Either::Left(_) => Ok(waiting.take()),
            // Its turn may have come at the same moment.
            Either::Right(_) if waiting.is_seated() => Ok(waiting.take()),
            Either::Right(_) => Err(ApiError::TooManyRequests { retry_after_s: waiting.refuse("time-out") }),
        }
    }

    /// Waits for a seat for a request of `user` with `verb` for `path`, which is no resource, within the time limit
    /// `limit`.
    ///
    /// # Errors
    /// As of the resource API: `TooManyRequests`.
    pub async fn admit_to_path<S: Store>(
        &self,
        store: &S,
        user: &User,
        (verb, path): (&str, &str),
        limit: Duration,
    ) -> Result<Seat, ApiError> {
        let (applied, query) = (Applied::of(store), Query::default());
        let asked = Attributes::Path { verb, path };
        let request = FlowRequest {
            user,
            asked,
            verb: None,
            query: &query,
            storage: "",
            applied: &applied,
            limit,
            body_bytes: 0,
        };
        self.admit(store, self.classify(request), request).await
    }

    /// Counts a watch of a collection until the result is dropped: it widens the writes that wake it.
    pub(crate) fn watch(&self, storage: &Arc<str>, interest: &Arc<Interest>) -> Watcher {
        self.watchers.add(storage, interest)
    }

    /// The configuration as of `applied` or newer, with the seats divided by a recent demand.
    fn config(&self, applied: &Applied) -> Arc<Config> {
        let version = version(applied);
        let config = match self.config.load_full() {
            Some(config) if config.version >= version => config,
            _ => self.reconfigure(applied),
        };
        let (now, adjusted) = (self.ambient.now().0, self.adjusted.load(Ordering::Relaxed));
        // A clock that was set back counts as a long time, too.
        if now.abs_diff(adjusted) >= ADJUST_EVERY {
            self.adjust(&config, now);
        }
        config
    }

    fn reconfigure(&self, applied: &Applied) -> Arc<Config> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.config.load_full();
        if let Some(config) = before.as_ref().filter(|config| config.version >= version(applied)) {
            return config.clone();
        }
        let config = Arc::new(Config::of(applied, self.seats(), before.as_deref(), &self.ambient));
        self.config.store(Some(config.clone()));
        config
    }

    /// Divides the seats by demand. One request does so, the others go on.
    fn adjust(&self, config: &Config, now: u64) {
        let Ok(_changing) = self.changing.try_lock() else { return };
        if now.abs_diff(self.adjusted.swap(now, Ordering::Relaxed)) >= ADJUST_EVERY {
            config.adjust(self.seats());
        }
    }

    /// The seats of all levels together.
    fn seats(&self) -> u32 {
        self.options.reads_max.saturating_add(self.options.writes_max).max(1)
    }
}

/// The requests that wait, reads and writes.
struct QueuedRequests {
    read_only: Gauge,
    mutating: Gauge,
}

/// A request that waits, until it is dropped.
struct Queued<'a>(&'a Gauge);

impl QueuedRequests {
    fn new() -> QueuedRequests {
        let of = |kind: &'static str| gauge!("apiserver_current_inqueue_requests", "request_kind" => kind);
        QueuedRequests { read_only: of("readOnly"), mutating: of("mutating") }
    }

    /// Counts a request; `verb` is `None` for paths, which are read.
    fn count(&self, verb: Option<Verb>) -> Queued<'_> {
        let is_read = verb.is_none_or(Verb::is_read);
        let gauge = if is_read { &self.read_only } else { &self.mutating };
        gauge.increment(1.0);
        Queued(gauge)
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

fn describe(
    entry: &Entry,
    request: FlowRequest<'_>,
    distinguisher: &str,
    arrived: u64,
    wake: tokio::sync::oneshot::Sender<()>,
) -> Waiter {
    let mut waiter = Waiter {
        wake,
        schema: entry.schema.name.clone(),
        distinguisher: distinguisher.to_owned(),
        arrived,
        user: request.user.name.clone(),
        verb: String::new(),
        path: String::new(),
        namespace: String::new(),
        name: String::new(),
        api_version: String::new(),
        resource: String::new(),
        subresource: String::new(),
    };
    match request.asked {
        Attributes::Path { verb, path } => {
            (waiter.verb, waiter.path) = (verb.to_owned(), path.to_owned());
        }
        Attributes::Resource(asked) => {
            waiter.verb = asked.verb.to_owned();
            waiter.namespace = asked.namespace.to_owned();
            waiter.name = asked.name.to_owned();
            waiter.resource = asked.resource.to_owned();
            waiter.subresource = asked.subresource.to_owned();
            waiter.api_version = match asked.group {
                "" => asked.version.to_owned(),
                group => format!("{group}/{}", asked.version),
            };
        }
    }
    waiter
}
