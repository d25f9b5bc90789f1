//! Watches: each a cursor into this node's history (spec 4.5, 9).
//!
//! Owns where a watch starts, the events of its selection, bookmarks, and how it ends. No events are queued for a
//! watch. A change of its resource wakes it, and it reads the history when its socket has room: from memory, older
//! changes from the disk. A watch that reads too slowly falls out of both and ends with a 410. It never holds memory.
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

/// Bytes of events after which a frame goes to the socket: four TLS records. A slow reader holds this much.
const FRAME_BYTES: usize = 64 << 10;

/// Most objects or changes matched before other tasks run: some hundred microseconds with usual selectors.
const MATCHED_PER_LOOK_MAX: usize = 4096;

/// Interval of bookmarks for clients that asked for them: the reference's.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// Limits the log. Clients watch again at once, so that one failure repeats for all of them.
static FAILURES: WarningLimit = WarningLimit::new();
/// See [`FAILURES`].
static UNWRITTEN: WarningLimit = WarningLimit::new();

/// A running watch. [`Watch::next`] returns its frames.
pub struct Watch<S> {
    pipeline: Arc<Pipeline<S>>,
    renderer: Renderer,
    /// Collection of the followed objects in the store.
    storage: Arc<str>,
    scope: Scope,
    subscription: Subscription,
    /// The store's count of revocations when the watch began. A later count means that this watch may have sent a wrong
    /// state.
    revocations: u64,
    phase: Phase,
    initial_events: InitialEvents,
    /// The cursor: all changes up to this revision were sent or are outside the selection.
    position: Revision,
    is_first_event: bool,
    /// The last look ended before the newest change: older changes must be read from the disk, or there were too many.
    is_behind: bool,
    wants_bookmarks: bool,
    /// The bookmark that ends the initial events is still to be sent.
    owes_initial_end: bool,
    timeout: BoxFuture<'static, ()>,
    bookmark: BoxFuture<'static, ()>,
    /// The bookmark timer fired, and no bookmark was sent since.
    owes_bookmark: bool,
    stopping: BoxFuture<'static, ()>,
}

/// The phase of a watch.
enum Phase {
    /// Sending the objects of the state at the start, in order of paths.
    Initial { collection: Arc<Collection>, after: Option<Arc<str>> },
    /// Sending the events of changes.
    Following,
    /// No more frames.
    Ended,
}

/// How far a frame got through the changes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    All,
    /// The frame is full; the next one continues with the remaining changes.
    FrameFull,
    /// [`MATCHED_PER_LOOK_MAX`] changes were matched.
    Enough,
}

/// The event that ended a watch's wait.
enum Wake {
    Changed,
    Bookmark,
    End,
}

/// A frame that broke off, and the error.
type Cut = (Vec<u8>, ApiError);

/// `Store::sleep` with a handle of its own on the store.
fn sleep<S: Store>(store: &S, duration: Duration) -> BoxFuture<'static, ()> {
    let store = store.clone();
    async move { store.sleep(duration).await }.boxed()
}

/// The result of [`Watch::look`], which never waits.
pub enum LookResult {
    /// A frame to send.
    Frame(Bytes),
    /// No event to send.
    Nothing,
    /// The watch has ended.
    Ended,
}

