//! A derived value that all requests of a node share.
//!
//! Owns sharing one value among concurrent requests, no older than the state that each has seen: a client that changed
//! an object through this node finds the change in effect with its next request.

use std::sync::{Arc, Mutex, PoisonError};

use orch_raft::{Change, State};

use super::{Applied, Derived, Follower};

/// A derived value, brought up to date when it is read. Readers keep their version: a change copies the value while
/// another request still holds the old one.
#[derive(Debug, Default)]
pub struct Prepared<T>(Mutex<Option<Follower<Arc<T>>>>);

impl<T: Derived + Clone + Default> Prepared<T> {
    /// The value as of `applied` or of a later state.
    pub fn at_least(&self, applied: &Applied) -> Arc<T> {
        // After a panic the value is at worst older than its revision says, and a derivation that panics ends the
        // process anyway.
        let mut follower = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let follower = follower.get_or_insert_with(|| Follower::new(Arc::default(), applied));
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
