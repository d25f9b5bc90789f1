//! Rules for updates of a job's status: counters do not go back, and what ends a job is complete and final.
//!
//! As in the reference, most rules bind only an update that changes something they are about: jobs that broke them
//! before stay writable.

use orch_schema::budget::Numbered;
use orch_schema::excerpt::quoted;
use orch_schema::value::Value;
use orch_schema::{Instant, Precision};

use crate::validate::metadata::nonnegative;
use crate::validate::tree::{Tree, is_unchanged, shown};
use crate::validate::{Distinct, FieldError, FieldErrorKind, FieldErrors, Path};

const COUNTS: [&str; 5] = ["active", "succeeded", "failed", "ready", "terminating"];

/// Conditions that stay once they are true, and how messages name them.
const FINAL: [(&str, &str); 4] = [
    ("Failed", "terminal Failed"),
    ("Complete", "terminal Complete"),
    ("FailureTarget", "terminal FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
];

/// Pairs of conditions that exclude each other.
const EXCLUSIVE: [(&str, &str); 4] = [
    ("Complete", "Failed"),
    ("Complete", "FailureTarget"),
    ("Failed", "SuccessCriteriaMet"),
    ("FailureTarget", "SuccessCriteriaMet"),
];

/// Conditions, and what has to be true before them.
const PRECEDED: [(&str, &str); 2] = [("Failed", "FailureTarget"), ("Complete", "SuccessCriteriaMet")];

/// An update of a status.
struct Update<'a> {
    spec: &'a Value,
    before: &'a Value,
    after: &'a Value,
}

/// Rules for a change of the status of a job, metadata excepted.
pub(super) fn validate_status_update(old: &Value, new: &Value) -> FieldErrors {
    let path = Path::new("status");
    let update = Update { spec: new.at("spec"), before: old.at("status"), after: new.at("status") };
    let mut errors: FieldErrors = COUNTS
        .into_iter()
        .filter_map(|field| nonnegative(update.after.int(field), path.child(field)))
        .collect();
    errors.extend(validate_uncounted(update.after, &path.child("uncountedTerminatedPods")));
    errors.extend(update.validate_conditions(&path.child("conditions")));
    errors.extend(update.validate_times(&path));
    errors.extend(update.validate_counts(&path));
    errors.extend(update.validate_end(&path));
    errors
}

