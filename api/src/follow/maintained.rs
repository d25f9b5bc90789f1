//! A value derived from stored objects, which is built beside the requests that read it.
//!
//! Owns one value that all requests of a node read in place, without copies. A request takes in little by itself. Where there
//! is more, or many objects have to be read (at the start, after a snapshot), a thread for blocking work does that, and the
//! requests that need the value wait for it without keeping a thread.
//!
//! Invariant: no lock is held while all of many objects are read, nor while more is taken in than [`STEP_CHANGES`] changes
//! or [`STEP_BYTES`] bytes of objects, or one larger revision. A request waits [`LOCK_WAIT`] for a lock, and then as above.

use std::sync::Arc;
use std::time::Duration;

use orch_raft::Revision;
use parking_lot::{RwLock, RwLockWriteGuard};
use tokio::sync::Mutex;

use super::{Applied, Derived, Follower};

/// Changes that are taken in at once.
const STEP_CHANGES: usize = 256;

/// Bytes of objects, before and after their changes, that are taken in at once: decoding them takes about a millisecond. Two
/// hundred changes of small objects have fewer; one object may have six times as many.
const STEP_BYTES: usize = 256 << 10;

/// Time for which a request's thread waits for the lock, which readers and steps hold for less as a rule. A step of one
/// large object may hold it for twenty times as long.
const LOCK_WAIT: Duration = Duration::from_millis(2);

/// Where a value is brought up when that is more than a request does by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Builder {
    /// A thread for blocking work.
    #[default]
    BlockingThread,
    /// The request that asks: for simulations, which have one thread.
    Caller,
}

/// A derived value that is built in the background. Clones share it.
pub struct Maintained<T>(Arc<Shared<T>>);

struct Shared<T> {
    /// `None` before it was built for the first time.
    follower: RwLock<Option<Follower<T>>>,
    /// Held by the task that brings the value up on a thread for blocking work.
    building: Arc<Mutex<()>>,
    builder: Builder,
    empty: Box<dyn Fn() -> T + Send + Sync>,
    sources: Vec<Arc<str>>,
}

impl<T> Clone for Maintained<T> {
    fn clone(&self) -> Self {
        Maintained(self.0.clone())
    }
}

impl<T> std::fmt::Debug for Maintained<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Maintained").finish_non_exhaustive()
    }
}

impl<T: Derived + Default> Default for Maintained<T> {
    fn default() -> Self {
        Maintained::new(T::default)
    }
}

/// The end of one step, and its size.
struct Step {
    until: Revision,
    /// Bytes of the changed objects, before and after.
    bytes: usize,
}

impl<T: Derived> Maintained<T> {
    /// A value that is derived from `empty` when it is first asked for.
    pub fn new(empty: impl Fn() -> T + Send + Sync + 'static) -> Self {
        Maintained::built_by(Builder::default(), empty)
    }

    /// The same, brought up by `builder`.
    pub fn built_by(builder: Builder, empty: impl Fn() -> T + Send + Sync + 'static) -> Self {
        Maintained(Arc::new(Shared {
            follower: RwLock::new(None),
            building: Arc::default(),
            builder,
            sources: empty().sources().cloned().collect(),
            empty: Box::new(empty),
        }))
    }

    /// Passes the value as of `applied`, or of a later state, to `read`. `None`: there is more to take in than a request does
    /// by itself, or the lock is held for longer than `LOCK_WAIT`; see [`Maintained::catch_up`].
    pub fn try_read<R>(&self, applied: &Applied, read: impl FnOnce(&T) -> R) -> Option<R> {
        let current = self.0.follower.try_read_for(LOCK_WAIT)?;
        if let Some(follower) = current.as_ref().filter(|follower| follower.is_current(applied)) {
            return Some(read(follower.value()));
        }
        drop(current);
        let mut current = self.0.follower.try_write_for(LOCK_WAIT)?;
        if !self.take_in_little(&mut current, applied) {
            return None;
        }
        // Others may read at the same time from now on.
        let current = RwLockWriteGuard::downgrade(current);
        Some(read(current.as_ref()?.value()))
    }

    /// Passes the value as it is to `read`, whatever it is up to date with. `None`: it was never read, or the lock is held for
    /// longer than `LOCK_WAIT`.
    pub fn peek<R>(&self, read: impl FnOnce(&T) -> R) -> Option<R> {
        let current = self.0.follower.try_read_for(LOCK_WAIT)?;
        current.as_ref().map(|follower| read(follower.value()))
    }

    /// Does `work` while the value is locked, as by a step that takes long.
    #[cfg(test)]
    pub(crate) fn while_locked<R>(&self, work: impl FnOnce() -> R) -> R {
        let _held = self.0.follower.write();
        work()
    }

