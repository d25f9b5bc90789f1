//! Client certificates: proof of the private key in the handshake, verification after it.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use orch_api::authn::{CertificateError, ClientCertificate};
use orch_raft::transport::tonic::check_chain;
use orch_serving::tls::{KeyProof, Subject, SubjectFault};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{DistinguishedName, RootCertStore};
use sha2::{Digest, Sha256};

use super::material::MaterialError;
use super::revocation::{Revocations, ScopedSerials};

/// The authorities whose client certificates identify users or front proxies, and the certificates that they revoked.
#[derive(Clone, Debug)]
pub struct ClientAuthorities {
    users: Arc<dyn ClientCertVerifier>,
    proxies: Option<ProxyAuthorities>,
    scoped: Arc<ScopedSerials>,
    /// Subjects of all authorities, by which clients choose the certificate that they present.
    hints: Vec<DistinguishedName>,
    /// Hash of the files: equal ones judge every certificate alike.
    digest: [u8; 32],
}

/// The authorities of front proxies.
#[derive(Clone, Debug)]
struct ProxyAuthorities {
    verifier: Arc<dyn ClientCertVerifier>,
    /// Common names that a proxy's certificate may have; empty for any.
    allowed_names: Vec<String>,
}

/// The authorities and revocation lists from which [`ClientAuthorities`] are built.
#[derive(Clone, Debug)]
pub struct TrustMaterial {
    /// Authorities of users' certificates.
    pub users: RootCertStore,
    /// Authorities of front proxies, and the common names that are allowed (empty: any).
    pub proxies: Option<(RootCertStore, Vec<String>)>,
    /// Revocation lists of any of the authorities.
    pub revocations: Revocations,
}

/// A connection's client certificate after verification.
#[derive(Debug)]
pub struct Identified {
    /// The user it identifies, or the reason why it is invalid.
    pub certificate: Result<ClientCertificate, CertificateError>,
    /// Whether it is an allowed front proxy's.
    pub is_front_proxy: bool,
    /// How long it stays valid. `None` for an invalid certificate.
    pub valid_for: Option<Duration>,
    /// How long it lasts by its own word, whoever signed it: zero once it has ended. `None` for one that cannot be read.
    pub left: Option<Duration>,
}

impl Identified {
    /// Whether the certificate identified a user or a front proxy `before` and no longer does.
    pub fn lost_since(&self, before: CertificateRoles) -> bool {
        let now = self.roles();
        before.is_user && !now.is_user || before.is_front_proxy && !now.is_front_proxy
    }

    /// The roles in which the certificate is trusted.
    pub fn roles(&self) -> CertificateRoles {
        CertificateRoles { is_user: self.certificate.is_ok(), is_front_proxy: self.is_front_proxy }
    }
}

/// The roles in which a certificate is trusted: as a user, as a front proxy, or both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateRoles {
    is_user: bool,
    is_front_proxy: bool,
}

impl ClientAuthorities {
    /// Trusts certificates signed by one of the authorities in `material`; no set of authorities may be empty.
    pub fn new(material: &TrustMaterial) -> Result<ClientAuthorities, MaterialError> {
        let TrustMaterial { users, proxies, revocations } = material;
        let revocations = &revocations.lists();
        let mut hash = Sha256::new();
        hash_roots(&mut hash, users);
        for list in revocations {
            hash.update(list);
        }
        let mut hints = users.subjects();
        let proxies = match proxies {
            None => None,
            Some((roots, allowed_names)) => {
                hash_roots(&mut hash, roots);
                hints.extend(roots.subjects());
                let (verifier, allowed_names) = (verifier(roots, revocations)?, allowed_names.clone());
                Some(ProxyAuthorities { verifier, allowed_names })
            }
        };
        let users = verifier(users, revocations)?;
        let scoped = Arc::new(ScopedSerials::of(revocations));
        Ok(ClientAuthorities { users, proxies, scoped, hints, digest: hash.finalize().into() })
    }

    /// Whether `other` judges every certificate as these do.
    pub fn is_same_as(&self, other: &ClientAuthorities) -> bool {
        self.digest == other.digest
    }

