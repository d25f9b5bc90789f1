//! Following a collection: a cursor into this node's history (spec 4.5, 9).
//!
//! Owns where a watch starts, which events a change is for its selection, bookmarks, and how it ends. Nothing is queued
//! for a watcher: it is woken when its resource changed, and what it sends is read from the history when its socket has
//! room: from memory, and what is older from the disk. One that reads too slowly falls out of both and is told so with a
//! 410; it never holds memory.
//!
//! Invariant: the cursor passes a revision only when all its events are in a frame.

mod event;
mod initial;
mod start;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use orch_raft::Subscription;
use orch_raft::warnings::WarningLimit;
use orch_raft::{Change, Collection, Revision, Store};

use crate::error::ApiError;
use crate::pipeline::Pipeline;
use crate::render::Renderer;
use crate::status::Status;
use event::{Event, Scope};

pub use initial::InitialEvents;

/// Bytes of events after which a frame is handed to the socket: four TLS records, and what one slow reader holds.
const FRAME_BYTES: usize = 64 << 10;

/// Objects or changes that are looked at before others have their turn: some hundred microseconds with usual selectors.
const LOOKED_AT_MAX: usize = 4096;

/// How often a watcher that asked for bookmarks gets one: as often as the reference does.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// Clients watch again at once: what fails for one fails for all of them, again and again.
static FAILURES: WarningLimit = WarningLimit::new();
/// See [`FAILURES`].
static UNWRITTEN: WarningLimit = WarningLimit::new();

/// A watch that is running. [`Watch::next`] gives its frames.
pub struct Watch<S> {
    pipeline: Arc<Pipeline<S>>,
    renderer: Renderer,
    /// Where the followed objects are stored.
    storage: Arc<str>,
    scope: Scope,
    subscription: Subscription,
    /// The store's count when the watch began: at a later one, what it has shown may have been wrong.
    revocations: u64,
    phase: Phase,
    initial_events: InitialEvents,
    /// All changes up to here were sent or are none of this watch's.
    position: Revision,
    is_first_event: bool,
    /// There is more to look at than was looked at last: older changes that are read from the disk, or many at all.
    is_behind: bool,
    wants_bookmarks: bool,
    /// The bookmark that says that the initial events are through is still to come.
    owes_initial_end: bool,
    timeout: BoxFuture<'static, ()>,
    bookmark: BoxFuture<'static, ()>,
    /// The interval of the last bookmark has ended.
    owes_bookmark: bool,
    stopping: BoxFuture<'static, ()>,
}

/// What a watch is doing.
enum Phase {
    /// Sending what was there when it started, in order of paths.
    Initial { collection: Arc<Collection>, after: Option<Arc<str>> },
    /// Sending changes.
    Following,
    /// Nothing more comes.
    Ended,
}

/// How many of the changes were written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    All,
    /// The frame is full; the remaining changes go into the next one.
    FrameFull,
    /// As many as are looked at at a time.
    Enough,
}

/// Why a watch that had nothing to send goes on.
enum Wake {
    Changed,
    Bookmark,
    End,
}

/// A frame that broke off, and why.
type Cut = (Vec<u8>, ApiError);

/// `Store::sleep` without a hold on the store.
fn sleep<S: Store>(store: &S, duration: Duration) -> BoxFuture<'static, ()> {
    let store = store.clone();
    async move { store.sleep(duration).await }.boxed()
}

/// The result of one look of a watch at its collection; a look waits for nothing.
pub enum Looked {
    /// A frame.
    Frame(Bytes),
    /// Nothing.
    Nothing,
    /// It is over.
    Ended,
}

