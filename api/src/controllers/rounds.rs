//! The rounds of a loop that works through a queue of keys.
//!
//! Owns the order in which ended work, changes and due keys are taken in, so that each loop of this kind says only what it
//! derives, what it does for a key, and what a result means:
//!
//!     wait (due key, change, end of work) -> results -> changes -> keys that are due, of which `at_once` are under way at most
//!
//! Invariant: a key in `Round::due` counts as under way until its work has ended or the loop has called `Rounds::done`.

use std::future::Future;
use std::sync::Arc;

use orch_raft::{Store, Subscription};

use super::client::Client;
use super::queue::Queue;
use super::turns::Turns;
use crate::error::ApiError;
use crate::follow::{Applied, Derived, Follower};

/// A derived value with the queue of keys that its changes make due.
pub(super) trait Queued: Derived {
    /// Identifies an object, or other work, that the loop looks at.
    type Key: Clone + Ord + Send + 'static;

    fn queue(&mut self) -> &mut Queue<Self::Key>;
}

/// The keys that are due, and the state that the derived value has been brought up to.
pub(super) struct Round<K> {
    pub due: Vec<K>,
    pub applied: Applied,
}

/// The rounds of one loop. `R`: results of its work.
pub(super) struct Rounds<'a, S, D: Queued, R> {
    store: &'a S,
    turns: Turns<'a, S, (D::Key, R)>,
    follower: Follower<D>,
    at_once: usize,
}

impl<'a, S: Store, D: Queued, R: 'a> Rounds<'a, S, D, R> {
    /// Rounds over `value`, with work for `at_once` keys under way at most. `sources`: all storage resources that it may ever
    /// be derived from, in its order; those that it is derived from just then wake the loop.
    pub(super) async fn new(
        client: &'a Client<S>,
        sources: impl IntoIterator<Item = Arc<str>>,
        value: D,
        at_once: usize,
    ) -> Result<Self, ApiError> {
        let store = client.store();
        // Before the state is read: no change lies between the two.
        let changed: Vec<Subscription> = sources.into_iter().map(|source| store.subscribe(&source)).collect();
        let follower = Follower::new(value, &client.newest().await?);
        Ok(Rounds { store, turns: Turns::new(store, changed), follower, at_once })
    }

    /// Waits for the next round; passes the results of ended work to `end`, which tells the queue.
    pub(super) async fn next(&mut self, mut end: impl FnMut(&mut D, &D::Key, R)) -> Round<D::Key> {
        let value = self.follower.value_mut();
        let heard = value.sources().count();
        let queue = value.queue();
        queue.advance(self.store.elapsed());
        let wait = if queue.taken() < self.at_once { queue.wait() } else { None };
        for (key, result) in self.turns.next_of(heard, wait).await {
            end(value, &key, result);
        }
        let applied = Applied::of(self.store);
        value.queue().advance(self.store.elapsed());
        let queue = self.follower.advance(&applied).queue();
        let due = queue.take_due(self.at_once.saturating_sub(queue.taken()));
        Round { due, applied }
    }

    /// The value as of `applied`, or of a later state.
    pub(super) fn advance(&mut self, applied: &Applied) -> &mut D {
        self.follower.advance(applied)
    }

    /// Begins the work for `key`.
    pub(super) fn start(&mut self, key: D::Key, work: impl Future<Output = R> + Send + 'a) {
        self.turns.start(async move { (key, work.await) });
    }

    /// Ends the turn of `key`, for which the loop has found no work.
    pub(super) fn done(&mut self, key: &D::Key) {
        self.follower.value_mut().queue().done(key);
    }
}
