//! Places for connections: how many there are, and whose is taken when there is none.
//!
//! Owns the table of connections whose clients are strangers: no certificate that holds, and no request yet whose
//! credentials were accepted. When all places are taken, a new connection gets that of the oldest stranger, so that a
//! flood of strangers pushes out strangers. Clients that were let in keep theirs; where all were, new ones wait.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::process::{Resource, getrlimit};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::limits;

/// All places of a server.
#[derive(Clone, Debug)]
pub(super) struct Places {
    permits: Arc<Semaphore>,
    strangers: Arc<Mutex<Strangers>>,
}

#[derive(Debug, Default)]
struct Strangers {
    /// Of the next connection.
    number: u64,
    /// By age, each with what ends it.
    waiting: BTreeMap<u64, CancellationToken>,
}

/// One connection's place, given back when dropped.
#[derive(Debug)]
pub(super) struct Place {
    number: u64,
    places: Places,
    is_stranger: AtomicBool,
    evicted: CancellationToken,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Places {
    /// As many places as there may be connections, and as descriptors allow.
    pub(super) fn as_allowed() -> Places {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let descriptors = usize::try_from(descriptors).unwrap_or(usize::MAX);
        let allowed = descriptors.saturating_sub(limits::DESCRIPTORS_KEPT).max(limits::CONNECTIONS_MIN);
        Places::new(allowed.min(limits::CONNECTIONS_MAX))
    }

    /// `count` places.
    pub(super) fn new(count: usize) -> Places {
        Places { permits: Arc::new(Semaphore::new(count)), strangers: Arc::default() }
    }

    /// A place for a new connection: a free one, that of the oldest stranger, or the next to become free.
    pub(super) async fn take(&self) -> Arc<Place> {
        let free = Arc::clone(&self.permits).try_acquire_owned().ok();
        let permit = match free {
            Some(permit) => Some(permit),
            None => {
                self.make_room();
                // It fails only when the semaphore is closed, which nobody does.
                Arc::clone(&self.permits).acquire_owned().await.ok()
            }
        };
        let evicted = CancellationToken::new();
        let mut strangers = self.strangers.lock();
        let number = strangers.number;
        strangers.number += 1;
        strangers.waiting.insert(number, evicted.clone());
        drop(strangers);
        let (places, is_stranger) = (self.clone(), AtomicBool::new(true));
        Arc::new(Place { number, places, is_stranger, evicted, _permit: permit })
    }

    fn make_room(&self) {
        match self.strangers.lock().waiting.pop_first() {
            Some((_, evicted)) => {
                tracing::debug!("a stranger's connection makes room for a new one");
                evicted.cancel();
            }
            None => tracing::warn!("no place for another connection, new ones wait"),
        }
    }
}

impl Place {
    /// Its client was let in: nobody takes its place any more.
    pub(super) fn keep(&self) {
        if self.is_stranger.load(Ordering::Relaxed) && self.is_stranger.swap(false, Ordering::Relaxed) {
            self.places.strangers.lock().waiting.remove(&self.number);
        }
    }

    /// Waits until another connection needs the place.
    pub(super) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.keep();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_evicted(place: &Place) -> bool {
        place.evicted.is_cancelled()
    }

    #[tokio::test]
    async fn the_oldest_stranger_makes_room_and_those_let_in_stay() {
        let places = Places::new(3);
        let known = places.take().await;
        known.keep();
        let (older, newer) = (places.take().await, places.take().await);
        let waiting = places.take();
        tokio::pin!(waiting);
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        assert_eq!([&known, &older, &newer].map(|place| is_evicted(place)), [false, true, false]);
        drop(older);
        let newest = waiting.await;
        assert!(!is_evicted(&newest));
    }

    #[tokio::test]
    async fn where_all_were_let_in_a_new_one_waits() {
        let places = Places::new(1);
        let known = places.take().await;
        known.keep();
        let waiting = places.take();
        tokio::pin!(waiting);
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        assert!(!is_evicted(&known));
        drop(known);
        waiting.await;
    }
}
