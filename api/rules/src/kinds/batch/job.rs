//! batch/v1 Job: its selector is generated from its uid unless `manualSelector` is set.

use orch_proto::Brand;
use orch_schema::json;
use orch_schema::value::{Map, Value};

use crate::Action;
use crate::kinds::batch::job_status::validate_status_update;
use crate::kinds::batch::policy::default_failure_policy;
use crate::kinds::batch::{validate_job_spec, warn_about_indexes};
use crate::kinds::pod::warnings::warn_about_name;
use crate::kinds::workload::{container_images, container_names, default_template, warn_about_spec};
use crate::kinds::{Cell, Context, NameRule, Strategy, age, object_meta, value_at};
use crate::validate::metadata::immutable;
use crate::validate::selector::{format_label_selector, selects, validate_label_selector};
use crate::validate::tree::{
    Tree, carry, child_mut, is_empty, is_unchanged, items_mut, set, set_default, shown, shown_map, unset,
};
use crate::validate::{FieldError, FieldErrors, Path, names};

const BACKOFF_LIMIT: i64 = 6;

/// The rules of jobs.
#[derive(Debug)]
pub struct Job;

impl Strategy for Job {
    fn default(&self, context: &Context<'_>, new: &mut Value) {
        let spec = child_mut(new, "spec");
        if !spec.has("completions") && !spec.has("parallelism") {
            set(spec, "completions", 1);
        }
        set_default(spec, "parallelism", 1);
        let limit = if spec.has("backoffLimitPerIndex") { i64::from(i32::MAX) } else { BACKOFF_LIMIT };
        set_default(spec, "backoffLimit", limit);
        set_default(spec, "completionMode", "NonIndexed");
        set_default(spec, "suspend", false);
        set_default(spec, "manualSelector", false);
        let replace = if spec.has("podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
        set_default(spec, "podReplacementPolicy", replace);
        default_failure_policy(spec);
        default_template(context, spec);
        let labels = spec.at("template").at("metadata").at("labels").clone();
        let metadata = child_mut(new, "metadata");
        if labels.is_object() && metadata.is_empty_at("labels") {
            set(metadata, "labels", labels);
        }
    }

    fn prepare_for_create(&self, context: &Context<'_>, new: &mut Value) {
        make_selector(context, new);
        object_meta::start_spec_and_status(new);
    }

    fn prepare_for_update(&self, context: &Context<'_>, old: &Value, new: &mut Value) {
        object_meta::update_spec_or_status(context, old, new);
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_made_selector(context.brand, new));
        errors.extend(validate_spec(context, new.at("spec"), &Path::new("spec")));
        errors.extend(validate_pod_names(new));
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        if context.action == Action::Status {
            let mut errors = object_meta::on_update(context, old, new);
            errors.extend(validate_status_update(old, new));
            return errors;
        }
        // The reference checks the whole job and then the change, each with the spec.
        let path = Path::new("spec");
        let spec = validate_spec(context, new.at("spec"), &path);
        let mut errors = object_meta::whole(context, new, true, NameRule::Dns1123Subdomain);
        errors.extend(validate_made_selector(context.brand, new));
        errors.extend(spec.clone());
        errors.extend(validate_pod_names(new));
        errors.extend(object_meta::on_update(context, old, new));
        errors.extend(spec);
        errors.extend(validate_kept(old, new, &path));
        errors
    }

    fn warnings(&self, context: &Context<'_>, old: Option<&Value>, new: &Value) -> Vec<String> {
        if !object_meta::is_new_generation(old, new) {
            return Vec::new();
        }
        let about_name = if old.is_none() { warn_about_name(new) } else { None };
        let about_indexes = warn_about_indexes(context, new.at("spec"), &Path::new("spec"));
        about_name.into_iter().chain(about_indexes).chain(warn_about_spec(context, old, new)).collect()
    }

    fn field_value(&self, object: &Value, name: &str) -> String {
        match name {
            "status.successful" => object.at("status").int("succeeded").unwrap_or(0).to_string(),
            name => value_at(object, name),
        }
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        let spec = object.at("spec");
        let pod = spec.at("template").at("spec");
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(state(object)),
            json!(completions(object)),
            json!(duration(object.at("status"), now)),
            json!(age::age(object, now)),
            container_names(pod),
            container_images(pod),
            json!(format_label_selector(spec.at("selector"))),
        ])
    }
}

// Labels of a job's pods: first the one that its selector matches, then the others.
fn job_labels(brand: &Brand, job: &Value) -> [(String, String); 4] {
    let metadata = job.at("metadata");
    let (uid, name) = (metadata.text("uid").to_owned(), metadata.text("name").to_owned());
    let qualified = |stem: &str| format!("batch.{}", brand.label(stem));
    [
        (qualified("controller-uid"), uid.clone()),
        (qualified("job-name"), name.clone()),
        ("controller-uid".to_owned(), uid),
        ("job-name".to_owned(), name),
    ]
}

