//! apps/v1 StatefulSet.

use orch_schema::budget::Numbered;
use orch_schema::json;
use orch_schema::value::Value;

use crate::Action;
use crate::kinds::pod::warnings::WARNINGS_MAX;
use crate::kinds::volume_claim::{validate_claim_spec, warn_about_sizes};
use crate::kinds::workload::{
    container_images, container_names, default_template, number_or_percent, validate_at_most,
    validate_collisions, validate_counts, validate_keeps_running, validate_selected_template,
    validate_selector, warn_about_spec, within_hundred_percent,
};
use crate::kinds::{Cell, Context, Strategy, age, object_meta};
use crate::validate::distinct::Distinct;
use crate::validate::metadata::invalid_each;
use crate::validate::tree::{
    Tree, carry, child_mut, existing_mut, is_unchanged, items_mut, set, set_default, set_default_text, shown,
    unset,
};
use crate::validate::{FieldError, FieldErrors, Path, names};

const MUTABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];
const REFUSED: &str = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', \
                       'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and \
                       'minReadySeconds' are forbidden";

/// The rules of stateful sets.
#[derive(Debug)]
pub struct StatefulSet;

impl Strategy for StatefulSet {
    fn default(&self, context: &Context<'_>, new: &mut Value) {
        let spec = child_mut(new, "spec");
        set_default_text(spec, "podManagementPolicy", "OrderedReady");
        let strategy = child_mut(spec, "updateStrategy");
        if strategy.text("type").is_empty() {
            set(strategy, "type", "RollingUpdate");
            child_mut(strategy, "rollingUpdate");
        }
        if strategy.text("type") == "RollingUpdate"
            && let Some(rolling) = existing_mut(strategy, "rollingUpdate")
        {
            set_default(rolling, "partition", 0);
        }
        let retention = child_mut(spec, "persistentVolumeClaimRetentionPolicy");
        set_default_text(retention, "whenDeleted", "Retain");
        set_default_text(retention, "whenScaled", "Retain");
        set_default(spec, "replicas", 1);
        set_default(spec, "revisionHistoryLimit", 10);
        for claim in items_mut(spec, "volumeClaimTemplates") {
            set(claim, "apiVersion", "v1");
            set(claim, "kind", "PersistentVolumeClaim");
            set_default_text(child_mut(claim, "spec"), "volumeMode", "Filesystem");
            set_default_text(child_mut(claim, "status"), "phase", "Pending");
        }
        default_template(context, spec);
    }

    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        drop_max_unavailable(&Value::Null, new);
        object_meta::start_spec_and_status(new);
    }

    fn prepare_for_update(&self, context: &Context<'_>, old: &Value, new: &mut Value) {
        drop_max_unavailable(old, new);
        object_meta::update_spec_or_status(context, old, new);
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        let (spec, path) = (new.at("spec"), Path::new("spec"));
        errors.extend(validate_spec(context, spec, &path));
        errors.extend(validate_fixed(context, spec, &path));
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
        let mut kept = new.at("spec").clone();
        for field in MUTABLE {
            carry(old.at("spec"), &mut kept, field);
        }
        if !is_unchanged(&kept, old.at("spec")) {
            errors.push(FieldError::forbidden(Path::new("spec"), REFUSED));
        }
        errors
    }

    fn warnings(&self, context: &Context<'_>, old: Option<&Value>, new: &Value) -> Vec<String> {
        if context.action == Action::Status {
            return Vec::new();
        }
        let mut warnings = warn_about_spec(context, old, new);
        let path = Path::new("spec").child("volumeClaimTemplates");
        for (at, claim) in new.at("spec").items("volumeClaimTemplates").iter().numbered() {
            warnings.extend(warn_about_sizes(claim.at("spec"), &path.index(at)));
            if warnings.len() > WARNINGS_MAX {
                break;
            }
        }
        if new.at("spec").int("revisionHistoryLimit").is_some_and(|limit| limit < 0) {
            warnings.push(
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is \
                 recommended"
                    .to_owned(),
            );
        }
        warnings
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        let (spec, status) = (object.at("spec"), object.at("status"));
        let pod = spec.at("template").at("spec");
        let ready = status.int("readyReplicas").unwrap_or(0);
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(format!("{ready}/{}", spec.int("replicas").unwrap_or(0))),
            json!(age::age(object, now)),
            container_names(pod),
            container_images(pod),
        ])
    }
}

