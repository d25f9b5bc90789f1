//! Whether a user who writes a role has all of its rights already.
//!
//! Owns the comparison of rules by what they cover. Each asked rule is broken down into single rights, as in the
//! reference: one of the owner's rules has to cover each of them alone.

use smol_str::SmolStr;

use super::rules::{ALL, PolicyRule, covers_path};

/// Single rights that are compared. A role of more is refused, so that a request cannot ask for hours of work.
const RIGHTS_MAX: usize = 100_000;

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
pub fn covers(owned: &[PolicyRule], asked: &[PolicyRule]) -> Result<(), Uncovered> {
    let mut uncovered = Vec::new();
    let mut left = RIGHTS_MAX;
    for rule in asked {
        let count = count(rule);
        left = left.checked_sub(count).ok_or(Uncovered::TooMany)?;
        // A rule that one of the owner's covers whole needs no look at its parts.
        if owned.iter().any(|own| covers_rule(own, rule)) {
            continue;
        }
        let lacks = |right: &PolicyRule| !owned.iter().any(|own| covers_rule(own, right));
        uncovered.extend(rights(rule).filter(lacks).take(LISTED_MAX - uncovered.len().min(LISTED_MAX)));
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

/// Whether `own` alone covers all of `asked`.
fn covers_rule(own: &PolicyRule, asked: &PolicyRule) -> bool {
    // few: the texts of two rules.
    let has = |all: &[SmolStr], asked: &[SmolStr]| {
        all.iter().any(|text| text == ALL) || asked.iter().all(|text| all.contains(text))
    };
    let names = own.resource_names.is_empty()
        || !asked.resource_names.is_empty()
            && asked.resource_names.iter().all(|name| own.resource_names.contains(name));
    let urls = asked
        .non_resource_urls
        .iter()
        .all(|asked| own.non_resource_urls.iter().any(|url| covers_path(url, asked)));
    has(&own.verbs, &asked.verbs)
        && has(&own.api_groups, &asked.api_groups)
        && covers_resources(&own.resources, &asked.resources)
        && names
        && urls
}

fn covers_resources(own: &[SmolStr], asked: &[SmolStr]) -> bool {
    let covers = |asked: &SmolStr| {
        let of_all = asked.split_once('/').map(|(_, part)| format!("*/{part}"));
        own.iter().any(|own| own == asked || of_all.as_deref() == Some(own))
    };
    own.iter().any(|resource| resource == ALL) || asked.iter().all(covers)
}
