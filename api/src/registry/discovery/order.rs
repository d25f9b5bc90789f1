//! The order of groups, versions and resources in discovery.
//!
//! Clients rely on it: a short name that two groups share means the first group's, and the first version of a group is
//! the preferred one.

use std::sync::Arc;

use orch_proto::Brand;
use orch_rules::kinds::defined::version_order;
use orch_schema::Subresource;

use crate::registry::{Group, GroupVersion, Resource};

/// Stems of the built-in groups in the reference's order. Other groups follow by name.
const GROUPS: [&str; 22] = [
    "",
    "apiregistration",
    "apps",
    "events",
    "authentication",
    "authorization",
    "autoscaling",
    "batch",
    "certificates",
    "networking",
    "policy",
    "rbac.authorization",
    "storage",
    "admissionregistration",
    "apiextensions",
    "scheduling",
    "coordination",
    "node",
    "discovery",
    "resource",
    "flowcontrol.apiserver",
    "internal.apiserver",
];

/// Brings groups into their order.
pub(in crate::registry) fn groups(groups: &mut [Arc<Group>], brand: &Brand) {
    let domain = format!(".{}", brand.group_domain);
    groups.sort_by_cached_key(|group| {
        let stem = group.name.strip_suffix(&domain).unwrap_or(&group.name);
        // few: the built-in groups. A group of declared kinds may be called as the stem of one.
        let known = GROUPS.iter().position(|known| *known == stem).filter(|_| !group.is_declared());
        (known.unwrap_or(GROUPS.len()), group.is_declared(), group.name.clone())
    });
}

/// Brings versions of one group into their order.
pub(in crate::registry) fn versions(versions: &mut [Arc<GroupVersion>]) {
    versions.sort_by(|one, other| version_order(&one.version).cmp(&version_order(&other.version)));
}

/// The served sub-resources of `resource`: by name, those of a declared kind in the order of its definition.
pub(super) fn parts(resource: &Resource) -> Vec<&Subresource> {
    let mut parts: Vec<&Subresource> = resource.subresources.iter().collect();
    if !resource.is_declared() {
        parts.sort_by(|one, other| one.name.cmp(&other.name));
    }
    parts
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;

    use crate::registry::Registry;

    #[test]
    fn core_comes_first_and_the_rest_in_the_known_order() {
        let registry = Registry::builtin(&ORCH);
        let names: Vec<&str> = registry.groups().map(|group| group.name.as_str()).collect();
        assert_eq!(names[0], "");
        let place = |name: &str| names.iter().position(|known| *known == name).unwrap();
        assert!(place("apps") < place("events.orch.io"), "{names:?}");
        assert!(place("events.orch.io") < place("rbac.authorization.orch.io"), "{names:?}");
    }
}
