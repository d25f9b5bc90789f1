//! Patterns and expressions are compiled in one place, at a price.
//!
//! Owns the rule: no code of the product uses a library of regular expressions, or parses CEL, but the modules that charge
//! for it; and no dependency brings a second way to compile a pattern. What a client sends costs up to a thousand times
//! more to compile than to read.

use super::check;
use super::tree::{Source, sources};

/// Folders of the product.
const FOLDERS: [&str; 5] = ["api/", "node/", "proto/", "raft/", "scheduler/"];

/// Parts of the names of files outside of the product.
const FOR_TESTS: [&str; 4] = ["/tests/", "/tests.rs", "/benches/", "/fuzz/"];

/// Calls that compile, and the only places that may.
const PRICED: [(&str, &[&str]); 7] = [
    ("regex_automata", &["api/expression/src/pattern/mod.rs", "api/expression/src/pattern/kept.rs"]),
    ("regex_syntax", &["api/expression/src/pattern/"]),
    ("regex::", &[]),
    ("fancy_regex", &[]),
    ("RegexBuilder", &[]),
    ("Program::compile", &[]),
    (".parser()", &["api/expression/src/parse.rs"]),
];

/// Crates that may depend on a library of regular expressions: one for what clients send, one for constants in tests.
const DEPENDENTS: [(&str, &str); 3] = [
    ("regex-automata", "api/expression/Cargo.toml"),
    ("regex-syntax", "api/expression/Cargo.toml"),
    ("regex", "cluster-tests/Cargo.toml"),
];

#[test]
fn patterns_and_expressions_are_compiled_at_a_price() {
    let is_product = |source: &&Source| {
        FOLDERS.iter().any(|folder| source.name.starts_with(folder))
            && !FOR_TESTS.iter().any(|part| source.name.contains(part))
    };
    let sources = sources("rs");
    let product: Vec<&Source> = sources.iter().filter(is_product).collect();
    assert!(product.len() > 300, "{} files", product.len());
    check("compile patterns by `orch_expression`", product.into_iter().flat_map(unpriced));
}

#[test]
fn no_dependency_brings_another_way_to_compile_patterns() {
    let manifests = sources("toml").into_iter().filter(|source| source.name.ends_with("/Cargo.toml"));
    let wrong = manifests.flat_map(|manifest| {
        let lines = manifest.text.lines().filter(|line| line.starts_with("regex")).map(str::to_owned);
        let names = lines.filter_map(|line| Some(line.split(['.', ' ', '=']).next()?.to_owned()));
        let name = manifest.name;
        let unknown = names.filter_map(|dependency| {
            let is_known = DEPENDENTS.contains(&(dependency.as_str(), name.as_str()));
            (!is_known).then(|| format!("{name}: {dependency}"))
        });
        unknown.collect::<Vec<_>>()
    });
    check("the crates that compile patterns are known", wrong);
    let workspace = sources("toml").into_iter().find(|source| source.name == "Cargo.toml");
    let workspace = workspace.expect("the workspace has a manifest").text;
    let cel = workspace.lines().find(|line| line.starts_with("cel = ")).unwrap_or_default();
    assert!(cel.contains("default-features = false") && !cel.contains("regex"), "CEL's own `matches`: {cel}");
}

/// The places that compile without a price.
fn unpriced(source: &Source) -> Vec<String> {
    let product = source.product();
    let lines = product.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    let found = lines.filter(|(_, line)| {
        PRICED.iter().any(|(call, places)| {
            line.contains(call) && !places.iter().any(|place| source.name.starts_with(place))
        })
    });
    found.map(|(at, line)| format!("{}:{}: {}", source.name, at + 1, line.trim())).collect()
}

#[test]
fn the_rule_sees_what_compiles() {
    let source = |name: &str, line: &str| Source { name: name.to_owned(), text: format!("{line}\n") };
    for (line, expected) in [
        ("let pattern = regex::Regex::new(text)?;", 1),
        ("use regex_automata::meta::Regex;", 1),
        ("let program = environment.parser()(source)?;", 1),
        ("let program = cel::Program::compile(source)?;", 1),
        ("// regex::Regex is not used here.", 0),
        ("let parsed = parse(&ENVIRONMENT, source, charge)?;", 0),
    ] {
        assert_eq!(unpriced(&source("api/src/x.rs", line)).len(), expected, "{line}");
    }
    let behind = "#[cfg(test)]\nuse x;\nuse regex_automata::meta::Regex;";
    assert_eq!(unpriced(&source("api/src/x.rs", behind)).len(), 1, "behind an item of tests");
    let priced = source("api/expression/src/pattern/mod.rs", "use regex_automata::nfa::NFA;");
    assert!(unpriced(&priced).is_empty());
}
