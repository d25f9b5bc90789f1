//! Counters and times of webhooks, under the reference's names.
//!
//! Owns their labels. A series has the name of a webhook, which administrators choose: the first [`NAMES_MAX`] names that
//! this process meets have series of their own, the rest share one, so that configurations that come and go cannot make
//! series without end.

use std::collections::HashSet;
use std::sync::LazyLock;

use ::metrics::{counter, gauge, histogram};
use parking_lot::Mutex;

use super::answer::Role;
use super::health::Change;
use super::prepared::Webhook;
use crate::admission::Operation;
use crate::admission::matching::{self, ConditionLabels, operation_name};

/// Names with series of their own: ten times what large clusters have. Each has some fifty series.
const NAMES_MAX: usize = 500;
/// Bytes of all of them.
const NAMES_BYTES_MAX: usize = NAMES_MAX * 64;
/// The name of all others.
const OTHERS: &str = "other";
/// Codes above count as this one, as in the reference.
const CODE_MAX: u16 = 600;

static NAMES: LazyLock<Mutex<(HashSet<String>, usize)>> = LazyLock::new(Mutex::default);

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// With an answer, and its code: 200 where it allows.
    Answered(u16),
    /// Without an answer that counts, and the code that this has.
    Uncalled(u16),
    /// By this server: the write cannot be sent, or the patch not be applied.
    Broken,
}

/// The end of a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) outcome: Outcome,
    /// The write is refused by it.
    pub(super) is_rejected: bool,
    pub(super) micros: u64,
}

/// The name of the series of `webhook`.
fn name(webhook: &Webhook) -> String {
    let mut names = NAMES.lock();
    let (known, bytes) = &mut *names;
    if known.contains(&*webhook.name) {
        return webhook.name.to_string();
    }
    if known.len() >= NAMES_MAX || *bytes + webhook.name.len() > NAMES_BYTES_MAX {
        return OTHERS.to_owned();
    }
    *bytes += webhook.name.len();
    known.insert(webhook.name.to_string());
    webhook.name.to_string()
}

fn step(role: Role) -> &'static str {
    match role {
        Role::Mutating => "admit",
        Role::Validating => "validating",
    }
}

#[expect(clippy::cast_precision_loss, reason = "a call takes less than half a minute")]
fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

/// Observes the end of a call.
pub(super) fn observe_call(webhook: &Webhook, of: Operation, ended: &Ended) {
    let (name, step, operation) = (name(webhook), step(webhook.role), operation_name(of));
    let rejected = if ended.is_rejected { "true" } else { "false" };
    let (error, code) = match ended.outcome {
        Outcome::Answered(code) => ("no_error", code.min(CODE_MAX)),
        Outcome::Uncalled(code) => ("calling_webhook_error", code.min(CODE_MAX)),
        Outcome::Broken => ("apiserver_internal_error", 0),
    };
    let code = code.to_string();
    histogram!(
        "apiserver_admission_webhook_admission_duration_seconds",
        "name" => name.clone(), "operation" => operation, "rejected" => rejected, "type" => step
    )
    .record(seconds(ended.micros));
    counter!(
        "apiserver_admission_webhook_request_total",
        "code" => code.clone(), "name" => name.clone(), "operation" => operation, "rejected" => rejected, "type" => step
    )
    .increment(1);
    if ended.is_rejected {
        counter!(
            "apiserver_admission_webhook_rejection_count",
            "error_type" => error, "name" => name, "operation" => operation, "rejection_code" => code, "type" => step
        )
        .increment(1);
    }
}

/// Counts a failure that was passed over.
pub(super) fn count_fail_open(webhook: &Webhook) {
    counter!("apiserver_admission_webhook_fail_open_count", "name" => name(webhook), "type" => step(webhook.role)).increment(1);
}

/// Counts a write that passed beside a webhook, `why`.
pub(super) fn count_passed(webhook: &Webhook, why: &'static str) {
    counter!(
        "orch_admission_webhook_passed_total",
        "name" => name(webhook), "reason" => why, "type" => step(webhook.role)
    )
    .increment(1);
}

/// Shows whether a webhook is dead.
pub(super) fn note_health(webhook: &Webhook, change: Change) {
    let dead = match change {
        Change::Died => 1.0,
        Change::CameBack => 0.0,
    };
    gauge!("orch_admission_webhook_dead", "name" => name(webhook), "type" => step(webhook.role)).set(dead);
}

/// Observes an evaluation of conditions that do not all hold, `errors` of which have no value.
pub(super) fn observe_unmet(webhook: &Webhook, of: Operation, errors: u64, micros: u64) {
    matching::observe_unmet(&condition_labels(webhook, of), errors, seconds(micros));
}

/// Counts a write that conditions keep from the webhook.
pub(super) fn count_excluded(webhook: &Webhook, of: Operation) {
    matching::count_excluded(&condition_labels(webhook, of));
}

fn condition_labels(webhook: &Webhook, of: Operation) -> ConditionLabels {
    matching::condition_labels("webhook", name(webhook), step(webhook.role), of)
}
