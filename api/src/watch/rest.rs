//! What a watch waits for between two looks.
//!
//! Owns the wait for a change, the bookmark timer or the end, and the delay for which changes that follow one another closely are
//! gathered. It reads no change. While a watch waits, it holds no thread, of the pool neither.
//!
//! Invariant: a watch ends when its time is over or the node stops, whatever it waits for.

use std::time::Duration;

use futures::future::{Either, FutureExt, select};
use orch_raft::Store;

use super::{Phase, Watch};

/// The event that ended a watch's wait.
enum Wake {
    Changed,
    Bookmark,
    End,
}

impl<S: Store> Watch<S> {
    /// Waits until a look may find something, after one that found nothing.
    pub async fn rest(&mut self) {
        if self.is_behind {
            // The selectors matched none of these objects: other tasks run before the next look.
            return self.pipeline.store.sleep(Duration::ZERO).await;
        }
        if matches!(self.phase, Phase::Following) {
            match self.wait().await {
                Wake::Changed => self.gather().await,
                // The bookmark is sent after the changes up to now, so that it carries the newest position.
                Wake::Bookmark => self.owes_bookmark = true,
                Wake::End => self.finish(),
            }
        }
    }

    /// Waits until the delay since the last frame has passed, or the watch ends. A watch that was quiet does not wait.
    async fn gather(&mut self) {
        let Some(framed) = self.framed else { return };
        let Watch { pipeline, timeout, stopping, .. } = self;
        let passed = pipeline.store.elapsed().saturating_sub(framed);
        let rest = pipeline.watch_batch_delay.saturating_sub(passed);
        if rest.is_zero() {
            return;
        }
        let is_over = {
            let pause = std::pin::pin!(pipeline.store.sleep(rest));
            matches!(select(select(timeout, stopping), pause).await, Either::Left(_))
        };
        if is_over {
            self.finish();
        }
    }

    /// Waits for a change, the bookmark timer or the end.
    async fn wait(&mut self) -> Wake {
        let Watch { subscription, timeout, bookmark, stopping, wants_bookmarks, .. } = self;
        let changed = subscription.changed();
        futures::pin_mut!(changed);
        futures::future::poll_fn(|context| {
            use std::task::Poll;
            if stopping.poll_unpin(context).is_ready() || timeout.poll_unpin(context).is_ready() {
                return Poll::Ready(Wake::End);
            }
            if let Poll::Ready(newest) = changed.poll_unpin(context) {
                return Poll::Ready(newest.map_or(Wake::End, |_| Wake::Changed));
            }
            if *wants_bookmarks && bookmark.poll_unpin(context).is_ready() {
                return Poll::Ready(Wake::Bookmark);
            }
            Poll::Pending
        })
        .await
    }
}
