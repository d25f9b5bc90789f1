//! Requests for certificates (PKCS#10) and the rules of the built-in signers.
//!
//! Owns parsing what a client sends as a request or as a certificate, and which requests each built-in signer accepts.
//! It signs nothing and holds no key: that is the node's.

mod pem;
mod request;
mod signer;
mod usage;

pub use pem::PemBlock;
pub use request::{AlternativeName, CertificateRequest, RequestError, not_after, validate_certificates};
pub use signer::{BuiltinSigner, SignerRefusal};
pub use usage::{ALL_USAGES, ExtendedUsage, KeyUsages};

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
