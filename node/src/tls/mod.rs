//! TLS of the API port: which certificate is shown, whose certificates count, and reading both anew.
//!
//! Owns loading and checking of the files, the handshake's settings and the identity of a connection. It does not
//! make certificates (see [`crate::certs`]) and has nothing to do with the traffic between members.
//!
//! A client certificate is not judged during the handshake: only the proof that the client holds its key is. The
//! listener asks [`ClientAuthorities::identify`] afterwards, also on resumed sessions. So a client with an expired
//! certificate is told 401 in its own language instead of a TLS alert, and may still present a token.

mod client;
mod material;
mod reload;
mod settings;

pub use client::{ClientAuthorities, Identified};
pub use material::{MaterialError, ServerPair, load_authorities, load_pair};
pub use reload::{Reloader, follow};
pub use settings::{Tls, TlsFiles};

#[cfg(test)]
mod tests;
