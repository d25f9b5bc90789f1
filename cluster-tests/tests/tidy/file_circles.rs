//! Finds circles among the files of a folder: files that name one another, directly or by a way around.
//!
//! Owns the list of folders without such circles. A name counts where it stands, and as the file that has the item: a module that
//! only hands a name on (`pub use`) is no step of a way. Glob imports and tests are not looked at.

use std::collections::{BTreeMap, BTreeSet};

use crate::tree::Source;

/// Folders whose files name one another in one direction: what a running member's parts share (`core`) is below all of them.
pub(crate) const FOLDERS: [(&str, &str); 1] = [("raft/src/", "member")];

/// A module of a crate, by its path from the root.
type Module = Vec<String>;

/// The files below `folder` of the crate at `root` that are in a circle, each with the files of the circle that it names.
/// `sources`: product files.
pub(crate) fn circles<'s>(
    (root, folder): (&str, &str),
    sources: impl Iterator<Item = &'s Source>,
) -> Vec<String> {
    let files: BTreeMap<Module, &Source> =
        sources.filter_map(|source| Some((module(source.name.strip_prefix(root)?), source))).collect();
    let read: BTreeMap<&Module, Names> =
        files.iter().map(|(module, source)| (module, Names::of(&source.product()))).collect();
    let resolve = |from: &Module, path: &[String]| resolve(&files, &read, from, path);
    let mut arrows: BTreeMap<&Module, BTreeSet<&Module>> = BTreeMap::new();
    for (from, names) in &read {
        let named = names.imported.iter().filter_map(|path| resolve(from, path));
        arrows.insert(from, named.filter(|to| to != from).collect());
    }
    let in_folder = |module: &Module| module.first().is_some_and(|first| first == folder);
    let mut found = Vec::new();
    for (from, to) in arrows.iter().filter(|(from, _)| in_folder(from)) {
        let back: Vec<&str> =
            to.iter().filter(|to| reaches(&arrows, to, from)).map(|to| files[*to].name.as_str()).collect();
        if !back.is_empty() {
            found.push(format!("{} -> {}", files[*from].name, back.join(", ")));
        }
    }
    found
}

/// The module of the file `path`, relative to the folder of the crate's root.
fn module(path: &str) -> Module {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let path = path.strip_suffix("/mod").unwrap_or(path);
    path.split('/').filter(|part| *part != "lib").map(str::to_owned).collect()
}

/// The paths that a file names.
struct Names {
    /// Those that the file itself uses.
    imported: Vec<Vec<String>>,
    /// Those that it hands on, or uses under a name that its children may take from it.
    used: Vec<Vec<String>>,
}

impl Names {
    fn of(text: &str) -> Names {
        let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
        let code = lines.collect::<Vec<_>>().join("\n");
        let (mut imported, mut used, mut rest) = (Vec::new(), Vec::new(), String::new());
        for statement in code.split_inclusive(';') {
            let Some((before, tree)) = split_use(statement) else {
                rest.push_str(statement);
                continue;
            };
            rest.push_str(before);
            let paths = expand(tree);
            if !before.trim_end().ends_with("pub") && !before.trim_end().ends_with(')') {
                imported.extend(paths.clone());
            }
            used.extend(paths);
        }
        for root in ["crate::", "super::", "self::"] {
            for (at, _) in rest.match_indices(root) {
                let is_begin = !rest[..at].ends_with(|c: char| c == '_' || c == ':' || c.is_alphanumeric());
                let end = rest[at..].find(|c: char| c != '_' && c != ':' && !c.is_alphanumeric());
                if is_begin {
                    imported.push(parts(&rest[at..end.map_or(rest.len(), |end| at + end)]));
                }
            }
        }
        Names { imported, used }
    }
}

/// The part of a statement before `use`, and the tree behind it.
fn split_use(statement: &str) -> Option<(&str, &str)> {
    let at = statement.rfind("use ")?;
    let is_word = !statement[..at].ends_with(|c: char| c == '_' || c.is_alphanumeric());
    is_word.then(|| (&statement[..at], statement[at + 4..].trim_end_matches(';')))
}

