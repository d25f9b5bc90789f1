//! Writes YAML in the form that the reference writes: members in order of names, items of lists at the indentation of
//! their key, texts plain where they cannot be taken for another value.

use serde_json::Value;

use super::yaml::parse_yaml;
use super::{Document, Node};

/// The YAML text of `value`.
pub(crate) fn to_yaml(value: &Value) -> String {
    let mut text = String::new();
    match value {
        Value::Object(members) if !members.is_empty() => object(members, 0, &mut text),
        Value::Array(items) if !items.is_empty() => list(items, 0, &mut text),
        other => {
            text.push_str(&inline(other));
            text.push('\n');
        }
    }
    text
}

fn object(members: &serde_json::Map<String, Value>, depth: usize, text: &mut String) {
    let mut members: Vec<_> = members.iter().collect();
    members.sort_by_key(|(name, _)| name.as_str());
    for (at, (name, value)) in members.into_iter().enumerate() {
        // The first member of an item stands on the line of its hyphen.
        if at > 0 || !text.ends_with("- ") {
            text.push_str(&"  ".repeat(depth));
        }
        text.push_str(&scalar(name));
        text.push(':');
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                text.push('\n');
                object(inner, depth + 1, text);
            }
            Value::Array(items) if !items.is_empty() => {
                text.push('\n');
                list(items, depth, text);
            }
            other => {
                text.push(' ');
                text.push_str(&inline(other));
                text.push('\n');
            }
        }
    }
}

fn list(items: &[Value], depth: usize, text: &mut String) {
    for (at, item) in items.iter().enumerate() {
        if at > 0 || !text.ends_with("- ") {
            text.push_str(&"  ".repeat(depth));
        }
        text.push_str("- ");
        match item {
            Value::Object(members) if !members.is_empty() => object(members, depth + 1, text),
            Value::Array(inner) if !inner.is_empty() => list(inner, depth + 1, text),
            other => {
                text.push_str(&inline(other));
                text.push('\n');
            }
        }
    }
}

fn inline(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => scalar(text),
        Value::Array(_) => "[]".to_owned(),
        Value::Object(_) => "{}".to_owned(),
    }
}

/// A text plain, or in double quotes where a reader would take the plain text for anything else.
fn scalar(text: &str) -> String {
    let reads_back = |written: &str| {
        let document = format!("a: {written}\n");
        matches!(parse_yaml(&document), Ok(Document { root: Node::Object(members), .. })
            if members.len() == 1 && members[0].1 == Node::Text(text.to_owned()))
    };
    let is_simple = !text.contains(['\n', '\r', '\t', '"']) && text == text.trim();
    if is_simple && reads_back(text) {
        return text.to_owned();
    }
    serde_json::to_string(text).expect("a text is JSON")
}
