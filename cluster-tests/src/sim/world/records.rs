//! What clients of a simulated cluster saw, and the first thing that went wrong.
//!
//! Owns putting these down and handing them out. It judges nothing.

use super::World;
use crate::sim::sightings::{Listed, Watched};

impl World {
    /// Records a watch.
    pub fn record_watch(&self, watched: Watched) {
        self.0.watched.lock().push(watched);
    }

    /// Records a list.
    pub fn record_list(&self, listed: Listed) {
        self.0.listed.lock().push(listed);
    }

    /// All watches recorded.
    pub fn watched(&self) -> Vec<Watched> {
        self.0.watched.lock().clone()
    }

    /// All lists recorded.
    pub fn listed(&self) -> Vec<Listed> {
        self.0.listed.lock().clone()
    }

    /// Records that something is wrong; only the first counts.
    pub fn fail(&self, what: impl ToString) {
        let mut failure = self.0.failure.lock();
        if failure.is_none() {
            let what = what.to_string();
            self.0.trace.event(format_args!("FAILURE: {what}"));
            *failure = Some(what);
        }
    }

    /// The first thing found wrong.
    pub fn failure(&self) -> Option<String> {
        self.0.failure.lock().clone()
    }
}
