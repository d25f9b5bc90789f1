//! Which errors a rule of a definition has beside each other.

use super::*;

/// The places and reasons of the errors of a schema.
fn causes(schema: &Value) -> Vec<String> {
    let mut charge = Allowance::of(u64::MAX);
    let checks = RuleChecks { is_judged: &|_| true, charge: &mut charge };
    let errors = check_rules(schema, &Path::new("schema"), &ORCH, checks).unwrap();
    errors.iter().map(|error| format!("{} {}", error.path, error.kind.reason())).collect()
}

/// An object with a number, a text, a list and a map without bounds.
fn unbounded(rules: Value) -> Value {
    let text = json!({"type": "string"});
    json!({
        "type": "object", "x-orch-validations": rules,
        "properties": {
            "n": {"type": "integer"}, "s": text,
            "l": {"type": "array", "items": {"type": "integer"}},
            "m": {"type": "object", "additionalProperties": text},
        },
    })
}

#[test]
fn a_rule_that_is_refused_has_no_cost_and_no_message() {
    const DEAR: &str = "self.l.map(a, self.l.map(b, a + b))";
    let at = |field: &str| format!("schema.x-orch-validations[0].{field} FieldValueInvalid");
    for (rule, fields) in [
        (
            json!({"rule": "self.nope == oldSelf.orValue('')", "optionalOldSelf": true}),
            &["rule", "optionalOldSelf"][..],
        ),
        (json!({"rule": "self.n", "optionalOldSelf": false}), &["rule", "optionalOldSelf"]),
        (json!({"rule": "self.n", "messageExpression": "self.nope"}), &["rule"]),
        (json!({"rule": "self.s.find('(') == ''", "messageExpression": "self.nope"}), &["rule"]),
        (json!({"rule": DEAR}), &["rule"]),
        (json!({"rule": "self.m.all(k, self.m[k].find('(') == '')"}), &["rule"]),
        (json!({"rule": "true", "messageExpression": DEAR}), &["messageExpression"]),
        (
            json!({"rule": "true", "messageExpression": "self.m.map(k, k.find('(')).join()"}),
            &["messageExpression"],
        ),
    ] {
        let expected: Vec<String> = fields.iter().map(|field| at(field)).collect();
        assert_eq!(causes(&unbounded(json!([rule.clone()]))), expected, "{rule:?}");
    }
}

#[test]
fn old_values_are_read_by_rules_that_are_true_or_false() {
    let list = |rule: &str| {
        let items = json!({"type": "string", "x-orch-validations": [{"rule": rule}]});
        json!({"type": "object", "properties": {"l": {"type": "array", "maxItems": 5, "items": items}}})
    };
    let at = "schema.properties[l].items.x-orch-validations[0].rule FieldValueInvalid";
    assert_eq!(causes(&list("oldSelf")), [at]);
    assert_eq!(
        causes(&list("oldSelf.find('(') == self")),
        [at, at],
        "it is no program, and reads an old value"
    );
}

#[test]
fn messages_are_among_the_costliest() {
    // A message of 8,000,000.
    let rule =
        json!({"rule": "true", "messageExpression": "self.l.exists(a, self.l.all(b, a == b)) ? 'a' : 'b'"});
    let mut schema = unbounded(Value::from(vec![rule; 20]));
    schema["properties"]["l"]["maxItems"] = json!(1_000);
    let told = causes(&schema);
    let expected: Vec<String> = (0..4)
        .map(|at| format!("schema.x-orch-validations[{at}].messageExpression FieldValueForbidden"))
        .chain(["schema FieldValueForbidden".to_owned()])
        .collect();
    assert_eq!(told, expected);
}

#[test]
fn rules_without_a_type_are_told_once() {
    let (rule, free) =
        (json!([{"rule": "true"}, {"rule": "self == 1"}]), json!({"x-orch-preserve-unknown-fields": true}));
    let with = |mut schema: Value, name: &str, value: &Value| {
        schema.as_object_mut().unwrap().insert(name, value.clone());
        schema
    };
    let untyped = with(free.clone(), "x-orch-validations", &rule);
    let list = with(json!({"type": "array", "items": free}), "x-orch-validations", &rule);
    let map = with(json!({"type": "object", "additionalProperties": free}), "x-orch-validations", &rule);
    let around = |schema: &Value| json!({"type": "object", "properties": {"p": schema}});
    for schema in [&untyped, &list, &map] {
        assert_eq!(
            causes(&around(schema)),
            ["schema.properties[p].x-orch-validations InternalError"],
            "{schema}"
        );
    }
    assert_eq!(
        told(&around(&untyped)),
        [
            "schema.properties[p].x-orch-validations: Internal error: internal error: failed to construct type information for \
             x-orch-validations rules: unable to convert structural schema to CEL declarations"
        ]
    );
    let typed = json!({"type": "string", "x-orch-validations": [{"rule": "self == ''"}]});
    let below = with(free, "properties", &json!({"t": typed}));
    assert_eq!(causes(&around(&below)), [""; 0], "no part around it needs a type");
    let root = with(around(&below), "x-orch-validations", &json!([{"rule": "true"}]));
    assert_eq!(causes(&root), ["schema.properties[p].properties[t].x-orch-validations InternalError"]);
}
