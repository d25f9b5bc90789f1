//! Watches: each a cursor into this node's history.
//!
//! Owns where a watch starts, the events of its selection, bookmarks, and how it ends. No events are queued for a
//! watch. A change that concerns it wakes it, and it reads the history when its socket has room: from memory, older
//! changes from the disk. Changes that follow one another closely are sent together. A watch that reads too slowly falls
//! out of both and ends with a 410. Of memory it holds its selectors, which its user is charged for (`http::memory_ledger`).
//! An event that has to be rendered is rendered once for all watches of its form (`shared`).
//!
//! Invariant: the cursor passes a revision only when all its events are rendered (`cursor`).

mod converting;
mod cursor;
mod ending;
mod event;
mod output;
mod rest;
mod start;
#[cfg(test)]
mod tests;
mod timers;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use orch_bounded::WarningLimit;
use orch_raft::Subscription;
use orch_raft::{Collection, Interest, Revision, Store};

use crate::error::ApiError;
use crate::flow::InitialEvents;
use crate::index::Lookup;
use crate::pipeline::Pipeline;
use crate::status::Status;
use converting::Conversions;
use cursor::Reading;
use event::Scope;
use output::Output;
use timers::Timers;

pub use ending::Ending;

/// Most objects or changes matched before other tasks run: some hundred microseconds with usual selectors.
const MATCHED_PER_LOOK_MAX: usize = 4096;

/// Longest [`Pipeline::watch_batch_delay`] that a node may be told: clients that write and wait for the event wait as long.
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
    /// The disk has to tell whether the revision where the watch resumes changed several objects.
    reads_back: bool,
    /// The last look ended before the newest change: older changes must be read from the disk, or there were too many.
    is_behind: bool,
    reading: Reading,
    conversions: Conversions,
    /// The last look wrote all changes that there were: another one waits for the next.
    has_caught_up: bool,
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
    /// [`MATCHED_PER_LOOK_MAX`] changes were matched, or those of a block from the disk.
    Enough,
    /// The next event reads too much, and no event was written.
    Costly,
    /// The next event's object is being converted, or just was.
    Unconverted,
}

/// The result of [`Watch::look`], which never waits.
pub enum LookResult {
    /// Bytes to send.
    Frame(Bytes),
    /// No event to send.
    Nothing,
    /// Rendering what is due reads more than the look may.
    Costly,
    /// The watch has ended.
    Ended,
}

impl<S: Store> Watch<S> {
    /// The next bytes: events in the negotiated representation, of which a large one may take several calls. `None` when the
    /// watch has ended. A look that reads more than `read_max` bytes is begun anew without a bound.
    pub async fn next(&mut self, read_max: usize) -> Option<Bytes> {
        let mut bound = read_max;
        loop {
            match self.look(std::mem::replace(&mut bound, read_max)) {
                LookResult::Frame(frame) => return Some(frame),
                LookResult::Ended => return None,
                LookResult::Nothing => self.rest().await,
                LookResult::Costly => bound = usize::MAX,
            }
        }
    }

    /// The demand under which the watch is filed.
    pub fn interest(&self) -> &Arc<Interest> {
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

    /// Whether the next look matches `many` objects or more, too many for a thread that serves other connections, or with long
    /// selectors so many that it takes as long. A watch of everything sends all that it looks at.
    pub fn has_much_to_look_at(&self, many: usize) -> bool {
        if !self.output.is_empty() || self.is_gathering() {
            return false;
        }
        let Scope { prefix, path, selector } = &self.scope;
        let selects = !selector.is_everything();
        let many = many.min(cursor::matched_at_once(self.selector_bytes()));
        match &self.phase {
            Phase::Initial { beginning, .. } => {
                selects && path.is_none() && beginning.collection.len() >= many
            }
            Phase::Following if self.reads_back => true,
            Phase::Following => {
                let state = self.pipeline.store.state();
                let passes = selects || path.is_some() || !prefix.is_empty();
                passes && self.changes_due(&state.collection(&self.storage)) >= many
            }
            Phase::Ended => false,
        }
    }

    /// Whether a change that comes now is to be gathered with others: the last one was sent just now.
    fn is_gathering(&self) -> bool {
        self.has_caught_up && matches!(self.phase, Phase::Following) && !self.gathering_rest().is_zero()
    }

    /// Changes of `collection` that the watch has not passed, from the first that may concern it. Of those on the disk the
    /// revisions are counted, which are no fewer but for transactions of several changes.
    fn changes_due(&self, collection: &Collection) -> usize {
        let position = self.subscription.pass(self.position);
        let revisions = collection.changed().0.saturating_sub(position.0);
        let of_disk = || usize::try_from(revisions).unwrap_or(usize::MAX);
        collection.changes_since(position).unwrap_or_else(|_| of_disk())
    }

    /// Looks at a bounded number of objects, and returns the next part of their events. Where rendering them reads more than
    /// `read_max` bytes, counted since nothing was due, the result is [`LookResult::Costly`], and the next look begins there.
    pub fn look(&mut self, read_max: usize) -> LookResult {
        // Even after the watch's time: an event that has begun is sent whole.
        if let Some(part) = self.take_part() {
            return LookResult::Frame(part);
        }
        self.is_behind = false;
        if matches!(self.phase, Phase::Ended) {
            return LookResult::Ended;
        }
        // Checked before every frame, because changes may never pause.
        if self.timers.is_over(&self.pipeline.store) {
            self.finish();
        } else if self.is_gathering() {
            return LookResult::Nothing;
        } else {
            let mut written = self.write(read_max);
            // A converter that was ready at once: the next event can be written now.
            while written == Written::Unconverted && self.output.is_empty() && !self.conversions.is_waiting()
            {
                written = self.write(read_max);
            }
            if written == Written::Costly {
                return LookResult::Costly;
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
