//! The handle to what is served: one registry at a time, which is replaced whole.
//!
//! Owns the change from one registry to the next, and the loops that are told of it. A request takes the registry once, when it
//! begins, and ends with it. A loop follows: it takes added resources in, and removed ones out.
//!
//! Invariant: changes are made one after the other, each from the registry that the last one left, and keep the cluster's brand.
//! Invariant: those who follow are woken in a fixed order, that of their numbers, so that a simulation replays exactly.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use arc_swap::ArcSwap;
use orch_proto::Brand;
use parking_lot::Mutex;

use super::Registry;

/// The handle to the registry that is served now. Clones share it.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

struct Shared {
    current: ArcSwap<Registry>,
    brand: &'static Brand,
    /// Held during a change.
    turn: Mutex<()>,
    followers: Mutex<Followers>,
}

#[derive(Default)]
struct Followers {
    newest: u64,
    wakers: BTreeMap<u64, Waker>,
}

/// The registries that a handle leads to, one after the other, as one loop sees them.
pub struct Changes {
    shared: Arc<Shared>,
    number: u64,
    seen: Arc<Registry>,
}

impl Handle {
    /// A handle to `registry`.
    pub fn new(registry: Arc<Registry>) -> Self {
        let (brand, current) = (registry.brand, ArcSwap::new(registry));
        Handle(Arc::new(Shared { current, brand, turn: Mutex::default(), followers: Mutex::default() }))
    }

    /// The registry that is served now.
    pub fn load(&self) -> Arc<Registry> {
        self.0.current.load_full()
    }

    /// The cluster's brand names, which no change of the registry changes.
    pub fn brand(&self) -> &'static Brand {
        self.0.brand
    }

    /// Serves what `change` makes of what is served now. Requests that have begun are not affected.
    ///
    /// # Errors
    /// That of `change`; nothing is changed.
    pub fn update<E>(
        &self,
        change: impl FnOnce(&Registry) -> Result<Arc<Registry>, E>,
    ) -> Result<Arc<Registry>, E> {
        let turn = self.0.turn.lock();
        let before = self.load();
        let next = change(&before)?;
        assert!(next.brand.name == self.0.brand.name, "a change of what is served keeps the cluster's brand");
        self.0.current.store(next.clone());
        drop(turn);
        before.end_all_but(&next);
        let wakers = std::mem::take(&mut self.0.followers.lock().wakers);
        wakers.into_values().for_each(Waker::wake);
        Ok(next)
    }

    /// The changes after what is served now.
    pub fn follow(&self) -> Changes {
        let mut followers = self.0.followers.lock();
        followers.newest += 1;
        let number = followers.newest;
        drop(followers);
        Changes { shared: self.0.clone(), number, seen: self.load() }
    }
}

impl Changes {
    /// The registry, as of the last change that was seen.
    pub fn seen(&self) -> &Arc<Registry> {
        &self.seen
    }

    /// Takes in the newest registry; `false`: it was seen before.
    pub fn advance(&mut self) -> bool {
        let newest = self.shared.current.load_full();
        let is_new = !Arc::ptr_eq(&newest, &self.seen);
        self.seen = newest;
        is_new
    }

    /// Ready where something else is served than what was seen last.
    pub fn poll_changed(&self, context: &mut Context<'_>) -> Poll<()> {
        if !self.is_current() {
            return Poll::Ready(());
        }
        self.shared.followers.lock().wakers.insert(self.number, context.waker().clone());
        // A change between the two looks may have found no waker.
        if self.is_current() { Poll::Pending } else { Poll::Ready(()) }
    }

    fn is_current(&self) -> bool {
        Arc::ptr_eq(&self.shared.current.load(), &self.seen)
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.shared.followers.lock().wakers.remove(&self.number);
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Handle").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::poll_fn;
    use std::pin::pin;

    use orch_proto::brand::{KUBERNETES, ORCH};

    use super::*;

    #[tokio::test]
    async fn a_change_is_seen_once_and_a_request_keeps_what_it_began_with() {
        let handle = Handle::new(Registry::builtin(&ORCH));
        let (mut changes, began) = (handle.follow(), handle.load());
        assert!(!changes.advance());
        let next = handle.update(|now| Ok::<_, Infallible>(now.without("pods"))).unwrap();
        poll_fn(|context| changes.poll_changed(context)).await;
        assert!(changes.advance() && Arc::ptr_eq(changes.seen(), &next));
        assert!(!changes.advance());
        assert!(began.find("", "v1", "pods").is_some() && handle.load().find("", "v1", "pods").is_none());
    }

    #[test]
    #[should_panic(expected = "keeps the cluster's brand")]
    fn no_change_replaces_the_brand() {
        let handle = Handle::new(Registry::builtin(&ORCH));
        drop(handle.update(|_| Ok::<_, Infallible>(Registry::builtin(&KUBERNETES))));
    }

    #[tokio::test]
    async fn a_loop_that_waits_is_woken_and_a_refused_change_is_none() {
        let handle = Handle::new(Registry::builtin(&ORCH));
        let changes = handle.follow();
        let mut waiting = pin!(poll_fn(|context| changes.poll_changed(context)));
        assert!(futures::poll!(&mut waiting).is_pending());
        assert_eq!(handle.update(|_| Err("no")).map(|_| ()), Err("no"));
        assert!(futures::poll!(&mut waiting).is_pending());
        handle.update(|now| Ok::<_, Infallible>(now.without("pods"))).unwrap();
        waiting.await;
    }
}
