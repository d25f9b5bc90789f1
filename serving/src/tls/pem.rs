//! Certificates, authorities and keys from texts in PEM.
//!
//! Invariant: no fault quotes a text, which may be a key.

use std::sync::Arc;

use rustls::crypto::ring::sign;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, RootCertStore};

/// The fault of a text in which a PEM block has no end or no base64. The parser's own error shows the line, of a key file too,
/// as a list of bytes.
pub const MALFORMED_PEM: &str = "a PEM block is cut off or damaged";

/// The fault of a text in PEM.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PemFault {
    /// It holds no block of the expected kind.
    #[error("it holds no certificate")]
    Empty,
    /// A block is cut off or damaged.
    #[error("{MALFORMED_PEM}")]
    Malformed,
    /// A certificate cannot be an authority.
    #[error("{0}")]
    Authority(rustls::Error),
}

/// The fault of a certificate chain and a key.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PairFault {
    /// The key is of a kind that cannot sign.
    #[error("{0}")]
    Key(rustls::Error),
    /// The key belongs to another certificate.
    #[error("private key does not match public key")]
    Mismatch,
    /// The certificate cannot be read.
    #[error("{0}")]
    Certificate(rustls::Error),
}

/// The certificates in `text`, in their order.
///
/// # Errors
/// `text` holds none, or a damaged block.
pub fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, PemFault> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    match certificates {
        Err(_) => Err(PemFault::Malformed),
        Ok(none) if none.is_empty() => Err(PemFault::Empty),
        Ok(certificates) => Ok(certificates),
    }
}

/// The authorities in `text`.
///
/// # Errors
/// As of [`certificates`], or one cannot be an authority.
pub fn authorities(text: &[u8]) -> Result<RootCertStore, PemFault> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(text)? {
        roots.add(certificate).map_err(PemFault::Authority)?;
    }
    Ok(roots)
}

/// The first private key in `text`; `None` without a usable one. The parser's error may quote the text and is dropped.
pub fn private_key(text: &[u8]) -> Option<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_slice(text).ok()
}

/// A certificate with its chain and signing key, which belong together as far as the library can tell.
///
/// # Errors
/// The key cannot sign, or belongs to another certificate.
pub fn pair(
    chain: Vec<CertificateDer<'static>>,
    key: &PrivateKeyDer<'_>,
) -> Result<Arc<CertifiedKey>, PairFault> {
    let signer = sign::any_supported_type(key).map_err(PairFault::Key)?;
    let pair = CertifiedKey::new(chain, signer);
    match pair.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(Arc::new(pair)),
        Err(rustls::Error::InconsistentKeys(_)) => Err(PairFault::Mismatch),
        Err(error) => Err(PairFault::Certificate(error)),
    }
}
