//! Loads certificates and keys, with the reference's texts where a file cannot be opened.

use std::path::Path;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::crypto::ring::sign;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use crate::config::unreadable;

/// A certificate, a key or authorities cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct MaterialError(pub String);

fn fault(text: impl Into<String>) -> MaterialError {
    MaterialError(text.into())
}

/// The content of a file.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, MaterialError> {
    std::fs::read(path).map_err(|error| fault(unreadable(path, &error)))
}

/// A certificate with its chain and key, which belong together.
pub(super) fn pair(certificate: &Path, key: &Path) -> Result<Arc<CertifiedKey>, MaterialError> {
    pair_of(&read(certificate)?, &read(key)?, &certificate.display().to_string())
}

/// The same from PEM texts that came from `origin`.
pub(super) fn pair_of(
    certificate: &[u8],
    key: &[u8],
    origin: &str,
) -> Result<Arc<CertifiedKey>, MaterialError> {
    let chain = certificates(certificate, origin)?;
    // The parser's error may quote the file; a key file's content is never shown.
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| fault(format!("tls: the key of {origin} holds no private key in PEM form")))?;
    let signer = sign::any_supported_type(&key)
        .map_err(|error| fault(format!("tls: the key of {origin} cannot be used: {error}")))?;
    let pair = CertifiedKey::new(chain, signer);
    match pair.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => {
            Ok(Arc::new(pair))
        }
        Err(rustls::Error::InconsistentKeys(_)) => {
            Err(fault(format!("tls: private key does not match public key of {origin}")))
        }
        Err(error) => Err(fault(format!("tls: {origin}: {error}"))),
    }
}

fn certificates(text: &[u8], origin: &str) -> Result<Vec<CertificateDer<'static>>, MaterialError> {
    let certificates: Vec<_> = CertificateDer::pem_slice_iter(text)
        .collect::<Result<_, _>>()
        .map_err(|_| fault(format!("tls: {origin}: a PEM block is cut off or damaged")))?;
    match certificates.is_empty() {
        true => Err(fault(format!("tls: failed to find any PEM data in certificate input of {origin}"))),
        false => Ok(certificates),
    }
}

/// The authorities in a PEM text that came from `origin`.
pub(super) fn authorities(text: &[u8], origin: &str) -> Result<RootCertStore, MaterialError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(text, origin)? {
        roots.add(certificate).map_err(|error| fault(format!("{origin}: {error}")))?;
    }
    Ok(roots)
}
