//! Trust and identity of a client: certificate authority, token, client certificate.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result};
use orch_serving::tls::{AnyServer, authorities, private_key};
use rustls::client::Resumption;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
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
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        let builder = match &self.trust {
            Trust::Authority(pem) => builder.with_root_certificates(roots(pem)?),
            Trust::Anyone => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer::default()))
            }
        };
        let mut config = match &self.identity {
            Identity::Certificate { chain, key } => {
                let key = private_key(key).context("the client key is no PEM")?;
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
    Ok(orch_serving::tls::certificates(pem)?)
}

fn roots(pem: &[u8]) -> Result<RootCertStore> {
    authorities(pem).context("cannot read the certificate authority")
}
