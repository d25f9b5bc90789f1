//! Compares a response with the expected one and describes the differences.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Characters of a value in a difference.
const SHOWN_CHARS_MAX: usize = 220;

/// The differences as text; empty for a match.
pub(super) fn differences(want: &Value, got: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if want["status"] == "4xx" {
        // The reference failed with 500 on bad input: any 4xx Status with a message is right.
        if !is_clear_client_error(got) {
            found.push(format!("status: got {}, want a 4xx Status with a message", got["status"]));
        }
        return found;
    }
    compare("", want, got, &mut found);
    found
}

fn is_clear_client_error(got: &Value) -> bool {
    let status = got["status"].as_u64().unwrap_or_default();
    let message = got["body"]["message"].as_str().unwrap_or_default();
    (400..500).contains(&status) && got["body"]["kind"] == "Status" && !message.is_empty()
}

fn compare(path: &str, want: &Value, got: &Value, found: &mut Vec<String>) {
    match (want, got) {
        (Value::String(text), _) if text == "<any>" => {}
        (Value::String(text), _) if text == "<ip>" || text == "<nodeport>" => {
            if !is_allotted(text, got) {
                found.push(format!("{path}: got {}, want {text}", shown(got)));
            }
        }
        (Value::String(text), Value::String(other)) if text.contains("<text>") && has_texts(text, other) => {}
        (Value::Object(fields), Value::Array(items))
            if fields.len() == 1 && fields.contains_key("$unordered") =>
        {
            let sorted = |items: &[Value]| {
                let mut items = items.to_vec();
                items.sort_by_cached_key(order);
                Value::Array(items)
            };
            let wanted = fields["$unordered"].as_array().map(Vec::as_slice).unwrap_or_default();
            compare(path, &sorted(wanted), &sorted(items), found);
        }
        (Value::String(text), Value::String(other)) if is_placeholder(text) && !other.is_empty() => {}
        (Value::Object(want), Value::Object(got)) => compare_objects(path, want, got, found),
        (Value::Array(wanted), Value::Array(items)) => {
            if wanted.len() != items.len() {
                let (count, expected) = (items.len(), wanted.len());
                found.push(format!("{path}: {count} entries, want {expected}: got {}", shown(got)));
                return;
            }
            for (place, (want, got)) in wanted.iter().zip(items).enumerate() {
                compare(&format!("{path}[{place}]"), want, got, found);
            }
        }
        (want, got) if want == got => {}
        (want, got) => found.push(format!("{path}: got {}, want {}", shown(got), shown(want))),
    }
}

fn compare_objects(path: &str, want: &Map<String, Value>, got: &Map<String, Value>, found: &mut Vec<String>) {
    let names: BTreeSet<&String> = want.keys().chain(got.keys()).collect();
    for name in names {
        let inner = format!("{path}.{name}");
        match (want.get(name), got.get(name)) {
            (Some(want), Some(got)) => compare(&inner, want, got, found),
            (Some(want), None) => found.push(format!("{inner}: missing, want {}", shown(want))),
            (None, Some(got)) => found.push(format!("{inner}: not expected, got {}", shown(got))),
            (None, None) => {}
        }
    }
}

/// Whether `got` is an address, or a node port, of the ranges that the scenarios were recorded with.
fn is_allotted(placeholder: &str, got: &Value) -> bool {
    match placeholder {
        "<ip>" => {
            let last = got.as_str().and_then(|text| text.strip_prefix("10.0.0."));
            last.is_some_and(|last| !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()))
        }
        _ => got.as_u64().is_some_and(|port| (30_000..=32_767).contains(&port)),
    }
}

/// Whether `got` is `want` with some text in the place of each `<text>`.
fn has_texts(want: &str, got: &str) -> bool {
    let parts: Vec<String> = want.split("<text>").map(regex::escape).collect();
    let pattern = regex::Regex::new(&format!("(?s)^{}$", parts.join(".+")));
    pattern.is_ok_and(|pattern| pattern.is_match(got))
}

/// The key by which lists in any order are compared: an entry's own fields that are no lists or objects.
fn order(entry: &Value) -> String {
    let Value::Object(fields) = entry else { return entry.to_string() };
    let plain = fields.iter().filter(|(_, field)| !field.is_object() && !field.is_array());
    let plain: std::collections::BTreeMap<&String, &Value> = plain.collect();
    serde_json::to_string(&plain).unwrap_or_default()
}

/// `<uid>`, `<time>` and the like match any text that is not empty.
fn is_placeholder(text: &str) -> bool {
    let inner = text.strip_prefix('<').and_then(|rest| rest.strip_suffix('>')).unwrap_or_default();
    !inner.is_empty() && inner.bytes().all(|byte| byte.is_ascii_lowercase())
}

fn shown(value: &Value) -> String {
    format!("{:.SHOWN_CHARS_MAX$}", value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(want: Value, got: Value, count: usize) {
        let found = differences(&want, &got);
        assert_eq!(found.len(), count, "{found:?}");
    }

    #[test]
    fn placeholders_match_any_text_but_none() {
        check(json!({"a": "<uid>"}), json!({"a": "x"}), 0);
        check(json!({"a": "<uid>"}), json!({"a": ""}), 1);
        check(json!({"a": "<uid>"}), json!({"a": 1}), 1);
        check(json!({"a": "<any>"}), json!({"a": [1]}), 0);
        check(json!({"a": "<Uid>"}), json!({"a": "x"}), 1);
    }

    #[test]
    fn allotted_values_are_in_range_and_lists_may_be_in_any_order() {
        check(json!(["<ip>", "<nodeport>"]), json!(["10.0.0.7", 30_000]), 0);
        check(json!(["<ip>", "<nodeport>"]), json!(["10.1.0.7", "30000"]), 2);
        check(json!("a<text>c"), json!("abbc"), 0);
        check(json!("a<text>c"), json!("ac"), 1);
        let entry = |name: &str, more: u8| json!({"name": name, "more": [more]});
        check(
            json!({"$unordered": [entry("a", 1), entry("b", 2)]}),
            json!([entry("b", 2), entry("a", 1)]),
            0,
        );
        check(
            json!({"$unordered": [entry("a", 1), entry("b", 2)]}),
            json!([entry("b", 1), entry("a", 1)]),
            1,
        );
    }

    #[test]
    fn fields_and_entries_missing_or_too_many_differ() {
        check(json!({"a": 1}), json!({}), 1);
        check(json!({}), json!({"a": null}), 1);
        check(json!({"a": [1, 2]}), json!({"a": [1]}), 1);
        check(json!({"a": [1, 2]}), json!({"a": [1, 3]}), 1);
        check(json!({"a": 1}), json!({"a": 1.0}), 1);
        check(json!({"a": true}), json!({"a": 1}), 1);
    }

    #[test]
    fn where_the_reference_failed_any_clear_client_error_will_do() {
        let status = |code, message| json!({"status": code, "body": {"kind": "Status", "message": message}});
        check(json!({"status": "4xx"}), status(422, "no"), 0);
        check(json!({"status": "4xx"}), status(422, ""), 1);
        check(json!({"status": "4xx"}), status(500, "no"), 1);
    }
}
