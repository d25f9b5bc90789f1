//! Certificates: making, layout, inspection, renewal, expiry.
//!
//! Owns the authorities of a cluster and the files that `orch certs` and `orch dev` make. Two authorities that never
//! sign for each other: one for servers and clients, one for peers. Keys are ECDSA P-256. Every file is written
//! readable by its owner only. Loading certificates for serving is in [`crate::tls`].

mod authority;
mod clients;
mod configured;
mod encoding;
mod expiry;
mod file;
mod init;
mod inspect;
mod key;
mod layout;
mod own;
mod pem;
mod reissued;
mod renew;
mod rotate;
mod signer;
mod user;
mod uses;

pub(crate) use authority::token_keys;
pub use authority::{Authority, CertsError, Leaf, Pair, Purpose};
pub use clients::{Client, admin_leaf};
pub use configured::{Configured, ConfiguredCertificate, ConfiguredCertificates};
pub use expiry::{Expiries, Expiry, Urgency, WatchedFiles, is_about_to_expire};
pub use file::{replace_file, write_new};
pub use init::{add_members, init, peer_leaf, reissue, server_leaf};
pub use inspect::{Facts, inspect, no_certificate_in};
pub use layout::{AuthorityFiles, ClientFiles, Layout, MemberFiles};
pub use own::{OwnPair, OwnRenewal, renew_own};
pub use reissued::differs_from_reissued;
pub use renew::{Renewed, renew};
pub use rotate::{Role, rotate};
pub use signer::{FileAuthority, FileSigner, SigningFiles};
pub use user::{User, UserPair, user_pair};
pub use uses::{CertificateUse, Webhook, remedy};

#[cfg(test)]
mod tests;
