//! Tests of the strategy, and of the answers to a selection of public definitions.

use orch_schema::json;

use super::*;
use crate::kinds::testing::{CONTEXT, check_hostile, created, updated};
use crate::validate::tree::{child_mut, set};

mod expressions;
mod structure;

/// A definition that is accepted, with `schema` as that of its version.
fn widgets(schema: Value) -> Value {
    json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

fn refusals(definition: Value) -> Vec<String> {
    let definition = created(&CustomResourceDefinition, definition);
    let errors = CustomResourceDefinition.validate_create(&CONTEXT, &definition);
    errors.iter().map(ToString::to_string).collect()
}

fn refusals_of_update(old: &Value, new: Value) -> Vec<String> {
    let new = updated(&CustomResourceDefinition, Action::Object, old, new);
    let errors = CustomResourceDefinition.validate_update(&CONTEXT, old, &new);
    let metadata = |text: &String| text.starts_with("metadata.");
    errors.iter().map(ToString::to_string).filter(|text| !metadata(text)).collect()
}

#[test]
fn absent_names_follow_from_the_kind_and_the_storage_version_is_stored() {
    let definition = created(&CustomResourceDefinition, widgets(json!({"type": "object"})));
    let names =
        json!({"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"});
    assert_eq!(definition["spec"]["names"], names);
    assert_eq!(definition["spec"]["conversion"], json!({"strategy": "None"}));
    assert_eq!(definition["status"], json!({"storedVersions": ["v1"]}));
    assert_eq!(definition["metadata"]["generation"], 1);
    assert_eq!(refusals(widgets(json!({"type": "object"}))), [""; 0]);
    check_hostile(&CustomResourceDefinition);
}

#[test]
fn an_update_keeps_the_status_and_stores_a_new_storage_version() {
    let old = created(&CustomResourceDefinition, widgets(json!({"type": "object"})));
    let mut new = old.clone();
    new["status"]["storedVersions"] = json!(["other"]);
    let versions = json!([
        {"name": "v2", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}},
        {"name": "v1", "served": true, "storage": false, "schema": {"openAPIV3Schema": {"type": "object"}}},
    ]);
    new["spec"]["versions"] = versions;
    let new = updated(&CustomResourceDefinition, Action::Object, &old, new);
    assert_eq!(new["status"]["storedVersions"], json!(["v1", "v2"]));
    assert_eq!(new["metadata"]["generation"], 2);
    let mut without = new.clone();
    without["spec"]["versions"] = json!([new["spec"]["versions"][0]]);
    let told = refusals_of_update(&new, without);
    assert!(told[0].starts_with("status.storedVersions[0]: Invalid value: \"v1\": missing from"), "{told:?}");
    let mut status = new.clone();
    status["status"]["storedVersions"] = json!(["v2"]);
    status["spec"]["scope"] = json!("Cluster");
    let status = updated(&CustomResourceDefinition, Action::Status, &new, status);
    assert_eq!((&status["spec"], &status["status"]["storedVersions"]), (&new["spec"], &json!(["v2"])));
}

#[test]
fn scope_and_kind_stay_while_objects_are_served() {
    let mut old = created(&CustomResourceDefinition, widgets(json!({"type": "object"})));
    let mut new = old.clone();
    set(child_mut(&mut new, "spec"), "scope", "Cluster");
    set(child_mut(child_mut(&mut new, "spec"), "names"), "kind", "Gadget");
    set(child_mut(&mut new, "spec"), "group", "other.com");
    let immutable = "spec.group: Invalid value: \"other.com\": field is immutable";
    assert_eq!(refusals_of_update(&old, new.clone()), [immutable]);
    conditions::set_condition(&mut old, CONTEXT.brand, &conditions::Condition::established(), CONTEXT.now);
    let told = refusals_of_update(&old, new);
    assert_eq!(told.len(), 3, "{told:?}");
    assert_eq!(told[0], "spec.scope: Invalid value: \"Cluster\": field is immutable");
}

