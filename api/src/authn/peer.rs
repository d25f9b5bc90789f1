//! The peer of a connection, as the listener established it.
//!
//! The listener puts a [`Peer`] behind an `Arc` into the extensions of every request of a connection. It is the only
//! input of authentication besides the headers; nothing in it comes from the request itself.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use super::user::User;

/// The peer of a connection. Found in a request's extensions as `Arc<Peer>`.
#[derive(Debug)]
pub struct Peer {
    /// Remote address of the connection; 127.0.0.1 with port 0 at a Unix socket.
    pub address: SocketAddr,
    /// The client certificate if one was presented: verified, or the reason why it is not.
    pub certificate: Option<Result<ClientCertificate, CertificateError>>,
    /// Whether the connection came over the plain loopback port or the Unix socket of a development node.
    pub local_admin: bool,
    /// Whether the certificate is valid under the authority of front proxies and has an allowed name: the headers of
    /// identity of its requests count ([`super::front_proxy`]).
    pub is_front_proxy: bool,
}

impl Peer {
    /// Whether the same credential from `other` is authenticated in the same way: all but the port of the address is equal.
    pub(super) fn is_like(&self, other: &Peer) -> bool {
        let Peer { address, certificate, local_admin, is_front_proxy } = self;
        let is_same_certificate = match (certificate, &other.certificate) {
            (None, None) => true,
            (Some(Ok(own)), Some(Ok(other))) => own.is_like(other),
            (Some(Err(own)), Some(Err(other))) => own == other,
            _ => false,
        };
        let facts = (address.ip(), *local_admin, *is_front_proxy);
        facts == (other.address.ip(), other.local_admin, other.is_front_proxy) && is_same_certificate
    }
}

/// The subject of a client certificate whose chain, validity and purpose have been checked.
#[derive(Debug, Default)]
pub struct ClientCertificate {
    /// Common name of the subject: the user's name.
    pub common_name: String,
    /// Organizations of the subject: the user's groups.
    pub organizations: Vec<String>,
    /// The user's uid, where the subject carries one.
    pub uid: Option<String>,
    /// SHA-256 of the certificate in lower-case hexadecimal: becomes the credential id.
    pub fingerprint: String,
    /// The user of this certificate, built on first use.
    pub(super) user: OnceLock<Arc<User>>,
}

impl ClientCertificate {
    /// A certificate whose chain, validity and purpose have been checked by the caller.
    pub fn new(
        common_name: String,
        organizations: Vec<String>,
        uid: Option<String>,
        fingerprint: String,
    ) -> Self {
        ClientCertificate { common_name, organizations, uid, fingerprint, user: OnceLock::new() }
    }

    /// Whether `other` is the same certificate.
    fn is_like(&self, other: &ClientCertificate) -> bool {
        let ClientCertificate { common_name, organizations, uid, fingerprint, user: _ } = self;
        (fingerprint, uid, common_name, organizations)
            == (&other.fingerprint, &other.uid, &other.common_name, &other.organizations)
    }
}

/// The reason why a certificate identifies no user: expired, of another authority, not meant for clients.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("client certificate: {0}")]
pub struct CertificateError(pub String);

/// Reports the user of a request to the listener once its credentials are accepted. Found in a request's extensions. The
/// listener divides its places among users, and limits connections of known users less.
#[derive(Clone)]
pub struct UserReporter(Arc<dyn Fn(&User) + Send + Sync>);

impl UserReporter {
    /// Calls `accept` with each accepted user, the anonymous user included.
    pub fn new(accept: impl Fn(&User) + Send + Sync + 'static) -> UserReporter {
        UserReporter(Arc::new(accept))
    }

    /// Reports `user` as the sender of the request.
    pub fn accept(&self, user: &User) {
        (self.0)(user);
    }
}

impl std::fmt::Debug for UserReporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("UserReporter")
    }
}
