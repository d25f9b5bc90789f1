//! Turns: requests that conflict over one object try one after another.
//!
//! Owns a queue for each object that more than one request of this node is trying to change; an object without conflicts
//! has none. A turn says when to try, not that the try succeeds: requests on other nodes have turns of their own.
//!
//! A request that names the version it changes takes no turn: each change ahead of it would make it conflict.
//!
//! Requests on the leader see every change first and would always win over those on other nodes. So every few turns the
//! leader leaves a gap, long enough for a try from another node.
//!
//! A turn is for work: a request that waits for another server meanwhile lets its turns go ([`without_turns`]).

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use orch_raft::{Key, Store};
use orch_schema::budget::Budget;
use tokio::sync::OwnedMutexGuard;

/// Turns on the leader from one gap to the next.
const TURNS_BETWEEN_GAPS: u32 = 4;

/// Length of a gap: more than a follower takes to apply a change, to try its own on top and to have that committed.
const GAP: Duration = Duration::from_millis(5);

/// The queues of a node.
#[derive(Debug, Default)]
pub struct Turns(Mutex<HashMap<Key, Arc<Queue>>>);

#[derive(Debug, Default)]
struct Queue {
    /// Fair: handed on in the order of arrival.
    turn: Arc<tokio::sync::Mutex<()>>,
    taken: AtomicU32,
}

/// The right to try. Dropping it passes the turn on.
pub(super) struct Turn<'a> {
    // Dropped before the place, whose drop looks for other requests that still need the queue.
    _turn: OwnedMutexGuard<()>,
    _place: Place<'a>,
}

/// The turns of one request.
#[derive(Default)]
pub(super) struct HeldTurns<'a> {
    /// Of the object that it changes.
    pub(super) object: Option<Turn<'a>>,
    /// Of an object that its write shares with others, such as a quota.
    pub(super) shared: Option<Turn<'a>>,
}

/// The result of `work`, and whether its request, whose budget is `budget`, waited for another server in it. `turns` are let
/// go when that wait begins.
pub(super) async fn without_turns<F: Future>(
    mut work: Pin<&mut F>,
    budget: &Budget,
    turns: &mut HeldTurns<'_>,
) -> (F::Output, bool) {
    let mut waited = false;
    let result = poll_fn(|context| {
        let polled = work.as_mut().poll(context);
        if polled.is_pending() && budget.is_waiting() {
            waited = true;
            *turns = HeldTurns::default();
        }
        polled
    });
    (result.await, waited)
}

/// A place in a queue. The queue exists as long as a request has a place in it.
struct Place<'a> {
    turns: &'a Turns,
    key: Key,
    queue: Arc<Queue>,
}

impl Turns {
    /// Waits for a turn if there is a queue. `None`: no other request is known to be changing the object.
    pub(super) async fn join(&self, key: &Key, store: &impl Store) -> Option<Turn<'_>> {
        let queue = self.queues().get(key).cloned()?;
        Some(self.wait(key, queue, store).await)
    }

    /// Waits for a turn, in a new queue if there is none.
    pub(super) async fn take(&self, key: &Key, store: &impl Store) -> Turn<'_> {
        let queue = self.queues().entry(key.clone()).or_default().clone();
        self.wait(key, queue, store).await
    }

    async fn wait(&self, key: &Key, queue: Arc<Queue>, store: &impl Store) -> Turn<'_> {
        let turn = queue.turn.clone();
        let place = Place { turns: self, key: key.clone(), queue };
        let turn = turn.lock_owned().await;
        let taken = place.queue.taken.fetch_add(1, Ordering::Relaxed);
        if taken % TURNS_BETWEEN_GAPS == TURNS_BETWEEN_GAPS - 1 && store.is_leader() {
            store.sleep(GAP).await;
        }
        Turn { _turn: turn, _place: place }
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<Key, Arc<Queue>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut queues = self.turns.queues();
        // Two references are left: the map's and this one. New ones are made under the lock only.
        if Arc::strong_count(&self.queue) <= 2 {
            queues.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use futures::FutureExt;
    use futures::future::join_all;
    use orch_raft::memory::MemoryStore;

    use super::*;
    use crate::testing::{ProposalOutcome, ScriptedStore};

    /// Time that each writer holds its turn, so that others wait and the queue stays.
    const TRY: Duration = Duration::from_millis(1);

    fn store(leads: bool) -> ScriptedStore {
        let leads = Arc::new(AtomicBool::new(leads));
        ScriptedStore {
            below: MemoryStore::default(),
            leads,
            fate: ProposalOutcome::Applied,
            lag: Arc::default(),
        }
    }

    fn key(name: &str) -> Key {
        Key::new(&Arc::from("configmaps"), "ns", name).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn turns_are_taken_one_after_another_and_nothing_is_left() {
        let (turns, store, key) = (Turns::default(), store(false), key("a"));
        assert!(turns.join(&key, &store).await.is_none(), "nobody waits");
        let (order, busy) = (Mutex::new(Vec::new()), AtomicBool::new(false));
        let writers = (0..5).map(|writer| {
            let (turns, store, key, order, busy) = (&turns, &store, &key, &order, &busy);
            async move {
                let _turn = turns.take(key, store).await;
                assert!(!busy.swap(true, Ordering::Relaxed));
                tokio::time::sleep(Duration::from_millis(10)).await;
                busy.store(false, Ordering::Relaxed);
                order.lock().unwrap().push(writer);
            }
        });
        join_all(writers).await;
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4]);
        assert!(turns.queues().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn turns_are_let_go_while_their_request_waits_for_another_server() {
        let (turns, store, key) = (Turns::default(), store(false), key("a"));
        let budget = Budget::default();
        let mut held = HeldTurns { object: Some(turns.take(&key, &store).await), shared: None };
        let work = std::pin::pin!(async {
            tokio::task::yield_now().await;
            assert!(turns.join(&key, &store).now_or_never().is_none(), "a turn is kept over other pauses");
            let waits = budget.wait();
            // The turn is free: another request takes it and passes it on.
            drop(turns.take(&key, &store).await);
            drop(waits);
        });
        let ((), waited) = without_turns(work, &budget, &mut held).await;
        assert!(waited && held.object.is_none());
        assert!(turns.queues().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_that_gives_up_leaves_no_queue() {
        let (turns, store, key, other) = (Turns::default(), store(false), key("a"), key("b"));
        let turn = turns.take(&key, &store).await;
        assert!(turns.join(&key, &store).now_or_never().is_none(), "it waits");
        assert!(turns.join(&other, &store).await.is_none(), "another object");
        drop(turn);
        assert!(turns.queues().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn the_leaders_writers_leave_gaps() {
        for (leads, gaps) in [(true, 2), (false, 0)] {
            let (turns, store, key) = (Turns::default(), store(leads), key("a"));
            let began = tokio::time::Instant::now();
            let writers = (0..2 * TURNS_BETWEEN_GAPS).map(|_| async {
                let _turn = turns.take(&key, &store).await;
                tokio::time::sleep(TRY).await;
            });
            join_all(writers).await;
            assert_eq!(began.elapsed(), TRY * 2 * TURNS_BETWEEN_GAPS + GAP * gaps);
        }
    }
}
