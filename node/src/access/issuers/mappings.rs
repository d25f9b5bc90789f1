//! The rules of an issuer: what its claims must say, and which user they make.

use std::collections::HashSet;

use orch_api::authn::jwt::{ClaimRule, Mapping, Rules, UserRule, compile_claims, compile_user};
use orch_api::expression::{Expression, Wanted};
use orch_proto::brand::{KUBERNETES, ORCH};

use super::form::{FileClaimRule, FileExtra, FileMapping, FileMappings, FileUserRule};
use crate::access::faults::Faults;

/// The rules over claims.
pub(super) fn claim_rules(rules: Vec<FileClaimRule>, field: &str, faults: &mut Faults) -> Vec<ClaimRule> {
    let (mut claims, mut expressions) = (HashSet::new(), HashSet::new());
    let mut kept = Vec::new();
    for (at, rule) in rules.into_iter().enumerate() {
        let field = format!("{field}[{at}]");
        match (rule.claim.is_empty(), rule.expression.is_empty()) {
            (false, false) => faults.invalid(&field, &rule.claim, "claim and expression can't both be set"),
            (true, true) => faults.required(&field, "claim or expression is required"),
            (false, true) => {
                if !rule.message.is_empty() {
                    let detail = "may not be specified when claim is set";
                    faults.invalid(&format!("{field}.message"), &rule.message, detail);
                }
                if !claims.insert(rule.claim.clone()) {
                    faults.duplicate(&format!("{field}.claim"), &rule.claim);
                }
                kept.push(ClaimRule::Value { claim: rule.claim, value: rule.required_value });
            }
            (true, false) => {
                if !rule.required_value.is_empty() {
                    let detail = "may not be specified when expression is set";
                    faults.invalid(&format!("{field}.requiredValue"), &rule.required_value, detail);
                }
                let field = format!("{field}.expression");
                if !expressions.insert(rule.expression.clone()) {
                    faults.duplicate(&field, &rule.expression);
                    continue;
                }
                let condition = over_claims(&rule.expression, Wanted::Bool, &field, faults);
                kept.extend(condition.map(|condition| ClaimRule::Condition {
                    condition: Box::new(condition),
                    message: rule.message,
                }));
            }
        }
    }
    kept
}

fn over_claims(source: &str, wanted: Wanted, field: &str, faults: &mut Faults) -> Option<Expression> {
    let compiled = compile_claims(source, wanted);
    compiled.map_err(|error| faults.invalid(field, source, &error.to_string())).ok()
}

/// The rules of an issuer, without those over users.
pub(super) fn mappings(
    mappings: FileMappings,
    claims: Vec<ClaimRule>,
    field: &str,
    faults: &mut Faults,
) -> Option<Rules> {
    let name_field = format!("{field}.username");
    let username = mapping(mappings.username, &name_field, faults);
    if let Asked::Nothing = username {
        faults.required(&name_field, "claim or expression is required");
    }
    let groups = mapping(mappings.groups, &format!("{field}.groups"), faults);
    let uid = uid(mappings.uid, &format!("{field}.uid"), faults);
    let extra = extra(mappings.extra, &format!("{field}.extra"), faults);
    check_email(&username, &extra, &claims, &name_field, faults);
    match username {
        Asked::Valid(username) => {
            Some(Rules { username, groups: groups.valid(), uid, extra, claims, users: Vec::new() })
        }
        Asked::Nothing | Asked::Faulty => None,
    }
}

/// The setting of a file for a part of a user.
enum Asked {
    Nothing,
    Faulty,
    Valid(Mapping),
}

impl Asked {
    fn valid(self) -> Option<Mapping> {
        match self {
            Asked::Valid(mapping) => Some(mapping),
            Asked::Nothing | Asked::Faulty => None,
        }
    }
}

fn mapping(mapping: FileMapping, field: &str, faults: &mut Faults) -> Asked {
    match (mapping.claim.is_empty(), mapping.expression.is_empty()) {
        (false, false) => {
            faults.invalid(field, "", "claim and expression can't both be set");
            Asked::Faulty
        }
        (true, true) => Asked::Nothing,
        (true, false) => {
            if let Some(prefix) = &mapping.prefix {
                faults.invalid(
                    &format!("{field}.prefix"),
                    prefix,
                    "may not be specified when expression is set",
                );
            }
            let compiled =
                over_claims(&mapping.expression, Wanted::Any, &format!("{field}.expression"), faults);
            compiled
                .map_or(Asked::Faulty, |expression| Asked::Valid(Mapping::Expression(Box::new(expression))))
        }
        (false, true) => match mapping.prefix {
            Some(prefix) => Asked::Valid(Mapping::Claim { name: mapping.claim, prefix }),
            None => {
                let detail = "prefix is required when claim is set. It can be set to an empty string to disable prefixing";
                faults.required(&format!("{field}.prefix"), detail);
                Asked::Faulty
            }
        },
    }
}

