//! The way of a watch's cursor: through the state at the start, then through the changes.
//!
//! Owns how far the cursor goes in a look: by the objects and changes that are matched, by a frame, and by the bytes that
//! rendering reads. These are the sizes of the very events that are due, since one large object may stand among many small
//! ones. It knows no timer and sends nothing.
//!
//! An object that needs the conversion stage ends a look, too, until it has passed it.
//!
//! Invariant: the cursor passes a revision only when all its events are rendered. A look that ends before an event because
//! it reads too much leaves the cursor before it.

use std::iter::once;

use orch_raft::{Change, Store};
use smallvec::SmallVec;

use super::output::{Due, Output};
use super::start::resume_from_disk;
use super::{Beginning, MATCHED_PER_LOOK_MAX, Phase, Watch, Written};
use crate::error::ApiError;
use crate::render::Event;

/// Most changes that a watch passes before it is answered: two looks, about a millisecond with usual selectors. Ten thousand
/// watches that come back together after a member has died are some seconds of work, within the seats of flow control.
/// A watch that is further behind goes on when it is answered.
const CAUGHT_UP_MAX: usize = 2 * MATCHED_PER_LOOK_MAX;

/// Bound of changes times bytes that selectors hold: those of a usual one are two hundred, a tenth of a microsecond for each
/// change, and a longer one passes fewer changes instead of taking longer.
pub(super) const MATCHED_BYTES_MAX: usize = 4 << 20;

/// Objects or changes that are matched in half a millisecond with selectors of `selector_bytes`, one at least.
pub(super) fn matched_at_once(selector_bytes: usize) -> usize {
    (MATCHED_BYTES_MAX / selector_bytes.max(1)).max(1)
}

/// Objects or changes that a look with such selectors matches at most.
fn matched_max(selector_bytes: usize) -> usize {
    matched_at_once(selector_bytes).min(MATCHED_PER_LOOK_MAX)
}

/// Bytes that were read to render events since the cursor last stood at the end: a watch that is behind and renders much
/// stays away from the threads that serve until it has caught up.
#[derive(Debug, Default)]
pub(super) struct Reading {
    bytes: usize,
}

impl Reading {
    /// Counts `bytes` that are about to be read. `false`: they are not, because that would make more than `max`.
    fn may_read(&mut self, bytes: usize, max: usize) -> bool {
        let read = self.bytes.saturating_add(bytes);
        let may = bytes == 0 || read <= max;
        if may {
            self.bytes = read;
        }
        may
    }

    /// The cursor stands at the end.
    fn end(&mut self) {
        self.bytes = 0;
    }
}

/// Where changes were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Memory,
    /// Each reading decodes objects of its own, which no other watch asks for: their events are not shared.
    Disk,
}

/// Bytes of objects behind a due one that are converted with it: as many as a look may read on a thread that serves.
const AHEAD_BYTES_MAX: usize = 1 << 20;

impl Written {
    /// The end of a look before events that read too much.
    fn before_costly(output: &Output) -> Written {
        if output.is_empty() { Written::Costly } else { Written::FrameFull }
    }
}

impl<S: Store> Watch<S> {
    /// Passes the changes due where the watch resumes that do not concern it, up to the first that does: [`CAUGHT_UP_MAX`] at
    /// most, and those in memory alone. So this work is done before the watch is answered. It renders nothing: what is
    /// rendered is counted when the client takes it.
    pub fn catch_up(&mut self) {
        if !matches!(self.phase, Phase::Following) || self.reads_back || self.is_revoked() {
            return;
        }
        self.position = self.subscription.pass(self.position);
        let state = self.pipeline.store.state();
        let collection = state.collection(&self.storage);
        let Ok(changes) = collection.changes_after(self.position) else { return };
        let most = matched_at_once(self.selector_bytes()).min(CAUGHT_UP_MAX);
        let (mut changes, mut position) = (changes.peekable(), self.position);
        for _ in 0..most {
            let Some(change) = changes.next() else {
                position = position.max(state.applied());
                break;
            };
            if self.scope.event(change).is_some() {
                break;
            }
            // A revision is passed with the last of its changes.
            if changes.peek().is_none_or(|next| next.revision != change.revision) {
                position = change.revision;
            }
        }
        self.position = position;
    }

    /// Writes the next events of the phase. An error ends the watch.
    pub(super) fn write(&mut self, read_max: usize) -> Written {
        let failure = self.conversions.take_failure();
        let written = match (failure, self.is_revoked()) {
            (_, true) => Err(ApiError::revoked()),
            (Some(failure), false) => Err(failure),
            (None, false) => match self.phase {
                Phase::Initial { .. } => self.write_initial(read_max),
                Phase::Following | Phase::Ended => self.write_changed(read_max),
            },
        };
        let written = written.unwrap_or_else(|error| {
            self.end_with(&error);
            Written::All
        });
        self.is_behind = written == Written::Enough;
        self.has_caught_up = written == Written::All;
        if self.has_caught_up {
            self.reading.end();
            self.conversions.clear();
            // Changes that were read here may be walked only later: they wake the watch no more.
            self.position = self.subscription.pass(self.position);
        }
        written
    }