impl Update<'_> {
    fn changes(&self, field: &str) -> bool {
        !is_unchanged(self.before.at(field), self.after.at(field))
    }

    fn is(&self, condition: &str) -> bool {
        is_true(self.after, condition)
    }

    fn changes_condition(&self, condition: &str) -> bool {
        is_true(self.before, condition) != self.is(condition)
    }

    fn is_finished(&self) -> bool {
        self.is("Complete") || self.is("Failed")
    }

    fn changes_end(&self) -> bool {
        let was_finished = is_true(self.before, "Complete") || is_true(self.before, "Failed");
        was_finished != self.is_finished()
    }

    fn validate_conditions(&self, path: &Path) -> FieldErrors {
        let mut details = Vec::new();
        for (one, other) in EXCLUSIVE {
            let changed = self.changes_condition(one) || self.changes_condition(other);
            if changed && self.is(one) && self.is(other) {
                details.push(format!("cannot set {one}=True and {other}=true conditions"));
            }
        }
        for (condition, first) in PRECEDED {
            let changed = self.changes_condition(condition) || self.changes_condition(first);
            if changed && self.is(condition) && !self.is(first) {
                details.push(format!(
                    "cannot set {condition}=True condition without the {first}=true condition"
                ));
            }
        }
        for (condition, name) in FINAL {
            if is_true(self.before, condition) && !self.is(condition) {
                details.push(format!("cannot disable the {name}=True condition"));
            }
        }
        let error = |detail: String| {
            let message = format!("Invalid value: {detail}");
            FieldError { path: path.clone(), kind: FieldErrorKind::Invalid, message }
        };
        details.into_iter().map(error).collect()
    }

    fn validate_times(&self, path: &Path) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (start, completion) = (path.child("startTime"), path.child("completionTime"));
        let (started, ended) = (self.after.at("startTime"), self.after.at("completionTime"));
        let changes_completion = self.changes("completionTime") || self.changes_condition("Complete");
        if self.before.has("startTime") && self.changes("startTime") && !self.spec.flag("suspend") {
            let detail = "field is immutable for unsuspended job once set";
            errors.push(FieldError::invalid(start.clone(), &shown(started), detail));
        }
        if changes_completion && !ended.is_null() && !self.is("Complete") {
            let detail = "cannot set completionTime when there is no Complete=True condition";
            errors.push(FieldError::invalid(completion.clone(), &shown(ended), detail));
        }
        if changes_completion && ended.is_null() && self.is("Complete") {
            errors.push(FieldError::required(
                completion.clone(),
                "completionTime is required for Complete jobs",
            ));
        }
        let is_reversed = seconds(started).zip(seconds(ended)).is_some_and(|(start, end)| end < start);
        if is_reversed && (self.changes("startTime") || self.changes("completionTime")) {
            let detail = "completionTime cannot be set before startTime";
            errors.push(FieldError::invalid(completion.clone(), &shown(ended), detail));
        }
        if self.before.has("completionTime") && !ended.is_null() && self.changes("completionTime") {
            errors.push(FieldError::invalid(completion, &shown(ended), "completionTime cannot be mutated"));
        }
        let never_ran = self.spec.flag("suspend") && self.spec.int("completions") == Some(0);
        let concerns_start = (self.changes_end() || self.changes("startTime")) && !never_ran;
        if concerns_start && started.is_null() && self.is_finished() {
            errors.push(FieldError::required(start, "startTime is required for finished job"));
        }
        errors
    }

    fn validate_counts(&self, path: &Path) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (before, after) = (self.before, self.after);
        let count = |status: &Value, field: &str| status.int(field).unwrap_or(0);
        // An indexed job that runs all of its pods at once may shrink.
        let is_elastic = self.spec.text("completionMode") == "Indexed"
            && self.spec.at("completions") == self.spec.at("parallelism");
        let counters = [("failed", true), ("succeeded", !is_elastic)];
        for (field, _) in counters.into_iter().filter(|(_, only_grows)| *only_grows) {
            if count(after, field) < count(before, field) {
                let detail = format!("cannot decrease the {field} counter");
                errors.push(FieldError::invalid(
                    path.child(field),
                    &count(after, field).to_string(),
                    &detail,
                ));
            }
        }
        let concerns_ready = self.changes("ready") || self.changes("active");
        let (ready, active) = (count(after, "ready"), count(after, "active"));
        if concerns_ready && after.has("ready") && ready > active {
            let detail = "cannot set more ready pods than active";
            errors.push(FieldError::invalid(path.child("ready"), &ready.to_string(), detail));
        }
        if self.changes("completedIndexes")
            && !after.text("completedIndexes").is_empty()
            && self.spec.text("completionMode") != "Indexed"
        {
            let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
            let indexes = after.text("completedIndexes");
            errors.push(FieldError::invalid_str(path.child("completedIndexes"), indexes, detail));
        }
        if self.changes("failedIndexes")
            && after.has("failedIndexes")
            && !self.spec.has("backoffLimitPerIndex")
        {
            let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            let indexes = after.text("failedIndexes");
            errors.push(FieldError::invalid_str(path.child("failedIndexes"), indexes, detail));
        }
        errors
    }

    /// Rules for a job that has ended: nothing of it runs or waits to be counted.
    fn validate_end(&self, path: &Path) -> FieldErrors {
        let mut errors = FieldErrors::new();
        if !self.is_finished() {
            return errors;
        }
        for field in ["active", "terminating"] {
            let count = self.after.int(field).unwrap_or(0);
            if count > 0 && (self.changes_end() || self.changes(field)) {
                let detail = format!("{field}>0 is invalid for finished job");
                errors.push(FieldError::invalid(path.child(field), &count.to_string(), &detail));
            }
        }
        let uncounted = self.after.at("uncountedTerminatedPods");
        // few: two lists.
        let has_some = ["succeeded", "failed"].into_iter().any(|list| !uncounted.items(list).is_empty());
        if has_some && (self.changes_end() || self.changes("uncountedTerminatedPods")) {
            let detail = "uncountedTerminatedPods needs to be empty for finished job";
            let path = path.child("uncountedTerminatedPods");
            errors.push(FieldError::invalid(path, &shown(uncounted), detail));
        }
        errors
    }
}

