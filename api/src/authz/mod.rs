//! Authorization.
//!
//! Owns the chain of authorizers. Each authorizer allows, denies, or has no opinion. The first opinion decides; without
//! one the request is forbidden. All of them see one state of the store: the one that the request was authorized at.

mod attributes;
mod conditions;
mod decision;
mod kept;
pub mod modes;
pub mod node;
pub mod rbac;
pub mod review;
pub mod webhook;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::{BoxFuture, Either, Ready, ready};
use orch_proto::Brand;
use orch_raft::Store;
use parking_lot::RwLock;

pub(crate) use self::attributes::forbidden;
pub use self::attributes::{Asked, Attributes, ResourceAttributes};
pub use self::conditions::Conditions;
pub use self::decision::{Decision, OnFailure, Reason, Ruling};
pub use self::kept::KeptAttributes;
use self::modes::Mode;
use self::review::UserRules;
use crate::authn::{GROUP_MASTERS, User};
use crate::follow::{Applied, any_changed};

/// Time between two turns of [`Authorizers::keep_prepared`]: requests take in what has changed meanwhile, some hundred
/// changes on a busy cluster.
const PREPARE_PERIOD: Duration = Duration::from_millis(50);

/// An authorizer's decision: ready, or a future that waits for another server. One that is ready allocates nothing.
pub type Deciding<'a> = Either<Ready<Decision>, BoxFuture<'a, Decision>>;

/// A decision that is known at once.
pub fn decided<'a>(decision: Decision) -> Deciding<'a> {
    Either::Left(ready(decision))
}

/// The rules of a user, once what they are derived from is up to date.
pub type Listing<'a> = BoxFuture<'a, UserRules>;

/// Rules that are known at once.
pub fn listed<'a>(rules: UserRules) -> Listing<'a> {
    Box::pin(ready(rules))
}

/// Decides on requests.
pub trait Authorizer: Send + Sync {
    /// The authorizer's name in logs.
    fn name(&self) -> &'static str;

    /// Whether `user` may do what `attributes` describe, by the rules stored in `applied`.
    fn decide<'a>(&'a self, user: &'a User, attributes: Attributes<'a>, applied: &'a Applied)
    -> Deciding<'a>;

    /// The rules of `user` in `namespace`, and for paths. By default they cannot be listed.
    fn rules_of<'a>(&'a self, _user: &'a User, _namespace: &'a str, _applied: &'a Applied) -> Listing<'a> {
        let faults = vec![format!("{} does not support user rule resolution", self.name())];
        listed(UserRules { is_incomplete: true, faults, ..UserRules::default() })
    }

    /// Brings what the authorizer derives from stored objects up to `applied`, away from the requests that will need it. By
    /// default it derives nothing.
    fn prepare<'a>(&'a self, _applied: &'a Applied) -> BoxFuture<'a, ()> {
        Box::pin(ready(()))
    }
}

impl<T: Authorizer + ?Sized> Authorizer for Arc<T> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn decide<'a>(
        &'a self,
        user: &'a User,
        attributes: Attributes<'a>,
        applied: &'a Applied,
    ) -> Deciding<'a> {
        (**self).decide(user, attributes, applied)
    }

    fn rules_of<'a>(&'a self, user: &'a User, namespace: &'a str, applied: &'a Applied) -> Listing<'a> {
        (**self).rules_of(user, namespace, applied)
    }

    fn prepare<'a>(&'a self, applied: &'a Applied) -> BoxFuture<'a, ()> {
        (**self).prepare(applied)
    }
}

/// Authorizers in the order in which they are asked.
type Chain = Arc<[Box<dyn Authorizer>]>;

/// The chain of authorizers. It can be replaced; a request is ruled on by the chain that it began with.
pub struct Authorizers {
    chain: RwLock<Chain>,
    /// The Node authorizer with its prepared graph, which stays while chains come and go.
    node: Option<Arc<node::NodeAuthorizer>>,
    /// RBAC with its prepared rules, which stay as well.
    rbac: Option<Arc<rbac::Rbac>>,
    /// Everything was prepared once.
    is_prepared: AtomicBool,
}

impl Authorizers {
    /// A chain of these authorizers, asked in this order. It is not meant to be replaced: it knows neither nodes nor RBAC.
    pub fn new(authorizers: Vec<Box<dyn Authorizer>>) -> Self {
        Authorizers {
            chain: RwLock::new(authorizers.into()),
            node: None,
            rbac: None,
            is_prepared: AtomicBool::new(false),
        }
    }

