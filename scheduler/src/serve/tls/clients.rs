//! Client certificates: proof of the private key in the handshake, verification after it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use orch_serving::tls::{KeyProof, Subject};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;

use super::material::{self, MaterialError};
use crate::serve::user::User;

/// The client of a connection, as its certificate identifies it.
#[derive(Debug)]
pub(crate) struct Peer {
    /// The client's certificate.
    pub certificate: Certificate,
    /// Whether it is an allowed front proxy.
    pub is_front_proxy: bool,
}

/// A client certificate after verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Certificate {
    /// No certificate, no authorities to verify it, or a valid one that names no user or names a front proxy.
    None,
    /// A configured authority did not sign it, or it is not that of an allowed front proxy.
    Bad,
    /// It names this user.
    User(User),
}

/// Where authorities come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Authorities {
    /// A file, which is read again when it changes.
    File(PathBuf),
    /// A text, which was looked up in the cluster.
    Text(String),
}

impl Authorities {
    fn verifier(&self) -> Result<Arc<dyn ClientCertVerifier>, MaterialError> {
        let roots = match self {
            Authorities::File(path) => {
                material::authorities(&material::read(path)?, &path.display().to_string())?
            }
            Authorities::Text(text) => material::authorities(text.as_bytes(), "the cluster's configuration")?,
        };
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()))
            .build()
            .map_err(|error| MaterialError(error.to_string()))
    }
}

/// The authorities of users and of front proxies.
#[derive(Debug)]
pub(crate) struct Clients {
    users: Option<Trusted>,
    proxies: Option<Trusted>,
    /// Common names of front proxies; empty for any.
    allowed_names: Vec<String>,
    /// Whether the cluster may name authorities later.
    is_looked_up: bool,
}

#[derive(Debug)]
struct Trusted {
    source: Authorities,
    verifier: ArcSwap<Arc<dyn ClientCertVerifier>>,
}

impl Trusted {
    fn load(source: Authorities) -> Result<Trusted, MaterialError> {
        let verifier = ArcSwap::from_pointee(source.verifier()?);
        Ok(Trusted { source, verifier })
    }

    fn verify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> bool {
        let Some((end, intermediates)) = chain.split_first() else { return false };
        self.verifier.load().verify_client_cert(end, intermediates, now).is_ok()
    }
}

impl Clients {
    /// Reads the authorities of users and of front proxies.
    pub(crate) fn load(
        users: Option<Authorities>,
        proxies: Option<Authorities>,
        allowed_names: Vec<String>,
    ) -> Result<Clients, MaterialError> {
        let context =
            |error: MaterialError| MaterialError(format!("unable to load client CA provider: {error}"));
        let users = users.map(Trusted::load).transpose().map_err(context)?;
        let context = |error: MaterialError| {
            MaterialError(format!("unable to load request-header CA provider: {error}"))
        };
        let proxies = proxies.map(Trusted::load).transpose().map_err(context)?;
        Ok(Clients { users, proxies, allowed_names, is_looked_up: false })
    }

    /// These clients, whose authorities the cluster may name later: they are asked for certificates in any case.
    #[must_use]
    pub(crate) fn looked_up(self) -> Clients {
        Clients { is_looked_up: true, ..self }
    }

    /// Reads the files again. Those that cannot be used leave what was there. Returns whether all could be.
    pub(super) fn reload(&self) -> bool {
        let mut is_done = true;
        for trusted in self.users.iter().chain(&self.proxies) {
            if let Authorities::File(path) = &trusted.source {
                match trusted.source.verifier() {
                    Ok(verifier) => trusted.verifier.store(Arc::new(verifier)),
                    Err(error) => {
                        tracing::warn!(path = %path.display(), %error, "authorities cannot be read again: the former stay");
                        is_done = false;
                    }
                }
            }
        }
        is_done
    }

    /// The files that [`Clients::reload`] reads.
    pub(super) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.users.iter().chain(&self.proxies).filter_map(|trusted| match &trusted.source {
            Authorities::File(path) => Some(path),
            Authorities::Text(_) => None,
        })
    }

    /// The verifier for handshakes; `None` where no client is asked for a certificate.
    pub(in crate::serve) fn handshake(&self) -> Option<Arc<dyn ClientCertVerifier>> {
        (self.users.is_some() || self.proxies.is_some() || self.is_looked_up)
            .then(|| Arc::new(KeyProof::without_hints()) as _)
    }

    /// Verifies the chain that a client presented, its own certificate first.
    pub(in crate::serve) fn identify(
        &self,
        presented: Option<&[CertificateDer<'_>]>,
        now: SystemTime,
    ) -> Peer {
        let Some(chain) = presented.filter(|chain| !chain.is_empty()) else {
            return Peer { certificate: Certificate::None, is_front_proxy: false };
        };
        let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let now = UnixTime::since_unix_epoch(since);
        let subject = Subject::of(&chain[0]).ok();
        let user = subject.as_ref().and_then(user);
        let name = user.as_ref().map_or("", |user| &user.name);
        let is_allowed = self.allowed_names.is_empty() || self.allowed_names.iter().any(|one| one == name);
        // Each kind of authority that is configured judges the certificate. What one refuses is bad, unless the other
        // finds a user in it.
        let is_proxy = self.proxies.as_ref().map(|proxies| is_allowed && proxies.verify(chain, now));
        let is_user = self.users.as_ref().map(|users| users.verify(chain, now));
        let certificate = match user {
            Some(user) if is_user == Some(true) => {
                subject.iter().for_each(|subject| measure_life(subject, since));
                Certificate::User(user)
            }
            _ if is_user == Some(false) || is_proxy == Some(false) => Certificate::Bad,
            _ => Certificate::None,
        };
        Peer { certificate, is_front_proxy: is_proxy == Some(true) }
    }
}

/// Records how long a client's certificate is still valid; `now` is the time since 1970.
fn measure_life(subject: &Subject, now: Duration) {
    let left = subject.not_after.saturating_sub(now);
    ::metrics::histogram!("apiserver_client_certificate_expiration_seconds").record(left.as_secs_f64());
}

/// The user that a certificate names: common name and organizations. `None` where that cannot be read, or is empty.
fn user(subject: &Subject) -> Option<User> {
    let Subject { common_name, organizations, .. } = subject;
    let is_named = !common_name.is_empty();
    is_named.then(|| User { name: common_name.clone(), groups: organizations.clone(), ..User::default() })
}
