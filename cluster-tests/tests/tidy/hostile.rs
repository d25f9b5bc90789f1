//! `docs/hostile-input.md` names tests that exist.

use std::collections::HashSet;
use std::fs;

use super::check;
use super::tree::{root, sources};

#[test]
fn every_row_of_hostile_input_names_tests_that_exist() {
    let text = fs::read_to_string(root().join("docs/hostile-input.md")).unwrap();
    let sources = sources("rs");
    let functions: HashSet<&str> =
        sources.iter().flat_map(|source| source.text.lines()).filter_map(function).collect();
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).skip(2).collect();
    assert!(rows.len() > 20, "the table has {} rows", rows.len());
    let wrong = rows.into_iter().flat_map(|row| {
        let tests = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        let none = names.is_empty().then(|| format!("no test: {row}"));
        let missing = names.into_iter().filter(|name| !functions.contains(name));
        missing.map(|name| format!("there is no test {name}")).chain(none).collect::<Vec<_>>()
    });
    check("a row is shown by its tests", wrong);
}

/// The name of the function that a line begins.
fn function(line: &str) -> Option<&str> {
    let (_, rest) = line.trim_start().split_once("fn ")?;
    let name = rest.split(|character: char| character != '_' && !character.is_ascii_alphanumeric()).next()?;
    Some(name).filter(|name| !name.is_empty())
}
