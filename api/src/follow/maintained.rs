//! A value derived from very many objects, which is built beside the requests that read it.
//!
//! Owns one value that all requests of a node read in place, without copies. A request takes in a few changes itself. Where
//! there are more, or all objects have to be read (at the start, after a snapshot), a thread for blocking work does that,
//! and the requests that need the value wait for it without keeping a thread.
//!
//! Invariant: no lock is held while all objects are read, nor while more than [`STEP_REVISIONS`] entries are taken in.

use std::sync::Arc;

use orch_raft::Revision;
use parking_lot::RwLock;
use tokio::sync::Mutex;

use super::{Applied, Derived, Follower};

/// Log entries that are taken in at once: some milliseconds where each of them changes a pod.
const STEP_REVISIONS: u64 = 256;

/// A derived value that is built in the background. Clones share it.
pub struct Maintained<T>(Arc<Shared<T>>);

struct Shared<T> {
    /// `None` before it was built for the first time.
    follower: RwLock<Option<Follower<T>>>,
    /// Held by whoever builds.
    building: Arc<Mutex<()>>,
    empty: Box<dyn Fn() -> T + Send + Sync>,
}

impl<T> Clone for Maintained<T> {
    fn clone(&self) -> Self {
        Maintained(self.0.clone())
    }
}

impl<T: Derived> Maintained<T> {
    /// A value that is derived from `empty` when it is first asked for.
    pub fn new(empty: impl Fn() -> T + Send + Sync + 'static) -> Self {
        Maintained(Arc::new(Shared {
            follower: RwLock::new(None),
            building: Arc::default(),
            empty: Box::new(empty),
        }))
    }

    /// Passes the value as of `applied`, or of a later state, to `read`. `None`: there is more to take in than a request does
    /// by itself; see [`Maintained::catch_up`].
    pub fn try_read<R>(&self, applied: &Applied, read: impl FnOnce(&T) -> R) -> Option<R> {
        let current = self.0.follower.read();
        if let Some(follower) = current.as_ref().filter(|follower| follower.is_at(applied)) {
            return Some(read(follower.value()));
        }
        drop(current);
        let mut current = self.0.follower.write();
        let follower = current.as_mut()?;
        if !follower.is_within(applied, STEP_REVISIONS) || !follower.step(applied, STEP_REVISIONS) {
            return None;
        }
        Some(read(follower.value()))
    }

    /// Brings the value up to `applied`, on a thread for blocking work.
    pub async fn catch_up(&self, applied: &Applied) {
        let turn = self.0.building.clone().lock_owned().await;
        let (own, applied) = (self.clone(), applied.clone());
        // The work goes on where its caller goes away: others wait for it. An error means that the runtime ends.
        let done = tokio::task::spawn_blocking(move || {
            own.work(&applied);
            drop(turn);
        });
        drop(done.await);
    }

    fn work(&self, applied: &Applied) {
        loop {
            let mut current = self.0.follower.write();
            let Some(follower) = current.as_mut() else { break };
            if follower.is_at(applied) {
                return;
            }
            if !follower.step(applied, STEP_REVISIONS) {
                break;
            }
        }
        let built = Follower::new((self.0.empty)(), applied);
        let old = self.0.follower.write().replace(built);
        // Freed behind the lock.
        drop(old);
    }
}

impl<T: Derived> Follower<T> {
    /// Whether the value is of the same history as `applied`, and at most `revisions` entries older.
    fn is_within(&self, applied: &Applied, revisions: u64) -> bool {
        applied.revocations == self.revocations
            && applied.state.applied().0 <= self.seen.0.saturating_add(revisions)
    }

    /// Takes in the changes of at most `revisions` entries on the way to `applied`. `false`: the history no longer holds
    /// them, or the followed state was revoked.
    fn step(&mut self, applied: &Applied, revisions: u64) -> bool {
        if applied.revocations != self.revocations {
            return self.is_at(applied);
        }
        let until = Revision(self.seen.0.saturating_add(revisions)).min(applied.state.applied());
        if !self.take_in(&applied.state, until) {
            return false;
        }
        self.seen = self.seen.max(until);
        true
    }
}
