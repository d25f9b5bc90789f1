//! apps/v1 Deployment.

use orch_schema::excerpt::part;
use orch_schema::json;
use orch_schema::value::Value;

use crate::Action;
use crate::kinds::workload::{
    amount, container_images, container_names, default_template, number_or_percent, parse_int,
    validate_at_most, validate_collisions, validate_counts, validate_same_selector,
    validate_selected_template, validate_selector, warn_about_workload, within_hundred_percent,
};
use crate::kinds::{Cell, Context, Strategy, age, object_meta};
use crate::validate::selector::format_label_selector;
use crate::validate::tree::{Tree, child_mut, set_default, set_default_text, shown};
use crate::validate::{FieldError, FieldErrors, Path};

/// The annotation with the revision to go back to, which is no field any more.
const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";

/// The rules of deployments.
#[derive(Debug)]
pub struct Deployment;

impl Strategy for Deployment {
    fn unreadable(&self, object: &Value) -> Option<String> {
        let revision = object.at("metadata").at("annotations").text(ROLLBACK_TO);
        let fault = (!revision.is_empty()).then(|| parse_int(revision).err()).flatten()?;
        Some(format!("failed to parse annotation[{ROLLBACK_TO}]={} as int64: {fault}", part(revision)))
    }

    fn default(&self, context: &Context<'_>, new: &mut Value) {
        let spec = child_mut(new, "spec");
        set_default(spec, "replicas", 1);
        let strategy = child_mut(spec, "strategy");
        set_default_text(strategy, "type", "RollingUpdate");
        if strategy.text("type") == "RollingUpdate" {
            let rolling = child_mut(strategy, "rollingUpdate");
            set_default(rolling, "maxUnavailable", "25%");
            set_default(rolling, "maxSurge", "25%");
        }
        set_default(spec, "revisionHistoryLimit", 10);
        set_default(spec, "progressDeadlineSeconds", 600);
        default_template(context, spec);
    }

    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        object_meta::start_spec_and_status(new);
    }

    fn prepare_for_update(&self, context: &Context<'_>, old: &Value, new: &mut Value) {
        object_meta::separate_status(context, old, new, &["spec"]);
        if context.action == Action::Status {
            object_meta::keep_metadata(old, new, "labels");
            return;
        }
        let noted = |object: &Value| json!({"annotations": object.at("metadata").at("annotations")});
        if crate::validate::tree::is_unchanged(&noted(old), &noted(new)) {
            object_meta::raise_generation(old, new, &["spec"]);
        } else {
            object_meta::next_generation(old, new);
        }
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
            errors.extend(validate_collisions(old, new));
            return errors;
        }
        errors.extend(validate_spec(context, new.at("spec"), &Path::new("spec")));
        errors.extend(validate_same_selector(old, new));
        errors
    }

    fn warnings(&self, context: &Context<'_>, old: Option<&Value>, new: &Value) -> Vec<String> {
        warn_about_workload(context, old, new)
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        let (spec, status) = (object.at("spec"), object.at("status"));
        let count = |field: &str| status.int(field).unwrap_or(0);
        let pod = spec.at("template").at("spec");
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(format!("{}/{}", count("readyReplicas"), spec.int("replicas").unwrap_or(0))),
            json!(count("updatedReplicas")),
            json!(count("availableReplicas")),
            json!(age::age(object, now)),
            container_names(pod),
            container_images(pod),
            json!(format_label_selector(spec.at("selector"))),
        ])
    }
}

fn validate_spec(context: &Context<'_>, spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = validate_counts(spec, &["replicas"], path);
    errors.extend(validate_selector(spec, "deployment", path));
    errors.extend(validate_selected_template(context, spec, spec.at("template"), "ReplicaSet", path));
    errors.extend(validate_strategy(spec.at("strategy"), &path.child("strategy")));
    errors.extend(validate_counts(spec, &["minReadySeconds", "revisionHistoryLimit"], path));
    if let Some(deadline) = spec.int("progressDeadlineSeconds") {
        errors.extend(validate_counts(spec, &["progressDeadlineSeconds"], path));
        if deadline <= spec.int("minReadySeconds").unwrap_or(0) {
            let path = path.child("progressDeadlineSeconds");
            errors.push(FieldError::invalid(
                path,
                &deadline.to_string(),
                "must be greater than minReadySeconds",
            ));
        }
    }
    errors
}

fn validate_strategy(strategy: &Value, path: &Path) -> FieldErrors {
    let rolling_path = path.child("rollingUpdate");
    match strategy.text("type") {
        "Recreate" if strategy.has("rollingUpdate") => {
            let detail = "may not be specified when strategy `type` is 'Recreate'";
            FieldErrors::from(FieldError::forbidden(rolling_path, detail))
        }
        "Recreate" => FieldErrors::new(),
        "RollingUpdate" => validate_rolling(strategy.at("rollingUpdate"), &rolling_path),
        _ => {
            let known = ["Recreate", "RollingUpdate"];
            FieldErrors::from(FieldError::not_supported_value(path.clone(), &shown(strategy), &known))
        }
    }
}

