//! Resources as aggregated servers tell of them, checked before they are remembered.
//!
//! Owns which members an item of aggregated discovery may have, of which type and length. Items of all servers stand in the documents
//! that each client reads first, and clients decode them into types: one text in the place of a list would make every group unreadable.
//! Members that are not known are left out; those that clients of the reference always find are there, empty where the server leaves them out.

use orch_rules::validate::tree::Tree;
use orch_schema::value::{Map, Value};

/// Bytes of a name: names of resources have 63 at most, groups 253.
const TEXT_BYTES_MAX: usize = 256;

/// Names in one list: there are a dozen verbs, and kinds have a few short names and categories.
const TEXTS_MAX: usize = 32;

/// Sub-resources of one resource: the most that a built-in kind has is ten.
const SUBRESOURCES_MAX: usize = 64;

/// The fault of a description.
pub(crate) type Fault = &'static str;

/// `item`, a resource in the form of aggregated discovery, with the members that clients read.
///
/// # Errors
/// A member is of another type, too long, or missing where it is the name.
pub(super) fn checked(item: &Value) -> Result<Value, Fault> {
    let mut found = Map::new();
    put_name(&mut found, item, "resource")?;
    match item.at("scope") {
        Value::Null => drop(found.insert("scope", Value::from(""))),
        Value::String(scope) if matches!(scope.as_str(), "" | "Namespaced" | "Cluster") => {
            found.insert("scope", item.at("scope").clone());
        }
        _ => return Err("a scope is neither Namespaced nor Cluster"),
    }
    found.insert("responseKind", kind(item.at("responseKind"))?);
    put_text(&mut found, item, "singularResource")?;
    put_verbs(&mut found, item)?;
    for field in ["shortNames", "categories"] {
        put_texts(&mut found, item, field)?;
    }
    match item.at("subresources") {
        Value::Null => {}
        Value::Array(parts) if parts.len() <= SUBRESOURCES_MAX => {
            let parts: Result<Vec<Value>, Fault> = parts.iter().map(checked_part).collect();
            found.insert("subresources", Value::Array(parts?));
        }
        _ => return Err("sub-resources are no list, or too many"),
    }
    Ok(Value::Object(found))
}

/// A sub-resource, likewise.
fn checked_part(part: &Value) -> Result<Value, Fault> {
    let mut found = Map::new();
    put_name(&mut found, part, "subresource")?;
    found.insert("responseKind", kind(part.at("responseKind"))?);
    match part.at("acceptedTypes") {
        Value::Null => {}
        Value::Array(kinds) if kinds.len() <= TEXTS_MAX => {
            let kinds: Result<Vec<Value>, Fault> = kinds.iter().map(kind).collect();
            found.insert("acceptedTypes", Value::Array(kinds?));
        }
        _ => return Err("accepted types are no list, or too many"),
    }
    put_verbs(&mut found, part)?;
    Ok(Value::Object(found))
}

/// Copies a name, which is a segment of a path.
fn put_name(found: &mut Map, from: &Value, field: &str) -> Result<(), Fault> {
    let name = from.text(field);
    if matches!(name, "" | "." | "..") || name.contains(['/', '%', '\\']) {
        return Err("a resource has no name, or one that is no segment of a path");
    }
    put_text(found, from, field)
}

/// A kind; one that is left out has no names.
fn kind(value: &Value) -> Result<Value, Fault> {
    if !(value.is_object() || value.is_null()) {
        return Err("a kind is no object");
    }
    let mut found = Map::new();
    for field in ["group", "version", "kind"] {
        put_text(&mut found, value, field)?;
    }
    Ok(Value::Object(found))
}

fn put_text(found: &mut Map, from: &Value, field: &str) -> Result<(), Fault> {
    let value = match from.at(field) {
        Value::Null => Value::from(""),
        value => value.clone(),
    };
    check_text(&value)?;
    found.insert(field, value);
    Ok(())
}

