//! Loads certificates and keys, with the reference's texts where a file cannot be opened.

use std::path::Path;
use std::sync::Arc;

use orch_serving::files::{self, MATERIAL_BYTES_MAX};
use orch_serving::tls::{self as pem, PairFault, PemFault};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
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
    files::read(path, MATERIAL_BYTES_MAX).map_err(|error| fault(unreadable(path, &error)))
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
    let key = pem::private_key(key)
        .ok_or_else(|| fault(format!("tls: the key of {origin} holds no private key in PEM form")))?;
    pem::pair(chain, &key).map_err(|refused| match refused {
        PairFault::Key(error) => fault(format!("tls: the key of {origin} cannot be used: {error}")),
        PairFault::Mismatch => fault(format!("tls: private key does not match public key of {origin}")),
        PairFault::Certificate(error) => fault(format!("tls: {origin}: {error}")),
    })
}

fn certificates(text: &[u8], origin: &str) -> Result<Vec<CertificateDer<'static>>, MaterialError> {
    pem::certificates(text).map_err(|refused| unusable(&refused, origin))
}

fn unusable(refused: &PemFault, origin: &str) -> MaterialError {
    match refused {
        PemFault::Empty => {
            fault(format!("tls: failed to find any PEM data in certificate input of {origin}"))
        }
        PemFault::Malformed => fault(format!("tls: {origin}: {refused}")),
        PemFault::Authority(error) => fault(format!("{origin}: {error}")),
    }
}

/// The authorities in a PEM text that came from `origin`.
pub(super) fn authorities(text: &[u8], origin: &str) -> Result<RootCertStore, MaterialError> {
    pem::authorities(text).map_err(|refused| unusable(&refused, origin))
}
