//! The Status of every error.

use orch_proto::brand::ORCH;
use orch_rules::validate::errors::FieldErrors;

use super::causes::CAUSES_BYTES_MAX;
use super::*;
use crate::error::ConnectError;

/// Whether the Status of `error` may carry `Retry-After`. The match has no wildcard,
/// so that a new variant has to be listed.
fn may_be_repeated(error: &ApiError) -> bool {
    match error {
        ApiError::DisruptionBudget { retry_after_seconds, .. } => *retry_after_seconds > 0,
        ApiError::NameGenerationExhausted(_)
        | ApiError::RevisionTooLarge { .. }
        | ApiError::NoRoom
        | ApiError::TooManyRequests { .. }
        | ApiError::Unavailable(_) => true,
        // The webhook knows whether a repetition helps.
        ApiError::DeniedByWebhook(denial) => {
            denial.details.as_ref().is_some_and(|details| details.retry_after_seconds > 0)
        }
        ApiError::NotFound(_)
        | ApiError::UnknownPath
        | ApiError::NoPage
        | ApiError::LimitReached(_)
        | ApiError::AlreadyExists(_)
        | ApiError::BeingDeleted(_)
        | ApiError::Conflict { .. }
        | ApiError::ApplyConflict { .. }
        | ApiError::Invalid { .. }
        | ApiError::BadRequest(_)
        | ApiError::UnprocessablePatch
        | ApiError::PatchResult(_)
        | ApiError::Unauthorized
        | ApiError::Forbidden { .. }
        | ApiError::DeniedByPolicy { .. }
        | ApiError::MethodNotAllowed
        | ApiError::Unserved { .. }
        | ApiError::NotAcceptable(_)
        | ApiError::UnsupportedMediaType(_)
        | ApiError::BodyTooLarge { .. }
        | ApiError::Expired { .. }
        | ApiError::OutcomeUnknown(_)
        | ApiError::DeadlineExceeded
        | ApiError::NothingChanged
        | ApiError::TooManyOperations(_)
        | ApiError::OverBudget(_)
        | ApiError::ObjectTooLarge(_)
        | ApiError::Unconverted(_)
        | ApiError::Unsupported(_)
        | ApiError::StateFull { .. }
        | ApiError::NoSpace { .. }
        // The request may have reached the other server.
        | ApiError::Connect(_)
        | ApiError::WebhookFailed(_)
        | ApiError::Internal(_) => false,
    }
}

fn one_of_each() -> Vec<ApiError> {
    let (subject, text) = (Subject::default, || "text".to_owned());
    vec![
        ApiError::NotFound(subject()),
        ApiError::UnknownPath,
        ApiError::NoPage,
        ApiError::AlreadyExists(subject()),
        ApiError::BeingDeleted(Box::new(ApiError::AlreadyExists(subject()))),
        ApiError::NameGenerationExhausted(subject()),
        ApiError::Conflict { subject: subject(), reason: text() },
        ApiError::ApplyConflict { message: text(), causes: Vec::new() },
        ApiError::Invalid { subject: subject(), errors: FieldErrors::new() },
        ApiError::BadRequest(text()),
        ApiError::UnprocessablePatch,
        ApiError::PatchResult(text()),
        ApiError::Unauthorized,
        ApiError::Forbidden { subject: subject(), message: text(), cause: None },
        ApiError::DeniedByPolicy {
            subject: subject(),
            message: text(),
            reason: crate::error::PolicyReason::Invalid,
            causes: vec![text()],
        },
        ApiError::DeniedByWebhook(Box::default()),
        ApiError::WebhookFailed(text()),
        ApiError::MethodNotAllowed,
        ApiError::Unserved { verb: "patch", subject: subject() },
        ApiError::NotAcceptable(NotAcceptable::MediaType),
        ApiError::UnsupportedMediaType(text()),
        ApiError::BodyTooLarge { limit: 1 },
        ApiError::StateFull { used: 1, quota: 1 },
        ApiError::NoSpace { members: text() },
        ApiError::Expired { message: text(), continue_token: None },
        ApiError::RevisionTooLarge { requested: 2, current: 1 },
        ApiError::OutcomeUnknown(text()),
        ApiError::DeadlineExceeded,
        ApiError::NothingChanged,
        ApiError::Unavailable(text()),
        ApiError::OverBudget(text()),
        ApiError::TooManyOperations(text()),
        ApiError::LimitReached(text()),
        ApiError::NoRoom,
        ApiError::TooManyRequests { retry_after_s: 1 },
        ApiError::ObjectTooLarge(text()),
        ApiError::Connect(ConnectError::Failed(text())),
        ApiError::DisruptionBudget { cause: text(), retry_after_seconds: 10 },
        ApiError::Unconverted(text()),
        ApiError::Unsupported(text()),
        ApiError::Internal(text()),
    ]
}

