//! TLS of the HTTPS port: server certificates by name, authorities of clients, and their reload.
//!
//! In the handshake only the proof of a client's private key is verified, not its certificate: [`Clients::identify`] does
//! that afterwards. So a client with an expired certificate gets a 401 instead of a TLS alert.
//!
//! Invariant: a file that a reload cannot read or use leaves the former certificates in use.

mod clients;
mod material;
mod resolver;
mod self_signed;
mod settings;

pub(crate) use clients::{Authorities, Certificate, Clients, Peer};
pub(crate) use material::MaterialError;
pub(crate) use resolver::Resolver;
pub(crate) use self_signed::default_pair;
pub(crate) use settings::{Tls, TlsOptions};

#[cfg(test)]
pub(in crate::serve) mod tests;
