//! The signal by which a node ends a watch: it stops, or the right to watch is lost.
//!
//! Owns the flag and the task to wake. It knows no reason. A watch holds this signal instead of a future for each reason, and
//! is polled by one task at a time.
//!
//! Invariant: a signal that was given stays given.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use futures::task::AtomicWaker;

/// The signal that ends one watch. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Ending(Arc<Signal>);

#[derive(Debug, Default)]
struct Signal {
    is_given: AtomicBool,
    waker: AtomicWaker,
}

impl Ending {
    /// Ends the watch: its next look is its last one.
    pub fn give(&self) {
        self.0.is_given.store(true, Ordering::Release);
        self.0.waker.wake();
    }

    /// Whether the watch has to end.
    pub fn is_given(&self) -> bool {
        self.0.is_given.load(Ordering::Acquire)
    }

    /// Ready once the signal is given.
    pub(super) fn poll_given(&self, context: &Context<'_>) -> Poll<()> {
        if self.is_given() {
            return Poll::Ready(());
        }
        self.0.waker.register(context.waker());
        // It may have been given before the task was registered.
        if self.is_given() { Poll::Ready(()) } else { Poll::Pending }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_signal_wakes_the_task_that_waits_and_stays() {
        let ending = Ending::default();
        let mut waiting = Box::pin(std::future::poll_fn(|context| ending.poll_given(context)));
        assert!(waiting.as_mut().now_or_never().is_none() && !ending.is_given());
        let given = async {
            tokio::task::yield_now().await;
            ending.clone().give();
        };
        futures::join!(waiting, given);
        assert!(ending.is_given());
        std::future::poll_fn(|context| ending.poll_given(context)).await;
    }
}
