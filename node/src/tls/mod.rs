//! TLS of the API port: the server certificate, the authorities of client certificates, and their reload.
//!
//! Owns loading and checking of the files, the TLS settings and the identity of a connection. Making certificates is in
//! [`crate::certs`]; the TLS of peer connections is the transport's.
//!
//! In the handshake only the proof of the client's private key is verified, not its certificate. The listener calls
//! [`ClientAuthorities::identify`] afterwards, also on resumed sessions. So a client with an expired certificate gets a
//! 401 with a `Status` instead of a TLS alert, and may still present a token.
//!
//! Open connections learn of a reload ([`Reloader::subscribe`]): one whose certificate was revoked, or whose authority
//! is no longer trusted, ends.

mod client;
mod material;
mod reload;
mod revocation;
mod settings;

pub use client::{CertificateRoles, ClientAuthorities, Identified, TrustMaterial};
pub use material::{MaterialError, ServerPair, load_authorities, load_pair};
pub use reload::Reloader;
pub use revocation::Revocations;
pub use settings::{ProxyFiles, Tls, TlsFiles};

#[cfg(test)]
pub(crate) mod tests;