    /// Passes the value as of `applied`, or of a later state, to `read`, once it is there.
    pub async fn read<R>(&self, applied: &Applied, mut read: impl FnMut(&T) -> R) -> R {
        loop {
            if let Some(found) = self.try_read(applied, &mut read) {
                return found;
            }
            self.catch_up(applied).await;
        }
    }

    /// Brings the value up to `applied`, on a thread for blocking work.
    pub async fn catch_up(&self, applied: &Applied) {
        let turn = self.0.building.clone().lock_owned().await;
        let current = self.0.follower.try_read();
        if current.is_some_and(|current| current.as_ref().is_some_and(|value| value.is_current(applied))) {
            return;
        }
        if self.0.builder == Builder::Caller {
            return self.work(applied);
        }
        let (own, applied) = (self.clone(), applied.clone());
        // The work goes on where its caller goes away: others wait for it. An error means that the runtime ends.
        let done = tokio::task::spawn_blocking(move || {
            own.work(&applied);
            drop(turn);
        });
        drop(done.await);
    }

    /// Gives back the memory of the value. The next read derives it anew.
    pub fn forget(&self) {
        let value = self.0.follower.write().take();
        match (self.0.builder, value) {
            (Builder::BlockingThread, Some(value)) => {
                // The value is freed beside the caller: a large one takes a tenth of a second.
                drop(tokio::task::spawn_blocking(move || drop(value)));
            }
            (Builder::Caller, Some(_)) | (_, None) => {}
        }
    }

    fn work(&self, applied: &Applied) {
        loop {
            let mut current = self.0.follower.write();
            let Some(follower) = current.as_mut() else { break };
            if follower.is_current(applied) {
                return;
            }
            let Some(step) = follower.step(applied) else { break };
            if !follower.take_step(applied, step.until) {
                break;
            }
        }
        let built = Follower::new((self.0.empty)(), applied);
        let mut current = self.0.follower.write();
        // A request may have taken in a later state meanwhile.
        let is_newer = current.as_ref().is_none_or(|current| !current.is_at(applied));
        let old = if is_newer { current.replace(built) } else { Some(built) };
        drop(current);
        // Freed behind the lock.
        drop(old);
    }

    /// Brings `current` up to `applied` where that is little work; `false`: it is more.
    fn take_in_little(&self, current: &mut Option<Follower<T>>, applied: &Applied) -> bool {
        if let Some(follower) = current {
            if follower.is_current(applied) {
                return true;
            }
            if let Some(step) = follower.step(applied) {
                return step.until >= applied.state.applied()
                    && step.bytes <= STEP_BYTES
                    && follower.take_step(applied, step.until);
            }
        }
        let sources = self.0.sources.iter();
        let bytes: usize = sources.map(|source| applied.state.collection(source).object_bytes()).sum();
        if bytes > STEP_BYTES {
            return false;
        }
        *current = Some(Follower::new((self.0.empty)(), applied));
        true
    }
}

impl<T: Derived> Follower<T> {
    /// Whether the value is that of `applied`, though perhaps it has not been told so, or newer.
    fn is_current(&self, applied: &Applied) -> bool {
        let is_unchanged = |source: &Arc<str>| applied.state.collection(source).changed() <= self.seen;
        self.is_at(applied)
            || applied.revocations == self.revocations && self.value.sources().all(is_unchanged)
    }

    /// The next step on the way to `applied`. `None`: the history no longer holds it, or the followed state was revoked.
    fn step(&self, applied: &Applied) -> Option<Step> {
        if applied.revocations != self.revocations {
            return None;
        }
        let mut changes = Vec::new();
        for source in self.value.sources() {
            let collection = applied.state.collection(source);
            if collection.changed() > self.seen {
                let due = collection.changes_after(self.seen).ok()?;
                // A further change, beyond those of a step, shows that the step does not lead to the end.
                let due = due.take(STEP_CHANGES + 1);
                changes.extend(due.map(|change| (change.revision, change.object_bytes())));
            }
        }
        changes.sort_unstable();
        let mut bytes = 0;
        // once: each change is looked at once.
        let beyond = changes.iter().enumerate().find(|(at, (_, of_change))| {
            bytes += of_change;
            *at > 0 && (*at == STEP_CHANGES || bytes > STEP_BYTES)
        });
        // All changes of a revision belong together.
        let until = match beyond {
            Some((_, (revision, _))) => Revision(revision.0 - 1).max(changes[0].0),
            None => applied.state.applied(),
        };
        let of_step = changes.iter().take_while(|(revision, _)| *revision <= until);
        Some(Step { until, bytes: of_step.map(|(_, bytes)| bytes).sum() })
    }

    /// Takes in the changes up to `until`, a step towards `applied`. `false`: the history no longer holds them.
    fn take_step(&mut self, applied: &Applied, until: Revision) -> bool {
        let is_taken = self.take_in(&applied.state, until);
        if is_taken {
            self.seen = self.seen.max(until);
        }
        is_taken
    }
}
