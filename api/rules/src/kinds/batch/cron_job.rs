//! batch/v1 CronJob.

use orch_schema::json;
use orch_schema::value::Value;

use crate::Action;
use crate::kinds::batch::policy::default_failure_policy;
use crate::kinds::batch::schedule::{schedule_error, zone_error};
use crate::kinds::batch::{validate_job_spec, warn_about_indexes};
use crate::kinds::pod::warnings::{warn_about_name, warn_about_pod};
use crate::kinds::workload::{container_images, container_names, default_template};
use crate::kinds::{Cell, Context, Strategy, age, object_meta};
use crate::validate::metadata::nonnegative;
use crate::validate::selector::format_label_selector;
use crate::validate::tree::{Tree, child_mut, set_default, set_default_text, shown};
use crate::validate::{FieldError, FieldErrors, Path};

/// Bytes of a cron job's name: the names of its jobs append eleven characters and have at most 63.
const NAME_LENGTH_MAX: usize = 52;

/// The rules of cron jobs.
#[derive(Debug)]
pub struct CronJob;

impl Strategy for CronJob {
    fn default(&self, context: &Context<'_>, new: &mut Value) {
        let spec = child_mut(new, "spec");
        set_default_text(spec, "concurrencyPolicy", "Allow");
        set_default(spec, "suspend", false);
        set_default(spec, "successfulJobsHistoryLimit", 3);
        set_default(spec, "failedJobsHistoryLimit", 1);
        let job = child_mut(spec, "jobTemplate");
        child_mut(job, "metadata");
        let job_spec = child_mut(job, "spec");
        default_failure_policy(job_spec);
        default_template(context, job_spec);
    }

    fn prepare_for_create(&self, _context: &Context<'_>, new: &mut Value) {
        object_meta::start_spec_and_status(new);
    }

    fn prepare_for_update(&self, context: &Context<'_>, old: &Value, new: &mut Value) {
        object_meta::update_spec_or_status(context, old, new);
    }

    fn validate_create(&self, context: &Context<'_>, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_create(context, new);
        errors.extend(validate_spec(context, &Value::Null, new.at("spec"), &Path::new("spec")));
        let name = new.at("metadata").text("name");
        if name.len() > NAME_LENGTH_MAX {
            let detail = format!("must be no more than {NAME_LENGTH_MAX} characters");
            errors.push(FieldError::invalid_str(Path::new("metadata").child("name"), name, &detail));
        }
        errors
    }

    fn validate_update(&self, context: &Context<'_>, old: &Value, new: &Value) -> FieldErrors {
        let mut errors = object_meta::on_update(context, old, new);
        if context.action == Action::Object {
            errors.extend(validate_spec(context, old.at("spec"), new.at("spec"), &Path::new("spec")));
        }
        errors
    }

    fn warnings(&self, context: &Context<'_>, old: Option<&Value>, new: &Value) -> Vec<String> {
        if !object_meta::is_new_generation(old, new) {
            return Vec::new();
        }
        let about_name = if old.is_none() { warn_about_name(new) } else { None };
        let spec = job_spec(new);
        let path = Path::new("spec").child("jobTemplate").child("spec");
        let about_indexes = warn_about_indexes(context, spec, &path);
        let about_template = warn_about_pod(context, spec.at("template"), &path.child("template"));
        about_name.into_iter().chain(about_indexes).chain(about_template).collect()
    }

    fn table_row(&self, object: &Value, now: &str) -> Option<Vec<Cell>> {
        let (spec, status) = (object.at("spec"), object.at("status"));
        let job = spec.at("jobTemplate").at("spec");
        let pod = job.at("template").at("spec");
        let or_none = |text: &str| json!(if text.is_empty() { "<none>" } else { text });
        let last = status.text("lastScheduleTime");
        let suspend = spec.at("suspend").as_bool();
        Some(vec![
            object.at("metadata").at("name").clone(),
            json!(spec.text("schedule")),
            or_none(spec.text("timeZone")),
            json!(suspend.map_or("<unset>", |suspend| if suspend { "True" } else { "False" })),
            json!(status.items("active").len()),
            if last.is_empty() { json!("<none>") } else { json!(age::since(last, now)) },
            json!(age::age(object, now)),
            container_names(pod),
            container_images(pod),
            json!(format_label_selector(job.at("selector"))),
        ])
    }
}

fn job_spec(cron_job: &Value) -> &Value {
    cron_job.at("spec").at("jobTemplate").at("spec")
}

