//! The listeners of the API: sockets, TLS, HTTP/1.1 and HTTP/2, and how connections end.
//!
//! Owns everything between the kernel and a request: limits ([`limits`]), the client's identity (an `Arc<Peer>` in each
//! request's extensions), and draining. It never looks at a path or a body. The only responses it writes itself are
//! refusals before the service sees the request ([`visitor`], [`loopback`]).
//!
//! When all places are taken, a stranger's connection is closed for a new one; without strangers, one of the user with
//! the most connections ([`places`]).
//!
//! Requests under way and responses that are not taken are charged to the connection's user ([`load`]).
//!
//! Invariant: every wait on a client has a deadline: the handshake, the first request, a request's headers, a socket
//! that accepts no bytes ([`stall`]), a response that the client does not read, or reads too slowly ([`pace`]).
//!
//! Invariant: no connection keeps its event loop ([`event_loops`]) from the others for longer than a millisecond and the work on one
//! frame or one small request: streams and frames stop at the end of a [`slice`], writers of much take turns ([`turns`]), and so do
//! [`handshakes`].

mod connection;
mod event_loops;
mod gather;
mod handshakes;
mod limits;
mod listener;
mod load;
mod loopback;
mod pace;
mod places;
mod plain;
mod serve;
mod slice;
mod socket;
mod stall;
mod streams;
mod tunnel;
mod turns;
mod validity;
mod visitor;

pub use event_loops::EventLoops;
pub use listener::{BindError, bind};
pub use serve::{Port, Server};
pub use socket::{SOCKET_PATH_BYTES_MAX, SocketError, bind_socket, is_socket_path};
pub use tunnel::TunnelSlot;

#[cfg(test)]
mod tests;
