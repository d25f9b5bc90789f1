//! Rules of schemas, at the definition and over objects.

use orch_expression::{Allowance, Budget, Exhausted};
use orch_proto::brand::ORCH;
use orch_schema::json;
use orch_schema::value::Value;

use super::*;
use crate::validate::Path;

mod judged;

fn spec(rule: Value) -> Value {
    json!({
        "type": "object",
        "properties": {
            "n": {"type": "integer"},
            "s": {"type": "string", "maxLength": 10},
            "l": {"type": "array", "items": {"type": "integer"}, "maxItems": 5},
            "m": {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 5},
            "t": {"type": "string", "format": "date-time"},
            "free": {"type": "object", "x-orch-preserve-unknown-fields": true},
        },
        "x-orch-validations": [rule],
    })
}

fn told(schema: &Value) -> Vec<String> {
    let mut charge = Allowance::of(u64::MAX);
    let checks = RuleChecks { is_judged: &|_| true, charge: &mut charge };
    let errors = check_rules(schema, &Path::new("schema"), &ORCH, checks).unwrap();
    errors.iter().map(ToString::to_string).collect()
}

/// Errors for `rule` at a property `spec`, without the shown rule.
fn refused(rule: Value) -> Vec<String> {
    let told = told(&json!({"type": "object", "properties": {"spec": spec(rule)}}));
    let shortened = told.into_iter().map(|error| match (error.find("{\"Rule\""), error.find("null}: ")) {
        (Some(start), Some(end)) => format!("{}{}", &error[..start], &error[end + 5..]),
        _ => error,
    });
    shortened.collect()
}

#[test]
fn rules_that_do_not_compile_are_refused_as_recorded() {
    for (rule, reason) in [
        ("self.nope > 1", "ERROR: <input>:1:5: undefined field 'nope'\n | self.nope > 1\n | ....^"),
        (
            "self.n == \"x\"",
            "ERROR: <input>:1:8: found no matching overload for '_==_' applied to '(int, string)'\n | self.n == \"x\"\n | .......^",
        ),
        (
            "nope > 1",
            "ERROR: <input>:1:1: undeclared reference to 'nope' (in container '')\n | nope > 1\n | ^",
        ),
        ("self.free.x == 1", "ERROR: <input>:1:10: undefined field 'x'\n | self.free.x == 1\n | .........^"),
        (
            "self.s.matches(\"(\")",
            "ERROR: <input>:1:16: invalid matches argument\n | self.s.matches(\"(\")\n | ...............^",
        ),
        (
            "duration(\"1y\") < duration(\"1h\")",
            "ERROR: <input>:1:10: invalid duration argument\n | duration(\"1y\") < duration(\"1h\")\n | .........^",
        ),
        (
            "[1, \"a\"].size() > 0",
            "ERROR: <input>:1:5: expected type 'int' but found 'string'\n | [1, \"a\"].size() > 0\n | ....^",
        ),
        (
            "oldSelf.n > 0 && unknown",
            "ERROR: <input>:1:18: undeclared reference to 'unknown' (in container '')\n | oldSelf.n > 0 && unknown\n | .................^",
        ),
    ] {
        let expected = format!(
            "schema.properties[spec].x-orch-validations[0].rule: Invalid value: : compilation failed: {reason}"
        );
        assert_eq!(refused(json!({"rule": rule})), [expected], "{rule}");
    }
    let path = "schema.properties[spec].x-orch-validations[0]";
    for (rule, expected) in [
        (json!({"rule": "self.n"}), "rule: Invalid value: : cel expression must evaluate to a bool"),
        (
            json!({"rule": "true", "messageExpression": "1"}),
            "messageExpression: Invalid value: : messageExpression must evaluate to a string",
        ),
        (
            json!({"rule": "true", "messageExpression": "self.nope"}),
            "messageExpression: Invalid value: : messageExpression compilation failed: ERROR: <input>:1:5: undefined field 'nope'\n | self.nope\n | ....^",
        ),
        (
            json!({"rule": "self.n > 0", "optionalOldSelf": true}),
            "optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule",
        ),
    ] {
        let told: Vec<String> = refused(rule.clone())
            .into_iter()
            .map(|error| error.replace("null,\"OptionalOldSelf\":true}: ", ""))
            .collect();
        assert_eq!(told, [format!("{path}.{expected}")], "{rule:?}");
    }
}

