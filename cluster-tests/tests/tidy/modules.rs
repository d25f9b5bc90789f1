//! Finds source files that no crate reaches, and files that only tests reach: follows `mod name;` from each crate's
//! roots.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::Source;

/// The names of files that no root reaches.
pub(crate) fn unused(sources: &[Source]) -> Vec<String> {
    let texts: BTreeMap<&str, &str> =
        sources.iter().map(|source| (source.name.as_str(), source.text.as_str())).collect();
    let mut reached = BTreeSet::new();
    for name in texts.keys().filter(|name| is_root(name)) {
        follow(name, &texts, &mut reached);
    }
    texts.keys().filter(|name| !reached.contains(**name)).map(|name| (*name).to_owned()).collect()
}

/// The names of the files that are modules of tests: declared under `#[cfg(test)]`.
pub(crate) fn only_for_tests(sources: &[Source]) -> BTreeSet<String> {
    let declared_in = |source: &Source| {
        let lines: Vec<_> = source.text.lines().map(str::trim).collect();
        let pairs = lines.windows(2).filter(|pair| pair[0] == "#[cfg(test)]");
        let modules = pairs.flat_map(|pair| declared(pair[1]));
        modules.flat_map(|module| candidates(&source.name, module)).collect::<Vec<_>>()
    };
    sources.iter().flat_map(declared_in).collect()
}

/// Cargo itself compiles the file: a library, a program, a test, a benchmark, an example, a build script.
fn is_root(name: &str) -> bool {
    let parts: Vec<_> = name.split('/').collect();
    let Some(place) = parts.iter().rposition(|part| is_root_folder(part)) else {
        return name.ends_with("/build.rs");
    };
    match parts[place..] {
        ["src", file] => matches!(file, "lib.rs" | "main.rs"),
        ["tests", _] if parts[..place].contains(&"src") => false,
        [_, _] => true,
        [folder, _, "main.rs"] => folder != "src",
        _ => false,
    }
}

fn is_root_folder(part: &str) -> bool {
    matches!(part, "src" | "bin" | "tests" | "benches" | "examples" | "fuzz_targets")
}

fn follow<'a>(name: &'a str, texts: &BTreeMap<&'a str, &str>, reached: &mut BTreeSet<&'a str>) {
    if !reached.insert(name) {
        return;
    }
    let text = texts.get(name).copied().unwrap_or_default();
    for module in declared(text) {
        for candidate in candidates(name, module) {
            if let Some((known, _)) = texts.get_key_value(candidate.as_str()) {
                follow(known, texts, reached);
            }
        }
    }
}

/// The names in `mod name;` items.
fn declared(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let item = line.trim().strip_suffix(';')?;
        let (visibility, name) = item.rsplit_once("mod ")?;
        let is_item = visibility.is_empty() || visibility.starts_with("pub");
        is_item.then(|| name.trim())
    })
}

/// Possible files of the module `module`, declared in the file `name`.
fn candidates(name: &str, module: &str) -> [String; 2] {
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    let stem = file.trim_end_matches(".rs");
    let is_folder_root = matches!(file, "lib.rs" | "main.rs" | "mod.rs") || is_root(name);
    let base = if is_folder_root { folder.to_owned() } else { format!("{folder}/{stem}") };
    [format!("{base}/{module}.rs"), format!("{base}/{module}/mod.rs")]
}

#[test]
fn a_module_declared_for_tests_is_one() {
    let text = "mod one;\n#[cfg(test)]\nmod two;\nmod three;\n".into();
    let found = only_for_tests(&[Source { name: "a/src/lib.rs".into(), text }]);
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["a/src/two.rs", "a/src/two/mod.rs"]);
}

#[test]
fn a_file_that_no_module_names_is_found() {
    let file = |name: &str, text: &str| Source { name: name.into(), text: text.into() };
    let sources = [
        file("a/src/lib.rs", "//! x\npub mod one;\nmod two;\n#[cfg(test)]\nmod tests;\n"),
        file("a/src/one.rs", "pub(crate) mod deep;"),
        file("a/src/one/deep.rs", ""),
        file("a/src/two/mod.rs", "mod tests;\n// mod three;"),
        file("a/src/two/tests.rs", ""),
        file("a/src/two/three.rs", ""),
        file("a/src/tests.rs", ""),
        file("a/src/bin/tool.rs", ""),
        file("a/tests/whole/main.rs", "mod part;"),
        file("a/tests/whole/part.rs", ""),
        file("a/tests/whole/other.rs", ""),
        file("a/build.rs", ""),
        file("a/src/lost.rs", ""),
    ];
    assert_eq!(unused(&sources), ["a/src/lost.rs", "a/src/two/three.rs", "a/tests/whole/other.rs"]);
}
