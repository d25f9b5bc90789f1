//! The network of a real process: frames in gRPC calls and streams, always under mutual TLS.
//!
//! Owns the peer port and the connections to other members, one for each member and [`Purpose`]. Who a peer is comes
//! from its certificate: the peer authority signed it and it carries the member's name ([`identity`]). What it claims
//! beside that (its id, its name, its cluster) travels in the metadata of every call and stream and is compared before
//! a body is read ([`claim`]).
//!
//! It never looks into a frame, never sends or takes one in the clear, and never repeats a frame that may have been
//! delivered. Certificates are exchanged without a restart ([`PeerTls::reload`]).

mod chain;
mod claim;
mod client;
mod connector;
mod identity;
mod incoming;
mod link;
mod places;
mod server;
#[cfg(test)]
mod tests;
mod tls;

use std::time::Duration;

pub use self::chain::check_chain;
pub use self::claim::{Admits, Claim, ClusterPin, ClusterPinError, Standing, admit_by_membership};
pub use self::client::TonicTransport;
pub use self::identity::{PEER_NAME_SUFFIX, PeerNameError, peer_dns_name, peer_name_of};
pub use self::server::PeerServer;
pub use self::tls::{PeerTls, PeerTlsError};

/// Bytes of one frame. An append is cut at about 2 MiB and a snapshot's chunks at less, but one object may have
/// 1.5 MiB and several may share a batch; more than this is a mistake or an attack, and is refused on both sides.
pub const FRAME_BYTES_MAX: usize = 8 << 20;

/// What encoding adds to a body: a tag and a length.
const FRAME_OVERHEAD_BYTES: usize = 16;
/// Frames waiting on either side of a stream before the sender waits: enough to keep the link busy while one is being
/// handled, few enough that a slow receiver holds up the sender and not the memory.
const STREAM_FRAMES_MAX: usize = 8;
/// From the name lookup to the end of the HTTP/2 handshake. Also bounds how long a black hole delays a call.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// A connection that is silent this long is asked whether it lives, and closed when it does not answer: a cut cable
/// is noticed in less than the time that connecting anew may take.
const PING_INTERVAL: Duration = Duration::from_secs(2);
const PING_TIMEOUT: Duration = Duration::from_secs(3);
/// For the kernel's own probes, which also hold while the process is stopped.
const TCP_KEEPALIVE: Duration = Duration::from_secs(15);
/// Receive windows: a frame of an append in flight for each stream, two for a connection.
const STREAM_WINDOW_BYTES: u32 = 2 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// Runs `task` beside the caller. The adapter of a real network runs on tokio; nothing simulated comes here.
#[expect(clippy::disallowed_methods, reason = "an adapter of sockets, which only tokio drives")]
fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    tokio::spawn(task);
}
