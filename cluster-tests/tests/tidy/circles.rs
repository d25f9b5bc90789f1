//! Finds circles among the folders of a crate: modules of its root that name one another.
//!
//! Owns the list of crates without circles. In such a crate the folders have an order, and whoever reads one of them need not
//! read those above. A name counts where it stands: in a `use`, or as a path in code. Tests may name everything.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::Source;

/// Source folders of crates whose folders name one another in one direction.
pub(crate) const CRATES: [&str; 5] =
    ["api/rules/src/", "api/schema/src/", "api/src/", "proto/src/", "raft/src/"];

/// For each pair of folders, the first one naming the second: the places, as `file:line`.
type Arrows = BTreeMap<(String, String), Vec<String>>;

/// The arrows of `folder` that are part of a circle, those at the fewest places first. `sources`: product files.
pub(crate) fn circles<'s>(folder: &str, sources: impl Iterator<Item = &'s Source>) -> Vec<String> {
    let files: Vec<(&str, &Source)> =
        sources.filter_map(|source| Some((source.name.strip_prefix(folder)?, source))).collect();
    let folders: BTreeSet<&str> = files.iter().map(|(path, _)| first(path)).collect();
    let mut arrows = Arrows::new();
    for (path, source) in &files {
        let from = first(path);
        // The root of a crate declares its modules and names them for others.
        if matches!(from, "lib" | "main") {
            continue;
        }
        for (line, to) in named(&source.product(), depth(path)) {
            if to != from && folders.contains(to.as_str()) {
                let places = arrows.entry((from.to_owned(), to)).or_default();
                places.push(format!("{}:{line}", source.name));
            }
        }
    }
    let mut circle: Vec<_> = arrows.iter().filter(|((from, to), _)| reaches(&arrows, to, from)).collect();
    circle.sort_by_key(|(_, places)| places.len());
    circle.iter().map(|((from, to), places)| format!("{from} -> {to}: {}", places.join(", "))).collect()
}

/// The folder, or the file, at the root of the crate that holds `path`.
fn first(path: &str) -> &str {
    let name = path.split('/').next().unwrap_or(path);
    name.strip_suffix(".rs").unwrap_or(name)
}

/// The depth of the module of the file `path` below the root of its crate.
fn depth(path: &str) -> usize {
    let is_folder = path.ends_with("/mod.rs");
    path.split('/').count() - usize::from(is_folder)
}

/// The modules of the crate's root that `text` names, with the numbers of the lines. The text is of a file that lies `depth`
/// modules below the root.
fn named(text: &str, depth: usize) -> Vec<(usize, String)> {
    let lines = text.lines().map(|line| if line.trim_start().starts_with("//") { "" } else { line });
    let code = lines.collect::<Vec<_>>().join("\n");
    let to_root = "super::".repeat(depth);
    let mut found = Vec::new();
    for root in ["crate::", to_root.as_str()] {
        for (at, _) in code.match_indices(root) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|before| before == '_' || before == ':' || before.is_alphanumeric()) {
                continue;
            }
            let line = code[..at].matches('\n').count() + 1;
            let names = names_in(&code[at + root.len()..]);
            found.extend(names.into_iter().map(|name| (line, name.to_owned())));
        }
    }
    found
}

/// The first names of the paths at the start of `rest`: one path, or several in braces.
fn names_in(rest: &str) -> Vec<&str> {
    let Some(group) = rest.strip_prefix('{') else { return vec![identifier(rest)] };
    let (mut names, mut open, mut begin) = (Vec::new(), 0, 0);
    for (at, character) in group.char_indices() {
        match character {
            '{' => open += 1,
            '}' if open > 0 => open -= 1,
            ',' if open == 0 => {
                names.push(identifier(&group[begin..at]));
                begin = at + 1;
            }
            '}' => {
                names.push(identifier(&group[begin..at]));
                return names;
            }
            _ => {}
        }
    }
    names
}

fn identifier(text: &str) -> &str {
    let text = text.trim_start();
    let end = text.find(|c: char| c != '_' && !c.is_alphanumeric()).unwrap_or(text.len());
    &text[..end]
}

/// Whether arrows lead from `from` to `to`.
fn reaches(arrows: &Arrows, from: &str, to: &str) -> bool {
    let (mut seen, mut open) = (BTreeSet::from([from]), vec![from]);
    while let Some(folder) = open.pop() {
        if folder == to {
            return true;
        }
        let next = arrows.keys().filter(|(of, _)| of == folder).map(|(_, next)| next.as_str());
        open.extend(next.filter(|next| seen.insert(*next)));
    }
    false
}

#[test]
fn a_circle_is_told_by_its_arrows_and_nothing_beside_it() {
    let file = |name: &str, text: &str| Source { name: format!("x/src/{name}"), text: text.into() };
    let sources = [
        file("lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\nuse crate::a::A;\n"),
        file("a/mod.rs", "use crate::b::B;\n// crate::d::D\nuse super::c;\n"),
        file("a/deep/mod.rs", "use super::super::{b, c::{C, b}};\nuse super::b;\n"),
        file("b.rs", "fn f() {\n    crate::c::g();\n    other_crate::d::h();\n}\n"),
        file("c.rs", "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n"),
        file("d.rs", "use crate::{a, b::B};\nuse super::c::C;\n"),
    ];
    assert_eq!(circles("x/src/", sources.iter()), [""; 0]);
    let back = file("c/back.rs", "\nuse crate::a::A;\n");
    assert_eq!(
        circles("x/src/", sources.iter().chain([&back])),
        [
            "b -> c: x/src/b.rs:2",
            "c -> a: x/src/c/back.rs:2",
            "a -> b: x/src/a/mod.rs:1, x/src/a/deep/mod.rs:1",
            "a -> c: x/src/a/mod.rs:3, x/src/a/deep/mod.rs:1",
        ]
    );
}
