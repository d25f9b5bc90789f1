//! A policy rule as roles store it and reviews show it.
//!
//! Owns its members, and how they are read from a role. Matching is done by `rules`.

use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

/// The number of lists of a rule.
pub(super) const LISTS: usize = 5;

/// A rule as roles store it and reviews show it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PolicyRule {
    /// Verbs, or `*`.
    #[serde(deserialize_with = "nullable")]
    pub verbs: Vec<SmolStr>,
    /// API groups, or `*`.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<SmolStr>,
    /// `pods`, `pods/status`, `*/status` or `*`.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<SmolStr>,
    /// Names of objects; without one the rule is about all.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<SmolStr>,
    /// Paths, or their beginnings with a `*` behind.
    #[serde(
        rename = "nonResourceURLs",
        deserialize_with = "nullable",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub non_resource_urls: Vec<SmolStr>,
}

impl PolicyRule {
    /// Number of texts of the rule.
    pub fn texts(&self) -> usize {
        self.lists().map(<[SmolStr]>::len).into_iter().sum()
    }

    /// Bytes of the texts, and two for each.
    pub fn bytes(&self) -> usize {
        self.lists().into_iter().flatten().map(|text| 2 + text.len()).sum()
    }

    /// The lists: verbs, groups, resources, names, URLs.
    pub(super) fn lists(&self) -> [&[SmolStr]; LISTS] {
        let Self { verbs, api_groups, resources, resource_names, non_resource_urls } = self;
        [verbs, api_groups, resources, resource_names, non_resource_urls]
    }

    /// The rule in a role's `rules`.
    pub fn of(rule: &Value) -> PolicyRule {
        let texts = |member: &str| rule.texts(member).into_iter().map(SmolStr::from).collect();
        PolicyRule {
            verbs: texts("verbs"),
            api_groups: texts("apiGroups"),
            resources: texts("resources"),
            resource_names: texts("resourceNames"),
            non_resource_urls: texts("nonResourceURLs"),
        }
    }
}

/// Reads a list where `null` may stand for an empty one.
fn nullable<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<SmolStr>, D::Error> {
    Ok(Option::<Vec<SmolStr>>::deserialize(deserializer)?.unwrap_or_default())
}
