//! The check against escalation: a user who writes a role has all of its rights already.
//!
//! Owns the comparison of rules by what they cover. Each asked rule is broken down into single rights, as in the
//! reference: one of the owner's rules has to cover each of them alone. The owner's rules are compared as they are prepared
//! for decisions: none is copied or read anew.

use orch_schema::budget::count_step;
use smol_str::SmolStr;

use super::policy_rule::PolicyRule;
use super::rules::Rules;

/// Single rights that are compared. A role of more is refused, so that a request cannot ask for hours of work.
const RIGHTS_MAX: usize = 100_000;

/// Texts that are looked up, some tens of milliseconds: a thousand rights against the thousand texts of an administrator's
/// rules. A role that takes more is refused.
const LOOKUPS_MAX: usize = 2_000_000;

/// Uncovered rights that a refusal lists.
const LISTED_MAX: usize = 64;

/// The reason why a role may not be written.
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
pub fn covers(owned: &[&Rules], asked: &[PolicyRule]) -> Result<(), Uncovered> {
    let mut uncovered = Vec::new();
    let (mut left, mut lookups) = (RIGHTS_MAX, LOOKUPS_MAX);
    let mut look = |texts: usize| {
        lookups = lookups.checked_sub(texts).filter(|_| count_step()).ok_or(Uncovered::TooMany)?;
        Ok(())
    };
    let mut is_covered = |right: &PolicyRule| {
        for own in owned {
            if own.cover(right, &mut look)? {
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