#[test]
fn the_rule_is_shown_as_the_reference_shows_it() {
    let told = told(&json!({"type": "object", "properties": {"spec": spec(json!({"rule": "self.n"}))}}));
    let shown = r#"{"Rule":"self.n","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}"#;
    assert!(told[0].contains(shown), "{}", told[0]);
}

#[test]
fn old_values_are_found_in_lists_with_keys_only() {
    let list = |extra: Value| {
        let mut list = json!({
            "type": "array", "maxItems": 5,
            "items": {"type": "object", "properties": {"x": {"type": "integer"}, "k": {"type": "string"}},
                "x-orch-validations": [{"rule": "self.x == oldSelf.x"}]},
        });
        list.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!({"type": "object", "properties": {"l": list}})
    };
    assert_eq!(
        told(&list(json!({}))),
        [
            "schema.properties[l].items.x-orch-validations[0].rule: Invalid value: \"self.x == oldSelf.x\": oldSelf cannot be \
          used on the uncorrelatable portion of the schema within schema.properties[l]"
        ]
    );
    let keyed = json!({"x-orch-list-type": "map", "x-orch-list-map-keys": ["k"]});
    assert!(told(&list(keyed)).is_empty());
}

#[test]
fn rules_that_may_cost_too_much_are_refused() {
    let schema = |rule: &str, items: Value| {
        json!({"type": "object", "properties": {"l": {
            "type": "array", "items": items, "x-orch-validations": [{"rule": rule}],
        }}})
    };
    let nested = told(&schema("self.all(x, self.all(y, x == y))", json!({"type": "string"})));
    let starts = [
        "schema.properties[l].x-orch-validations[0].rule: Forbidden: estimated rule cost exceeds budget by factor of more \
         than 100x (try simplifying the rule, or adding maxItems, maxProperties, and maxLength where",
        "schema.properties[l].x-orch-validations[0].rule: Forbidden: contributed to estimated rule cost total exceeding",
        "schema: Forbidden: x-orch-validations estimated rule cost total for entire OpenAPIv3 schema exceeds budget by \
         factor of more than 100x (try",
    ];
    assert_eq!(nested.len(), starts.len(), "{nested:?}");
    for (told, start) in nested.iter().zip(starts) {
        assert!(told.starts_with(start), "{told}");
    }
    let bounded = json!({"type": "string", "maxLength": 10});
    let mut small = schema("self.all(x, self.all(y, x == y))", bounded);
    small["properties"]["l"]["maxItems"] = json!(100);
    assert!(told(&small).is_empty(), "{:?}", told(&small));
    let plain = json!({"type": "object", "properties": {"s": {"type": "string", "x-orch-validations": [
        {"rule": "self.startsWith('a') && self != ''"},
    ]}}});
    assert!(told(&plain).is_empty(), "a text without a bound");
}

#[test]
fn rules_beyond_the_allowance_are_not_compiled() {
    let rules: Vec<Value> = (0..1000).map(|at| json!({"rule": format!("self.n != {at}")})).collect();
    let mut schema = spec(json!({"rule": "true"}));
    schema["x-orch-validations"] = Value::from(rules);
    let mut charge = Allowance::of(100_000);
    let checks = RuleChecks { is_judged: &|_| true, charge: &mut charge };
    assert_eq!(check_rules(&schema, &Path::new("schema"), &ORCH, checks), Err(Exhausted));
    assert!(charge.left() < 1000, "{charge:?}");
}

fn verdict(schema: &Value, new: &Value, old: Option<&Value>) -> Verdict {
    SchemaRules::of(schema, &ORCH).validate(new, old, None, None, &mut Budget::of(RULES_COST_MAX))
}

