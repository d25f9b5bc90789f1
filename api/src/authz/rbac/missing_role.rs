//! Tells operators which role a refused user lacks.
//!
//! Owns the search for roles that would allow a request, and its log line. It runs only where that line is logged
//! (`--v 4`), since it looks at every role. Nothing of it reaches the client.

use orch_schema::excerpt::part;

use super::policy::Policy;
use super::rules::Asked;
use crate::authn::User;
use crate::authz::Attributes;

/// Roles that the line names: the narrowest are not known, and a few show where to look.
const ROLES_MAX: usize = 3;

/// Logs roles that would allow `user` what `attributes` describe.
pub(super) fn log_missing_role(policy: &Policy, user: &User, attributes: Attributes<'_>) {
    if !tracing::enabled!(tracing::Level::DEBUG) {
        return;
    }
    let roles = roles_that_allow(policy, attributes);
    // Clients choose these texts, in reviews of any length.
    let user = &*part(&user.name);
    match attributes {
        Attributes::Path { verb, path } => {
            let path = &*part(path);
            tracing::debug!(user, verb, path, ?roles, "no binding allows it; these roles would");
        }
        Attributes::Resource(asked) => {
            let (verb, group, namespace) = (asked.verb, &*part(asked.group), &*part(asked.namespace));
            let resource = asked.qualified();
            let resource = &*part(&resource);
            tracing::debug!(
                user,
                verb,
                group,
                resource,
                namespace,
                ?roles,
                "no binding allows it; these roles would"
            );
        }
    }
}

/// At most [`ROLES_MAX`] roles that allow it: of the namespace first, then of the cluster.
fn roles_that_allow(policy: &Policy, attributes: Attributes<'_>) -> Vec<String> {
    let (qualified, namespace) = match attributes {
        Attributes::Resource(asked) => (asked.qualified(), asked.namespace),
        Attributes::Path { .. } => (String::new(), ""),
    };
    let asked = Asked::new(attributes, &qualified);
    let mut found: Vec<String> = Vec::new();
    for scope in [Some(namespace).filter(|namespace| !namespace.is_empty()), Some("")].into_iter().flatten() {
        for ((of, name), role) in policy.roles() {
            if of != scope || found.len() == ROLES_MAX {
                continue;
            }
            if role.allows(&asked) {
                let kind = if of.is_empty() { "ClusterRole" } else { "Role" };
                found.push(format!("{kind} {name:?}"));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::Cluster;
    use super::super::{CLUSTER_ROLES, ROLES};
    use super::*;
    use crate::authz::ResourceAttributes;

    #[test]
    fn roles_of_the_namespace_and_of_the_cluster_are_named() {
        let mut cluster = Cluster::default();
        let pods = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]);
        cluster.write(CLUSTER_ROLES, "view", Some(json!({"rules": pods})));
        cluster.write(CLUSTER_ROLES, "other", Some(json!({"rules": []})));
        cluster.write(ROLES, "n/reader", Some(json!({"rules": pods})));
        cluster.write(ROLES, "m/reader", Some(json!({"rules": pods})));
        let asked =
            ResourceAttributes { verb: "get", resource: "pods", namespace: "n", ..Default::default() };
        let found = roles_that_allow(cluster.policy(), Attributes::Resource(asked));
        assert_eq!(found, ["Role \"reader\"", "ClusterRole \"view\""]);
        let deletion = Attributes::Resource(ResourceAttributes { verb: "delete", ..asked });
        assert_eq!(roles_that_allow(cluster.policy(), deletion), Vec::<String>::new());
    }
}