impl<S: Store> Watch<S> {
    /// The next frame: whole events of the negotiated representation. `None` when the watch is over.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            match self.look() {
                Looked::Frame(frame) => return Some(frame),
                Looked::Ended => return None,
                Looked::Nothing => {}
            }
            if self.is_behind {
                // The selectors matched nothing of what was looked at: yield to other tasks before more is.
                self.pipeline.store.sleep(Duration::ZERO).await;
                continue;
            }
            if matches!(self.phase, Phase::Following) {
                match self.wait().await {
                    Wake::Changed => {}
                    // Sent behind the changes up to now, so that it carries the newest position.
                    Wake::Bookmark => self.owes_bookmark = true,
                    Wake::End => return self.finish(),
                }
            }
        }
    }

    /// The watch's initial events, for who delivers its frames.
    pub fn initial_events(&self) -> InitialEvents {
        self.initial_events.clone()
    }

    /// Whether what is to be looked at next, object by object, holds up a thread that has others to serve: `many` or more,
    /// with selectors. What a watch without selectors looks at, it sends.
    pub fn has_much_to_look_at(&self, many: usize) -> bool {
        if self.scope.selector.is_everything() || self.scope.path.is_some() {
            return false;
        }
        match &self.phase {
            Phase::Initial { collection, .. } => collection.len() >= many,
            Phase::Following => {
                // No more changes than revisions, but for transactions of several.
                let changed = self.pipeline.store.state().collection(&self.storage).changed();
                changed.0.saturating_sub(self.position.0) >= u64::try_from(many).unwrap_or(u64::MAX)
            }
            Phase::Ended => false,
        }
    }

    /// Whether writing what comes next holds up a thread that has others to serve: a form that is made of each object, of
    /// `bytes` or more of them when the watch begins, and of that much in one object later.
    pub fn has_much_to_render(&self, bytes: usize) -> bool {
        if self.renderer.is_as_stored() {
            return false;
        }
        match &self.phase {
            Phase::Initial { collection, .. } => collection.object_bytes() >= bytes,
            Phase::Following => {
                let collection = self.pipeline.store.state().collection(&self.storage);
                collection.object_bytes() / collection.len().max(1) >= bytes
            }
            Phase::Ended => false,
        }
    }

    /// Looks at a bounded number of objects, and gives the frame of events among them.
    pub fn look(&mut self) -> Looked {
        let ended = |last: Option<Bytes>| last.map_or(Looked::Ended, Looked::Frame);
        if self.is_over() {
            return ended(self.finish());
        }
        self.is_behind = false;
        let frame = match self.phase {
            Phase::Ended => return Looked::Ended,
            _ if self.is_revoked() => Err((Vec::new(), ApiError::revoked())),
            Phase::Initial { .. } => self.initial_frame(),
            Phase::Following => self.frame_of_changes(),
        };
        let mut frame = match frame {
            Ok(frame) => frame,
            Err((frame, error)) => self.end_with(frame, &error),
        };
        if matches!(self.phase, Phase::Following) && self.take_due_bookmark() {
            frame.extend(self.bookmark_frame().unwrap_or_default());
        }
        if frame.is_empty() { Looked::Nothing } else { Looked::Frame(frame.into()) }
    }

    /// Whether its time has passed or the node stops. Asked before every frame: changes may come without an end.
    fn is_over(&mut self) -> bool {
        let ends = |end: &mut BoxFuture<'static, ()>| end.now_or_never().is_some();
        !matches!(self.phase, Phase::Ended) && (ends(&mut self.timeout) || ends(&mut self.stopping))
    }

    /// Ends the watch where it is: with a bookmark there, unless some of what was there at the start is still to come.
    fn finish(&mut self) -> Option<Bytes> {
        let is_complete = matches!(self.phase, Phase::Following);
        self.phase = Phase::Ended;
        if is_complete { self.bookmark_frame() } else { None }
    }

    /// Whether the state that this watch was served from was found wrong: its client must not go on from it.
    fn is_revoked(&self) -> bool {
        self.pipeline.store.revocations() != self.revocations
    }

    /// Whether a bookmark is to be sent now; the next one is due an interval later. Asked behind every frame: changes that
    /// keep coming, all of them perhaps none of this watch's, leave no time to wait for the timer.
    fn take_due_bookmark(&mut self) -> bool {
        if !self.wants_bookmarks {
            return false;
        }
        let is_due = self.owes_bookmark || (&mut self.bookmark).now_or_never().is_some();
        if is_due {
            self.owes_bookmark = false;
            self.bookmark = sleep(&self.pipeline.store, BOOKMARK_EVERY);
        }
        is_due
    }

    /// Waits for a change, the next bookmark or the end.
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

    /// What was there at the start, as ADDED events; at the end the bookmark that says so, where asked for.
    fn initial_frame(&mut self) -> Result<Vec<u8>, Cut> {
        let mut frame = Vec::new();
        let Phase::Initial { collection, after } = &mut self.phase else { return Ok(frame) };
        let (collection, sent) = (collection.clone(), after.take());
        let now = self.pipeline.ambient.now();
        let mut passed = None;
        for (at, (path, object)) in self.scope.candidates(&collection, sent.as_deref()).enumerate() {
            if at >= LOOKED_AT_MAX {
                self.is_behind = true;
                self.phase = Phase::Initial { collection: collection.clone(), after: passed };
                return Ok(frame);
            }
            passed = Some(path.clone());
            if !self.scope.selector.matches(path, object) {
                continue;
            }
            let first = std::mem::take(&mut self.is_first_event);
            let event = Event::added(object);
            if let Err(error) =
                self.renderer.event(event.kind, object, event.revision, first, now, &mut frame)
            {
                return Err((frame, error));
            }
            if frame.len() >= FRAME_BYTES {
                let after = Some(path.clone());
                self.phase = Phase::Initial { collection: collection.clone(), after };
                return Ok(frame);
            }
        }
        self.phase = Phase::Following;
        self.initial_events.end();
        if std::mem::take(&mut self.owes_initial_end)
            && let Err(error) = self.renderer.bookmark(
                self.position,
                true,
                std::mem::take(&mut self.is_first_event),
                &mut frame,
            )
        {
            return Err((frame, error));
        }
        Ok(frame)
    }

    /// The changes after the cursor, as many as a frame takes: from memory, or one run of older ones from the disk.
    fn frame_of_changes(&mut self) -> Result<Vec<u8>, Cut> {
        let state = self.pipeline.store.state();
        // After the state was taken, so that none is shown that was found wrong meanwhile.
        if self.is_revoked() {
            return Err((Vec::new(), ApiError::revoked()));
        }
        let collection = state.collection(&self.storage);
        let mut frame = Vec::new();
        if collection.changed() > self.position {
            let written = match collection.changes_after(self.position) {
                Ok(changes) => self.write_changes(changes, &mut frame)?,
                Err(_) => {
                    self.is_behind = true;
                    let past = self.pipeline.store.past_changes(&self.storage, self.position);
                    let past =
                        past.map_err(|gone| (Vec::new(), ApiError::too_old(gone.requested, gone.oldest)))?;
                    let position = self.position;
                    let later = past.iter().filter(move |change| change.revision > position);
                    self.write_changes(later, &mut frame)?;
                    if self.position == position {
                        // A block without a later change would be read again for ever.
                        return Err((frame, ApiError::too_old(position, state.applied())));
                    }
                    return Ok(frame);
                }
            };
            if written != Written::All {
                self.is_behind |= written == Written::Enough;
                return Ok(frame);
            }
        }
        self.position = self.position.max(state.applied());
        Ok(frame)
    }

    /// Writes the events of `changes`, which follow the cursor without a gap, and moves the cursor behind them.
    fn write_changes<'a>(
        &mut self,
        changes: impl Iterator<Item = &'a Change>,
        frame: &mut Vec<u8>,
    ) -> Result<Written, Cut> {
        let now = self.pipeline.ambient.now();
        for (at, change) in changes.enumerate() {
            if change.revision > self.position {
                if frame.len() >= FRAME_BYTES {
                    return Ok(Written::FrameFull);
                }
                if at >= LOOKED_AT_MAX {
                    return Ok(Written::Enough);
                }
            }
            self.position = change.revision;
            let Some(event) = self.scope.event(change) else { continue };
            let first = std::mem::take(&mut self.is_first_event);
            let written = self.renderer.event(event.kind, event.object, event.revision, first, now, frame);
            // The events before it are the client's: the cursor has passed them.
            written.map_err(|error| (std::mem::take(frame), error))?;
        }
        Ok(Written::All)
    }

    /// A bookmark at the cursor, for a watcher that asked for them.
    fn bookmark_frame(&mut self) -> Option<Bytes> {
        if !self.wants_bookmarks {
            return None;
        }
        let mut frame = Vec::new();
        let first = std::mem::take(&mut self.is_first_event);
        match self.renderer.bookmark(self.position, false, first, &mut frame) {
            Ok(()) => Some(frame.into()),
            Err(error) => Some(self.end_with(Vec::new(), &error).into()),
        }
    }

    /// Ends the watch with an ERROR event behind what `frame` holds already.
    fn end_with(&mut self, mut frame: Vec<u8>, error: &ApiError) -> Vec<u8> {
        self.phase = Phase::Ended;
        if matches!(error, ApiError::Internal(_))
            && let Some(left_out) = FAILURES.pass()
        {
            tracing::error!(resource = %self.storage, %error, left_out, "a watch fails");
        }
        let status = Status::of(error, self.renderer.brand());
        if let Err(error) = self.renderer.error_event(&status, &mut frame)
            && let Some(left_out) = UNWRITTEN.pass()
        {
            tracing::error!(%error, left_out, "an ERROR event cannot be written");
        }
        frame
    }
}