#[test]
fn places_are_those_of_the_reference() {
    let bad = json!({"type": "object", "properties": {"a": {}}});
    let told = "properties[a].type: Required value: must not be empty for specified object fields";
    assert_eq!(refusals(widgets(bad.clone())), [format!("spec.validation.openAPIV3Schema.{told}")]);
    let mut two = widgets(bad.clone());
    let mut other = two["spec"]["versions"][0].clone();
    set(&mut other, "name", "v2");
    set(&mut other, "storage", false);
    two["spec"]["versions"] = json!([two["spec"]["versions"][0], other]);
    assert_eq!(
        refusals(two.clone()),
        [format!("spec.validation.openAPIV3Schema.{told}")],
        "alike, told once"
    );
    two["spec"]["versions"][1]["schema"] = json!({"openAPIV3Schema": {"type": "object"}});
    assert_eq!(refusals(two), [format!("spec.versions[0].schema.openAPIV3Schema.{told}")]);
}

/// The text of a definition whose schema has `properties` at its root.
fn text_of(properties: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"widgets.example.com"}},"spec":{{"group":"example.com","scope":"Namespaced",
        "names":{{"plural":"widgets","kind":"Widget"}},"versions":[{{"name":"v1","served":true,"storage":true,
        "schema":{{"openAPIV3Schema":{{"type":"object","properties":{{{properties}}}}}}}}}]}}}}"#
    )
}

/// The errors of a definition as a request would get them, within the steps of one request.
fn refusals_within_a_request(text: &str) -> Vec<String> {
    let schema = orch_schema::testing::orch();
    let type_id = schema.find_type("apiextensions.v1.CustomResourceDefinition").unwrap();
    let decoded = orch_schema::decode_json(schema, type_id, text.as_bytes(), orch_schema::Limits::default());
    let definition = decoded.unwrap().value;
    let budget = std::sync::Arc::new(orch_schema::budget::Budget::default());
    budget.enter(|| {
        let errors = refusals(definition.clone());
        CustomResourceDefinition.warnings(&CONTEXT, None, &definition);
        assert!(orch_schema::budget::count_step(), "the request goes on");
        errors
    })
}

