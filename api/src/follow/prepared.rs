//! A derived value that every request of a node may ask for.
//!
//! Owns that all who ask at the same time get one value, and that it is no older than what they have seen: who changed an object
//! through this node finds the change in force with the next request.

use std::sync::{Arc, Mutex, PoisonError};

use orch_raft::{Change, State};

use super::{Applied, Derived, Follower};

/// A derived value, brought up when it is asked for. A reader keeps what it got: a change makes a new value while somebody
/// still reads the old one.
#[derive(Debug, Default)]
pub struct Prepared<T>(Mutex<Option<Follower<Arc<T>>>>);

impl<T: Derived + Clone + Default> Prepared<T> {
    /// The value as of `applied` or of a later state.
    pub fn at_least(&self, applied: &Applied) -> Arc<T> {
        // What a panic left behind has seen less than it says at worst, and a derivation that panics ends the process anyway.
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
