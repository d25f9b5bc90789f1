//! The chain of authentication methods: a user, or 401.
//!
//! Pure: no clock, no input but the connection's peer, the headers and the moment. The certificate was verified when the
//! connection was made, and the listener ends a connection when its certificate expires.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use futures::future::{BoxFuture, Either, Ready, ready};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use orch_proto::Brand;

use super::credential::Credential;
use super::front_proxy::FrontProxy;
use super::peer::{CertificateFault, ClientCertificate, Peer};
use super::service_account::{ServiceAccounts, TokenFault};
use super::token::LiveTokens;
use super::user::User;
use crate::ambient::Timestamp;
use crate::follow::Applied;

/// Whether requests without a credential are served as the anonymous user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnonymousAccess {
    /// They are refused with 401.
    #[default]
    Refused,
    /// They act as `system:anonymous`; authorization decides what that user may do.
    Allowed,
}

/// Finds the user of a request by asking each method in turn.
#[derive(Debug)]
pub struct Authenticator {
    front_proxy: FrontProxy,
    methods: Vec<Box<dyn Method>>,
    anonymous: Option<Arc<User>>,
    local_admin: Arc<User>,
}

/// A way to authenticate.
pub trait Method: Debug + Send + Sync {
    /// The user that `peer` and `headers` prove by this method; `None`: they carry no credential for it.
    ///
    /// # Errors
    /// The credential is bad. Another method may still find a user, but the request is not anonymous.
    fn user<'a>(&'a self, peer: &'a Peer, headers: &'a HeaderMap, at: Moment<'a>) -> Finding<'a, Arc<User>>;

    /// The holder of a bearer token; `None` where the method knows no such token.
    ///
    /// # Errors
    /// The token is one of this method's, and bad.
    fn holder<'a>(&'a self, _token: &'a [u8], _at: Moment<'a>) -> Finding<'a, Holder> {
        found(Ok(None))
    }
}

/// What a method finds: ready, or a future that waits for another server. One that is ready allocates nothing.
pub type Finding<'a, T> = Either<Ready<Found<T>>, BoxFuture<'a, Found<T>>>;

/// The result of a method; `None`: there is no credential for it.
pub type Found<T> = Result<Option<T>, Unauthenticated>;

/// A finding that is known at once.
pub fn found<'a, T>(result: Found<T>) -> Finding<'a, T> {
    Either::Left(ready(result))
}

/// The time and the state that a credential is held against.
#[derive(Clone, Copy)]
pub struct Moment<'a> {
    /// The state that this node has applied.
    pub applied: &'a Applied,
    /// The time.
    pub now: Timestamp,
}

impl Moment<'_> {
    fn seconds(self) -> u64 {
        self.now.0 / 1_000_000
    }
}

/// Whoever holds a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The user.
    pub user: Arc<User>,
    /// Audiences that the token is meant for.
    pub audiences: Vec<String>,
}

/// Bytes of a token that is looked at: the longest that this server accepts.
const TOKEN_BYTES_MAX: usize = 8 << 10;

/// The audience of this server, for which its tokens are meant: the reference's default, whatever the brand.
pub const API_AUDIENCE: &str = "https://kubernetes.default.svc";

