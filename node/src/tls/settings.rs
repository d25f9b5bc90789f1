//! Builds the TLS settings from files.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring::{Ticketer, default_provider};
use rustls::sign::SingleCertAndKey;
use time::OffsetDateTime;

use super::client::ClientAuthorities;
use super::material::{MaterialError, load_authorities, load_pair};

/// The files of a TLS port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Server certificate, then its intermediates.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// Authorities of client certificates.
    pub client_authorities: PathBuf,
    /// Authority that must have signed the server certificate; `None` for a certificate from flags, which any authority
    /// may have signed.
    pub server_authority: Option<PathBuf>,
}

/// TLS settings of a port.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Settings of the TLS library.
    pub server: Arc<ServerConfig>,
    /// Authorities of client certificates.
    pub clients: ClientAuthorities,
}

impl Tls {
    /// Reads and checks `files` as of `now`.
    pub fn load(files: &TlsFiles, now: OffsetDateTime) -> Result<Tls, MaterialError> {
        let setup = |error: &dyn std::fmt::Display| MaterialError::Setup { reason: error.to_string() };
        let pair = load_pair(&files.certificate, &files.key, now)?;
        if let Some(authority) = &files.server_authority {
            pair.check_signed_by(&load_authorities(authority, now)?, authority, now)?;
        }
        let clients = ClientAuthorities::new(load_authorities(&files.client_authorities, now)?)?;
        let mut server = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| setup(&error))?
            .with_client_cert_verifier(clients.handshake())
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(pair.key)));
        server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // Sessions resume from tickets sealed with a key of this process, which the ticketer rotates; the server keeps
        // no session.
        server.ticketer = Ticketer::new().map_err(|error| setup(&error))?;
        server.send_tls13_tickets = 1;
        Ok(Tls { server: Arc::new(server), clients })
    }
}
