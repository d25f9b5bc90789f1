//! What every error is answered with.

use orch_proto::brand::ORCH;

use super::*;

/// Whether the Status of `error` may carry `Retry-After`. The match has no wildcard,
/// so that a new variant has to be listed.
fn may_be_repeated(error: &ApiError) -> bool {
    match error {
        ApiError::NameGenerationExhausted(_)
        | ApiError::RevisionTooLarge { .. }
        | ApiError::TooMuchHeld
        | ApiError::Unavailable(_) => true,
        ApiError::NotFound(_)
        | ApiError::UnknownPath
        | ApiError::NoPage
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
        | ApiError::MethodNotAllowed
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
        | ApiError::StateFull { .. }
        | ApiError::NoSpace { .. }
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
        ApiError::MethodNotAllowed,
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
        ApiError::TooMuchHeld,
        ApiError::ObjectTooLarge(text()),
        ApiError::Internal(text()),
    ]
}

#[test]
fn only_errors_of_requests_that_changed_nothing_say_when_to_repeat_them() {
    let errors = one_of_each();
    let kinds: std::collections::HashSet<_> = errors.iter().map(std::mem::discriminant).collect();
    assert_eq!((errors.len(), kinds.len()), (31, 31), "a variant is missing");
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
    assert_eq!((status.code, status.reason), (504, "Timeout"));
    assert_eq!(
        status.message,
        "Timeout: the outcome of the request is unknown, it may or may not have been carried out: the leader changed"
    );
}
