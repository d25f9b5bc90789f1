//! Rules over documents with a schema.

use std::sync::Arc;

use orch_schema::json;
use orch_schema::value::Value;

use super::*;
use crate::allowance::Allowance;
use crate::cost::Range;
use crate::cost::Sizes;
use crate::environments::{OldSelf, rule_scope};
use crate::evaluate::{Budget, Limits};
use crate::pattern::PatternLimits;
use crate::program::Ast;

fn schema() -> Value {
    json!({
        "type": "object",
        "required": ["n", "withDefault", "list"],
        "properties": {
            "n": {"type": "integer"},
            "withDefault": {"type": "string", "default": "x"},
            "ratio": {"type": "number"},
            "on": {"type": "boolean"},
            "s": {"type": "string", "maxLength": 10},
            "choice": {"type": "string", "enum": ["a", "bcd"]},
            "namespace": {"type": "string"},
            "a-b": {"type": "string"},
            "1x": {"type": "string"},
            "port": {"x-orch-int-or-string": true},
            "at": {"type": "string", "format": "date-time"},
            "day": {"type": "string", "format": "date"},
            "wait": {"type": "string", "format": "duration"},
            "data": {"type": "string", "format": "byte"},
            "list": {"type": "array", "items": {"type": "string", "maxLength": 5}, "maxItems": 3},
            "set": {"type": "array", "items": {"type": "string"}, "x-orch-list-type": "set"},
            "keyed": {
                "type": "array", "x-orch-list-type": "map", "x-orch-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}},
            },
            "odd": {
                "type": "array", "x-orch-list-type": "map", "x-orch-list-map-keys": ["x$y"],
                "items": {"type": "object", "properties": {"x$y": {"type": "string"}, "v": {"type": "integer"}}},
            },
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "free": {"type": "object", "x-orch-preserve-unknown-fields": true, "properties": {"a": {"type": "integer"}}},
            "untyped": {"x-orch-preserve-unknown-fields": true},
            "template": {"type": "object", "x-orch-embedded-resource": true, "properties": {"metadata": {"type": "object"}}},
            "maybe": {"type": "array", "items": {"type": "integer", "nullable": true}},
        },
    })
}

fn document() -> Value {
    json!({
        "n": 3, "ratio": 2, "on": true, "s": "abc", "namespace": "web", "a-b": "dash", "port": "http",
        "at": "2026-01-02T03:04:05Z", "day": "2026-01-02", "wait": "90s", "data": "aGk=",
        "list": ["a", "b"], "set": ["x", "y"], "keyed": [{"k": "a", "v": 1}, {"k": "b", "v": 2}],
        "odd": [{"x$y": "a", "v": 1}, {"x$y": "b", "v": 2}],
        "labels": {"app": "web"}, "free": {"a": 1, "b": [1]}, "choice": null, "maybe": [1, null],
        "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {}}},
    })
}

fn declared() -> Arc<Declared> {
    Keywords::with_prefix("x-orch-").declare(&schema(), Root::Part).unwrap()
}

fn ast(declared: &Arc<Declared>, source: &str) -> Result<Ast, String> {
    let types = Arc::new(SchemaTypes::of(declared));
    let scope = rule_scope(&types, declared, OldSelf::Value, "brand");
    let ast = Ast::check(source, &scope, &mut Allowance::of(u64::MAX)).unwrap();
    ast.map_err(|error| error.to_string())
}

fn evaluate(source: &str, before: &Value) -> Result<String, String> {
    let declared = declared();
    let program =
        ast(&declared, source)?.program(PatternLimits::STANDING, &mut Allowance::of(u64::MAX)).unwrap();
    let document = document();
    let variables = [Some(declared.read(&document)), Some(declared.read(before))];
    let mut budget = Budget::UNBOUNDED;
    let value = program.evaluate(&variables, Limits::CALL, &mut budget);
    value.map(|value| value.to_string()).map_err(|error| error.to_string())
}