    /// The verifier for handshakes. It checks the proof of the private key only.
    pub(super) fn handshake(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::new(KeyProof::with_hints(self.hints.clone(), check_chain))
    }

    /// Verifies the chain that a client presented, its own certificate first. `None` if it presented none.
    pub fn identify(&self, presented: Option<&[CertificateDer<'_>]>, now: SystemTime) -> Option<Identified> {
        let (end, intermediates) = presented?.split_first()?;
        let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        if self.scoped.name_one_of(std::iter::once(end).chain(intermediates)) {
            let certificate = Err(CertificateError("certificate revoked".to_owned()));
            return Some(Identified {
                certificate,
                is_front_proxy: false,
                valid_for: None,
                left: left(end, since),
            });
        }
        let verify = |verifier: &Arc<dyn ClientCertVerifier>| {
            let now = UnixTime::since_unix_epoch(since);
            check_chain(end, intermediates)
                .and_then(|()| verifier.verify_client_cert(end, intermediates, now))
                .map_err(|error| error.to_string())
                .and_then(|_| subject(end, since).map_err(|fault| fault.to_string()))
        };
        // A certificate that names no allowed proxy is an ordinary client's.
        let proxy = self.proxies.as_ref().and_then(|proxies| {
            verify(&proxies.verifier).ok().filter(|(certificate, _)| proxies.allow(&certificate.common_name))
        });
        let is_front_proxy = proxy.is_some();
        let proxy_valid_for = proxy.map(|(_, valid_for)| valid_for);
        let (certificate, valid_for) = match verify(&self.users) {
            Ok((certificate, valid_for)) => (Ok(certificate), Some(valid_for)),
            Err(fault) => (Err(CertificateError(fault)), proxy_valid_for),
        };
        let left = valid_for.or_else(|| left(end, since));
        Some(Identified { certificate, is_front_proxy, valid_for, left })
    }
}

impl ProxyAuthorities {
    fn allow(&self, common_name: &str) -> bool {
        // few: the names that a flag gives.
        self.allowed_names.is_empty() || self.allowed_names.iter().any(|allowed| allowed == common_name)
    }
}

/// A verifier of client certificates that `roots` signed and `revocations` do not name. Certificates of authorities without
/// a list pass.
fn verifier(
    roots: &RootCertStore,
    revocations: &[CertificateRevocationListDer<'static>],
) -> Result<Arc<dyn ClientCertVerifier>, MaterialError> {
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots.clone()), Arc::new(default_provider()))
        .allow_unauthenticated()
        .with_crls(revocations.iter().cloned())
        .allow_unknown_revocation_status()
        .build()
        .map_err(|error| MaterialError::Setup { reason: error.to_string() })
}

fn hash_roots(hash: &mut Sha256, roots: &RootCertStore) {
    for anchor in &roots.roots {
        hash.update(&anchor.subject);
        hash.update(&anchor.subject_public_key_info);
        hash.update(anchor.name_constraints.as_deref().unwrap_or_default());
    }
    // Separates the sets: a root moved from one to the other changes the hash.
    hash.update([0]);
}

/// How long `certificate` lasts at `since` the Unix epoch, by its own word.
fn left(certificate: &CertificateDer<'_>, since: Duration) -> Option<Duration> {
    Subject::of(certificate).ok().map(|subject| subject.not_after.saturating_sub(since))
}

/// Reads a verified certificate's subject, and how long it stays valid at `since` the Unix epoch.
pub(super) fn subject(
    certificate: &CertificateDer<'_>,
    since: Duration,
) -> Result<(ClientCertificate, Duration), SubjectFault> {
    let Subject { common_name, organizations, uid, not_after } = Subject::of(certificate)?;
    let mut fingerprint = String::with_capacity(64);
    for byte in Sha256::digest(certificate) {
        // Writing to a string cannot fail.
        let _ = write!(fingerprint, "{byte:02x}");
    }
    let certificate = ClientCertificate::new(common_name, organizations, uid, fingerprint);
    Ok((certificate, not_after.saturating_sub(since)))
}
