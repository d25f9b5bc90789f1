//! Schemas that a value must match besides its own: `anyOf`, `oneOf`, `allOf`, `not`.
//!
//! Owns which failures of several schemas are told: of those that fail, those of the schema that fits best.
//!
//! Invariant: nothing below a junctor is forgiven on an update; its failures belong to the value as a whole.

use orch_schema::value::Value;

use super::check::Checker;
use super::constraint::Node;
use super::failure::{Failure, Outcome, Place};
use super::rules::{Junctors, Rules};

/// Checks `value` against the junctors of `rules`.
pub(super) fn check(walk: Checker<'_>, rules: Option<&Rules>, value: &Value, place: Place<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    if let Some(junctors) = rules.and_then(Rules::junctors) {
        let Junctors { all_of, any_of, one_of, not } = junctors;
        let checked = |node: &Node| walk.checked(node, value, place, None);
        if !any_of.is_empty() {
            any(any_of, checked, place, &mut outcome);
        }
        if !one_of.is_empty() {
            one(one_of, checked, place, &mut outcome);
        }
        if !all_of.is_empty() {
            all(all_of, checked, place, &mut outcome);
        }
        if not.as_ref().is_some_and(|node| checked(node).is_valid()) {
            outcome.push(composite(place, "must not validate the schema (not)"));
        }
    }
    outcome.matches += 1;
    outcome
}

fn composite(place: Place<'_>, text: &str) -> Failure {
    Failure::composite(format!("{} {text}", orch_schema::excerpt::quoted(&place.path())))
}

/// The outcome of the schema that passed most checks; of several the first.
fn better(best: Option<Outcome>, other: Outcome) -> Option<Outcome> {
    match best {
        Some(best) if best.matches >= other.matches => Some(best),
        _ => Some(other),
    }
}

fn any(nodes: &[Node], checked: impl Fn(&Node) -> Outcome, place: Place<'_>, outcome: &mut Outcome) {
    let mut best = None;
    for node in nodes {
        let result = checked(node);
        if result.is_valid() {
            return outcome.merge(result);
        }
        best = better(best, result);
    }
    outcome.push(composite(place, "must validate at least one schema (anyOf)"));
    outcome.merge(best.unwrap_or_default());
}

fn one(nodes: &[Node], checked: impl Fn(&Node) -> Outcome, place: Place<'_>, outcome: &mut Outcome) {
    let (mut best, mut first_valid, mut valid) = (None, None, 0_usize);
    for node in nodes {
        let result = checked(node);
        if result.is_valid() {
            valid += 1;
            best = None;
            first_valid = first_valid.or(Some(result));
        } else if valid == 0 {
            best = better(best, result);
        }
    }
    if valid == 1 {
        return outcome.merge(first_valid.unwrap_or_default());
    }
    let found = if valid == 0 { "none valid".to_owned() } else { format!("{valid} valid alternatives") };
    let text = format!("must validate one and only one schema (oneOf). Found {found}");
    outcome.push(composite(place, &text));
    outcome.merge(best.unwrap_or_default());
}

fn all(nodes: &[Node], checked: impl Fn(&Node) -> Outcome, place: Place<'_>, outcome: &mut Outcome) {
    let mut valid = 0;
    for node in nodes {
        let result = checked(node);
        valid += usize::from(result.is_valid());
        outcome.merge(result);
    }
    if valid < nodes.len() {
        let more = if valid == 0 { ". None validated" } else { "" };
        outcome.push(composite(place, &format!("must validate all the schemas (allOf){more}")));
    }
}
