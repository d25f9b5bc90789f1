//! The network of a real process: frames in gRPC calls and streams, always under mutual TLS.
//!
//! Owns the peer port and the connections to other members, one for each member and [`Purpose`]. The certificate
//! identifies a peer: the peer authority signed it and it carries the member's name ([`identity`]). The id, name and
//! cluster that a peer claims travel in the metadata of every call and stream and are compared before a body is read
//! ([`claim`]).
//!
//! It never parses a frame, never sends or accepts one without TLS, and never repeats a frame that may have been
//! delivered. Certificates are replaced without a restart ([`PeerTls::reload`]), and a connection ends when the certificate
//! of its peer is revoked ([`revocable`]).

mod chain;
mod claim;
mod client;
mod connector;
mod identity;
mod incoming;
mod link;
mod material;
mod places;
mod revocable;
mod server;
#[cfg(test)]
mod tests;
mod tls;

use std::time::Duration;

pub use self::chain::check_chain;
pub use self::claim::{Admits, Claim, ClusterPin, ClusterPinError, Standing, admit_by_membership};
pub use self::client::TonicTransport;
pub use self::identity::{PeerNameError, peer_dns_name, peer_name_of};
pub use self::material::PeerTlsError;
pub use self::server::PeerServer;
pub use self::tls::PeerTls;

/// Bytes of one frame. An append is cut at about 2 MiB and a snapshot's chunks at less, but one object may have
/// 1.5 MiB and several may share a batch; more than this is a mistake or an attack, and is refused on both sides.
pub const FRAME_BYTES_MAX: usize = 8 << 20;

/// Bytes that the encoding adds to a body: a tag and a length.
const FRAME_OVERHEAD_BYTES: usize = 16;
/// Frames queued on either side of a stream before back-pressure: enough to keep the link busy while one is handled,
/// few enough that a slow receiver holds up the sender and not the memory.
const STREAM_FRAMES_MAX: usize = 8;
/// From the name lookup to the end of the HTTP/2 handshake. Also bounds the delay of a call to an address that drops
/// packets.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// HTTP/2 keepalive: a connection silent this long is pinged and closed without an answer. A cut cable is noticed in
/// less time than a new connection may take.
const PING_INTERVAL: Duration = Duration::from_secs(2);
const PING_TIMEOUT: Duration = Duration::from_secs(3);
/// TCP keepalive by the kernel, which also works while the process is stopped.
const TCP_KEEPALIVE: Duration = Duration::from_secs(15);
/// Flow control windows: one append frame in flight for each stream, two for a connection.
const STREAM_WINDOW_BYTES: u32 = 2 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// Spawns `task`. Only the adapter of the real network calls it; nothing simulated does.
#[expect(clippy::disallowed_methods, reason = "an adapter of sockets, which only tokio drives")]
fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(task);
}