    /// The built-in authorizers: `Node,RBAC`.
    pub fn builtin(brand: &'static Brand) -> Self {
        let own = Authorizers {
            chain: RwLock::new(Arc::new([])),
            node: Some(Arc::new(node::NodeAuthorizer::new(brand))),
            rbac: Some(Arc::new(rbac::Rbac::new(brand))),
            is_prepared: AtomicBool::new(false),
        };
        own.replace(modes::default_modes());
        own
    }

    /// Asks the authorizers of `modes` from now on, in this order, and before all of them whether the user is of
    /// `system:masters`.
    pub fn replace(&self, modes: Vec<Mode>) {
        let others = modes.into_iter().filter_map(|mode| self.authorizer(mode));
        let masters: Box<dyn Authorizer> = Box::new(Masters);
        let chain: Vec<_> = std::iter::once(masters).chain(others).collect();
        *self.chain.write() = chain.into();
    }

    /// The authorizer of `mode`; `None` where it would have no opinion on anything.
    fn authorizer(&self, mode: Mode) -> Option<Box<dyn Authorizer>> {
        match mode {
            Mode::Node => self.node.clone().map(|node| Box::new(node) as Box<dyn Authorizer>),
            Mode::Rbac => self.rbac.clone().map(|rbac| Box::new(rbac) as Box<dyn Authorizer>),
            Mode::Webhook(webhook) => Some(webhook),
            Mode::AlwaysAllow => Some(Box::new(modes::AlwaysAllow)),
            Mode::AlwaysDeny => Some(Box::new(modes::AlwaysDeny)),
        }
    }

    fn chain(&self) -> Chain {
        self.chain.read().clone()
    }

    /// Rules whether `user` may do what `attributes` describe.
    pub async fn rule(&self, user: &User, attributes: Attributes<'_>, applied: &Applied) -> Ruling {
        let chain = self.chain();
        let mut remarks = String::new();
        let mut errors: Vec<String> = Vec::new();
        for authorizer in chain.iter() {
            let by = authorizer.name();
            match authorizer.decide(user, attributes, applied).await {
                Decision::Allow(reason) => return Ruling::Allowed { by, reason },
                Decision::Deny(reason) => return Ruling::Denied { by, reason },
                Decision::NoOpinion(remark) => add_line(&mut remarks, &remark),
                Decision::Failed { then: OnFailure::Deny, reason, error } => {
                    return Ruling::Failed { denied_by: Some(by), reason, error };
                }
                Decision::Failed { then: OnFailure::NoOpinion, reason, error } => {
                    add_line(&mut remarks, &reason);
                    errors.push(error);
                }
            }
        }
        match &errors[..] {
            [] => Ruling::NoOpinion(remarks),
            [one] => Ruling::Failed { denied_by: None, reason: remarks, error: one.clone() },
            many => {
                Ruling::Failed { denied_by: None, reason: remarks, error: format!("[{}]", many.join(", ")) }
            }
        }
    }

    /// Brings what the authorizers derive from stored objects up to the state of `store`, again and again after its changes.
    /// Never completes.
    pub async fn keep_prepared<S: Store>(&self, store: &S) {
        let sources = node::SOURCES.into_iter().chain(rbac::SOURCES);
        let mut changed: Vec<_> = sources.map(|source| store.subscribe(&Arc::from(source))).collect();
        loop {
            let applied = Applied::of(store);
            for authorizer in self.chain().iter() {
                authorizer.prepare(&applied).await;
            }
            drop(applied);
            self.is_prepared.store(true, Ordering::Relaxed);
            any_changed(&mut changed).await;
            store.sleep(PREPARE_PERIOD).await;
        }
    }

    /// Whether [`Authorizers::keep_prepared`] has prepared everything once: before, requests may have to wait for that.
    pub fn are_prepared(&self) -> bool {
        self.is_prepared.load(Ordering::Relaxed)
    }

    /// The rules of `user` in `namespace`, those of all authorizers together.
    pub async fn rules_of(&self, user: &User, namespace: &str, applied: &Applied) -> UserRules {
        let mut all = UserRules::default();
        for authorizer in self.chain().iter() {
            let UserRules { rules, roles, is_incomplete, faults } =
                authorizer.rules_of(user, namespace, applied).await;
            all.rules.extend(rules);
            all.roles.extend(roles);
            all.is_incomplete |= is_incomplete;
            all.faults.extend(faults);
        }
        all
    }
}

