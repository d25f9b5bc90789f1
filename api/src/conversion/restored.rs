//! Judges one object that another server has converted, and gives it the metadata of the original.
//!
//! Owns what a conversion may change: spec, status and other members of the object, its labels and its annotations. A change of
//! kind, name, namespace or uid is a fault, told in the reference's words; other changes of the metadata have no effect.
//!
//! Invariant: an object leaves with the metadata that it was sent with, but for labels and annotations.

use orch_rules::validate::FieldErrors;
use orch_rules::validate::field::Path;
use orch_rules::validate::metadata::{validate_annotations, validate_labels};
use orch_rules::validate::tree::Tree;
use orch_schema::value::{Map, Value};

/// The fault of a converted object, without its beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It names no kind. The text has no beginning.
    Untyped(String),
    /// It is of another type than was asked for.
    Type(String),
    /// It is another object than the one that was sent.
    Identity(String),
    /// Its labels or annotations are none.
    Metadata(String),
}

/// The type that an object is converted to.
#[derive(Clone, Copy)]
pub(super) struct Expected<'a> {
    /// `GROUP/VERSION`.
    pub(super) api_version: &'a str,
    pub(super) kind: &'a str,
}

/// `converted`, which a server has answered for an object with the metadata `original`, without the members that tell its type, and
/// with that metadata.
pub(super) fn restored(expected: Expected<'_>, original: Value, converted: Value) -> Result<Value, Fault> {
    if converted.is_object() && converted.text("kind").is_empty() {
        return Err(Fault::Untyped(format!("Object 'Kind' is missing in '{converted}'")));
    }
    let Value::Object(mut converted) = converted else {
        return Err(Fault::Type("it is no object".to_owned()));
    };
    check_type(expected, &converted)?;
    #[cfg(any(test, feature = "simulation"))]
    if super::planted::has(super::ConversionBug::TrustsAnswers) {
        converted.shift_remove("apiVersion");
        converted.shift_remove("kind");
        return Ok(Value::Object(converted));
    }
    check_identity(&original, converted.get("metadata").unwrap_or(&Value::Null))?;
    converted.shift_remove("apiVersion");
    converted.shift_remove("kind");
    let told = converted.get_mut("metadata").map(Value::take);
    let metadata = restored_metadata(original, told).map_err(Fault::Metadata)?;
    converted.insert("metadata", metadata);
    Ok(Value::Object(converted))
}

fn check_type(expected: Expected<'_>, converted: &Map) -> Result<(), Fault> {
    let text = |name: &str| converted.get(name).and_then(Value::as_str).unwrap_or_default();
    let Expected { api_version, kind } = expected;
    if text("apiVersion") != api_version {
        let received = text("apiVersion");
        let told = format!("invalid groupVersion (expected {api_version}, received {received})");
        return Err(Fault::Type(told));
    }
    if text("kind") != kind {
        let received = text("kind");
        return Err(Fault::Type(format!("invalid kind (expected {kind}, received {received})")));
    }
    Ok(())
}

fn check_identity(original: &Value, converted: &Value) -> Result<(), Fault> {
    for (field, shown) in [("name", "name"), ("namespace", "namespace"), ("uid", "UID")] {
        let (before, after) = (original.text(field), converted.text(field));
        if before != after {
            return Err(Fault::Identity(format!("must have the same {shown}: {before} != {after}")));
        }
    }
    Ok(())
}

/// A rule for all labels or annotations of an object.
type Rule = fn(&Value, &Path) -> FieldErrors;

/// The members that a conversion may change, each with the name by which its refusals call it and its rule.
const CHANGEABLE: [(&str, &str, Rule); 2] =
    [("labels", "labels", validate_labels), ("annotations", "annotation", validate_annotations)];

