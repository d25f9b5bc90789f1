//! Connections of a target that are kept for the next request.
//!
//! Owns how many, and which one is used. A connection of HTTP/1.1 carries one request at a time and is taken out; one of HTTP/2
//! carries several and stays until a request over it fails or is given up ([`UnderWay`]). Neither is used beyond its greatest age
//! ([`Sender`]), however often it is, nor kept when it is idle ([`super::sweep`]).

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;

use super::Origin;
use super::exchange::Sender;
use super::lasting::Life;
use super::sweep::{IDLE_TIME_MAX, Sweep, Swept, look_after};

/// Connections without a request.
pub(super) struct Idle {
    shared: Arc<Mutex<Swept<Vec<Kept>>>>,
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
        Idle { shared: Arc::default(), count_max }
    }

    /// A connection to `origin` that can carry a request.
    pub(super) fn take(&self, origin: &Origin) -> Option<Sender> {
        let mut shared = self.shared.lock();
        let kept = &mut shared.kept;
        kept.sweep();
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

    /// A request that is about to be sent over `sender`.
    pub(super) fn under_way(&self, sender: &Sender) -> UnderWay<'_> {
        UnderWay { idle: self, life: sender.life().cloned() }
    }

    /// Keeps the connection of this life no more: it ends with the requests that it has.
    fn give_up(&self, life: &Life) {
        let mut shared = self.shared.lock();
        shared.kept.retain(|own| !own.sender.life().is_some_and(|own| own.is_same(life)));
    }

    fn put(&self, origin: Origin, sender: Sender) {
        let is_kept = {
            let mut shared = self.shared.lock();
            let kept = &mut shared.kept;
            let has_room = kept.len() < self.count_max && sender.is_usable();
            if has_room {
                kept.push(Kept { origin, sender, since: Instant::now() });
            }
            has_room
        };
        if is_kept {
            look_after(&self.shared);
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.shared.lock().kept.is_empty()
    }

    /// Lets `span` pass for the connections, as their task would see it.
    #[cfg(test)]
    pub(super) fn pass(&self, span: std::time::Duration) {
        let mut shared = self.shared.lock();
        let kept = &mut shared.kept;
        for own in kept.iter_mut() {
            own.since = own.since.checked_sub(span).expect("the clock began before");
        }
        kept.sweep();
    }
}

/// A request over a connection that may carry others. Dropped before its answer, by an error or by the end of its time, it gives the
/// connection up: a server that does not answer could keep it busy all the same.
pub(super) struct UnderWay<'a> {
    idle: &'a Idle,
    life: Option<Life>,
}

impl UnderWay<'_> {
    /// The request was answered.
    pub(super) fn answered(mut self) {
        self.life = None;
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if let Some(life) = &self.life {
            self.idle.give_up(life);
        }
    }
}

impl Sweep for Vec<Kept> {
    fn sweep(&mut self) -> bool {
        self.retain(|own| own.sender.is_usable() && own.since.elapsed() < IDLE_TIME_MAX);
        !self.is_empty()
    }
}