/// Appends `line` to `text`, unless it is empty.
fn add_line(text: &mut String, line: &str) {
    if line.is_empty() {
        return;
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

/// Members of `system:masters` may do everything, so that administrators keep access when rules have shut out every
/// user.
struct Masters;

impl Authorizer for Masters {
    fn name(&self) -> &'static str {
        "masters"
    }

    fn decide<'a>(&'a self, user: &'a User, _asked: Attributes<'a>, _applied: &'a Applied) -> Deciding<'a> {
        decided(if user.is_in_group(GROUP_MASTERS) {
            Decision::Allow(Reason::default())
        } else {
            Decision::NoOpinion(String::new())
        })
    }

    /// None of its own, as in the reference: the role that is bound to the group by default says the same.
    fn rules_of<'a>(&'a self, _user: &'a User, _namespace: &'a str, _applied: &'a Applied) -> Listing<'a> {
        listed(UserRules::default())
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use orch_proto::brand::ORCH;
    use orch_raft::State;

    use super::*;

    fn alice() -> User {
        User { name: "alice".to_owned(), groups: vec!["devs".to_owned()], ..User::default() }
    }

    fn ruled(chain: &Authorizers, user: &User, path: &str) -> Ruling {
        let applied = Applied::certain(State::default().into());
        let attributes = Attributes::Path { verb: "get", path };
        chain.rule(user, attributes, &applied).now_or_never().expect("nobody else is asked")
    }

    #[test]
    fn masters_may_do_everything() {
        let admin = User { groups: vec![GROUP_MASTERS.to_owned()], ..alice() };
        let ruling = ruled(&Authorizers::builtin(&ORCH), &admin, "/");
        assert!(ruling.is_allowed());
        assert_eq!(ruling.to_string(), "allowed by masters");
        assert!(!ruled(&Authorizers::builtin(&ORCH), &alice(), "/").is_allowed());
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
    fn the_first_opinion_decides_and_without_one_it_is_forbidden() {
        let allow = || Decision::Allow(Reason::default());
        let denied = || Decision::Deny("not today".to_owned());
        let silent = || Decision::NoOpinion(String::new());
        let remark = |text: &str| Decision::NoOpinion(text.to_owned());
        let failed =
            |then| Decision::Failed { then, reason: "unsure".to_owned(), error: "no answer".to_owned() };
        for (decisions, expected) in [
            (vec![], Err("")),
            (vec![silent(), allow(), denied()], Ok(())),
            (vec![remark("no role"), denied(), allow()], Err(": not today")),
            (vec![remark("no role"), silent(), remark("no rule")], Err(": no role\nno rule")),
            (vec![failed(OnFailure::NoOpinion), allow()], Ok(())),
        ] {
            let boxed = |decision: &Decision| Box::new(Always(decision.clone())) as Box<dyn Authorizer>;
            let chain = Authorizers::new(decisions.iter().map(boxed).collect());
            let path = Attributes::Path { verb: "get", path: "/x" };
            let said = ruled(&chain, &alice(), "/x").check(&alice(), path).map_err(|error| error.to_string());
            let refused = |end| format!(r#"forbidden: User "alice" cannot get path "/x"{end}"#);
            assert_eq!(said, expected.map_err(refused), "{decisions:?}");
        }
    }
    #[test]
    fn a_failure_without_a_permission_is_an_error_and_no_refusal() {
        let failed =
            |then| Decision::Failed { then, reason: "unsure".to_owned(), error: "no answer".to_owned() };
        let silent = || Decision::NoOpinion("no role".to_owned());
        for (decisions, is_denied, reason, error) in [
            (vec![failed(OnFailure::NoOpinion), silent()], false, "unsure\nno role", "no answer"),
            (
                vec![failed(OnFailure::NoOpinion), failed(OnFailure::NoOpinion)],
                false,
                "unsure\nunsure",
                "[no answer, no answer]",
            ),
            (vec![failed(OnFailure::Deny), Decision::Allow(Reason::default())], true, "unsure", "no answer"),
        ] {
            let boxed = |decision: &Decision| Box::new(Always(decision.clone())) as Box<dyn Authorizer>;
            let ruling = ruled(&Authorizers::new(decisions.iter().map(boxed).collect()), &alice(), "/x");
            let found = (ruling.is_denied(), ruling.reason(), ruling.error());
            assert_eq!(found, (is_denied, reason.to_owned(), Some(error)), "{decisions:?}");
            let refused = ruling.check(&alice(), Attributes::Path { verb: "get", path: "/x" }).unwrap_err();
            assert!(matches!(refused, crate::error::ApiError::Internal(_)), "{refused}");
        }
    }

    #[test]
    fn a_chain_can_be_replaced() {
        let chain = Authorizers::builtin(&ORCH);
        let admin = User { groups: vec![GROUP_MASTERS.to_owned()], ..alice() };
        for (modes, others) in [(vec![Mode::AlwaysAllow], true), (vec![Mode::AlwaysDeny, Mode::Rbac], false)]
        {
            chain.replace(modes);
            assert_eq!(ruled(&chain, &alice(), "/x").is_allowed(), others);
            assert!(ruled(&chain, &admin, "/x").is_allowed(), "masters come before all modes");
        }
    }
}
