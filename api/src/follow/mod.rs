//! Values derived from stored objects and kept up to date with the state that this node applies, like the caches of
//! informers.
//!
//! Owns how a derived value is brought up to a state: change by change from the history, so that nothing is queued for
//! a slow reader; by reading the collections again where the history no longer has the changes (a new snapshot, a long
//! pause) or where the followed state was revoked. The caller that reads the value takes in the changes since the last
//! read, where these are few; a thread for blocking work does what is more. What each value holds is in `docs/memory.md`.
//!
//!     Follower    owned by one task: the loops of `controllers`
//!     Maintained  shared by all requests: admission and authorization
//!
//! Invariant: a value holds every change up to the state that it was advanced to, each of them once.

mod changed;
mod digest;
mod maintained;
mod shrink;
mod slots;

use std::sync::Arc;

use orch_raft::{Change, Revision, State, Store};

pub(crate) use changed::{any_changed, poll_changed};
pub(crate) use digest::Digest;
pub use maintained::{Builder, Maintained};
pub(crate) use shrink::shrink;
pub(crate) use slots::Slots;

/// The state that a node has applied at one moment.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The state.
    pub state: Arc<State>,
    /// The store's count of revoked (wrong) states, read before the state: a state shown under an older count is never
    /// taken for one under this.
    revocations: u64,
}

impl Applied {
    /// The state that `store` has applied now.
    pub fn of<S: Store>(store: &S) -> Self {
        let revocations = store.revocations();
        Applied { state: store.state(), revocations }
    }

    /// The store's count of revoked states: orders states together with revisions.
    pub(crate) fn revocations(&self) -> u64 {
        self.revocations
    }

    /// Whether both hold the same state.
    pub(crate) fn is_same(&self, other: &Applied) -> bool {
        self.revocations == other.revocations && self.state.applied() == other.state.applied()
    }

    /// A state that is never revoked.
    #[cfg(test)]
    pub(crate) fn certain(state: Arc<State>) -> Self {
        Applied { state, revocations: 0 }
    }
}

/// A value derived from collections.
pub trait Derived: Send + Sync + 'static {
    /// The storage resources that the value is derived from, as of its last change.
    fn sources(&self) -> impl Iterator<Item = &Arc<str>>;

    /// Takes in a change of a source. The changes of a source come in order, one source after the other.
    fn change(&mut self, source: &Arc<str>, change: &Change);

    /// Derives the value anew from `state`.
    fn rebuild(&mut self, state: &State);
}

/// A derived value, and the revision that it is up to date with.
#[derive(Clone, Debug)]
pub struct Follower<T> {
    value: T,
    seen: Revision,
    revocations: u64,
}

impl<T: Derived> Follower<T> {
    /// Derives `value` from `applied`.
    pub fn new(mut value: T, applied: &Applied) -> Self {
        value.rebuild(&applied.state);
        Follower { value, seen: applied.state.applied(), revocations: applied.revocations }
    }

    /// The value as of the last advance.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// The value as of the last advance, mutable.
    pub fn value_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// Brings the value up to `applied`, or leaves it if it is newer already.
    pub fn advance(&mut self, applied: &Applied) -> &mut T {
        if self.is_at(applied) {
            return &mut self.value;
        }
        let Applied { state, revocations } = applied;
        let is_certain = *revocations == self.revocations;
        if !is_certain || !self.take_in(state, state.applied()) {
            self.value.rebuild(state);
        }
        (self.seen, self.revocations) = (state.applied(), *revocations);
        &mut self.value
    }

    /// Whether the value is up to date with `applied` or newer.
    fn is_at(&self, applied: &Applied) -> bool {
        applied.revocations < self.revocations
            || applied.revocations == self.revocations && applied.state.applied() <= self.seen
    }

    /// Takes in the changes of `state` up to the revision `until`. `false`: the history no longer holds some of them.
    fn take_in(&mut self, state: &State, until: Revision) -> bool {
        let is_changed = |source: &&Arc<str>| state.collection(source).changed() > self.seen;
        let changed: Vec<Arc<str>> = self.value.sources().filter(is_changed).cloned().collect();
        for source in changed {
            let collection = state.collection(&source);
            let Ok(changes) = collection.changes_after(self.seen) else { return false };
            let mut last = Revision(self.seen.0 + 1);
            for change in changes.take_while(|change| change.revision <= until) {
                last = in_order(last, change.revision);
                self.value.change(&source, change);
            }
        }
        true
    }
}

/// The least revision of the next change of a source, behind one of the revision `change` that had to be `least` or more.
fn in_order(least: Revision, change: Revision) -> Revision {
    // A transaction may change several objects of a resource: the next one may have the same revision.
    assert!(change >= least, "each change is taken in once, and in order");
    change
}

#[cfg(test)]
mod tests;
