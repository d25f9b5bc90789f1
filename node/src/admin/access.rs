//! Reads servers and credentials from a client configuration file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;

/// A client configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// The file cannot be read.
    #[error("cannot read {path} (name the administrator's configuration with --kubeconfig)")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of reading it.
        source: std::io::Error,
    },
    /// An entry is missing, or has a form that is not supported.
    #[error("{path}: {reason}")]
    Content {
        /// The file.
        path: PathBuf,
        /// The entry and its fault.
        reason: String,
    },
}

/// A cluster's servers, and the administrator's TLS identity.
#[derive(Debug)]
pub struct Access {
    /// `HOST:PORT` of each server, to be tried in order.
    pub servers: Vec<String>,
    /// The cluster's authority, and the client certificate with its key.
    pub tls: Arc<ClientConfig>,
}

impl Access {
    /// Reads the client configuration at `path`: embedded authority, client certificate and key.
    pub fn read(path: &Path) -> Result<Access, AccessError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| AccessError::Unreadable { path: path.to_owned(), source })?;
        parse(&text).map_err(|reason| AccessError::Content { path: path.to_owned(), reason })
    }
}

pub(super) fn parse(text: &str) -> Result<Access, String> {
    let config: Value =
        serde_norway::from_str(text).map_err(|error| format!("not a client configuration: {error}"))?;
    let clusters = config["clusters"].as_array().filter(|clusters| !clusters.is_empty());
    let clusters = clusters.ok_or("it names no cluster")?;
    let server = |cluster: &Value| {
        let url = cluster["cluster"]["server"].as_str()?;
        url.strip_prefix("https://").map(|rest| rest.trim_end_matches('/').to_owned())
    };
    let servers: Option<Vec<_>> = clusters.iter().map(server).collect();
    let servers = servers.ok_or("a server is not an https:// address")?;
    let authority = embedded(&clusters[0]["cluster"], "certificate-authority-data")?;
    let user = config["users"].get(0).map(|user| &user["user"]).ok_or("it names no user")?;
    let (certificate, key) = (embedded(user, "client-certificate-data")?, embedded(user, "client-key-data")?);
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(&authority) {
        let authority = authority.map_err(|error| format!("certificate-authority-data: {error}"))?;
        roots.add(authority).map_err(|error| format!("certificate-authority-data: {error}"))?;
    }
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&certificate).collect();
    let chain = chain.map_err(|error| format!("client-certificate-data: {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|_| "client-key-data holds no private key")?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .map_err(|error| format!("client certificate and key: {error}"))?;
    Ok(Access { servers, tls: Arc::new(tls) })
}

fn embedded(entry: &Value, name: &str) -> Result<Vec<u8>, String> {
    let text = entry[name].as_str().ok_or_else(|| format!("{name} is missing"))?;
    STANDARD.decode(text).map_err(|_| format!("{name} is not base64"))
}