    /// Writes ADDED events for the state at the start; at their end the bookmark that marks it, if the client asked for
    /// it.
    fn write_initial(&mut self, read_max: usize) -> Result<Written, ApiError> {
        let Watch { pipeline, phase, scope, output, reading, conversions, .. } = self;
        let Phase::Initial { beginning, after } = phase else { return Ok(Written::All) };
        let beginning = beginning.clone();
        let Beginning { collection, lookup } = &*beginning;
        let now = pipeline.ambient.now();
        let resource = output.renderer.resource().clone();
        let mut candidates = scope.candidates(collection, lookup.as_ref(), after).enumerate();
        let most = matched_max(scope.selector.held_bytes());
        while let Some((at, (path, object))) = candidates.next() {
            if at >= most {
                return Ok(Written::Enough);
            }
            if scope.selector.matches(path, object) {
                let due = Due::alone(Event::added(object), output);
                if !reading.may_read(due.reads, read_max) {
                    return Ok(Written::before_costly(output));
                }
                let Some(shown) = conversions.shown(&resource, object) else {
                    let selected =
                        candidates.filter(|(_, (path, object))| scope.selector.matches(path, object));
                    let ahead = selected.map(|(_, (_, object))| object);
                    conversions.begin(&resource, once(object), ahead, read_max.min(AHEAD_BYTES_MAX))?;
                    return Ok(Written::Unconverted);
                };
                output.event(due, Some(shown), &pipeline.shared_events, now)?;
            }
            *after = path.clone();
            if output.is_full() {
                return Ok(Written::FrameFull);
            }
        }
        self.phase = Phase::Following;
        self.initial_events.end();
        if std::mem::take(&mut self.owes_initial_end) {
            self.output.bookmark(self.position, true)?;
        }
        Ok(Written::All)
    }

    /// Writes events of the changes after the cursor, up to one frame: from memory, or one block of older changes from
    /// the disk.
    fn write_changed(&mut self, read_max: usize) -> Result<Written, ApiError> {
        if self.reads_back {
            if read_max < usize::MAX {
                return Ok(Written::Costly);
            }
            self.position = resume_from_disk(&self.pipeline.store, &self.storage, self.position);
            self.reads_back = false;
        }
        self.position = self.subscription.pass(self.position);
        let state = self.pipeline.store.state();
        // Checked after the state was taken, so that a state found wrong meanwhile is not sent.
        if self.is_revoked() {
            return Err(ApiError::revoked());
        }
        let collection = state.collection(&self.storage);
        if collection.changed() > self.position {
            let written = match collection.changes_after(self.position) {
                Ok(changes) => self.write_changes(changes, Origin::Memory, read_max)?,
                Err(_) => return self.write_past(read_max),
            };
            if written != Written::All {
                return Ok(written);
            }
        }
        self.position = self.position.max(state.applied());
        Ok(Written::All)
    }

    /// Writes events of one block of changes that memory no longer holds.
    fn write_past(&mut self, read_max: usize) -> Result<Written, ApiError> {
        let position = self.position;
        let past = self.pipeline.store.past_changes(&self.storage, position);
        let past = past.map_err(|gone| ApiError::too_old(gone.requested, gone.oldest))?;
        let past = past.iter().filter(|change| change.revision > position);
        match self.write_changes(past, Origin::Disk, read_max)? {
            unread @ (Written::Costly | Written::Unconverted) => Ok(unread),
            // Without a later change in the block, the next look would read it again, for ever.
            _ if self.position == position => {
                Err(ApiError::too_old(position, self.pipeline.store.state().applied()))
            }
            Written::FrameFull => Ok(Written::FrameFull),
            Written::All | Written::Enough => Ok(Written::Enough),
        }
    }

    /// Writes the events of `changes`, which follow the cursor without a gap, and moves the cursor.
    fn write_changes<'a>(
        &mut self,
        changes: impl Iterator<Item = &'a Change>,
        origin: Origin,
        read_max: usize,
    ) -> Result<Written, ApiError> {
        let Watch { pipeline, scope, output, reading, position, conversions, .. } = self;
        let resource = output.renderer.resource().clone();
        let (shared, now) = (&pipeline.shared_events, pipeline.ambient.now());
        let (mut changes, mut matched) = (changes.peekable(), 0);
        let most = matched_max(scope.selector.held_bytes());
        while let Some(first) = changes.next() {
            if output.is_full() {
                return Ok(Written::FrameFull);
            }
            if matched >= most {
                return Ok(Written::Enough);
            }
            // Those of one revision, nearly always one.
            let (mut due, mut next) = (SmallVec::<[Due<'a>; 1]>::new(), Some(first));
            while let Some(change) = next {
                matched += 1;
                if let Some(event) = scope.event(change) {
                    due.push(match origin {
                        Origin::Memory => Due::of_change(event, output, due.len(), shared, now),
                        Origin::Disk => Due::alone(event, output),
                    });
                }
                next = changes.next_if(|next| next.revision == first.revision);
            }
            let reads = due.iter().fold(0_usize, |sum, due| sum.saturating_add(due.reads));
            if !reading.may_read(reads, read_max) {
                return Ok(Written::before_costly(output));
            }
            let objects = || due.iter().filter_map(Due::object);
            // few: the changes of one revision.
            if objects().any(|object| conversions.shown(&resource, object).is_none()) {
                let ahead = next.into_iter().chain(changes).filter_map(|change| scope.event(change));
                let ahead = ahead.map(|event| event.object);
                conversions.begin(&resource, objects(), ahead, read_max.min(AHEAD_BYTES_MAX))?;
                return Ok(Written::Unconverted);
            }
            // After an error the events before it are the client's: the cursor has passed them.
            *position = first.revision;
            for due in due {
                let shown = due.object().and_then(|object| conversions.shown(&resource, object));
                output.event(due, shown, shared, now)?;
            }
        }
        Ok(Written::All)
    }
}
