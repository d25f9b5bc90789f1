//! The ranks of built-in groups and versions in discovery.
//!
//! Owns the table, which is the reference's. Discovery sorts groups by it, and the objects that register the groups tell it
//! (`controllers::api_services`). Groups and versions of definitions have ranks of their own, below all built-in ones.

use super::Registry;

/// The rank of a group and version; higher ones come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// Of the group; the highest among its versions counts. 1 to 20000.
    pub group: i64,
    /// Of the version within its group. 1 to 1000.
    pub version: i64,
}

impl Priority {
    /// That of groups and versions that definitions declare.
    pub const DECLARED: Priority = Priority { group: 1_000, version: 100 };
    /// That of a group and version of which nothing is known.
    const UNKNOWN: Priority = Priority { group: 1_000, version: 15 };

    /// That of a built-in version of the group with this stem; empty for core.
    pub fn built_in(stem: &str, version: &str) -> Priority {
        let Some((_, group, versions)) = row(stem) else { return Priority::UNKNOWN };
        // few: the versions of one group.
        let known = versions.iter().find(|(known, _)| *known == version);
        Priority { group: *group, version: known.map_or(Priority::UNKNOWN.version, |(_, rank)| *rank) }
    }
}

/// The rank of the built-in group with this stem; `None`: there is no such group.
pub(super) fn of_group(stem: &str) -> Option<i64> {
    row(stem).map(|(_, group, _)| *group)
}

impl Registry {
    /// The rank of a built-in version of the group called `group`; of an empty version that of the group alone.
    pub(crate) fn priority(&self, group: &str, version: &str) -> Priority {
        let stem = group.strip_suffix(self.brand.group_domain).and_then(|stem| stem.strip_suffix('.'));
        Priority::built_in(stem.unwrap_or(group), version)
    }
}

/// The stem of a group, its rank, and the ranks of its versions.
type Row = (&'static str, i64, &'static [(&'static str, i64)]);

/// The group that registers others comes behind the core group and has no object of its own, which the reference's ranks do not
/// tell.
const REGISTRATION: i64 = 17_999;

const BUILT_IN: [Row; 22] = [
    ("", 18_000, &[("v1", 1)]),
    ("apiregistration", REGISTRATION, &[("v1", 18)]),
    ("apps", 17_800, &[("v1", 15)]),
    ("events", 17_750, &[("v1", 15)]),
    ("authentication", 17_700, &[("v1", 15)]),
    ("authorization", 17_600, &[("v1", 15)]),
    ("autoscaling", 17_500, &[("v2", 30), ("v1", 15)]),
    ("batch", 17_400, &[("v1", 15)]),
    ("certificates", 17_300, &[("v1", 15)]),
    ("networking", 17_200, &[("v1", 15)]),
    ("policy", 17_100, &[("v1", 15)]),
    ("rbac.authorization", 17_000, &[("v1", 15)]),
    ("storage", 16_800, &[("v1", 15)]),
    ("admissionregistration", 16_700, &[("v1", 15)]),
    ("apiextensions", 16_700, &[("v1", 15)]),
    ("scheduling", 16_600, &[("v1", 15)]),
    ("coordination", 16_500, &[("v1", 15)]),
    ("node", 16_300, &[("v1", 15)]),
    ("discovery", 16_200, &[("v1", 15)]),
    ("resource", 16_200, &[("v1", 21)]),
    ("flowcontrol.apiserver", 16_100, &[("v1", 21)]),
    ("internal.apiserver", 16_000, &[("v1alpha1", 9)]),
];

fn row(stem: &str) -> Option<&'static Row> {
    // few: the built-in groups.
    BUILT_IN.iter().find(|(known, ..)| *known == stem)
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;

    use super::*;

    #[test]
    fn every_built_in_version_has_a_rank() {
        let domain = format!(".{}", ORCH.group_domain);
        for group in Registry::builtin(&ORCH).groups() {
            let stem = group.name.strip_suffix(&domain).unwrap_or(&group.name);
            let (_, _, versions) = row(stem).unwrap_or_else(|| panic!("{stem} has no rank"));
            for version in &group.versions {
                let known = versions.iter().any(|(known, _)| *known == version.version);
                assert!(known, "{stem} {} has no rank", version.version);
            }
        }
        assert_eq!(Priority::built_in("apps", "v1"), Priority { group: 17_800, version: 15 });
        assert_eq!(Priority::built_in("nope", "v1"), Priority::UNKNOWN);
    }
}