/// Drops `maxUnavailable` unless the old object has it: the reference's feature is off, and a field of a feature that is
/// off is ignored without an error. `old` is null for a new object.
fn drop_max_unavailable(old: &Value, new: &mut Value) {
    let rolling = old.at("spec").at("updateStrategy").at("rollingUpdate");
    if rolling.has("maxUnavailable") {
        return;
    }
    let strategy = existing_mut(new, "spec").and_then(|spec| existing_mut(spec, "updateStrategy"));
    if let Some(rolling) = strategy.and_then(|strategy| existing_mut(strategy, "rollingUpdate")) {
        unset(rolling, "maxUnavailable");
    }
}

/// Rules for the parts that no update changes: the name of the service and the claims.
fn validate_fixed(context: &Context<'_>, spec: &Value, path: &Path) -> FieldErrors {
    let service = spec.text("serviceName");
    let mut errors = FieldErrors::new();
    if !service.is_empty() {
        errors.extend(invalid_each(&path.child("serviceName"), service, names::dns1123_label(service)));
    }
    let claims = path.child("volumeClaimTemplates");
    for (at, claim) in spec.items("volumeClaimTemplates").iter().numbered() {
        errors.extend(validate_claim_spec(context, claim.at("spec"), &claims.index(at).child("spec")));
    }
    errors
}

fn validate_spec(context: &Context<'_>, spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    match spec.text("podManagementPolicy") {
        "OrderedReady" | "Parallel" => {}
        "" => errors.push(FieldError::required(path.child("podManagementPolicy"), "")),
        other => {
            let detail = "must be 'OrderedReady' or 'Parallel'";
            errors.push(FieldError::invalid_str(path.child("podManagementPolicy"), other, detail));
        }
    }
    errors.extend(validate_strategy(spec.at("updateStrategy"), &path.child("updateStrategy")));
    let retention = path.child("persistentVolumeClaimRetentionPolicy");
    for field in ["whenDeleted", "whenScaled"] {
        let policy = spec.at("persistentVolumeClaimRetentionPolicy").text(field);
        let known = ["Retain", "Delete"];
        if !known.contains(&policy) {
            errors.push(FieldError::not_supported(retention.child(field), policy, &known));
        }
    }
    errors.extend(validate_counts(spec, &["replicas", "minReadySeconds"], path));
    errors.extend(validate_counts(spec.at("ordinals"), &["start"], &path.child("ordinals")));
    errors.extend(validate_selector(spec, "statefulset", path));
    let template = with_claims(spec);
    errors.extend(validate_selected_template(context, spec, &template, "StatefulSet", path));
    errors.extend(validate_keeps_running(spec, "StatefulSet", path));
    errors
}

// The template with a volume for each claim template, as its pods will have them.
fn with_claims(spec: &Value) -> Value {
    let mut template = spec.at("template").clone();
    let claims = spec.items("volumeClaimTemplates").iter().map(|claim| claim.at("metadata").text("name"));
    let pod = child_mut(&mut template, "spec");
    let mut volumes = pod.items("volumes").to_vec();
    // Of claim templates with the same name the last one counts.
    let mut claimed = Distinct::new();
    let mut names: Vec<&str> = claims.filter(|name| !name.is_empty()).collect();
    names.reverse();
    // once: over the claims; those met before are looked up by hash.
    names.retain(|name| !claimed.is_repeated(*name));
    // set: the names of the claims.
    volumes.retain(|volume| !claimed.has(&volume.text("name")));
    let volume = |name: &&str| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
    volumes.extend(names.iter().rev().map(volume));
    if !volumes.is_empty() {
        set(pod, "volumes", volumes);
    }
    template
}

fn validate_strategy(strategy: &Value, path: &Path) -> FieldErrors {
    let rolling = strategy.at("rollingUpdate");
    let rolling_path = path.child("rollingUpdate");
    match strategy.text("type") {
        "" => FieldErrors::from(FieldError::required(path.clone(), "")),
        "OnDelete" if !rolling.is_null() => {
            let detail = "only allowed for updateStrategy 'RollingUpdate'";
            FieldErrors::from(FieldError::invalid(rolling_path, &shown(rolling), detail))
        }
        "OnDelete" => FieldErrors::new(),
        "RollingUpdate" => {
            let mut errors = validate_counts(rolling, &["partition"], &rolling_path);
            if rolling.has("maxUnavailable") {
                let (unavailable, path) =
                    (rolling.at("maxUnavailable"), rolling_path.child("maxUnavailable"));
                errors.extend(number_or_percent(unavailable, &path));
                errors.extend(within_hundred_percent(unavailable, &path));
            }
            errors
        }
        _ => {
            let detail = "must be 'RollingUpdate' or 'OnDelete'";
            FieldErrors::from(FieldError::invalid(path.clone(), &shown(strategy), detail))
        }
    }
}