/// The metadata `original` with the labels and annotations of `told`.
fn restored_metadata(original: Value, told: Option<Value>) -> Result<Value, String> {
    let mut told = match told {
        None => return Err("missing metadata in converted object".to_owned()),
        Some(Value::Object(told)) => told,
        Some(other) => {
            return Err(format!("invalid metadata of type {} in converted object", type_of(&other)));
        }
    };
    let mut metadata = match original {
        Value::Object(metadata) => metadata,
        _ => Map::new(),
    };
    for (field, called, validate) in CHANGEABLE {
        let new = match told.get_mut(field).map(Value::take) {
            None | Some(Value::Null) => {
                metadata.shift_remove(field);
                continue;
            }
            Some(new) => new,
        };
        check_texts(field, &new)?;
        if metadata.get(field) != Some(&new) {
            let errors = validate(&new, &Path::new("metadata").child(called));
            aggregated(errors)?;
        }
        metadata.insert(field, new);
    }
    Ok(Value::Object(metadata))
}

/// Labels and annotations are texts by texts.
fn check_texts(field: &str, new: &Value) -> Result<(), String> {
    let Some(entries) = new.as_object() else {
        return Err(format!("invalid metadata.{field} of type {} in converted object", type_of(new)));
    };
    match entries.iter().find(|(_, value)| !value.is_string()) {
        None => Ok(()),
        Some((key, value)) => {
            let of = type_of(value);
            Err(format!("metadata.{field}[{key}] must be a string, but is {of} in converted object"))
        }
    }
}

/// The errors as one: alone as it is, else a list.
fn aggregated(errors: FieldErrors) -> Result<(), String> {
    let mut texts: Vec<String> = errors.into_iter().map(|error| error.to_string()).collect();
    match texts.len() {
        0 => Ok(()),
        1 => Err(texts.remove(0)),
        _ => Err(format!("[{}]", texts.join(", "))),
    }
}