#[test]
fn schemas_of_the_largest_size_are_judged_within_the_steps_of_a_request() {
    let wide: Vec<String> =
        (0..15_000).map(|at| format!(r#""p{at}":{{"type":"string","format":"x{at}"}}"#)).collect();
    assert_eq!(refusals_within_a_request(&text_of(&wide.join(","))), [""; 0]);
    let bad: Vec<String> =
        (0..15_000).map(|at| format!(r#""p{at}":{{"pattern":"(","default":1}}"#)).collect();
    let told = refusals_within_a_request(&text_of(&bad.join(",")));
    assert_eq!(told.len(), crate::validate::errors::ERRORS_SHOWN_MAX + 1, "errors are bounded");
    let name = "n".repeat(20_000);
    let deep = (0..40).fold(r#"{"type":"object","default":{"z":1}}"#.to_owned(), |inner, _| {
        format!(r#"{{"type":"object","default":{{}},"properties":{{"{name}":{inner}}}}}"#)
    });
    let told = refusals_within_a_request(&text_of(&format!(r#""a":{deep}"#)));
    assert_eq!(told.len(), 1, "{}", told.len());
    assert!(told[0].len() < 64 << 10, "names in paths are cut");
}

#[test]
fn patterns_of_a_definition_are_compiled_within_a_bound() {
    let worst: Vec<String> = (0..15_000)
        .map(|at| format!(r#""p{at}":{{"type":"string","pattern":"(?i)[^a]{{1,200}}\\pL{{1,100}}x{at}"}}"#))
        .collect();
    let told = refusals_within_a_request(&text_of(&worst.join(",")));
    assert!(told[0].ends_with("the regular expression is too large"), "{}", told[0]);
    let same: Vec<String> =
        (0..15_000).map(|at| format!(r#""p{at}":{{"type":"string","pattern":"^[a-z]+$"}}"#)).collect();
    assert_eq!(refusals_within_a_request(&text_of(&same.join(","))), [""; 0], "equal ones are compiled once");
}

#[test]
fn a_definition_has_a_hundred_versions_at_most() {
    let mut many = widgets(json!({"type": "object"}));
    let version = many["spec"]["versions"][0].clone();
    let versions = (0..10_000).map(|at| {
        let mut version = version.clone();
        set(&mut version, "name", format!("v{at}"));
        version
    });
    many["spec"]["versions"] = Value::Array(versions.collect());
    assert_eq!(refusals(many)[0], "spec.versions: Too many: 10000: must have at most 100 items");
}

#[test]
fn rules_that_the_stored_definition_breaks_need_not_be_kept() {
    let set_of = |item: Value| {
        json!({"type": "object", "properties": {
            "a": {"type": "array", "x-orch-list-type": "set", "items": item},
        }})
    };
    let bad = set_of(json!({"type": "object", "properties": {"b": {"type": "string"}}}));
    let told = refusals(widgets(bad.clone()));
    let atomic = "spec.validation.openAPIV3Schema.properties[a].items.x-orch-map-type: Invalid value: null: must be atomic as \
                  item of a list with x-orch-list-type=set";
    assert_eq!(told, [atomic]);
    let old = created(&CustomResourceDefinition, widgets(bad.clone()));
    let mut new = widgets(bad);
    set(child_mut(child_mut(&mut new, "spec"), "names"), "shortNames", json!(["w"]));
    assert_eq!(refusals_of_update(&old, new), [""; 0]);
}

#[test]
fn a_stored_schema_that_is_not_structural_passes_as_it_is_and_in_no_other_form() {
    let both = json!([{"type": "integer", "example": 1}, {"type": "string"}]);
    for field in [
        json!({"x-orch-int-or-string": true, "anyOf": both}),
        json!({"type": "string", "not": {"$schema": "x"}}),
        json!({"type": "string", "pattern": "("}),
    ] {
        let schema = json!({"type": "object", "properties": {"a": field}});
        assert!(!refusals(widgets(schema.clone())).is_empty(), "{field}");
        let old = created(&CustomResourceDefinition, widgets(schema.clone()));
        let mut new = widgets(schema);
        new["metadata"]["labels"] = json!({"a": "b"});
        new["spec"]["names"]["shortNames"] = json!(["w"]);
        assert_eq!(refusals_of_update(&old, new.clone()), [""; 0], "{field}");
        new["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = json!("Changed.");
        assert!(!refusals_of_update(&old, new).is_empty(), "{field}");
    }
}

#[test]
fn a_stored_column_whose_path_is_none_passes_an_update() {
    let with = |path: &str| {
        let mut definition = widgets(json!({"type": "object"}));
        let column = json!({"name": "A", "type": "string", "jsonPath": path});
        definition["spec"]["versions"][0]["additionalPrinterColumns"] = json!([column]);
        definition
    };
    for path in [".a[?(@.b==\"x\\.y\")]", ".a\t.b", ".a["] {
        assert_eq!(refusals(with(path)), [""; 0], "the rules read no path: {path}");
        let old = created(&CustomResourceDefinition, with(path));
        assert_eq!(refusals_of_update(&old, with(path)), [""; 0], "{path}");
    }
}

#[test]
fn defaults_keep_the_rules_of_their_schema() {
    for (schema, told) in [
        (
            json!({"type": "string", "default": 5}),
            "Invalid value: \"integer\":  in body must be of type string: \"integer\"",
        ),
        (
            json!({"type": "string", "enum": ["x", "y"], "default": "z"}),
            "Unsupported value: \"z\": supported values: \"x\", \"y\"",
        ),
        (
            json!({"type": "object", "properties": {"b": {"type": "string"}}, "default": {"b": "ok", "c": "unknown"}}),
            "Invalid value: {\"b\":\"ok\",\"c\":\"unknown\"}: must not have unknown fields",
        ),
        (
            json!({"type": "integer", "minimum": 3, "default": 1}),
            "Invalid value: 1:  in body should be greater than or equal to 3",
        ),
        (
            json!({"type": "object", "required": ["b"], "properties": {"b": {"type": "string"}}, "default": {}}),
            "Required value",
        ),
    ] {
        let refused = refusals(widgets(json!({"type": "object", "properties": {"a": schema}})));
        let field = if told == "Required value" { "default.b" } else { "default" };
        assert_eq!(refused, [format!("spec.validation.openAPIV3Schema.properties[a].{field}: {told}")]);
    }
    let top = json!({"type": "object", "properties": {
        "metadata": {"type": "object", "properties": {"name": {"type": "string", "default": "n"}}},
    }});
    let told = "spec.validation.openAPIV3Schema.properties[metadata].properties[name].default: Forbidden: must not be set in \
                top-level metadata";
    assert_eq!(refusals(widgets(top)), [told]);
}

#[test]
fn integers_or_strings_may_be_named_by_both_types_and_nothing_else() {
    let both = json!([{"type": "integer"}, {"type": "string"}]);
    let refused = |schema: Value| refusals(widgets(json!({"type": "object", "properties": {"a": schema}})));
    for schema in [
        json!({"x-orch-int-or-string": true, "anyOf": both}),
        json!({"x-orch-int-or-string": true, "allOf": [{"anyOf": both}, {"pattern": "^a"}]}),
        json!({"x-orch-preserve-unknown-fields": true, "anyOf": both, "allOf": [{"anyOf": both}]}),
    ] {
        assert_eq!(refused(schema), [""; 0]);
    }
    let other = json!({"x-orch-int-or-string": true, "anyOf": [{"type": "string"}, {"type": "integer"}]});
    let told = "anyOf[0].type: Forbidden: must be empty to be structural";
    assert_eq!(refused(other)[0], format!("spec.validation.openAPIV3Schema.properties[a].{told}"));
    let second = json!({"type": "string", "allOf": [{"pattern": "a"}, {"anyOf": both}]});
    assert_eq!(refused(second).len(), 2);
}

#[test]
fn defaults_keep_unknown_fields_where_objects_do() {
    let refused = |schema: Value| refusals(widgets(json!({"type": "object", "properties": {"a": schema}})));
    let item = json!({"type": "object", "properties": {"b": {"type": "string"}}});
    let list = |preserves: bool| {
        json!({
            "type": "array", "items": item, "default": [{"z": 1}],
            "x-orch-preserve-unknown-fields": if preserves { json!(true) } else { json!(null) },
        })
    };
    assert_eq!(refused(list(true)), [""; 0]);
    assert_eq!(refused(list(false)).len(), 1);
    let map = json!({
        "type": "object", "x-orch-preserve-unknown-fields": true, "additionalProperties": true,
        "default": {"a": {"b": 1}},
    });
    let told = "default: Invalid value: {\"a\":{\"b\":1}}: must not have unknown fields";
    assert_eq!(refused(map), [format!("spec.validation.openAPIV3Schema.properties[a].{told}")]);
}

#[test]
fn members_without_a_place_in_structural_schemas_are_refused() {
    let with = |name: &str, value: Value| {
        let mut schema = json!({"type": "object"});
        set(&mut schema, name, value);
        refusals(widgets(schema))
    };
    let root = "spec.validation.openAPIV3Schema";
    let told = format!("{root}: Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported");
    assert_eq!(with("$schema", json!("http://json-schema.org/draft-04/schema#")), [told]);
    for (name, value) in [("id", json!("x")), ("$ref", json!("")), ("dependencies", json!({}))] {
        let told = format!("{root}.{name}: Forbidden: {name} is not supported");
        assert_eq!(with(name, value), [told]);
    }
    for (name, value) in [("id", json!("")), ("definitions", json!({})), ("patternProperties", json!({}))] {
        assert_eq!(with(name, value), [""; 0], "{name} is empty");
    }
}

#[test]
fn a_warning_about_a_deprecated_version_is_printable_and_short() {
    let refused = |warning: &str, deprecated: bool| {
        let mut definition = widgets(json!({"type": "object"}));
        definition["spec"]["versions"][0]["deprecationWarning"] = json!(warning);
        definition["spec"]["versions"][0]["deprecated"] = json!(deprecated);
        refusals(definition)
    };
    assert_eq!(refused(" ", true), [""; 0]);
    let told = |text: &str, detail: &str| {
        [format!("spec.versions[0].deprecationWarning: Invalid value: {text}: {detail}")]
    };
    assert_eq!(refused("", true), told("\"\"", "must not be an empty string"));
    assert_eq!(refused("x", false), told("\"x\"", "can only be set for deprecated versions"));
    let index = "must only contain printable UTF-8 characters; non-printable character found at index 1";
    assert_eq!(refused("a\n", true), told("\"a\\n\"", index));
    for (character, shown) in [('\u{61c}', "\\u061c"), ('\u{180e}', "\\u180e"), ('\u{e0041}', "\\U000e0041")]
    {
        let warning = format!("a{character}");
        assert_eq!(refused(&warning, true), told(&format!("\"a{shown}\""), index));
    }
    assert_eq!(refused("é \u{301}€ \u{1f600}", true), [""; 0]);
}

#[test]
fn objects_in_defaults_are_objects_with_valid_metadata() {
    let embedded = |mut more: Value| {
        set(&mut more, "type", "object");
        set(&mut more, "x-orch-embedded-resource", true);
        set(&mut more, "x-orch-preserve-unknown-fields", true);
        refusals(widgets(json!({"type": "object", "properties": {"a": more}})))
    };
    let at = "spec.validation.openAPIV3Schema.properties[a]";
    let fine = json!({"kind": "K", "apiVersion": "v1", "metadata": {"labels": {"a": "b"}}, "more": 1});
    assert_eq!(embedded(json!({"default": fine})), [""; 0]);
    assert_eq!(
        embedded(json!({"default": {"kind": "K"}})),
        [format!("{at}.default.apiVersion: Required value")]
    );
    let other = json!({"kind": "K", "apiVersion": "v1", "metadata": {"labels": {"a": 5}}});
    let told = "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string";
    assert_eq!(
        embedded(json!({"default": other})),
        [format!("{at}.default.metadata: Invalid value: {{\"labels\":{{\"a\":5}}}}: {told}")]
    );
    let in_metadata = |name: &str, schema: Value| {
        let metadata = json!({"type": "object", "properties": {name: schema}});
        embedded(json!({"properties": {"metadata": metadata}}))
    };
    let labels = |default: Value| {
        in_metadata(
            "labels",
            json!({"type": "object", "additionalProperties": {"type": "string"}, "default": default}),
        )
    };
    assert_eq!(labels(json!({"a": "b"})), [""; 0]);
    let told = labels(json!({"a b": "c"}));
    let begin = format!(
        "{at}.properties[metadata].properties[labels].default: Invalid value: {{\"a b\":\"c\"}}: must result in valid metadata: \
         metadata.labels: Invalid value: \"a b\": "
    );
    assert!(told.len() == 1 && told[0].starts_with(&begin), "{told:?}");
    let names = json!({"type": "array", "items": {"type": "string", "default": ""}});
    assert_eq!(in_metadata("finalizers", names).len(), 1, "items are looked at within their list");
}
