//! What is structural, and what says nothing.

use super::*;

const ROOT: &str = "spec.validation.openAPIV3Schema";

#[test]
fn a_flag_that_says_false_is_told_alone() {
    let preserves = json!({"x-orch-preserve-unknown-fields": false});
    let nested = json!({"type": "string", "not": preserves});
    for (spec, place) in [(preserves, ""), (nested, "not.")] {
        let told = refusals(widgets(json!({"type": "object", "properties": {"spec": spec, "untyped": {}}})));
        let detail = "x-orch-preserve-unknown-fields: Invalid value: false: must be true or undefined";
        assert_eq!(told, [format!("{ROOT}.properties[spec].{place}{detail}")]);
    }
}

#[test]
fn additional_properties_that_are_refused_say_nothing_of_the_structure_inside() {
    let inside = |schema: Value| {
        let spec = json!({
            "type": "object", "oneOf": [schema, {"required": ["a"]}], "properties": {"a": {"type": "string"}},
        });
        refusals(widgets(json!({"type": "object", "properties": {"spec": spec}})))
    };
    assert_eq!(inside(json!({"additionalProperties": false})), [""; 0]);
    let told = "oneOf[0].additionalProperties: Forbidden: must be undefined to be structural";
    for schema in [json!({"additionalProperties": true}), json!({"additionalProperties": {"minLength": 1}})] {
        assert_eq!(inside(schema), [format!("{ROOT}.properties[spec].{told}")]);
    }
    let mut both = json!([{"type": "integer"}, {"type": "string", "additionalProperties": false}]);
    let refused = |any_of: &Value| {
        let spec = json!({"x-orch-int-or-string": true, "anyOf": any_of});
        refusals(widgets(json!({"type": "object", "properties": {"spec": spec}}))).len()
    };
    assert_eq!(refused(&both), 0);
    both[0]["example"] = json!(1);
    assert_eq!(refused(&both), 2, "an example makes it another form");
}

#[test]
fn a_field_in_a_map_of_any_values_has_no_type() {
    let spec =
        json!({"type": "object", "properties": {"m": {"type": "object", "additionalProperties": true}}});
    let mut definition = widgets(json!({"type": "object", "properties": {"spec": spec}}));
    definition["spec"]["versions"][0]["selectableFields"] = json!([{"jsonPath": ".spec.m.k"}]);
    let told = "spec.selectableFields[0].jsonPath: Invalid value: \".spec.m.k\": must point to a field of type string, boolean or \
                integer. Enum string fields and strings with formats are allowed.";
    assert_eq!(refusals(definition), [told]);
}

#[test]
fn a_generated_name_is_no_name_of_a_definition() {
    let mut definition = widgets(json!({"type": "object"}));
    definition["metadata"]["generateName"] = json!("f-");
    let told = "metadata.generateName: Invalid value: \"f-\": must be spec.names.plural+\".\"+spec.group";
    assert_eq!(refusals(definition), [told]);
}

#[test]
fn the_condition_of_a_stored_schema_names_its_version() {
    let told = |schema: Value| {
        let found = non_structural(CONTEXT.brand, &widgets(schema));
        found.map(|condition| (condition.status.text(), condition.reason, condition.message))
    };
    assert_eq!(told(json!({"type": "object"})), None);
    let untyped = json!({"type": "object", "properties": {"spec": {}}});
    let detail = "spec.versions[0].schema.openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified \
                  object fields";
    assert_eq!(told(untyped), Some(("True", "Violations", detail.to_owned())));
    let failed = |fault: &str| {
        let detail = format!("failed to check validation schema for version v1: {fault}");
        Some(("Unknown", "StructuralError", detail))
    };
    let schema = json!({"properties": {"spec": {"not": {"$schema": "x"}, "id": ""}}});
    assert_eq!(told(schema), failed("OpenAPIV3Schema 'schema' is not supported"));
    let schema = json!({"items": {"x-orch-preserve-unknown-fields": false}});
    let fault = "internal error: 'x-orch-preserve-unknown-fields' must be true or undefined";
    assert_eq!(told(schema), failed(fault));
}

/// The errors of a definition as a client sends it, with `schema` as that of its version.
fn refusals_of_sent(schema: &Value, has_status: bool) -> Vec<String> {
    let mut sent = widgets(schema.clone());
    if has_status {
        sent["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    }
    refusals_within_a_request(&sent.to_string())
}

#[test]
fn an_empty_list_that_is_said_says_something_where_the_reference_keeps_it() {
    let metadata = |more: Value| {
        let mut metadata = json!({"type": "object"});
        metadata.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        refusals_of_sent(&json!({"type": "object", "properties": {"metadata": metadata}}), false)
    };
    let told = format!(
        "{ROOT}.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but metadata is \
         implicitly specified"
    );
    for said in [
        json!({"required": []}),
        json!({"x-orch-list-map-keys": []}),
        json!({"x-orch-validations": []}),
        json!({"example": ""}),
    ] {
        assert_eq!(metadata(said.clone()), [told.as_str()], "{said}");
    }
    for unsaid in [json!({}), json!({"required": null}), json!({"enum": []}), json!({"allOf": []})] {
        assert_eq!(metadata(unsaid.clone()), [""; 0], "{unsaid}");
    }
    for (name, is_refused) in [
        ("enum", true),
        ("allOf", true),
        ("oneOf", true),
        ("anyOf", true),
        ("x-orch-list-map-keys", true),
        ("required", false),
        ("x-orch-validations", false),
    ] {
        let schema = json!({"type": "object", name: []});
        assert_eq!(refusals_of_sent(&schema, true).len(), usize::from(is_refused), "{name}");
        assert_eq!(refusals_of_sent(&schema, false), [""; 0], "{name}");
    }
}

#[test]
fn an_empty_list_is_not_stored() {
    let schema = orch_schema::testing::orch();
    let type_id = schema.find_type("apiextensions.v1.CustomResourceDefinition").unwrap();
    let sent = widgets(
        json!({"type": "object", "required": [], "properties": {"a": {"type": "string", "enum": []}}}),
    );
    let text = sent.to_string();
    let limits = orch_schema::Limits::default();
    let decoded = orch_schema::decode_json(schema, type_id, text.as_bytes(), limits).unwrap().value;
    let mut stored = Vec::new();
    orch_schema::encode_json(schema, type_id, &decoded, &mut stored);
    let stored: Value = serde_json::from_slice(&stored).unwrap();
    let version = &stored["spec"]["versions"][0];
    let expected = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    assert_eq!(version["schema"]["openAPIV3Schema"], expected);
}

#[test]
fn an_empty_list_of_items_is_none() {
    let told =
        refusals(widgets(json!({"type": "object", "properties": {"l": {"type": "array", "items": []}}})));
    assert_eq!(told, [format!("{ROOT}.properties[l].items: Required value: must be specified")]);
}
