//! Answers to public definitions, compared with those that the reference gave.
//!
//! Each line of the data is an expected answer, a tab, and a definition. A selection stands beside this file (its README says
//! from where); `DEFINITIONS` names a file with more of them, such as all of a corpus.

use orch_schema::testing::orch;
use orch_schema::value::Value;
use orch_schema::{Limits, decode_json};

use super::CustomResourceDefinition;
use crate::kinds::Strategy;
use crate::kinds::testing::CONTEXT;
use crate::validate::errors::ERRORS_SHOWN_MAX;
use crate::validate::tree::Tree;

const SELECTION: &str = include_str!("testdata/definitions.ndjson");

/// The causes in the form of the expected ones, sorted, and the warnings.
fn answer(definition: &str) -> (Vec<String>, Vec<String>) {
    let type_id = orch().find_type("apiextensions.v1.CustomResourceDefinition").unwrap();
    let mut object = decode_json(orch(), type_id, definition.as_bytes(), Limits::default()).unwrap().value;
    let kind = CustomResourceDefinition;
    kind.default(&CONTEXT, &mut object);
    kind.prepare_for_create(&CONTEXT, &mut object);
    let errors = kind.validate_create(&CONTEXT, &object);
    assert!(errors.len() <= ERRORS_SHOWN_MAX, "an answer names all of them");
    let mut causes: Vec<String> = errors
        .iter()
        .map(|error| format!("{}|{}|{}", error.kind.reason(), error.path, error.message))
        .collect();
    causes.sort();
    (causes, kind.warnings(&CONTEXT, None, &object))
}

/// The difference between the answer to the definition of `line` and the expected one.
fn difference(line: &str) -> Option<String> {
    let (expected, definition) = line.split_once('\t').unwrap();
    let expected: Value = serde_json::from_str::<serde_json::Value>(expected).unwrap().into();
    let wanted = |name: &str, left_out: Option<&str>| -> Vec<String> {
        let is_kept = |text: &&str| left_out.is_none_or(|left_out| !text.contains(left_out));
        let texts = expected.texts(name).into_iter().filter(is_kept);
        texts.map(str::to_owned).collect()
    };
    let (causes, warnings) = answer(definition);
    let (wanted_causes, mut wanted_warnings) =
        (wanted("causes", None), wanted("warnings", Some("unknown field")));
    wanted_warnings.sort();
    let differs = causes != wanted_causes || warnings != wanted_warnings;
    let subject = expected.text("subject");
    let told = || {
        format!("{subject}\n  {causes:#?} {warnings:?}\n  expected {wanted_causes:#?} {wanted_warnings:?}")
    };
    differs.then(told)
}

/// Compares the answers to all definitions of `data`. Returns how many there are.
fn compare(data: &str) -> usize {
    let differences: Vec<String> = data.lines().filter_map(difference).collect();
    let count = data.lines().count();
    assert!(differences.is_empty(), "{} of {count} differ:\n{}", differences.len(), differences.join("\n"));
    count
}

#[test]
fn public_definitions_are_answered_as_recorded() {
    assert!(compare(SELECTION) > 20);
    if let Ok(path) = std::env::var("DEFINITIONS") {
        assert!(compare(&std::fs::read_to_string(path).unwrap()) > 0);
    }
}
