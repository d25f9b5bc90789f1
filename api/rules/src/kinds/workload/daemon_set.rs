//! apps/v1 DaemonSet.

use orch_schema::json;
use orch_schema::value::Value;

use crate::Action;
use crate::kinds::workload::{
    amount, container_images, container_names, default_template, format_labels, number_or_percent, parse_int,
    validate_collisions, validate_counts, validate_keeps_running, validate_match, validate_same_selector,
    validate_template, warn_about_spec, within_hundred_percent,
};
use crate::kinds::{Cell, Context, Strategy, age, object_meta};
use crate::validate::selector::{self, format_label_selector, validate_label_selector};
use crate::validate::tree::{Tree, child_mut, is_unchanged, set, set_default, set_default_text, shown};
use crate::validate::{FieldError, FieldErrors, Path};

/// The annotation with the generation of the template, which is no field any more.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// The rules of daemon sets.
#[derive(Debug)]
pub struct DaemonSet;

impl Strategy for DaemonSet {
    fn unreadable(&self, object: &Value) -> Option<String> {
        let annotations = object.at("metadata").at("annotations");
        annotations.at(TEMPLATE_GENERATION).as_str().and_then(|text| parse_int(text).err())
    }

    fn default(&self, context: &Context<'_>, new: &mut Value) {
        let spec = child_mut(new, "spec");
        let strategy = child_mut(spec, "updateStrategy");
        set_default_text(strategy, "type", "RollingUpdate");
        if strategy.text("type") == "RollingUpdate" {
            let rolling = child_mut(strategy, "rollingUpdate");
            set_default(rolling, "maxUnavailable", 1);
            set_default(rolling, "maxSurge", 0);
        }
        set_default(spec, "revisionHistoryLimit", 10);
        default_template(context, spec);
        // The reference writes the annotation whenever it decodes an object, so that a manager that applies an object
        // without it owns it.
        let generation = template_generation(new);
        set_template_generation(new, generation);
    }

    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        object_meta::start_spec_and_status(new);
        let generation = template_generation(new).max(1);
        set_template_generation(new, generation);
    }

    fn prepare_for_update(&self, context: &Context<'_>, old: &Value, new: &mut Value) {
        object_meta::separate_status(context, old, new, &["spec"]);
        let before = template_generation(old);
        if context.action == Action::Status {
            set_template_generation(new, before);
            return;
        }
        let changed = !is_unchanged(old.at("spec").at("template"), new.at("spec").at("template"));
        set_template_generation(new, if changed { before.saturating_add(1) } else { before });
        object_meta::raise_generation(old, new, &["spec"]);
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_spec(context, new.at("spec"), &Path::new("spec")));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        if context.action == Action::Status {
            let fields = [
                "currentNumberScheduled",
                "numberMisscheduled",
                "desiredNumberScheduled",
                "numberReady",
                "observedGeneration",
                "updatedNumberScheduled",
                "numberAvailable",
                "numberUnavailable",
                "collisionCount",
            ];
            errors.extend(validate_counts(new.at("status"), &fields, &Path::new("status")));
            errors.extend(validate_collisions(old, new));
            return errors;
        }
        errors.extend(validate_spec(context, new.at("spec"), &Path::new("spec")));
        errors.extend(validate_same_selector(old, new));
        errors
    }

    fn warnings(&self, context: &Context<'_>, old: Option<&Value>, new: &Value) -> Vec<String> {
        warn_about_spec(context, old, new)
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        let (spec, status) = (object.at("spec"), object.at("status"));
        let pod = spec.at("template").at("spec");
        let mut row = vec![object.at("metadata").at("name").clone()];
        let counts = [
            "desiredNumberScheduled",
            "currentNumberScheduled",
            "numberReady",
            "updatedNumberScheduled",
            "numberAvailable",
        ];
        row.extend(counts.into_iter().map(|field| json!(status.int(field).unwrap_or(0))));
        row.extend([
            json!(format_labels(pod.at("nodeSelector"))),
            json!(age::age(object, now)),
            container_names(pod),
            container_images(pod),
            json!(format_label_selector(spec.at("selector"))),
        ]);
        Some(row)
    }
}

fn template_generation(set: &Value) -> i64 {
    set.at("metadata").at("annotations").text(TEMPLATE_GENERATION).parse().unwrap_or(0)
}

fn set_template_generation(object: &mut Value, generation: i64) {
    let annotations = child_mut(child_mut(object, "metadata"), "annotations");
    set(annotations, TEMPLATE_GENERATION, generation.to_string());
}

