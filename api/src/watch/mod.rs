//! Watches: each a cursor into this node's history (spec 4.5, 9).
//!
//! Owns where a watch starts, the events of its selection, bookmarks, and how it ends. No events are queued for a
//! watch. A change that concerns it wakes it, and it reads the history when its socket has room: from memory, older
//! changes from the disk. Changes that follow one another closely are sent together. A watch that reads too slowly falls
//! out of both and ends with a 410. Of memory it holds its selectors, which its user is charged for (`http::held`).
//!
//! Invariant: the cursor passes a revision only when all its events are rendered.

mod event;
mod initial;
mod output;
mod rest;
mod start;
mod timers;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use orch_raft::Subscription;
use orch_raft::warnings::WarningLimit;
use orch_raft::{Change, Collection, Interest, Revision, Store};

use crate::error::ApiError;
use crate::index::Lookup;
use crate::pipeline::Pipeline;
use crate::status::Status;
use event::{Event, Scope};
use output::Output;
use timers::Timers;

pub use initial::InitialEvents;

/// Most objects or changes matched before other tasks run: some hundred microseconds with usual selectors.
const MATCHED_PER_LOOK_MAX: usize = 4096;

/// Time for which changes that follow one another closely are gathered before a watch sends them, unless the node is told
/// another: what an informer does not notice, and a two-hundredth of the frames where thousands of changes come in a second.
pub const BATCH_DELAY: Duration = Duration::from_millis(5);

/// Longest such time that a node may be told: clients that write and wait for the event wait as long.
pub const BATCH_DELAY_MAX: Duration = Duration::from_secs(1);

/// Limits the log. Clients watch again at once, so that one failure repeats for all of them.
static FAILURES: WarningLimit = WarningLimit::new();
/// See [`FAILURES`].
static UNWRITTEN: WarningLimit = WarningLimit::new();

/// A running watch. [`Watch::next`] returns its frames.
pub struct Watch<S> {
    pipeline: Arc<Pipeline<S>>,
    output: Output,
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
    /// The last look ended before the newest change: older changes must be read from the disk, or there were too many.
    is_behind: bool,
    /// When [`Watch::look`] last returned a frame, on the clock of [`Store::elapsed`].
    framed: Option<Duration>,
    /// The bookmark that ends the initial events is still to be sent.
    owes_initial_end: bool,
    timers: Timers,
}

/// The phase of a watch.
enum Phase {
    /// Sending the objects of the state at the start, in order of paths.
    Initial {
        beginning: Arc<Beginning>,
        /// The last path that was looked at; empty before the first.
        after: Arc<str>,
    },
    /// Sending the events of changes.
    Following,
    /// No more frames.
    Ended,
}

