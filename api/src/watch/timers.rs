//! The times of a watch: its end and its bookmarks.
//!
//! Owns when a watch ends by itself (its lifetime is over) or is ended from outside, when a bookmark is due, and the wait for
//! these and for changes. It writes nothing. A watch that waits holds one timer, for the first of its times; it is set anew
//! when it has fired. Whether a time has come is told by the clock, and not by the timer.

use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};
use orch_raft::{Store, Subscription};

use super::Ending;

/// Interval of bookmarks for clients that asked for them: the reference's.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

/// The event that ended a watch's wait.
pub(super) enum Wake {
    Changed,
    /// A bookmark is due.
    Bookmark,
    /// The watch's time is over, the node ends it, or the store has ended.
    End,
}

/// The times of one watch, on the clock of [`Store::elapsed`].
pub(super) struct Timers {
    ending: Ending,
    /// The watch's time is over.
    end: Duration,
    /// The next bookmark is due; `None`: the client asked for none.
    bookmark: Option<Duration>,
    /// The timer of the wait for a change. It fires at the first of the times above, or before.
    alarm: Option<Alarm>,
    /// The timer of a pause that is under way.
    pause: Option<BoxFuture<'static, ()>>,
}

/// A timer that fires at `at`.
struct Alarm {
    at: Duration,
    timer: BoxFuture<'static, ()>,
}

/// `Store::sleep` with a handle of its own on the store.
fn sleep<S: Store>(store: &S, duration: Duration) -> BoxFuture<'static, ()> {
    let store = store.clone();
    async move { store.sleep(duration).await }.boxed()
}

impl Timers {
    /// The times of a watch that lasts for `life`, or until `ending` is given, and sends no bookmarks.
    pub(super) fn new<S: Store>(store: &S, life: Duration, ending: Ending) -> Timers {
        Timers { ending, end: store.elapsed().saturating_add(life), bookmark: None, alarm: None, pause: None }
    }

    /// Starts the interval until the next bookmark.
    pub(super) fn start_bookmark<S: Store>(&mut self, store: &S) {
        self.bookmark = Some(store.elapsed().saturating_add(BOOKMARK_INTERVAL));
    }

    /// Whether the client asked for bookmarks.
    pub(super) fn has_bookmarks(&self) -> bool {
        self.bookmark.is_some()
    }

    /// Whether the watch's time is over or the node ends it.
    pub(super) fn is_over<S: Store>(&self, store: &S) -> bool {
        self.ending.is_given() || store.elapsed() >= self.end
    }

    /// Whether a bookmark is due now; if so, starts the next interval.
    pub(super) fn take_due_bookmark<S: Store>(&mut self, store: &S) -> bool {
        let is_due = self.bookmark.is_some_and(|at| store.elapsed() >= at);
        if is_due {
            self.start_bookmark(store);
        }
        is_due
    }

    /// Whether a pause is under way.
    pub(super) fn is_pausing(&self) -> bool {
        self.pause.is_some()
    }

    /// Begins a pause of `time`, or of what is left of the watch's time.
    pub(super) fn begin_pause<S: Store>(&mut self, store: &S, time: Duration) {
        let left = self.end.saturating_sub(store.elapsed());
        self.pause = Some(sleep(store, time.min(left)));
    }

    /// Ready when the pause under way is over. Such a pause is not cut short.
    pub(super) fn poll_pause(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let over = self.pause.as_mut().map_or(Poll::Ready(()), |pause| pause.poll_unpin(context));
        if over.is_ready() {
            self.pause = None;
        }
        over
    }

    /// Ready when the node ends the watch.
    pub(super) fn poll_ended(&self, context: &Context<'_>) -> Poll<()> {
        self.ending.poll_given(context)
    }

    /// Ready when the watch's time is over or the node ends the watch.
    pub(super) fn poll_over<S: Store>(&mut self, store: &S, context: &mut Context<'_>) -> Poll<()> {
        if self.poll_ended(context).is_ready() {
            return Poll::Ready(());
        }
        loop {
            let now = store.elapsed();
            if now >= self.end {
                return Poll::Ready(());
            }
            if self.poll_alarm(store, now, self.end, context).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Ready with a change, a due bookmark or the end.
    pub(super) fn poll_wake<S: Store>(
        &mut self,
        store: &S,
        subscription: &mut Subscription,
        context: &mut Context<'_>,
    ) -> Poll<Wake> {
        if self.poll_ended(context).is_ready() || store.elapsed() >= self.end {
            return Poll::Ready(Wake::End);
        }
        // It keeps nothing between two polls.
        if let Poll::Ready(newest) = pin!(subscription.changed()).poll(context) {
            return Poll::Ready(newest.map_or(Wake::End, |_| Wake::Changed));
        }
        loop {
            let now = store.elapsed();
            if now >= self.end {
                return Poll::Ready(Wake::End);
            }
            if self.bookmark.is_some_and(|at| now >= at) {
                return Poll::Ready(Wake::Bookmark);
            }
            let next = self.bookmark.map_or(self.end, |at| at.min(self.end));
            if self.poll_alarm(store, now, next, context).is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// Ready at `next`, or before. `now`: the time.
    fn poll_alarm<S: Store>(
        &mut self,
        store: &S,
        now: Duration,
        next: Duration,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        let alarm = match self.alarm.take().filter(|alarm| alarm.at <= next) {
            Some(alarm) => alarm,
            None => Alarm { at: next, timer: sleep(store, next.saturating_sub(now)) },
        };
        let alarm = self.alarm.insert(alarm);
        let fired = alarm.timer.poll_unpin(context);
        if fired.is_ready() {
            self.alarm = None;
        }
        fired
    }
}
