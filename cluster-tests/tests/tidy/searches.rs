//! Finds linear searches in code that runs over what clients send.
//!
//! Owns the rule and its exceptions. A search in a list whose length a client chooses, made for each item of such a
//! list, takes minutes for a body of the largest size; a search in a short list of the product's own is the simplest
//! code. No test can tell the two apart, so the author of a search marks it on its line, or beside it: `// few:` (the
//! list is the product's, and short), `// once:` (one pass for each document), `// set:` (a set, not a list).

use crate::tree::Source;

/// Folders of code that handles decoded bodies, patches, owners and selectors.
const FOLDERS: [&str; 10] = [
    "api/rules/src/",
    "api/schema/src/",
    "api/src/admission/",
    "api/src/controllers/",
    "api/src/fields/",
    "api/src/follow/",
    "api/src/patch/",
    "api/src/pipeline/",
    "api/src/render/",
    "api/src/watch/",
];

/// Searches in slices, and passes over whole slices. `contains(&` does not match searches in strings, which take no
/// reference.
const SEARCHES: [&str; 8] = [
    ".contains(&",
    ".iter().any(",
    ".iter().find(",
    ".iter().position(",
    ".find(|",
    ".any(|",
    ".position(|",
    ".retain(|",
];

const REASONS: [&str; 3] = ["// few: ", "// once: ", "// set: "];

/// The places of searches that are not marked.
pub(crate) fn unexplained(source: &Source) -> Vec<String> {
    if !FOLDERS.iter().any(|folder| source.name.starts_with(folder)) {
        return Vec::new();
    }
    let product = source.product();
    let lines: Vec<&str> = product.lines().collect();
    let is_search = |line: &str| {
        !line.trim_start().starts_with("//")
            && SEARCHES.iter().any(|search| line.contains(search))
            && !is_fixed(line)
    };
    let has_reason = |at: usize| {
        let beside = &lines[at.saturating_sub(1)..(at + 2).min(lines.len())];
        beside.iter().any(|line| REASONS.iter().any(|reason| line.contains(reason)))
    };
    let found = lines.iter().enumerate().filter(|(at, line)| is_search(line) && !has_reason(*at));
    found.map(|(at, line)| format!("{}:{}: {}", source.name, at + 1, line.trim())).collect()
}

/// A search in a constant, in a list called `known` (the house's word for the values of an enumeration), for a
/// character in a text, or of a number in a range.
fn is_fixed(line: &str) -> bool {
    let before = SEARCHES.iter().filter_map(|search| line.find(search)).min().unwrap_or(0);
    let owner =
        line[..before].rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or_default();
    let is_constant =
        owner.len() > 1 && owner.chars().all(|c| c.is_ascii_uppercase() || c == '_' || c.is_ascii_digit());
    let is_range = line[..before].ends_with(')')
        && line[..before].rsplit('(').next().is_some_and(|range| range.contains(".."));
    is_constant || owner == "known" || is_range || line[before..].contains("|c: char|")
}

#[test]
fn a_search_needs_a_reason() {
    let found = |line: &str| {
        let text = format!("fn f() {{\n    {line}\n}}\n#[cfg(test)]\nmod tests {{ seen.contains(&x); }}\n");
        unexplained(&Source { name: "api/rules/src/validate/x.rs".into(), text }).len()
    };
    for line in [
        "if seen.contains(&x) {",
        "all.iter().any(|x| x == y)",
        "all.iter().position(f)",
        "rest.find(|x| x.a)",
        "all.retain(|x| x != y)",
        "all[..at].contains(&x)",
    ] {
        assert_eq!(found(line), 1, "{line}");
        assert_eq!(found(&format!("// few: two.\n    {line}")), 0, "{line}");
        assert_eq!(found(&format!("{line} // once: here.")), 0, "{line}");
    }
    for line in [
        "MODES.contains(&x)",
        "known.contains(&x)",
        "(0..=7).contains(&x)",
        "if a && (0..7).contains(&x) {",
        "text.contains('x')",
        "// a.contains(&b)",
    ] {
        assert_eq!(found(line), 0, "{line}");
    }
    let elsewhere = Source { name: "node/src/x.rs".into(), text: "a.contains(&b)".into() };
    assert!(unexplained(&elsewhere).is_empty());
}