/// Rules for a spec. `old`, the spec before, is null for a new object: a time zone in its schedule may stay there, and
/// its time zone is not looked up again.
fn validate_spec(context: &Context<'_>, old: &Value, spec: &Value, path: &Path) -> FieldErrors {
    let not_negative = |field: &str| nonnegative(spec.int(field), path.child(field));
    let mut errors = validate_schedule(old, spec, &path.child("schedule"));
    errors.extend(not_negative("startingDeadlineSeconds"));
    let zone = spec.at("timeZone").as_str().filter(|zone| old.at("timeZone").as_str() != Some(*zone));
    errors.extend(zone.into_iter().flat_map(|zone| validate_zone(zone, path)));
    let known = ["Allow", "Forbid", "Replace"];
    match spec.text("concurrencyPolicy") {
        "" => errors.push(FieldError::required(path.child("concurrencyPolicy"), "")),
        policy if !known.contains(&policy) => {
            errors.push(FieldError::not_supported(path.child("concurrencyPolicy"), policy, &known));
        }
        _ => {}
    }
    errors.extend(validate_job_template(context, spec.at("jobTemplate"), &path.child("jobTemplate")));
    errors.extend(
        ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"].into_iter().filter_map(not_negative),
    );
    errors
}

fn validate_job_template(context: &Context<'_>, template: &Value, path: &Path) -> FieldErrors {
    let (job, path) = (template.at("spec"), path.child("spec"));
    let mut errors = validate_job_spec(context, job, &path);
    if job.has("selector") {
        let detail = "`selector` will be auto-generated";
        errors.push(FieldError::invalid(path.child("selector"), &shown(job.at("selector")), detail));
    }
    if job.flag("manualSelector") {
        errors.push(FieldError::not_supported_value(path.child("manualSelector"), "true", &["nil", "false"]));
    }
    errors
}

fn validate_schedule(old: &Value, spec: &Value, path: &Path) -> FieldErrors {
    let schedule = spec.text("schedule");
    if schedule.is_empty() {
        return FieldError::required(path.clone(), "").into();
    }
    let (has_zone, had_zone) = (schedule.contains("TZ"), old.text("schedule").contains("TZ"));
    let misplaced = match (had_zone, spec.has("timeZone")) {
        _ if !has_zone => None,
        (false, _) => Some("cannot use TZ or CRON_TZ in schedule, use timeZone field instead"),
        (true, true) => Some("cannot use both timeZone field and TZ or CRON_TZ in schedule"),
        (true, false) => None,
    };
    let problems = schedule_error(schedule).into_iter().chain(misplaced.map(str::to_owned));
    problems.map(|detail| FieldError::invalid_str(path.clone(), schedule, &detail)).collect()
}

