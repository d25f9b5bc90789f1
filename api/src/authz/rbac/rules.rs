//! Policy rules: their stored form, and the form in which requests are matched against them.
//!
//! Owns the reference's matching of verbs, groups, resources, names and URLs. It knows no role and no user.
//!
//! Texts are compared by hash first: most rules do not match, and a decision looks at those of every role that its user
//! has. Most roles do not even name what is asked for, which a [`Sieve`] tells without a look at their rules.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::authz::Attributes;

/// Matches every verb, group or resource.
pub const ALL: &str = "*";

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
        let Self { verbs, api_groups, resources, resource_names, non_resource_urls } = self;
        [verbs, api_groups, resources, resource_names, non_resource_urls].map(Vec::len).into_iter().sum()
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

/// A text with its hash.
#[derive(Clone, Debug)]
struct Hashed<T> {
    hash: u64,
    text: T,
}

impl<T: AsRef<str>> Hashed<T> {
    fn new(text: T) -> Self {
        let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(text.as_ref());
        Hashed { hash, text }
    }

    fn is<U: AsRef<str>>(&self, other: &Hashed<U>) -> bool {
        self.hash == other.hash && self.text.as_ref() == other.text.as_ref()
    }

    /// One bit of 64, by the hash.
    fn bit(&self) -> u64 {
        1 << (self.hash % 64)
    }
}

/// Texts up to this number are looked at one by one, which is quicker than a search by halves.
const SCANNED_MAX: usize = 8;

/// Texts by their hashes, in order.
#[derive(Clone, Debug, Default)]
struct Sorted(Box<[Hashed<SmolStr>]>);

impl Sorted {
    fn new<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let mut texts: Vec<Hashed<SmolStr>> = texts.map(|text| Hashed::new(text.into())).collect();
        texts.sort_unstable_by(|one, other| (one.hash, &one.text).cmp(&(other.hash, &other.text)));
        texts.dedup_by(|one, other| one.is(other));
        Sorted(texts.into())
    }

    fn contains(&self, asked: &Hashed<&str>) -> bool {
        let start = match self.0.len() {
            ..=SCANNED_MAX => 0,
            _ => self.0.partition_point(|text| text.hash < asked.hash),
        };
        // few: see above, or those of one hash.
        self.0[start..]
            .iter()
            .take_while(|text| start == 0 || text.hash == asked.hash)
            .any(|text| text.is(asked))
    }
}

/// Texts of a rule, and whether `*` is among them.
#[derive(Clone, Debug)]
struct Texts {
    all: bool,
    texts: Sorted,
}

impl Texts {
    fn new(texts: &[SmolStr]) -> Self {
        let all = texts.iter().any(|text| text == ALL);
        let texts = if all { Sorted::default() } else { Sorted::new(texts.iter().map(SmolStr::as_str)) };
        Texts { all, texts }
    }

    fn contains(&self, asked: &Hashed<&str>) -> bool {
        self.all || self.texts.contains(asked)
    }
}

/// A rule, prepared for matching.
#[derive(Clone, Debug)]
pub struct Rule {
    verbs: Texts,
    groups: Texts,
    resources: Texts,
    /// Sub-resources `X` of the resources `*/X`.
    subresources: Sorted,
    /// Names of objects; `None`: all.
    names: Option<Sorted>,
    urls: Box<[SmolStr]>,
}

impl Rule {
    /// Prepares `rules`. Those that differ in nothing but the names of objects become one.
    pub fn prepare(rules: &[PolicyRule]) -> Vec<Rule> {
        let mut places = hashbrown::HashMap::new();
        let mut merged: Vec<(&PolicyRule, Vec<&PolicyRule>)> = Vec::new();
        for rule in rules {
            let shape = (&rule.verbs, &rule.api_groups, &rule.resources, &rule.non_resource_urls);
            let place = *places.entry(shape).or_insert(merged.len());
            match merged.get_mut(place) {
                Some((_, like)) => like.push(rule),
                None => merged.push((rule, vec![rule])),
            }
        }
        merged.into_iter().map(|(shape, like)| Rule::new(shape, &like)).collect()
    }