#[test]
fn only_errors_of_requests_that_changed_nothing_say_when_to_repeat_them() {
    let errors = one_of_each();
    let kinds: std::collections::HashSet<_> = errors.iter().map(std::mem::discriminant).collect();
    assert_eq!((errors.len(), kinds.len()), (41, 41), "a variant is missing");
    for error in errors {
        let status = Status::of(&error, &ORCH);
        assert_eq!(status.retry_after_seconds().is_some(), may_be_repeated(&error), "{error:?}");
        let document = status.to_value();
        let shown = document["details"].get("retryAfterSeconds").is_some();
        assert_eq!(shown, may_be_repeated(&error), "{error:?}: {document}");
    }
}

#[test]
fn an_unknown_outcome_is_a_timeout_that_says_so() {
    let status = Status::of(&ApiError::OutcomeUnknown("the leader changed".to_owned()), &ORCH);
    assert_eq!((status.code, &*status.reason), (504, "Timeout"));
    assert_eq!(
        status.message,
        "Timeout: the outcome of the request is unknown, it may or may not have been carried out: the leader changed"
    );
}

/// Every error that quotes a client's text: any length, as many escapes as characters.
fn one_of_each_with(text: &str) -> Vec<ApiError> {
    let subject = || Subject { group: text.to_owned(), kind: text.to_owned(), name: text.to_owned() };
    let path = orch_rules::validate::Path::new(text).key(text).child(text);
    let error = orch_rules::validate::FieldError::invalid_str(path, text, text);
    let causes = vec![(text.to_owned(), text.to_owned()); 100];
    vec![
        ApiError::NotFound(subject()),
        ApiError::AlreadyExists(subject()),
        ApiError::BeingDeleted(Box::new(ApiError::AlreadyExists(subject()))),
        ApiError::NameGenerationExhausted(subject()),
        ApiError::Conflict { subject: subject(), reason: text.to_owned() },
        ApiError::ApplyConflict { message: text.to_owned(), causes },
        ApiError::Invalid { subject: subject(), errors: std::iter::repeat_n(error, 200).collect() },
        ApiError::BadRequest(text.to_owned()),
        ApiError::PatchResult(text.to_owned()),
        ApiError::Forbidden {
            subject: subject(),
            message: text.to_owned(),
            cause: Some(("x", text.to_owned(), "y")),
        },
        ApiError::NotAcceptable(NotAcceptable::View(text.to_owned())),
        ApiError::UnsupportedMediaType(text.to_owned()),
        ApiError::Expired { message: text.to_owned(), continue_token: None },
        ApiError::Unavailable(text.to_owned()),
        ApiError::Connect(ConnectError::Refused { code: 502, text: text.to_owned(), pod: text.to_owned() }),
        ApiError::DisruptionBudget { cause: text.to_owned(), retry_after_seconds: 10 },
        ApiError::Unconverted(text.to_owned()),
        ApiError::Unsupported(text.to_owned()),
        ApiError::Internal(text.to_owned()),
    ]
}

#[test]
fn an_answer_is_bounded_by_its_own_bytes_whatever_an_error_repeats() {
    for piece in ["x", "\u{1}", "\"", "\\", "<", "\u{2028}"] {
        for error in one_of_each_with(&piece.repeat(200_000)) {
            let status = Status::of(&error, &ORCH);
            let mut answer = Vec::new();
            orch_schema::write_value(&status.to_value(), &mut answer);
            let texts_max = MESSAGE_BYTES_MAX + CAUSES_BYTES_MAX + 3 * DETAIL_BYTES_MAX;
            // The structure around the texts of a hundred causes: field names, quotes and commas.
            assert!(answer.len() < texts_max + 8 * 1024, "{piece:?}: {} bytes of {error:.60}", answer.len());
        }
    }
}
