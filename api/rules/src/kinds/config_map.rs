//! core/v1 ConfigMap: keys, size and immutability.

use orch_schema::budget::count_step;
use orch_schema::json;
use orch_schema::value::Value;

use crate::kinds::{Cell, Context, NameRule, Strategy, age, object_meta};
use crate::validate::tree::{Tree, is_unchanged};
use crate::validate::{Distinct, FieldError, FieldErrors, Path, metadata, names};

/// Bytes of all values together.
const SIZE_MAX: usize = 1024 * 1024;
/// The error of a change to an immutable config map or secret.
const IMMUTABLE_SET: &str = "field is immutable when `immutable` is set";

/// The rules of config maps.
#[derive(Debug)]
pub struct ConfigMap;

impl Strategy for ConfigMap {
    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_content(new));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        errors.extend(validate_immutable(old, new, &["data", "binaryData"]));
        errors.extend(object_meta::whole(context, new, true, NameRule::Dns1123Subdomain));
        errors.extend(validate_content(new));
        errors
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        let count = object.entries("data").len() + object.entries("binaryData").len();
        Some(vec![object.at("metadata").at("name").clone(), json!(count), json!(age::age(object, now))])
    }
}

/// Errors of changes to an object with `immutable: true`; shared with secrets.
pub(super) fn validate_immutable(old: &Value, new: &Value, fields: &[&str]) -> FieldErrors {
    if !old.flag("immutable") {
        return FieldErrors::new();
    }
    let mut changed = Vec::new();
    if !new.flag("immutable") {
        changed.push("immutable");
    }
    changed.extend(fields.iter().copied().filter(|field| !is_unchanged(old.at(field), new.at(field))));
    changed.into_iter().map(|field| FieldError::forbidden(Path::new(field), IMMUTABLE_SET)).collect()
}

fn validate_content(map: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut size = 0;
    let (data, binary) = (map.entries("data"), map.entries("binaryData"));
    let in_binary: Distinct<&str> = binary.iter().map(|(key, _)| *key).collect();
    for (key, value) in &data {
        if errors.is_full() || !count_step() {
            break;
        }
        let path = Path::new("data").key(key);
        errors.extend(metadata::invalid_each(&path, key, names::config_key(key)));
        if in_binary.has(key) {
            errors.push(FieldError::invalid_str(path, key, "duplicate of key present in binaryData"));
        }
        size += value.as_str().map_or(0, str::len);
    }
    for (key, value) in &binary {
        if errors.is_full() || !count_step() {
            break;
        }
        errors.extend(metadata::invalid_each(&Path::new("binaryData").key(key), key, names::config_key(key)));
        size += decoded_length(value);
    }
    if size > SIZE_MAX {
        // The error is about the whole object: the reference shows an empty path as `[]`.
        errors.push(FieldError::too_long(Path::new("[]"), SIZE_MAX));
    }
    errors
}

/// Bytes that a base64 value decodes to.
pub(super) fn decoded_length(value: &Value) -> usize {
    let text = value.as_str().unwrap_or_default();
    text.trim_end_matches('=').len() * 3 / 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{check_create, check_update};

    #[test]
    fn keys_and_size() {
        for (map, expected) in [
            (
                json!({"data": {"a": "1", "..a.b": "x"}}),
                &["data[..a.b]: Invalid value: \"..a.b\": must not start with '..'"][..],
            ),
            (
                json!({"data": {"bad key!": "1"}}),
                &[
                    "data[bad key!]: Invalid value: \"bad key!\": a valid config key must consist of alphanumeric \
                   characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for \
                   validation is '[-._a-zA-Z0-9]+')",
                ],
            ),
            (
                json!({"data": {"k": "1"}, "binaryData": {"k": "AA=="}}),
                &["data[k]: Invalid value: \"k\": duplicate of key present in binaryData"],
            ),
            (json!({"data": {"k": "x".repeat(SIZE_MAX)}}), &[]),
            (
                json!({"data": {"k": "x".repeat(SIZE_MAX + 1)}}),
                &["[]: Too long: may not be more than 1048576 bytes"],
            ),
            (json!({"data": ["hostile"], "binaryData": 7}), &[]),
        ] {
            check_create(&ConfigMap, map, expected);
        }
    }

    #[test]
    fn an_immutable_map_keeps_its_content() {
        let old = json!({"immutable": true, "data": {"a": "1"}});
        check_update(
            &ConfigMap,
            old.clone(),
            json!({"immutable": true, "data": {"a": "2"}}),
            &["data: Forbidden: field is immutable when `immutable` is set"],
        );
        check_update(
            &ConfigMap,
            old.clone(),
            json!({"immutable": false, "data": {"a": "1"}}),
            &["immutable: Forbidden: field is immutable when `immutable` is set"],
        );
        check_update(&ConfigMap, old.clone(), old, &[]);
    }
}
