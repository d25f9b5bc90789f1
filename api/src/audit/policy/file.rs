//! The policy file: its form, that of the reference (`Policy` of the group `audit`, v1), and what is wrong with one.
//!
//! Owns strict parsing: an unknown field is an error, since a misspelled one would silently audit less.

use orch_proto::brand::{KUBERNETES, ORCH};
use orch_rules::validate::names::dns1123_subdomain;
use serde::Deserialize;

use super::super::stage::{Level, Stage, Stages};
use super::{Decision, Policy, Resources, Rule};

/// A policy file was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// It is no policy in YAML or JSON: an unknown field, a value of another shape, with its line.
    #[error("{0}")]
    Form(String),
    /// A field has a wrong value.
    #[error("{field}: {reason}")]
    Field {
        /// The field, from the top of the file.
        field: String,
        /// The fault in its text.
        reason: String,
    },
}

fn fault<T>(field: impl Into<String>, reason: impl Into<String>) -> Result<T, PolicyError> {
    Err(PolicyError::Field { field: field.into(), reason: reason.into() })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct File {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    /// Accepted and without effect, as in the reference.
    #[serde(default, rename = "metadata")]
    _metadata: serde_json::Value,
    #[serde(default)]
    rules: Vec<FileRule>,
    #[serde(default)]
    omit_stages: Vec<String>,
    #[serde(default)]
    omit_managed_fields: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct FileRule {
    #[serde(default)]
    level: String,
    #[serde(default)]
    users: Vec<String>,
    #[serde(default)]
    user_groups: Vec<String>,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default)]
    resources: Vec<FileResources>,
    #[serde(default)]
    namespaces: Vec<String>,
    #[serde(default, rename = "nonResourceURLs")]
    paths: Vec<String>,
    #[serde(default)]
    omit_stages: Vec<String>,
    omit_managed_fields: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct FileResources {
    #[serde(default)]
    group: String,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
}

impl Policy {
    /// Parses a policy in YAML or JSON.
    ///
    /// # Errors
    /// The field that is wrong, or where the text is no policy.
    pub fn parse(text: &str) -> Result<Policy, PolicyError> {
        let file: File = match serde_saphyr::from_str(text) {
            Ok(file) => file,
            // The parser's own picture of the place has several lines.
            Err(error) => return Err(PolicyError::Form(error.without_snippet().to_string())),
        };
        let versions = [&ORCH, &KUBERNETES].map(|brand| format!("{}/v1", brand.group("audit")));
        // few: two.
        if !versions.contains(&file.api_version) {
            return fault("apiVersion", format!("{:?} is not {}", file.api_version, versions.join(" or ")));
        }
        if file.kind != "Policy" {
            return fault("kind", format!("{:?} is not Policy", file.kind));
        }
        if file.rules.is_empty() {
            return fault("rules", "a policy without rules audits nothing");
        }
        let omitted = stages(&file.omit_stages, "omitStages")?;
        let defaults =
            Decision { level: Level::None, omitted, omits_managed_fields: file.omit_managed_fields };
        let rules = file.rules.into_iter().enumerate();
        let rules = rules.map(|(at, rule)| rule.check(&format!("rules[{at}]"), defaults));
        Ok(Policy { rules: rules.collect::<Result<_, _>>()? })
    }
}

impl FileRule {
    fn check(self, path: &str, defaults: Decision) -> Result<Rule, PolicyError> {
        let level = match Level::ALL.into_iter().find(|level| level.as_str() == self.level) {
            Some(level) => level,
            None => {
                let names = Level::ALL.map(Level::as_str).join(", ");
                let reason = match self.level.as_str() {
                    "" => format!("required; the levels are {names}"),
                    other => format!("{other:?} is no level; the levels are {names}"),
                };
                return fault(format!("{path}.level"), reason);
            }
        };
        check_paths(&self.paths, &format!("{path}.nonResourceURLs"))?;
        let names_objects = !self.resources.is_empty() || !self.namespaces.is_empty();
        if !self.paths.is_empty() && names_objects {
            let reason = "rules cannot apply to both regular resources and non-resource URLs";
            return fault(format!("{path}.nonResourceURLs"), reason);
        }
        let resources = self.resources.into_iter().enumerate();
        let resources = resources.map(|(at, own)| own.check(&format!("{path}.resources[{at}]")));
        let omitted = stages(&self.omit_stages, &format!("{path}.omitStages"))?;
        Ok(Rule {
            users: self.users,
            groups: self.user_groups,
            verbs: self.verbs,
            namespaces: self.namespaces,
            resources: resources.collect::<Result<_, _>>()?,
            paths: self.paths,
            decision: Decision {
                level,
                omitted: defaults.omitted.union(omitted),
                omits_managed_fields: self.omit_managed_fields.unwrap_or(defaults.omits_managed_fields),
            },
        })
    }
}

impl FileResources {
    fn check(self, path: &str) -> Result<Resources, PolicyError> {
        if !self.group.is_empty()
            && let Some(reason) = dns1123_subdomain(&self.group).into_iter().next()
        {
            return fault(format!("{path}.group"), reason);
        }
        if !self.resource_names.is_empty() && self.resources.is_empty() {
            let reason = "using resourceNames requires at least one resource";
            return fault(format!("{path}.resourceNames"), reason);
        }
        Ok(Resources { group: self.group, patterns: self.resources, names: self.resource_names })
    }
}

fn check_paths(paths: &[String], field: &str) -> Result<(), PolicyError> {
    for (at, path) in paths.iter().enumerate().filter(|(_, path)| *path != "*") {
        if !path.starts_with('/') {
            let reason = format!("{path:?}: non-resource URL rules must begin with a '/' character");
            return fault(format!("{field}[{at}]"), reason);
        }
        if path.find('*').is_some_and(|place| place + 1 < path.len()) {
            let reason =
                format!("{path:?}: non-resource URL wildcards '*' must be the final character of the rule");
            return fault(format!("{field}[{at}]"), reason);
        }
    }
    Ok(())
}

fn stages(names: &[String], field: &str) -> Result<Stages, PolicyError> {
    let mut stages = Stages::default();
    for (at, name) in names.iter().enumerate() {
        match Stage::ALL.into_iter().find(|stage| stage.as_str() == name) {
            Some(stage) => stages = stages.with(stage),
            None => {
                let allowed = Stage::ALL.map(Stage::as_str).join(",");
                return fault(format!("{field}[{at}]"), format!("{name:?}: allowed stages are {allowed}"));
            }
        }
    }
    Ok(stages)
}
