//! Answers to public definitions, compared with those that the reference gave.
//!
//! Each line of the data is an expected answer, a tab, and a definition. A selection stands beside this file (its README says
//! from where); `DEFINITIONS` names a file with more of them, such as all of a corpus.

use std::time::{Duration, Instant};

use orch_schema::testing::orch;
use orch_schema::value::Value;
use orch_schema::{Limits, decode_json};

use super::CustomResourceDefinition;
use crate::kinds::Strategy;
use crate::kinds::testing::CONTEXT;
use crate::validate::errors::ERRORS_SHOWN_MAX;
use crate::validate::tree::Tree;

const SELECTION: &str = include_str!("testdata/definitions.ndjson");

/// Causes that depend on expressions, which are not compiled yet.
const OF_EXPRESSIONS: &str = "compilation failed";
/// The warning about rules in expressions, which the reference enforces.
const NOT_ENFORCED: &str = "not enforced yet";

/// The causes in the form of the expected ones, sorted, and the warnings.
fn answer(definition: &str) -> (Vec<String>, Vec<String>, Duration) {
    let type_id = orch().find_type("apiextensions.v1.CustomResourceDefinition").unwrap();
    let mut object = decode_json(orch(), type_id, definition.as_bytes(), Limits::default()).unwrap().value;
    let kind = CustomResourceDefinition;
    kind.default(&CONTEXT, &mut object);
    kind.prepare_for_create(&CONTEXT, &mut object);
    let start = Instant::now();
    let errors = kind.validate_create(&CONTEXT, &object);
    let taken = start.elapsed();
    assert!(errors.len() <= ERRORS_SHOWN_MAX, "an answer names all of them");
    let mut causes: Vec<String> = errors
        .iter()
        .map(|error| format!("{}|{}|{}", error.kind.reason(), error.path, error.message))
        .collect();
    causes.sort();
    let mut warnings = kind.warnings(&CONTEXT, None, &object);
    warnings.retain(|warning| !warning.ends_with(NOT_ENFORCED));
    (causes, warnings, taken)
}

/// The difference between the answer to the definition of `line` and the expected one.
fn difference(line: &str) -> (Option<String>, Duration) {
    let (expected, definition) = line.split_once('\t').unwrap();
    let expected: Value = serde_json::from_str::<serde_json::Value>(expected).unwrap().into();
    let wanted = |name: &str, left_out: &str| -> Vec<String> {
        let texts = expected.texts(name).into_iter().filter(|text| !text.contains(left_out));
        texts.map(str::to_owned).collect()
    };
    let (causes, warnings, taken) = answer(definition);
    let (wanted_causes, mut wanted_warnings) =
        (wanted("causes", OF_EXPRESSIONS), wanted("warnings", "unknown field"));
    wanted_warnings.sort();
    let differs = causes != wanted_causes || warnings != wanted_warnings;
    let subject = expected.text("subject");
    let told = || {
        format!("{subject}\n  {causes:#?} {warnings:?}\n  expected {wanted_causes:#?} {wanted_warnings:?}")
    };
    (differs.then(told), taken)
}

/// Compares the answers to all definitions of `data`. Returns how many there are.
fn compare(data: &str) -> (usize, Duration) {
    let answers: Vec<_> = data.lines().map(difference).collect();
    let differences: Vec<&String> =
        answers.iter().filter_map(|(difference, _)| difference.as_ref()).collect();
    let told: Vec<&str> = differences.iter().map(|text| text.as_str()).collect();
    assert!(told.is_empty(), "{} of {} differ:\n{}", told.len(), answers.len(), told.join("\n"));
    (answers.len(), answers.iter().map(|(_, taken)| *taken).max().unwrap_or_default())
}

#[test]
fn public_definitions_are_answered_as_recorded() {
    let (count, _) = compare(SELECTION);
    assert!(count > 20, "{count} definitions");
    if let Ok(path) = std::env::var("DEFINITIONS") {
        let (count, slowest) = compare(&std::fs::read_to_string(path).unwrap());
        eprintln!("{count} definitions, the slowest in {slowest:?}");
    }
}
