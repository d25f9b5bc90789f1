//! Something large that one task makes for all requests that need it.
//!
//! Owns the choice of the one that makes it, on a thread for blocking work, and the end that the others wait for without a thread.
//! It does not keep what is made.
//!
//! Invariant: the wait ends also where the maker panics or is never run.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::{CancellationToken, DropGuard};

/// Whether somebody makes something, and when that is over.
#[derive(Debug, Default)]
pub struct Making {
    is_begun: AtomicBool,
    over: CancellationToken,
}

/// The duty to make it. The others wait until it is dropped.
#[derive(Debug)]
pub struct Maker(#[expect(dead_code, reason = "its drop ends the wait")] DropGuard);

impl Making {
    /// The duty to make it, for the first who asks.
    pub fn claim(&self) -> Option<Maker> {
        let is_first = !self.is_begun.swap(true, Ordering::Relaxed);
        is_first.then(|| Maker(self.over.clone().drop_guard()))
    }

    /// Has `work` done on a thread for blocking work by the first that asks, and waits until that is over. All others wait
    /// without a thread. Where the first one goes away, the work goes on for them.
    pub async fn make_once(&self, work: impl FnOnce() + Send + 'static) {
        if let Some(maker) = self.claim() {
            let work = move || {
                let _maker = maker;
                work();
            };
            match tokio::runtime::Handle::try_current() {
                Ok(runtime) => drop(runtime.spawn_blocking(work)),
                // A simulation has one thread.
                Err(_) => work(),
            }
        }
        self.wait().await;
    }

    /// Completes when the maker is done, whether it was made or not.
    pub async fn wait(&self) {
        self.over.cancelled().await;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn the_first_makes_and_the_others_wait_until_it_is_done_or_gives_up() {
        let making = Making::default();
        let maker = making.claim().unwrap();
        assert!(making.claim().is_none() && making.wait().now_or_never().is_none());
        drop(maker);
        assert!(making.claim().is_none() && making.wait().now_or_never().is_some());
    }
}
