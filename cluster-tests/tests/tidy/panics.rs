//! Panics of the product print constant texts.
//!
//! Owns the rule: a message of `panic!`, `unreachable!`, `assert!` or `expect` in the product's code holds no value. What a
//! panic prints passes no filter of verbosity and no redaction, and a value may be a client's text or a secret.

use super::check;
use super::tree::{Source, sources};

/// Folders of the product: what it prints may come from a client, or from an API server.
const FOLDERS: [&str; 5] = ["api/", "node/", "proto/", "raft/", "scheduler/"];

/// Parts of the names of files outside of the product.
const FOR_TESTS: [&str; 4] = ["/tests/", "/testing", "/benches/", "/fuzz/"];

/// Indexing a value as a table does, by names and places that stand in the code.
const BY_CODE: &str = "api/schema/src/value/";

/// Beginnings of what prints a message. `debug_assert!` is not built into the product.
const STARTS: [&str; 6] =
    ["panic!(", "unreachable!(", " assert!(", " assert_eq!(", " assert_ne!(", ".expect("];

#[test]
fn no_panic_shows_a_value() {
    let is_product = |source: &Source| {
        FOLDERS.iter().any(|folder| source.name.starts_with(folder))
            && !FOR_TESTS.iter().any(|part| source.name.contains(part))
            && !source.name.starts_with(BY_CODE)
    };
    let sources = sources("rs");
    let built_for_tests = modules_for_tests(&sources);
    let is_for_tests = |source: &Source| built_for_tests.iter().any(|path| source.name.starts_with(path));
    let product = sources.iter().filter(|source| is_product(source) && !is_for_tests(source));
    let product: Vec<&Source> = product.collect();
    assert!(product.len() > 300, "{} files", product.len());
    check("a panic shows no value", product.into_iter().flat_map(messages_with_values));
}

#[test]
fn the_rule_sees_values_in_messages() {
    let source = |line: &str| Source { name: "api/src/x.rs".to_owned(), text: format!("    {line}\n") };
    for (line, expected) in [
        (r#"panic!("{token}");"#, 1),
        (r#".expect(&format!("no {name:?}"));"#, 1),
        (" assert!(\n        is_it,\n        \"{}\",\n        token,\n    );", 1),
        (r#".expect("the map (if any) is full");"#, 0),
        (r#"panic!("a brace {{ in a text");"#, 0),
        (r#"debug_assert!(is_it, "{token}");"#, 0),
    ] {
        assert_eq!(messages_with_values(&source(line)).len(), expected, "{line}");
    }
}

/// Beginnings of the names of files whose modules are declared for tests alone.
fn modules_for_tests(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    for source in sources {
        let folder = match source.name.rsplit_once('/') {
            Some((folder, "lib.rs" | "main.rs" | "mod.rs")) => folder,
            _ => source.name.trim_end_matches(".rs"),
        };
        let mut lines = source.text.lines().map(str::trim);
        while let Some(line) = lines.next() {
            let declared = line.strip_prefix("#[cfg(test)]").and_then(|_| lines.next());
            let name = declared.and_then(|line| line.strip_suffix(';')?.rsplit_once("mod "));
            found.extend(name.map(|(_, name)| [format!("{folder}/{name}.rs"), format!("{folder}/{name}/")]));
        }
    }
    found.concat()
}

/// The places of messages that hold a value.
fn messages_with_values(source: &Source) -> Vec<String> {
    let product = source.product();
    let mut found = Vec::new();
    for start in STARTS {
        for (at, _) in product.match_indices(start) {
            let line = product[..at].matches('\n').count() + 1;
            let is_comment = product[..at].rsplit('\n').next().is_some_and(|line| line.contains("//"));
            if !is_comment && arguments(&product[at + start.len()..]).is_some_and(holds_value) {
                found.push(format!("{}:{line}: {}", source.name, start.trim()));
            }
        }
    }
    found
}

/// The text up to the parenthesis that closes the arguments.
fn arguments(text: &str) -> Option<&str> {
    let (mut depth, mut is_text, mut is_escaped) = (1_u32, false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'(' if !is_text => depth += 1,
            b')' if !is_text => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return text.get(..at);
        }
    }
    None
}

/// Whether a text in `arguments` has a place for a value.
fn holds_value(arguments: &str) -> bool {
    let texts = arguments.split('"').skip(1).step_by(2);
    texts.map(|text| text.replace("{{", "")).any(|text| text.contains('{'))
}