fn uid(mapping: FileMapping, field: &str, faults: &mut Faults) -> Option<Mapping> {
    if mapping.prefix.is_some() {
        faults.forbidden(&format!("{field}.prefix"), "a uid has no prefix");
    }
    match (mapping.claim.is_empty(), mapping.expression.is_empty()) {
        (false, false) => {
            faults.invalid(field, "", "claim and expression can't both be set");
            None
        }
        (true, true) => None,
        (false, true) => Some(Mapping::Claim { name: mapping.claim, prefix: String::new() }),
        (true, false) => {
            let field = format!("{field}.expression");
            over_claims(&mapping.expression, Wanted::Any, &field, faults)
                .map(|expression| Mapping::Expression(Box::new(expression)))
        }
    }
}

fn extra(extra: Vec<FileExtra>, field: &str, faults: &mut Faults) -> Vec<(String, Expression)> {
    let mut seen = HashSet::new();
    let mut kept = Vec::new();
    for (at, FileExtra { key, value_expression }) in extra.into_iter().enumerate() {
        let key_field = format!("{field}[{at}].key");
        check_key(&key, &key_field, faults);
        if !seen.insert(key.clone()) {
            faults.duplicate(&key_field, &key);
            continue;
        }
        let field = format!("{field}[{at}].valueExpression");
        if value_expression.is_empty() {
            faults.required(&field, "");
            continue;
        }
        kept.extend(over_claims(&value_expression, Wanted::Any, &field, faults).map(|value| (key, value)));
    }
    kept
}

/// Checks the key of an extra attribute: `DOMAIN/PATH` in lower case, and of no domain of the server's own.
fn check_key(key: &str, field: &str, faults: &mut Faults) {
    if key.is_empty() {
        faults.required(field, "");
        return;
    }
    let Some((domain, path)) =
        key.split_once('/').filter(|(domain, path)| !domain.is_empty() && !path.is_empty())
    else {
        faults.invalid(field, key, "must be a domain-prefixed path (such as \"acme.io/foo\")");
        return;
    };
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    let is_part = |byte: u8| byte.is_ascii_graphic();
    if !domain.bytes().all(is_host) || !path.bytes().all(is_part) {
        faults.invalid(field, key, "must be a domain-prefixed path (such as \"acme.io/foo\")");
    }
    if key.bytes().any(|byte| byte.is_ascii_uppercase()) {
        faults.invalid(field, key, "must be lowercase");
    }
    let own = [&ORCH, &KUBERNETES].map(|brand| [brand.group_domain, brand.label_domain]);
    let is_of = |own: &str| domain == own || domain.strip_suffix(own).is_some_and(|rest| rest.ends_with('.'));
    // few: the domains of two brands.
    if own.iter().flatten().any(|own| is_of(own)) {
        faults.invalid(field, key, "its domain and subdomains of it are reserved for the server's own use");
    }
}

/// An address counts as a name only where a rule looks at whether its issuer has verified it.
fn check_email(
    username: &Asked,
    extra: &[(String, Expression)],
    claims: &[ClaimRule],
    field: &str,
    faults: &mut Faults,
) {
    let Asked::Valid(Mapping::Expression(name)) = username else { return };
    let verified = |expression: &Expression| expression.reads("claims", "email_verified");
    let of_rule = |rule: &ClaimRule| match rule {
        ClaimRule::Condition { condition, .. } => verified(condition),
        ClaimRule::Value { .. } => false,
    };
    let is_verified =
        verified(name) || extra.iter().any(|(_, value)| verified(value)) || claims.iter().any(of_rule);
    if name.reads("claims", "email") && !is_verified {
        let detail = "claims.email_verified must be used in claimMappings.username.expression or \
                      claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is \
                      used in claimMappings.username.expression";
        faults.invalid(&format!("{field}.expression"), name.source(), detail);
    }
}

/// The rules over the user that the claims make.
pub(super) fn user_rules(rules: Vec<FileUserRule>, field: &str, faults: &mut Faults) -> Vec<UserRule> {
    let mut seen = HashSet::new();
    let mut kept = Vec::new();
    for (at, FileUserRule { expression, message }) in rules.into_iter().enumerate() {
        let field = format!("{field}[{at}].expression");
        if expression.is_empty() {
            faults.required(&field, "");
        } else if !seen.insert(expression.clone()) {
            faults.duplicate(&field, &expression);
        } else {
            match compile_user(&expression) {
                Ok(condition) => kept.push(UserRule { condition, message }),
                Err(error) => faults.invalid(&field, &expression, &error.to_string()),
            }
        }
    }
    kept
}