impl<S: Store> Watch<S> {
    /// The next frame: whole events in the negotiated representation. `None` when the watch has ended.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            match self.look() {
                LookResult::Frame(frame) => return Some(frame),
                LookResult::Ended => return None,
                LookResult::Nothing => {}
            }
            if self.is_behind {
                // The selectors matched none of these objects: other tasks run before the next look.
                self.pipeline.store.sleep(Duration::ZERO).await;
                continue;
            }
            if matches!(self.phase, Phase::Following) {
                match self.wait().await {
                    Wake::Changed => {}
                    // The bookmark is sent after the changes up to now, so that it carries the newest position.
                    Wake::Bookmark => self.owes_bookmark = true,
                    Wake::End => return self.finish(),
                }
            }
        }
    }

    /// The flag of the initial events, for the connection that sends the frames.
    pub fn initial_events(&self) -> InitialEvents {
        self.initial_events.clone()
    }

    /// Whether the next look matches `many` objects or more against selectors, too many for a thread that serves other
    /// connections. A watch without selectors sends all that it looks at.
    pub fn has_much_to_look_at(&self, many: usize) -> bool {
        if self.scope.selector.is_everything() || self.scope.path.is_some() {
            return false;
        }
        match &self.phase {
            Phase::Initial { collection, .. } => collection.len() >= many,
            Phase::Following => {
                // Changes are no more than revisions, except for transactions of several changes.
                let changed = self.pipeline.store.state().collection(&self.storage).changed();
                changed.0.saturating_sub(self.position.0) >= u64::try_from(many).unwrap_or(u64::MAX)
            }
            Phase::Ended => false,
        }
    }

    /// Whether rendering the next frame takes too long for a thread that serves other connections: the representation
    /// is made from each object, and the objects have `bytes` or more in all while the initial events last, on average
    /// afterwards.
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

    /// Looks at a bounded number of objects, and returns the frame of their events.
    pub fn look(&mut self) -> LookResult {
        let ended = |last: Option<Bytes>| last.map_or(LookResult::Ended, LookResult::Frame);
        if self.is_over() {
            return ended(self.finish());
        }
        self.is_behind = false;
        let frame = match self.phase {
            Phase::Ended => return LookResult::Ended,
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
        if frame.is_empty() { LookResult::Nothing } else { LookResult::Frame(frame.into()) }
    }

    /// Whether the watch's time is over or the node stops. Checked before every frame, because changes may never pause.
    fn is_over(&mut self) -> bool {
        let ends = |end: &mut BoxFuture<'static, ()>| end.now_or_never().is_some();
        !matches!(self.phase, Phase::Ended) && (ends(&mut self.timeout) || ends(&mut self.stopping))
    }

    /// Ends the watch with a bookmark at the cursor, unless initial events are still to be sent.
    fn finish(&mut self) -> Option<Bytes> {
        let is_complete = matches!(self.phase, Phase::Following);
        self.phase = Phase::Ended;
        if is_complete { self.bookmark_frame() } else { None }
    }

    /// Whether the state behind this watch was found wrong, so that its client must not continue from it.
    fn is_revoked(&self) -> bool {
        self.pipeline.store.revocations() != self.revocations
    }

    /// Whether a bookmark is due now; if so, starts the next interval. Checked after every frame: with changes that
    /// never pause, possibly all outside the selection, the watch never waits for the timer.
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

    /// ADDED events for the state at the start; at their end the bookmark that marks it, if the client asked for it.
    fn initial_frame(&mut self) -> Result<Vec<u8>, Cut> {
        let mut frame = Vec::new();
        let Phase::Initial { collection, after } = &mut self.phase else { return Ok(frame) };
        let (collection, sent) = (collection.clone(), after.take());
        let now = self.pipeline.ambient.now();
        let mut passed = None;
        for (at, (path, object)) in self.scope.candidates(&collection, sent.as_deref()).enumerate() {
            if at >= MATCHED_PER_LOOK_MAX {
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

    /// Events of the changes after the cursor, up to one frame: from memory, or one block of older changes from the
    /// disk.
    fn frame_of_changes(&mut self) -> Result<Vec<u8>, Cut> {
        let state = self.pipeline.store.state();
        // Checked after the state was taken, so that a state found wrong meanwhile is not sent.
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
                        // Without a later change in the block, the next look would read it again, for ever.
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

    /// Appends the events of `changes`, which follow the cursor without a gap, and moves the cursor.
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
                if at >= MATCHED_PER_LOOK_MAX {
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

    /// A bookmark at the cursor; `None` if the client did not ask for bookmarks.
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

    /// Ends the watch with an ERROR event behind the contents of `frame`.
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
