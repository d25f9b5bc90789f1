//! The gate: authentication and authorization of every path that needs credentials.
//!
//! Invariant: the resource API and the node's own paths admit the same users by the same rules.

use std::sync::Arc;

use http::HeaderMap;

use crate::authn::{Authenticator, Peer, User, UserReporter};
use crate::authz::{Attributes, Authorizers};
use crate::error::ApiError;
use crate::exchange::Exchange;

/// The authenticator and the authorizers of a node.
pub struct Gate {
    authenticator: Authenticator,
    authorizers: Authorizers,
}

impl Gate {
    /// A gate over an authenticator and a chain of authorizers.
    pub fn new(authenticator: Authenticator, authorizers: Authorizers) -> Arc<Self> {
        Arc::new(Gate { authenticator, authorizers })
    }

    /// Authenticates a request by `headers` and `peer`. Stores the user in `exchange` and reports it to `admission`.
    ///
    /// # Errors
    /// `Unauthorized`: no valid credentials. `Forbidden`: the request has impersonation headers. Impersonation is not
    /// supported, and such a request must not run with the sender's own rights.
    pub fn enter(
        &self,
        exchange: &Exchange,
        peer: Option<&Arc<Peer>>,
        headers: &HeaderMap,
        admission: Option<&UserReporter>,
    ) -> Result<Arc<User>, ApiError> {
        let peer = peer.ok_or(ApiError::Unauthorized)?;
        let user = self.authenticator.authenticate(peer, headers).map_err(|error| {
            tracing::debug!(id = %exchange.id(), %error, address = %peer.address, "request refused");
            ApiError::Unauthorized
        })?;
        if let Some(admission) = admission {
            admission.accept(&user);
        }
        exchange.set_user(user.clone());
        match headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
            true => Err(ApiError::impersonation(&user.name)),
            false => Ok(user),
        }
    }

    /// Asks the authorizers whether `user` may do what `attributes` describe, and stores the ruling in `exchange`.
    ///
    /// # Errors
    /// `Forbidden` with the complete message.
    pub fn authorize(
        &self,
        exchange: &Exchange,
        user: &User,
        attributes: Attributes<'_>,
    ) -> Result<(), ApiError> {
        let ruling = self.authorizers.rule(user, attributes);
        let checked = ruling.check(user, attributes);
        exchange.set_ruling(ruling);
        checked
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use http::{HeaderName, HeaderValue, Method};
    use orch_proto::brand::ORCH;

    use super::*;
    use crate::ambient::SystemAmbient;
    use crate::authn::{AnonymousAccess, TokenTable};

    /// The outcome of a request with these headers, by the local administrator or without credentials, and the users
    /// reported to the listener.
    fn entered(
        local_admin: bool,
        headers: &[(&'static str, &'static str)],
    ) -> (Result<String, ApiError>, Vec<String>) {
        let authenticator = Authenticator::new(&ORCH, TokenTable::default(), AnonymousAccess::Refused);
        let gate = Gate::new(authenticator, Authorizers::builtin());
        let peer = Arc::new(Peer { address: ([127, 0, 0, 1], 1).into(), certificate: None, local_admin });
        let header = |&(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let headers: HeaderMap = headers.iter().map(header).collect();
        let told = Arc::new(Mutex::new(Vec::new()));
        let listener = told.clone();
        let admission =
            UserReporter::new(move |user: &User| listener.lock().unwrap().push(user.name.clone()));
        let exchange = Exchange::begin(&Method::GET, "/x", &headers, &SystemAmbient);
        let user = gate.enter(&exchange, Some(&peer), &headers, Some(&admission));
        let told = told.lock().unwrap().clone();
        (user.map(|user| user.name.clone()), told)
    }

    #[test]
    fn nobody_acts_as_another_with_the_own_rights() {
        let admin = || vec!["system:admin".to_owned()];
        assert_eq!(entered(true, &[]), (Ok("system:admin".to_owned()), admin()));
        assert_eq!(entered(false, &[]), (Err(ApiError::Unauthorized), vec![]));
        for header in ["impersonate-user", "impersonate-group", "impersonate-extra-x"] {
            let (refused, told) = entered(true, &[(header, "x")]);
            assert!(matches!(refused, Err(ApiError::Forbidden { .. })), "{header}: {refused:?}");
            assert_eq!(told, admin(), "the listener knows whose connection it is");
        }
    }
}
