//! Finds field names that no message declares.
//!
//! Owns the patterns of field names in the rules of kinds: calls that read an object or make a path. A misspelt name
//! reads as absent, and no compiler reports it.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use crate::tree::Source;

/// Folders whose code reads decoded objects by field names.
const FOLDERS: [&str; 4] =
    ["api/rules/src/kinds/", "api/rules/src/validate/", "api/src/admission/", "api/src/pipeline/"];

/// Parts of error paths that the reference spells in its own way.
const PATHS_ONLY: [&str; 7] = [
    "JSONPath",
    "LoadBalancerSourceRanges",
    "Phase",
    "Type",
    "initiatorname",
    "validation",
    "webhookClientConfig",
];

/// A read of a field, or a step of a path: `spec.at("replicas")`.
static LOOKS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#"\.(?:at|text|items|int|flag|has|entries|texts|is_empty_at|child)\(\s*"(\w+)""#)
        .expect("a pattern")
});

/// A change of a field: `set(spec, "replicas", 1)`.
static CHANGES: LazyLock<Regex> = LazyLock::new(|| {
    let calls = "set|unset|set_default|set_default_text|child_mut|items_mut|existing_mut|carry";
    let argument = r#"(?:[^",;()]|\([^()]*\))+,\s*"#;
    Regex::new(&format!(r#"\b(?:{calls})\(\s*(?:{argument})+"(\w+)""#)).expect("a pattern")
});

/// The names of all fields in the `.proto` files of the kinds.
pub(crate) fn declared(files: &[Source]) -> BTreeSet<String> {
    let field = Regex::new(r"(?m)^\s*[\w.<>, ]*?\b(\w+) = \d+").expect("a pattern");
    let spelled = Regex::new(r#"json: "([^"]+)""#).expect("a pattern");
    let kinds = files.iter().filter(|file| file.name.starts_with("proto/schema/"));
    let names =
        kinds.flat_map(|file| field.captures_iter(&file.text).chain(spelled.captures_iter(&file.text)));
    names.map(|found| found[1].to_owned()).collect()
}

/// The places of names that are not in `declared`.
pub(crate) fn unknown(source: &Source, declared: &BTreeSet<String>) -> Vec<String> {
    if !FOLDERS.iter().any(|folder| source.name.starts_with(folder)) {
        return Vec::new();
    }
    let product = source.product();
    let named = LOOKS.captures_iter(&product).chain(CHANGES.captures_iter(&product));
    let names = named.filter_map(|found| found.get(1));
    let unknown =
        names.filter(|name| !declared.contains(name.as_str()) && !PATHS_ONLY.contains(&name.as_str()));
    let line = |at: usize| product[..at].lines().count();
    unknown.map(|name| format!("{}:{}: {}", source.name, line(name.start()), name.as_str())).collect()
}

#[test]
fn a_name_that_is_written_wrong_is_found() {
    let file = |name: &str, text: &str| Source { name: name.to_owned(), text: text.to_owned() };
    let declared = declared(&[
        file(
            "proto/schema/core/v1/pod.proto",
            "  optional int32 replicas = 1;\n  Inner spec = 2 [(x) = { json: \"also\" }];",
        ),
        file("proto/store/store.proto", "  optional int32 elsewhere = 1;"),
    ]);
    assert_eq!(declared.iter().map(String::as_str).collect::<Vec<_>>(), ["also", "replicas", "spec"]);
    let found = |line: &str| unknown(&file("api/rules/src/kinds/x.rs", line), &declared).len();
    for line in [
        r#"object.at("spec").int("replicsa")"#,
        r#"set(child_mut(new, "spec"), "elsewhere", 1)"#,
        r#"path.child("replicass")"#,
        "set_default(\n    spec,\n    \"replica\",\n    1)",
    ] {
        assert_eq!(found(line), 1, "{line}");
    }
    for line in [r#"object.at("spec").has("also")"#, r#"set(spec, "replicas", "any")"#, r#"log("anything")"#]
    {
        assert_eq!(found(line), 0, "{line}");
    }
}
