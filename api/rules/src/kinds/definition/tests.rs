//! Tests of the strategy, and of the answers to a selection of public definitions.

use orch_schema::json;

use super::*;
use crate::kinds::testing::{CONTEXT, check_hostile, created, updated};
use crate::validate::tree::{child_mut, set};

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
