//! A derived value that all requests of a node share.
//!
//! Owns sharing one value among concurrent requests, no older than the state that each has seen: a client that changed
//! an object through this node finds the change in effect with its next request.

use std::sync::{Arc, Mutex, PoisonError};

use orch_raft::{Change, State};

use super::{Applied, Derived, Follower};

/// A derived value, brought up to date when it is read. Readers keep their version: a change copies the value while
/// another request still holds the old one.
#[derive(Debug)]
pub struct Prepared<T>(Mutex<Option<Follower<Arc<T>>>>);

impl<T> Default for Prepared<T> {
    fn default() -> Self {
        Prepared(Mutex::new(None))
    }
}

impl<T: Derived + Clone + Default> Prepared<T> {
    /// The value as of `applied` or of a later state.
    pub fn at_least(&self, applied: &Applied) -> Arc<T> {
        self.at_least_from(applied, T::default)
    }
}

impl<T: Derived + Clone> Prepared<T> {
    /// The value as of `applied` or of a later state, derived from `empty` the first time.
    pub fn at_least_from(&self, applied: &Applied, empty: impl FnOnce() -> T) -> Arc<T> {
        // After a panic the value is at worst older than its revision says, and a derivation that panics ends the
        // process anyway.
        let mut follower = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let follower = follower.get_or_insert_with(|| Follower::new(Arc::new(empty()), applied));
        follower.advance(applied).clone()
    }
}

impl<T: Derived + Clone> Derived for Arc<T> {
    fn sources(&self) -> impl Iterator<Item = &Arc<str>> {
        (**self).sources()
    }

    fn change(&mut self, source: &Arc<str>, change: &Change) {
        Arc::make_mut(self).change(source, change);
    }

    fn rebuild(&mut self, state: &State) {
        Arc::make_mut(self).rebuild(state);
    }
}
