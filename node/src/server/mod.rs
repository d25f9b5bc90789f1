//! The listeners of the API: sockets, TLS, HTTP/1.1 and HTTP/2, and how connections end.
//!
//! Owns everything between the kernel and a request: limits ([`limits`]), who is connected (an `Arc<Peer>` in each
//! request's extensions), and draining. It never looks at a path or a body, and never writes an answer of its own
//! but for the two refusals of the plain port ([`loopback`]).
//!
//! Invariant: every wait on a client has a deadline: the handshake, a request's headers, an answer it does not read.

mod connection;
mod limits;
mod listener;
mod loopback;
mod serve;
mod stall;

pub use listener::{BindError, bind};
pub use serve::{Port, Server};

#[cfg(test)]
mod tests;
