//! The gate: authentication, impersonation and authorization of every path that needs credentials.
//!
//! Owns the order of the three. Invariant: the resource API and the node's own paths admit the same users by the same
//! rules.

mod catch_up;
mod counters;

use orch_proto::brand::API_AUDIENCE;
use std::fmt;
use std::sync::Arc;

use http::HeaderMap;
use orch_proto::Brand;
use orch_raft::Store;

use self::catch_up::CatchUp;
use self::counters::{count_authentication, count_ruling};
use crate::ambient::Timestamp;
use crate::authn::impersonate::{Impersonation, Mode};
use crate::authn::service_account::ServiceAccounts;
use crate::authn::websocket;
use crate::authn::{Authenticator, Credential, Holder, Moment, Peer, Unauthenticated, User, UserReporter};
use crate::authz::{self, Attributes, Authorizers, ResourceAttributes, Ruling};
use crate::error::ApiError;
use crate::exchange::Exchange;
use crate::follow::Applied;

/// The authenticator and the authorizers of a node.
pub struct Gate {
    brand: &'static Brand,
    authenticator: Authenticator,
    authorizers: Authorizers,
    service_accounts: Option<Arc<ServiceAccounts>>,
    catch_up: CatchUp,
}

/// The reason why a credential that was admitted once is not admitted now.
#[derive(Debug, thiserror::Error)]
pub enum NotAdmitted {
    /// It has ended (`Unauthorized`), or a right has (`Forbidden`).
    #[error(transparent)]
    Refused(ApiError),
    /// A server that authenticates or authorizes gives no answer; both may go on.
    #[error("not decided: {0}")]
    Undecided(String),
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").field("brand", &self.brand.name).finish_non_exhaustive()
    }
}

impl Gate {
    /// A gate over an authenticator and a chain of authorizers.
    pub fn new(brand: &'static Brand, authenticator: Authenticator, authorizers: Authorizers) -> Arc<Self> {
        let catch_up = CatchUp::default();
        Arc::new(Gate { brand, authenticator, authorizers, service_accounts: None, catch_up })
    }

    /// A gate with the built-in authorizers that admits and makes the tokens of service accounts, too.
    pub fn with_service_accounts(
        brand: &'static Brand,
        authenticator: Authenticator,
        accounts: Arc<ServiceAccounts>,
    ) -> Arc<Self> {
        let authenticator = authenticator.with(Box::new(accounts.clone()));
        let authorizers = Authorizers::builtin(brand);
        let (service_accounts, catch_up) = (Some(accounts), CatchUp::default());
        Arc::new(Gate { brand, authenticator, authorizers, service_accounts, catch_up })
    }

    /// A gate with the built-in authorizers.
    pub fn builtin(brand: &'static Brand, authenticator: Authenticator) -> Arc<Self> {
        Gate::new(brand, authenticator, Authorizers::builtin(brand))
    }

    /// Authenticates a request by `headers` and `peer`, held against the objects that `store` has applied by `now`. Stores
    /// the user in `exchange` and reports it to `admission`.
    ///
    /// # Errors
    /// `Unauthorized`: no valid credentials.
    pub async fn authenticate<S: Store>(
        &self,
        exchange: &Exchange,
        peer: Option<&Arc<Peer>>,
        headers: &HeaderMap,
        admission: Option<&UserReporter>,
        (store, now): (&S, Timestamp),
    ) -> Result<Arc<User>, ApiError> {
        let peer = peer.ok_or(ApiError::Unauthorized)?;
        let applied = Applied::of(store);
        let mut found = self
            .authenticator
            .authenticate(peer, headers, Moment { applied: &applied, now, remarks: exchange })
            .await;
        if let Err(Unauthenticated::Unseen { evidence, .. }) = &found
            && Box::pin(self.catch_up.run(store, *evidence, now)).await
        {
            let applied = Applied::of(store);
            found = self
                .authenticator
                .authenticate(peer, headers, Moment { applied: &applied, now, remarks: exchange })
                .await;
        }
        let found = found.map_err(Unauthenticated::into_fault);
        count_authentication(found.as_deref());
        let user = found.map_err(|error| {
            tracing::debug!(id = &*exchange.id(), %error, address = %peer.address, "request refused");
            ApiError::Unauthorized
        })?;
        if !self.authenticator.admits_at(&user, exchange.path()) {
            return Err(ApiError::Unauthorized);
        }
        if let Some(admission) = admission {
            admission.accept(&user);
        }
        exchange.set_user(user.clone());
        Ok(user)
    }

