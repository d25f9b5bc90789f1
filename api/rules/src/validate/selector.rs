//! Label selectors in objects: their rules, matching, and their text in tables.
//!
//! Owns `LabelSelector` as it stands inside objects (`matchLabels`, `matchExpressions`); `crate::selector` parses the
//! selectors of list requests.

use orch_schema::budget::Numbered;
use orch_schema::value::Value;

use crate::validate::errors::FieldErrors;
use crate::validate::field::{FieldError, Path};
use crate::validate::metadata::{invalid_each, validate_label_name, validate_labels};
use crate::validate::names;
use crate::validate::tree::{Tree, sorted_entries};

/// Rules for a selector. An absent one is valid: the kind decides whether it is required.
pub fn validate_label_selector(selector: &Value, path: &Path) -> FieldErrors {
    let mut errors = validate_labels(selector.at("matchLabels"), &path.child("matchLabels"));
    let expressions = path.child("matchExpressions");
    for (at, requirement) in selector.items("matchExpressions").iter().numbered() {
        errors.extend(validate_requirement(requirement, &expressions.index(at)));
    }
    errors
}

fn validate_requirement(requirement: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let values = requirement.texts("values");
    match requirement.text("operator") {
        "In" | "NotIn" => {
            if values.is_empty() {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(path.child("values"), detail));
            }
        }
        "Exists" | "DoesNotExist" => {
            if !values.is_empty() {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(path.child("values"), detail));
            }
        }
        other => {
            let detail = "not a valid selector operator";
            errors.push(FieldError::invalid_str(path.child("operator"), other, detail));
        }
    }
    errors.extend(validate_label_name(requirement.text("key"), &path.child("key")));
    for (at, value) in values.into_iter().numbered() {
        errors.extend(invalid_each(&path.child("values").index(at), value, names::label_value(value)));
    }
    errors
}

/// Whether the selector has no requirements, and so selects everything.
pub fn is_empty(selector: &Value) -> bool {
    selector.is_empty_at("matchLabels") && selector.is_empty_at("matchExpressions")
}

/// Whether a valid selector selects an object with these labels. An absent selector selects nothing. A selector that is
/// asked about many objects is parsed once instead, by [`LabelSelector::of_field`](crate::selector::LabelSelector::of_field).
pub fn selects(selector: &Value, labels: &Value) -> bool {
    if !selector.is_object() {
        return false;
    }
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    let by_label = selector
        .entries("matchLabels")
        .into_iter()
        .all(|(key, value)| label(key).is_some_and(|label| value == label));
    let expressions = selector.items("matchExpressions").iter();
    by_label && expressions.into_iter().all(|requirement| meets(requirement, label(requirement.text("key"))))
}

fn meets(requirement: &Value, label: Option<&str>) -> bool {
    // once: each requirement of a selector is asked about one label.
    let listed = |value: &str| requirement.texts("values").contains(&value);
    match requirement.text("operator") {
        "In" => label.is_some_and(listed),
        "NotIn" => !label.is_some_and(listed),
        "Exists" => label.is_some(),
        "DoesNotExist" => label.is_none(),
        _ => false,
    }
}

/// The selector in the one-line form of tables: `a=b,c in (d,e)`; `<none>` without requirements.
pub fn format_label_selector(selector: &Value) -> String {
    let text = format_requirements(selector);
    if text.is_empty() { "<none>".to_owned() } else { text }
}

/// The requirements of the selector in the form that list requests parse; empty without any.
pub fn format_requirements(selector: &Value) -> String {
    let mut terms: Vec<(String, String)> = sorted_entries(selector.at("matchLabels"))
        .into_iter()
        .map(|(key, value)| (key.to_owned(), format!("{key}={}", value.as_str().unwrap_or_default())))
        .collect();
    for requirement in selector.items("matchExpressions") {
        let key = requirement.text("key");
        let mut values = requirement.texts("values");
        values.sort_unstable();
        let term = match requirement.text("operator") {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        terms.push((key.to_owned(), term));
    }
    terms.sort_by(|a, b| a.0.cmp(&b.0));
    let terms: Vec<String> = terms.into_iter().map(|term| term.1).collect();
    terms.join(",")
}

#[cfg(test)]
mod tests {

    use orch_schema::json;

    use super::*;
    use crate::selector::LabelSelector;

    #[test]
    fn requirements_fit_their_operator() {
        for (requirement, expected) in [
            (json!({"key": "a", "operator": "In", "values": ["b"]}), ""),
            (json!({"key": "a", "operator": "Exists"}), ""),
            (
                json!({"key": "a", "operator": "In"}),
                "s.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            ),
            (
                json!({"key": "a", "operator": "Exists", "values": ["b"]}),
                "s.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or \
                 'DoesNotExist'",
            ),
            (
                json!({"key": "a", "operator": "Near"}),
                "s.matchExpressions[0].operator: Invalid value: \"Near\": not a valid selector operator",
            ),
        ] {
            let errors =
                validate_label_selector(&json!({"matchExpressions": [requirement]}), &Path::new("s"));
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(texts.join("; "), expected);
        }
    }

    #[test]
    fn selection() {
        let labels = json!({"a": "b", "n": "1"});
        for (selector, expected) in [
            (json!({}), true),
            (json!(null), false),
            (json!({"matchLabels": {"a": "b"}}), true),
            (json!({"matchLabels": {"a": "c"}}), false),
            (json!({"matchExpressions": [{"key": "n", "operator": "In", "values": ["1", "2"]}]}), true),
            (json!({"matchExpressions": [{"key": "x", "operator": "NotIn", "values": ["1"]}]}), true),
            (json!({"matchExpressions": [{"key": "x", "operator": "Exists"}]}), false),
            (json!({"matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]}), true),
            (json!({"matchExpressions": [{"key": "n", "operator": "Near"}]}), false),
            (
                json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}),
                false,
            ),
            (json!({"matchExpressions": [{"key": "n", "operator": "In", "values": ["2", "1"]}]}), true),
        ] {
            assert_eq!(selects(&selector, &labels), expected, "{selector}");
            let sorted = [("a", "b"), ("n", "1")].map(|(key, value)| (key.to_owned(), value.to_owned()));
            let parsed = LabelSelector::of_field(&selector);
            assert_eq!(parsed.is_some_and(|parsed| parsed.matches(&sorted[..])), expected, "{selector}");
        }
    }

    #[test]
    fn selectors_have_a_form_of_one_line() {
        let selector = json!({
            "matchLabels": {"b": "2", "a": "1"},
            "matchExpressions": [{"key": "c", "operator": "In", "values": ["y", "x"]}]
        });
        assert_eq!(format_label_selector(&selector), "a=1,b=2,c in (x,y)");
        assert_eq!(format_label_selector(&json!({})), "<none>");
    }
}
