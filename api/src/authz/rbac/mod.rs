//! Role-based access control.
//!
//! Owns the decision by the stored roles and bindings. It allows or has no opinion; it never denies.

pub(crate) mod default_roles;
mod escalation;
mod grant;
mod holders;
mod missing_role;
#[cfg(test)]
mod oracle;
mod policy;
mod policy_rule;
mod resolved;
mod rules;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures::future::{BoxFuture, Either};
use orch_proto::Brand;

pub use self::escalation::{Uncovered, covers};
pub use self::grant::{Binding, Grant, RoleKey};
pub(crate) use self::policy::SOURCES;
pub use self::policy::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, Policy, ROLE_BINDINGS, ROLES, Role};
pub use self::policy_rule::PolicyRule;
use self::resolved::Resolved;
pub use self::rules::{ALL, Asked, Rules, Sieve};
use super::review::UserRules;
use super::{Attributes, Authorizer, Deciding, Decision, Listing, Reason, decided};
use crate::authn::User;
use crate::follow::{Applied, Maintained};

/// Missing roles that a refusal names: enough to find the fault, and a bounded message.
const MISSING_MAX: usize = 8;

/// Decides by the stored roles and bindings.
pub struct Rbac {
    brand: &'static Brand,
    policy: Maintained<Policy>,
}

impl Rbac {
    /// An authorizer over the roles of a cluster of `brand`.
    pub fn new(brand: &'static Brand) -> Rbac {
        Rbac { brand, policy: Maintained::default() }
    }

    fn ask(&self, policy: &Policy, user: &User, attributes: Attributes<'_>) -> Decision {
        let mut missing = Vec::new();
        if let Some(grant) = find(policy, user, attributes, &mut missing) {
            return Decision::Allow(Reason::shared(&grant));
        }
        missing_role::log_missing_role(policy, user, attributes);
        Decision::NoOpinion(self.remark(&missing))
    }

    /// The text in a refusal about `missing`, roles that bindings name and that do not exist; empty where there are none.
    fn remark(&self, missing: &[RoleKey]) -> String {
        if missing.is_empty() {
            return String::new();
        }
        let texts: Vec<String> = missing.iter().map(|role| self.not_found(role)).collect();
        match &texts[..] {
            [one] => format!("RBAC: {one}"),
            many => format!("RBAC: [{}]", many.join(", ")),
        }
    }

    fn not_found(&self, (namespace, name): &RoleKey) -> String {
        let kind = if namespace.is_empty() { "clusterrole" } else { "role" };
        format!("{kind}.{} {name:?} not found", self.brand.group("rbac.authorization"))
    }
}

/// The first grant that allows `user` what `attributes` describe.
/// Roles that were not found are added to `missing`.
fn find(
    policy: &Policy,
    user: &User,
    attributes: Attributes<'_>,
    missing: &mut Vec<RoleKey>,
) -> Option<Arc<Grant>> {
    let (qualified, namespace) = match attributes {
        Attributes::Resource(asked) if asked.subresource.is_empty() => (None, asked.namespace),
        Attributes::Resource(asked) => (Some(asked.qualified()), asked.namespace),
        Attributes::Path { .. } => (None, ""),
    };
    let qualified = match (&qualified, attributes) {
        (Some(qualified), _) => qualified.as_str(),
        (None, Attributes::Resource(asked)) => asked.resource,
        (None, Attributes::Path { .. }) => "",
    };
    let asked = Asked::new(attributes, qualified);
    let grants = policy.resolved(user, namespace);
    if let Some(found) = grants.iter().find(|grant| grant.allows(&asked)) {
        return Some(found.grant.clone());
    }
    for Resolved { grant, .. } in grants.iter().filter(|grant| grant.role.is_none()) {
        if missing.len() < MISSING_MAX && !missing.contains(grant.role()) {
            missing.push(grant.role().clone());
        }
    }
    None
}

impl Authorizer for Rbac {
    fn name(&self) -> &'static str {
        "RBAC"
    }

    fn decide<'a>(&'a self, user: &'a User, asked: Attributes<'a>, applied: &'a Applied) -> Deciding<'a> {
        match self.policy.try_read(applied, |policy| self.ask(policy, user, asked)) {
            Some(decision) => decided(decision),
            None => Either::Right(Box::pin(
                self.policy.read(applied, move |policy| self.ask(policy, user, asked)),
            )),
        }
    }

    fn prepare<'a>(&'a self, applied: &'a Applied) -> BoxFuture<'a, ()> {
        Box::pin(self.policy.catch_up(applied))
    }

    fn rules_of<'a>(&'a self, user: &'a User, namespace: &'a str, applied: &'a Applied) -> Listing<'a> {
        Box::pin(self.policy.read(applied, move |policy| self.rules_in(policy, user, namespace)))
    }
}

impl Rbac {
    fn rules_in(&self, policy: &Policy, user: &User, namespace: &str) -> UserRules {
        let mut all = UserRules::default();
        let mut missing = Vec::new();
        policy.visit(user, namespace, |grant, role| {
            match role {
                Some(role) => all.roles.push(role.clone()),
                None if missing.len() < MISSING_MAX && !missing.contains(grant.role()) => {
                    missing.push(grant.role().clone());
                }
                None => {}
            }
            true
        });
        if !missing.is_empty() {
            // As in the reference, the rules that were found are all that count.
            all.faults = missing.iter().map(|role| self.not_found(role)).collect();
        }
        all
    }
}