#[test]
fn documents_are_read_by_their_schema() {
    let mut before = document();
    before["set"] = json!(["y", "x"]);
    before["keyed"] = json!([{"k": "b", "v": 2}, {"k": "a", "v": 1}]);
    before["odd"] = json!([{"x$y": "b", "v": 2}, {"x$y": "a", "v": 1}]);
    let mut wrong = Vec::new();
    for source in [
        "self.n == 3 && self.ratio == 2.0 && self.on && self.s == 'abc'",
        "self.namespace == 'web' && self.__namespace__ == 'web' && self.a__dash__b == 'dash'",
        "self.port == 'http' && self.at.getFullYear() == 2026 && self.day < self.at",
        "self.wait == duration('1m30s') && self.data == b'hi'",
        "self.list == ['a', 'b'] && self.set == ['y', 'x'] && self.set == oldSelf.set",
        "self.keyed == oldSelf.keyed && self.keyed[0] != oldSelf.keyed[0] && self == oldSelf",
        "self.list + ['a'] == ['a', 'b', 'a'] && self.set + ['x', 'z'] == ['x', 'y', 'z']",
        "(self.keyed + oldSelf.keyed).size() == 2",
        "self.odd == oldSelf.odd && (self.odd + oldSelf.odd).map(e, e.v) == [1, 2]",
        "self.labels.app == 'web' && self.labels.all(k, self.labels[k] == 'web') && size(self.labels) == 1",
        "has(self.free.a) && self.free == oldSelf.free && !has(self.choice) && !has(self.free.a) == false",
        "self.template.kind == 'Pod' && self.template.metadata.name == 'p'",
        "self.?choice.orValue('none') == 'none' && self.?s.orValue('none') == 'abc'",
        "self.maybe.size() == 2 && self.maybe[0] == 1 && dyn(self.maybe[1]) == null",
        "self.keyed.map(e, e.v).sum() == 3 && self.keyed.exists(e, e.k == 'b' && e.v == 2)",
    ] {
        let value = evaluate(source, &before);
        if value.as_deref() != Ok("true") {
            wrong.push(format!("{source}: {value:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn parts_that_the_schema_hides_are_undefined() {
    for (source, reason) in [
        ("self.untyped == 1", "undefined field 'untyped'"),
        ("self.free.b == 1", "undefined field 'b'"),
        ("self.template.metadata.labels.size() == 0", "undefined field 'labels'"),
        ("self.n == 'x'", "found no matching overload for '_==_' applied to '(int, string)'"),
        ("self.n == null", "applied to '(int, null)'"),
        ("self.at > '2026'", "applied to '(timestamp, string)'"),
    ] {
        let told = ast(&declared(), source).unwrap_err();
        assert!(told.contains(reason), "{source}: {told}");
    }
}

#[test]
fn values_that_do_not_fit_are_faults_where_they_are_read() {
    let schema = json!({"type": "object", "properties": {
        "at": {"type": "string", "format": "date-time"},
        "small": {"type": "string", "format": "date-time"},
        "late": {"type": "string", "format": "date-time"},
        "list": {"type": "array", "items": {"type": "integer"}},
        "data": {"type": "string", "format": "byte"},
        "wait": {"type": "string", "format": "duration"},
    }});
    let declared = Keywords::with_prefix("x-orch-").declare(&schema, Root::Part).unwrap();
    let document = json!({"at": "2024-01-01t00:00:00z", "small": "2024-01-01T00:00:00.5z", "late": "2024-01-01T24:00:00Z", "list": [1, null], "data": "ab+/", "wait": "soon"});
    for (source, reason) in [
        (
            "self.at.getFullYear() > 0",
            "Invalid date-time formatted string 2024-01-01t00:00:00z: parsing time \"2024-01-01t00:00:00z\" as \"2006-01-02T15:04:05\": cannot parse \"t00:00:00z\" as \"T\"",
        ),
        ("self.small.getFullYear() > 0", "parsing time \"2024-01-01T00:00:00.5z\": extra text: \"z\""),
        ("self.late.getFullYear() > 0", "parsing time \"2024-01-01T24:00:00Z\": hour out of range"),
        ("self.data == b''", "Invalid byte formatted string ab+/: illegal base64 data at input byte 2"),
        ("self.wait > duration('1s')", "soon"),
        ("'%s'.format([dyn(self.list)])", "error during formatting: no formatting function for error"),
        ("self.list[1] == 1", "invalid data, got null for schema with nullable=false"),
        ("self.list.all(x, x > 0)", "invalid data, got null for schema with nullable=false"),
    ] {
        let program = ast(&declared, source).unwrap();
        let program = program.program(PatternLimits::STANDING, &mut Allowance::of(u64::MAX)).unwrap();
        let variables = [Some(declared.read(&document)), None];
        let mut budget = Budget::UNBOUNDED;
        let told = program.evaluate(&variables, Limits::CALL, &mut budget).unwrap_err().to_string();
        assert!(told.contains(reason), "{source}: {told}");
    }
}

#[test]
fn long_lists_in_another_order_are_compared_within_the_steps() {
    let schema = json!({"type": "object", "properties": {
        "set": {"type": "array", "items": {"type": "string"}, "x-orch-list-type": "set"},
        "keyed": {
            "type": "array", "x-orch-list-type": "map", "x-orch-list-map-keys": ["k", "n"],
            "items": {"type": "object", "properties": {"k": {"type": "string"}, "n": {"type": "integer"}}},
        },
    }});
    let declared = Keywords::with_prefix("x-orch-").declare(&schema, Root::Part).unwrap();
    let document = |places: Vec<i32>| {
        let set: Vec<String> = places.iter().map(|place| place.to_string()).collect();
        let keyed = places.iter().map(|place| json!({"k": format!("k{}", place % 9), "n": *place}));
        json!({"set": set, "keyed": keyed.collect::<Vec<_>>()})
    };
    let (new, old) = (document((0..9_000).rev().collect()), document((0..9_000).collect()));
    for source in [
        "self.set == oldSelf.set && self.keyed == oldSelf.keyed",
        "self.set + oldSelf.set == oldSelf.set && (self.keyed + oldSelf.keyed).size() == 9000",
        "self.set != oldSelf.set + ['x'] && (self.set + ['x', 'x']).size() == 9001",
    ] {
        let program = ast(&declared, source).unwrap();
        let program = program.program(PatternLimits::STANDING, &mut Allowance::of(u64::MAX)).unwrap();
        let variables = [Some(declared.read(&new)), Some(declared.read(&old))];
        let mut budget = Budget::UNBOUNDED;
        let value = program.evaluate(&variables, Limits::CALL, &mut budget);
        assert_eq!(
            value.map(|value| value.to_string()).map_err(|e| e.to_string()),
            Ok("true".to_owned()),
            "{source}"
        );
    }
}

#[test]
fn sizes_are_those_of_the_reference() {
    let declared = declared();
    let size = |path: &[&str]| SchemaSizes(&declared).size(path);
    let to = |max| Some(Range::new(0, max));
    assert_eq!(size(&["self"]), to(0));
    assert_eq!(size(&["self", "n"]), to(0));
    assert_eq!(size(&["self", "s"]), to(40));
    assert_eq!(size(&["self", "choice"]), to(3));
    assert_eq!(size(&["self", "list"]), to(3));
    assert_eq!(size(&["self", "list", "@items"]), to(20));
    assert_eq!(size(&["self", "set"]), to((3_145_728 - 2) / 3));
    assert_eq!(size(&["self", "labels"]), to((3_145_728 - 2) / 8));
    assert_eq!(size(&["self", "labels", "@keys"]), to(0));
    assert_eq!(size(&["self", "at"]), to(32));
    assert_eq!(size(&["self", "nothing"]), None);
    // {} and two required members without a default: "n":0, and "list":[],
    assert_eq!(declared.bytes_min, 2 + (1 + 1 + 4) + (4 + 2 + 4));
    let keyed = declared.property("keyed").unwrap();
    assert_eq!(Cardinality::ROOT.of_element(Some(5)).of_element(Some(7)).times(keyed), 35);
    assert_eq!(Cardinality::ROOT.of_element(None).of_element(Some(7)).times(keyed), 3_145_728 / 3);
}
