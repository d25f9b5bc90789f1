//! Replaces values that differ from run to run by placeholders: versions, times, uids, generated names, tokens.
//!
//! The reference's responses were normalized alike when they were recorded; everything else is compared.

use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use regex::Regex;
use serde_json::{Map, Value, json};

use super::envelope;

/// Fields that hold a time.
const TIME_FIELDS: [&str; 9] = [
    "creationTimestamp",
    "deletionTimestamp",
    "time",
    "lastTransitionTime",
    "lastUpdateTime",
    "lastHeartbeatTime",
    "lastProbeTime",
    "startTime",
    "expirationTimestamp",
];

/// Names shorter than this are not generated, and too short to be replaced inside a message.
const GENERATED_NAME_CHARS_MIN: usize = 6;

macro_rules! pattern {
    ($name:ident, $text:expr) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new($text).expect("the pattern is valid"));
    };
}

pattern!(TIME, r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?Z$");
pattern!(UID, r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}");
pattern!(VERSION_IN_MESSAGE, r"(current: |in record \()[0-9]+");
pattern!(VERSION_IN_TEXT, r#"resourceVersion: "[0-9]+""#);
// Days, too: a scenario with a fixed time was recorded when that was 322 days ago.
pattern!(AGE, r"^([0-9]+(s|m|ms|d)|<invalid>|<unknown>)$");
// The volume in which a pod finds its token.
pattern!(TOKEN_VOLUME, r"\b(\w+-api-access)-[a-z0-9]{5}\b");
// The wording of a decoder's errors is not part of the interface: any text is right there.
pattern!(
    WORDING,
    concat!(
        r"unmarshal|Go struct|Go value|invalid character|unexpected end|couldn.t get version|yaml: |illegal base64",
        r"|strconv|parsing time|cannot parse|converting|proto: |illegal tag|wrong wireType|unexpected EOF|&user\.",
        r#"|legacyscheme|StorageError|\[\]string\{|map\[|&value\.|impersonate-on|"APIGroup""#
    )
);

/// `value` with placeholders. `key` is the field that holds it, directly or through arrays.
pub(super) fn normalize(value: Value, key: Option<&str>) -> Value {
    match value {
        Value::Object(fields) => object(fields),
        Value::Array(items) => Value::Array(items.into_iter().map(|item| normalize(item, key)).collect()),
        Value::String(text) => Value::String(string(text, key)),
        other => other,
    }
}

fn object(fields: Map<String, Value>) -> Value {
    if let Some(encoded) = fields.get("$base64").and_then(Value::as_str) {
        return envelope::describe(&STANDARD.decode(encoded).unwrap_or_default());
    }
    let mut out = Map::new();
    for (name, value) in fields {
        let value = field(&name, value);
        out.insert(name, value);
    }
    if is_generated(&out) {
        out.insert("name".into(), json!("<generated>"));
    }
    if let Some(Value::Array(causes)) = out.get_mut("causes") {
        causes.sort_by_cached_key(canonical);
    }
    let out = Value::Object(out);
    if out["kind"] == "Status" && out.to_string().contains("metadata.generateName") {
        return without_generated_name(out);
    }
    out
}

fn field(name: &str, value: Value) -> Value {
    let text = value.as_str().unwrap_or_default();
    match name {
        "resourceVersion" if !text.is_empty() && text != "0" => json!("<rv>"),
        "continue" if !is_empty(&value) => json!("<continue>"),
        "keys" if is_key_set(&value) => json!("<keys>"),
        "id_token_signing_alg_values_supported" => json!("<algorithms>"),
        "token" if text.matches('.').count() == 2 => json!("<token>"),
        name if TIME_FIELDS.contains(&name) && TIME.is_match(text) => json!("<time>"),
        name => normalize(value, Some(name)),
    }
}

/// Whether the value is a list of JSON Web Keys.
fn is_key_set(value: &Value) -> bool {
    let keys = value.as_array().map(Vec::as_slice).unwrap_or_default();
    keys.iter().any(|key| ["kid", "kty", "alg", "use"].iter().all(|name| key.get(name).is_some()))
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

fn is_generated(fields: &Map<String, Value>) -> bool {
    let (Some(Value::String(prefix)), Some(Value::String(name))) =
        (fields.get("generateName"), fields.get("name"))
    else {
        return false;
    };
    name.starts_with(prefix.as_str()) && name != prefix
}

fn string(text: String, key: Option<&str>) -> String {
    let is_text = matches!(key, Some("message" | "$text"));
    // The causes, which are compared, contain the parts of such a message, in any order.
    if is_text && WORDING.is_match(&text) || key == Some("message") && text.contains(" is invalid: [") {
        return "<text>".into();
    }
    let text = UID.replace_all(&text, "<uid>");
    let text = TOKEN_VOLUME.replace_all(&text, "${1}-<generated>").into_owned();
    match key {
        Some("message") => VERSION_IN_MESSAGE.replace_all(&text, "${1}<rv>").into_owned(),
        Some("$text") => VERSION_IN_TEXT.replace_all(&text, "resourceVersion: \"<rv>\"").into_owned(),
        Some("cells") if AGE.is_match(&text) => "<age>".into(),
        Some("cells") if TIME.is_match(&text) => "<time>".into(),
        _ => text,
    }
}

/// Replaces a generated name, which is random, in the texts of a Status.
fn without_generated_name(status: Value) -> Value {
    let name = status["details"]["name"].as_str().unwrap_or_default();
    if name.chars().count() < GENERATED_NAME_CHARS_MIN {
        return status;
    }
    let text = status.to_string().replace(name, "<generated>");
    serde_json::from_str(&text).unwrap_or(status)
}

/// A text form that does not depend on the order of fields.
pub(super) fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut names: Vec<_> = fields.iter().collect();
            names.sort_by_key(|(name, _)| *name);
            let fields: Vec<_> = names
                .into_iter()
                .map(|(name, value)| format!("{}: {}", json!(name), canonical(value)))
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
        Value::Array(items) => {
            let items: Vec<_> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: Value, want: Value) {
        assert_eq!(normalize(value, None), want);
    }

    #[test]
    fn versions_times_and_uids_become_placeholders() {
        check(
            json!({"metadata": {"resourceVersion": "17", "uid": "0a1b2c3d-0000-1111-2222-0123456789ab",
                "creationTimestamp": "2024-01-02T03:04:05Z", "name": "x"}}),
            json!({"metadata": {"resourceVersion": "<rv>", "uid": "<uid>", "creationTimestamp": "<time>",
                "name": "x"}}),
        );
        check(
            json!({"resourceVersion": "0", "continue": ""}),
            json!({"resourceVersion": "0", "continue": ""}),
        );
        check(
            json!({"cells": ["a", "7s", "2024-01-02T03:04:05Z"]}),
            json!({"cells": ["a", "<age>", "<time>"]}),
        );
    }

    #[test]
    fn a_decoders_wording_is_any_text() {
        check(json!({"message": "invalid character 'x'"}), json!({"message": "<text>"}));
        check(json!({"message": "Role \"x\" is invalid: [a, b]"}), json!({"message": "<text>"}));
        check(json!({"message": "current: 17"}), json!({"message": "current: <rv>"}));
    }

    #[test]
    fn generated_names_are_replaced_where_their_prefix_shows() {
        check(
            json!({"generateName": "a-", "name": "a-x7"}),
            json!({"generateName": "a-", "name": "<generated>"}),
        );
        check(json!({"generateName": "a-", "name": "b"}), json!({"generateName": "a-", "name": "b"}));
        check(
            json!({"kind": "Status", "message": "a-x7k2p: metadata.generateName", "details": {"name": "a-x7k2p"}}),
            json!({"kind": "Status", "message": "<generated>: metadata.generateName",
                "details": {"name": "<generated>"}}),
        );
    }

    #[test]
    fn causes_are_compared_in_one_order() {
        let (one, two) = (json!({"field": "a"}), json!({"field": "b"}));
        check(json!({"causes": [two, one]}), json!({"causes": [one, two]}));
    }
}
