//! Whether a user who writes a role has all of its rights already.
//!
//! Owns the comparison of rules by what they cover. Each asked rule is broken down into single rights, as in the
//! reference: one of the owner's rules has to cover each of them alone.

use hashbrown::HashSet;
use orch_schema::budget::count_step;
use smol_str::SmolStr;

use super::rules::{ALL, PolicyRule};

/// Single rights that are compared. A role of more is refused, so that a request cannot ask for hours of work.
const RIGHTS_MAX: usize = 100_000;

/// Texts that are looked up, some tens of milliseconds: a thousand rights against the thousand texts of an administrator's
/// rules. A role that takes more is refused.
const LOOKUPS_MAX: usize = 2_000_000;

/// Beginnings of paths of one rule that count: more than there are paths to name.
const BEGINNINGS_MAX: usize = 256;

/// Uncovered rights that a refusal lists.
const LISTED_MAX: usize = 64;

/// Why a role may not be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uncovered {
    /// The owner lacks these rights, at most 64 of them.
    Rights(Vec<PolicyRule>),
    /// The role has too many rights to compare.
    TooMany,
}

/// Checks that `owned` covers every right of `asked`.
///
/// # Errors
/// The rights that it does not cover.
pub fn covers<'a>(
    owned: impl Iterator<Item = &'a PolicyRule>,
    asked: &[PolicyRule],
) -> Result<(), Uncovered> {
    let owned: Vec<Owned<'_>> = owned.map(Owned::new).collect();
    let mut uncovered = Vec::new();
    let (mut left, mut lookups) = (RIGHTS_MAX, LOOKUPS_MAX);
    let mut is_covered = |right: &PolicyRule| {
        for own in &owned {
            // A comparison looks each text up once.
            lookups =
                lookups.checked_sub(1 + right.texts()).filter(|_| count_step()).ok_or(Uncovered::TooMany)?;
            if own.covers(right) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    for rule in asked {
        left = left.checked_sub(count(rule)).ok_or(Uncovered::TooMany)?;
        // A rule that one of the owner's covers whole needs no look at its parts.
        if is_covered(rule)? {
            continue;
        }
        for right in rights(rule) {
            if uncovered.len() == LISTED_MAX {
                break;
            }
            if !is_covered(&right)? {
                uncovered.push(right);
            }
        }
    }
    if uncovered.is_empty() { Ok(()) } else { Err(Uncovered::Rights(uncovered)) }
}

/// Number of single rights of `rule`.
fn count(rule: &PolicyRule) -> usize {
    let names = rule.resource_names.len().max(1);
    let of_resources = [rule.api_groups.len(), rule.resources.len(), names];
    let objects = of_resources.into_iter().fold(1, usize::saturating_mul);
    rule.verbs.len().saturating_mul(objects.saturating_add(rule.non_resource_urls.len()))
}

/// The single rights of `rule`.
fn rights(rule: &PolicyRule) -> impl Iterator<Item = PolicyRule> {
    let no_name = [SmolStr::default()];
    let names: Vec<SmolStr> =
        if rule.resource_names.is_empty() { no_name.to_vec() } else { rule.resource_names.clone() };
    let is_named = !rule.resource_names.is_empty();
    let of_resources = rule.api_groups.iter().flat_map(move |group| {
        let names = names.clone();
        rule.resources.iter().flat_map(move |resource| {
            let names = names.clone();
            rule.verbs.iter().flat_map(move |verb| {
                names.clone().into_iter().map(move |name| PolicyRule {
                    verbs: vec![verb.clone()],
                    api_groups: vec![group.clone()],
                    resources: vec![resource.clone()],
                    resource_names: if is_named { vec![name] } else { Vec::new() },
                    ..PolicyRule::default()
                })
            })
        })
    });
    let of_urls = rule.non_resource_urls.iter().flat_map(move |url| {
        rule.verbs.iter().map(move |verb| PolicyRule {
            verbs: vec![verb.clone()],
            non_resource_urls: vec![url.clone()],
            ..PolicyRule::default()
        })
    });
    of_resources.chain(of_urls)
}

/// Texts of a rule. Many of them are found by hash: both sides of a comparison are a client's.
enum Texts<'a> {
    Few(&'a [SmolStr]),
    Many(HashSet<&'a str>),
}

impl<'a> Texts<'a> {
    /// Texts up to which a scan is as quick as a hash.
    const FEW: usize = 16;

    fn new(texts: &'a [SmolStr]) -> Texts<'a> {
        match texts.len() {
            ..=Self::FEW => Texts::Few(texts),
            _ => Texts::Many(texts.iter().map(SmolStr::as_str).collect()),
        }
    }

    fn has(&self, text: &str) -> bool {
        match self {
            // few: see above.
            Texts::Few(texts) => texts.iter().any(|own| own == text),
            Texts::Many(texts) => texts.contains(text),
        }
    }

    fn has_all(&self, asked: &[SmolStr]) -> bool {
        self.has(ALL) || asked.iter().all(|text| self.has(text))
    }
}

/// A rule of the writing user, whose texts are found by hash.
struct Owned<'a> {
    verbs: Texts<'a>,
    groups: Texts<'a>,
    resources: Texts<'a>,
    /// Names of objects; `None`: all.
    names: Option<Texts<'a>>,
    urls: Texts<'a>,
    /// Beginnings of paths, of the URLs with a `*` behind.
    beginnings: Vec<&'a str>,
}

impl<'a> Owned<'a> {
    fn new(rule: &'a PolicyRule) -> Owned<'a> {
        let urls = rule.non_resource_urls.iter();
        Owned {
            verbs: Texts::new(&rule.verbs),
            groups: Texts::new(&rule.api_groups),
            resources: Texts::new(&rule.resources),
            names: Some(&rule.resource_names)
                .filter(|names| !names.is_empty())
                .map(|names| Texts::new(names)),
            urls: Texts::new(&rule.non_resource_urls),
            beginnings: urls.filter_map(|url| url.strip_suffix(ALL)).take(BEGINNINGS_MAX).collect(),
        }
    }

    /// Whether the rule alone covers all of `asked`.
    fn covers(&self, asked: &PolicyRule) -> bool {
        self.verbs.has_all(&asked.verbs)
            && self.groups.has_all(&asked.api_groups)
            && self.covers_resources(&asked.resources)
            && self.covers_names(&asked.resource_names)
            && asked.non_resource_urls.iter().all(|url| self.covers_url(url))
    }

    fn covers_resources(&self, asked: &[SmolStr]) -> bool {
        let has = |asked: &SmolStr| {
            self.resources.has(asked)
                || asked.split_once('/').is_some_and(|(_, part)| self.resources.has(&format!("*/{part}")))
        };
        self.resources.has(ALL) || asked.iter().all(has)
    }

    fn covers_names(&self, asked: &[SmolStr]) -> bool {
        let Some(names) = &self.names else { return true };
        !asked.is_empty() && asked.iter().all(|name| names.has(name))
    }

    fn covers_url(&self, asked: &SmolStr) -> bool {
        // few: see `BEGINNINGS_MAX`.
        self.urls.has(asked) || self.beginnings.iter().any(|beginning| asked.starts_with(beginning))
    }
}