fn make_selector(context: &Context<'_>, job: &mut Value) {
    if job.at("spec").flag("manualSelector") {
        return;
    }
    let labels = job_labels(context.brand, job);
    let spec = child_mut(job, "spec");
    let own = child_mut(child_mut(child_mut(spec, "template"), "metadata"), "labels");
    for (key, value) in &labels {
        set_default(own, key, value.clone());
    }
    let (key, uid) = &labels[0];
    set_default(child_mut(child_mut(spec, "selector"), "matchLabels"), key, uid.clone());
    // A job without labels gets those of its template, including the generated ones. If the first patch filled them in
    // instead, its field manager would own them.
    let own = own_labels(spec);
    let metadata = child_mut(job, "metadata");
    if !context.labels_given {
        set(metadata, "labels", own);
    }
}

fn own_labels(spec: &Value) -> Value {
    spec.at("template").at("metadata").at("labels").clone()
}

fn validate_made_selector(brand: &Brand, job: &Value) -> FieldErrors {
    let spec = job.at("spec");
    if spec.flag("manualSelector") || !spec.has("selector") {
        return FieldErrors::new();
    }
    let labels = job_labels(brand, job);
    let path = Path::new("spec").child("template").child("metadata").child("labels");
    let own = spec.at("template").at("metadata").at("labels");
    let mut errors = FieldErrors::new();
    // The labels without a domain come first here.
    for (key, value) in labels[2..].iter().chain(&labels[..2]) {
        let detail = format!("must be '{value}'");
        match own.get(key).and_then(Value::as_str) {
            None => errors.push(FieldError::required(path.key(key), &detail)),
            Some(given) if given != value => {
                errors.push(FieldError::invalid(path.key(key), &shown_map(own), &detail));
            }
            Some(_) => {}
        }
    }
    let expected: Map = labels.into_iter().map(|(key, value)| (key, Value::from(value))).collect();
    if !selects(spec.at("selector"), &Value::Object(expected)) {
        let path = Path::new("spec").child("selector");
        errors.push(FieldError::invalid(path, &shown(spec.at("selector")), "`selector` not auto-generated"));
    }
    errors
}

/// The pods of a job with indexes have the job's name and their index as host names.
fn validate_pod_names(job: &Value) -> Option<FieldError> {
    let spec = job.at("spec");
    let last = spec.int("completions").filter(|count| *count > 0)? - 1;
    let name = job.at("metadata").text("name");
    let pod = format!("{name}-{last}");
    if spec.text("completionMode") != "Indexed" || names::dns1123_label(&pod).is_empty() {
        return None;
    }
    let detail = format!("will not able to create pod with invalid DNS label: {pod}");
    Some(FieldError::invalid_str(Path::new("metadata").child("name"), name, &detail))
}

fn validate_spec(context: &Context<'_>, spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = validate_job_spec(context, spec, path);
    let selector = spec.at("selector");
    if selector.is_null() {
        errors.push(FieldError::required(path.child("selector"), ""));
    } else {
        errors.extend(validate_label_selector(selector, &path.child("selector")));
    }
    let labels = spec.at("template").at("metadata").at("labels");
    if !selects(selector, labels) {
        let path = path.child("template").child("metadata").child("labels");
        let detail = "`selector` does not match template `labels`";
        errors.push(FieldError::invalid(path, &shown_map(labels), detail));
    }
    errors
}

fn validate_kept(old_job: &Value, new_job: &Value, path: &Path) -> FieldErrors {
    let (old, new) = (old_job.at("spec"), new_job.at("spec"));
    let mut errors: FieldErrors = validate_completions(old, new, path).into_iter().collect();
    errors.extend(immutable(new.at("selector"), old.at("selector"), path.child("selector")));
    errors.extend(validate_kept_template(old_job, new_job, path));
    for field in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    {
        errors.extend(immutable(new.at(field), old.at(field), path.child(field)));
    }
    errors
}

/// The completions stay; those of an indexed job may change as long as all of it runs at once.
fn validate_completions(old: &Value, new: &Value, path: &Path) -> Option<FieldError> {
    let (before, after, completions) =
        (old.at("completions"), new.at("completions"), path.child("completions"));
    if new.text("completionMode") != "Indexed" {
        return immutable(after, before, completions);
    }
    // A rule of its own asks an indexed job for completions.
    let is_refused = before != after && !after.is_null() && after != new.at("parallelism");
    let detail = format!("can only be modified in tandem with {}", path.child("parallelism"));
    is_refused.then(|| FieldError::invalid(completions, &shown(after), &detail))
}

