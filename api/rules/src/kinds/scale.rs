//! autoscaling/v1 Scale: the number of replicas of an object, read and written through its sub-resource `scale`.
//!
//! Owns the conversion between the object and its scale, by the paths that the kind's message states. A Scale is never
//! stored. It names no kind.

use orch_schema::json;
use orch_schema::value::Value;
use orch_schema::{Column, ScalePaths};

use super::{Cell, Context, NameRule, Strategy, age};
use crate::validate::metadata::nonnegative;
use crate::validate::selector::format_requirements;
use crate::validate::tree::{Tree, child_mut, object_mut, set, sorted_entries};
use crate::validate::{FieldErrors, Path, validate_object_meta};

/// The fields of the object's metadata that its scale has, too.
const METADATA: [&str; 5] = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];

/// The rules of scales. Tables show those of declared kinds as they show their objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// The scale of a built-in kind.
    BuiltIn,
    /// The scale of a declared kind.
    Declared,
}

impl Strategy for Scale {
    fn validate_create(&self, _context: &Context<'_>, new: &Value) -> FieldErrors {
        let path = Path::new("metadata");
        let mut errors = validate_object_meta(new.at("metadata"), true, NameRule::Dns1123Subdomain, &path);
        let replicas = new.at("spec").int("replicas");
        errors.extend(nonnegative(replicas, Path::new("spec").child("replicas")));
        errors
    }

    fn columns(&self) -> Vec<Column> {
        let column = |name: &str, kind: &str, format: &str, description: &str| Column {
            name: name.to_owned(),
            kind: kind.to_owned(),
            format: format.to_owned(),
            description: description.to_owned(),
            priority: 0,
            path: String::new(),
        };
        let (format, age) = match self {
            Scale::BuiltIn => ("", "string"),
            Scale::Declared => ("name", "date"),
        };
        vec![
            column("Name", "string", format, "Name of the scaled object."),
            column("Desired", "integer", "", "Number of replicas that are wanted."),
            column("Available", "integer", "", "Number of replicas that were observed."),
            column("Age", age, "", "Time since the object was created."),
        ]
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        let replicas = |of: &str| json!(object.at(of).int("replicas").unwrap_or(0));
        // A column of a declared kind reads the document, which says no number of replicas where none are wanted.
        let is_unsaid = *self == Scale::Declared && object.at("spec").int("replicas").unwrap_or(0) == 0;
        Some(vec![
            object.at("metadata").at("name").clone(),
            if is_unsaid { Value::Null } else { replicas("spec") },
            replicas("status"),
            json!(age::age(object, now)),
        ])
    }
}

/// The scale of `object`, without managed fields.
pub fn scale_of(object: &Value, paths: &ScalePaths) -> Value {
    let (stored, mut metadata) = (object.at("metadata"), json!({}));
    for field in METADATA.into_iter().filter(|field| stored.has(field)) {
        set(&mut metadata, field, stored.at(field).clone());
    }
    let replicas = |path: &[String]| field_at(object, path).as_i64().unwrap_or(0);
    let mut spec = json!({});
    let wanted = replicas(&paths.spec_replicas);
    if wanted != 0 {
        set(&mut spec, "replicas", wanted);
    }
    let mut status = json!({"replicas": replicas(&paths.status_replicas)});
    let selector = selector_text(field_at(object, &paths.selector));
    if !selector.is_empty() {
        set(&mut status, "selector", selector);
    }
    json!({"metadata": metadata, "spec": spec, "status": status})
}

/// Sets the wanted number of replicas of `object` to that of `scale`.
pub fn set_replicas(object: &mut Value, scale: &Value, paths: &ScalePaths) {
    let Some((last, steps)) = paths.spec_replicas.split_last() else { return };
    let mut holder = object;
    for step in steps {
        holder = child_mut(holder, step);
    }
    object_mut(holder);
    set(holder, last, scale.at("spec").int("replicas").unwrap_or(0));
}

/// The field at `path`; null where there is none.
pub fn field_at<'v>(object: &'v Value, path: &[String]) -> &'v Value {
    path.iter().fold(object, |value, step| value.at(step))
}