    /// Removes the headers of identity that `peer` may not send, and puts a token among the subprotocols of a WebSocket
    /// where the methods look for it. Before anything looks at the headers of a request.
    pub fn strip_identity(&self, peer: Option<&Arc<Peer>>, headers: &mut HeaderMap) {
        self.authenticator.strip(peer.map(AsRef::as_ref), headers);
        websocket::move_token(self.brand, headers);
    }

    /// The credential of a request with the stripped `headers`, authenticated as `user`.
    pub fn credential(&self, peer: &Arc<Peer>, headers: &HeaderMap, user: &Arc<User>) -> Credential {
        self.authenticator.credential(peer.clone(), headers, user.clone())
    }

    /// Checks that a request with this credential would still be let in, as the same user.
    ///
    /// # Errors
    /// The credential or a right has ended, or a server that has to be asked gives no answer.
    pub async fn admits_still(
        &self,
        credential: &Credential,
        attributes: Attributes<'_>,
        at: Moment<'_>,
    ) -> Result<(), NotAdmitted> {
        let headers = credential.headers();
        let user = match self.authenticator.authenticate(credential.peer(), headers, at).await {
            Ok(user) if credential.is_of(&user) => user,
            Ok(_) => return Err(NotAdmitted::Refused(ApiError::Unauthorized)),
            // The credential was good in the past of this node: there is nothing to catch up with.
            Err(error) => match error.into_fault() {
                Unauthenticated::Undecided(reason) => return Err(NotAdmitted::Undecided(reason)),
                _ => return Err(NotAdmitted::Refused(ApiError::Unauthorized)),
            },
        };
        let admitted = self.admit(&Exchange::internal(), user, headers, attributes, at.applied).await;
        admitted.map(drop).map_err(|error| match error {
            // An internal exchange has no event that may not be stored: the ruling failed.
            ApiError::Internal(reason) => NotAdmitted::Undecided(reason),
            error => NotAdmitted::Refused(error),
        })
    }

    /// The holder of a bearer token, for a review by `exchange` that asks for the audiences `wanted`, held against the objects that
    /// `store` has applied by `now`.
    ///
    /// # Errors
    /// The token is valid for no user.
    pub async fn review<S: Store>(
        &self,
        token: &[u8],
        wanted: &[String],
        exchange: &Exchange,
        (store, now): (&S, Timestamp),
    ) -> Result<Holder, Unauthenticated> {
        let applied = Applied::of(store);
        let mut found = self
            .authenticator
            .review(token, wanted, Moment { applied: &applied, now, remarks: exchange })
            .await;
        if let Err(Unauthenticated::Unseen { evidence, .. }) = &found
            && Box::pin(self.catch_up.run(store, *evidence, now)).await
        {
            let applied = Applied::of(store);
            found = self
                .authenticator
                .review(token, wanted, Moment { applied: &applied, now, remarks: exchange })
                .await;
        }
        found.map_err(Unauthenticated::into_fault)
    }

    /// The tokens of service accounts; `None` where this node has no key for them.
    pub fn service_accounts(&self) -> Option<&Arc<ServiceAccounts>> {
        self.service_accounts.as_ref()
    }

    /// Lets `user` do what `attributes` describe, as the user that the headers ask to act as, if any. Stores that user
    /// and the ruling in `exchange`. Returns the user that the request acts as.
    ///
    /// # Errors
    /// `BadRequest`: malformed headers of impersonation. `Forbidden` with the complete message. `Internal`: the event of
    /// the request's arrival is not stored, and no request may be carried out without it.
    pub async fn admit(
        &self,
        exchange: &Exchange,
        user: Arc<User>,
        headers: &HeaderMap,
        attributes: Attributes<'_>,
        applied: &Applied,
    ) -> Result<Arc<User>, ApiError> {
        if let Some(trail) = exchange.trail() {
            let received = trail.receive(&exchange.facts(), &user, headers, attributes).await;
            received.map_err(|error| ApiError::Internal(error.to_string()))?;
        }
        let user = match Impersonation::of(headers).map_err(ApiError::BadRequest)? {
            None => user,
            Some(asked) => {
                let (acting, mode) = Box::pin(self.impersonate(&user, asked, attributes, applied)).await?;
                exchange.set_impersonated(acting.clone());
                if let Some(trail) = exchange.trail() {
                    trail.record_constraint(mode.verb_on_identity());
                }
                acting
            }
        };
        let ruling = self.rule(&user, attributes, applied).await;
        count_ruling(&ruling);
        let checked = ruling.check(&user, attributes);
        exchange.set_ruling(ruling);
        checked.map(|()| user)
    }

