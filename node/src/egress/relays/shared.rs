//! Connections of HTTP/2 to one aggregated server, each of which carries several requests.
//!
//! Owns which of them carries a request. A stream whose answer is not read fills its own window and no other's: the window of a
//! connection has room for those of all the streams that this node opens on it. Requests that last, such as watches, have
//! connections of their own, because servers bound the streams of a connection, too. A connection that is old takes no new request
//! and ends with those that it has; so does one on which a request failed or was given up before the head of its answer.
//!
//! Invariant: a connection carries at most [`STREAMS_MAX`] requests, from their beginning to the end of their answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use axum::body::Body;
use hyper::client::conn::http2::SendRequest;
use parking_lot::Mutex;

use crate::egress::exchange::is_old;
use crate::egress::lasting::Life;
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
    /// Shared with the places that are taken.
    held: Arc<Held>,
}

/// The state that a connection and its places share. The connection ends with the last of them.
struct Held {
    /// When the last place was given back.
    given_back: Mutex<Instant>,
    /// A request had no answer.
    is_given_up: AtomicBool,
    _life: Life,
}

/// The place of one request on a connection; given back when it is dropped.
pub(super) struct Place {
    held: Arc<Held>,
    /// A request was sent, and the head of its answer is not there.
    is_waiting: bool,
}

impl Place {
    fn new(held: Arc<Held>) -> Place {
        Place { held, is_waiting: false }
    }

    /// The request is about to be sent. Dropped before it is answered, it gives the connection up: a server that does not answer
    /// could keep it busy all the same.
    pub(super) fn asked(mut self) -> Place {
        self.is_waiting = true;
        self
    }

    /// The request has the head of its answer.
    pub(super) fn answered(mut self) -> Place {
        self.is_waiting = false;
        self
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *self.held.given_back.lock() = Instant::now();
        if self.is_waiting {
            self.held.is_given_up.store(true, Ordering::Relaxed);
        }
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
        Some((found.sender.clone(), Place::new(found.held.clone())))
    }

    /// Gives up those that are closed, old or idle, or had no answer to a request; whether there are others. One that is old ends with the requests that it has.
    pub(super) fn sweep(&mut self) -> bool {
        self.0.retain(|own| {
            !own.sender.is_closed() && !own.is_given_up() && !is_old(own.opened) && !own.is_idle()
        });
        !self.0.is_empty()
    }

    /// Keeps a new connection for other requests of this `span`, if there is room; the result is the place of the first one.
    pub(super) fn keep(&mut self, (sender, life): (&SendRequest<Body>, Life), span: Span) -> Place {
        let held = held(life);
        // few: as above.
        if self.0.iter().filter(|own| own.span == span).count() < CONNECTIONS_MAX {
            let (sender, opened) = (sender.clone(), Instant::now());
            self.0.push(Kept { sender, span, opened, held: held.clone() });
        }
        Place::new(held)
    }
}

impl Kept {
    fn has_place(&self) -> bool {
        u32::try_from(self.taken()).is_ok_and(|taken| taken < STREAMS_MAX)
    }

    fn is_idle(&self) -> bool {
        self.taken() == 0 && self.held.given_back.lock().elapsed() >= IDLE_TIME_MAX
    }

    fn is_given_up(&self) -> bool {
        self.held.is_given_up.load(Ordering::Relaxed)
    }

    fn taken(&self) -> usize {
        // The connection itself holds one of the counted references.
        Arc::strong_count(&self.held) - 1
    }
}

/// The place of a request whose connection is not kept.
pub(super) fn unkept(life: Life) -> Place {
    Place::new(held(life))
}

fn held(life: Life) -> Arc<Held> {
    let given_back = Mutex::new(Instant::now());
    Arc::new(Held { given_back, is_given_up: AtomicBool::new(false), _life: life })
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
            let mut since = own.held.given_back.lock();
            *since = since.checked_sub(span).unwrap();
        }
    }
}
