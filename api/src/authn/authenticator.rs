//! The chain of authentication methods: a user, or 401.
//!
//! Owns the order of the methods. It reads no clock; methods behind [`Authenticator::with_remote`] ask other servers. The
//! certificate was verified when the connection was made, and the listener ends a connection when its certificate
//! expires.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Debug;
use std::sync::Arc;

use futures::future::{BoxFuture, Either, Ready, ready};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use orch_proto::Brand;

use super::credential::Credential;
use super::front_proxy::FrontProxy;
use super::peer::{ClientCertificate, Peer};
use super::service_account::ServiceAccounts;
use super::token::LiveTokens;
use super::unauthenticated::Unauthenticated;
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
    /// Methods that ask other servers or use their keys: behind all others.
    remote: Vec<Box<dyn Method>>,
    anonymous: Option<Arc<User>>,
    /// The only paths where requests without credentials are served; `None`: all.
    anonymous_paths: Option<HashSet<String>>,
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

    /// The same for a review that asks for the audiences `wanted`, which a server that knows tokens by audience is told.
    /// By default they are compared with those of the holder alone.
    ///
    /// # Errors
    /// As of [`Method::holder`].
    fn holder_for<'a>(
        &'a self,
        token: &'a [u8],
        _wanted: &'a [String],
        at: Moment<'a>,
    ) -> Finding<'a, Holder> {
        self.holder(token, at)
    }
}

/// The finding of a method: ready, or a future that waits for another server. A ready one allocates nothing.
pub type Finding<'a, T> = Either<Ready<Found<T>>, BoxFuture<'a, Found<T>>>;

/// The result of a method; `None`: there is no credential for it.
pub type Found<T> = Result<Option<T>, Unauthenticated>;

/// A finding that is known at once.
pub fn found<'a, T>(result: Found<T>) -> Finding<'a, T> {
    Either::Left(ready(result))
}

/// Takes what a client is told, and audit events show, of the credential of a request.
pub trait Remarks: Send + Sync {
    /// Adds an annotation to the audit events of the request. `name` is called only where it is audited.
    fn annotate(&self, name: &dyn Fn() -> String, text: &str);

    /// Adds a warning for the client.
    fn warn(&self, text: &str);
}

/// The time and the state that a credential is held against, and the request that shows it.
#[derive(Clone, Copy)]
pub struct Moment<'a> {
    /// The state that this node has applied.
    pub applied: &'a Applied,
    /// The time.
    pub now: Timestamp,
    /// Takes remarks about noteworthy credentials.
    pub remarks: &'a dyn Remarks,
}

impl Moment<'_> {
    /// The time in seconds since 1970.
    pub(super) fn seconds(self) -> u64 {
        self.now.0 / 1_000_000
    }
}

/// The holder of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The user.
    pub user: Arc<User>,
    /// Audiences that the token names. Empty where it names none: it is meant for those of this server.
    pub audiences: Vec<String>,
}

impl Holder {
    /// Bytes that the holder takes in memory, about.
    pub(super) fn weight(&self) -> usize {
        self.user.weight() + self.audiences.iter().map(|audience| 64 + audience.len()).sum::<usize>()
    }

    /// The holder of a token that names no audience: it is meant for this server.
    pub fn agnostic(user: Arc<User>) -> Holder {
        Holder { user, audiences: Vec::new() }
    }
}