    /// The rule of the shape of `rule`, for the names of all of `like`.
    fn new(rule: &PolicyRule, like: &[&PolicyRule]) -> Rule {
        let of_all = rule.resources.iter().filter_map(|resource| resource.strip_prefix("*/"));
        // few: see `prepare`, where each rule is looked at once.
        let is_of_all = like.iter().any(|rule| rule.resource_names.is_empty());
        let names = || Sorted::new(like.iter().flat_map(|rule| &rule.resource_names).map(SmolStr::as_str));
        Rule {
            verbs: Texts::new(&rule.verbs),
            groups: Texts::new(&rule.api_groups),
            resources: Texts::new(&rule.resources),
            subresources: Sorted::new(of_all),
            names: (!is_of_all).then(names),
            urls: rule.non_resource_urls.iter().cloned().collect(),
        }
    }

    /// Whether the rule allows what `asked` holds.
    pub fn allows(&self, asked: &Asked<'_>) -> bool {
        match asked {
            Asked::Path { verb, path } => {
                self.verbs.contains(verb) && self.urls.iter().any(|url| covers_path(url, path))
            }
            Asked::Resource { verb, group, resource, subresource, name } => {
                self.verbs.contains(verb)
                    && self.groups.contains(group)
                    && (self.resources.contains(resource) || self.covers_part(subresource.as_ref()))
                    && self.names.as_ref().is_none_or(|names| names.contains(name))
            }
        }
    }

    fn covers_part(&self, subresource: Option<&Hashed<&str>>) -> bool {
        subresource.is_some_and(|asked| self.subresources.contains(asked))
    }
}

/// What the rules of a role name at all. It lets through every request that a rule allows, and some others.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sieve {
    /// The bit of each named resource; all of them where a rule is about every resource or about a part of every one.
    resources: u64,
    has_urls: bool,
}

impl Sieve {
    /// The sieve of `rules`.
    pub fn new(rules: &[Rule]) -> Sieve {
        let of = |rule: &Rule| match &rule.resources {
            resources if resources.all || !rule.subresources.0.is_empty() => u64::MAX,
            resources => resources.texts.0.iter().fold(0, |bits, text| bits | text.bit()),
        };
        Sieve {
            resources: rules.iter().fold(0, |bits, rule| bits | of(rule)),
            has_urls: rules.iter().any(|rule| !rule.urls.is_empty()),
        }
    }

    /// `false`: no rule allows what `asked` holds.
    pub fn passes(self, asked: &Asked<'_>) -> bool {
        match asked {
            Asked::Path { .. } => self.has_urls,
            Asked::Resource { resource, .. } => self.resources & resource.bit() != 0,
        }
    }
}

/// Attributes, prepared for matching.
#[derive(Debug)]
pub enum Asked<'a> {
    /// A request for a resource.
    #[expect(private_interfaces, reason = "matched by rules alone")]
    Resource {
        /// The verb.
        verb: Hashed<&'a str>,
        /// The API group.
        group: Hashed<&'a str>,
        /// Resource and sub-resource, as rules spell them.
        resource: Hashed<&'a str>,
        /// The sub-resource, if any.
        subresource: Option<Hashed<&'a str>>,
        /// The object's name, possibly empty.
        name: Hashed<&'a str>,
    },
    /// A request to a path that names no resource.
    #[expect(private_interfaces, reason = "matched by rules alone")]
    Path {
        /// The verb.
        verb: Hashed<&'a str>,
        /// The path.
        path: &'a str,
    },
}

impl<'a> Asked<'a> {
    /// What `attributes` ask for. `qualified` is the resource as rules spell it.
    pub fn new(attributes: Attributes<'a>, qualified: &'a str) -> Self {
        match attributes {
            Attributes::Path { verb, path } => Asked::Path { verb: Hashed::new(verb), path },
            Attributes::Resource(asked) => Asked::Resource {
                verb: Hashed::new(asked.verb),
                group: Hashed::new(asked.group),
                resource: Hashed::new(qualified),
                subresource: Some(asked.subresource).filter(|part| !part.is_empty()).map(Hashed::new),
                name: Hashed::new(asked.name),
            },
        }
    }
}

/// Whether the path of a rule covers `path`.
fn covers_path(rule: &str, path: &str) -> bool {
    rule == path || rule.strip_suffix(ALL).is_some_and(|beginning| path.starts_with(beginning))
}
