//! The certificate of a server that a bundle of an object vouches for.
//!
//! Owns one rule beyond those of the TLS library: a certificate that is, byte for byte, in the bundle is trusted although it is no
//! authority, or although it is one. Test environments give a server's own certificate as its bundle, and the reference's library
//! accepts that. Its time and its names are checked like any other's.

use std::sync::Arc;

use orch_serving::tls::{self as pem, PemFault};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::ring::default_provider;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use x509_parser::prelude::{ASN1Time, FromDer, X509Certificate};

/// Verifies servers by the certificates of a bundle.
#[derive(Debug)]
pub(super) struct BundleVerifier {
    /// `None` where no certificate of the bundle can be an authority.
    authorities: Option<Arc<WebPkiServerVerifier>>,
    certificates: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl BundleVerifier {
    /// A verifier by the certificates in `bundle`, PEM.
    ///
    /// # Errors
    /// It holds none, or a damaged block.
    pub(super) fn new(bundle: &[u8]) -> Result<BundleVerifier, PemFault> {
        let certificates = pem::certificates(bundle)?;
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates.iter().cloned());
        let provider = Arc::new(default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let built = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
        // Without a root there is nothing to build; certificates that are equal still count.
        Ok(BundleVerifier { authorities: built.ok(), certificates, algorithms })
    }
}

/// Checks the time and the names of `certificate`, which is trusted.
fn check_trusted(
    certificate: &CertificateDer<'_>,
    server_name: &ServerName<'_>,
    now: UnixTime,
) -> Result<(), Error> {
    let malformed = || Error::InvalidCertificate(CertificateError::BadEncoding);
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| malformed())?;
    let seconds = i64::try_from(now.as_secs()).map_err(|_| malformed())?;
    let now = ASN1Time::from_timestamp(seconds).map_err(|_| malformed())?;
    let validity = parsed.validity();
    if now < validity.not_before {
        return Err(Error::InvalidCertificate(CertificateError::NotValidYet));
    }
    if now > validity.not_after {
        return Err(Error::InvalidCertificate(CertificateError::Expired));
    }
    verify_server_name(&ParsedCertificate::try_from(certificate)?, server_name)
}

impl ServerCertVerifier for BundleVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // few: the certificates of a bundle, whose bytes an object bounds.
        if self.certificates.iter().any(|own| own == end_entity) {
            check_trusted(end_entity, server_name, now)?;
            return Ok(ServerCertVerified::assertion());
        }
        let unknown = Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let authorities = self.authorities.as_ref().ok_or(unknown)?;
        authorities.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
