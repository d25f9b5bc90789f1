//! The decision: which user, or 401.
//!
//! Pure: no clock, no input but the connection's peer and the headers. The certificate was verified when the
//! connection was made, and the listener ends a connection when its certificate expires.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use orch_proto::Brand;

use super::peer::{CertificateFault, ClientCertificate, Peer};
use super::token::TokenTable;
use super::user::User;

/// Whether requests without a credential are served as the anonymous user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnonymousAccess {
    /// They are refused with 401.
    #[default]
    Refused,
    /// They act as `system:anonymous`; authorization decides what that user may do.
    Allowed,
}

/// Finds out who a request comes from.
#[derive(Debug)]
pub struct Authenticator {
    tokens: TokenTable,
    anonymous_access: AnonymousAccess,
    credential_id_key: String,
    anonymous: Arc<User>,
    local_admin: Arc<User>,
}

/// Why a request has no user. Answered with 401 and the same body in all cases; the difference is for logs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unauthenticated {
    /// Nothing was presented and anonymous requests are refused. Health and version paths may still be served.
    #[error("no credentials")]
    NoCredentials,
    /// The bearer token belongs to nobody.
    #[error("invalid bearer token")]
    InvalidToken,
    /// The client certificate identifies nobody.
    #[error(transparent)]
    InvalidCertificate(#[from] CertificateFault),
}

impl Authenticator {
    /// An authenticator that knows `tokens` beside the certificates that connections bring.
    pub fn new(brand: &Brand, tokens: TokenTable, anonymous_access: AnonymousAccess) -> Authenticator {
        Authenticator {
            tokens,
            anonymous_access,
            credential_id_key: format!("authentication.{}/credential-id", brand.label_domain),
            anonymous: Arc::new(User::anonymous()),
            local_admin: Arc::new(User::local_admin()),
        }
    }

    /// The user behind a request.
    pub fn authenticate(&self, peer: &Peer, headers: &HeaderMap) -> Result<Arc<User>, Unauthenticated> {
        if let Some(Ok(certificate)) = &peer.certificate
            && !certificate.common_name.is_empty()
        {
            return Ok(Arc::clone(certificate.user.get_or_init(|| Arc::new(self.user_of(certificate)))));
        }
        if let Some(token) = bearer_token(headers) {
            return self.token_user(token).ok_or(Unauthenticated::InvalidToken);
        }
        if let Some(Err(fault)) = &peer.certificate {
            return Err(fault.clone().into());
        }
        match (peer.local_admin, self.anonymous_access) {
            (true, _) => Ok(Arc::clone(&self.local_admin)),
            (false, AnonymousAccess::Allowed) => Ok(Arc::clone(&self.anonymous)),
            (false, AnonymousAccess::Refused) => Err(Unauthenticated::NoCredentials),
        }
    }

    /// The user who holds `token`, for token reviews.
    fn token_user(&self, token: &[u8]) -> Option<Arc<User>> {
        self.tokens.user(token).cloned()
    }

    /// The user that requests without a credential act as, where they are served.
    pub fn anonymous(&self) -> &Arc<User> {
        &self.anonymous
    }

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

/// The token of an `Authorization: Bearer` header. Other schemes, and a bearer header without a token, count as no
/// credential at all, as the reference has it.
fn bearer_token(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(AUTHORIZATION)?.as_bytes().trim_ascii();
    let mut parts = value.splitn(3, |&byte| byte == b' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    (scheme.eq_ignore_ascii_case(b"bearer") && !token.is_empty()).then_some(token)
}
