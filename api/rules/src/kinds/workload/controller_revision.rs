//! apps/v1 ControllerRevision: a snapshot of a controller's data, which never changes, under a number that may.

use orch_schema::json;
use orch_schema::value::Value;

use crate::kinds::{Cell, Context, Strategy, age, object_meta};
use crate::validate::metadata::{IMMUTABLE, nonnegative};
use crate::validate::tree::{Tree, shown};
use crate::validate::{FieldError, FieldErrors, Path};

/// The rules of controller revisions.
#[derive(Debug)]
pub struct ControllerRevision;

impl Strategy for ControllerRevision {
    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_revision(new));
        errors.extend(validate_data(new.at("data")));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        errors.extend(validate_revision(new));
        // The data is free JSON, in which null and an empty list say something.
        if new.at("data") != old.at("data") {
            errors.push(FieldError::invalid(Path::new("data"), &shown(new.at("data")), IMMUTABLE));
        }
        errors
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(controller(object.at("metadata"))),
            json!(object.int("revision").unwrap_or(0)),
            json!(age::age(object, now)),
        ])
    }
}

fn validate_revision(revision: &Value) -> Option<FieldError> {
    nonnegative(revision.int("revision"), Path::new("revision"))
}

/// The data of a new revision. Older data that are no object stay as they are.
fn validate_data(data: &Value) -> Option<FieldError> {
    let detail = match data {
        Value::Object(_) => return None,
        Value::Null => "data is mandatory",
        _ => "data must be a valid JSON object",
    };
    Some(FieldError::required(Path::new("data"), detail))
}

/// The controlling owner as `kind.group/name`, in lower case but for the name; `<none>` without one.
fn controller(metadata: &Value) -> String {
    // once: one owner is looked for.
    let Some(owner) = metadata.items("ownerReferences").iter().find(|owner| owner.flag("controller")) else {
        return "<none>".to_owned();
    };
    let kind = owner.text("kind").to_lowercase();
    match owner.text("apiVersion").split_once('/') {
        Some((group, _)) => format!("{kind}.{}/{}", group.to_lowercase(), owner.text("name")),
        None => format!("{kind}/{}", owner.text("name")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{CONTEXT, check_create, check_hostile, check_update, created};

    #[test]
    fn data_is_there_and_stays() {
        check_create(&ControllerRevision, json!({"data": {"a": 1}, "revision": 1}), &[]);
        check_create(
            &ControllerRevision,
            json!({"revision": -1}),
            &[
                "revision: Invalid value: -1: must be greater than or equal to 0",
                "data: Required value: data is mandatory",
            ],
        );
        for data in [json!([]), json!("x"), json!(0), json!(true)] {
            let expected = ["data: Required value: data must be a valid JSON object"];
            check_create(&ControllerRevision, json!({"data": data}), &expected);
            check_update(
                &ControllerRevision,
                json!({"data": data}),
                json!({"data": data, "revision": 1}),
                &[],
            );
        }
        check_update(
            &ControllerRevision,
            json!({"data": {"a": 1}, "revision": 1}),
            json!({"data": {"a": 2}, "revision": 2}),
            &["data: Invalid value: {\"a\":2}: field is immutable"],
        );
        check_hostile(&ControllerRevision);
    }

    #[test]
    fn a_row_names_the_controller() {
        let mut object = created(&ControllerRevision, json!({"data": {}, "revision": 3}));
        let row = |object: &Value| json!(ControllerRevision.table_row(object, CONTEXT.now));
        assert_eq!(row(&object), json!(["n", "<none>", 3, "<unknown>"]));
        object["metadata"]["ownerReferences"] = json!([
            {"kind": "Node", "apiVersion": "v1", "name": "x"},
            {"kind": "DaemonSet", "apiVersion": "apps/v1", "name": "D", "controller": true},
        ]);
        assert_eq!(row(&object)[1], "daemonset.apps/D");
    }
}
