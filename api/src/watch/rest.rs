//! The waits of a watch between two looks.
//!
//! Owns the choice of the wait, and the delay for which changes that follow one another closely are gathered. It reads no
//! change. A watch that waits holds no thread, of the pool neither.
//!
//! Invariant: a watch ends when its time is over or the node stops, whatever it waits for.

use std::time::Duration;

use orch_raft::Store;

use super::timers::Wake;
use super::{Phase, Watch};

impl<S: Store> Watch<S> {
    /// Waits until a look may find something, after one that found nothing.
    pub async fn rest(&mut self) {
        if self.is_behind {
            // The selectors matched none of these objects: other tasks run before the next look.
            return self.pipeline.store.sleep(Duration::ZERO).await;
        }
        if self.conversions.is_waiting() {
            if self.timers.end_before(self.conversions.wait()).await {
                self.finish();
            }
            return;
        }
        if matches!(self.phase, Phase::Following) {
            match self.timers.wait(&mut self.subscription).await {
                Wake::Changed => self.gather().await,
                // The bookmark is sent after the changes up to now, so that it carries the newest position.
                Wake::Bookmark => {}
                Wake::End => self.finish(),
            }
        }
    }

    /// Waits until the delay since the last frame has passed, or the watch ends. A watch that was quiet does not wait.
    async fn gather(&mut self) {
        let rest = self.gathering_rest();
        if !rest.is_zero() && self.timers.end_within(&self.pipeline.store, rest).await {
            self.finish();
        }
    }

    /// The time for which changes are still gathered; zero for a watch that was quiet.
    pub(super) fn gathering_rest(&self) -> Duration {
        let Some(framed) = self.framed else { return Duration::ZERO };
        let passed = self.pipeline.store.elapsed().saturating_sub(framed);
        self.pipeline.watch_batch_delay.saturating_sub(passed)
    }
}