/// Copies the verbs: null where there are none, as in the reference.
fn put_verbs(found: &mut Map, from: &Value) -> Result<(), Fault> {
    found.insert("verbs", Value::Null);
    put_texts(found, from, "verbs")
}

fn put_texts(found: &mut Map, from: &Value, field: &str) -> Result<(), Fault> {
    match from.at(field) {
        Value::Null => Ok(()),
        list @ Value::Array(texts) if texts.len() <= TEXTS_MAX => {
            texts.iter().try_for_each(check_text)?;
            found.insert(field, list.clone());
            Ok(())
        }
        _ => Err("verbs, short names or categories are no list, or too many"),
    }
}

fn check_text(value: &Value) -> Result<(), Fault> {
    match value.as_str() {
        Some(text) if text.len() <= TEXT_BYTES_MAX && !text.contains(char::is_control) => Ok(()),
        _ => Err("a name is no text, or too long"),
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    #[test]
    fn members_of_the_form_are_kept_and_others_left_out() {
        let kind = json!({"group": "a.example.com", "version": "v1", "kind": "Thing"});
        let part = json!({
            "subresource": "scale", "responseKind": kind.clone(), "acceptedTypes": [kind.clone()], "verbs": ["get"],
        });
        let item = json!({
            "resource": "things", "scope": "Cluster", "responseKind": kind, "singularResource": "thing",
            "verbs": ["get", "list"], "shortNames": ["th"], "categories": ["all"], "subresources": [part],
        });
        assert_eq!(checked(&item), Ok(item.clone()));
        let mut more = item.clone();
        more["extra"] = json!({"deep": [[[[1]]]]});
        assert_eq!(checked(&more), Ok(item));
        let nothing = json!({"group": "", "version": "", "kind": ""});
        let bare = json!({"resource": "things", "subresources": [{"subresource": "status"}]});
        let part = json!({"subresource": "status", "responseKind": nothing.clone(), "verbs": null});
        let whole = json!({
            "resource": "things", "responseKind": nothing, "scope": "", "singularResource": "", "verbs": null,
            "subresources": [part],
        });
        assert_eq!(checked(&bare), Ok(whole), "members that clients always find are there");
        let named = json!({"resource": "things", "responseKind": {"kind": "Thing"}});
        let kind = json!({"group": "", "version": "", "kind": "Thing"});
        assert_eq!(checked(&named).unwrap()["responseKind"], kind);
    }

    #[test]
    fn an_item_that_clients_cannot_decode_is_refused() {
        let long = "x".repeat(TEXT_BYTES_MAX + 1);
        let many: Vec<Value> = vec![json!("get"); TEXTS_MAX + 1];
        let parts: Vec<Value> = vec![json!({"subresource": "s"}); SUBRESOURCES_MAX + 1];
        for more in [
            json!({"resource": 7}),
            json!({"resource": ""}),
            json!({"resource": ".."}),
            json!({"resource": "a/b"}),
            json!({"resource": "a%2e"}),
            json!({"resource": "a\nb"}),
            json!({"resource": long}),
            json!({"scope": "Everywhere"}),
            json!({"scope": 1}),
            json!({"responseKind": "Thing"}),
            json!({"responseKind": {"kind": ["Thing"]}}),
            json!({"singularResource": {}}),
            json!({"verbs": "get"}),
            json!({"verbs": ["get", 1]}),
            json!({"verbs": many}),
            json!({"shortNames": {"a": "b"}}),
            json!({"categories": [null]}),
            json!({"subresources": {}}),
            json!({"subresources": [{}]}),
            json!({"subresources": ["status"]}),
            json!({"subresources": [{"subresource": "s", "verbs": 1}]}),
            json!({"subresources": [{"subresource": "s", "acceptedTypes": [1]}]}),
            json!({"subresources": parts}),
        ] {
            let mut item = json!({"resource": "things"});
            for (name, value) in more.as_object().unwrap().iter() {
                item[name.as_str()] = value.clone();
            }
            assert!(checked(&item).is_err(), "{more}");
        }
        assert!(checked(&Value::Null).is_err() && checked(&json!("things")).is_err());
    }
}
