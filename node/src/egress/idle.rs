//! Connections of a target that are kept for the next request.
//!
//! Owns how many, for how long, and which one is used. A connection of HTTP/1.1 carries one request at a time and is taken out;
//! one of HTTP/2 carries several and stays. Neither is used beyond its greatest age ([`Sender`]), however often it is.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::Origin;
use super::exchange::Sender;

/// Time after which a connection that carried nothing is closed: as clients of the reference do. A server whose certificate or
/// address changed meanwhile is asked anew.
const IDLE_TIME_MAX: Duration = Duration::from_secs(90);

/// Connections without a request.
pub(super) struct Idle {
    kept: Mutex<Vec<Kept>>,
    count_max: usize,
}

struct Kept {
    origin: Origin,
    sender: Sender,
    since: Instant,
}

impl Idle {
    /// At most `count_max` connections.
    pub(super) fn of(count_max: usize) -> Idle {
        Idle { kept: Mutex::default(), count_max }
    }

    /// A connection to `origin` that can carry a request.
    pub(super) fn take(&self, origin: &Origin) -> Option<Sender> {
        let mut kept = self.kept.lock();
        kept.retain(|own| own.sender.is_usable() && own.since.elapsed() < IDLE_TIME_MAX);
        // few: at most `count_max`.
        let at = kept.iter().rposition(|own| own.origin == *origin && own.sender.is_ready())?;
        match kept[at].sender.shared() {
            Some(sender) => {
                kept[at].since = Instant::now();
                Some(sender)
            }
            None => Some(kept.swap_remove(at).sender),
        }
    }

    /// Keeps `sender`, whose request was answered.
    pub(super) fn keep(&self, origin: Origin, sender: Sender) {
        if !sender.is_shared() {
            self.put(origin, sender);
        }
    }

    /// Has other requests to `origin` use the connection of `sender`, where it carries several.
    pub(super) fn share(&self, origin: &Origin, sender: &Sender) {
        if let Some(shared) = sender.shared() {
            self.put(origin.clone(), shared);
        }
    }

    fn put(&self, origin: Origin, sender: Sender) {
        let mut kept = self.kept.lock();
        if kept.len() < self.count_max && sender.is_usable() {
            kept.push(Kept { origin, sender, since: Instant::now() });
        }
    }
}
