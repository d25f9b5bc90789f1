//! The rounds of a loop that works through a queue of keys.
//!
//! Owns the order in which ended work, changes and due keys are taken in, so that each loop of this kind says only what it
//! derives, what it does for a key, and what a result means:
//!
//!     wait (due key, change, end of work) -> results -> changes -> keys that are due, of which `at_once` are under way at most
//!
//! A result means the same to all of them ([`end`]): work that was overtaken by a change is done with, because the change makes
//! the key due; work that failed is tried again later and later. One key that fails, or whose work takes long, holds up no other.
//!
//! Invariant: a key in `Round::due` counts as under way until its work has ended or the loop has called `Rounds::done`.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use orch_raft::{State, Store};

use super::FAILED;
use super::client::{Client, is_overtaken};
use super::queue::Queue;
use super::turns::Turns;
use crate::error::ApiError;
use crate::follow::{Applied, Derived, Follower};
use crate::registry::Registry;

/// Result of work that has not failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The loop has no work left until a change.
    Settled,
    /// The key waits for something that no change of the followed objects shows: rights, an authority.
    Waiting,
    /// The key is to be looked at after this time without a change.
    After(Duration),
}

/// Ends the work for `key`, called `name` in the log. `warning`: the log message of a failure.
pub(super) fn end<S: Store, K: Clone + Ord>(
    client: &Client<S>,
    queue: &mut Queue<K>,
    (key, name): (&K, &str),
    result: Result<Progress, ApiError>,
    warning: &str,
) {
    match result {
        Ok(Progress::Settled) => queue.done(key),
        Ok(Progress::Waiting) => queue.failed(key),
        Ok(Progress::After(wait)) => {
            queue.done(key);
            queue.add(key, wait);
        }
        // The change that overtook the work makes the key due.
        Err(error) if is_overtaken(&error) => queue.done(key),
        Err(error) => {
            if let Some(left_out) = FAILED.pass_at(client.moment()) {
                tracing::warn!(%error, name, left_out, "{warning}");
            }
            queue.failed(key);
        }
    }
}

/// A derived value with the queue of keys that its changes make due.
pub(super) trait Queued: Derived {
    /// Identifies an object, or other work, that the loop looks at.
    type Key: Clone + Ord + Send + 'static;

    fn queue(&mut self) -> &mut Queue<Self::Key>;

    /// All storage resources that the value may ever be derived from where this is served, in its order; `None`: they are the
    /// same whatever is served.
    fn sources_of(_served: &Registry) -> Option<Vec<Arc<str>>> {
        None
    }

    /// Takes in that something else is served: `sources` are those of [`Queued::sources_of`]. The value is up to date with
    /// `state`.
    fn follow(&mut self, _sources: Vec<Arc<str>>, _state: &State) {}
}

/// The keys that are due, and the state that the derived value has been brought up to.
pub(super) struct Round<K> {
    pub due: Vec<K>,
    pub applied: Applied,
}

/// The rounds of one loop. `R`: results of its work.
pub(super) struct Rounds<'a, S, D: Queued, R> {
    client: &'a Client<S>,
    turns: Turns<'a, S, (D::Key, R)>,
    follower: Follower<D>,
    at_once: usize,
}

impl<'a, S: Store, D: Queued, R: 'a> Rounds<'a, S, D, R> {
    /// Rounds over `value`, with work for `at_once` keys under way at most. `sources`: all storage resources that it may ever
    /// be derived from, in its order, unless it follows what is served; those that it is derived from just then wake the loop.
    /// `name`: that of the loop, for metrics of its queue.
    pub(super) async fn new(
        (client, name): (&'a Client<S>, &'static str),
        sources: impl IntoIterator<Item = Arc<str>>,
        value: D,
        at_once: usize,
    ) -> Result<Self, ApiError> {
        let store = client.store();
        // Before the state is read: no change lies between the two.
        let mut turns = Turns::new(store, sources);
        let served = client.follow();
        let followed = D::sources_of(served.seen());
        if let Some(sources) = &followed {
            turns = turns.following(served);
            turns.hear(sources.clone());
        }
        let applied = client.newest().await?;
        let mut follower = Follower::new(value, &applied);
        follower.value_mut().queue().measure(client.figures().queue(name));
        if let Some(sources) = followed {
            follower.value_mut().follow(sources, &applied.state);
        }
        Ok(Rounds { client, turns, follower, at_once })
    }

    /// Waits for the next round; passes the results of ended work to `end`, which tells the queue.
    pub(super) async fn next(&mut self, mut end: impl FnMut(&mut D, &D::Key, R)) -> Round<D::Key> {
        let value = self.follower.value_mut();
        let heard = value.sources().count();
        let queue = value.queue();
        queue.advance(self.client.store().elapsed());
        let wait = if queue.taken() < self.at_once { queue.wait() } else { None };
        let ended = self.turns.next_of(heard, wait).await;
        value.queue().advance(self.client.store().elapsed());
        for (key, result) in ended {
            end(value, &key, result);
        }
        let followed = self.turns.newly_served().and_then(|served| D::sources_of(&served));
        if let Some(sources) = &followed {
            self.turns.hear(sources.clone());
        }
        let applied = Applied::of(self.client.store());
        let value = self.follower.advance(&applied);
        if let Some(sources) = followed {
            value.follow(sources, &applied.state);
        }
        let queue = value.queue();
        let due = queue.take_due(self.at_once.saturating_sub(queue.taken()));
        Round { due, applied }
    }

    /// Begins the work for each of `due` in the newest state: that which `work_for` returns for the value as of that state.
    /// `None`: there is none, and the turn of the key ends.
    ///
    /// # Errors
    /// The newest state is unknown, for want of a quorum; the keys count as under way.
    pub(super) async fn start_all<F>(
        &mut self,
        due: Vec<D::Key>,
        mut work_for: impl FnMut(&mut D, &Applied, &D::Key) -> Option<F> + Send,
    ) -> Result<(), ApiError>
    where
        F: Future<Output = R> + Send + 'a,
    {
        if due.is_empty() {
            return Ok(());
        }
        let applied = self.client.newest().await?;
        for key in due {
            match work_for(self.follower.advance(&applied), &applied, &key) {
                Some(work) => self.start(key, work),
                None => self.done(&key),
            }
        }
        Ok(())
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
