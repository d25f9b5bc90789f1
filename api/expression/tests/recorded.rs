//! Values that the reference was recorded with, in `recorded.txt`.

use orch_expression::{Allowance, Ast, Budget, Limits, PatternLimits, Scope, Type, Val};
use orch_schema::value::Value;

/// The text that a message of `source` has, trimmed as the reference does it.
fn message(source: &str) -> Option<String> {
    let scope = Scope::default().with_variable("self", Type::String);
    let mut charge = Allowance::of(u64::MAX);
    let ast = Ast::check(source, &scope, &mut charge).expect("the steps are not bounded");
    let ast = ast.unwrap_or_else(|error| panic!("{source}: {error}"));
    assert_eq!(*ast.result(), Type::String, "{source}");
    let program = ast.program(PatternLimits::STANDING, &mut charge).expect("as above");
    let document = Value::from("x");
    let variables = [Some(Val::json(&document))];
    let value = program.evaluate(&variables, Limits::CALL, &mut Budget::of(10_000_000)).ok()?;
    value.as_text().map(|text| text.trim().to_owned())
}

#[test]
fn messages_are_those_that_were_recorded() {
    let recorded = include_str!("recorded.txt").lines().filter(|line| !line.starts_with('#'));
    let mut wrong = Vec::new();
    let mut cases = 0;
    for line in recorded {
        cases += 1;
        let (source, expected) = line.split_once(" => ").expect("each line has a value");
        let told = message(source);
        if told.as_deref() != Some(expected).filter(|expected| *expected != "!") {
            wrong.push(format!("{source}: {told:?} instead of {expected:?}"));
        }
    }
    assert!(cases > 130, "{cases}");
    assert!(wrong.is_empty(), "{} of {cases}:\n{}", wrong.len(), wrong.join("\n"));
}
