//! TLS of a client: the servers that it accepts, and the certificate that it presents.
//!
//! Owns the configuration of rustls. The client certificate is looked up at each handshake, because programs and files
//! renew it while the process runs. Versions and ciphers are the library's defaults: TLS 1.2 and 1.3.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwapOption;
use orch_serving::Secret;
use orch_serving::files::{self, MATERIAL_BYTES_MAX};
use orch_serving::tls::{AnyServer, PemFault, authorities, certificates, private_key};
use rustls::client::ResolvesClientCert;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, SignatureScheme};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::config::{Config, ConfigError, Pem, Trust};

/// The client certificate that the next handshake presents.
#[derive(Debug, Default)]
pub(super) struct CurrentCertificate(ArcSwapOption<CertifiedKey>);

impl CurrentCertificate {
    /// Presents `chain` with `key`, both in PEM, from the next handshake on.
    pub(super) fn replace(&self, chain: &Secret, key: &Secret) -> Result<(), ConfigError> {
        let invalid =
            |problem: &str| ConfigError::Invalid { field: "client-certificate", problem: problem.to_owned() };
        let chain = certificates(chain.expose().as_bytes());
        let chain = chain.map_err(|_| invalid("it holds no certificate in PEM"))?;
        let key = private_key(key.expose().as_bytes());
        let key = key.ok_or_else(|| invalid("its key is no private key in PEM"))?;
        let certified = CertifiedKey::from_der(chain, key, &provider());
        let certified =
            certified.map_err(|source| ConfigError::Tls { what: "client certificate", source })?;
        self.0.store(Some(Arc::new(certified)));
        Ok(())
    }

    /// The certificate itself, without those that lead to its authority; `None` without one.
    pub(super) fn leaf(&self) -> Option<CertificateDer<'static>> {
        self.0.load_full()?.cert.first().cloned()
    }

    /// From when until when the certificate is valid; `None` without one, or where that cannot be read.
    pub(super) fn validity(&self) -> Option<(SystemTime, SystemTime)> {
        let leaf = self.leaf()?;
        let (_, parsed) = X509Certificate::from_der(&leaf).ok()?;
        let validity = parsed.validity();
        let time = |seconds: i64| {
            let since = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
            SystemTime::UNIX_EPOCH.checked_add(since)
        };
        Some((time(validity.not_before.timestamp())?, time(validity.not_after.timestamp())?))
    }
}

impl ResolvesClientCert for CurrentCertificate {
    fn resolve(&self, _hints: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.0.load_full()
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// The configuration of connections that `config` asks for.
///
/// # Errors
/// Where the certificate authority cannot be read or used.
pub(super) fn client_config(
    config: &Config,
    presented: Arc<CurrentCertificate>,
) -> Result<ClientConfig, ConfigError> {
    let builder = ClientConfig::builder_with_provider(Arc::new(provider()))
        .with_safe_default_protocol_versions()
        .map_err(|source| ConfigError::Tls { what: "TLS library", source })?;
    let builder = match &config.trust {
        Trust::Authority(pem) => builder.with_root_certificates(roots(pem)?),
        Trust::System => builder.with_root_certificates(system_roots()),
        Trust::Anyone => builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer::default())),
    };
    Ok(builder.with_client_cert_resolver(presented))
}

fn provider() -> CryptoProvider {
    rustls::crypto::ring::default_provider()
}

fn roots(pem: &Pem) -> Result<RootCertStore, ConfigError> {
    let text = match pem {
        Pem::Inline(text) => text.expose().as_bytes().to_vec(),
        Pem::File(path) => files::read(path, MATERIAL_BYTES_MAX)
            .map_err(|source| ConfigError::File { path: path.clone(), source })?,
    };
    authorities(&text).map_err(|fault| match fault {
        PemFault::Authority(source) => ConfigError::Tls { what: "certificate authority", source },
        PemFault::Empty | PemFault::Malformed => ConfigError::Invalid {
            field: "certificate-authority",
            problem: "it holds no certificate in PEM".to_owned(),
        },
    })
}

/// The machine's list. What of it cannot be read is left out: a handshake that needs it says so.
fn system_roots() -> RootCertStore {
    let mut store = RootCertStore::empty();
    store.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    store
}
