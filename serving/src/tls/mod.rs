//! TLS set-up: certificates and keys from PEM, the subject of a client's certificate, and verifiers of a handshake's proof.
//!
//! Owns what both programs read of certificates, with faults that name no file: each program has messages of its own. A handshake
//! that checks the proof of a key alone lets a program answer a bad certificate with 401 instead of a TLS alert.

mod pem;
mod proof;
mod subject;

pub use pem::{MALFORMED_PEM, PairFault, PemFault, authorities, certificates, pair, private_key};
pub use proof::{AnyServer, KeyProof};
pub use subject::{Subject, SubjectFault, UID_ATTRIBUTE};

#[cfg(test)]
mod tests;