fn validate_zone(zone: &str, path: &Path) -> FieldErrors {
    let error = |detail: &str| FieldError::invalid_str(path.child("timeZone"), zone, detail);
    if zone.is_empty() {
        return error("timeZone must be nil or non-empty string").into();
    }
    let mut errors = FieldErrors::new();
    if zone.eq_ignore_ascii_case("local") {
        errors.push(error(
            "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
        ));
    }
    errors.extend(zone_error(zone).map(|problem| error(&problem)));
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::testing::{CONTEXT, check_create, check_hostile, check_update, created};

    fn cron_job(schedule: &str) -> Value {
        let pod = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
        json!({"spec": {"schedule": schedule, "jobTemplate": {"spec": {"template": {"spec": pod}}}}})
    }

    #[test]
    fn defaults_and_row_are_those_recorded() {
        let object = created(&CronJob, cron_job("*/5 * * * *"));
        let spec = &object["spec"];
        assert_eq!((&spec["concurrencyPolicy"], &spec["suspend"]), (&json!("Allow"), &json!(false)));
        assert_eq!(
            (&spec["successfulJobsHistoryLimit"], &spec["failedJobsHistoryLimit"]),
            (&json!(3), &json!(1))
        );
        assert_eq!(spec["jobTemplate"]["spec"]["template"]["metadata"], json!({}));
        assert_eq!(
            json!(CronJob.table_row(&object, CONTEXT.now)),
            json!(["n", "*/5 * * * *", "<none>", "False", 0, "<none>", "<unknown>", "c", "i", "<none>"])
        );
    }

    #[test]
    fn schedules_and_templates() {
        check_create(&CronJob, cron_job("@daily"), &[]);
        check_create(
            &CronJob,
            json!({"spec": {}}),
            &[
                "spec.schedule: Required value",
                "spec.jobTemplate.spec.template.spec.containers: Required value",
                "spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \
                 \"Never\"",
            ],
        );
        check_create(
            &CronJob,
            cron_job("often"),
            &["spec.schedule: Invalid value: \"often\": expected exactly 5 fields, found 1: [often]"],
        );
        let misplaced = |schedule: &str| {
            format!(
                "spec.schedule: Invalid value: \"{schedule}\": cannot use TZ or CRON_TZ in schedule, use timeZone \
                 field instead"
            )
        };
        for (schedule, problem) in [
            ("TZ=UTC 0 0 * * *", None),
            ("CRON_TZ=Mars 0 0 * * *", Some("provided bad location Mars: unknown time zone Mars")),
            ("TZ 0", Some("expected exactly 5 fields, found 2: [TZ 0]")),
            ("TZ=UTC", None),
        ] {
            let parsed = problem.map(|text| format!("spec.schedule: Invalid value: \"{schedule}\": {text}"));
            let expected: Vec<String> = parsed.into_iter().chain([misplaced(schedule)]).collect();
            let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
            check_create(&CronJob, cron_job(schedule), &expected);
        }
        check_hostile(&CronJob);
    }

    #[test]
    fn causes_stand_in_the_order_of_the_fields() {
        let mut object = cron_job("often");
        for field in ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
            object["spec"][field] = json!(-1);
        }
        object["spec"]["timeZone"] = json!("");
        object["spec"]["concurrencyPolicy"] = json!("Many");
        object["spec"]["jobTemplate"]["spec"]["backoffLimit"] = json!(-1);
        let negative = "Invalid value: -1: must be greater than or equal to 0";
        let expected: [&str; 7] = [
            "spec.schedule: Invalid value: \"often\": expected exactly 5 fields, found 1: [often]",
            &format!("spec.startingDeadlineSeconds: {negative}"),
            "spec.timeZone: Invalid value: \"\": timeZone must be nil or non-empty string",
            "spec.concurrencyPolicy: Unsupported value: \"Many\": supported values: \"Allow\", \"Forbid\", \"Replace\"",
            &format!("spec.jobTemplate.spec.backoffLimit: {negative}"),
            &format!("spec.successfulJobsHistoryLimit: {negative}"),
            &format!("spec.failedJobsHistoryLimit: {negative}"),
        ];
        check_create(&CronJob, object, &expected);
    }

    #[test]
    fn zones_that_are_stored_may_stay() {
        let with_zone = |schedule: &str, zone: Value| {
            let mut object = cron_job(schedule);
            object["spec"]["timeZone"] = zone;
            object
        };
        let (zoned, plain) = ("TZ=UTC 0 0 * * *", "0 0 * * *");
        let both = "spec.schedule: Invalid value: \"TZ=UTC 0 0 * * *\": cannot use both timeZone field and TZ or CRON_TZ in \
                    schedule";
        let unknown = "spec.timeZone: Invalid value: \"Mars\": unknown time zone Mars";
        for (old, new, expected) in [
            ((zoned, Value::Null), (zoned, Value::Null), &[][..]),
            ((zoned, Value::Null), (zoned, json!("UTC")), &[both][..]),
            ((plain, json!("Mars")), (plain, json!("Mars")), &[][..]),
            ((plain, json!("UTC")), (plain, json!("Mars")), &[unknown][..]),
        ] {
            check_update(&CronJob, with_zone(old.0, old.1), with_zone(new.0, new.1), expected);
        }
    }

    #[test]
    fn the_policy_of_its_jobs_has_its_defaults() {
        let mut object = cron_job("@daily");
        let job = &mut object["spec"]["jobTemplate"]["spec"];
        job["podFailurePolicy"] =
            json!({"rules": [{"action": "Ignore", "onPodConditions": [{"type": "T"}]}]});
        check_create(&CronJob, object.clone(), &[]);
        let object = created(&CronJob, object);
        let rule = &object["spec"]["jobTemplate"]["spec"]["podFailurePolicy"]["rules"][0];
        assert_eq!(rule["onPodConditions"], json!([{"type": "T", "status": "True"}]));
    }

    #[test]
    fn a_time_zone_is_one_of_the_zone_data() {
        let unknown =
            |zone: &str| format!("spec.timeZone: Invalid value: \"{zone}\": unknown time zone {zone}");
        let explicit = "spec.timeZone: Invalid value: \"local\": timeZone must be an explicit time zone as defined in \
                        https://www.iana.org/time-zones";
        for (zone, expected) in [
            ("Europe/Zurich", vec![]),
            ("UTC", vec![]),
            ("Etc/GMT+5", vec![]),
            (
                "",
                vec![
                    "spec.timeZone: Invalid value: \"\": timeZone must be nil or non-empty string".to_owned(),
                ],
            ),
            ("local", vec![explicit.to_owned(), unknown("local")]),
            ("Mars/Phobos", vec![unknown("Mars/Phobos")]),
            ("europe/zurich", vec![unknown("europe/zurich")]),
            ("Local", vec![explicit.replace("\"local\"", "\"Local\"")]),
            (
                "../Europe/Zurich",
                vec![
                    "spec.timeZone: Invalid value: \"../Europe/Zurich\": time: invalid location name"
                        .to_owned(),
                ],
            ),
        ] {
            let mut object = cron_job("@daily");
            object["spec"]["timeZone"] = json!(zone);
            let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
            check_create(&CronJob, object, &expected);
        }
    }
}
