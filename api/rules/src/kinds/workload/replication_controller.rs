//! core/v1 ReplicationController: a replica set whose selector is a map of labels, taken from the template by default.

use orch_schema::value::Value;

use crate::Action;
use crate::kinds::pod::warnings::warn_about_pod;
use crate::kinds::workload::replica_set::{replicas_row, validate_status};
use crate::kinds::workload::{
    default_template, validate_counts, validate_keeps_running, validate_template, warn_about_workload,
};
use crate::kinds::{Cell, Context, NameRule, Strategy, object_meta, value_at};
use crate::validate::tree::{Tree, child_mut, existing_mut, set, set_default, shown_map};
use crate::validate::{FieldError, FieldErrors, Path};

/// The rules of replication controllers.
#[derive(Debug)]
pub struct ReplicationController;

impl Strategy for ReplicationController {
    fn default(&self, context: &Context<'_>, new: &mut Value) {
        let labels = new.at("spec").at("template").at("metadata").at("labels").clone();
        let has_labels = labels.is_object();
        if has_labels && new.at("metadata").is_empty_at("labels") {
            set(child_mut(new, "metadata"), "labels", labels.clone());
        }
        let spec = child_mut(new, "spec");
        if has_labels && spec.is_empty_at("selector") {
            set(spec, "selector", labels);
        }
        set_default(spec, "replicas", 1);
        if existing_mut(spec, "template").is_some() {
            default_template(context, spec);
        }
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
        if context.action == Action::Status {
            let mut errors = object_meta::on_update(context, old, new);
            errors.extend(validate_status(new.at("status"), &Path::new("status")));
            return errors;
        }
        // The reference checks the whole object and then the change, each with the spec.
        let mut errors = object_meta::whole(context, new, true, NameRule::Dns1123Subdomain);
        let spec = validate_spec(context, new.at("spec"), &Path::new("spec"));
        errors.extend(spec.clone());
        errors.extend(object_meta::on_update(context, old, new));
        errors.extend(spec);
        errors
    }

    // As in the reference, a change is warned about with the template that it replaces.
    fn warnings(&self, context: &Context<'_>, old: Option<&Value>, new: &Value) -> Vec<String> {
        match old {
            None => warn_about_workload(context, None, new),
            Some(old) if object_meta::is_new_generation(Some(old), new) => {
                warn_about_pod(context, old.at("spec").at("template"), &Path::new("spec").child("template"))
            }
            Some(_) => Vec::new(),
        }
    }

    fn field_value(&self, object: &Value, name: &str) -> String {
        match name {
            "status.replicas" => object.at("status").int("replicas").unwrap_or(0).to_string(),
            name => value_at(object, name),
        }
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        Some(replicas_row(object, now, format_labels(object.at("spec").at("selector"))))
    }
}

/// Labels in the one-line form of tables: `a=1,b=2`; `<none>` without labels.
pub(crate) fn format_labels(labels: &Value) -> String {
    let entries = crate::validate::tree::sorted_entries(labels);
    if entries.is_empty() {
        return "<none>".to_owned();
    }
    let term = |(key, value): (&str, &Value)| format!("{key}={}", value.as_str().unwrap_or_default());
    let mut terms: Vec<String> = entries.into_iter().map(term).collect();
    // In the order of the terms: `a-b=1` stands before `a=2`.
    terms.sort_unstable();
    terms.join(",")
}

fn validate_spec(context: &Context<'_>, spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = validate_counts(spec, &["minReadySeconds"], path);
    if spec.is_empty_at("selector") {
        errors.push(FieldError::required(path.child("selector"), ""));
    }
    errors.extend(validate_counts(spec, &["replicas"], path));
    let (template, template_path) = (spec.at("template"), path.child("template"));
    if template.is_null() {
        errors.push(FieldError::required(template_path, ""));
        return errors;
    }
    let labels = template.at("metadata").at("labels");
    let selects = spec.entries("selector").into_iter().all(|(key, value)| labels.get(key) == Some(value));
    if !selects {
        let detail = "`selector` does not match template `labels`";
        let path = template_path.child("metadata").child("labels");
        errors.push(FieldError::invalid(path, &shown_map(labels), detail));
    }
    errors.extend(validate_template(context, template, &template_path));
    errors.extend(validate_keeps_running(spec, "ReplicationController", path));
    errors
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;
    use crate::kinds::testing::{CONTEXT, check_create, check_hostile, check_update, created};

    fn controller(mut spec: Value) -> Value {
        let pod = json!({"containers": [{"name": "c", "image": "i"}]});
        set_default(&mut spec, "template", json!({"metadata": {"labels": {"a": "b"}}, "spec": pod}));
        json!({"spec": spec})
    }

    #[test]
    fn labels_of_the_template_are_the_selector_and_the_labels() {
        let object = created(&ReplicationController, controller(json!({})));
        assert_eq!(object["spec"]["selector"], json!({"a": "b"}));
        assert_eq!(object["metadata"]["labels"], json!({"a": "b"}));
        assert_eq!((&object["spec"]["replicas"], &object["metadata"]["generation"]), (&json!(1), &json!(1)));
        assert_eq!(
            json!(ReplicationController.table_row(&object, CONTEXT.now)),
            json!(["n", 1, 0, 0, "<unknown>", "c", "i", "a=b"])
        );
        check_hostile(&ReplicationController);
    }

    #[test]
    fn a_controller_selects_the_pods_of_its_template() {
        check_create(&ReplicationController, controller(json!({})), &[]);
        check_create(
            &ReplicationController,
            json!({"spec": {"replicas": -1}}),
            &[
                "spec.selector: Required value",
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                "spec.template: Required value",
            ],
        );
        check_create(
            &ReplicationController,
            controller(json!({"selector": {"x": "y"}})),
            &[
                "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`",
            ],
        );
    }

    #[test]
    fn a_change_is_warned_about_with_the_template_that_it_replaces() {
        let with_period = |period: i64, generation: i64| {
            let mut object = created(&ReplicationController, controller(json!({})));
            object["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = json!(period);
            object["metadata"]["generation"] = json!(generation);
            object
        };
        let (bad, good) = (with_period(-1, 1), with_period(1, 2));
        let warned =
            |old: Option<&Value>, new: &Value| ReplicationController.warnings(&CONTEXT, old, new).len();
        assert_eq!((warned(None, &bad), warned(None, &good)), (1, 0));
        assert_eq!(
            (warned(Some(&bad), &good), warned(Some(&good), &bad), warned(Some(&bad), &bad)),
            (1, 0, 0)
        );
    }

    #[test]
    fn an_update_repeats_the_errors_of_the_spec() {
        let error = "spec.replicas: Invalid value: -1: must be greater than or equal to 0";
        check_update(
            &ReplicationController,
            controller(json!({})),
            controller(json!({"replicas": -1})),
            &[error, error],
        );
    }
}
