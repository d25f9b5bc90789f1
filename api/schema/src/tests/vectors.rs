//! The recorded scenarios as a source of objects.

use std::path::Path;

use super::*;
use crate::value::Value;

/// An object in a recorded answer, and its type.
pub(crate) struct Recorded {
    pub(crate) scenario: String,
    pub(crate) type_id: TypeId,
    pub(crate) object: Value,
}

/// Every object of a known kind in the answers of the recorded scenarios. Placeholders of times and ports are replaced by some.
pub(crate) fn recorded(schema: &Schema) -> Vec<Recorded> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../cluster-tests/vectors");
    let mut found = Vec::new();
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files.iter().filter(|file| file.extension().is_some_and(|extension| extension == "json")) {
        let scenarios: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        for scenario in scenarios.as_array().into_iter().flatten() {
            let name = format!("{}/{}", file.display(), scenario["name"]);
            for step in scenario["steps"].as_array().into_iter().flatten() {
                collect(schema, &name, &step["expect"], &mut found);
            }
        }
    }
    found
}

fn collect(schema: &Schema, scenario: &str, value: &Value, found: &mut Vec<Recorded>) {
    match value {
        Value::Object(map) => {
            // `<any>` stands for a part that is not judged, of whatever type.
            let is_whole = map.values().all(|part| part != "<any>");
            if let Some(type_id) = type_of(schema, value).filter(|_| is_whole) {
                let mut object = value.clone();
                object.as_object_mut().unwrap().retain(|key, _| key != "kind" && key != "apiVersion");
                set_times(&mut object);
                take_unordered(&mut object);
                sort_labels(&mut object);
                if object["metadata"]["managedFields"].is_string() {
                    object["metadata"].as_object_mut().unwrap().shift_remove("managedFields");
                }
                found.push(Recorded { scenario: scenario.to_owned(), type_id, object });
            }
            // Objects inside of those of custom kinds are not stored in the form of their own kind.
            if !is_custom(schema, value) {
                map.values().for_each(|value| collect(schema, scenario, value, found));
            }
        }
        Value::Array(items) => items.iter().for_each(|value| collect(schema, scenario, value, found)),
        _ => {}
    }
}

/// Sorts labels and annotations: they were recorded under keys of another brand, in the order of those.
fn sort_labels(object: &mut Value) {
    for name in ["labels", "annotations"] {
        if let Some(map) = object["metadata"].get_mut(name).and_then(Value::as_object_mut) {
            let sorted: std::collections::BTreeMap<_, _> = std::mem::take(map).into_iter().collect();
            *map = sorted.into_iter().collect();
        }
    }
}

/// Whether it is an object of a kind that a definition declares.
fn is_custom(schema: &Schema, value: &Value) -> bool {
    let group =
        value["apiVersion"].as_str().and_then(|version| version.split_once('/')).map(|(group, _)| group);
    let is_built_in = |group: &str| schema.resources().iter().any(|resource| resource.group == group);
    value.get("metadata").is_some()
        && group.is_some_and(|group| group.ends_with(".example.com") && !is_built_in(group))
}

fn type_of(schema: &Schema, value: &Value) -> Option<TypeId> {
    let (kind, api_version) = (value["kind"].as_str()?, value["apiVersion"].as_str()?);
    value.get("metadata")?;
    if kind == "Status" {
        return schema.find_type("meta.v1.Status");
    }
    let found = |resource: &&ResourceType| resource.kind == kind && resource.api_version() == api_version;
    schema.resources().iter().find(found).map(|resource| resource.type_id)
}

/// Replaces `{"$unordered": [...]}`, a list that may come in any order, by the list.
fn take_unordered(value: &mut Value) {
    if let Some(list) = value.get_mut("$unordered").map(Value::take) {
        *value = list;
    }
    match value {
        Value::Object(map) => map.values_mut().for_each(take_unordered),
        Value::Array(items) => items.iter_mut().for_each(take_unordered),
        _ => {}
    }
}

/// Whether `text` stands for the number of a port.
fn is_port(text: &str) -> bool {
    let placeholders = ["${np", "${port:"];
    text == "<nodeport>" || text == "<port>" || placeholders.iter().any(|begin| text.starts_with(begin))
}

/// Replaces placeholders by times in the precision of each field, ports and certificates.
fn set_times(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if value == "<time>" {
                    let is_micro =
                        ["eventTime", "lastObservedTime", "renewTime", "acquireTime"].contains(&key.as_str());
                    *value = Value::from(if is_micro {
                        "2026-01-02T03:04:05.000006Z"
                    } else {
                        "2026-01-02T03:04:05Z"
                    });
                } else if value.as_str().is_some_and(is_port) {
                    *value = Value::from(30_000);
                } else if value == "<ca>" {
                    *value = Value::from("Y2E=");
                } else {
                    set_times(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(set_times),
        _ => {}
    }
}
