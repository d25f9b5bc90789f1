//! Trust and identity of a client: certificate authority, token, client certificate.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result, bail};
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_rustls::TlsConnector;

use super::kubeconfig;

/// The servers that a client accepts.
#[derive(Clone)]
pub enum Trust {
    /// Servers with a certificate of this authority, in PEM.
    Authority(Vec<u8>),
    /// Any server: for loopback, where the authority is not at hand.
    Anyone,
}

/// The credentials of a client.
#[derive(Clone)]
pub enum Identity {
    /// No credentials.
    Anonymous,
    /// The holder of a bearer token.
    Token(String),
    /// The holder of a client certificate and its key, in PEM.
    Certificate {
        /// The certificate and its chain.
        chain: Vec<u8>,
        /// The private key.
        key: Vec<u8>,
    },
}

/// Trust and identity, and the TLS configuration made of them once.
#[derive(Clone)]
pub struct Access {
    trust: Trust,
    identity: Identity,
    protocols: Vec<Vec<u8>>,
    config: Arc<OnceLock<Arc<ClientConfig>>>,
}

impl Access {
    /// Access as `identity` to servers that `trust` covers, over HTTP/1.1.
    pub fn new(trust: Trust, identity: Identity) -> Self {
        Self { trust, identity, protocols: vec![b"http/1.1".to_vec()], config: Arc::default() }
    }

    /// The server's base URL and the access that a kubeconfig file gives.
    pub fn from_kubeconfig(path: &Path) -> Result<(String, Self)> {
        let entry = kubeconfig::read(path)?;
        Ok((entry.server, Self::new(entry.trust, entry.identity)))
    }

    /// The same access speaking `protocol` (ALPN) instead of HTTP/1.1.
    pub fn with_protocol(&self, protocol: &str) -> Self {
        if self.protocols == [protocol.as_bytes()] {
            return self.clone(); // and its configuration, which thousands of connections share
        }
        Self {
            trust: self.trust.clone(),
            identity: self.identity.clone(),
            protocols: vec![protocol.as_bytes().to_vec()],
            config: Arc::default(),
        }
    }

    /// The same trust with another identity.
    pub fn with_identity(&self, identity: Identity) -> Self {
        Self { protocols: self.protocols.clone(), ..Self::new(self.trust.clone(), identity) }
    }

    /// The value of the Authorization header, where the identity is a token.
    pub fn authorization(&self) -> Option<String> {
        match &self.identity {
            Identity::Token(token) => Some(format!("Bearer {token}")),
            Identity::Anonymous | Identity::Certificate { .. } => None,
        }
    }

    /// A connector for TLS; the configuration is made at the first call.
    pub fn connector(&self) -> Result<TlsConnector> {
        if let Some(config) = self.config.get() {
            return Ok(TlsConnector::from(config.clone()));
        }
        let config = Arc::new(self.configuration()?);
        Ok(TlsConnector::from(self.config.get_or_init(|| config).clone()))
    }

    fn configuration(&self) -> Result<ClientConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
        let builder = match &self.trust {
            Trust::Authority(pem) => builder.with_root_certificates(roots(pem)?),
            Trust::Anyone => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(TrustAnyone(provider)))
            }
        };
        let mut config = match &self.identity {
            Identity::Certificate { chain, key } => {
                let key = PrivateKeyDer::from_pem_slice(key).context("cannot read the client key")?;
                builder.with_client_auth_cert(certificates(chain)?, key)?
            }
            Identity::Anonymous | Identity::Token(_) => builder.with_no_client_auth(),
        };
        config.alpn_protocols.clone_from(&self.protocols);
        // Clients of the ecosystem keep no sessions: each of their connections costs the server a whole handshake.
        config.resumption = Resumption::disabled();
        Ok(config)
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>()?;
    if found.is_empty() {
        bail!("no certificate in the PEM given");
    }
    Ok(found)
}

fn roots(pem: &[u8]) -> Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(pem).context("cannot read the certificate authority")? {
        store.add(certificate)?;
    }
    Ok(store)
}

/// Accepts every certificate but checks that the server holds its key, so that the handshake costs as much as a real
/// one.
#[derive(Debug)]
struct TrustAnyone(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustAnyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
