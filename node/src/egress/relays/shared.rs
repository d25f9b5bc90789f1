//! Connections of HTTP/2 to one aggregated server, each of which carries several requests.
//!
//! Owns which of them carries a request. A stream whose answer is not read fills its own window and no other's: the window of a
//! connection has room for those of all the streams that this node opens on it. Requests that last, such as watches, have
//! connections of their own, because servers bound the streams of a connection, too. A connection that is old takes no new request
//! and ends with those that it has.
//!
//! Invariant: a connection carries at most [`STREAMS_MAX`] requests, from their beginning to the end of their answers.

use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use hyper::client::conn::http2::SendRequest;
use parking_lot::Mutex;

use crate::egress::exchange::is_old;
use crate::egress::sweep::IDLE_TIME_MAX;

/// Bytes of an answer that are under way on one stream before they are read: what its user is charged for.
pub(super) const STREAM_WINDOW_BYTES: u32 = 64 << 10;

/// Requests on one connection: servers allow a hundred streams at least.
const STREAMS_MAX: u32 = 64;

/// Bytes of answers that are under way on a connection before they are read.
pub(super) const CONNECTION_WINDOW_BYTES: u32 = STREAM_WINDOW_BYTES * STREAMS_MAX;

/// Connections of one server that are kept for requests of one span: watches take no room of other requests. They carry 512 requests;
/// each further one has a connection that ends with it.
const CONNECTIONS_MAX: usize = 8;

/// How long the answer to a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Span {
    /// As long as the server needs.
    Short,
    /// As long as the client wants: a watch.
    Long,
}

/// The connections to one server.
#[derive(Default)]
pub(super) struct Connections(Vec<Kept>);

struct Kept {
    sender: SendRequest<Body>,
    span: Span,
    opened: Instant,
    /// When the last place was given back; shared with the places that are taken.
    places: Arc<Mutex<Instant>>,
}

/// The place of one request on a connection; given back when it is dropped.
pub(super) struct Place {
    held: Arc<Mutex<Instant>>,
}

impl Drop for Place {
    fn drop(&mut self) {
        *self.held.lock() = Instant::now();
    }
}

/// A connection, and the place of a request on it.
pub(super) type Carrier = (SendRequest<Body>, Place);

impl Connections {
    /// A connection with a place for a request of this `span`.
    pub(super) fn take(&mut self, span: Span) -> Option<Carrier> {
        self.sweep();
        // few: at most `CONNECTIONS_MAX` of each span.
        let found = self.0.iter().find(|own| own.span == span && own.has_place())?;
        Some((found.sender.clone(), Place { held: found.places.clone() }))
    }

    /// Gives up those that are closed, old or idle; whether there are others. One that is old ends with the requests that it has.
    pub(super) fn sweep(&mut self) -> bool {
        self.0.retain(|own| !own.sender.is_closed() && !is_old(own.opened) && !own.is_idle());
        !self.0.is_empty()
    }

    /// Keeps a new connection for other requests of this `span`, if there is room; the result is the place of the first one.
    pub(super) fn keep(&mut self, sender: &SendRequest<Body>, span: Span) -> Place {
        let places = Arc::new(Mutex::new(Instant::now()));
        // few: as above.
        if self.0.iter().filter(|own| own.span == span).count() < CONNECTIONS_MAX {
            let (sender, opened) = (sender.clone(), Instant::now());
            self.0.push(Kept { sender, span, opened, places: places.clone() });
        }
        Place { held: places }
    }
}

impl Kept {
    fn has_place(&self) -> bool {
        u32::try_from(self.taken()).is_ok_and(|taken| taken < STREAMS_MAX)
    }

    fn is_idle(&self) -> bool {
        self.taken() == 0 && self.places.lock().elapsed() >= IDLE_TIME_MAX
    }

    fn taken(&self) -> usize {
        // The connection itself holds one of the counted references.
        Arc::strong_count(&self.places) - 1
    }
}

/// The place of a request whose connection is not kept.
pub(super) fn unkept() -> Place {
    Place { held: Arc::new(Mutex::new(Instant::now())) }
}

#[cfg(test)]
impl Connections {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Makes all connections older by `span`.
    pub(super) fn age(&mut self, span: std::time::Duration) {
        for own in &mut self.0 {
            own.opened = own.opened.checked_sub(span).unwrap();
        }
    }

    /// Lets `span` pass for connections without requests.
    pub(super) fn idle(&mut self, span: std::time::Duration) {
        for own in &mut self.0 {
            let mut since = own.places.lock();
            *since = since.checked_sub(span).unwrap();
        }
    }
}