/// Bytes of a token that is looked at: the longest that this server accepts.
pub(super) const TOKEN_BYTES_MAX: usize = 8 << 10;

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
            remote: Vec::new(),
            anonymous: is_open.then(|| Arc::new(User::anonymous())),
            anonymous_paths: None,
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

    /// The same, and by `method` after the other methods of this server.
    #[must_use]
    pub fn with(mut self, method: Box<dyn Method>) -> Authenticator {
        self.methods.push(method);
        self
    }

    /// The same, and last of all by `method`, which asks another server or uses keys of one: tokens of this server's own
    /// are recognized before.
    #[must_use]
    pub fn with_remote(mut self, method: Box<dyn Method>) -> Authenticator {
        self.remote.push(method);
        self
    }

    fn all(&self) -> impl Iterator<Item = &Box<dyn Method>> {
        self.methods.iter().chain(&self.remote)
    }

    /// The same, and requests without credentials are served on `paths`; `None`: everywhere.
    #[must_use]
    pub fn with_anonymous(mut self, paths: Option<&[String]>) -> Authenticator {
        self.anonymous = Some(Arc::new(User::anonymous()));
        self.anonymous_paths = paths.map(|paths| paths.iter().cloned().collect());
        self
    }

    /// Whether `user`, whom this authenticator has found, may make a request of `path`: the anonymous user is kept to its
    /// paths.
    pub(crate) fn admits_at(&self, user: &Arc<User>, path: &str) -> bool {
        let is_anonymous = self.anonymous.as_ref().is_some_and(|anonymous| Arc::ptr_eq(anonymous, user));
        !is_anonymous || self.anonymous_paths.as_ref().is_none_or(|paths| paths.contains(path))
    }

    /// The user of a request.
    ///
    /// # Errors
    /// No method finds a user, and a credential is bad or anonymous requests are refused. `Undecided`: no method refuses the
    /// credential for certain, and one gives no answer. `Unseen`: it may be good in a newer state.
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
        let (mut fault, mut evidence): (Option<Unauthenticated>, _) = (None, None);
        for method in self.all() {
            match method.user(peer, headers, at).await {
                Ok(Some(user)) => return Ok(user),
                Ok(None) => {}
                Err(error) => {
                    evidence = evidence.max(error.evidence());
                    if fault.as_ref().is_none_or(|fault| fault.weight() <= error.weight()) {
                        fault = Some(error);
                    }
                }
            }
        }
        match (fault, &self.anonymous) {
            (Some(fault), _) => Err(fault.with(evidence)),
            (None, _) if peer.local_admin => Ok(self.local_admin.clone()),
            (None, Some(anonymous)) => Ok(anonymous.clone()),
            (None, None) => Err(Unauthenticated::NoCredentials),
        }
    }
}

impl Authenticator {
    /// The holder of `token`, for a TokenReview. `wanted`: the audiences that the review asks for.
    ///
    /// # Errors
    /// The token is valid for no user. `Unseen`: it may be valid in a newer state.
    pub async fn review(
        &self,
        token: &[u8],
        wanted: &[String],
        at: Moment<'_>,
    ) -> Result<Holder, Unauthenticated> {
        let (mut fault, mut evidence) = (Unauthenticated::InvalidToken, None);
        for method in self.all().filter(|_| token.len() <= TOKEN_BYTES_MAX) {
            match method.holder_for(token, wanted, at).await {
                Ok(Some(holder)) => return Ok(holder),
                Ok(None) => {}
                Err(error) => {
                    evidence = evidence.max(error.evidence());
                    fault = error;
                }
            }
        }
        Err(fault.with(evidence))
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
        found(Ok(LiveTokens::holder(self, token).map(Holder::agnostic)))
    }
}

impl Method for Arc<ServiceAccounts> {
    fn user<'a>(&'a self, _peer: &'a Peer, headers: &'a HeaderMap, at: Moment<'a>) -> Finding<'a, Arc<User>> {
        let Some(token) = bearer_token(headers) else { return found(Ok(None)) };
        found(ServiceAccounts::user(self, token, at).map_err(Unauthenticated::from))
    }

    fn holder<'a>(&'a self, token: &'a [u8], at: Moment<'a>) -> Finding<'a, Holder> {
        self.holder_for(token, &self.settings().audiences, at)
    }

    fn holder_for<'a>(
        &'a self,
        token: &'a [u8],
        wanted: &'a [String],
        at: Moment<'a>,
    ) -> Finding<'a, Holder> {
        let holder = ServiceAccounts::holder(self, token, wanted, at);
        let named = |(user, audiences)| Holder { user, audiences };
        found(holder.map(|holder| holder.map(named)).map_err(Unauthenticated::from))
    }
}

/// The token of an `Authorization: Bearer` header. As in the reference, other schemes, and a bearer header without a
/// token, count as no credential.
pub(super) fn bearer_token(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes().trim_ascii();
    let mut parts = value.splitn(3, |&byte| byte == b' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    (scheme.eq_ignore_ascii_case(b"bearer") && !token.is_empty()).then_some(token)
}
