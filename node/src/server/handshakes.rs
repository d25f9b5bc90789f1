//! Turns of TLS handshakes: on each event loop one at a time.
//!
//! A handshake costs a signature, a hundred times what a small request computes. Clients that connect together, or in a flood, would all stand
//! before the requests of their loop. A handshake that can go on therefore takes the turn of its loop first, and keeps it until the tasks that
//! are ready have run; those that wait for it are in the semaphore's queue, not in the runtime's.
//!
//! Owns no deadline and no socket. Invariant: a turn has one step of a handshake, and does not wait for the client.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker, ready};

use futures::task::AtomicWaker;
use tokio::sync::Semaphore;
use tokio_util::sync::PollSemaphore;

/// The turn of the handshakes of one event loop; clones share it.
#[derive(Clone, Debug)]
pub(super) struct Handshakes(Arc<Semaphore>);

impl Default for Handshakes {
    fn default() -> Self {
        Handshakes(Arc::new(Semaphore::new(1)))
    }
}

/// Tells whether a handshake can go on from whether its task comes round to end its turn.
struct Woken {
    is_woken: AtomicBool,
    task: AtomicWaker,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.task.wake();
    }
}

impl Handshakes {
    /// Completes with `handshake`, each poll of which is a turn.
    pub(super) async fn in_turn<F: Future>(&self, handshake: F) -> F::Output {
        let (mut turns, mut turn) = (PollSemaphore::new(Arc::clone(&self.0)), None);
        let mut handshake = pin!(handshake);
        let woken = Arc::new(Woken { is_woken: AtomicBool::new(true), task: AtomicWaker::new() });
        let waker = Waker::from(Arc::clone(&woken));
        poll_fn(|cx| {
            // The tasks that were ready have run. The next handshake is woken, and queued behind those that are ready now.
            drop(turn.take());
            woken.task.register(cx.waker());
            if !woken.is_woken.load(Ordering::Acquire) {
                return Poll::Pending;
            }
            // The semaphore is never closed; if it were, everyone would go on.
            let taken = ready!(turns.poll_acquire(cx));
            woken.is_woken.store(false, Ordering::Release);
            let polled = handshake.as_mut().poll(&mut Context::from_waker(&waker));
            if polled.is_pending() {
                turn = taken;
                // A task that wakes itself is queued behind those that are ready.
                cx.waker().wake_by_ref();
            }
            polled
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use tokio::task::JoinSet;

    use super::*;

    /// Clients that connect together.
    const CLIENTS: usize = 50;

    /// Steps of a handshake: the client's greeting, and its second flight.
    const STEPS: usize = 2;

    /// Goes on behind the tasks that are ready.
    async fn go_round() {
        let mut has_waited = false;
        poll_fn(|cx| {
            if std::mem::replace(&mut has_waited, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    #[tokio::test]
    async fn a_request_waits_for_one_handshake_however_many_are_ready() {
        let (handshakes, signed) = (Handshakes::default(), Arc::new(AtomicUsize::new(0)));
        let mut tasks = JoinSet::new();
        for _ in 0..CLIENTS {
            let (handshakes, signed) = (handshakes.clone(), Arc::clone(&signed));
            tasks.spawn(async move {
                let handshake = async {
                    for _ in 0..STEPS {
                        signed.fetch_add(1, Ordering::Relaxed);
                        go_round().await;
                    }
                };
                handshakes.in_turn(handshake).await;
            });
        }
        tasks.spawn(async move {
            let mut before = 0;
            while before < CLIENTS * STEPS {
                go_round().await;
                let now = signed.load(Ordering::Relaxed);
                assert!(now - before <= 1, "{} steps before a request", now - before);
                before = now;
            }
        });
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
    }

    #[tokio::test]
    async fn a_client_that_sends_nothing_holds_up_no_handshake() {
        let handshakes = Handshakes::default();
        let (taking_part, of_task) = (Arc::new(tokio::sync::Notify::new()), handshakes.clone());
        let taken = Arc::clone(&taking_part);
        let silent = tokio::spawn(async move {
            let says_nothing = poll_fn(|_| {
                taken.notify_one();
                Poll::<()>::Pending
            });
            of_task.in_turn(says_nothing).await;
        });
        taking_part.notified().await;
        handshakes.in_turn(async {}).await;
        // One that ends while it has the turn, or waits for it, gives that back.
        silent.abort();
        let turn = Arc::clone(&handshakes.0).acquire_owned().await.unwrap();
        let mut waiting = Box::pin(handshakes.in_turn(async {}));
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        drop(turn);
        drop(waiting);
        handshakes.in_turn(async {}).await;
    }

    #[tokio::test]
    async fn a_handshake_goes_on_when_its_client_does() {
        let (handshakes, client) = (Handshakes::default(), Arc::new(tokio::sync::Notify::new()));
        let (of_task, waits) = (handshakes.clone(), Arc::clone(&client));
        let served = tokio::spawn(async move { of_task.in_turn(waits.notified()).await });
        // Others go on meanwhile, and its turn has ended.
        handshakes.in_turn(go_round()).await;
        client.notify_one();
        served.await.unwrap();
    }
}
