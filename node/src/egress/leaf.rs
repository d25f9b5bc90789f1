//! The certificate of a server that a bundle of an object vouches for.
//!
//! Owns the rules that are not those of the TLS library, which takes any certificate for an authority, for ever. Of a bundle only an
//! authority vouches for others (RFC 5280, 4.2.1.3 and 4.2.1.9), and only in its time. A certificate that is, byte for byte, in the
//! bundle is trusted although it is no authority, or although it is one: test environments give a server's own certificate as its
//! bundle, and the reference's library accepts that. Its time, its names and its purpose are checked like any other's.

use orch_serving::tls::{self as pem, PemFault};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::ring::default_provider;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use x509_parser::certificate::Validity;
use x509_parser::prelude::{ASN1Time, FromDer, X509Certificate, X509Version};

/// Verifies servers by the certificates of a bundle.
#[derive(Debug)]
pub(super) struct BundleVerifier {
    /// The certificates of the bundle that are authorities.
    authorities: RootCertStore,
    /// The times of the same, in the same order.
    times: Vec<Validity>,
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
        let (mut authorities, mut times) = (RootCertStore::empty(), Vec::new());
        for certificate in &certificates {
            // One that cannot be read vouches for nothing; the others count.
            let Ok((_, parsed)) = X509Certificate::from_der(certificate) else { continue };
            if is_authority(&parsed) && authorities.add(certificate.clone()).is_ok() {
                times.push(parsed.validity().clone());
            }
        }
        let algorithms = default_provider().signature_verification_algorithms;
        Ok(BundleVerifier { authorities, times, certificates, algorithms })
    }

    /// Checks that authorities of the bundle, in their time, vouch for `certificate`.
    fn check_vouched(
        &self,
        certificate: &ParsedCertificate<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let check = |roots: &RootCertStore| {
            verify_server_cert_signed_by_trust_anchor(
                certificate,
                roots,
                intermediates,
                now,
                self.algorithms.all,
            )
        };
        check(&self.authorities)?;
        let faults: Vec<_> = self.times.iter().map(|time| check_time(time, now).err()).collect();
        let Some(fault) = faults.iter().flatten().next() else { return Ok(()) };
        // Some of them are not to be counted.
        let valid = self.authorities.roots.iter().zip(&faults).filter(|(_, fault)| fault.is_none());
        check(&valid.map(|(root, _)| root.clone()).collect()).map_err(|_| fault.clone())
    }
}

/// Whether `certificate` may vouch for others. The first version of certificates has no fields that say so, and the reference's
/// library takes them.
fn is_authority(certificate: &X509Certificate<'_>) -> bool {
    let may_sign = match certificate.key_usage() {
        Ok(usage) => usage.is_none_or(|usage| usage.value.key_cert_sign()),
        Err(_) => false,
    };
    certificate.version() == X509Version::V1 || (certificate.is_ca() && may_sign)
}

/// Whether `certificate` may be a server's: it states no purpose, or that one or any.
fn is_servers(certificate: &X509Certificate<'_>) -> bool {
    match certificate.extended_key_usage() {
        Ok(usage) => usage.is_none_or(|usage| usage.value.any || usage.value.server_auth),
        Err(_) => false,
    }
}

fn check_time(time: &Validity, now: UnixTime) -> Result<(), Error> {
    let malformed = || Error::InvalidCertificate(CertificateError::BadEncoding);
    let seconds = i64::try_from(now.as_secs()).map_err(|_| malformed())?;
    let now = ASN1Time::from_timestamp(seconds).map_err(|_| malformed())?;
    if now < time.not_before {
        return Err(Error::InvalidCertificate(CertificateError::NotValidYet));
    }
    if now > time.not_after {
        return Err(Error::InvalidCertificate(CertificateError::Expired));
    }
    Ok(())
}

/// Checks the time, the purpose and the names of `certificate`, which is trusted.
fn check_trusted(
    certificate: &CertificateDer<'_>,
    server_name: &ServerName<'_>,
    now: UnixTime,
) -> Result<(), Error> {
    let malformed = || Error::InvalidCertificate(CertificateError::BadEncoding);
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|_| malformed())?;
    check_time(parsed.validity(), now)?;
    if !is_servers(&parsed) {
        return Err(Error::InvalidCertificate(CertificateError::InvalidPurpose));
    }
    verify_server_name(&ParsedCertificate::try_from(certificate)?, server_name)
}

