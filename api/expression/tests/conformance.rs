//! The language's own conformance cases, in `tests/conformance/`: text, and value or failure.
//!
//! Owns reading them and comparing. They are those of cel-expr/cel-spec at b8622f1b (Apache-2.0) that need no message types,
//! variables or container, without their descriptions. `known.txt` lists cases with other answers here, each with the
//! reason; a case that is listed and passes fails the test, too.

#![expect(clippy::unwrap_used, reason = "tests may unwrap, in what they call too")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use orch_expression::{Allowance, Ast, Budget, Libraries, Limits, PatternLimits, Scope, Val};
use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance")
}

/// Names of cases with other answers, and the reasons.
fn known() -> BTreeMap<String, String> {
    let text = fs::read_to_string(folder().join("known.txt")).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let split = lines.map(|line| line.split_once(" | ").unwrap_or((line, "")));
    split.map(|(name, reason)| (name.to_owned(), reason.to_owned())).collect()
}

/// The complaint about a case.
fn complaint(case: &Value) -> Option<String> {
    let source = case["expr"].as_str().unwrap();
    let scope = Scope::default().with_libraries(Libraries { devices: true, ..Libraries::default() });
    let mut charge = Allowance::of(u64::MAX);
    let fails = case.get("error").is_some();
    let ast = match Ast::check(source, &scope, &mut charge).unwrap() {
        Ok(ast) => ast,
        Err(_) if fails => return None,
        Err(error) => return Some(format!("does not compile: {error}")),
    };
    let program = ast.program(PatternLimits::STANDING, &mut charge).unwrap();
    let mut budget = Budget::UNBOUNDED;
    match program.evaluate(&[], Limits::CALL, &mut budget) {
        Err(_) if fails => None,
        Err(error) => Some(format!("fails: {error}")),
        Ok(value) if fails => Some(format!("has the value {value:?} instead of a failure")),
        Ok(value) => {
            let expected = &case["value"];
            (!is(&value, expected)).then(|| format!("has the value {value:?} instead of {expected}"))
        }
    }
}

/// Whether `value` is what the case expects.
fn is(value: &Val<'_>, expected: &Value) -> bool {
    let Some((kind, of)) = expected.as_object().and_then(|members| members.iter().next()) else {
        return false;
    };
    let number = || of.as_str().map_or_else(|| of.to_string(), str::to_owned);
    match (kind.as_str(), value) {
        ("bool_value", Val::Bool(truth)) => of.as_bool() == Some(*truth),
        ("int64_value", Val::Int(one)) => number() == one.to_string(),
        ("uint64_value", Val::Uint(one)) => number() == one.to_string(),
        ("double_value", Val::Double(one)) => match number().as_str() {
            "NaN" => one.is_nan(),
            "Infinity" => *one == f64::INFINITY,
            "-Infinity" => *one == f64::NEG_INFINITY,
            text => text.parse() == Ok(*one),
        },
        ("string_value", Val::Text(text)) => of.as_str() == Some(&**text),
        ("bytes_value", Val::Bytes(bytes)) => {
            base64::engine::general_purpose::STANDARD.decode(of.as_str().unwrap()).unwrap() == **bytes
        }
        ("null_value", Val::Null) => true,
        ("type_value", Val::Type(name)) => of.as_str() == Some(&**name),
        ("list_value", Val::List(list)) => {
            let items = of["values"].as_array().cloned().unwrap_or_default();
            list.len() == items.len() && list.iter().zip(&items).all(|(one, expected)| is(&one, expected))
        }
        ("map_value", Val::Map(map)) => {
            let entries = of["entries"].as_array().cloned().unwrap_or_default();
            let has = |entry: &Value| {
                map.iter().any(|(key, value)| is(&key, &entry["key"]) && is(&value, &entry["value"]))
            };
            map.len() == entries.len() && entries.iter().all(has)
        }
        _ => false,
    }
}

#[test]
fn cases_of_the_language_have_their_values() {
    let known = known();
    let (mut wrong, mut cases) = (Vec::new(), 0);
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "json")) {
        let area = file.file_stem().unwrap().to_str().unwrap();
        let all: Vec<Value> = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        for case in &all {
            cases += 1;
            let name = format!("{area}/{}", case["name"].as_str().unwrap());
            match (complaint(case), known.contains_key(&name)) {
                (Some(complaint), false) => wrong.push(format!("{name} | {} | {complaint}", case["expr"])),
                (None, true) => wrong.push(format!("{name} passes, but is listed")),
                _ => {}
            }
        }
    }
    assert!(cases > 1000, "{cases} cases");
    assert!(wrong.is_empty(), "{} of {cases}:\n{}", wrong.len(), wrong.join("\n"));
}
