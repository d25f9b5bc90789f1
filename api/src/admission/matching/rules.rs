//! The writes that a policy, a binding or a webhook matches.
//!
//! Owns `MatchResources` as it is prepared, and its order, which is the reference's: selectors, excluding rules, rules; errors
//! of selectors count only where a rule matches. Lists of rules are sets.

use std::collections::{HashMap, HashSet};

use orch_raft::state::NAMESPACES;
use orch_rules::selector::{LabelSelector, LabelSet};
use orch_rules::validate::tree::Tree;
use orch_schema::value::{Map, Value};

use super::asked::Asked;
use crate::admission::{Operation, View};
use crate::registry::Resource;
use crate::selector::StoredLabels;

/// The requests that a policy, a binding or a webhook is about.
#[derive(Debug)]
pub(in crate::admission) struct Match {
    namespaces: LabelSelector,
    objects: LabelSelector,
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    is_equivalent: bool,
}

#[derive(Debug)]
struct Rule {
    operations: Names,
    groups: Names,
    versions: Names,
    /// Sub-resources by resource; `*` stands for all.
    resources: HashMap<Box<str>, HashSet<Box<str>>>,
    scope: Scope,
    /// Names of objects; empty for all.
    names: HashSet<Box<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    All,
    Cluster,
    Namespaced,
}

/// A list in which a star stands for everything.
#[derive(Debug)]
enum Names {
    All,
    Some(HashSet<Box<str>>),
}

/// The version of the resource that a rule matches.
#[derive(Clone, Copy, Debug)]
pub(in crate::admission) enum Version<'a> {
    /// That of the request.
    Own,
    /// Another one: group, version, and its resource.
    Other(&'a str, &'a str, &'a Resource),
}

const ALL: &str = "*";

impl Names {
    fn of(rule: &Value, field: &str) -> Names {
        let names: HashSet<Box<str>> = rule.texts(field).into_iter().map(Box::from).collect();
        if names.contains(ALL) { Names::All } else { Names::Some(names) }
    }

    fn has(&self, name: &str) -> bool {
        match self {
            Names::All => true,
            Names::Some(names) => names.contains(name),
        }
    }
}

impl Rule {
    fn of(rule: &Value) -> Rule {
        let mut resources: HashMap<Box<str>, HashSet<Box<str>>> = HashMap::new();
        for resource in rule.texts("resources") {
            let (name, part) = resource.split_once('/').unwrap_or((resource, ""));
            resources.entry(name.into()).or_default().insert(part.into());
        }
        Rule {
            operations: Names::of(rule, "operations"),
            groups: Names::of(rule, "apiGroups"),
            versions: Names::of(rule, "apiVersions"),
            resources,
            scope: match rule.text("scope") {
                "Cluster" => Scope::Cluster,
                "Namespaced" => Scope::Namespaced,
                _ => Scope::All,
            },
            names: rule.texts("resourceNames").into_iter().map(Box::from).collect(),
        }
    }

    fn matches(&self, asked: &Asked<'_>, group: &str, version: &str) -> bool {
        let is_in_scope = match self.scope {
            Scope::All => true,
            Scope::Cluster => !asked.is_namespaced(),
            Scope::Namespaced => asked.is_namespaced(),
        };
        let has_part = |name: &str| {
            // set: sub-resources of one resource.
            self.resources
                .get(name)
                .is_some_and(|parts| parts.contains(asked.subresource) || parts.contains(ALL))
        };
        is_in_scope
            && self.operations.has(asked.operation)
            && self.groups.has(group)
            && self.versions.has(version)
            && (has_part(asked.resource) || has_part(ALL))
            && (self.names.is_empty() || self.names.contains(asked.name))
    }
}

impl Match {
    /// That of a valid `MatchResources`; absent selectors select everything.
    pub(in crate::admission) fn of(resources: &Value) -> Match {
        let selector = |field: &str| LabelSelector::of_field(resources.at(field)).unwrap_or_default();
        let rules = |field: &str| resources.items(field).iter().map(Rule::of).collect();
        Match {
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
            rules: rules("resourceRules"),
            excluded: rules("excludeResourceRules"),
            is_equivalent: resources.text("matchPolicy") != "Exact",
        }
    }

