//! The names of metrics in the code of `orch` and in its catalog are the same.
//!
//! Owns the finding of names in code: the first argument of the macros that count, a constant that is given to them, and the end of
//! a name that begins with the brand's. Labels and values are compared with a running node, in the tests of `node`. The catalog
//! of the scheduler is held by its own test.

use std::collections::BTreeSet;

use regex::Regex;

use super::check;
use super::tree::{Source, sources};

/// The table.
const CATALOG: &str = "node/src/metrics/catalog.rs";

/// Folders whose series are on the page of `orch`.
const FOLDERS: [&str; 4] = ["api/", "bounded/", "node/", "raft/"];

/// The names in `code` that are counted, measured or described.
fn counted(code: &str) -> BTreeSet<String> {
    let patterns = [
        // gauge!("name", and the closures that are called like the macros.
        r#"\b(?:counter|gauge|histogram)!?\(\s*"(?P<name>[a-z_]+)""#,
        r#"const [A-Z_]+: &str = "(?P<name>(?:(?:orch|apiserver|aggregator)_|_healthcheck)[a-z_]*)";"#,
        // Written by hand, a family at a time.
        r#"\bseries\(\s*"(?P<name>[a-z_]+)""#,
        r#"\b(?:counter|gauge|histogram)!\(\s*format!\("\{\}(?P<name>_[a-z_]+)""#,
    ];
    let patterns = patterns.map(|pattern| Regex::new(pattern).expect("the pattern is valid"));
    let names = patterns.iter().flat_map(|pattern| pattern.captures_iter(code));
    names.map(|found| found["name"].to_owned()).collect()
}

/// The names in the rows of the table.
fn listed(catalog: &str) -> BTreeSet<String> {
    let row = r#"(?m)^    (?:Counter|Gauge|Histogram) (?:Alpha|Beta|Stable) "(?P<name>[a-z_]+)""#;
    let row = Regex::new(row).expect("the pattern is valid");
    row.captures_iter(catalog).map(|found| found["name"].to_owned()).collect()
}

#[test]
fn names_are_found_in_macros_constants_and_behind_the_brand() {
    let code = "counter!(\"a_total\");\nlet b = gauge(\"b\");\nhistogram!(\n    \"c\", \"d\" => 1);\n\
                const EXPIRY: &str = \"orch_e\";\ngauge!(format!(\"{}_f\", brand.name));\nseries(\"g\", 1);";
    let found: Vec<String> = counted(code).into_iter().collect();
    assert_eq!(found, ["_f", "a_total", "b", "c", "g", "orch_e"]);
    assert_eq!(listed("    Gauge Alpha \"a\" NONE \"A.\";\n").into_iter().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn the_catalog_has_the_metrics_that_code_counts_and_no_other() {
    let sources = sources("rs");
    let catalog = sources.iter().find(|source| source.name == CATALOG).expect("the catalog is there");
    let listed = listed(&catalog.text);
    assert!(listed.len() > 60, "{} rows", listed.len());
    let is_counting = |source: &&Source| {
        let is_ours = FOLDERS.iter().any(|folder| source.name.starts_with(folder));
        is_ours && source.name != CATALOG && !source.name.contains("/tests")
    };
    let product: Vec<(&str, String)> =
        sources.iter().filter(is_counting).map(|source| (&*source.name, source.product())).collect();
    let unlisted = product.iter().flat_map(|(file, code)| {
        let unlisted = counted(code).into_iter().filter(|name| !listed.contains(name));
        unlisted.map(move |name| format!("{file}: {name}")).collect::<Vec<_>>()
    });
    check("each metric has a row in the catalog", unlisted);
    let all: BTreeSet<String> = product.iter().flat_map(|(_, code)| counted(code)).collect();
    check("each row is of a metric that code counts", listed.difference(&all).cloned());
    let described = product.iter().filter(|(_, code)| {
        ["describe_gauge!", "describe_counter!", "describe_histogram!"].iter().any(|name| code.contains(name))
    });
    check("the catalog alone describes metrics", described.map(|(file, _)| (*file).to_owned()));
}
