//! What a scheduler process can know of its lease: by its own clock, and by the answers that reached it.
//!
//! Owns until when each process may work. Whatever a process sends later is its own fault; what it sent in time and the
//! world brought late is not. The product is not asked: the network sees its renewals and reads its clock.

use std::collections::BTreeMap;
use std::time::Duration;

/// What a process can know of its lease at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Its time lasts.
    Held,
    /// Its time ended so long ago.
    Past(Duration),
    /// It never had the lease, or has asked to let it go.
    NotHeld,
}

/// Until when each life of a process may work, by its own clock.
#[derive(Debug, Default)]
pub(crate) struct Tenures {
    until: BTreeMap<String, Duration>,
}

impl Tenures {
    /// `life` asks for the lease to be free.
    pub(crate) fn released(&mut self, life: &str) {
        self.until.remove(life);
    }

    /// `life` gets an answer to its renewal: it may work until then.
    pub(crate) fn renewed(&mut self, life: &str, until: Duration) {
        self.until.insert(life.to_owned(), until);
    }

    pub(crate) fn at(&self, life: &str, clock: Duration) -> Known {
        match self.until.get(life) {
            None => Known::NotHeld,
            Some(until) if clock < *until => Known::Held,
            Some(until) => Known::Past(clock - *until),
        }
    }
}