    /// That of a valid webhook; absent selectors select everything.
    pub(in crate::admission) fn of_webhook(webhook: &Value) -> Match {
        let selector = |field: &str| LabelSelector::of_field(webhook.at(field)).unwrap_or_default();
        Match {
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
            rules: webhook.items("rules").iter().map(Rule::of).collect(),
            excluded: Vec::new(),
            is_equivalent: webhook.text("matchPolicy") != "Exact",
        }
    }

    /// Whether a rule is about the write, whatever the selectors say.
    pub(in crate::admission) fn has_rule(&self, asked: &Asked<'_>) -> bool {
        self.first(&self.rules, asked).is_some()
    }

    /// Resources that its rules name; `*` for all.
    pub(in crate::admission) fn resources(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().flat_map(|rule| rule.resources.keys().map(|name| &**name))
    }

    /// Whether the write of `object` is one of those, and the version by which.
    ///
    /// # Errors
    /// The namespace, whose labels are asked for, is not there.
    pub(in crate::admission) fn matches<'a>(
        &self,
        asked: &Asked<'a>,
        object: Option<&Value>,
        view: &View,
    ) -> Result<Option<Version<'a>>, String> {
        let in_namespace = self.selects_namespace(asked, object, view);
        if in_namespace == Ok(false) || !self.selects_object(asked, object) {
            return Ok(None);
        }
        if self.first(&self.excluded, asked).is_some() {
            return Ok(None);
        }
        let found = if self.rules.is_empty() { Some(Version::Own) } else { self.first(&self.rules, asked) };
        // An error counts only where the write is one of those otherwise.
        found.map(|version| in_namespace.map(|_| version)).transpose()
    }

    fn first<'a>(&self, rules: &[Rule], asked: &Asked<'a>) -> Option<Version<'a>> {
        // few: the rules of one policy or webhook, which administrators write.
        let own = rules.iter().any(|rule| rule.matches(asked, asked.group, asked.version));
        if own {
            return Some(Version::Own);
        }
        if !self.is_equivalent {
            return None;
        }
        rules.iter().find_map(|rule| {
            let mut others = asked.others();
            // few: the other versions of one resource.
            let found = others.find(|(group, version, _)| rule.matches(asked, group, version));
            found.map(|(group, version, resource)| Version::Other(group, version, resource))
        })
    }

    fn selects_namespace(
        &self,
        asked: &Asked<'_>,
        object: Option<&Value>,
        view: &View,
    ) -> Result<bool, String> {
        let selector = &self.namespaces;
        let is_exempt = asked.namespace.is_empty() && !asked.is_namespace;
        if is_exempt || selector.is_everything() {
            return Ok(true);
        }
        // The object of a write to a namespace has labels that are not stored yet.
        let is_write = matches!(asked.attributes.operation, Operation::Create | Operation::Update);
        if asked.is_namespace && asked.subresource.is_empty() && is_write {
            return Ok(object.is_some_and(|object| selector.matches(&labels_of(object))));
        }
        let namespaces = view.applied().state.collection(NAMESPACES);
        match namespaces.get(asked.namespace) {
            Some(found) => Ok(selector.matches(&StoredLabels::of(found))),
            None => Err(format!("namespaces {:?} not found", asked.namespace)),
        }
    }

    fn selects_object(&self, asked: &Asked<'_>, object: Option<&Value>) -> bool {
        if asked.attributes.operation == Operation::Connect {
            // The options of a connection have no metadata, and no labels that could be looked for.
            return self.objects.is_everything();
        }
        let selects = |object: &Value| self.objects.matches(&labels_of(object));
        self.objects.is_everything()
            || object.is_some_and(selects)
            || asked.attributes.old.is_some_and(selects)
    }
}

/// Labels of a tree.
pub(in crate::admission) struct TreeLabels<'a>(Option<&'a Map>);

/// The labels of `object`.
pub(in crate::admission) fn labels_of(object: &Value) -> TreeLabels<'_> {
    TreeLabels(object.at("metadata").at("labels").as_object())
}

impl LabelSet for TreeLabels<'_> {
    fn count(&self) -> usize {
        self.0.map_or(0, Map::len)
    }

    fn find(&self, key: &str) -> Option<&str> {
        self.0?.get(key)?.as_str()
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.0.into_iter().flatten();
        pairs.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
    }
}
