//! Values derived from stored objects, kept in step with what this node applies.
//!
//! Owns how a derived value is brought up to a state: change by change from the history, so that nothing is queued for who is
//! slow; by reading the collections again where the history no longer has the changes (a new snapshot, a long pause) or
//! where the state that was followed turned out to be wrong. Nothing runs by itself: who asks for the value pays for the
//! changes since it was asked for last.
//!
//!     Follower    one task's value: the loops of `controllers`
//!     Prepared    every request's value: admission
//!
//! Invariant: a value holds every change up to the state that it was brought to, and each of them once.

mod prepared;

use std::sync::Arc;

use orch_raft::{Change, Revision, State, Store};

pub use prepared::Prepared;

/// What a node has applied, as one look found it.
#[derive(Clone, Debug)]
pub struct Applied {
    /// The state.
    pub state: Arc<State>,
    /// The store's count of states found wrong, read before the state: a state shown under an older count is never taken for one under this.
    revocations: u64,
}

impl Applied {
    /// What `store` has applied now.
    pub fn of<S: Store>(store: &S) -> Self {
        let revocations = store.revocations();
        Applied { state: store.state(), revocations }
    }

    /// Whether both are of one state.
    pub(crate) fn is_same(&self, other: &Applied) -> bool {
        self.revocations == other.revocations && self.state.applied() == other.state.applied()
    }

    /// A state of which nothing will be found wrong.
    #[cfg(test)]
    pub(crate) fn certain(state: Arc<State>) -> Self {
        Applied { state, revocations: 0 }
    }
}

/// A value derived from collections.
pub trait Derived: Send + Sync + 'static {
    /// Where the objects are stored that it comes from, as of its last change.
    fn sources(&self) -> impl Iterator<Item = &Arc<str>>;

    /// Takes in a change of one of its sources. Those of one source come in order, sources one after the other.
    fn change(&mut self, source: &Arc<str>, change: &Change);

    /// Forgets what it was derived from and starts with `state`.
    fn rebuild(&mut self, state: &State);
}

/// A derived value and the state that it stands for.
#[derive(Clone, Debug)]
pub struct Follower<T> {
    value: T,
    seen: Revision,
    revocations: u64,
}

impl<T: Derived> Follower<T> {
    /// `value`, started with what is applied.
    pub fn new(mut value: T, applied: &Applied) -> Self {
        value.rebuild(&applied.state);
        Follower { value, seen: applied.state.applied(), revocations: applied.revocations }
    }

    /// The value as it was brought up last.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// The same to be worked with.
    pub fn value_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// The value, brought up to `applied` at least.
    pub fn advance(&mut self, applied: &Applied) -> &mut T {
        if self.is_at(applied) {
            return &mut self.value;
        }
        let Applied { state, revocations } = applied;
        let is_certain = *revocations == self.revocations;
        if !is_certain || !self.take_in(state) {
            self.value.rebuild(state);
        }
        (self.seen, self.revocations) = (state.applied(), *revocations);
        &mut self.value
    }

    /// Whether the value stands for `applied` or for something newer.
    fn is_at(&self, applied: &Applied) -> bool {
        applied.revocations < self.revocations
            || applied.revocations == self.revocations && applied.state.applied() <= self.seen
    }

    /// Takes in the changes up to `state`. `false`: some of them are no longer held.
    fn take_in(&mut self, state: &State) -> bool {
        let is_changed = |source: &&Arc<str>| state.collection(source).changed() > self.seen;
        let changed: Vec<Arc<str>> = self.value.sources().filter(is_changed).cloned().collect();
        for source in changed {
            let collection = state.collection(&source);
            let Ok(changes) = collection.changes_after(self.seen) else { return false };
            changes.for_each(|change| self.value.change(&source, change));
        }
        true
    }
}

#[cfg(test)]
mod tests;
