//! Types of lists and maps: how their elements are told apart.

use orch_schema::budget::{Numbered, count_step};
use orch_schema::value::Value;

use super::super::ratchet::Requirements;
use super::Extensions;
use super::place::Place;
use crate::validate::tree::{Tree, shown};
use crate::validate::{Distinct, FieldError, FieldErrors};

const LIST_TYPES: [&str; 3] = ["atomic", "set", "map"];
const MAP_TYPES: [&str; 2] = ["atomic", "granular"];

/// Rules for the types of a list or map, added to `errors`.
pub(super) fn validate(
    schema: &Value,
    place: &Place<'_>,
    extensions: &Extensions,
    requirements: Requirements,
    errors: &mut FieldErrors,
) {
    let (list_name, map_name) = (extensions.list_type.as_str(), extensions.map_type.as_str());
    if let Some(map_type) = schema.at(map_name).as_str() {
        errors.extend(wrong_type(schema, place, "object", map_name));
        // few: two types.
        if !MAP_TYPES.contains(&map_type) {
            let path = place.child(map_name).path();
            errors.push(FieldError::not_supported(path, map_type, &MAP_TYPES));
        }
    }
    let list_type = schema.at(list_name).as_str();
    if list_type.is_some() {
        let wrong = wrong_type(schema, place, "array", list_name);
        if wrong.is_none() && requirements.atomic_set_items {
            errors.extend(item_of_set(schema, place, extensions));
        }
        errors.extend(wrong);
    }
    // few: three types.
    if let Some(unknown) = list_type.filter(|list_type| !LIST_TYPES.contains(list_type)) {
        errors.push(FieldError::not_supported(place.child(list_name).path(), unknown, &LIST_TYPES));
    }
    let keys = schema.items(&extensions.list_map_keys);
    if !keys.is_empty() && list_type != Some("map") {
        let (path, name) = (place.child(list_name).path(), &extensions.list_map_keys);
        let detail = format!("must be map if {name} is non-empty");
        errors.push(match list_type {
            None => FieldError::required(path, &detail),
            Some(other) => FieldError::invalid_str(path, other, &detail),
        });
    }
    if list_type == Some("map") {
        validate_map(schema, place, extensions, errors);
    }
    if requirements.complete_map_keys {
        errors.extend(complete_keys(schema, place, extensions));
    }
}

/// The error of a type that is not `wanted`, which the extension `name` demands.
fn wrong_type(schema: &Value, place: &Place<'_>, wanted: &str, name: &str) -> Option<FieldError> {
    let kind = schema.text("type");
    if kind == wanted {
        return None;
    }
    let (path, detail) = (place.child("type").path(), format!("must be {wanted} if {name} is specified"));
    Some(match kind {
        "" => FieldError::required(path, &detail),
        other => FieldError::invalid_str(path, other, &detail),
    })
}

/// The error of a set whose items are not replaced as a whole.
pub(super) fn item_of_set(schema: &Value, place: &Place<'_>, extensions: &Extensions) -> Option<FieldError> {
    let item = schema.at("items");
    if schema.text(&extensions.list_type) != "set" || schema.text("type") != "array" || !item.is_object() {
        return None;
    }
    let (name, is_atomic) = match item.text("type") {
        // Lists without a type are atomic, and objects are not.
        "array" => {
            let name = &extensions.list_type;
            (name, item.at(name).as_str().is_none_or(|list_type| list_type == "atomic"))
        }
        "object" => {
            let name = &extensions.map_type;
            (name, item.at(name).as_str() == Some("atomic"))
        }
        _ => return None,
    };
    if is_atomic {
        return None;
    }
    let detail = format!("must be atomic as item of a list with {}=set", extensions.list_type);
    // The reference shows the list type of objects, too.
    let value = shown(item.at(&extensions.list_type));
    Some(FieldError::invalid(place.child("items").child(name).path(), &value, &detail))
}

/// Rules for a list of type map.
fn validate_map(schema: &Value, place: &Place<'_>, extensions: &Extensions, errors: &mut FieldErrors) {
    let (list_type, keys_name) = (&extensions.list_type, &extensions.list_map_keys);
    let (keys, items) = (schema.items(keys_name), schema.at("items"));
    let (keys_place, items_place) = (place.child(keys_name), place.child("items"));
    if keys.is_empty() {
        let detail = format!("must not be empty if {list_type} is map");
        errors.push(FieldError::required(keys_place.path(), &detail));
    }
    match items {
        Value::Object(_) => {}
        Value::Array(_) => {
            let detail = format!("must only have a single schema if {list_type} is map");
            errors.push(FieldError::invalid(items_place.path(), &shown(items), &detail));
            return;
        }
        _ => {
            let detail = format!("must have a schema if {list_type} is map");
            errors.push(FieldError::required(items_place.path(), &detail));
            return;
        }
    }
    if items.text("type") != "object" {
        let detail = format!("must be object if parent array's {list_type} is map");
        errors.push(FieldError::invalid_str(items_place.child("type").path(), items.text("type"), &detail));
        return;
    }
    let mut seen = Distinct::new();
    for (_, key) in keys.iter().numbered() {
        if errors.is_full() {
            return;
        }
        let key = key.as_str().unwrap_or_default();
        match items.at("properties").get(key) {
            Some(property) if matches!(property.text("type"), "array" | "object") => {
                let properties = items_place.child("properties");
                let path = properties.key(key).child("type").path();
                let detail = format!("must be a scalar type if parent array's {list_type} is map");
                // The reference shows the type of the item.
                errors.push(FieldError::invalid_str(path, "object", &detail));
            }
            Some(_) => {}
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(FieldError::invalid(keys_place.path(), &shown(schema.at(keys_name)), detail));
            }
        }
        if seen.is_repeated(key) {
            let detail = "must not contain duplicate entries";
            errors.push(FieldError::invalid(keys_place.path(), &shown(schema.at(keys_name)), detail));
        }
    }
}

/// The errors of a set or map whose elements might be null or lack a key.
pub(super) fn complete_keys(schema: &Value, place: &Place<'_>, extensions: &Extensions) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (list_type, keys_name) = (schema.text(&extensions.list_type), &extensions.list_map_keys);
    let items = schema.at("items");
    if !matches!(list_type, "set" | "map") || !items.is_object() {
        return errors;
    }
    let place = place.child("items");
    if items.flag("nullable") {
        let detail = format!("cannot be nullable when {} is {list_type}", extensions.list_type);
        errors.push(FieldError::forbidden(place.child("nullable").path(), &detail));
    }
    if list_type != "map" {
        return errors;
    }
    let required: Distinct<&str> = items.texts("required").into_iter().collect();
    let place = place.child("properties");
    for key in schema.texts(keys_name).into_iter().take_while(|_| count_step()) {
        let Some(property) = items.at("properties").get(key).filter(|_| !errors.is_full()) else { continue };
        let place = place.key(key);
        if !required.has(&key) && !property.has("default") {
            let detail = format!(
                "this property is in {keys_name}, so it must have a default or be a required property"
            );
            errors.push(FieldError::required(place.child("default").path(), &detail));
        }
        if property.flag("nullable") {
            let detail = format!("this property is in {keys_name}, so it cannot be nullable");
            errors.push(FieldError::forbidden(place.child("nullable").path(), &detail));
        }
    }
    errors
}
