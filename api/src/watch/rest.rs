//! The waits of a watch between two looks.
//!
//! Owns the choice of the wait, and the delay for which changes that follow one another closely are gathered. It reads no
//! change. A watch that waits holds no thread, of the pool neither.
//!
//! Invariant: a watch ends when its time is over or the node ends it, whatever it waits for.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use orch_raft::Store;

use super::timers::Wake;
use super::{Phase, Watch};

impl<S: Store> Watch<S> {
    /// Waits until a look may find something, after one that found nothing.
    pub async fn rest(&mut self) {
        poll_fn(|context| self.poll_rest(context)).await;
    }

    /// Ready when a look may find something, after one that found nothing. The watch keeps how far the wait is.
    pub fn poll_rest(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.timers.is_pausing() {
            return self.poll_pause(context);
        }
        if self.is_behind {
            // The selectors matched none of these objects: other tasks run before the next look.
            self.timers.begin_pause(&self.pipeline.store, Duration::ZERO);
            return self.poll_pause(context);
        }
        if self.conversions.is_waiting() {
            return self.poll_conversion(context);
        }
        if !matches!(self.phase, Phase::Following) {
            return Poll::Ready(());
        }
        match ready!(self.timers.poll_wake(&self.pipeline.store, &mut self.subscription, context)) {
            // Until the delay since the last frame has passed. A watch that was quiet does not wait. A look before that finds
            // nothing, not even a bookmark, which is sent after the changes up to then so that it carries the newest position.
            Wake::Changed | Wake::Bookmark => {
                let rest = self.gathering_rest();
                if !rest.is_zero() {
                    self.timers.begin_pause(&self.pipeline.store, rest);
                    return self.poll_pause(context);
                }
            }
            Wake::End => self.finish(),
        }
        Poll::Ready(())
    }

    /// Ready when the batch that is with another server is converted, or the watch ends.
    fn poll_conversion(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.timers.poll_over(&self.pipeline.store, context).is_ready() {
            self.finish();
            return Poll::Ready(());
        }
        self.conversions.poll(context)
    }

    /// Ready when the pause under way is over, or the node ends the watch that gathers.
    fn poll_pause(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let gathers = !self.is_behind && matches!(self.phase, Phase::Following);
        if gathers && self.timers.poll_ended(context).is_ready() {
            self.finish();
            return Poll::Ready(());
        }
        ready!(self.timers.poll_pause(context));
        if gathers && self.timers.is_over(&self.pipeline.store) {
            self.finish();
        }
        Poll::Ready(())
    }

    /// The time for which changes are still gathered; zero for a watch that was quiet.
    pub(super) fn gathering_rest(&self) -> Duration {
        let Some(framed) = self.framed else { return Duration::ZERO };
        let passed = self.pipeline.store.elapsed().saturating_sub(framed);
        self.pipeline.watch_batch_delay.saturating_sub(passed)
    }
}
