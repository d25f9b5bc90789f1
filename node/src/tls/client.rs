//! Client certificates: proof of the private key in the handshake, verification after it.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use orch_api::authn::{CertificateFault, ClientCertificate};
use orch_raft::transport::tonic::check_chain;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use sha2::{Digest, Sha256};
use x509_parser::asn1_rs::{Oid, oid};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::material::MaterialError;

/// Subject attribute in which Kubernetes certificates carry a user's uid.
const UID_ATTRIBUTE: Oid<'static> = oid!(1.3.6.1.4.1.57683.2);

/// The authorities whose client certificates identify users.
#[derive(Clone, Debug)]
pub struct ClientAuthorities {
    verifier: Arc<dyn ClientCertVerifier>,
}

/// A connection's client certificate after verification.
#[derive(Debug)]
pub struct Identified {
    /// The user it identifies, or the reason why it is invalid.
    pub certificate: Result<ClientCertificate, CertificateFault>,
    /// How long it stays valid. `None` for an invalid certificate.
    pub valid_for: Option<Duration>,
}

impl ClientAuthorities {
    /// Trusts certificates signed by one of `roots`, which must not be empty.
    pub fn new(roots: RootCertStore) -> Result<ClientAuthorities, MaterialError> {
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()))
            .allow_unauthenticated()
            .build()
            .map(|verifier| ClientAuthorities { verifier })
            .map_err(|error| MaterialError::Setup { reason: error.to_string() })
    }

    /// The verifier for handshakes. It checks the proof of the private key only.
    pub(super) fn handshake(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::new(KeyProof { verifier: Arc::clone(&self.verifier) })
    }

    /// Verifies the chain that a client presented, its own certificate first. `None` if it presented none.
    pub fn identify(&self, presented: Option<&[CertificateDer<'_>]>, now: SystemTime) -> Option<Identified> {
        let (end, intermediates) = presented?.split_first()?;
        let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let verified = check_chain(end, intermediates)
            .and_then(|()| {
                let now = UnixTime::since_unix_epoch(since);
                self.verifier.verify_client_cert(end, intermediates, now)
            })
            .map_err(|error| error.to_string())
            .and_then(|_| subject(end, since));
        Some(match verified {
            Ok((certificate, valid_for)) => {
                Identified { certificate: Ok(certificate), valid_for: Some(valid_for) }
            }
            Err(fault) => Identified { certificate: Err(CertificateFault(fault)), valid_for: None },
        })
    }
}

/// Reads a verified certificate's subject, and how long it stays valid at `since` the Unix epoch.
pub(super) fn subject(
    certificate: &CertificateDer<'_>,
    since: Duration,
) -> Result<(ClientCertificate, Duration), String> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|error| error.to_string())?;
    let subject = parsed.subject();
    let text = |value: &x509_parser::x509::AttributeTypeAndValue<'_>| value.as_str().map(str::to_owned);
    // Of several common names the last counts, as in the reference.
    let common_name =
        subject.iter_common_name().filter_map(|name| text(name).ok()).last().unwrap_or_default();
    let organizations = subject.iter_organization().filter_map(|name| text(name).ok()).collect();
    let uids: Vec<_> = subject.iter_by_oid(&UID_ATTRIBUTE).collect();
    let uid = match uids.as_slice() {
        [] => None,
        [uid] => Some(text(uid).map_err(|error| format!("unreadable uid: {error}"))?),
        _ => return Err("more than one uid".to_owned()),
    };
    let mut fingerprint = String::with_capacity(64);
    for byte in Sha256::digest(certificate) {
        // Writing to a string cannot fail.
        let _ = write!(fingerprint, "{byte:02x}");
    }
    let until = u64::try_from(parsed.validity().not_after.timestamp()).unwrap_or_default();
    let valid_for = Duration::from_secs(until).saturating_sub(since);
    Ok((ClientCertificate::new(common_name, organizations, uid, fingerprint), valid_for))
}

/// Accepts any certificate whose private key the client proves to hold, without trust in its content.
#[derive(Debug)]
struct KeyProof {
    verifier: Arc<dyn ClientCertVerifier>,
}

impl ClientCertVerifier for KeyProof {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        check_chain(end, intermediates)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
