//! A connection after it has left HTTP: it carries the bytes of another protocol.
//!
//! Owns the slot through which whoever answers an upgrade hands that work to the connection's own task. So it has the
//! connection's place, counts as a request under way, and ends with eviction, a revoked certificate or the stop of the server.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

/// Work that carries bytes until one side ends.
pub(super) type Tunnel = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The slot of one connection, in the extensions of its requests.
#[derive(Clone, Default)]
pub struct TunnelSlot(Arc<Slot>);

#[derive(Default)]
struct Slot {
    tunnel: Mutex<Option<Tunnel>>,
    is_open: AtomicBool,
}

impl fmt::Debug for TunnelSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TunnelSlot").field("is_open", &self.is_open()).finish_non_exhaustive()
    }
}

impl TunnelSlot {
    /// Hands `tunnel` to the connection, which polls it once the response that grants the upgrade is sent. Until its end the
    /// connection may stand still for any time.
    pub fn open(&self, tunnel: impl Future<Output = ()> + Send + 'static) {
        *self.0.tunnel.lock() = Some(Box::pin(tunnel));
        self.0.is_open.store(true, Ordering::Relaxed);
    }

    /// Whether a tunnel was handed over.
    pub(super) fn is_open(&self) -> bool {
        self.0.is_open.load(Ordering::Relaxed)
    }

    /// The tunnel; `None` where the connection did not leave HTTP.
    pub(super) fn take(&self) -> Option<Tunnel> {
        self.0.tunnel.lock().take()
    }
}
