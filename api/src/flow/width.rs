//! The width of a request: how many seats it takes.
//!
//! Owns the estimate, as in the reference: a list, and a watch that asks for initial events, takes a seat for each 100 kB
//! that it goes through, up to a megabyte; a write one for each ten watches that get its event; everything else one. It is
//! made before the request is looked at closely, and errs on the cheap side.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use hashbrown::HashMap;

use super::FlowRequest;
use crate::authz::Attributes;
use crate::request::Verb;

/// Bytes of objects for each seat.
const BYTES_PER_SEAT: usize = 100_000;

/// Most bytes that count: lists are sent piece by piece.
const BYTES_MAX: usize = 1_000_000;

/// Watches of a written object for each seat.
const WATCHES_PER_SEAT: u32 = 10;

/// Seats of the request, at least 1 and at most `most`.
pub(super) fn width(request: FlowRequest<'_>, most: u32, watchers: &Watchers) -> u32 {
    let (Some(verb), Attributes::Resource(asked)) = (request.verb, request.asked) else { return 1 };
    let seats = match verb {
        // Restricted to one name, by path or field selector.
        Verb::List | Verb::Watch | Verb::DeleteCollection if !asked.name.is_empty() => 1,
        Verb::Watch if request.query.optional_flag("sendInitialEvents") != Some(true) => 1,
        Verb::List | Verb::Watch | Verb::DeleteCollection => {
            let collection = request.applied.state.collection(request.storage);
            let all = collection.len();
            let limit = request.query.integer("limit").ok().flatten().filter(|limit| *limit > 0);
            let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(all).min(all);
            let bytes = collection.object_bytes() / all.max(1) * limit;
            u32::try_from(bytes.min(BYTES_MAX).div_ceil(BYTES_PER_SEAT)).unwrap_or(most)
        }
        Verb::Get => 1,
        Verb::Create | Verb::Update | Verb::Patch | Verb::Delete => {
            match watchers.count(request.storage, asked.namespace) {
                few if few < WATCHES_PER_SEAT => 1,
                many => many.div_ceil(WATCHES_PER_SEAT),
            }
        }
    };
    seats.clamp(1, most.max(1))
}

/// The watches under way, by collection and namespace.
#[derive(Debug, Default)]
pub(crate) struct Watchers(RwLock<HashMap<Arc<str>, ByNamespace>>);

/// Counts of watches by namespace.
type ByNamespace = HashMap<String, Arc<AtomicU32>>;

/// A watch under way.
#[derive(Debug)]
pub(crate) struct Watcher(Arc<AtomicU32>);

impl Watchers {
    /// Counts a watch of `namespace`, empty for all, until the result is dropped.
    pub(super) fn add(&self, storage: &Arc<str>, namespace: &str) -> Watcher {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let of = all.entry(storage.clone()).or_default();
        let count = of.get(namespace).cloned().unwrap_or_else(|| {
            // Namespaces whose watches have ended are forgotten before another is added.
            of.retain(|_, count| count.load(Ordering::Relaxed) > 0);
            of.entry(namespace.to_owned()).or_default().clone()
        });
        count.fetch_add(1, Ordering::Relaxed);
        Watcher(count)
    }

    /// The watches that get an event of `namespace`.
    fn count(&self, storage: &str, namespace: &str) -> u32 {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Some(of) = all.get(storage) else { return 0 };
        let count = |namespace: &str| of.get(namespace).map_or(0, |count| count.load(Ordering::Relaxed));
        count("") + if namespace.is_empty() { 0 } else { count(namespace) }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
