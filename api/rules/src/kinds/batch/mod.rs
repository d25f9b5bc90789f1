//! batch/v1: Job and CronJob.
//!
//! Owns the rules that jobs and the job templates of cron jobs share.

mod cron_job;
mod job;
mod job_status;
mod policy;
mod schedule;

pub use cron_job::CronJob;
pub use job::Job;

use orch_schema::value::Value;

use self::policy::{validate_failure_policy, validate_success_policy};
use crate::Action;
use crate::kinds::Context;
use crate::kinds::workload::validate_template;
use crate::validate::metadata::nonnegative;
use crate::validate::prefixed_path::validate_domain_prefixed_path;
use crate::validate::tree::{Tree, shown};
use crate::validate::{FieldError, FieldErrors, Path};

const COUNTS: [&str; 7] = [
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
];

/// Most pods of a job with indexes at once, and most indexes that may fail.
const INDEXED_MAX: i64 = 100_000;
/// The same for a job with more completions than [`INDEXED_MAX`] and a backoff limit for each index.
const HIGH_INDEXED_MAX: i64 = 10_000;
/// Longest name of the controller of a job, in bytes.
const MANAGER_LENGTH_MAX: usize = 63;
const REPLACEMENTS: [&str; 2] = ["Failed", "TerminatingOrFailed"];

/// Rules for the spec of a job, its selector excepted.
fn validate_job_spec(context: &Context<'_>, spec: &Value, path: &Path) -> FieldErrors {
    let mut errors: FieldErrors =
        COUNTS.into_iter().filter_map(|field| nonnegative(spec.int(field), path.child(field))).collect();
    if spec.has("maxFailedIndexes") && !spec.has("backoffLimitPerIndex") {
        let detail = "when maxFailedIndexes is specified";
        errors.push(FieldError::required(path.child("backoffLimitPerIndex"), detail));
    }
    if let Some(manager) = spec.at("managedBy").as_str() {
        let path = path.child("managedBy");
        errors.extend(validate_domain_prefixed_path(manager, &path));
        if manager.len() > MANAGER_LENGTH_MAX {
            errors.push(FieldError::too_long(path, MANAGER_LENGTH_MAX));
        }
    }
    errors.extend(validate_completion_mode(spec, path));
    if spec.has("podFailurePolicy") {
        errors.extend(validate_failure_policy(spec, &path.child("podFailurePolicy")));
    }
    if spec.has("successPolicy") {
        let path = path.child("successPolicy");
        if spec.text("completionMode") == "Indexed" {
            errors.extend(validate_success_policy(spec, &path));
        } else {
            let shown = shown(spec.at("successPolicy"));
            errors.push(FieldError::invalid(path, &shown, "requires indexed completion mode"));
        }
    }
    let replacements = if spec.has("podFailurePolicy") { &REPLACEMENTS[..1] } else { &REPLACEMENTS[..] };
    // few: at most two policies.
    let replacement =
        spec.at("podReplacementPolicy").as_str().filter(|policy| !replacements.contains(policy));
    if let Some(policy) = replacement {
        errors.push(FieldError::not_supported(path.child("podReplacementPolicy"), policy, replacements));
    }
    let template = path.child("template");
    errors.extend(validate_template(context, spec.at("template"), &template));
    let restart = template.child("spec").child("restartPolicy");
    match spec.at("template").at("spec").text("restartPolicy") {
        "OnFailure" if spec.has("podFailurePolicy") => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.push(FieldError::invalid_str(restart, "OnFailure", detail));
        }
        "OnFailure" | "Never" => {}
        "" | "Always" => errors.push(FieldError::required(restart, "valid values: \"OnFailure\", \"Never\"")),
        other => errors.push(FieldError::not_supported(restart, other, &["OnFailure", "Never"])),
    }
    errors
}

/// The warning about a job, whose spec stands at `path`, with more indexes than its controller may be able to follow.
fn warn_about_indexes(context: &Context<'_>, spec: &Value, path: &Path) -> Option<String> {
    let exceeds = |field: &str, limit: i64| spec.int(field).is_some_and(|count| count > limit);
    let is_large = spec.text("completionMode") == "Indexed"
        && exceeds("completions", INDEXED_MAX)
        && exceeds("parallelism", HIGH_INDEXED_MAX);
    (is_large && context.action == Action::Object).then(|| {
        format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, {} \
             might not be able to track completedIndexes when a big number of indexes fail",
            context.brand.product
        )
    })
}