    /// Rules whether `user` may do what `attributes` describe.
    pub async fn rule(&self, user: &User, attributes: Attributes<'_>, applied: &Applied) -> Ruling {
        self.authorizers.rule(user, attributes, applied).await
    }

    /// Checks that `user` may do what `asked` describes.
    ///
    /// # Errors
    /// `Forbidden` with the complete message.
    pub async fn check(
        &self,
        user: &User,
        asked: ResourceAttributes<'_>,
        applied: &Applied,
    ) -> Result<(), ApiError> {
        let attributes = Attributes::Resource(asked);
        self.rule(user, attributes, applied).await.check(user, attributes)
    }

    /// The audiences of this server.
    pub fn audiences(&self) -> Vec<String> {
        match &self.service_accounts {
            Some(accounts) => accounts.settings().audiences.clone(),
            None => vec![API_AUDIENCE.to_owned()],
        }
    }

    /// The authorizers.
    pub fn authorizers(&self) -> &Authorizers {
        &self.authorizers
    }

    /// The user that `requestor` acts as, and the mode in which it may.
    ///
    /// # Errors
    /// The refusal of the first mode.
    async fn impersonate(
        &self,
        requestor: &User,
        asked: Impersonation,
        attributes: Attributes<'_>,
        applied: &Applied,
    ) -> Result<(Arc<User>, Mode), ApiError> {
        let mut first = None;
        for mode in asked.modes(requestor, self.brand) {
            match self.may_impersonate(requestor, &asked, mode, attributes, applied).await {
                Ok(()) => return Ok((asked.into_user(mode), mode)),
                Err(refused) => first = first.or(Some(refused)),
            }
        }
        Err(first.unwrap_or(ApiError::Unauthorized))
    }

