//! Certificates: making, layout, inspection, renewal.
//!
//! Owns the authorities of a cluster and the files that `orch certs` and `orch dev` make. Two authorities that never
//! sign for each other: one for servers and clients, one for peers. Keys are ECDSA P-256. Every file is written
//! readable by its owner only. Loading certificates for serving is in [`crate::tls`].

mod authority;
mod file;
mod init;
mod inspect;
mod layout;
mod renew;

pub(crate) use authority::token_keys;
pub use authority::{Authority, CertsError, Leaf, Pair, Purpose};
pub use file::{replace_file, write_new};
pub use init::{admin_leaf, init, peer_leaf, server_leaf};
pub use inspect::{Facts, inspect, is_about_to_expire};
pub use layout::{Layout, MemberFiles};
pub use renew::renew;

#[cfg(test)]
mod tests;
