//! The audit policy: which requests are audited, and at which level.
//!
//! Owns its rules and how a request matches them. `file` reads it.
//!
//! Invariant: the first rule that matches decides; a request that none matches is not audited.

mod file;
#[cfg(test)]
mod tests;

pub use self::file::PolicyError;
use super::stage::{Level, Stages};
use crate::authn::User;
use crate::authz::{Attributes, ResourceAttributes};

/// Rules in their order, with the settings of the whole file merged into each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    rules: Vec<Rule>,
}

/// The decision of a policy on one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// How much the events hold.
    pub level: Level,
    /// Stages without an event.
    pub omitted: Stages,
    /// Objects are shown without their managed fields.
    pub omits_managed_fields: bool,
}

/// A rule of a policy. An empty list matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rule {
    users: Vec<String>,
    groups: Vec<String>,
    verbs: Vec<String>,
    namespaces: Vec<String>,
    resources: Vec<Resources>,
    paths: Vec<String>,
    decision: Decision,
}

/// Resources of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Resources {
    group: String,
    /// `pods`, `pods/log`, `pods/*`, `*/scale`, `*`; empty for all resources of the group and their sub-resources.
    patterns: Vec<String>,
    names: Vec<String>,
}

impl Policy {
    /// Decides on a request. `user` is absent if its credentials were refused.
    pub fn decide(&self, user: Option<&User>, attributes: Attributes<'_>) -> Decision {
        let rule = self.rules.iter().find(|rule| rule.matches(user, attributes));
        rule.map(|rule| rule.decision).unwrap_or_default()
    }
}

impl Rule {
    fn matches(&self, user: Option<&User>, attributes: Attributes<'_>) -> bool {
        let verb = match attributes {
            Attributes::Resource(asked) => asked.verb,
            Attributes::Path { verb, .. } => verb,
        };
        self.matches_user(user) && is_listed(&self.verbs, verb) && self.matches_target(attributes)
    }

    fn matches_user(&self, user: Option<&User>) -> bool {
        if self.users.is_empty() && self.groups.is_empty() {
            return true;
        }
        let Some(user) = user else { return false };
        is_listed(&self.users, &user.name)
            // few: the entries of one rule of the operator's.
            && (self.groups.is_empty() || self.groups.iter().any(|group| user.is_in_group(group)))
    }

    fn matches_target(&self, attributes: Attributes<'_>) -> bool {
        match attributes {
            Attributes::Resource(asked) => {
                // A rule about paths alone is about no resource.
                let is_about_paths =
                    !self.paths.is_empty() && self.resources.is_empty() && self.namespaces.is_empty();
                !is_about_paths
                    && is_listed(&self.namespaces, asked.namespace)
                    && (self.resources.is_empty()
                        // few: the entries of one rule of the operator's.
                        || self.resources.iter().any(|resources| resources.matches(&asked)))
            }
            Attributes::Path { path, .. } => {
                let is_about_resources = !self.resources.is_empty() || !self.namespaces.is_empty();
                // few: the entries of one rule of the operator's.
                !is_about_resources
                    && (self.paths.is_empty() || self.paths.iter().any(|own| covers(own, path)))
            }
        }
    }
}

impl Resources {
    fn matches(&self, asked: &ResourceAttributes<'_>) -> bool {
        if self.group != asked.group {
            return false;
        }
        // few: the entries of one rule of the operator's.
        self.patterns.is_empty()
            || is_listed(&self.names, asked.name)
                // few: the entries of one rule of the operator's.
                && self.patterns.iter().any(|pattern| is_resource(pattern, asked))
    }
}

/// Whether `entries` is empty or has `text`.
fn is_listed(entries: &[String], text: &str) -> bool {
    // few: the entries of one rule of the operator's.
    entries.is_empty() || entries.iter().any(|entry| entry == text)
}

fn is_resource(pattern: &str, asked: &ResourceAttributes<'_>) -> bool {
    if pattern == "*" {
        return true;
    }
    match (pattern.split_once('/'), asked.subresource) {
        (None, "") => pattern == asked.resource,
        (None, _) => false,
        (Some((resource, "*")), _) if resource != "*" => resource == asked.resource,
        (Some(("*", part)), subresource) => !subresource.is_empty() && part == subresource,
        (Some((resource, part)), subresource) => resource == asked.resource && part == subresource,
    }
}

/// Whether the entry `own`, which may end with `*`, covers `path`.
fn covers(own: &str, path: &str) -> bool {
    own == path || own.strip_suffix('*').is_some_and(|start| path.starts_with(start))
}