/// A selector in the form that list requests parse: of a label selector, a map of labels, or a text. Empty without one.
fn selector_text(selector: &Value) -> String {
    if let Some(text) = selector.as_str() {
        return text.to_owned();
    }
    // A map of labels has texts alone; the members of a label selector are a map and a list.
    let is_label_selector =
        selector.at("matchLabels").is_object() || selector.at("matchExpressions").is_array();
    if is_label_selector {
        return format_requirements(selector);
    }
    let labels = sorted_entries(selector).into_iter();
    let terms = labels.filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)));
    terms.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{CONTEXT, check_hostile};

    fn paths(selector: &str) -> ScalePaths {
        let steps = |path: &str| path.split('.').map(str::to_owned).collect();
        ScalePaths {
            spec_replicas: steps("spec.replicas"),
            status_replicas: steps("status.replicas"),
            selector: steps(selector),
        }
    }

    #[test]
    fn a_scale_shows_numbers_and_the_selector_whatever_its_form() {
        let of = |spec: Value, status: Value| {
            scale_of(&json!({"spec": spec, "status": status}), &paths("spec.selector"))
        };
        for (selector, text) in [
            (json!({"matchLabels": {"b": "2", "a": "1"}}), "a=1,b=2"),
            (json!({"matchExpressions": [{"key": "a", "operator": "Exists"}]}), "a"),
            (json!({"b": "2", "a": "1"}), "a=1,b=2"),
            (json!({"matchLabels": "x"}), "matchLabels=x"),
            (json!("a in (x,y)"), "a in (x,y)"),
            (json!({}), ""),
            (json!(null), ""),
        ] {
            let scale = of(json!({"replicas": 3, "selector": selector}), json!({"replicas": 2}));
            assert_eq!(scale.at("spec"), &json!({"replicas": 3}));
            assert_eq!(
                (scale.at("status").int("replicas"), scale.at("status").text("selector")),
                (Some(2), text)
            );
        }
        assert_eq!(of(json!({"replicas": 0}), json!({})).at("spec"), &json!({}));
        check_hostile(&Scale::BuiltIn);
        check_hostile(&Scale::Declared);
    }

    #[test]
    fn replicas_are_written_where_the_kind_has_them_and_are_not_negative() {
        let deep = ScalePaths { spec_replicas: vec!["spec".to_owned(), "size".to_owned()], ..paths("x") };
        let mut object = json!({"spec": {"other": 1}});
        set_replicas(&mut object, &json!({"spec": {"replicas": 4}}), &deep);
        assert_eq!(object, json!({"spec": {"other": 1, "size": 4}}));
        set_replicas(&mut object, &json!({}), &deep);
        assert_eq!(object.at("spec").int("size"), Some(0));
        let negative = json!({"metadata": {"name": "d", "namespace": "n"}, "spec": {"replicas": -1}});
        let told: Vec<String> =
            Scale::BuiltIn.validate_create(&CONTEXT, &negative).iter().map(ToString::to_string).collect();
        assert_eq!(told, ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]);
    }

    #[test]
    fn a_table_shows_the_scale_of_a_declared_kind_as_its_columns_would() {
        let row = |scale: Scale, replicas: i64| {
            let object =
                json!({"metadata": {"name": "a"}, "spec": {"replicas": replicas}, "status": {"replicas": 0}});
            scale.table_row(&object, "2026-01-02T03:04:05Z").unwrap()
        };
        assert_eq!(row(Scale::BuiltIn, 0)[..3], [json!("a"), json!(0), json!(0)]);
        assert_eq!(row(Scale::Declared, 0)[..3], [json!("a"), json!(null), json!(0)]);
        assert_eq!(row(Scale::Declared, 3)[..3], [json!("a"), json!(3), json!(0)]);
        let told = |scale: Scale| {
            let columns =
                scale.columns().into_iter().map(|column| [column.name, column.kind, column.format].join(" "));
            columns.collect::<Vec<_>>().join(", ")
        };
        assert_eq!(told(Scale::BuiltIn), "Name string , Desired integer , Available integer , Age string ");
        assert_eq!(
            told(Scale::Declared),
            "Name string name, Desired integer , Available integer , Age date "
        );
    }
}