fn validate_status(status: &Value, path: &Path) -> FieldErrors {
    let parts = ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    let mut errors = validate_counts(status, &["replicas"], path);
    errors.extend(validate_counts(status, &parts, path));
    errors.extend(validate_counts(status, &["observedGeneration", "collisionCount"], path));
    errors.extend(validate_at_most(status, &parts, "replicas", path));
    let count = |field: &str| status.int(field).unwrap_or(0);
    if count("availableReplicas") > count("readyReplicas") {
        let (available, detail) = (count("availableReplicas"), "cannot be greater than status.readyReplicas");
        errors.push(FieldError::invalid(path.child("availableReplicas"), &available.to_string(), detail));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{CONTEXT, check_create, check_hostile, check_update, created, updated};

    fn stateful_set(mut spec: Value) -> Value {
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [
            {"name": "c", "image": "i", "volumeMounts": [{"name": "data", "mountPath": "/d"}]}
        ]}});
        set_default(&mut spec, "selector", json!({"matchLabels": {"a": "b"}}));
        set_default(&mut spec, "template", template);
        let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
        set_default(
            &mut spec,
            "volumeClaimTemplates",
            json!([{"metadata": {"name": "data"}, "spec": claim}]),
        );
        set_default(&mut spec, "serviceName", "s");
        json!({"spec": spec})
    }

    #[test]
    fn defaults_are_those_recorded() {
        let object = created(&StatefulSet, stateful_set(json!({})));
        let spec = &object["spec"];
        assert_eq!(
            spec["updateStrategy"],
            json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})
        );
        assert_eq!(spec["podManagementPolicy"], "OrderedReady");
        assert_eq!(
            spec["persistentVolumeClaimRetentionPolicy"],
            json!({"whenDeleted": "Retain", "whenScaled": "Retain"})
        );
        assert_eq!(
            json!(StatefulSet.table_row(&object, CONTEXT.now)),
            json!(["n", "0/1", "<unknown>", "c", "i"])
        );
    }

    #[test]
    fn mounts_may_refer_to_claim_templates() {
        check_create(&StatefulSet, stateful_set(json!({})), &[]);
        check_create(
            &StatefulSet,
            stateful_set(json!({"volumeClaimTemplates": []})),
            &["spec.template.spec.containers[0].volumeMounts[0].name: Not found: \"data\""],
        );
        check_create(
            &StatefulSet,
            json!({"spec": {}}),
            &[
                "spec.selector: Required value",
                "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
                "spec.template.spec.containers: Required value",
            ],
        );
        check_hostile(&StatefulSet);
    }

    #[test]
    fn most_pods_unavailable_at_once_are_ignored_where_they_were_not_set() {
        let with = |unavailable: Value| {
            stateful_set(json!({"updateStrategy": {"rollingUpdate": {"maxUnavailable": unavailable}}}))
        };
        let rolling = |object: &Value| object["spec"]["updateStrategy"]["rollingUpdate"].clone();
        for unavailable in [json!(2), json!("200%"), json!(0)] {
            let object = created(&StatefulSet, with(unavailable.clone()));
            assert_eq!(rolling(&object), json!({"partition": 0}), "{unavailable}");
            check_create(&StatefulSet, with(unavailable), &[]);
        }
        let mut old = created(&StatefulSet, stateful_set(json!({})));
        let generation = old["metadata"]["generation"].clone();
        let new = updated(&StatefulSet, Action::Object, &old, with(json!(2)));
        assert_eq!(rolling(&new), json!({"partition": 0}));
        set(&mut old["spec"]["updateStrategy"]["rollingUpdate"], "maxUnavailable", 1);
        let new = updated(&StatefulSet, Action::Object, &old, with(json!("200%")));
        assert_eq!(rolling(&new)["maxUnavailable"], "200%");
        assert_ne!(new["metadata"]["generation"], generation);
        let errors = StatefulSet.validate_update(&CONTEXT, &old, &new);
        let path = "spec.updateStrategy.rollingUpdate.maxUnavailable";
        assert_eq!(
            errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [format!("{path}: Invalid value: \"200%\": must not be greater than 100%")]
        );
    }

    #[test]
    fn few_fields_change() {
        check_update(&StatefulSet, stateful_set(json!({})), stateful_set(json!({"replicas": 3})), &[]);
        check_update(
            &StatefulSet,
            stateful_set(json!({})),
            stateful_set(json!({"serviceName": "t"})),
            &[&format!("spec: Forbidden: {REFUSED}")],
        );
    }
}
