//! Merging tolerations, and comparing them with a list of those that are allowed.
//!
//! Owns which toleration covers which. A client chooses how many there are: each is looked up by what could cover it,
//! so that the work grows with their number and not with its square.

use std::collections::{HashMap, HashSet};

use orch_rules::validate::tree::Tree;
use orch_schema::value::Value;

/// The taints that a toleration matches, without its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Class<'t> {
    key: &'t str,
    operator: &'t str,
    value: &'t str,
    effect: &'t str,
}

impl<'t> Class<'t> {
    fn of(toleration: &'t Value) -> Class<'t> {
        let operator = toleration.text("operator");
        // `Exists` matches any value.
        let value = if operator == "Exists" { "" } else { toleration.text("value") };
        Class { key: toleration.text("key"), operator, value, effect: toleration.text("effect") }
    }

    /// Whether the time of such a toleration matters.
    fn has_time(self) -> bool {
        self.effect == "NoExecute"
    }

    /// The classes whose tolerations match all that this one matches; this one is among them.
    fn covering(self) -> impl Iterator<Item = Class<'t>> {
        let equal = self.operator == "Equal";
        let operators = [("Exists", true), ("Equal", equal), ("", equal), (self.operator, true)];
        let keys = [(self.key, true), ("", !self.key.is_empty())];
        let effects = [(self.effect, true), ("", !self.effect.is_empty())];
        let operators = operators.into_iter().filter(|(_, counts)| *counts).map(|(operator, _)| operator);
        operators.flat_map(move |operator| {
            keys.into_iter().filter(|(_, counts)| *counts).flat_map(move |(key, _)| {
                let effects = effects.into_iter().filter(|(_, counts)| *counts);
                effects.filter_map(move |(effect, _)| {
                    let value = if operator == "Exists" { "" } else { self.value };
                    // Only `Exists` matches all keys.
                    let matches_key = key == self.key || operator == "Exists";
                    matches_key.then_some(Class { key, operator, value, effect })
                })
            })
        })
    }
}

/// Seconds that a toleration lasts; without a bound the most there are.
fn seconds(toleration: &Value) -> i64 {
    toleration.int("tolerationSeconds").unwrap_or(i64::MAX)
}

/// Tolerations by their classes: the longest of each.
#[derive(Debug, Default)]
struct Longest<'t>(HashMap<Class<'t>, i64>);

impl<'t> Longest<'t> {
    fn of(tolerations: &[&'t Value]) -> Longest<'t> {
        let mut longest = HashMap::new();
        for toleration in tolerations {
            let seconds = seconds(toleration);
            let known = longest.entry(Class::of(toleration)).or_insert(seconds);
            *known = seconds.max(*known);
        }
        Longest(longest)
    }

    /// Whether a toleration of `class` lasts for `seconds`; one of another class than `own`, or longer.
    fn covers(&self, class: Class<'_>, own: Class<'_>, seconds: i64) -> bool {
        self.0.get(&class).is_some_and(|longest| match (class == own, class.has_time()) {
            (true, true) => *longest > seconds,
            (true, false) => false,
            (false, true) => *longest >= seconds,
            (false, false) => true,
        })
    }
}

/// All tolerations of both lists but those that others cover. Of equal ones the first stays.
pub(super) fn merge(first: &[Value], second: &[Value]) -> Vec<Value> {
    let all: Vec<&Value> = first.iter().chain(second).collect();
    let (longest, mut seen) = (Longest::of(&all), HashSet::new());
    let mut merged = Vec::new();
    for toleration in &all {
        let (own, seconds) = (Class::of(toleration), seconds(toleration));
        // few: a dozen classes.
        let is_covered = own.covering().any(|class| longest.covers(class, own, seconds));
        let time = if own.has_time() { seconds } else { 0 };
        // set: `seen` is one.
        if !is_covered && seen.insert((own, time)) {
            merged.push((*toleration).clone());
        }
    }
    merged
}

/// Whether one of `allowed` covers each of `tolerations`.
pub(super) fn are_within(tolerations: &[Value], allowed: &[Value]) -> bool {
    let longest = Longest::of(&allowed.iter().collect::<Vec<_>>());
    tolerations.iter().all(|toleration| {
        let own = Class::of(toleration);
        let lasts = |class: Class<'_>| {
            let known = longest.0.get(&class);
            known.is_some_and(|longest| !class.has_time() || *longest >= seconds(toleration))
        };
        // few: a dozen classes.
        own.covering().any(lasts)
    })
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    fn toleration(text: &str) -> Value {
        let mut parts = text.split(' ');
        let mut part = || parts.next().unwrap_or_default();
        let mut toleration = json!({"key": part(), "operator": part(), "value": part(), "effect": part()});
        if let Ok(seconds) = part().parse::<i64>() {
            toleration["tolerationSeconds"] = json!(seconds);
        }
        toleration
    }

    fn list(texts: &[&str]) -> Vec<Value> {
        texts.iter().map(|text| toleration(text)).collect()
    }

    #[test]
    fn covered_tolerations_go_and_the_first_of_equal_ones_stays() {
        for (first, second, expected) in [
            (&["a Exists"][..], &["a Exists"][..], &["a Exists"][..]),
            (&["a Equal v"], &["b Equal v"], &["a Equal v", "b Equal v"]),
            (&["a Equal v NoSchedule"], &["a Exists"], &["a Exists"]),
            (&["a Exists  NoSchedule", "a Exists  NoExecute"], &["a Exists"], &["a Exists"]),
            (&["a Exists"], &[" Exists"], &[" Exists"]),
            (&["a Exists  NoExecute 10"], &["a Exists  NoExecute 20"], &["a Exists  NoExecute 20"]),
            (&["a Exists  NoExecute 10"], &["a Exists  NoExecute"], &["a Exists  NoExecute"]),
            (&["a Exists  NoExecute"], &["a Equal v NoExecute 5"], &["a Exists  NoExecute"]),
            (
                &["a Exists  NoExecute 4"],
                &["a Equal v NoExecute 5"],
                &["a Exists  NoExecute 4", "a Equal v NoExecute 5"],
            ),
            (&["a  v"], &["a Equal v"], &["a  v"]),
        ] {
            assert_eq!(merge(&list(first), &list(second)), list(expected), "{first:?} {second:?}");
        }
    }

    #[test]
    fn tolerations_are_compared_with_those_that_are_allowed() {
        for (tolerations, allowed, expected) in [
            (&[][..], &[][..], true),
            (&["a Exists"], &[], false),
            (&["a Equal v NoSchedule"], &["a Exists"], true),
            (&["a Equal v NoSchedule"], &["a Equal w NoSchedule"], false),
            (&["a Exists  NoExecute 10"], &["a Exists  NoExecute 10"], true),
            (&["a Exists  NoExecute 11"], &["a Exists  NoExecute 10"], false),
            (&["a Exists  NoExecute"], &["a Exists  NoExecute 10"], false),
            (&["a Exists", "b Exists"], &[" Exists"], true),
            (&[" Exists"], &["a Exists"], false),
        ] {
            assert_eq!(
                are_within(&list(tolerations), &list(allowed)),
                expected,
                "{tolerations:?} {allowed:?}"
            );
        }
    }
}