/// The reason why a request has no user. All are answered with 401 and the same body; only the log tells them apart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unauthenticated {
    /// The request has no credentials, and anonymous requests are refused. Health and version paths may still be served.
    #[error("no credentials")]
    NoCredentials,
    /// The bearer token is unknown.
    #[error("invalid bearer token")]
    InvalidToken,
    /// The bearer token is one of a service account, and bad.
    #[error("[invalid bearer token, {0}]")]
    ServiceAccountToken(#[from] TokenFault),
    /// The client certificate identifies no user.
    #[error(transparent)]
    InvalidCertificate(#[from] CertificateFault),
    /// A front proxy describes the user by bytes that are no text.
    #[error("headers of the front proxy are not UTF-8")]
    MalformedIdentity,
}

impl Authenticator {
    /// An authenticator by client certificate, then by `tokens`, without front proxies.
    pub fn new(
        brand: &Brand,
        tokens: impl Into<LiveTokens>,
        anonymous_access: AnonymousAccess,
    ) -> Authenticator {
        let tokens: LiveTokens = tokens.into();
        let credential_id_key = format!("authentication.{}/credential-id", brand.label_domain);
        let is_open = anonymous_access == AnonymousAccess::Allowed;
        Authenticator {
            front_proxy: FrontProxy::default(),
            methods: vec![Box::new(Certificates { credential_id_key }), Box::new(tokens)],
            anonymous: is_open.then(|| Arc::new(User::anonymous())),
            local_admin: Arc::new(User::local_admin()),
        }
    }

    /// The same behind front proxies, whose users come before all other methods.
    #[must_use]
    pub fn behind(mut self, front_proxy: FrontProxy) -> Authenticator {
        self.front_proxy = front_proxy;
        self
    }

    /// Removes the headers of identity that `peer` may not send.
    pub fn strip(&self, peer: Option<&Peer>, headers: &mut HeaderMap) {
        self.front_proxy.strip(peer, headers);
    }

    /// The credential of a request with the stripped `headers`, authenticated as `user`.
    pub fn credential(&self, peer: Arc<Peer>, headers: &HeaderMap, user: Arc<User>) -> Credential {
        Credential::new(peer, headers, user, |name| self.front_proxy.is_configured(name))
    }

    /// The same, and last by `method`.
    #[must_use]
    pub fn with(mut self, method: Box<dyn Method>) -> Authenticator {
        self.methods.push(method);
        self
    }

    /// The user of a request.
    ///
    /// # Errors
    /// No method finds a user, and a credential is bad or anonymous requests are refused.
    pub async fn authenticate(
        &self,
        peer: &Peer,
        headers: &HeaderMap,
        at: Moment<'_>,
    ) -> Result<Arc<User>, Unauthenticated> {
        // A proxy that describes its user badly is refused: it must not act as itself instead.
        if let Some(user) = self.front_proxy.user(peer, headers)? {
            return Ok(user);
        }
        let mut fault = None;
        for method in &self.methods {
            match method.user(peer, headers, at).await {
                Ok(Some(user)) => return Ok(user),
                Ok(None) => {}
                Err(error) => fault = Some(error),
            }
        }
        match (fault, &self.anonymous) {
            (Some(fault), _) => Err(fault),
            (None, _) if peer.local_admin => Ok(self.local_admin.clone()),
            (None, Some(anonymous)) => Ok(anonymous.clone()),
            (None, None) => Err(Unauthenticated::NoCredentials),
        }
    }
}

impl Authenticator {
    /// The holder of `token`. For whoever is shown a token and has to know whose it is.
    ///
    /// # Errors
    /// Nobody holds it.
    pub async fn review(&self, token: &[u8], at: Moment<'_>) -> Result<Holder, Unauthenticated> {
        let mut fault = Unauthenticated::InvalidToken;
        for method in self.methods.iter().filter(|_| token.len() <= TOKEN_BYTES_MAX) {
            match method.holder(token, at).await {
                Ok(Some(holder)) => return Ok(holder),
                Ok(None) => {}
                Err(error) => fault = error,
            }
        }
        Err(fault)
    }
}

/// Authenticates by client certificate, which the listener has verified.
#[derive(Debug)]
struct Certificates {
    credential_id_key: String,
}

impl Method for Certificates {
    fn user<'a>(
        &'a self,
        peer: &'a Peer,
        _headers: &'a HeaderMap,
        _at: Moment<'a>,
    ) -> Finding<'a, Arc<User>> {
        found(match &peer.certificate {
            None => Ok(None),
            Some(Err(fault)) => Err(fault.clone().into()),
            Some(Ok(certificate)) if certificate.common_name.is_empty() => Ok(None),
            Some(Ok(certificate)) => {
                Ok(Some(certificate.user.get_or_init(|| Arc::new(self.user_of(certificate))).clone()))
            }
        })
    }
}

impl Certificates {
    fn user_of(&self, certificate: &ClientCertificate) -> User {
        let credential = format!("X509SHA256={}", certificate.fingerprint);
        User {
            name: certificate.common_name.clone(),
            uid: certificate.uid.clone().unwrap_or_default(),
            groups: certificate.organizations.clone(),
            extra: BTreeMap::from([(self.credential_id_key.clone(), vec![credential])]),
        }
        .authenticated()
    }
}

impl Method for LiveTokens {
    fn user<'a>(
        &'a self,
        _peer: &'a Peer,
        headers: &'a HeaderMap,
        _at: Moment<'a>,
    ) -> Finding<'a, Arc<User>> {
        found(match bearer_token(headers) {
            None => Ok(None),
            Some(token) => LiveTokens::holder(self, token).map(Some).ok_or(Unauthenticated::InvalidToken),
        })
    }

    fn holder<'a>(&'a self, token: &'a [u8], _at: Moment<'a>) -> Finding<'a, Holder> {
        let user = LiveTokens::holder(self, token);
        found(Ok(user.map(|user| Holder { user, audiences: vec![API_AUDIENCE.to_owned()] })))
    }
}

impl Method for Arc<ServiceAccounts> {
    fn user<'a>(&'a self, _peer: &'a Peer, headers: &'a HeaderMap, at: Moment<'a>) -> Finding<'a, Arc<User>> {
        found(match bearer_token(headers).filter(|token| self.is_own(token)) {
            None => Ok(None),
            Some(token) => {
                let user = ServiceAccounts::user(self, token, at.applied, at.seconds());
                user.map(Some).map_err(Unauthenticated::from)
            }
        })
    }

    fn holder<'a>(&'a self, token: &'a [u8], at: Moment<'a>) -> Finding<'a, Holder> {
        if !self.is_own(token) {
            return found(Ok(None));
        }
        let holder = ServiceAccounts::holder(self, token, at.applied, at.seconds());
        let holder = holder.map(|(user, audiences)| Some(Holder { user, audiences }));
        found(holder.map_err(Unauthenticated::from))
    }
}

/// The token of an `Authorization: Bearer` header. As in the reference, other schemes, and a bearer header without a
/// token, count as no credential.
fn bearer_token(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes().trim_ascii();
    let mut parts = value.splitn(3, |&byte| byte == b' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    (scheme.eq_ignore_ascii_case(b"bearer") && !token.is_empty()).then_some(token)
}
