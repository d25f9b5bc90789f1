//! Events that are rendered once for all watches that send them.
//!
//! Owns a cache of the events that are made by reading an object: tables, metadata in JSON, converted versions, and deletions
//! in Protobuf. The first watch that needs an event renders it, the others take its bytes; threads that need it at the same
//! moment may each render it, and one result is kept. Events of changes alone are kept: the initial events of one long list
//! would push out what many watches are about to take. The events that were rendered first leave first, because watches
//! follow the same changes in the same order.
//!
//! It renders nothing and knows no watch. A lookup never waits for a rendering.
//!
//! Invariant: an event is found only for the very object that it was rendered from. An object with the same name and revision
//! of a state that was withdrawn is another one.
//! Invariant: what is kept has [`SHARED_BYTES_MAX`] bytes at most, keys included.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use hashbrown::HashMap;
use metrics::{Counter, counter};
use orch_raft::Revision;
use orch_raft::object::{Object, SharedObject};
use parking_lot::Mutex;

use super::event::{Event, EventType};
use super::form::Form;
use crate::ambient::Timestamp;
use crate::registry::Resource;

/// Bytes of rendered events that a node keeps. Watches that are awake take an event within milliseconds of each other: this
/// is four thousand events of a usual object, a fifth of a second of the most changes that a node applies, and one event of the
/// largest object. A watch that is further behind renders by itself.
pub(crate) const SHARED_BYTES_MAX: usize = 4 << 20;

/// Bytes that an event takes beside its own: its places in the table and in the order, both up to half empty, and the block
/// of an object whose content is gone.
const OVERHEAD_BYTES: usize = 4 * size_of::<EventKey>() + 2 * size_of::<Kept>() + size_of::<Object>() + 64;

/// All that the bytes of an event depend on. Addresses belong to what [`Kept`] holds, so that they are not given to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct EventKey {
    /// Representation, view and version, with the resource.
    form: Form,
    /// The type as the watch's selection makes it.
    kind: EventType,
    /// Address of the version of the object that is shown, which has its path and revision.
    object: usize,
    /// The revision of the change, where it is shown instead of the object's own.
    revision: Option<Revision>,
    /// Of tables: it is the first event of its stream, which names the columns.
    is_first: bool,
    /// Of tables: the second as of which ages are told. 0 for others.
    second: u64,
}

/// The rendered events of one node.
pub struct SharedEvents {
    events: Mutex<Events>,
    rendered: Count,
    taken: Count,
}

/// Invariant: `order` has each key of `by_key` once, and `bytes` is their sum.
#[derive(Default)]
struct Events {
    by_key: HashMap<EventKey, Kept>,
    /// Oldest first.
    order: VecDeque<EventKey>,
    bytes: usize,
}

/// A rendered event, with the owners of the addresses in its key.
struct Kept {
    bytes: Bytes,
    /// Keeps the object's block of memory, and nothing of its content.
    object: Weak<Object>,
    _resource: Arc<Resource>,
}

impl EventKey {
    /// The key of `event` in `form`, rendered at `now`. `is_first`: it is the first of its stream.
    pub(crate) fn of(event: &Event<'_>, form: Form, is_first: bool, now: Timestamp) -> EventKey {
        let is_table = form.is_table();
        EventKey {
            form,
            kind: event.kind,
            object: Arc::as_ptr(event.object).addr(),
            revision: event.revision,
            is_first: is_table && is_first,
            second: if is_table { now.seconds() } else { 0 },
        }
    }
}

impl Default for SharedEvents {
    fn default() -> SharedEvents {
        SharedEvents {
            events: Mutex::default(),
            rendered: Count::of(counter!("apiserver_watch_events_rendered_total")),
            taken: Count::of(counter!("apiserver_watch_events_shared_total")),
        }
    }
}

impl SharedEvents {
    /// Number of events that were rendered for all watches so far.
    pub fn rendered(&self) -> u64 {
        self.rendered.number()
    }

    /// Number of events that watches took from others so far.
    pub fn taken(&self) -> u64 {
        self.taken.number()
    }

    /// Bytes that are kept, keys included.
    #[cfg(test)]
    pub(crate) fn kept_bytes(&self) -> usize {
        self.events.lock().bytes
    }

    /// The bytes of the event of `key`, if it is kept.
    pub(crate) fn find(&self, key: &EventKey) -> Option<Bytes> {
        self.events.lock().by_key.get(key).map(|kept| kept.bytes.clone())
    }

    /// Counts an event that was found and is sent.
    pub(crate) fn count_taken(&self) {
        self.taken.add();
    }

    /// Keeps an event of `object` that was rendered as `bytes`, and returns the bytes to send: those of another thread, if it
    /// was quicker.
    pub(crate) fn keep(
        &self,
        key: EventKey,
        bytes: Vec<u8>,
        object: &SharedObject,
        resource: &Arc<Resource>,
    ) -> Bytes {
        self.rendered.add();
        // Without spare capacity, which the bound would not see.
        let bytes = Bytes::from(bytes.into_boxed_slice());
        if cost(&bytes) > SHARED_BYTES_MAX {
            return bytes;
        }
        let kept = Kept { bytes, object: Arc::downgrade(object), _resource: resource.clone() };
        let (bytes, dropped) = self.events.lock().add(key, kept);
        // Not under the lock.
        drop(dropped);
        bytes
    }
}

impl Events {
    /// Adds an event unless it is there, and returns its bytes and the events that were removed to make room.
    fn add(&mut self, key: EventKey, kept: Kept) -> (Bytes, Vec<Kept>) {
        if let Some(earlier) = self.by_key.get(&key) {
            return (earlier.bytes.clone(), vec![kept]);
        }
        let bytes = kept.bytes.clone();
        self.bytes += cost(&bytes);
        self.by_key.insert(key, kept);
        self.order.push_back(key);
        let mut dropped = Vec::new();
        while self.bytes > SHARED_BYTES_MAX || self.is_oldest_out_of_reach() {
            let Some(left) = self.order.pop_front().and_then(|oldest| self.by_key.remove(&oldest)) else {
                break;
            };
            self.bytes -= cost(&left.bytes);
            dropped.push(left);
        }
        (bytes, dropped)
    }

    /// Whether the oldest event is of an object that neither the state nor the history has any more, so that no watch asks
    /// for it again.
    fn is_oldest_out_of_reach(&self) -> bool {
        let oldest = self.order.front().and_then(|oldest| self.by_key.get(oldest));
        oldest.is_some_and(|kept| kept.object.strong_count() == 0)
    }
}

fn cost(bytes: &Bytes) -> usize {
    bytes.len() + OVERHEAD_BYTES
}

/// A number that only grows, and its series among the metrics.
struct Count {
    number: AtomicU64,
    series: Counter,
}

impl Count {
    fn of(series: Counter) -> Count {
        Count { number: AtomicU64::new(0), series }
    }

    fn add(&self) {
        self.number.fetch_add(1, Ordering::Relaxed);
        self.series.increment(1);
    }

    fn number(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }
}