impl ServerCertVerifier for BundleVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // few: the certificates of a bundle, whose bytes an object bounds.
        if self.certificates.iter().any(|own| own == end_entity) {
            check_trusted(end_entity, server_name, now)?;
            return Ok(ServerCertVerified::assertion());
        }
        let certificate = ParsedCertificate::try_from(end_entity)?;
        self.check_vouched(&certificate, intermediates, now)?;
        verify_server_name(&certificate, server_name)?;
        Ok(ServerCertVerified::assertion())
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

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, Certificate, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
        KeyUsagePurpose,
    };
    use time::OffsetDateTime;

    use super::*;

    const HOST: &str = "hook.ns.svc";

    fn params(is_ca: bool) -> CertificateParams {
        let mut params = CertificateParams::new(vec![HOST.to_owned()]).unwrap();
        if is_ca {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        params
    }

    /// Whether a server with `certificate` is trusted by `bundle`.
    fn verify(bundle: &[&Certificate], certificate: &Certificate) -> Result<(), Error> {
        let bundle: String = bundle.iter().map(|certificate| certificate.pem()).collect();
        let verifier = BundleVerifier::new(bundle.as_bytes()).unwrap();
        let name = ServerName::try_from(HOST).unwrap();
        verifier.verify_server_cert(certificate.der(), &[], &name, &[], UnixTime::now()).map(drop)
    }

    /// A certificate of `authority`, and one of a server by its key.
    fn issued(authority: CertificateParams) -> (Certificate, Certificate) {
        let (own, server) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let certificate = authority.self_signed(&own).unwrap();
        let leaf = params(false).signed_by(&server, &Issuer::from_params(&authority, &own)).unwrap();
        (certificate, leaf)
    }

    fn with(is_ca: bool, change: impl FnOnce(&mut CertificateParams)) -> CertificateParams {
        let mut params = params(is_ca);
        change(&mut params);
        params
    }

    #[test]
    fn only_an_authority_of_a_bundle_vouches_for_others() {
        let refused = Err(Error::InvalidCertificate(CertificateError::UnknownIssuer));
        let sign = |usages: &[KeyUsagePurpose]| with(true, |params| params.key_usages = usages.to_vec());
        for (authority, expected) in [
            (params(true), Ok(())),
            (sign(&[KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign]), Ok(())),
            (sign(&[KeyUsagePurpose::CrlSign]), refused.clone()),
            (params(false), refused.clone()),
            (with(false, |params| params.is_ca = IsCa::ExplicitNoCa), refused),
        ] {
            let (certificate, leaf) = issued(authority);
            assert_eq!(verify(&[&certificate], &leaf), expected);
        }
    }

    #[test]
    fn an_authority_vouches_in_its_time() {
        let (now, day) = (OffsetDateTime::now_utc(), time::Duration::DAY);
        let past = with(true, |params| params.not_after = now - day);
        let future = with(true, |params| params.not_before = now + day);
        let (other, _) = issued(params(true));
        for (authority, fault) in [(past, CertificateError::Expired), (future, CertificateError::NotValidYet)]
        {
            let (certificate, leaf) = issued(authority);
            let refused = Err(Error::InvalidCertificate(fault));
            assert_eq!(verify(&[&certificate], &leaf), refused);
            assert_eq!(verify(&[&other, &certificate], &leaf), refused, "another one is valid");
            // Those that are not valid take nothing from others.
            let (valid, leaf) = issued(params(true));
            assert_eq!(verify(&[&certificate, &valid], &leaf), Ok(()));
        }
    }

    #[test]
    fn a_certificate_that_is_its_own_bundle_is_a_servers() {
        let of = |purposes: &[ExtendedKeyUsagePurpose]| {
            with(false, |params| params.extended_key_usages = purposes.to_vec())
        };
        let refused = Err(Error::InvalidCertificate(CertificateError::InvalidPurpose));
        for (params, expected) in [
            (of(&[]), Ok(())),
            (of(&[ExtendedKeyUsagePurpose::Any]), Ok(())),
            (of(&[ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth]), Ok(())),
            (of(&[ExtendedKeyUsagePurpose::ClientAuth]), refused),
        ] {
            let (certificate, _) = issued(params);
            assert_eq!(verify(&[&certificate], &certificate), expected);
        }
    }
}
