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

use crate::egress::exchange::is_old;

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
    /// Shared with the places that are taken.
    places: Arc<()>,
}

/// The place of one request on a connection; given back when it is dropped.
pub(super) struct Place {
    _held: Arc<()>,
}

/// A connection, and the place of a request on it.
pub(super) type Carrier = (SendRequest<Body>, Place);

impl Connections {
    /// A connection with a place for a request of this `span`.
    pub(super) fn take(&mut self, span: Span) -> Option<Carrier> {
        self.0.retain(|own| !own.sender.is_closed() && !is_old(own.opened));
        // few: at most `CONNECTIONS_MAX` of each span.
        let found = self.0.iter().find(|own| own.span == span && own.has_place())?;
        Some((found.sender.clone(), Place { _held: found.places.clone() }))
    }

    /// Keeps a new connection for other requests of this `span`, if there is room; the result is the place of the first one.
    pub(super) fn keep(&mut self, sender: &SendRequest<Body>, span: Span) -> Place {
        let places = Arc::new(());
        // few: as above.
        if self.0.iter().filter(|own| own.span == span).count() < CONNECTIONS_MAX {
            let (sender, opened) = (sender.clone(), Instant::now());
            self.0.push(Kept { sender, span, opened, places: places.clone() });
        }
        Place { _held: places }
    }
}

impl Kept {
    fn has_place(&self) -> bool {
        // The connection itself holds one of the counted references.
        u32::try_from(Arc::strong_count(&self.places) - 1).is_ok_and(|taken| taken < STREAMS_MAX)
    }
}

/// The place of a request whose connection is not kept.
pub(super) fn unkept() -> Place {
    Place { _held: Arc::default() }
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
}
