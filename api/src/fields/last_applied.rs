//! Migration from client-side apply.
//!
//! Owns the annotation in which `kubectl` keeps its last client-side configuration. The same client can apply to such
//! an object without conflicts as long as the annotated fields have their annotated values. The annotation is updated
//! to the applied configuration, so that old clients keep working.

use orch_proto::Brand;
use orch_schema::types::{Schema, TypeId};
use orch_schema::value::{Map, SmolStr, Value};

use super::compare::compare;
use super::conflict::Conflicts;
use super::element::write_json_string;
use super::extract::field_set;
use super::set::FieldSet;
use super::update::Writer;

/// The manager that is migrated; any other name opts out.
pub(super) const LAST_APPLIED_MANAGER: &str = "kubectl";

/// Bytes that all annotations of an object may have together; beyond that this annotation is dropped.
const ANNOTATION_BYTES_MAX: usize = 256 * 1024;

fn annotation(brand: &Brand) -> String {
    format!("{LAST_APPLIED_MANAGER}.{}/last-applied-configuration", brand.label_domain)
}

/// The conflicts that the last client-side configuration does not explain; `None` if it explains all.
pub(super) fn unexplained_conflicts(
    schema: &Schema,
    root: TypeId,
    live: &Value,
    conflicts: Conflicts,
    writer: &Writer<'_>,
    brand: &Brand,
) -> Option<Conflicts> {
    let Some(allowed) = last_applied_set(schema, root, live, writer, brand) else { return Some(conflicts) };
    let rest: Vec<_> =
        conflicts.kept.into_iter().filter(|conflict| !allowed.has(&conflict.elements)).collect();
    if rest.is_empty() { None } else { Some(Conflicts { count: rest.len(), kept: rest }) }
}

/// The fields of the last client-side configuration that still have its values. `None` if there is none or it cannot be
/// read: then every conflict stands.
fn last_applied_set(
    schema: &Schema,
    root: TypeId,
    live: &Value,
    writer: &Writer<'_>,
    brand: &Brand,
) -> Option<FieldSet> {
    let text = live.get("metadata")?.get("annotations")?.get(&annotation(brand))?.as_str()?;
    let last: Value = serde_json::from_str(text).ok()?;
    if last.get("apiVersion").and_then(Value::as_str) != Some(writer.api_version) {
        return None;
    }
    let mut set = field_set(schema, root, &last).ok()?;
    let comparison = compare(schema, root, &last, live).ok()?;
    set.subtract(&comparison.changed);
    set.subtract(&comparison.removed);
    Some(set)
}

/// Updates the annotation of `object`, if it has one, to the applied configuration.
pub(super) fn keep(object: &mut Value, config: &Value, brand: &Brand) {
    let name = annotation(brand);
    let Some(annotations) = annotations_of(object) else { return };
    if annotations.get(&name).and_then(Value::as_str).is_none_or(str::is_empty) {
        return;
    }
    let mut config = config.clone();
    if let Some(applied) = annotations_of(&mut config) {
        applied.shift_remove(&name);
    }
    let mut text = String::new();
    write_sorted(&config, &mut text);
    text.push('\n');
    annotations.insert(&*name, text.into());
    let bytes: usize =
        annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if bytes > ANNOTATION_BYTES_MAX {
        annotations.shift_remove(&name);
    }
}

fn annotations_of(object: &mut Value) -> Option<&mut Map> {
    object.get_mut("metadata")?.get_mut("annotations")?.as_object_mut()
}

/// JSON with sorted keys, so that the same configuration always gives the same text.
fn write_sorted(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&SmolStr> = map.keys().collect();
            keys.sort();
            out.push('{');
            for (at, key) in keys.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_json_string(key, out);
                out.push(':');
                write_sorted(&map[key], out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_sorted(item, out);
            }
            out.push(']');
        }
        Value::String(text) => write_json_string(text, out),
        Value::Null | Value::Bool(_) | Value::Number(_) => out.push_str(&value.to_string()),
    }
}