fn validate_uncounted(status: &Value, path: &Path) -> FieldErrors {
    let (uncounted, mut seen) = (status.at("uncountedTerminatedPods"), Distinct::new());
    let mut errors = FieldErrors::new();
    for list in ["succeeded", "failed"] {
        for (at, uid) in uncounted.texts(list).into_iter().numbered() {
            let path = path.child(list).index(at);
            if uid.is_empty() {
                errors.push(FieldError::invalid_str(path, uid, "must not be empty"));
            } else if seen.is_repeated(uid) {
                errors.push(FieldError::duplicate(path, &quoted(uid)));
            }
        }
    }
    errors
}

fn is_true(status: &Value, condition: &str) -> bool {
    let conditions = status.items("conditions");
    // few: asked a dozen times of one job.
    conditions.iter().any(|found| found.text("type") == condition && found.text("status") == "True")
}

fn seconds(time: &Value) -> Option<i64> {
    Instant::parse(time.as_str()?, Precision::Seconds).map(|instant| instant.seconds)
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;

    fn check(before: Value, after: Value, expected: &[&str]) {
        let job = |status: &Value| json!({"spec": {"completions": 2, "parallelism": 1}, "status": status});
        let errors = validate_status_update(&job(&before), &job(&after));
        let mut texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        texts.sort();
        assert_eq!(texts, expected, "{before} {after}");
    }

    fn conditions(names: &[&str]) -> Value {
        names.iter().map(|name| json!({"type": name, "status": "True"})).collect()
    }

    #[test]
    fn counters_only_grow_and_ready_pods_are_active() {
        let before = json!({"active": 1, "ready": 1, "failed": 2, "startTime": "2026-01-02T03:04:05Z"});
        check(
            before.clone(),
            json!({"active": 1, "ready": 2, "failed": 1, "startTime": null}),
            &[
                "status.failed: Invalid value: 1: cannot decrease the failed counter",
                "status.ready: Invalid value: 2: cannot set more ready pods than active",
                "status.startTime: Invalid value: null: field is immutable for unsuspended job once set",
            ],
        );
        let uncounted = json!({"succeeded": ["u", "u"], "failed": ["u"]});
        check(
            before,
            json!({"failed": 2, "startTime": "2026-01-02T03:04:05Z", "uncountedTerminatedPods": uncounted}),
            &[
                "status.uncountedTerminatedPods.failed[0]: Duplicate value: \"u\"",
                "status.uncountedTerminatedPods.succeeded[1]: Duplicate value: \"u\"",
            ],
        );
    }

    #[test]
    fn a_job_ends_once_and_completely() {
        let started = "2026-01-02T03:04:05Z";
        let running = json!({"active": 1, "startTime": started});
        check(
            running.clone(),
            json!({"active": 1, "startTime": started, "conditions": conditions(&["Complete", "Failed"])}),
            &[
                "status.active: Invalid value: 1: active>0 is invalid for finished job",
                "status.completionTime: Required value: completionTime is required for Complete jobs",
                "status.conditions: Invalid value: cannot set Complete=True and Failed=true conditions",
                "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
                "status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition",
            ],
        );
        let ended = json!({
            "startTime": started, "completionTime": "2026-01-02T03:05:05Z",
            "conditions": conditions(&["SuccessCriteriaMet", "Complete"])
        });
        check(running, ended.clone(), &[]);
        check(
            ended,
            json!({"startTime": started, "conditions": conditions(&["Failed"])}),
            &[
                "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
                "status.conditions: Invalid value: cannot disable the terminal Complete=True condition",
                "status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition",
            ],
        );
    }
}