fn validate_rolling(rolling: &Value, path: &Path) -> FieldErrors {
    let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
    let unavailable_path = path.child("maxUnavailable");
    let mut errors = number_or_percent(unavailable, &unavailable_path);
    errors.extend(number_or_percent(surge, &path.child("maxSurge")));
    if amount(unavailable) == 0 && amount(surge) == 0 {
        let detail = "may not be 0 when `maxSurge` is 0";
        errors.push(FieldError::invalid(unavailable_path.clone(), &shown(unavailable), detail));
    }
    errors.extend(within_hundred_percent(unavailable, &unavailable_path));
    errors
}

fn validate_status(status: &Value, path: &Path) -> FieldErrors {
    let fields = [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ];
    let mut errors = validate_counts(status, &fields, path);
    let parts = ["updatedReplicas", "readyReplicas", "availableReplicas"];
    errors.extend(validate_at_most(status, &parts, "replicas", path));
    errors.extend(validate_at_most(status, &["availableReplicas"], "readyReplicas", path));
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{
        CONTEXT, check_create, check_hostile, check_update, check_update_in, created, updated,
    };
    use crate::validate::tree::set;

    fn deployment(mut spec: Value) -> Value {
        set_default(&mut spec, "selector", json!({"matchLabels": {"a": "b"}}));
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        set_default(&mut spec, "template", template);
        json!({"spec": spec})
    }

    #[test]
    fn defaults_are_those_recorded() {
        let deployment = created(&Deployment, deployment(json!({})));
        let spec = &deployment["spec"];
        assert_eq!(
            spec["strategy"],
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}})
        );
        assert_eq!(
            (&spec["replicas"], &spec["revisionHistoryLimit"], &spec["progressDeadlineSeconds"]),
            (&json!(1), &json!(10), &json!(600))
        );
        assert_eq!(
            spec["template"]["spec"],
            json!({
                "containers": [{
                    "name": "c", "image": "i", "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File", "imagePullPolicy": "Always"
                }],
                "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
                "securityContext": {}, "schedulerName": "default-scheduler"
            })
        );
        assert_eq!(
            json!(Deployment.table_row(&deployment, CONTEXT.now)),
            json!(["n", "0/1", 0, 0, "<unknown>", "c", "i", "a=b"])
        );
    }

    #[test]
    fn an_empty_spec_misses_three_things() {
        check_create(
            &Deployment,
            json!({"spec": {}}),
            &[
                "spec.selector: Required value",
                "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
                "spec.template.spec.containers: Required value",
            ],
        );
        check_hostile(&Deployment);
    }

    #[test]
    fn numbers_and_strategies() {
        for (spec, expected) in [
            (
                json!({"replicas": -1}),
                &["spec.replicas: Invalid value: -1: must be greater than or equal to 0"][..],
            ),
            (
                json!({"minReadySeconds": 600}),
                &["spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds"],
            ),
            (
                json!({"strategy": {"type": "Recreate", "rollingUpdate": {}}}),
                &[
                    "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
                ],
            ),
            (
                json!({"strategy": {"type": "Slow"}}),
                &["spec.strategy: Unsupported value: {\"type\":\"Slow\"}: supported values: \"Recreate\", \
                     \"RollingUpdate\""],
            ),
            (
                json!({"strategy": {"rollingUpdate": {"maxUnavailable": 0, "maxSurge": "0%"}}}),
                &[
                    "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
                ],
            ),
            (
                json!({"selector": {}}),
                &["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
            ),
        ] {
            check_create(&Deployment, deployment(spec), expected);
        }
    }

    #[test]
    fn the_selector_stays() {
        check_update(
            &Deployment,
            deployment(json!({})),
            deployment(json!({"selector": {"matchLabels": {"a": "c"}}})),
            &[
                "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`",
                "spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"c\"}}: field is immutable",
            ],
        );
    }

    #[test]
    fn the_generation_follows_spec_and_annotations() {
        let old = created(&Deployment, deployment(json!({})));
        let generation =
            |new: Value| updated(&Deployment, Action::Object, &old, new)["metadata"]["generation"].clone();
        let mut same = deployment(json!({}));
        set(&mut same, "metadata", json!({"generation": 1}));
        assert_eq!(generation(same.clone()), 1);
        assert_eq!(generation(deployment(json!({"replicas": 2}))), 2);
        set(&mut same, "metadata", json!({"generation": 1, "annotations": {"a": "b"}}));
        assert_eq!(generation(same), 2);
    }

    #[test]
    fn status_counts_add_up() {
        let context = Context { action: Action::Status, ..CONTEXT };
        let mut new = deployment(json!({}));
        let counts =
            json!({"replicas": 1, "readyReplicas": 2, "availableReplicas": 1, "terminatingReplicas": -1});
        set(&mut new, "status", counts);
        check_update_in(
            &context,
            &Deployment,
            deployment(json!({})),
            new,
            &[
                "status.terminatingReplicas: Invalid value: -1: must be greater than or equal to 0",
                "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
            ],
        );
    }
}
