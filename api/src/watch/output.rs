//! What a watch has rendered and its connection has not taken.
//!
//! Owns the order of rendered bytes. A large object is a part of its own that is shared with the store, so that a watcher
//! who does not read holds a frame and references. It never looks at the history.

use std::collections::VecDeque;

use bytes::Bytes;
use orch_raft::Revision;

use super::event::Event;
use crate::ambient::Timestamp;
use crate::error::ApiError;
use crate::render::Renderer;

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

impl Output {
    pub(super) fn new(renderer: Renderer) -> Output {
        Output { renderer, parts: VecDeque::new(), frame: Vec::new(), is_first_event: true }
    }

    /// Writes one event.
    ///
    /// # Errors
    /// Those of [`Renderer::event`]; nothing is written then.
    pub(super) fn event(&mut self, event: &Event<'_>, now: Timestamp) -> Result<(), ApiError> {
        let Event { kind, object, revision } = *event;
        let first = std::mem::take(&mut self.is_first_event);
        let Some(shared) = self.renderer.shared_event(kind, object, revision) else {
            return self.renderer.event(kind, object, revision, first, now, &mut self.frame);
        };
        self.frame.extend_from_slice(&shared.open);
        self.parts.push_back(std::mem::take(&mut self.frame).into());
        self.parts.extend(shared.object);
        self.frame.extend_from_slice(shared.end);
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

    /// Takes the next part; `None` where nothing is rendered.
    pub(super) fn take(&mut self) -> Option<Bytes> {
        let rest = |frame: &mut Vec<u8>| Some(std::mem::take(frame)).filter(|frame| !frame.is_empty());
        self.parts.pop_front().or_else(|| rest(&mut self.frame).map(Bytes::from))
    }
}
