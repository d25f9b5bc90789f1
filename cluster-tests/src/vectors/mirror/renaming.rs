//! Turns recorded steps of built-in kinds into those of their mirrors: paths, documents and texts name another group.
//!
//! Owns the names alone: what a mirror may answer otherwise is `excused`'s.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value, json};

use super::{GROUP, KINDS, Kind};

/// A name of a kind or resource before a quoted name of an object, as messages have it.
static NAMED: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"\b(configmaps|ConfigMap|(?:deployments|Deployment)\.apps|events\.events\.orch\.io|Event(?:\.events\.orch\.io)?) ""#;
    Regex::new(pattern).expect("the pattern is valid")
});

/// A resource and its group in a message about rights.
static IN_GROUP: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"(resource "(?:configmaps|deployments|events)(?:/\w+)?" in API group )"[^"]*""#;
    Regex::new(pattern).expect("the pattern is valid")
});

/// Version and kind of a document that is a text, in JSON or YAML.
static WRITTEN: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r#"(?x) ("?apiVersion"?\s*:\s*"?) (?:v1|apps/v1|events\.orch\.io/v1) ("?\s*,?\s*"?kind"?\s*:\s*"?(?:ConfigMap|Deployment|Event)\b)"#;
    Regex::new(pattern).expect("the pattern is valid")
});

/// The kind that the path of a request is of.
pub(super) fn kind_of(path: &str) -> Option<&'static Kind> {
    let path = path.split('?').next().unwrap_or_default();
    // few: three kinds.
    KINDS.iter().find(|kind| {
        let Some(rest) = path.strip_prefix(&*kind.prefix).and_then(|rest| rest.strip_prefix('/')) else {
            return false;
        };
        let mut parts = rest.split('/');
        match parts.next() {
            Some("namespaces") => parts.nth(1) == Some(kind.plural),
            first => first == Some(kind.plural),
        }
    })
}

/// The request or the expected answer of a step, with the mirror's names.
pub(super) fn renamed(value: &Value) -> Value {
    inside(value, false)
}

/// `METHOD PATH` of a step, with the mirror's path.
pub(super) fn request(text: &str) -> String {
    let Some((method, path)) = text.split_once(' ') else { return text.to_owned() };
    match kind_of(path) {
        Some(kind) => format!("{method} /apis/{GROUP}/v1{}", &path[kind.prefix.len()..]),
        None => text.to_owned(),
    }
}

/// `is_mirrored`: the value is in a document of a mirrored kind.
fn inside(value: &Value, is_mirrored: bool) -> Value {
    match value {
        Value::Object(fields) => object(fields, is_mirrored),
        Value::Array(items) => Value::Array(items.iter().map(|item| inside(item, is_mirrored)).collect()),
        Value::String(text) => Value::String(message(text)),
        other => other.clone(),
    }
}

fn object(fields: &Map<String, Value>, is_mirrored: bool) -> Value {
    let text = |name: &str| fields.get(name).and_then(Value::as_str).unwrap_or_default();
    let (name, version) = (text("kind"), text("apiVersion"));
    // few: three kinds.
    let own = KINDS.iter().find(|kind| {
        version == kind.api_version && (name == kind.name || name.strip_suffix("List") == Some(kind.name))
    });
    let is_record = is_mirrored && fields.contains_key("fieldsType");
    let mut out = Map::new();
    for (name, field) in fields {
        out.insert(name.clone(), inside(field, is_mirrored || own.is_some()));
    }
    if own.is_some() || is_record {
        out.insert("apiVersion".into(), json!(format!("{GROUP}/v1")));
    }
    if let (Some(kind), Some(Value::Array(items))) =
        (own.filter(|_| name.ends_with("List")), out.get_mut("items"))
    {
        // Entries of a list of a custom kind tell their kind.
        for item in items.iter_mut().filter_map(Value::as_object_mut) {
            item.insert("kind".into(), json!(kind.name));
            item.insert("apiVersion".into(), json!(format!("{GROUP}/v1")));
            records(item);
        }
    }
    // few: three kinds.
    let is_details = KINDS.iter().any(|kind| name == kind.name || name == kind.plural) && version.is_empty();
    if is_details
        && (fields.contains_key("name") || fields.contains_key("causes"))
        && !fields.contains_key("metadata")
        && !fields.contains_key("namespace")
    {
        out.insert("group".into(), json!(GROUP));
    }
    Value::Object(out)
}

/// Renames the version in the records of managers of an entry of a list.
fn records(item: &mut Map<String, Value>) {
    let records = item.get_mut("metadata").and_then(|metadata| metadata.get_mut("managedFields"));
    for record in records.and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(record) = record.as_object_mut() {
            record.insert("apiVersion".into(), json!(format!("{GROUP}/v1")));
        }
    }
}

fn message(text: &str) -> String {
    let named = NAMED.replace_all(text, |found: &Captures<'_>| {
        let name = found[1].split('.').next().unwrap_or_default();
        format!("{name}.{GROUP} \"")
    });
    let grouped = IN_GROUP.replace_all(&named, |found: &Captures<'_>| format!("{}\"{GROUP}\"", &found[1]));
    WRITTEN
        .replace_all(&grouped, |found: &Captures<'_>| format!("{}{GROUP}/v1{}", &found[1], &found[2]))
        .into_owned()
}
