//! Rendered frames of a watch that wait for its connection.
//!
//! Owns the order of rendered bytes, and where the bytes of an event come from: from its object, from the events that are
//! shared, or from a rendering. A large event is a part of its own that is shared with the store or with other watches, so
//! that a watcher who does not read holds a frame and references. It never looks at the history.

use std::collections::VecDeque;

use bytes::Bytes;
use orch_raft::Revision;
use orch_raft::object::SharedObject;
use orch_schema::budget::count_step;

use crate::ambient::Timestamp;
use crate::error::ApiError;
use crate::pipeline::staged::is_current;
use crate::render::{Event, EventKey, Renderer, SHARED_BYTES_MIN, SharedEvents};

/// Bytes of events after which a frame goes to the socket: four TLS records. A slow reader holds this much.
const FRAME_BYTES: usize = 64 << 10;

/// The renderer of a watch, and rendered bytes.
pub(super) struct Output {
    pub renderer: Renderer,
    /// Parts that come before what is written next.
    parts: VecDeque<Bytes>,
    /// The end of what is rendered.
    frame: Vec<u8>,
    is_first_event: bool,
}

/// An event that is to be written, and where its bytes come from.
pub(super) struct Due<'a> {
    event: Event<'a>,
    origin: Origin,
    /// Bytes of the object that writing the event reads.
    pub reads: usize,
}

enum Origin {
    /// Bytes that the object holds, or a rendering that is not worth being shared.
    Object,
    /// Rendered for another watch.
    Shared(Bytes),
    /// To be rendered, for other watches, too.
    Rendering(EventKey),
}

impl<'a> Due<'a> {
    /// `event` in the form of `output`; `before`: number of events that will be written before it.
    pub(super) fn of_change(
        event: Event<'a>,
        output: &Output,
        before: usize,
        shared: &SharedEvents,
        now: Timestamp,
    ) -> Due<'a> {
        let form = output.renderer.form();
        let is_current = is_current(output.renderer.resource(), event.object);
        if is_current && !form.renders_each(event.revision) {
            return Due::alone(event, output);
        }
        let key = EventKey::of(&event, form, output.is_first_event && before == 0, now);
        match shared.find(&key) {
            Some(bytes) => Due { event, origin: Origin::Shared(bytes), reads: 0 },
            None => Due { origin: Origin::Rendering(key), ..Due::alone(event, output) },
        }
    }

    /// An event that no other watch takes from this one.
    pub(super) fn alone(event: Event<'a>, output: &Output) -> Due<'a> {
        let reads = match is_current(output.renderer.resource(), event.object) {
            true => output.renderer.form().bytes_read_for(event.object, event.revision),
            false => event.object.json.len(),
        };
        Due { event, origin: Origin::Object, reads }
    }

    /// The object that is to be rendered; `None` for an event that is rendered already.
    pub(super) fn object(&self) -> Option<&'a SharedObject> {
        match self.origin {
            Origin::Shared(_) => None,
            Origin::Object | Origin::Rendering(_) => Some(self.event.object),
        }
    }
}

impl Output {
    pub(super) fn new(renderer: Renderer) -> Output {
        Output { renderer, parts: VecDeque::new(), frame: Vec::new(), is_first_event: true }
    }

    /// Writes one event. `shown`: its object in the form of the renderer's version; `None` where [`Due::object`] is.
    ///
    /// # Errors
    /// Those of [`Renderer::event`]; `DeadlineExceeded` where the work was stopped. Nothing is written then.
    pub(super) fn event(
        &mut self,
        due: Due<'_>,
        shown: Option<&SharedObject>,
        shared: &SharedEvents,
        now: Timestamp,
    ) -> Result<(), ApiError> {
        let Event { kind, object, revision } = due.event;
        let shown = shown.unwrap_or(object);
        let first = std::mem::take(&mut self.is_first_event);
        match due.origin {
            Origin::Shared(bytes) => {
                shared.count_taken();
                self.push(bytes);
            }
            Origin::Rendering(key) => {
                let mut bytes = Vec::new();
                self.renderer.event(kind, shown, revision, first, now, &mut bytes)?;
                if !count_step() {
                    // An event of an object that was read in part must not get to other watches.
                    return Err(ApiError::DeadlineExceeded);
                }
                let bytes = shared.keep(key, bytes, object, self.renderer.resource());
                self.push(bytes);
            }
            Origin::Object => match self.renderer.shared_event(kind, shown, revision)? {
                None => self.renderer.event(kind, shown, revision, first, now, &mut self.frame)?,
                Some(parts) => {
                    self.frame.extend_from_slice(&parts.open);
                    self.end_frame();
                    self.parts.extend(parts.object);
                    self.frame.extend_from_slice(parts.end);
                }
            },
        }
        Ok(())
    }

    /// Writes a bookmark, as [`Renderer::bookmark`] does.
    ///
    /// # Errors
    /// Those of [`Renderer::bookmark`].
    pub(super) fn bookmark(&mut self, at: Revision, initial_events_end: bool) -> Result<(), ApiError> {
        let first = std::mem::take(&mut self.is_first_event);
        self.renderer.bookmark(at, initial_events_end, first, &mut self.frame)
    }

    /// Writes an ERROR event.
    ///
    /// # Errors
    /// Those of [`Renderer::error_event`].
    pub(super) fn error(&mut self, status: &crate::status::Status) -> Result<(), ApiError> {
        self.renderer.error_event(status, &mut self.frame)
    }

    /// Whether enough is rendered for now.
    pub(super) fn is_full(&self) -> bool {
        self.frame.len() >= FRAME_BYTES || !self.parts.is_empty()
    }

    /// Whether nothing is rendered.
    pub(super) fn is_empty(&self) -> bool {
        self.frame.is_empty() && self.parts.is_empty()
    }

    /// Takes the next part; `None` where nothing is rendered.
    pub(super) fn take(&mut self) -> Option<Bytes> {
        let rest = |frame: &mut Vec<u8>| Some(std::mem::take(frame)).filter(|frame| !frame.is_empty());
        self.parts.pop_front().or_else(|| rest(&mut self.frame).map(Bytes::from))
    }

    /// Appends an event that is rendered.
    fn push(&mut self, bytes: Bytes) {
        if bytes.len() < SHARED_BYTES_MIN {
            self.frame.extend_from_slice(&bytes);
            return;
        }
        self.end_frame();
        self.parts.push_back(bytes);
    }

    fn end_frame(&mut self) {
        if !self.frame.is_empty() {
            self.parts.push_back(std::mem::take(&mut self.frame).into());
        }
    }
}