fn validate_kept_template(old: &Value, new: &Value, path: &Path) -> Option<FieldError> {
    let (before, mut after) = (old.at("spec").at("template"), new.at("spec").at("template").clone());
    let path = path.child("template");
    if !is_at_rest(old) {
        return immutable(&after, before, path);
    }
    keep_directives(before, &mut after);
    keep_resources(before, &mut after);
    immutable(&after, before, path.child("spec"))
}

// Whether a job is suspended and none of its pods runs: it has not started, or says itself that it is suspended.
fn is_at_rest(job: &Value) -> bool {
    let status = job.at("status");
    job.at("spec").flag("suspend")
        && status.int("active").unwrap_or(0) == 0
        && (!status.has("startTime") || condition(job, "Suspended"))
}

// The scheduling directives of a job at rest may change: they are taken from the old template before it is compared.
fn keep_directives(old: &Value, template: &mut Value) {
    for field in ["annotations", "labels"] {
        carry(old.at("metadata"), child_mut(template, "metadata"), field);
    }
    if is_empty(template.at("metadata")) && !old.has("metadata") {
        unset(template, "metadata");
    }
    let spec = child_mut(template, "spec");
    for field in ["nodeSelector", "tolerations", "schedulingGates"] {
        carry(old.at("spec"), spec, field);
    }
    let before = old.at("spec").at("affinity");
    if !is_unchanged(before.at("nodeAffinity"), spec.at("affinity").at("nodeAffinity")) {
        carry(before, child_mut(spec, "affinity"), "nodeAffinity");
    }
    // An affinity without members and none are both ways of writing that only the node affinity has changed.
    if is_empty(before) && is_empty(spec.at("affinity")) {
        carry(old.at("spec"), spec, "affinity");
    }
}

// Resources of the containers of a job at rest may change: they are taken from the old template, container by container.
fn keep_resources(old: &Value, template: &mut Value) {
    for list in ["containers", "initContainers"] {
        let before = old.at("spec").items(list);
        for (before, after) in before.iter().zip(items_mut(child_mut(template, "spec"), list)) {
            carry(before, after, "resources");
        }
    }
}

fn condition(job: &Value, kind: &str) -> bool {
    let met = |condition: &Value| condition.text("type") == kind && condition.text("status") == "True";
    // once: one pass over the conditions.
    job.at("status").items("conditions").iter().any(met)
}