fn errors(schema: &Value, new: &Value, old: Option<&Value>) -> Vec<String> {
    verdict(schema, new, old).errors.iter().map(ToString::to_string).collect()
}

/// The schema of vectors/cel (cel-messages), with the rules in question.
fn messages(rules: Value) -> Value {
    let mut spec = spec(json!({"rule": "true"}));
    spec["properties"]["o"] = json!({"type": "object", "properties": {"p": {"type": "integer"}}});
    spec["x-orch-validations"] = rules;
    json!({"type": "object", "properties": {"spec": spec}})
}

#[test]
fn broken_rules_are_told_as_recorded() {
    for (rule, expected) in [
        (json!({"rule": "self.n != 1"}), "spec: Invalid value: failed rule: self.n != 1"),
        (json!({"rule": "self.n != 1", "message": " not one "}), "spec: Invalid value: not one"),
        (
            json!({"rule": "self.n != 1", "messageExpression": "'n is ' + string(self.n)"}),
            "spec: Invalid value: n is 1",
        ),
        (
            json!({"rule": "self.n != 1", "message": "kept", "messageExpression": "string(self.l[5])"}),
            "spec: Invalid value: kept",
        ),
        (
            json!({"rule": "self.n != 1", "messageExpression": "'a\\nb'", "message": "one line"}),
            "spec: Invalid value: one line",
        ),
        (
            json!({"rule": "self.n != 1", "message": "forbidden", "reason": "FieldValueForbidden", "fieldPath": ".o.p"}),
            "spec.o.p: Forbidden: forbidden",
        ),
        (
            json!({"rule": "self.n != 1", "message": "needed", "reason": "FieldValueRequired", "fieldPath": ".m['some key']"}),
            "spec.m[some key]: Required value: needed",
        ),
        (
            json!({"rule": "self.n != 1", "message": "m", "fieldPath": ".m.key"}),
            "spec.m[key]: Invalid value: m",
        ),
        (
            json!({"rule": "self.n != 1", "message": "m", "fieldPath": "['o'].p"}),
            "spec.o.p: Invalid value: m",
        ),
        (
            json!({"rule": "self.n != 1", "message": "m", "fieldPath": ".o['p']"}),
            "spec.o.p: Invalid value: m",
        ),
        (
            json!({"rule": "self.n != 1", "message": "x", "reason": "FieldValueDuplicate", "fieldPath": ".l"}),
            "spec.l: Duplicate value",
        ),
        (
            json!({"rule": "self.l[5] > 0"}),
            "spec: Invalid value: \"object\": index out of bounds: 5 evaluating rule: self.l[5] > 0",
        ),
        (
            json!({"rule": "cidr('10.0.0.0/8').containsIP(self.s)"}),
            "spec: Invalid value: \"object\": 'no such overload': call arguments did not match a supported operator, function \
             or macro signature for rule: cidr('10.0.0.0/8').containsIP(self.s)",
        ),
        (
            json!({"rule": "self.m['none'] > 0"}),
            "spec: Invalid value: \"object\": no such key: none evaluating rule: self.m['none'] > 0",
        ),
        (
            json!({"rule": "9223372036854775807 + self.n > 0", "message": "overflow"}),
            "spec: Invalid value: \"object\": integer overflow evaluating rule: overflow",
        ),
    ] {
        let new = json!({"spec": {"n": 1, "s": "x", "o": {"p": 0}, "l": [1], "m": {"a": 1}}});
        assert_eq!(errors(&messages(json!([rule.clone()])), &new, None), [expected], "{rule:?}");
    }
}

