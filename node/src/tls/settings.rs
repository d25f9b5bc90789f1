//! Builds the TLS settings from files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::crypto::ring::{Ticketer, default_provider};
use rustls::pki_types::CertificateDer;
use rustls::sign::SingleCertAndKey;
use rustls::{RootCertStore, ServerConfig};
use time::OffsetDateTime;

use super::client::{ClientAuthorities, TrustMaterial};
use super::material::{MaterialError, load_authorities, load_certificates, load_pair};
use super::revocation::Revocations;

/// The files of a TLS port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// Authorities of front proxies; `None` where none is trusted.
    pub proxies: Option<ProxyFiles>,
    /// Revocation lists of the authorities of clients and front proxies.
    pub revocations: Vec<PathBuf>,
}

/// The front proxies that are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyFiles {
    /// Their authorities.
    pub authorities: PathBuf,
    /// Common names that their certificates may have; empty for any.
    pub allowed_names: Vec<String>,
}

/// TLS settings of a port.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Settings of the TLS library.
    pub server: Arc<ServerConfig>,
    /// Authorities of client certificates.
    pub clients: ClientAuthorities,
    /// Certificates of the authorities of clients, to be announced.
    pub client_authorities: Vec<CertificateDer<'static>>,
    /// Those of front proxies; empty where none is trusted.
    pub proxy_authorities: Vec<CertificateDer<'static>>,
    /// Sources of `clients`.
    trust: Arc<TrustMaterial>,
}

impl TlsFiles {
    /// Reads the authorities and the revocation lists.
    fn trust(&self, now: OffsetDateTime) -> Result<TrustMaterial, MaterialError> {
        let users = load_authorities(&self.client_authorities, now)?;
        let proxies = match &self.proxies {
            None => None,
            Some(ProxyFiles { authorities, allowed_names }) => {
                let roots = load_authorities(authorities, now)?;
                if allowed_names.is_empty() {
                    require_apart(&users, &self.client_authorities, &roots, authorities)?;
                }
                Some((roots, allowed_names.clone()))
            }
        };
        Ok(TrustMaterial { users, proxies, revocations: Revocations::load(&self.revocations, now)? })
    }
}

/// Refuses an authority of both clients and proxies where any name is allowed: every client could name any user.
fn require_apart(
    users: &RootCertStore,
    users_path: &Path,
    proxies: &RootCertStore,
    proxies_path: &Path,
) -> Result<(), MaterialError> {
    // few: the authorities of two files of the operator.
    let is_shared = proxies.roots.iter().any(|root| users.roots.contains(root));
    match is_shared {
        false => Ok(()),
        true => Err(MaterialError::SharedAuthority {
            proxies: proxies_path.to_owned(),
            users: users_path.to_owned(),
        }),
    }
}

impl Tls {
    /// Reads and checks `files` as of `now`.
    pub fn load(files: &TlsFiles, now: OffsetDateTime) -> Result<Tls, MaterialError> {
        Tls::load_as_of(files, now, now)
    }

    /// The same, but a server certificate that has ended passes; the end of its validity then. A node that starts with one is
    /// where it would be had it gone on running: clients that verify it stay away until its file is replaced.
    pub fn load_ended(
        files: &TlsFiles,
        now: OffsetDateTime,
    ) -> Result<(Tls, Option<OffsetDateTime>), MaterialError> {
        let mut as_of = now;
        loop {
            match Tls::load_as_of(files, now, as_of) {
                // Earlier each time: the next certificate of the chain may have ended before.
                Err(MaterialError::Expired { path, on }) if path == files.certificate && on < as_of => {
                    as_of = on;
                }
                loaded => return loaded.map(|tls| (tls, (as_of < now).then_some(as_of))),
            }
        }
    }

    /// Reads `files` and checks them as of `now`, but for the server certificate, which is checked as of `pair_as_of`.
    fn load_as_of(
        files: &TlsFiles,
        now: OffsetDateTime,
        pair_as_of: OffsetDateTime,
    ) -> Result<Tls, MaterialError> {
        let setup = |error: &dyn std::fmt::Display| MaterialError::Setup { reason: error.to_string() };
        let pair = load_pair(&files.certificate, &files.key, pair_as_of)?;
        if let Some(authority) = &files.server_authority {
            pair.check_signed_by(&load_authorities(authority, now)?, authority, pair_as_of)?;
        }
        let trust = Arc::new(files.trust(now)?);
        let clients = ClientAuthorities::new(&trust)?;
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
        let proxies = files.proxies.as_ref().map(|proxies| load_certificates(&proxies.authorities));
        Ok(Tls {
            server: Arc::new(server),
            clients,
            client_authorities: load_certificates(&files.client_authorities)?,
            proxy_authorities: proxies.transpose()?.unwrap_or_default(),
            trust,
        })
    }

    /// These settings with those of the authorities and revocation lists in `files` that can be read. `None`: they judge every
    /// certificate as before. A certificate that was revoked, or an authority that was taken away, must not go on counting
    /// because another file, such as the server's own certificate, is damaged or has expired.
    pub fn with_readable_trust(&self, files: &TlsFiles, now: OffsetDateTime) -> Option<Tls> {
        let before = &*self.trust;
        let users = load_authorities(&files.client_authorities, now).unwrap_or_else(|_| before.users.clone());
        let proxies = files.proxies.as_ref().zip(before.proxies.as_ref()).map(|(files, (roots, names))| {
            (load_authorities(&files.authorities, now).unwrap_or_else(|_| roots.clone()), names.clone())
        });
        if let (Some((roots, names)), Some(proxies)) = (&proxies, &files.proxies)
            && names.is_empty()
        {
            require_apart(&users, &files.client_authorities, roots, &proxies.authorities).ok()?;
        }
        let (revocations, _) = before.revocations.reload(&files.revocations, now);
        let trust = Arc::new(TrustMaterial { users, proxies, revocations });
        let clients = ClientAuthorities::new(&trust).ok()?;
        (!clients.is_same_as(&self.clients)).then(|| Tls { clients, trust, ..self.clone() })
    }
}
