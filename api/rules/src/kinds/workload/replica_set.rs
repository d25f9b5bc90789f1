//! apps/v1 ReplicaSet.

use orch_schema::json;
use orch_schema::value::Value;

use crate::Action;
use crate::kinds::workload::{
    container_images, container_names, default_template, validate_at_most, validate_counts,
    validate_same_selector, validate_selected_template, validate_selector, warn_about_workload,
};
use crate::kinds::{Cell, Context, Strategy, age, object_meta, value_at};
use crate::validate::selector::format_label_selector;
use crate::validate::tree::{Tree, child_mut, set_default};
use crate::validate::{FieldErrors, Path};

/// The rules of replica sets.
#[derive(Debug)]
pub struct ReplicaSet;

impl Strategy for ReplicaSet {
    fn default(&self, context: &Context<'_>, new: &mut Value) {
        let spec = child_mut(new, "spec");
        set_default(spec, "replicas", 1);
        default_template(context, spec);
    }

    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        object_meta::start_spec_and_status(new);
    }

    fn prepare_for_update(&self, context: &Context<'_>, old: &Value, new: &mut Value) {
        object_meta::update_spec_or_status(context, old, new);
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_spec(context, new.at("spec"), &Path::new("spec")));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        if context.action == Action::Status {
            errors.extend(validate_status(new.at("status"), &Path::new("status")));
            return errors;
        }
        errors.extend(validate_spec(context, new.at("spec"), &Path::new("spec")));
        errors.extend(validate_same_selector(old, new));
        errors
    }

    fn warnings(&self, context: &Context<'_>, old: Option<&Value>, new: &Value) -> Vec<String> {
        warn_about_workload(context, old, new)
    }

    fn field_value(&self, object: &Value, name: &str) -> String {
        match name {
            "status.replicas" => object.at("status").int("replicas").unwrap_or(0).to_string(),
            name => value_at(object, name),
        }
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(replicas_row(object, now, format_label_selector(object.at("spec").at("selector"))))
    }
}

/// The table row of a replica set or replication controller, whose selector is shown as `selector`.
pub(super) fn replicas_row(object: &Value, now: &str, selector: String) -> Vec<Cell> {
    let (spec, status) = (object.at("spec"), object.at("status"));
    let pod = spec.at("template").at("spec");
    vec![
        object.at("metadata").at("name").clone(),
        json!(spec.int("replicas").unwrap_or(0)),
        json!(status.int("replicas").unwrap_or(0)),
        json!(status.int("readyReplicas").unwrap_or(0)),
        json!(age::age(object, now)),
        container_names(pod),
        container_images(pod),
        json!(selector),
    ]
}

fn validate_spec(context: &Context<'_>, spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = validate_counts(spec, &["replicas", "minReadySeconds"], path);
    // The reference says `deployment` in this message, too.
    errors.extend(validate_selector(spec, "deployment", path));
    errors.extend(validate_selected_template(context, spec, spec.at("template"), "ReplicaSet", path));
    errors
}

/// Rules for the counts in the status of a replica set or replication controller.
pub(super) fn validate_status(status: &Value, path: &Path) -> FieldErrors {
    let fields = [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ];
    let mut errors = validate_counts(status, &fields, path);
    errors.extend(validate_at_most(status, &fields[1..4], "replicas", path));
    errors.extend(validate_at_most(status, &["availableReplicas"], "readyReplicas", path));
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{CONTEXT, check_create, check_hostile, check_update_in, created};
    use crate::validate::tree::set;

    #[test]
    fn a_replica_set_keeps_its_pods() {
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let object = json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
        check_create(&ReplicaSet, object.clone(), &[]);
        let object = created(&ReplicaSet, object);
        assert_eq!(
            json!(ReplicaSet.table_row(&object, CONTEXT.now)),
            json!(["n", 1, 0, 0, "<unknown>", "c", "i", "a=b"])
        );
        let context = Context { action: Action::Status, ..CONTEXT };
        let mut counted = object.clone();
        set(&mut counted, "status", json!({"replicas": 1, "readyReplicas": 2, "terminatingReplicas": -1}));
        check_update_in(
            &context,
            &ReplicaSet,
            object.clone(),
            counted,
            &[
                "status.terminatingReplicas: Invalid value: -1: must be greater than or equal to 0",
                "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
            ],
        );
        let mut never = object;
        set(
            child_mut(child_mut(child_mut(&mut never, "spec"), "template"), "spec"),
            "restartPolicy",
            "Never",
        );
        check_create(
            &ReplicaSet,
            never,
            &["spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\""],
        );
        check_hostile(&ReplicaSet);
    }
}