fn validate_completion_mode(spec: &Value, path: &Path) -> FieldErrors {
    let known = ["NonIndexed", "Indexed"];
    let mut errors = FieldErrors::new();
    match spec.at("completionMode").as_str() {
        Some("Indexed") => errors.extend(validate_indexed(spec, path)),
        None | Some("NonIndexed") => {
            for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if let Some(limit) = spec.int(field) {
                    let detail = "requires indexed completion mode";
                    errors.push(FieldError::invalid(path.child(field), &limit.to_string(), detail));
                }
            }
        }
        Some(mode) => errors.push(FieldError::not_supported(path.child("completionMode"), mode, &known)),
    }
    errors
}

/// Bounds of a job whose pods have indexes.
fn validate_indexed(spec: &Value, path: &Path) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut refuse = |field: &str, value: i64, detail: &str| {
        errors.push(FieldError::invalid(path.child(field), &value.to_string(), detail));
    };
    let (parallelism, failed) = (spec.int("parallelism"), spec.int("maxFailedIndexes"));
    if let Some(parallelism) = parallelism.filter(|count| *count > INDEXED_MAX) {
        let detail = format!("must be less than or equal to {INDEXED_MAX} when completion mode is Indexed");
        refuse("parallelism", parallelism, &detail);
    }
    let Some(completions) = spec.int("completions") else {
        let path = path.child("completions");
        errors.push(FieldError::required(path, "when completion mode is Indexed"));
        return errors;
    };
    if let Some(failed) = failed.filter(|count| *count > completions) {
        refuse("maxFailedIndexes", failed, "must be less than or equal to completions");
    }
    if let Some(failed) = failed.filter(|count| *count > INDEXED_MAX) {
        refuse("maxFailedIndexes", failed, &format!("must be less than or equal to {INDEXED_MAX}"));
    }
    if completions > INDEXED_MAX && spec.has("backoffLimitPerIndex") {
        let detail = format!(
            "must be less than or equal to {HIGH_INDEXED_MAX} when completions are above {INDEXED_MAX} and used with \
             backoff limit per index"
        );
        for (field, count) in [("parallelism", parallelism), ("maxFailedIndexes", failed)] {
            if let Some(count) = count.filter(|count| *count > HIGH_INDEXED_MAX) {
                refuse(field, count, &detail);
            }
        }
        if failed.is_none() {
            let detail = format!("must be specified when completions is above {INDEXED_MAX}");
            errors.push(FieldError::required(path.child("maxFailedIndexes"), &detail));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;
    use crate::kinds::Strategy;
    use crate::kinds::testing::CONTEXT;

    #[test]
    fn many_indexes_at_once_are_warned_of() {
        let told = "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Orch \
                    might not be able to track completedIndexes when a big number of indexes fail";
        let (job, cron_job) = (format!("spec: {told}"), format!("spec.jobTemplate.spec: {told}"));
        let status = Context { action: Action::Status, ..CONTEXT };
        for (completions, parallelism, mode, is_told) in [
            (100_001, 10_001, "Indexed", true),
            (100_000, 10_001, "Indexed", false),
            (100_001, 10_000, "Indexed", false),
            (100_001, 10_001, "NonIndexed", false),
        ] {
            let spec =
                json!({"completions": completions, "parallelism": parallelism, "completionMode": mode});
            let told = |text: &str| if is_told { vec![text.to_owned()] } else { Vec::new() };
            let old = json!({"metadata": {"name": "n", "generation": 1}});
            let object = json!({"metadata": {"name": "n", "generation": 2}, "spec": spec.clone()});
            assert_eq!(Job.warnings(&CONTEXT, Some(&old), &object), told(&job), "{object}");
            assert!(Job.warnings(&CONTEXT, Some(&object), &object).is_empty());
            assert!(Job.warnings(&status, Some(&object), &object).is_empty());
            let object =
                json!({"metadata": {"name": "n", "generation": 2}, "spec": {"jobTemplate": {"spec": spec}}});
            assert_eq!(CronJob.warnings(&CONTEXT, Some(&old), &object), told(&cron_job), "{object}");
            assert!(CronJob.warnings(&CONTEXT, Some(&object), &object).is_empty());
        }
    }
}
