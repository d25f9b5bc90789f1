//! Conversion between the two spellings of an event, core v1 and events v1.
//!
//! Owns the mapping of field names and the fields that each spelling always shows; no rule reads the events v1 form.

use orch_schema::json;
use orch_schema::value::{Map, Value};

/// Fields with different names in core v1 and in events v1. All others have the same name in both.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// The stored event in the spelling of events v1.
pub fn to_events_v1(event: &Value) -> Value {
    let mut out = renamed(event, |name| pair(|(core, _)| *core == name).map_or(name, |(_, v1)| v1));
    for field in ["reportingController", "reportingInstance"] {
        if out.get(field).is_some_and(|value| value == "") {
            out.shift_remove(field);
        }
    }
    if out.get("regarding").is_some_and(is_empty_object) {
        out.shift_remove("regarding");
    }
    show(&mut out, "deprecatedSource", json!({}));
    for field in ["eventTime", "deprecatedFirstTimestamp", "deprecatedLastTimestamp"] {
        show(&mut out, field, Value::Null);
    }
    Value::Object(out)
}

/// The stored form of an event in the spelling of events v1.
pub fn from_events_v1(event: &Value) -> Value {
    let mut out = renamed(event, |name| pair(|(_, v1)| *v1 == name).map_or(name, |(core, _)| core));
    for field in ["involvedObject", "source"] {
        show(&mut out, field, json!({}));
    }
    for field in ["firstTimestamp", "lastTimestamp", "eventTime"] {
        show(&mut out, field, Value::Null);
    }
    for field in ["reportingComponent", "reportingInstance"] {
        show(&mut out, field, json!(""));
    }
    Value::Object(out)
}

/// The stored field that a field selector of events v1 names; `None` for an unknown one.
pub fn stored_field_label(label: &str) -> Option<&'static str> {
    Some(match label {
        "metadata.name" => "metadata.name",
        "metadata.namespace" => "metadata.namespace",
        "reason" => "reason",
        "type" => "type",
        "reportingController" => "reportingComponent",
        "regarding.kind" => "involvedObject.kind",
        "regarding.namespace" => "involvedObject.namespace",
        "regarding.name" => "involvedObject.name",
        "regarding.uid" => "involvedObject.uid",
        "regarding.apiVersion" => "involvedObject.apiVersion",
        "regarding.resourceVersion" => "involvedObject.resourceVersion",
        "regarding.fieldPath" => "involvedObject.fieldPath",
        _ => return None,
    })
}

fn pair(wanted: impl Fn(&(&'static str, &'static str)) -> bool) -> Option<(&'static str, &'static str)> {
    // few: the renamed fields.
    RENAMED.into_iter().find(|names| wanted(names))
}

fn renamed<'a>(event: &'a Value, name: impl Fn(&'a str) -> &'a str) -> Map {
    let Some(fields) = event.as_object() else { return Map::new() };
    let head = |field: &str| matches!(field, "kind" | "apiVersion");
    let fields = fields.iter().filter(|(field, _)| !head(field));
    fields.map(|(field, value)| (name(field).to_owned(), value.clone())).collect()
}

fn show(event: &mut Map, field: &str, empty: Value) {
    event.entry(field).or_insert(empty);
}

fn is_empty_object(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty)
}
