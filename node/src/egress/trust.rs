//! The authorities that a target trusts, or that it verifies none, and the certificate that it shows.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use orch_api::aggregation::ServerTrust;
use orch_serving::files::{self, MATERIAL_BYTES_MAX};
use orch_serving::tls::{self as pem, AnyServer, PemFault};
use rustls::client::WantsClientCert;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ConfigBuilder, RootCertStore, WantsVerifier};

use super::leaf::BundleVerifier;

/// The system's authorities: the places where distributions keep them, the first that exists counts.
const SYSTEM_FILES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// TLS settings of a client.
#[derive(Clone)]
pub struct Trust(Arc<ClientConfig>);

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trust")
    }
}

/// The reason why authorities or a client's pair are refused. Never quotes a key.
#[derive(Debug, thiserror::Error)]
pub enum TrustError {
    /// The text holds no certificate.
    #[error("data does not contain any valid RSA or ECDSA certificates")]
    NoCertificates,
    /// A certificate is damaged.
    #[error("unusable certificate: {0}")]
    Certificate(String),
    /// The text holds no private key.
    #[error("it holds no private key")]
    NoKey,
    /// The TLS library refuses certificate and key.
    #[error("client certificate and key: {0}")]
    Pair(String),
    /// The machine has no authorities.
    #[error("this machine has no file of certificate authorities; name one in the configuration")]
    NoSystemFile,
    /// The machine's file cannot be read.
    #[error("cannot read {path}")]
    SystemFile {
        /// The file.
        path: PathBuf,
        /// The error of reading it.
        source: std::io::Error,
    },
}

impl Trust {
    /// Trusts the authorities in `authorities` (PEM), or the machine's where that is `None`. `pair`: certificate chain and
    /// key of the client, in PEM.
    ///
    /// # Errors
    /// The authorities or the pair cannot be used.
    pub fn new(authorities: Option<&[u8]>, pair: Option<(&[u8], &[u8])>) -> Result<Trust, TrustError> {
        let roots = match authorities {
            Some(text) => pem::authorities(text)?,
            None => system_roots()?,
        };
        Self::showing(pair, builder()?.with_root_certificates(roots))
    }

    /// Trusts every server: its certificate is not verified, only that it holds the certificate's key. `pair` as above.
    ///
    /// # Errors
    /// The pair cannot be used.
    pub fn unverified(pair: Option<(&[u8], &[u8])>) -> Result<Trust, TrustError> {
        let verifier = Arc::new(AnyServer::default());
        Self::showing(pair, builder()?.dangerous().with_custom_certificate_verifier(verifier))
    }

    /// Trusts the authorities in `bundle` (PEM) and the certificates in it themselves, or the machine's authorities where that is
    /// `None`. `pair` as above. HTTP/2 is offered, too.
    ///
    /// # Errors
    /// The bundle cannot be used, or the machine has no authorities.
    pub(super) fn of_object(
        bundle: Option<&[u8]>,
        pair: Option<(&[u8], &[u8])>,
    ) -> Result<Trust, TrustError> {
        Ok(Self::showing(pair, trusting(bundle)?)?.with_http2())
    }

    /// Trusts an aggregated server as its APIService says. `pair` as above.
    ///
    /// # Errors
    /// The bundle or the pair cannot be used, or the machine has no authorities.
    pub(super) fn of_server(server: &ServerTrust, pair: Option<(&[u8], &[u8])>) -> Result<Trust, TrustError> {
        match server {
            ServerTrust::Anyone => Self::unverified(pair),
            ServerTrust::Machine => Self::showing(pair, trusting(None)?),
            ServerTrust::Bundle(bundle) => Self::showing(pair, trusting(Some(bundle))?),
            ServerTrust::Unreadable => Err(TrustError::NoCertificates),
        }
    }

    /// The same, which offers HTTP/2, too.
    pub(super) fn with_http2(&self) -> Trust {
        let mut client = (*self.0).clone();
        client.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Trust(Arc::new(client))
    }

    fn showing(
        pair: Option<(&[u8], &[u8])>,
        builder: ConfigBuilder<ClientConfig, WantsClientCert>,
    ) -> Result<Trust, TrustError> {
        let mut client = match pair {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = pem::private_key(key).ok_or(TrustError::NoKey)?;
                let built = builder.with_client_auth_cert(chain(certificate)?, key);
                built.map_err(|error| TrustError::Pair(error.to_string()))?
            }
        };
        client.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Trust(Arc::new(client)))
    }

    /// The settings of the TLS library.
    pub(crate) fn client(&self) -> Arc<ClientConfig> {
        self.0.clone()
    }
}

/// Trusts the authorities in `bundle` (PEM) and the certificates in it, or the machine's authorities.
fn trusting(bundle: Option<&[u8]>) -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, TrustError> {
    Ok(match bundle {
        Some(bundle) => {
            let verifier = Arc::new(BundleVerifier::new(bundle)?);
            builder()?.dangerous().with_custom_certificate_verifier(verifier)
        }
        None => builder()?.with_root_certificates(system_roots()?),
    })
}

fn builder() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, TrustError> {
    ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| TrustError::Pair(error.to_string()))
}

fn chain(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, TrustError> {
    pem::certificates(text).map_err(TrustError::from)
}

impl From<PemFault> for TrustError {
    fn from(fault: PemFault) -> TrustError {
        match fault {
            PemFault::Empty => TrustError::NoCertificates,
            fault => TrustError::Certificate(fault.to_string()),
        }
    }
}

fn system_roots() -> Result<RootCertStore, TrustError> {
    let path = SYSTEM_FILES.iter().map(PathBuf::from).find(|path| path.exists());
    let path = path.ok_or(TrustError::NoSystemFile)?;
    let text =
        files::read(&path, MATERIAL_BYTES_MAX).map_err(|source| TrustError::SystemFile { path, source })?;
    let mut roots = RootCertStore::empty();
    // Such files hold old certificates that the library does not read; the others count.
    roots.add_parsable_certificates(chain(&text)?);
    Ok(roots)
}
