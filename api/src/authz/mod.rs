//! Authorization.
//!
//! Owns the chain of authorizers. Each authorizer allows, denies, or has no opinion. The first opinion decides; without
//! one the request is forbidden. All of them see one state of the store: the one that the request was authorized at.

mod attributes;
mod decision;
pub mod node;
pub mod rbac;
pub mod review;

use futures::future::{BoxFuture, Either, Ready, ready};
use orch_proto::Brand;

pub use self::attributes::{Asked, Attributes, ResourceAttributes};
pub use self::decision::{Decision, Reason, Ruling};
use self::review::UserRules;
use crate::authn::{GROUP_MASTERS, User};
use crate::follow::Applied;

/// An authorizer's decision: ready, or a future that waits for another server. One that is ready allocates nothing.
pub type Deciding<'a> = Either<Ready<Decision>, BoxFuture<'a, Decision>>;

/// A decision that is known at once.
pub fn decided<'a>(decision: Decision) -> Deciding<'a> {
    Either::Left(ready(decision))
}

/// Decides on requests.
pub trait Authorizer: Send + Sync {
    /// The authorizer's name in logs.
    fn name(&self) -> &'static str;

    /// Whether `user` may do what `attributes` describe, by the rules stored in `applied`.
    fn decide<'a>(&'a self, user: &'a User, attributes: Attributes<'a>, applied: &'a Applied)
    -> Deciding<'a>;

    /// The rules of `user` in `namespace`, and for paths. By default they cannot be listed.
    fn rules_of(&self, _user: &User, _namespace: &str, _applied: &Applied) -> UserRules {
        let faults = vec![format!("{} does not support user rule resolution", self.name())];
        UserRules { is_incomplete: true, faults, ..UserRules::default() }
    }
}

/// The chain of authorizers, in the order in which they are asked.
pub struct Authorizers(Vec<Box<dyn Authorizer>>);

impl Authorizers {
    /// A chain of these authorizers, asked in this order.
    pub fn new(authorizers: Vec<Box<dyn Authorizer>>) -> Self {
        Authorizers(authorizers)
    }

    /// The built-in authorizers.
    pub fn builtin(brand: &'static Brand) -> Self {
        Authorizers::new(vec![
            Box::new(Masters),
            Box::new(node::NodeAuthorizer::new(brand)),
            Box::new(rbac::Rbac::new(brand)),
        ])
    }

    /// Rules whether `user` may do what `attributes` describe.
    pub async fn rule(&self, user: &User, attributes: Attributes<'_>, applied: &Applied) -> Ruling {
        let mut remarks = String::new();
        for authorizer in &self.0 {
            let by = authorizer.name();
            match authorizer.decide(user, attributes, applied).await {
                Decision::Allow(reason) => return Ruling::Allowed { by, reason },
                Decision::Deny(reason) => return Ruling::Denied { by, reason },
                Decision::NoOpinion(remark) if remark.is_empty() => {}
                Decision::NoOpinion(remark) => {
                    if !remarks.is_empty() {
                        remarks.push('\n');
                    }
                    remarks.push_str(&remark);
                }
            }
        }
        Ruling::NoOpinion(remarks)
    }

    /// The rules of `user` in `namespace`, those of all authorizers together.
    pub fn rules_of(&self, user: &User, namespace: &str, applied: &Applied) -> UserRules {
        let mut all = UserRules::default();
        for authorizer in &self.0 {
            let UserRules { rules, is_incomplete, faults } = authorizer.rules_of(user, namespace, applied);
            all.rules.extend(rules);
            all.is_incomplete |= is_incomplete;
            all.faults.extend(faults);
        }
        all
    }
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

    fn rules_of(&self, user: &User, _namespace: &str, _applied: &Applied) -> UserRules {
        if user.is_in_group(GROUP_MASTERS) { UserRules::all() } else { UserRules::default() }
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
        for (decisions, expected) in [
            (vec![], Err("")),
            (vec![silent(), allow(), denied()], Ok(())),
            (vec![remark("no role"), denied(), allow()], Err(": not today")),
            (vec![remark("no role"), silent(), remark("no rule")], Err(": no role\nno rule")),
        ] {
            let boxed = |decision: &Decision| Box::new(Always(decision.clone())) as Box<dyn Authorizer>;
            let chain = Authorizers::new(decisions.iter().map(boxed).collect());
            let path = Attributes::Path { verb: "get", path: "/x" };
            let said = ruled(&chain, &alice(), "/x").check(&alice(), path).map_err(|error| error.to_string());
            let refused = |end| format!(r#"forbidden: User "alice" cannot get path "/x"{end}"#);
            assert_eq!(said, expected.map_err(refused), "{decisions:?}");
        }
    }
}
