//! Turns of writes to the target: one at a time to each place.
//!
//! Owns that a write begins once the one before it is answered. What is read from the source in its turn is no older than what was
//! written there before.

use std::collections::HashSet;

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::copied::Place;

/// The places that are written to.
#[derive(Default)]
pub(super) struct Turns {
    taken: Mutex<HashSet<Place>>,
    ended: Notify,
}

/// The turn of one write. Its end is the next one's begin.
#[must_use]
pub(super) struct Turn<'t> {
    turns: &'t Turns,
    at: Place,
}

impl Turns {
    /// Waits until nobody else writes to the place.
    pub(super) async fn take(&self, (kind, place): (&str, &str)) -> Turn<'_> {
        let at = (kind.to_owned(), place.to_owned());
        loop {
            // Made before the look: an end between both wakes it.
            let ended = self.ended.notified();
            let is_free = self.taken.lock().insert(at.clone());
            if is_free {
                return Turn { turns: self, at };
            }
            ended.await;
        }
    }
}

impl Turn<'_> {
    /// The id of the kind of the place.
    pub(super) fn kind(&self) -> &str {
        &self.at.0
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.turns.taken.lock().remove(&self.at);
        self.turns.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_place_is_written_to_by_one_at_a_time_and_others_do_not_wait_for_it() {
        let turns = Turns::default();
        let first = turns.take(("a", "n/x")).await;
        let mut second = Box::pin(turns.take(("a", "n/x")));
        assert!(second.as_mut().now_or_never().is_none());
        assert!(turns.take(("a", "n/y")).now_or_never().is_some());
        assert!(turns.take(("b", "n/x")).now_or_never().is_some());
        drop(first);
        drop(second.await);
        assert!(turns.take(("a", "n/x")).now_or_never().is_some());
    }
}
