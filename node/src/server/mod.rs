//! The listeners of the API: sockets, TLS, HTTP/1.1 and HTTP/2, and how connections end.
//!
//! Owns everything between the kernel and a request: limits ([`limits`]), who is connected (an `Arc<Peer>` in each
//! request's extensions), and draining. It never looks at a path or a body, and never writes an answer of its own
//! but for the few refusals before that ([`visitor`], [`loopback`]).
//!
//! When all places are taken, strangers make room, then whoever has the most ([`places`]).
//!
//! Invariant: every wait on a client has a deadline: the handshake, the first request, a request's headers, a connection
//! that takes nothing ([`stall`]), an answer that is not taken, or too slowly ([`pace`]).

mod connection;
mod gather;
mod limits;
mod listener;
mod loopback;
mod pace;
mod places;
mod serve;
mod socket;
mod stall;
mod streams;
mod visitor;

pub use listener::{BindError, bind};
pub use serve::{Port, Server};
pub use socket::{SOCKET_PATH_BYTES_MAX, SocketError, bind_socket, is_socket_path};

#[cfg(test)]
mod tests;