/// The objects at the start of a watch.
struct Beginning {
    collection: Arc<Collection>,
    /// The way to those that the selectors may select, where an index knows one.
    lookup: Option<Lookup>,
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

/// The result of [`Watch::look`], which never waits.
pub enum LookResult {
    /// Bytes to send.
    Frame(Bytes),
    /// No event to send.
    Nothing,
    /// The watch has ended.
    Ended,
}

impl<S: Store> Watch<S> {
    /// The next bytes: events in the negotiated representation, of which a large one may take several calls. `None` when the
    /// watch has ended.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            match self.look() {
                LookResult::Frame(frame) => return Some(frame),
                LookResult::Ended => return None,
                LookResult::Nothing => self.rest().await,
            }
        }
    }

    /// The demand under which the watch is filed.
    pub fn interest(&self) -> &Interest {
        self.subscription.interest()
    }

    /// Bytes of memory that the watch holds for its selectors.
    pub fn selector_bytes(&self) -> usize {
        self.scope.selector.held_bytes()
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
            Phase::Initial { beginning, .. } => beginning.collection.len() >= many,
            // Changes are no more than revisions, except for transactions of several changes.
            Phase::Following => {
                let state = self.pipeline.store.state();
                self.revisions_due(&state.collection(&self.storage))
                    >= u64::try_from(many).unwrap_or(u64::MAX)
            }
            Phase::Ended => false,
        }
    }

    /// Whether rendering the next frame takes too long for a thread that serves other connections: the representation
    /// is made from each object, and the objects have `bytes` or more in all while the initial events last, on average
    /// afterwards, where changes may concern the watch.
    pub fn has_much_to_render(&self, bytes: usize) -> bool {
        if self.output.renderer.is_as_stored() {
            return false;
        }
        match &self.phase {
            Phase::Initial { beginning, .. } => beginning.collection.object_bytes() >= bytes,
            Phase::Following => {
                let collection = self.pipeline.store.state().collection(&self.storage);
                collection.object_bytes() / collection.len().max(1) >= bytes
                    && self.revisions_due(&collection) > 0
            }
            Phase::Ended => false,
        }
    }

    /// Revisions of `collection` that the watch has not passed, from the first that may concern it.
    fn revisions_due(&self, collection: &Collection) -> u64 {
        collection.changed().0.saturating_sub(self.subscription.pass(self.position).0)
    }

    /// Looks at a bounded number of objects, and returns the next part of their events.
    pub fn look(&mut self) -> LookResult {
        // Even after the watch's time: an event that has begun is sent whole.
        if let Some(part) = self.take_part() {
            return LookResult::Frame(part);
        }
        self.is_behind = false;
        if matches!(self.phase, Phase::Ended) {
            return LookResult::Ended;
        }
        // Checked before every frame, because changes may never pause.
        if self.timers.is_over() {
            self.finish();
        } else {
            let written = match self.phase {
                _ if self.is_revoked() => Err(ApiError::revoked()),
                Phase::Initial { .. } => self.write_initial(),
                Phase::Following | Phase::Ended => self.write_changed(),
            };
            if let Err(error) = written {
                self.end_with(&error);
            }
            // Checked after every frame: with changes that never pause, possibly all outside the selection, the watch never
            // waits for the timer.
            if matches!(self.phase, Phase::Following) && self.timers.take_due_bookmark(&self.pipeline.store) {
                self.write_bookmark();
            }
        }
        match (self.take_part(), &self.phase) {
            (Some(part), _) => LookResult::Frame(part),
            (None, Phase::Ended) => LookResult::Ended,
            (None, _) => LookResult::Nothing,
        }
    }

    /// Takes what is to be sent next, and notes when.
    fn take_part(&mut self) -> Option<Bytes> {
        let part = self.output.take()?;
        self.framed = Some(self.pipeline.store.elapsed());
        Some(part)
    }

    /// Ends the watch with a bookmark at the cursor, unless initial events are still to be sent.
    fn finish(&mut self) {
        let is_complete = matches!(self.phase, Phase::Following) && !self.is_revoked();
        self.phase = Phase::Ended;
        if is_complete {
            self.position = self.subscription.pass(self.position);
            self.write_bookmark();
        }
    }

    /// Whether the state behind this watch was found wrong, so that its client must not continue from it.
    fn is_revoked(&self) -> bool {
        self.pipeline.store.revocations() != self.revocations
    }

    /// Writes ADDED events for the state at the start; at their end the bookmark that marks it, if the client asked for
    /// it.
    fn write_initial(&mut self) -> Result<(), ApiError> {
        let Phase::Initial { beginning, after } = &mut self.phase else { return Ok(()) };
        let beginning = beginning.clone();
        let Beginning { collection, lookup } = &*beginning;
        let now = self.pipeline.ambient.now();
        let candidates = self.scope.candidates(collection, lookup.as_ref(), after);
        for (at, (path, object)) in candidates.enumerate() {
            if at >= MATCHED_PER_LOOK_MAX {
                self.is_behind = true;
                return Ok(());
            }
            *after = path.clone();
            if !self.scope.selector.matches(path, object) {
                continue;
            }
            self.output.event(&Event::added(object), now)?;
            if self.output.is_full() {
                return Ok(());
            }
        }
        self.phase = Phase::Following;
        self.initial_events.end();
        if std::mem::take(&mut self.owes_initial_end) {
            self.output.bookmark(self.position, true)?;
        }
        Ok(())
    }

    /// Writes events of the changes after the cursor, up to one frame: from memory, or one block of older changes from
    /// the disk.
    fn write_changed(&mut self) -> Result<(), ApiError> {
        self.position = self.subscription.pass(self.position);
        let state = self.pipeline.store.state();
        // Checked after the state was taken, so that a state found wrong meanwhile is not sent.
        if self.is_revoked() {
            return Err(ApiError::revoked());
        }
        let collection = state.collection(&self.storage);
        if collection.changed() > self.position {
            let written = match collection.changes_after(self.position) {
                Ok(changes) => self.write_changes(changes)?,
                Err(_) => {
                    self.is_behind = true;
                    let past = self.pipeline.store.past_changes(&self.storage, self.position);
                    let past = past.map_err(|gone| ApiError::too_old(gone.requested, gone.oldest))?;
                    let position = self.position;
                    self.write_changes(past.iter().filter(move |change| change.revision > position))?;
                    if self.position == position {
                        // Without a later change in the block, the next look would read it again, for ever.
                        return Err(ApiError::too_old(position, state.applied()));
                    }
                    return Ok(());
                }
            };
            if written != Written::All {
                self.is_behind |= written == Written::Enough;
                return Ok(());
            }
        }
        self.position = self.position.max(state.applied());
        Ok(())
    }

    /// Writes the events of `changes`, which follow the cursor without a gap, and moves the cursor.
    fn write_changes<'a>(&mut self, changes: impl Iterator<Item = &'a Change>) -> Result<Written, ApiError> {
        let now = self.pipeline.ambient.now();
        for (at, change) in changes.enumerate() {
            if change.revision > self.position {
                if self.output.is_full() {
                    return Ok(Written::FrameFull);
                }
                if at >= MATCHED_PER_LOOK_MAX {
                    return Ok(Written::Enough);
                }
            }
            self.position = change.revision;
            // After an error the events before it are the client's: the cursor has passed them.
            if let Some(event) = self.scope.event(change) {
                self.output.event(&event, now)?;
            }
        }
        Ok(Written::All)
    }

    /// Writes a bookmark at the cursor, if the client asked for bookmarks.
    fn write_bookmark(&mut self) {
        if self.timers.has_bookmarks()
            && let Err(error) = self.output.bookmark(self.position, false)
        {
            self.end_with(&error);
        }
    }

    /// Ends the watch with an ERROR event behind what is written.
    fn end_with(&mut self, error: &ApiError) {
        self.phase = Phase::Ended;
        if matches!(error, ApiError::Internal(_))
            && let Some(left_out) = FAILURES.pass()
        {
            tracing::error!(resource = %self.storage, %error, left_out, "a watch fails");
        }
        let status = Status::of(error, self.output.renderer.brand());
        if let Err(error) = self.output.error(&status)
            && let Some(left_out) = UNWRITTEN.pass()
        {
            tracing::error!(%error, left_out, "an ERROR event cannot be written");
        }
    }
}

#[cfg(test)]
mod tests {
    use orch_raft::memory::MemoryStore;

    use super::*;

    /// A node holds a hundred thousand of them.
    #[test]
    fn an_idle_watch_holds_little() {
        let held = size_of::<Watch<MemoryStore>>();
        assert!(held <= 768, "{held} bytes");
    }
}
