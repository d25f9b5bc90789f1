//! The order of groups, versions and resources in discovery.
//!
//! Clients rely on it: a short name that two groups share means the first group's, and the first version of a group is
//! the preferred one.

use std::cmp::Reverse;
use std::sync::Arc;

use orch_proto::Brand;
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
        // few: the built-in groups.
        (GROUPS.iter().position(|known| *known == stem).unwrap_or(GROUPS.len()), group.name.clone())
    });
}

/// Brings versions of one group into their order.
pub(in crate::registry) fn versions(versions: &mut [Arc<GroupVersion>]) {
    versions.sort_by_cached_key(|version| (Reverse(maturity(&version.version)), version.version.clone()));
}

/// The served sub-resources of `resource`, by name.
pub(super) fn parts(resource: &Resource) -> Vec<&Subresource> {
    let mut parts: Vec<&Subresource> = resource.subresources.iter().collect();
    parts.sort_by(|one, other| one.name.cmp(&other.name));
    parts
}

/// The maturity of a version, as a key to compare: stable before beta before alpha, then the higher number. Other forms
/// of names come last.
fn maturity(version: &str) -> (u8, u32, u32) {
    let parsed = || {
        let rest = version.strip_prefix('v')?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major = rest[..end].parse().ok()?;
        let stage = &rest[end..];
        if stage.is_empty() {
            return Some((3, major, 0));
        }
        let (rank, number) = match (stage.strip_prefix("beta"), stage.strip_prefix("alpha")) {
            (Some(number), _) => (2, number),
            (None, Some(number)) => (1, number),
            (None, None) => return None,
        };
        Some((rank, major, number.parse().ok()?))
    };
    parsed().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;

    use super::*;
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

    #[test]
    fn stable_versions_come_first_and_high_numbers_before_low() {
        let mut versions =
            ["v1alpha1", "v1", "v2beta1", "odd", "v10", "v2", "v1beta2", "v1beta1", "v2alpha1", "v11beta2"];
        versions.sort_by_key(|version| Reverse(maturity(version)));
        let expected =
            ["v10", "v2", "v1", "v11beta2", "v2beta1", "v1beta2", "v1beta1", "v2alpha1", "v1alpha1", "odd"];
        assert_eq!(versions, expected);
    }
}
