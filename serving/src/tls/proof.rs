//! Verifiers that check only the proof of a private key in the handshake, and trust nothing in the certificate.
//!
//! [`KeyProof`] is for servers, which verify a client's certificate after the handshake. [`AnyServer`] is for clients that an
//! operator told to trust every server, and for tests.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

/// A check of a presented chain before its key's proof, for example of its length.
type ChainCheck = fn(&CertificateDer<'_>, &[CertificateDer<'_>]) -> Result<(), Error>;

/// Accepts any certificate whose private key the client proves to hold, and clients without a certificate.
#[derive(Debug)]
pub struct KeyProof {
    algorithms: WebPkiSupportedAlgorithms,
    hints: Vec<DistinguishedName>,
    check: ChainCheck,
}

impl KeyProof {
    /// Clients choose a certificate by themselves: a list of authorities would go stale when they are reloaded.
    pub fn without_hints() -> KeyProof {
        KeyProof { algorithms: algorithms(), hints: Vec::new(), check: |_, _| Ok(()) }
    }

    /// Clients choose a certificate by the subjects `hints`; a chain that `check` refuses ends the handshake.
    pub fn with_hints(hints: Vec<DistinguishedName>, check: ChainCheck) -> KeyProof {
        KeyProof { algorithms: algorithms(), hints, check }
    }
}

fn algorithms() -> WebPkiSupportedAlgorithms {
    default_provider().signature_verification_algorithms
}

impl ClientCertVerifier for KeyProof {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        end: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        (self.check)(end, intermediates)?;
        Ok(ClientCertVerified::assertion())
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

/// Accepts every certificate of a server that proves to hold its key.
#[derive(Debug)]
pub struct AnyServer(WebPkiSupportedAlgorithms);

impl Default for AnyServer {
    fn default() -> AnyServer {
        AnyServer(algorithms())
    }
}

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}
