//! Which errors of expressions a definition is told of beside others.

use super::*;

const ROOT: &str = "spec.validation.openAPIV3Schema";

/// The errors of a definition with these fields of its `spec`, up to the value that they show.
fn beginnings(fields: Value) -> Vec<String> {
    let spec = json!({"type": "object", "properties": fields});
    let told = refusals(widgets(json!({"type": "object", "properties": {"spec": spec}})));
    let begin = |text: &String| {
        let end = text.find("{\"Rule\"").unwrap_or(text.len());
        let place = format!("{ROOT}.properties[spec].properties");
        text[..end].trim_end_matches(": ").replace(&place, "")
    };
    told.iter().map(begin).collect()
}

fn rule(text: &str) -> Value {
    json!([{"rule": text}])
}

#[test]
fn an_expression_is_told_unless_its_part_or_one_below_has_another_error() {
    let unique = json!({"type": "array", "uniqueItems": true, "items": {"type": "string"}});
    let wrong = json!({"type": "string", "x-orch-validations": rule("self.startswith('p')")});
    let unique_told = "[a].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
    let wrong_told = "[b].x-orch-validations[0].rule: Invalid value";
    assert_eq!(beginnings(json!({"a": unique, "b": wrong})), [unique_told, wrong_told]);
    let mut around = json!({"type": "object", "properties": {"a": unique}});
    around["x-orch-validations"] = rule("slf");
    let told = beginnings(json!({"a": around, "b": wrong}));
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("[a].properties[a].uniqueItems") && told[1] == wrong_told, "{told:?}");
}

#[test]
fn errors_of_the_root_alone_hinder_no_expression() {
    let mut schema = json!({"type": "object", "nullable": true, "properties": {"spec": {"type": "string"}}});
    schema["properties"]["spec"]["x-orch-validations"] = rule("slf");
    let told = refusals(widgets(schema));
    assert_eq!(told[0], format!("{ROOT}.nullable: Forbidden: nullable cannot be true at the root"));
    assert_eq!(told.len(), 2, "{told:?}");
}

#[test]
fn a_rule_at_a_default_is_told_there_and_silences_the_other_expressions() {
    let compiled = "ERROR: <input>:1:1: undeclared reference to 'slf' (in container '')\n | slf\n | ^";
    let default = json!({"type": "boolean", "default": true, "x-orch-validations": rule("slf")});
    let other = json!({"type": "string", "x-orch-validations": rule("nope")});
    let at_default = format!(
        "[a].default: Invalid value: \"boolean\": rule compile error: compilation failed: {compiled}"
    );
    assert_eq!(beginnings(json!({"a": default, "b": other})), [at_default.clone()]);
    let unique = json!({"type": "array", "uniqueItems": true, "items": {"type": "string"}});
    let told = beginnings(json!({"a": default, "b": unique}));
    assert_eq!(told.len(), 2, "general errors stay: {told:?}");
    assert_eq!(told[0], at_default);
    let broken = json!({"type": "integer", "default": 1, "x-orch-validations": rule("self > 1")});
    let told = beginnings(json!({"a": broken, "b": other}));
    assert_eq!(told, ["[a].default: Invalid value: 1: failed rule: self > 1"]);
    let wrong = json!({"type": "integer", "default": "x"});
    let told = beginnings(json!({"a": broken, "b": wrong}));
    assert_eq!(told.len(), 2, "each default without another error is told: {told:?}");
}
