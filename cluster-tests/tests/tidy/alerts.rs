//! Alert rules name only metrics that the programs have.
//!
//! Owns the names in an expression: its identifiers without functions, keywords, labels, strings and durations.

use std::collections::BTreeSet;

use regex::Regex;
use serde_norway::Value;

use super::tree::{Source, root};

/// Words of expressions that are neither metrics nor functions with their parenthesis behind them.
const KEYWORDS: [&str; 6] = ["and", "or", "unless", "bool", "offset", "inf"];

/// Suffixes of the series of a histogram.
const SUFFIXES: [&str; 3] = ["_bucket", "_sum", "_count"];

/// The names and expressions of the rules in `text`, a file of rules.
pub(crate) fn rules(text: &str) -> Vec<(String, String)> {
    let file: Value = serde_norway::from_str(text).expect("the rules are YAML");
    let groups = file["groups"].as_sequence().expect("there are groups");
    let rules = groups.iter().flat_map(|group| group["rules"].as_sequence().expect("a group has rules"));
    let text = |value: &Value| value.as_str().expect("a rule has a name and an expression").to_owned();
    rules.map(|rule| (text(&rule["alert"]), text(&rule["expr"]))).collect()
}

/// The metrics that `expression` names.
pub(crate) fn metrics(expression: &str) -> BTreeSet<String> {
    let labels =
        r#"\{[^}]*\}|\[[^\]]*\]|"[^"]*"|\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)"#;
    let bare = Regex::new(labels).expect("the pattern is valid").replace_all(expression, " ");
    let word =
        Regex::new(r"(?P<name>\b[a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?P<call>\()?").expect("the pattern is valid");
    let words = word.captures_iter(&bare).filter(|found| found.name("call").is_none());
    let names = words.map(|found| found["name"].to_owned());
    names.filter(|name| !KEYWORDS.contains(&name.as_str())).collect()
}

/// The rules of `text` that name no metric, or one that is in no string of `sources`.
pub(crate) fn unknown(text: &str, sources: &[Source]) -> Vec<String> {
    let product: Vec<String> = sources.iter().map(Source::product).collect();
    let is_known = |metric: &str| {
        let base = SUFFIXES.iter().find_map(|suffix| metric.strip_suffix(suffix)).unwrap_or(metric);
        product.iter().any(|code| code.contains(&format!("\"{base}\"")))
    };
    let mut found = Vec::new();
    for (alert, expression) in rules(text) {
        let named = metrics(&expression);
        if named.is_empty() {
            found.push(format!("{alert}: names no metric"));
        }
        found.extend(named.iter().filter(|name| !is_known(name)).map(|name| format!("{alert}: {name}")));
    }
    found
}

/// The alert rules of the repository.
pub(crate) fn file() -> String {
    std::fs::read_to_string(root().join("deploy/alerts/orch.yaml")).expect("the rules are there")
}

#[test]
fn names_in_expressions_are_found_without_labels_and_functions() {
    let expression =
        r#"sum by (instance, le) (rate(a_bucket{code="b"}[5m])) > on (c) time() - d:e or f offset 5m"#;
    assert_eq!(metrics(expression).into_iter().collect::<Vec<_>>(), ["a_bucket", "d:e", "f"]);
    let source = Source { name: "x.rs".to_owned(), text: "gauge!(\"a\");\n".to_owned() };
    let text = |expression: &str| format!("groups: [{{rules: [{{alert: X, expr: \"{expression}\"}}]}}]");
    let sources = [source];
    assert!(unknown(&text("a_bucket > 1"), &sources).is_empty());
    assert_eq!(unknown(&text("ab > 1"), &sources), ["X: ab"]);
    assert_eq!(unknown(&text("time() > 1"), &sources), ["X: names no metric"]);
}