/// The name of the type of a decoded value in the reference's language, which is part of its texts.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    const EXPECTED: Expected<'static> = Expected { api_version: "g.example.com/v2", kind: "Widget" };

    fn original() -> Value {
        json!({"metadata": {"name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7", "labels": {"l": "1"},
            "finalizers": ["x.example.com/y"]}, "spec": {"size": 1}})
    }

    /// The original as a server answers it, in the other version.
    fn answered() -> Value {
        let mut answered = original();
        answered["apiVersion"] = json!("g.example.com/v2");
        answered["kind"] = json!("Widget");
        answered["spec"] = json!({"replicas": 1});
        answered
    }

    fn outcome(change: impl FnOnce(&mut Value)) -> Result<Value, Fault> {
        let mut answered = answered();
        change(&mut answered);
        restored(EXPECTED, original()["metadata"].clone(), answered)
    }

    #[test]
    fn all_but_labels_and_annotations_is_the_originals() {
        let expected = json!({"metadata": original()["metadata"].clone(), "spec": {"replicas": 1}});
        assert_eq!(outcome(|_| {}), Ok(expected.clone()));
        let changed = outcome(|object| {
            object["metadata"]["finalizers"] = json!([]);
            object["metadata"]["resourceVersion"] = json!("9");
            object["metadata"]["generation"] = json!(9);
        });
        assert_eq!(changed, Ok(expected.clone()));
        let labelled = outcome(|object| {
            object["metadata"]["labels"] = json!({"l": "2"});
            object["metadata"]["annotations"] = json!({"added": "yes"});
        });
        let labelled = labelled.unwrap();
        assert_eq!(
            (&labelled["metadata"]["labels"], &labelled["metadata"]["annotations"]),
            (&json!({"l": "2"}), &json!({"added": "yes"}))
        );
        for gone in [json!(null), json!({})] {
            let mut shown = outcome(|object| object["metadata"]["labels"] = gone.clone()).unwrap();
            let labels = shown["metadata"].as_object_mut().unwrap().shift_remove("labels");
            assert_eq!(labels, (!gone.is_null()).then_some(gone));
        }
    }

    #[test]
    fn an_object_of_another_type_or_identity_is_refused_in_the_references_words() {
        let refused = |field: &str, value: Value| outcome(|object| object[field] = value).unwrap_err();
        let other = |field: &str, value: &str| outcome(|object| object["metadata"][field] = json!(value));
        let of_type = |text: &str| Fault::Type(text.to_owned());
        let of_identity = |text: &str| Err(Fault::Identity(text.to_owned()));
        assert_eq!(
            refused("apiVersion", json!("g.example.com/v3")),
            of_type("invalid groupVersion (expected g.example.com/v2, received g.example.com/v3)")
        );
        assert_eq!(
            refused("kind", json!("Gadget")),
            of_type("invalid kind (expected Widget, received Gadget)")
        );
        for none in [json!(7), json!(""), json!(null)] {
            let Fault::Untyped(text) = refused("kind", none) else { panic!("it is of no kind") };
            assert!(text.starts_with("Object 'Kind' is missing in '{\"") && text.ends_with("}'"), "{text}");
        }
        assert_eq!(
            restored(EXPECTED, original()["metadata"].clone(), json!(7)).unwrap_err(),
            of_type("it is no object")
        );
        assert_eq!(other("name", "b"), of_identity("must have the same name: a != b"));
        assert_eq!(other("namespace", "b"), of_identity("must have the same namespace: ns != b"));
        assert_eq!(other("uid", "b"), of_identity("must have the same UID: u != b"));
        let lacking = outcome(|object| object["metadata"] = json!("text"));
        assert_eq!(lacking, of_identity("must have the same name: a != "));
    }

    #[test]
    fn metadata_that_is_none_is_refused_in_the_references_words() {
        let nameless = |metadata: Value| {
            let answered = json!({"apiVersion": "g.example.com/v2", "kind": "Widget", "metadata": metadata});
            restored(EXPECTED, json!({}), answered)
        };
        let wrong = |text: &str| Err(Fault::Metadata(text.to_owned()));
        assert_eq!(nameless(json!([])), wrong("invalid metadata of type []interface {} in converted object"));
        let missing = json!({"apiVersion": "g.example.com/v2", "kind": "Widget"});
        let missing = restored(EXPECTED, json!({}), missing);
        assert_eq!(missing, wrong("missing metadata in converted object"));
        for (labels, expected) in [
            (json!("x"), "invalid metadata.labels of type string in converted object"),
            (json!({"k": 1}), "metadata.labels[k] must be a string, but is int64 in converted object"),
            (json!({"k": 1.5}), "metadata.labels[k] must be a string, but is float64 in converted object"),
            (json!({"k": null}), "metadata.labels[k] must be a string, but is <nil> in converted object"),
            (json!({"k": true}), "metadata.labels[k] must be a string, but is bool in converted object"),
            (
                json!({"k": {}}),
                "metadata.labels[k] must be a string, but is map[string]interface {} in converted object",
            ),
        ] {
            let refused = outcome(|object| object["metadata"]["labels"] = labels);
            assert_eq!(refused, wrong(expected));
        }
    }

    #[test]
    fn labels_are_checked_where_they_changed() {
        let Err(Fault::Metadata(text)) = outcome(|object| object["metadata"]["labels"] = json!({"l": "a b"}))
        else {
            panic!("a label with a space passed");
        };
        assert!(text.starts_with("metadata.labels: Invalid value: \"a b\": "), "{text}");
        let Err(Fault::Metadata(text)) =
            outcome(|object| object["metadata"]["labels"] = json!({"-": "a", "+": "b"}))
        else {
            panic!("two names that are none passed");
        };
        assert!(text.starts_with("[metadata.labels: Invalid value") && text.ends_with(']'), "{text}");
        let Err(Fault::Metadata(text)) =
            outcome(|object| object["metadata"]["annotations"] = json!({"": "a"}))
        else {
            panic!("an annotation without a name passed");
        };
        assert!(text.contains("metadata.annotation: Invalid value"), "{text}");
        // Old ones that would be refused today stay.
        let mut before = original();
        before["metadata"]["labels"] = json!({"l": "a b"});
        let mut same = answered();
        same["metadata"]["labels"] = json!({"l": "a b"});
        assert!(restored(EXPECTED, before["metadata"].clone(), same).is_ok());
    }
}
