//! Role-based access control.
//!
//! Owns the decision by the stored roles and bindings. It allows or has no opinion; it never denies.

mod escalation;
mod grant;
mod missing_role;
#[cfg(test)]
mod oracle;
mod policy;
mod resolved;
mod rules;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use futures::future::BoxFuture;
use orch_proto::Brand;

pub use self::escalation::{Uncovered, covers};
pub use self::grant::{Grant, RoleKey};
pub use self::policy::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, Policy, ROLE_BINDINGS, ROLES, Role};
use self::resolved::Resolved;
pub use self::rules::{ALL, Asked, PolicyRule, Rule, Sieve};
use super::review::UserRules;
use super::{Attributes, Authorizer, Deciding, Decision, Reason, decided};
use crate::authn::User;
use crate::follow::{Applied, Prepared};

/// Storage resources that the prepared policy is derived from.
pub(super) const SOURCES: [&str; 4] =
    [policy::CLUSTER_ROLES, policy::ROLES, policy::CLUSTER_ROLE_BINDINGS, policy::ROLE_BINDINGS];

/// Missing roles that a refusal names: enough to find the fault, and a bounded message.
const MISSING_MAX: usize = 8;

/// Decides by the stored roles and bindings.
pub struct Rbac {
    brand: &'static Brand,
    policy: Arc<Prepared<Policy>>,
}

impl Rbac {
    /// An authorizer over the roles of a cluster of `brand`.
    pub fn new(brand: &'static Brand) -> Rbac {
        Rbac { brand, policy: Arc::default() }
    }

    /// Roles and bindings as of `applied` or of a later state.
    pub fn policy(&self, applied: &Applied) -> Arc<Policy> {
        self.policy.at_least(applied)
    }

    fn ask(&self, user: &User, attributes: Attributes<'_>, applied: &Applied) -> Decision {
        let policy = self.policy(applied);
        let mut missing = Vec::new();
        if let Some(grant) = find(&policy, user, attributes, &mut missing) {
            return Decision::Allow(Reason::shared(&grant));
        }
        missing_role::log_missing_role(&policy, user, attributes);
        Decision::NoOpinion(self.remark(&missing))
    }

    /// What a refusal says of roles that bindings name and that do not exist.
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

/// The grant that allows `user` what `attributes` describe: of the first binding that does, that of the first subject.
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
        return Some(policy.first_of_binding(user, &found.grant));
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
        decided(self.ask(user, asked, applied))
    }

    fn prepare<'a>(&'a self, applied: &'a Applied) -> BoxFuture<'a, ()> {
        let (policy, applied) = (self.policy.clone(), applied.clone());
        Box::pin(async move {
            // An error means that the runtime ends.
            drop(tokio::task::spawn_blocking(move || policy.at_least(&applied)).await);
        })
    }

    fn rules_of(&self, user: &User, namespace: &str, applied: &Applied) -> UserRules {
        let mut all = UserRules::default();
        let mut missing = Vec::new();
        let mut seen = hashbrown::HashSet::new();
        self.policy(applied).visit(user, namespace, |grant, role| {
            // Several subjects of a binding may be the user; its rules count once.
            if !seen.insert(grant.binding().clone()) {
                return true;
            }
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
