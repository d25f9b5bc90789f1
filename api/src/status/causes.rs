//! Failures with causes, and the bounds of the causes in a response.

use std::collections::HashSet;

use orch_rules::validate::errors::{ERRORS_SHOWN_MAX, FieldErrors};
use orch_schema::excerpt::bytes_in_answer;

use super::{
    DETAIL_BYTES_MAX, Details, MESSAGE_BYTES_MAX, RETRY_AFTER_SECONDS, Status, about, named, truncate,
};
use crate::error::{PolicyReason, Subject, WebhookDenial};

/// Bytes of all causes together as the response holds them. The causes repeat the errors of the message.
pub(super) const CAUSES_BYTES_MAX: usize = MESSAGE_BYTES_MAX;

pub(super) fn invalid(subject: &Subject, errors: &FieldErrors) -> Status {
    let mut texts: Vec<String> = Vec::with_capacity(errors.shown().len() + 1);
    let mut told = HashSet::new();
    for text in errors.shown().iter().map(ToString::to_string) {
        if told.insert(text.clone()) {
            texts.push(text);
        }
    }
    if errors.has_more() {
        texts.push(format!("and more: {ERRORS_SHOWN_MAX} errors are shown"));
    }
    let told = if texts.len() == 1 { texts.remove(0) } else { format!("[{}]", texts.join(", ")) };
    let message = format!("{} is invalid: {told}", named(subject));
    let causes = errors
        .shown()
        .iter()
        .map(|error| (error.kind.reason().to_owned(), error.message.clone(), error.path.as_str().to_owned()));
    let details = Details { subject: subject.clone(), causes: causes.collect(), ..Details::default() };
    Status { code: 422, reason: "Invalid".into(), message, details: Some(details), ..Status::default() }
}

pub(super) fn patch_result(message: &str) -> Status {
    let cause = ("FieldValueInvalid".to_owned(), format!("Invalid value: {message}"), "patch".to_owned());
    let details = Details { causes: vec![cause], ..Details::default() };
    let message = format!(" \"\" is invalid: patch: Invalid value: {message}");
    Status { code: 422, reason: "Invalid".into(), message, details: Some(details), ..Status::default() }
}

pub(super) fn apply_conflict(message: &str, causes: &[(String, String)]) -> Status {
    let causes = causes
        .iter()
        .map(|(manager, field)| ("FieldManagerConflict".to_owned(), manager.clone(), field.clone()));
    let details = Details { causes: causes.collect(), ..Details::default() };
    Status {
        code: 409,
        reason: "Conflict".into(),
        message: message.to_owned(),
        details: Some(details),
        ..Status::default()
    }
}

pub(super) fn forbidden(
    subject: &Subject,
    message: &str,
    cause: Option<&(&'static str, String, &'static str)>,
) -> Status {
    let mut status = about(403, "Forbidden", message.to_owned(), subject);
    if let (Some(details), Some((reason, message, field))) = (status.details.as_mut(), cause) {
        details.causes.push(((*reason).to_owned(), message.clone(), (*field).to_owned()));
    }
    status
}

pub(super) fn denied_by_policy(
    subject: &Subject,
    message: &str,
    reason: PolicyReason,
    causes: &[String],
) -> Status {
    let (code, reason) = match reason {
        PolicyReason::Unauthorized => (401, "Unauthorized"),
        PolicyReason::Forbidden => (403, "Forbidden"),
        PolicyReason::Invalid => (422, "Invalid"),
        PolicyReason::InvalidMutation => (403, "Invalid"),
        PolicyReason::TooLarge => (413, "RequestEntityTooLarge"),
    };
    let mut status = about(code, reason, message.to_owned(), subject);
    if let Some(details) = status.details.as_mut() {
        details.causes = causes.iter().map(|cause| (String::new(), cause.clone(), String::new())).collect();
    }
    status
}

pub(super) fn disruption_budget(cause: &str, retry_after_seconds: u32) -> Status {
    let causes = vec![("DisruptionBudget".to_owned(), cause.to_owned(), String::new())];
    let details = Details { causes, retry_after_seconds, ..Details::default() };
    let message = "Cannot evict pod as it would violate the pod's disruption budget.".to_owned();
    Status {
        code: 429,
        reason: "TooManyRequests".into(),
        message,
        details: Some(details),
        ..Status::default()
    }
}

/// The answer of an admission webhook that refuses, with its details.
pub(super) fn denied_by_webhook(denial: &WebhookDenial) -> Status {
    let WebhookDenial { code, message, reason, details } = denial;
    let details = details.as_ref().map(|of| Details {
        subject: of.subject.clone(),
        uid: of.uid.clone(),
        causes: of.causes.clone(),
        retry_after_seconds: of.retry_after_seconds,
    });
    let (reason, message) = (reason.clone().into(), message.clone());
    Status { code: *code, reason, message, details, ..Status::default() }
}

pub(super) fn internal(message: &str) -> Status {
    let causes = vec![(String::new(), message.to_owned(), String::new())];
    let details = Details { causes, ..Details::default() };
    let message = format!("Internal error occurred: {message}");
    Status { code: 500, reason: "InternalError".into(), message, details: Some(details), ..Status::default() }
}

pub(super) fn too_large_revision(requested: u64, current: u64) -> Status {
    let cause =
        ("ResourceVersionTooLarge".to_owned(), "Too large resource version".to_owned(), String::new());
    let details =
        Details { causes: vec![cause], retry_after_seconds: RETRY_AFTER_SECONDS, ..Details::default() };
    let message = format!("Timeout: Too large resource version: {requested}, current: {current}");
    Status { code: 504, reason: "Timeout".into(), message, details: Some(details), ..Status::default() }
}

/// Cuts the texts of each cause, and drops the causes beyond [`CAUSES_BYTES_MAX`].
pub(super) fn bound_causes(causes: &mut Vec<(String, String, String)>) {
    let mut left = CAUSES_BYTES_MAX;
    let mut fit = 0;
    for (reason, message, field) in causes.iter_mut() {
        let mut bytes = 0;
        for text in [reason, message, field] {
            truncate(text, DETAIL_BYTES_MAX);
            bytes += bytes_in_answer(text);
        }
        let Some(rest) = left.checked_sub(bytes) else { break };
        left = rest;
        fit += 1;
    }
    causes.truncate(fit);
}
