//! Certificates and keys of members in PEM, and the refusals of them.
//!
//! Owns reading. Whether they fit together is checked in [`super::tls`].
//!
//! Invariant: no error quotes its input, which may be a key.

use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::identity::PeerNameError;

/// Reason of a text that the PEM parser refuses. The parser's own error quotes the line, of a key file too, as a list of bytes.
const MALFORMED_PEM: &str = "a PEM block is missing, cut off or damaged";

/// The failure of [`PeerTls::from_pem`](super::PeerTls::from_pem) and [`PeerTls::reload`](super::PeerTls::reload).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PeerTlsError {
    /// An input is not PEM, or lacks the item.
    #[error("the peer {item} cannot be read: {reason}")]
    Unreadable {
        /// `authority`, `certificate`, `private key`.
        item: &'static str,
        /// Without any of the input.
        reason: String,
    },
    /// Certificate and key do not belong together, or the key's kind is not supported.
    #[error("the peer certificate and private key do not fit: {0}")]
    KeyMismatch(String),
    /// The certificate was not signed by the authority, or is not valid now.
    #[error("the peer certificate is not valid under the peer authority: {0}")]
    Untrusted(String),
    /// The certificate names no member.
    #[error("the peer certificate names no member")]
    Nameless(#[from] PeerNameError),
    /// The certificate belongs to another member.
    #[error("the peer certificate names member {found}, but this member is {expected}")]
    WrongName {
        /// This member's configured name.
        expected: Arc<str>,
        /// The name in the certificate.
        found: String,
    },
}

/// The certificates in `pem`, one at least, which is the peer `item`.
pub(super) fn certificates(
    item: &'static str,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, PeerTlsError> {
    let unreadable = |reason: String| PeerTlsError::Unreadable { item, reason };
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|_| unreadable(MALFORMED_PEM.to_owned()))?;
    if found.is_empty() {
        return Err(unreadable("it holds no certificate".to_owned()));
    }
    Ok(found)
}

/// The authorities in `ca`.
pub(super) fn roots(ca: &[u8]) -> Result<RootCertStore, PeerTlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates("authority", ca)? {
        roots
            .add(certificate)
            .map_err(|error| PeerTlsError::Unreadable { item: "authority", reason: error.to_string() })?;
    }
    Ok(roots)
}

/// The first private key in `pem`.
pub(super) fn private_key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, PeerTlsError> {
    let unreadable = || PeerTlsError::Unreadable { item: "private key", reason: MALFORMED_PEM.to_owned() };
    PrivateKeyDer::from_pem_slice(pem).map_err(|_| unreadable())
}