    async fn may_impersonate(
        &self,
        requestor: &User,
        asked: &Impersonation,
        mode: Mode,
        attributes: Attributes<'_>,
        applied: &Applied,
    ) -> Result<(), ApiError> {
        let on = match attributes {
            Attributes::Resource(asked) => mode.verb_on(asked.verb),
            Attributes::Path { verb, .. } => mode.verb_on(verb),
        };
        if let Some(verb) = &on {
            let attributes = match attributes {
                Attributes::Resource(asked) => Attributes::Resource(ResourceAttributes { verb, ..asked }),
                Attributes::Path { path, .. } => Attributes::Path { verb, path },
            };
            self.rule(requestor, attributes, applied).await.check(requestor, attributes)?;
        }
        let mut questions = asked.questions(mode, self.brand).into_iter();
        while let Some(question) = questions.next() {
            let asked = ResourceAttributes::from(&question);
            if let Some(reason) = &question.refusal {
                return Err(authz::forbidden(requestor, Attributes::Resource(asked), reason));
            }
            match self.check(requestor, asked, applied).await {
                Ok(()) => questions.by_ref().take(question.covers).for_each(drop),
                Err(_) if question.covers > 0 => {}
                Err(refused) => return Err(refused),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures::FutureExt;
    use http::{HeaderName, HeaderValue, Method};
    use orch_proto::brand::ORCH;
    use orch_raft::State;
    use orch_raft::memory::MemoryStore;

    use super::*;
    use crate::ambient::{Ambient, SystemAmbient};
    use crate::authn::{AnonymousAccess, TokenTable};
    use crate::authz::{Authorizer, Deciding, Decision, OnFailure, Reason, decided};

    /// The user that a request with these headers acts as, by the local administrator or without credentials, and the
    /// users reported to the listener.
    fn admitted(
        local_admin: bool,
        headers: &[(&'static str, &'static str)],
    ) -> (Result<String, ApiError>, Vec<String>) {
        let authenticator = Authenticator::new(&ORCH, TokenTable::default(), AnonymousAccess::Refused);
        let gate = Gate::builtin(&ORCH, authenticator);
        let peer = Arc::new(Peer {
            address: ([127, 0, 0, 1], 1).into(),
            certificate: None,
            local_admin,
            is_front_proxy: false,
        });
        let header = |&(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let headers: HeaderMap = headers.iter().map(header).collect();
        let told = Arc::new(Mutex::new(Vec::new()));
        let listener = told.clone();
        let admission =
            UserReporter::new(move |user: &User| listener.lock().unwrap().push(user.name.clone()));
        let exchange = Exchange::begin(&Method::GET, "/x", &headers, &SystemAmbient);
        let applied = Applied::certain(State::default().into());
        let path = Attributes::Path { verb: "get", path: "/x" };
        let at = (&MemoryStore::default(), SystemAmbient.now());
        let user = gate.authenticate(&exchange, Some(&peer), &headers, Some(&admission), at);
        let user = user.now_or_never().expect("nobody else is asked");
        let user = user.and_then(|user| {
            let admitted = gate.admit(&exchange, user, &headers, path, &applied);
            admitted.now_or_never().expect("nobody else is asked")
        });
        let told = told.lock().unwrap().clone();
        (user.map(|user| user.name.clone()), told)
    }

    #[test]
    fn impersonation_has_the_rights_of_the_other_user() {
        let admin = || vec!["system:admin".to_owned()];
        assert_eq!(admitted(true, &[]), (Ok("system:admin".to_owned()), admin()));
        assert_eq!(admitted(false, &[]), (Err(ApiError::Unauthorized), vec![]));
        let (refused, told) = admitted(true, &[("impersonate-user", "ann")]);
        let text = refused.unwrap_err().to_string();
        assert_eq!(text, r#"forbidden: User "ann" cannot get path "/x""#);
        assert_eq!(told, admin(), "the listener knows whose connection it is");
        let master = [("impersonate-user", "ann"), ("impersonate-group", "system:masters")];
        assert_eq!(admitted(true, &master).0, Ok("ann".to_owned()));
        for header in ["impersonate-group", "impersonate-extra-x", "impersonate-anything"] {
            let (refused, _) = admitted(true, &[(header, "x")]);
            assert!(matches!(refused, Err(ApiError::BadRequest(_))), "{header}: {refused:?}");
        }
    }
    /// Decides every request alike.
    struct Always(Decision);

    impl Authorizer for Always {
        fn name(&self) -> &'static str {
            "always"
        }

        fn decide<'a>(&'a self, _: &'a User, _: Attributes<'a>, _: &'a Applied) -> Deciding<'a> {
            decided(self.0.clone())
        }
    }

    #[test]
    fn an_authorizer_without_an_answer_refuses_no_credential() {
        let failed = |then| Decision::Failed { then, reason: String::new(), error: "no answer".to_owned() };
        let refused = r#"forbidden: User "system:admin" cannot get path "/x""#;
        for (decision, expected) in [
            (Decision::Allow(Reason::default()), None),
            (Decision::NoOpinion(String::new()), Some(refused)),
            (failed(OnFailure::NoOpinion), Some("not decided: no answer")),
            (failed(OnFailure::Deny), Some("not decided: no answer")),
        ] {
            let authenticator = Authenticator::new(&ORCH, TokenTable::default(), AnonymousAccess::Refused);
            let authorizers = Authorizers::new(vec![Box::new(Always(decision))]);
            let gate = Gate::new(&ORCH, authenticator, authorizers);
            let peer = Arc::new(Peer {
                address: ([127, 0, 0, 1], 1).into(),
                certificate: None,
                local_admin: true,
                is_front_proxy: false,
            });
            let credential = gate.credential(&peer, &HeaderMap::new(), &Arc::new(User::local_admin()));
            let applied = Applied::certain(State::default().into());
            let at = Moment { applied: &applied, now: SystemAmbient.now(), remarks: &Exchange::internal() };
            let asked = gate.admits_still(&credential, Attributes::Path { verb: "get", path: "/x" }, at);
            let found = asked.now_or_never().expect("nobody else is asked");
            let text = found.err().map(|error| error.to_string());
            assert_eq!(text.as_deref(), expected);
        }
    }
}
