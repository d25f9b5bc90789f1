//! Signing certificates with the key of an authority: the interface that the node implements.
//!
//! Owns what a certificate says. It holds no key, and reads no file and no clock.

use std::fmt;

pub use orch_rules::certificates::{AlternativeName, BuiltinSigner, ExtendedUsage, KeyUsages};

/// Gives the authority of a built-in signer.
pub trait CertificateSigner: Send + Sync + 'static {
    /// Whether this node has an authority for `signer`; the requests of others are left alone.
    fn signs_for(&self, signer: BuiltinSigner) -> bool;

    /// The authority that signs for `signer` now. It may be another at the next call.
    ///
    /// # Errors
    /// Certificate or key cannot be used.
    fn authority(&self, signer: BuiltinSigner) -> Result<Box<dyn SigningAuthority>, SigningError>;

    /// Longest validity of a certificate, in seconds.
    fn life_s_max(&self) -> i64;
}

/// An authority with its key.
pub trait SigningAuthority: Send {
    /// When the authority's own certificate expires, in seconds since 1970.
    fn not_after_s(&self) -> i64;

    /// Signs a certificate of `template`; PEM.
    ///
    /// # Errors
    /// The library refuses the key or the template.
    fn sign(&self, template: &Template) -> Result<String, SigningError>;
}

/// The content of a certificate without its serial number and its authority. It is never an authority itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// The subject, DER.
    pub subject: Vec<u8>,
    /// The certified key, DER (`SubjectPublicKeyInfo`).
    pub public_key: Vec<u8>,
    /// Subject alternative names.
    pub names: Vec<AlternativeName>,
    /// Usages of the key.
    pub usages: KeyUsages,
    /// Start of the validity.
    pub validity: Validity,
}

/// The time in which a certificate is valid, in seconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// First second.
    pub not_before_s: i64,
    /// Last second.
    pub not_after_s: i64,
}

/// A certificate could not be signed. No variant repeats a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SigningError {
    /// Certificate or key of the authority cannot be used.
    #[error("the signing authority cannot be used: {0}")]
    Authority(String),
    /// The authority's certificate has expired.
    #[error("the signer has expired: NotAfter={0}")]
    Expired(String),
    /// The certificate could not be made.
    #[error("cannot sign the certificate: {0}")]
    Sign(String),
}

impl fmt::Debug for dyn CertificateSigner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CertificateSigner")
    }
}
