//! The order of groups, versions and resources in discovery.
//!
//! Clients rely on it: a short name that two groups share means the first group's, and the first version of a group is
//! the preferred one.

use std::cmp::Reverse;
use std::sync::Arc;

use orch_proto::Brand;
use orch_rules::kinds::defined::version_order;
use orch_schema::Subresource;

use crate::registry::priority::{self, Priority};
use crate::registry::{Group, GroupVersion, Resource};

/// Brings groups into their order: by rank, and those of one rank by name.
pub(in crate::registry) fn groups(groups: &mut [Arc<Group>], brand: &Brand) {
    let domain = format!(".{}", brand.group_domain);
    groups.sort_by_cached_key(|group| {
        let stem = group.name.strip_suffix(&domain).unwrap_or(&group.name);
        // A group of declared kinds may be called as the stem of a built-in one.
        let known = priority::of_group(stem).filter(|_| !group.is_declared());
        let rank = known.unwrap_or(Priority::DECLARED.group);
        (Reverse(rank), group.is_declared(), group.name.clone())
    });
}

/// Brings versions of one group into their order. A definition that adds a version to a built-in group does not make it the
/// preferred one: clients that ask for no version would then be sent to objects of the definition's author.
pub(in crate::registry) fn versions(versions: &mut [Arc<GroupVersion>]) {
    versions.sort_by(|one, other| {
        let is_declared = one.is_declared().cmp(&other.is_declared());
        is_declared.then_with(|| version_order(&one.version).cmp(&version_order(&other.version)))
    });
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
    use bytes::Bytes;
    use orch_proto::brand::ORCH;

    use crate::conversion::testing::{Renaming, widgets};
    use crate::registry::{Published, Registry};

    #[test]
    fn a_declared_version_of_a_built_in_group_is_not_the_preferred_one() {
        let builtin = Registry::builtin(&ORCH);
        let mut declared = widgets(&builtin, &Renaming::ready(), "v9", 7);
        for version in &mut declared.versions {
            version.definition.group = "apps".to_owned();
            version.published = Some(Published::new(Bytes::new(), "v9"));
        }
        declared.versions[0].definition.version = "v9".to_owned();
        let registry = builtin.with(declared.kinds()).unwrap();
        let group = registry.group("apps").unwrap();
        let versions: Vec<&str> = group.versions.iter().map(|version| version.version.as_str()).collect();
        assert_eq!(versions, ["v1", "v9", "v1beta1"]);
        let preferred = &registry.discovery("/apis/apps").unwrap().value["preferredVersion"];
        assert_eq!(preferred["version"], "v1");
    }

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
