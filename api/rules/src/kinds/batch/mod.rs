//! batch/v1: Job and CronJob.
//!
//! Owns the rules that jobs and the job templates of cron jobs share.

mod cron_job;
mod job;
mod job_status;
mod schedule;

pub use cron_job::CronJob;
pub use job::Job;

use orch_schema::value::Value;

use crate::kinds::Context;
use crate::kinds::workload::validate_template;
use crate::validate::metadata::nonnegative;
use crate::validate::tree::Tree;
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

/// Rules for the spec of a job, its selector excepted.
fn validate_job_spec(context: &Context<'_>, spec: &Value, path: &Path) -> FieldErrors {
    let mut errors: FieldErrors =
        COUNTS.into_iter().filter_map(|field| nonnegative(spec.int(field), path.child(field))).collect();
    let known = ["NonIndexed", "Indexed"];
    match spec.at("completionMode").as_str() {
        Some("Indexed") if !spec.has("completions") => {
            let detail = "when completion mode is Indexed";
            errors.push(FieldError::required(path.child("completions"), detail));
        }
        Some(mode) if !known.contains(&mode) => {
            errors.push(FieldError::not_supported(path.child("completionMode"), mode, &known));
        }
        _ => {}
    }
    let policies = ["Failed", "TerminatingOrFailed"];
    if let Some(policy) = spec.at("podReplacementPolicy").as_str().filter(|policy| !policies.contains(policy))
    {
        errors.push(FieldError::not_supported(path.child("podReplacementPolicy"), policy, &policies));
    }
    let template = path.child("template");
    errors.extend(validate_template(context, spec.at("template"), &template));
    let restart = template.child("spec").child("restartPolicy");
    match spec.at("template").at("spec").text("restartPolicy") {
        "OnFailure" | "Never" => {}
        "" | "Always" => errors.push(FieldError::required(restart, "valid values: \"OnFailure\", \"Never\"")),
        other => errors.push(FieldError::not_supported(restart, other, &["OnFailure", "Never"])),
    }
    errors
}