fn transitions() -> Value {
    json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "imm": {"type": "string", "x-orch-validations": [{"rule": "self == oldSelf"}]},
        "once": {"type": "string", "x-orch-validations": [
            {"rule": "oldSelf.hasValue() || self != 'bad'", "optionalOldSelf": true, "message": "bad at first"},
            {"rule": "!oldSelf.hasValue() || oldSelf.value() == self", "optionalOldSelf": true, "message": "set once"},
        ]},
        "keep": {"type": "array", "x-orch-list-type": "map", "x-orch-list-map-keys": ["k"], "items": {
            "type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
            "x-orch-validations": [{"rule": "self.v >= oldSelf.v", "message": "item must not shrink"}],
        }},
        "map": {"type": "object", "additionalProperties": {
            "type": "integer", "x-orch-validations": [{"rule": "self >= oldSelf", "message": "value must not shrink"}],
        }},
    }, "x-orch-validations": [{"rule": "!has(oldSelf.imm) || has(self.imm)", "message": "imm is required once set"}]}}})
}

#[test]
fn transition_rules_see_the_value_before() {
    let schema = transitions();
    let old = json!({"spec": {"imm": "x", "once": "o", "keep": [{"k": "a", "v": 5}, {"k": "b", "v": 1}], "map": {"a": 5}}});
    assert!(errors(&schema, &old, None).is_empty(), "nothing was there before");
    let created = json!({"spec": {"once": "bad"}});
    assert_eq!(errors(&schema, &created, None), ["spec.once: Invalid value: \"bad\": bad at first"]);
    for (change, expected) in [
        (json!({"imm": "y"}), Some("spec.imm: Invalid value: \"y\": failed rule: self == oldSelf")),
        (json!({"imm": null}), Some("spec: Invalid value: imm is required once set")),
        (json!({"once": "p"}), Some("spec.once: Invalid value: \"p\": set once")),
        (
            json!({"keep": [{"k": "b", "v": 2}, {"k": "a", "v": 4}]}),
            Some("spec.keep[1]: Invalid value: item must not shrink"),
        ),
        (json!({"keep": [{"k": "new", "v": 0}]}), None),
        (json!({"map": {"a": 1, "b": 0}}), Some("spec.map[a]: Invalid value: 1: value must not shrink")),
    ] {
        let mut new = old.clone();
        new["spec"].as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        assert_eq!(errors(&schema, &new, Some(&old)), Vec::from_iter(expected), "{change:?}");
    }
}

#[test]
fn parts_that_are_as_they_were_are_warned_of() {
    let schema = messages(json!([{"rule": "self.n < 5", "message": "too many"}]));
    let old = json!({"metadata": {"name": "a"}, "spec": {"n": 7, "l": []}});
    let relabelled = json!({"metadata": {"name": "a", "labels": {}}, "spec": {"n": 7, "l": []}});
    let verdict = verdict(&schema, &relabelled, Some(&old));
    assert!(verdict.errors.is_empty(), "{:?}", verdict.errors);
    assert_eq!(verdict.warnings, ["spec: Invalid value: too many"]);
    let changed = json!({"spec": {"n": 7, "l": [1]}});
    assert_eq!(errors(&schema, &changed, Some(&old)), ["spec: Invalid value: too many"]);
}

#[test]
fn rules_of_the_root_have_the_path_of_the_reference() {
    let schema = json!({
        "type": "object", "properties": {"spec": {"type": "object", "x-orch-preserve-unknown-fields": true}},
        "x-orch-validations": [{"rule": "self.metadata.name.startsWith('a') && self.kind == 'K'"}],
    });
    let object = |name: &str| json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": name}});
    assert!(errors(&schema, &object("ab"), None).is_empty());
    let told = errors(&schema, &object("b"), None);
    assert_eq!(
        told,
        ["<nil>: Invalid value: failed rule: self.metadata.name.startsWith('a') && self.kind == 'K'"]
    );
}

#[test]
fn evaluations_take_their_time_from_the_request() {
    let numbers = vec!["-1"; 5000].join(",");
    let rule = format!("!(self in [{numbers}])");
    let schema = json!({"type": "object", "properties": {"l": {"type": "array", "items": {
        "type": "integer", "x-orch-validations": [{"rule": rule}],
    }}}});
    let rules = SchemaRules::of(&schema, &ORCH);
    let items: Vec<Value> = (0..10_000).map(Value::from).collect();
    let request = std::sync::Arc::new(orch_schema::budget::Budget::of(1_000_000));
    let began = std::time::Instant::now();
    request.enter(|| rules.validate(&json!({"l": items}), None, None, None, &mut Budget::of(RULES_COST_MAX)));
    assert!(request.check().is_err(), "the request has ended");
    assert!(began.elapsed() < std::time::Duration::from_secs(20), "{:?}", began.elapsed());
}

