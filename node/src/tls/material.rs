//! Loads certificates and keys, with a precise error for each fault.
//!
//! All checks run before a port is opened: the file is readable and of the right kind, the key belongs to the
//! certificate, the certificate is valid now and signed by the expected authority.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use orch_serving::files::{self, MATERIAL_BYTES_MAX};
use orch_serving::tls::{self as pem, PairFault, PemFault};
use rustls::RootCertStore;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use time::OffsetDateTime;
use x509_parser::prelude::{FromDer, X509Certificate};

/// A certificate, a key or a bundle of authorities cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MaterialError {
    /// The file cannot be read.
    #[error("cannot read {path}")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of reading it.
        source: std::io::Error,
    },
    /// The file holds no certificate, or no private key.
    #[error("{path} holds no {expected} in PEM form")]
    Empty {
        /// The file.
        path: PathBuf,
        /// `certificate`, `private key` or `revocation list`.
        expected: &'static str,
    },
    /// A certificate or key in the file is damaged or of an unknown kind.
    #[error("{path}: unusable {what}: {reason}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// `certificate`, `private key` or `revocation list`.
        what: &'static str,
        /// The parser's error.
        reason: String,
    },
    /// Certificate and key belong to different pairs.
    #[error("the key in {key} does not belong to the certificate in {certificate}")]
    KeyMismatch {
        /// File of the certificate.
        certificate: PathBuf,
        /// File of the key.
        key: PathBuf,
    },
    /// The certificate has expired.
    #[error("the certificate in {path} expired on {on}; renew it (orch certs renew)")]
    Expired {
        /// The file.
        path: PathBuf,
        /// End of its validity.
        on: OffsetDateTime,
    },
    /// Every authority in the file has expired.
    #[error(
        "the authority in {path} expired on {on}; if this machine's clock is right, replace it (orch certs rotate-ca)"
    )]
    AuthorityExpired {
        /// The file.
        path: PathBuf,
        /// End of its validity.
        on: OffsetDateTime,
    },
    /// The certificate is not valid yet.
    #[error("the certificate in {path} is valid only from {from}; is this machine's clock right?")]
    NotYetValid {
        /// The file.
        path: PathBuf,
        /// Start of its validity.
        from: OffsetDateTime,
    },
    /// The certificate is not signed by the expected authority.
    #[error("the certificate in {path} is not signed by an authority in {authorities}: {reason}")]
    WrongAuthority {
        /// The file.
        path: PathBuf,
        /// File of the authorities.
        authorities: PathBuf,
        /// The verifier's error.
        reason: String,
    },
    /// An authority is of clients and of front proxies, and no name of proxies is given: as in the reference.
    #[error(
        "--requestheader-client-ca-file ({proxies}) and --client-ca-file ({users}) contain overlapping certificates; \
         --requestheader-allowed-names must be specified to ensure regular client certificates cannot set \
         authenticating proxy headers for arbitrary users"
    )]
    SharedAuthority {
        /// Authorities of front proxies.
        proxies: PathBuf,
        /// Authorities of clients.
        users: PathBuf,
    },
    /// The TLS library refuses the combination.
    #[error("cannot set up TLS: {reason}")]
    Setup {
        /// The library's error.
        reason: String,
    },
}

impl MaterialError {
    /// The file at fault, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            MaterialError::Unreadable { path, .. }
            | MaterialError::Empty { path, .. }
            | MaterialError::Malformed { path, .. }
            | MaterialError::Expired { path, .. }
            | MaterialError::AuthorityExpired { path, .. }
            | MaterialError::NotYetValid { path, .. }
            | MaterialError::WrongAuthority { path, .. } => Some(path),
            MaterialError::KeyMismatch { certificate, .. } => Some(certificate),
            MaterialError::SharedAuthority { .. } | MaterialError::Setup { .. } => None,
        }
    }
}

/// A server certificate with its chain and key.
#[derive(Debug)]
pub struct ServerPair {
    /// Chain and signing key, ready to use.
    pub key: Arc<CertifiedKey>,
    certificate: PathBuf,
}