fn parts(path: &str) -> Vec<String> {
    path.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// The paths of a tree of a `use`.
fn expand(tree: &str) -> Vec<Vec<String>> {
    let Some((before, group)) = tree.split_once('{') else {
        return vec![parts(tree.split(" as ").next().unwrap_or_default())];
    };
    let (mut paths, mut open, mut begin) = (Vec::new(), 0, 0);
    let group = group.trim_end().strip_suffix('}').unwrap_or(group);
    for (at, character) in group.char_indices().chain([(group.len(), ',')]) {
        match character {
            '{' => open += 1,
            '}' => open -= 1,
            ',' if open == 0 => {
                let inner = group[begin..at].trim();
                if !inner.is_empty() {
                    paths.extend(expand(inner).into_iter().map(|path| [parts(before), path].concat()));
                }
                begin = at + 1;
            }
            _ => {}
        }
    }
    paths
}

/// The module of the file that has the item which `path` names in `from`.
fn resolve<'f>(
    files: &'f BTreeMap<Module, &Source>,
    read: &BTreeMap<&'f Module, Names>,
    from: &Module,
    path: &[String],
) -> Option<&'f Module> {
    let (mut from, mut path) = (from.clone(), path.to_vec());
    // A name may be handed on by several modules; none hands one on to itself.
    for _ in 0..files.len() {
        let whole = absolute(files, &from, &path)?;
        let mut at = whole.clone();
        while !at.is_empty() && !files.contains_key(&at) {
            at.pop();
        }
        let (module, names) = read.get_key_value(&at)?;
        let Some(item) = whole.get(at.len()) else { return Some(module) };
        let handed = names.used.iter().find(|used| {
            used.last() == Some(item) && absolute(files, module, used).is_some_and(|used| used != whole)
        });
        match handed {
            Some(next) => (from, path) = (at, next.clone()),
            None => return Some(module),
        }
    }
    None
}

/// The path from the root of the crate; `None` for a path into another crate.
fn absolute(files: &BTreeMap<Module, &Source>, from: &Module, path: &[String]) -> Option<Module> {
    let (first, behind) = path.split_first()?;
    let (mut base, mut rest) = (from.clone(), path);
    match first.as_str() {
        "crate" => (base, rest) = (Module::new(), behind),
        "self" => rest = behind,
        "super" => {
            while let Some((_, behind)) = rest.split_first().filter(|(first, _)| *first == "super") {
                base.pop()?;
                rest = behind;
            }
        }
        child => {
            base.push(child.to_owned());
            let is_child = files.contains_key(&base);
            base.pop();
            return is_child.then(|| [base, path.to_vec()].concat());
        }
    }
    Some([base, rest.to_vec()].concat())
}

/// Whether arrows lead from `from` to `to`.
fn reaches(arrows: &BTreeMap<&Module, BTreeSet<&Module>>, from: &Module, to: &Module) -> bool {
    let (mut seen, mut open) = (BTreeSet::from([from]), vec![from]);
    while let Some(module) = open.pop() {
        if module == to {
            return true;
        }
        let next = arrows.get(module).into_iter().flatten();
        open.extend(next.filter(|next| seen.insert(next)));
    }
    false
}

#[test]
fn a_circle_of_files_is_told_and_a_module_that_hands_names_on_is_none() {
    let file = |name: &str, text: &str| Source { name: format!("x/src/{name}"), text: text.into() };
    let sources = [
        file("lib.rs", "mod a;\npub use a::core::Core;\n"),
        file("a/mod.rs", "mod acting;\npub(crate) use self::acting::act;\npub(crate) struct State;\n"),
        file("a/core.rs", "use crate::a::State;\nuse super::{part::Part, State as Other};\n"),
        file("a/part.rs", "//! Says crate::a::core.\nmod acting;\nstruct Part;\n"),
        file("a/part/acting.rs", "use super::Part;\nuse crate::a::{act, core::{Core, within}};\n"),
        file("a/acting.rs", "use super::core::Core;\nfn act() {}\n"),
    ];
    assert_eq!(circles(("x/src/", "a"), sources.iter()), [""; 0]);
    let back = file("a/part.rs", "struct Part;\nfn f(core: &super::super::a::core::Core) {}\n");
    let changed = sources.iter().filter(|source| source.name != back.name).chain([&back]);
    assert_eq!(
        circles(("x/src/", "a"), changed),
        ["x/src/a/core.rs -> x/src/a/part.rs", "x/src/a/part.rs -> x/src/a/core.rs"]
    );
}