fn validate_spec(context: &Context<'_>, spec: &Value, path: &Path) -> FieldErrors {
    let chosen = spec.at("selector");
    let mut errors = validate_label_selector(chosen, &path.child("selector"));
    errors.extend(validate_match(spec, path));
    if !chosen.is_null() && selector::is_empty(chosen) {
        let detail = "empty selector is invalid for daemonset";
        errors.push(FieldError::invalid(path.child("selector"), &shown(chosen), detail));
    }
    errors.extend(validate_template(context, spec.at("template"), &path.child("template")));
    errors.extend(validate_keeps_running(spec, "DaemonSet", path));
    errors.extend(validate_counts(spec, &["minReadySeconds"], path));
    errors.extend(validate_strategy(spec.at("updateStrategy"), &path.child("updateStrategy")));
    errors.extend(validate_counts(spec, &["revisionHistoryLimit"], path));
    errors
}

fn validate_strategy(strategy: &Value, path: &Path) -> FieldErrors {
    match strategy.text("type") {
        "OnDelete" => FieldErrors::new(),
        "RollingUpdate" => validate_rolling(strategy.at("rollingUpdate"), &path.child("rollingUpdate")),
        _ => {
            let known = ["RollingUpdate", "OnDelete"];
            FieldErrors::from(FieldError::not_supported_value(path.clone(), &shown(strategy), &known))
        }
    }
}

fn validate_rolling(rolling: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    for field in ["maxUnavailable", "maxSurge"] {
        errors.extend(number_or_percent(rolling.at(field), &path.child(field)));
        errors.extend(within_hundred_percent(rolling.at(field), &path.child(field)));
    }
    let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
    match (amount(unavailable), amount(surge)) {
        (0, 0) => {
            let detail = "cannot be 0 when maxSurge is 0";
            errors.push(FieldError::required(path.child("maxUnavailable"), detail));
        }
        (0, _) | (_, 0) => {}
        _ => {
            let detail = "may not be set when maxUnavailable is non-zero";
            errors.push(FieldError::invalid(path.child("maxSurge"), &shown(surge), detail));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{CONTEXT, check_create, check_hostile, created, updated};

    fn daemon_set(image: &str) -> Value {
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": image}]}});
        json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}})
    }

    #[test]
    fn a_new_set_counts_its_templates() {
        let old = created(&DaemonSet, daemon_set("i"));
        assert_eq!(old["metadata"]["annotations"], json!({TEMPLATE_GENERATION: "1"}));
        assert_eq!(
            old["spec"]["updateStrategy"],
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}})
        );
        let new = updated(&DaemonSet, Action::Object, &old, daemon_set("j"));
        assert_eq!(new["metadata"]["annotations"], json!({TEMPLATE_GENERATION: "2"}));
        assert_eq!(new["metadata"]["generation"], 2);
        assert_eq!(
            json!(DaemonSet.table_row(&old, CONTEXT.now)),
            json!(["n", 0, 0, 0, 0, 0, "<none>", "<unknown>", "c", "i", "a=b"])
        );
    }

    #[test]
    fn a_generation_of_the_template_that_is_no_number_cannot_be_decoded() {
        let noted = |text: &str| json!({"metadata": {"annotations": {TEMPLATE_GENERATION: text}}});
        for (text, told) in [
            ("7", None),
            ("-7", None),
            ("", Some("strconv.ParseInt: parsing \"\": invalid syntax")),
            ("x", Some("strconv.ParseInt: parsing \"x\": invalid syntax")),
            (
                "9223372036854775808",
                Some("strconv.ParseInt: parsing \"9223372036854775808\": value out of range"),
            ),
        ] {
            assert_eq!(DaemonSet.unreadable(&noted(text)).as_deref(), told, "{text}");
        }
        assert_eq!(DaemonSet.unreadable(&json!({})), None);
    }

    #[test]
    fn an_empty_spec_misses_two_things() {
        check_create(
            &DaemonSet,
            json!({"spec": {}}),
            &[
                "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
                "spec.template.spec.containers: Required value",
            ],
        );
        let mut both = daemon_set("i");
        set(child_mut(&mut both, "spec"), "updateStrategy", json!({"rollingUpdate": {"maxSurge": "10%"}}));
        check_create(
            &DaemonSet,
            both,
            &[
                "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: \"10%\": may not be set when maxUnavailable is \
               non-zero",
            ],
        );
        let mut slow = daemon_set("i");
        set(child_mut(&mut slow, "spec"), "updateStrategy", json!({"type": "Slow"}));
        for field in ["minReadySeconds", "revisionHistoryLimit"] {
            set(child_mut(&mut slow, "spec"), field, -1);
        }
        check_create(
            &DaemonSet,
            slow,
            &[
                "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
                "spec.updateStrategy: Unsupported value: {\"type\":\"Slow\"}: supported values: \"RollingUpdate\", \
               \"OnDelete\"",
                "spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
            ],
        );
        check_hostile(&DaemonSet);
    }
}