/// Loads a server's certificate chain and key, valid at `now`.
pub fn load_pair(certificate: &Path, key: &Path, now: OffsetDateTime) -> Result<ServerPair, MaterialError> {
    let chain = load_certificates(certificate)?;
    for link in &chain {
        check_validity(certificate, link, now)?;
    }
    let pair = pem::pair(chain, &load_key(key)?).map_err(|fault| match fault {
        PairFault::Key(error) => {
            MaterialError::Malformed { path: key.to_owned(), what: "private key", reason: error.to_string() }
        }
        PairFault::Mismatch => {
            MaterialError::KeyMismatch { certificate: certificate.to_owned(), key: key.to_owned() }
        }
        PairFault::Certificate(error) => malformed(certificate, &error),
    })?;
    Ok(ServerPair { key: pair, certificate: certificate.to_owned() })
}

/// Loads the authorities in a file. Expired ones are left out, because the verifier does not look at their dates: one that ended
/// must not turn away the certificates of the others.
///
/// # Errors
/// The file is damaged, none of its authorities is left, or one is not valid yet.
pub fn load_authorities(path: &Path, now: OffsetDateTime) -> Result<RootCertStore, MaterialError> {
    let (mut roots, mut expired) = (RootCertStore::empty(), None);
    for certificate in load_certificates(path)? {
        match check_validity(path, &certificate, now) {
            Err(MaterialError::Expired { path, on }) => {
                expired = Some(MaterialError::AuthorityExpired { path, on });
                continue;
            }
            checked => checked?,
        }
        roots.add(certificate).map_err(|error| malformed(path, &error))?;
    }
    match expired {
        Some(error) if roots.is_empty() => Err(error),
        _ => Ok(roots),
    }
}

impl ServerPair {
    /// Checks that clients who trust `roots`, read from the file `authorities`, accept this pair.
    pub fn check_signed_by(
        &self,
        roots: &RootCertStore,
        authorities: &Path,
        now: OffsetDateTime,
    ) -> Result<(), MaterialError> {
        let (end, intermediates) = self.key.cert.split_first().ok_or_else(|| MaterialError::Empty {
            path: self.certificate.clone(),
            expected: "certificate",
        })?;
        let seconds = u64::try_from(now.unix_timestamp()).unwrap_or_default();
        let at = rustls::pki_types::UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        rustls::server::ParsedCertificate::try_from(end)
            .and_then(|end| {
                rustls::client::verify_server_cert_signed_by_trust_anchor(
                    &end,
                    roots,
                    intermediates,
                    at,
                    default_provider().signature_verification_algorithms.all,
                )
            })
            .map_err(|error| MaterialError::WrongAuthority {
                path: self.certificate.clone(),
                authorities: authorities.to_owned(),
                reason: error.to_string(),
            })
    }
}

pub(super) fn load_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, MaterialError> {
    pem::certificates(&read(path, MATERIAL_BYTES_MAX)?).map_err(|fault| match fault {
        PemFault::Empty => MaterialError::Empty { path: path.to_owned(), expected: "certificate" },
        fault => malformed(path, &fault),
    })
}

fn load_key(path: &Path) -> Result<PrivateKeyDer<'static>, MaterialError> {
    pem::private_key(&read(path, MATERIAL_BYTES_MAX)?)
        .ok_or_else(|| MaterialError::Empty { path: path.to_owned(), expected: "private key" })
}

pub(super) fn read(path: &Path, most: u64) -> Result<Vec<u8>, MaterialError> {
    files::read(path, most).map_err(|source| MaterialError::Unreadable { path: path.to_owned(), source })
}

fn check_validity(
    path: &Path,
    certificate: &CertificateDer<'_>,
    now: OffsetDateTime,
) -> Result<(), MaterialError> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|error| malformed(path, &error))?;
    let (from, on) = (parsed.validity().not_before.to_datetime(), parsed.validity().not_after.to_datetime());
    if now > on {
        return Err(MaterialError::Expired { path: path.to_owned(), on });
    }
    if now < from {
        return Err(MaterialError::NotYetValid { path: path.to_owned(), from });
    }
    Ok(())
}

fn malformed(path: &Path, error: &dyn std::fmt::Display) -> MaterialError {
    MaterialError::Malformed { path: path.to_owned(), what: "certificate", reason: error.to_string() }
}