#[test]
fn many_unchanged_items_are_compared_once() {
    let schema = json!({"type": "object", "properties": {"l": {"type": "array", "items": {
        "type": "integer", "x-orch-validations": [{"rule": "self < 0"}],
    }}}});
    let rules = SchemaRules::of(&schema, &ORCH);
    let items: Vec<Value> = (0..20_000).map(Value::from).collect();
    let object = json!({"l": items});
    let began = std::time::Instant::now();
    let verdict = rules.validate(&object, Some(&object), None, None, &mut Budget::of(RULES_COST_MAX));
    assert_eq!((verdict.errors.len(), verdict.warnings.len()), (0, 100));
    assert!(began.elapsed() < std::time::Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn rules_see_the_names_of_the_kind_where_those_are_no_members() {
    let rule = json!([{"rule": "self.kind == 'Widget' && self.apiVersion.endsWith('/v1') && self.metadata.name == 'a'"}]);
    let schema = json!({"type": "object", "x-orch-validations": rule, "properties": {
        "kind": {"type": "string", "x-orch-validations": [{"rule": "self != 'Other'"}]},
    }});
    let rules = SchemaRules::of(&schema, &ORCH);
    let told = |kind: &str| {
        let head = (Value::from("example.com/v1"), Value::from(kind));
        let object = json!({"metadata": {"name": "a"}});
        let verdict =
            rules.validate(&object, Some(&object), Some(&head), None, &mut Budget::of(RULES_COST_MAX));
        verdict.errors.iter().map(|error| error.path.to_string()).collect::<Vec<_>>()
    };
    assert!(told("Widget").is_empty());
    assert_eq!(told("Other"), ["kind"], "the whole object is as it was, its kind is never forgiven");
}

#[test]
fn properties_without_a_name_in_expressions_have_types_of_their_own() {
    let part = json!({"type": "object", "properties": {"n": {"type": "integer"}},
        "x-orch-validations": [{"rule": "self.n > 1"}]});
    let schema = json!({"type": "object", "properties": {"a b": part, "n": {"type": "string"}}});
    assert!(told(&schema).is_empty(), "{:?}", told(&schema));
    assert_eq!(
        errors(&schema, &json!({"a b": {"n": 1}}), None),
        ["a b: Invalid value: failed rule: self.n > 1"]
    );
}

#[test]
fn names_of_types_are_bounded() {
    let name = "n".repeat(20_000);
    let leaf = json!({"type": "object", "properties": {"x": {"type": "string"}},
        "x-orch-validations": [{"rule": "self.x != ''"}]});
    let deep = (0..40).fold(leaf, |inner, _| {
        let mut around = json!({"type": "object", "properties": {}});
        around["properties"].as_object_mut().unwrap().insert(name.as_str(), inner);
        around
    });
    assert!(told(&deep).is_empty());
}

#[test]
fn an_object_is_refused_when_its_rules_cost_too_much_together() {
    let schema = json!({"type": "object", "properties": {"l": {"type": "array", "items": {
        "type": "string", "x-orch-validations": [{"rule": "self.matches('^[a-z]+$')"}],
    }}}});
    let rules = SchemaRules::of(&schema, &ORCH);
    let items: Vec<Value> = (0..100).map(|_| Value::from("a".repeat(100))).collect();
    let new = json!({"l": items});
    let told = rules.validate(&new, None, None, None, &mut Budget::of(500)).errors;
    let told: Vec<String> = told.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].contains("Invalid value: \"string\": validation failed due to running out of cost budget"),
        "{told:?}"
    );
    assert!(rules.validate(&new, None, None, None, &mut Budget::of(RULES_COST_MAX)).errors.is_empty());
}
