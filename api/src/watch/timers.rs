//! The timers of a watch: its end and its bookmarks.
//!
//! Owns when a watch ends by itself (its lifetime is over, or the node stops), when a bookmark is due, and the wait for these
//! and for changes. It writes nothing.
//!
//! Invariant: a timer that has fired is not polled again. Behind the end there is no further look; a due bookmark starts the
//! next interval.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures::future::{BoxFuture, Either, FutureExt, select};
use orch_raft::{Store, Subscription};

/// Interval of bookmarks for clients that asked for them: the reference's.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// The event that ended a watch's wait.
pub(super) enum Wake {
    Changed,
    /// A bookmark is due.
    Bookmark,
    /// The watch's time is over, the node stops, or the store has ended.
    End,
}

/// The timers of one watch.
pub(super) struct Timers {
    timeout: BoxFuture<'static, ()>,
    stopping: BoxFuture<'static, ()>,
    /// The interval until the next bookmark; `None`: the client asked for none.
    bookmark: Option<BoxFuture<'static, ()>>,
    /// The interval is over, and no bookmark was sent since.
    owes_bookmark: bool,
}

/// `Store::sleep` with a handle of its own on the store.
fn sleep<S: Store>(store: &S, duration: Duration) -> BoxFuture<'static, ()> {
    let store = store.clone();
    async move { store.sleep(duration).await }.boxed()
}

impl Timers {
    /// Timers of a watch that lasts for `life`, or until `stopping` completes, and sends no bookmarks.
    pub(super) fn new<S: Store>(store: &S, life: Duration, stopping: BoxFuture<'static, ()>) -> Timers {
        Timers { timeout: sleep(store, life), stopping, bookmark: None, owes_bookmark: false }
    }

    /// Starts the interval until the next bookmark.
    pub(super) fn start_bookmark<S: Store>(&mut self, store: &S) {
        self.owes_bookmark = false;
        self.bookmark = Some(sleep(store, BOOKMARK_INTERVAL));
    }

    /// Whether the client asked for bookmarks.
    pub(super) fn has_bookmarks(&self) -> bool {
        self.bookmark.is_some()
    }

    /// Whether the watch's time is over or the node stops. Not called again once it is.
    pub(super) fn is_over(&mut self) -> bool {
        let ends = |end: &mut BoxFuture<'static, ()>| end.now_or_never().is_some();
        ends(&mut self.timeout) || ends(&mut self.stopping)
    }

    /// Whether a bookmark is due now; if so, starts the next interval.
    pub(super) fn take_due_bookmark<S: Store>(&mut self, store: &S) -> bool {
        let Some(bookmark) = &mut self.bookmark else { return false };
        let is_due = self.owes_bookmark || bookmark.now_or_never().is_some();
        if is_due {
            self.start_bookmark(store);
        }
        is_due
    }

    /// Waits for `time`, or until the watch's time is over or the node stops. Returns whether it is; no timer is asked
    /// again then.
    pub(super) async fn end_within<S: Store>(&mut self, store: &S, time: Duration) -> bool {
        self.end_before(store.sleep(time)).await
    }

    /// Waits for `done`, or until the watch's time is over or the node stops. Returns whether it is; no timer is asked again
    /// then.
    pub(super) async fn end_before(&mut self, done: impl Future<Output = ()>) -> bool {
        let done = pin!(done);
        matches!(select(select(&mut self.timeout, &mut self.stopping), done).await, Either::Left(_))
    }

    /// Waits for a change, a due bookmark or the end.
    pub(super) async fn wait(&mut self, subscription: &mut Subscription) -> Wake {
        let Timers { timeout, stopping, bookmark, owes_bookmark } = self;
        let mut changed = pin!(subscription.changed());
        poll_fn(|context| {
            if stopping.poll_unpin(context).is_ready() || timeout.poll_unpin(context).is_ready() {
                return Poll::Ready(Wake::End);
            }
            if let Poll::Ready(newest) = changed.as_mut().poll(context) {
                return Poll::Ready(newest.map_or(Wake::End, |_| Wake::Changed));
            }
            if let Some(bookmark) = bookmark
                && bookmark.poll_unpin(context).is_ready()
            {
                *owes_bookmark = true;
                return Poll::Ready(Wake::Bookmark);
            }
            Poll::Pending
        })
        .await
    }
}