fn state(job: &Value) -> &'static str {
    let going = job.at("metadata").has("deletionTimestamp");
    match () {
        () if condition(job, "Complete") => "Complete",
        () if condition(job, "Failed") => "Failed",
        () if going => "Terminating",
        () if condition(job, "Suspended") => "Suspended",
        () if condition(job, "FailureTarget") => "FailureTarget",
        () if condition(job, "SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn completions(job: &Value) -> String {
    let (spec, succeeded) = (job.at("spec"), job.at("status").int("succeeded").unwrap_or(0));
    let parallelism = spec.int("parallelism").unwrap_or(0);
    match spec.int("completions") {
        Some(completions) => format!("{succeeded}/{completions}"),
        None if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        None => format!("{succeeded}/1"),
    }
}

fn duration(status: &Value, now: &str) -> String {
    let start = status.at("startTime");
    if is_empty(start) {
        return String::new();
    }
    let end = status.text("completionTime");
    age::since(start.as_str().unwrap_or_default(), if end.is_empty() { now } else { end })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{CONTEXT, check_create, check_hostile, check_update, created};

    fn job(image: &str) -> Value {
        json!({"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": image}]}}}})
    }

    #[test]
    fn a_job_selects_by_its_identity() {
        let job = created(&Job, job("i"));
        assert_eq!(job["spec"]["selector"], json!({"matchLabels": {"batch.orch.io/controller-uid": "u"}}));
        assert_eq!(
            job["spec"]["template"]["metadata"]["labels"],
            json!({
                "batch.orch.io/controller-uid": "u", "batch.orch.io/job-name": "n", "controller-uid": "u", "job-name": "n"
            })
        );
        assert_eq!(job["metadata"]["labels"], job["spec"]["template"]["metadata"]["labels"]);
        assert_eq!((&job["spec"]["completions"], &job["spec"]["backoffLimit"]), (&json!(1), &json!(6)));
        assert_eq!(
            json!(Job.table_row(&job, CONTEXT.now)),
            json!(["n", "Running", "0/1", "", "<unknown>", "c", "i", "batch.orch.io/controller-uid=u"])
        );
    }

    #[test]
    fn a_job_without_labels_has_all_of_its_template() {
        let labelled = |own: Value| {
            let mut job = job("i");
            set(
                child_mut(child_mut(child_mut(&mut job, "spec"), "template"), "metadata"),
                "labels",
                json!({"app": "x"}),
            );
            set(child_mut(&mut job, "metadata"), "labels", own);
            created(&Job, job)
        };
        let job = labelled(json!({}));
        let all = json!({
            "app": "x", "batch.orch.io/controller-uid": "u", "batch.orch.io/job-name": "n", "controller-uid": "u", "job-name": "n"
        });
        assert_eq!(job["spec"]["template"]["metadata"]["labels"], all);
        assert_eq!(job["metadata"]["labels"], all);
        // Labels that the client gave a job stay as they are, even where the template has the same.
        for own in [json!({"app": "x"}), json!({"b": "c"})] {
            assert_eq!(labelled(own.clone())["metadata"]["labels"], own);
        }
        let mut manual = json!({"metadata": {}, "spec": {"manualSelector": true}});
        manual["spec"]["template"]["metadata"]["labels"] = json!({"app": "x"});
        assert_eq!(created(&Job, manual)["metadata"]["labels"], json!({"app": "x"}));
    }

    #[test]
    fn pods_of_jobs_end() {
        check_create(&Job, job("i"), &[]);
        check_create(
            &Job,
            json!({"spec": {"parallelism": -1, "completionMode": "Indexed", "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}}),
            &[
                "spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
                "spec.completions: Required value: when completion mode is Indexed",
                "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
            ],
        );
        check_hostile(&Job);
    }

    #[test]
    fn a_pattern_of_a_condition_means_a_true_one() {
        let mut job = job("i");
        job["spec"]["podFailurePolicy"] = json!({"rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}, {"type": "T", "status": "False"}]},
        ]});
        check_create(&Job, job.clone(), &[]);
        assert_eq!(
            created(&Job, job)["spec"]["podFailurePolicy"]["rules"][0]["onPodConditions"],
            json!([{"type": "DisruptionTarget", "status": "True"}, {"type": "T", "status": "False"}])
        );
    }

    #[test]
    fn the_template_stays() {
        let mut new = created(&Job, job("j"));
        set(child_mut(&mut new, "spec"), "completions", 3);
        let old = created(&Job, job("i"));
        let texts: Vec<String> =
            Job.validate_update(&CONTEXT, &old, &new).iter().map(ToString::to_string).collect();
        assert_eq!(texts[0], "spec.completions: Invalid value: 3: field is immutable");
        assert!(texts[1].starts_with("spec.template: Invalid value: {"), "{texts:?}");
        assert_eq!(texts.len(), 2);
        let suspended = |selector: Value| {
            let mut object = created(&Job, job("i"));
            set(child_mut(&mut object, "spec"), "suspend", true);
            set(
                child_mut(child_mut(child_mut(&mut object, "spec"), "template"), "spec"),
                "nodeSelector",
                selector,
            );
            object
        };
        check_update(&Job, suspended(json!({})), suspended(json!({"a": "b"})), &[]);
    }

    #[test]
    fn a_suspended_job_without_pods_may_change_its_scheduling_alone() {
        let old = |status: Value| {
            let mut object = created(&Job, job("i"));
            set(child_mut(&mut object, "spec"), "suspend", true);
            set(&mut object, "status", status);
            object
        };
        let new = |old: &Value, field: &str, value: Value| {
            let mut object = old.clone();
            let spec = child_mut(child_mut(child_mut(&mut object, "spec"), "template"), "spec");
            match field {
                "resources" | "image" => set(&mut items_mut(spec, "containers")[0], field, value),
                _ => set(spec, field, value),
            }
            object
        };
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}}});
        let changes = [
            ("nodeSelector", json!({"a": "b"})),
            ("affinity", affinity),
            ("affinity", json!({})),
            ("resources", json!({"requests": {"cpu": "1"}})),
        ];
        let suspended = json!([{"type": "Suspended", "status": "True"}]);
        let started = json!({"startTime": "2026-01-01T00:00:00Z"});
        for (status, is_at_rest) in [
            (json!({}), true),
            (json!({"startTime": "2026-01-01T00:00:00Z", "conditions": suspended}), true),
            (json!({"active": 1}), false),
            (started, false),
        ] {
            let old = old(status);
            for (field, value) in &changes {
                let errors = Job.validate_update(&CONTEXT, &old, &new(&old, field, value.clone()));
                assert_eq!(errors.len(), usize::from(!is_at_rest), "{field} {}: {errors:?}", old["status"]);
            }
            let errors = Job.validate_update(&CONTEXT, &old, &new(&old, "image", json!("other")));
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            let path = if is_at_rest { "spec.template.spec: " } else { "spec.template: " };
            assert!(texts.len() == 1 && texts[0].starts_with(path), "{texts:?}");
        }
    }
}
