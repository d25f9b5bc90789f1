//! Errors of requests, and the server's `Status`.
//!
//! Owns the facts by which callers decide: the refusal, its reason, the time of the next attempt, and whether a write may have happened.

use std::time::Duration;

use orch_serving::Causes;

use crate::api::meta::v1::Status;

use super::credentials::CredentialError;

/// The reason of a refusal, as the server's `Status` gives it. Unknown ones are [`Reason::Other`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The object does not exist.
    NotFound,
    /// An object of this name exists.
    AlreadyExists,
    /// The object changed since it was read, or its state forbids the operation.
    Conflict,
    /// The history that was asked for is gone (410).
    Expired,
    /// No or bad credentials.
    Unauthorized,
    /// The user may not do this.
    Forbidden,
    /// The object does not pass validation.
    Invalid,
    /// Refused for now: a limit of requests, or a disruption budget (429).
    TooManyRequests,
    /// Any other.
    Other,
}

/// A refusal by the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiStatus {
    /// The HTTP status code.
    pub code: u16,
    /// The reason in the status.
    pub reason: Reason,
    /// The server's message.
    pub message: String,
    /// The causes that the server gives, by their `reason`.
    pub causes: Vec<String>,
    /// When the server wants to be asked again.
    pub retry_after: Option<Duration>,
}

impl ApiStatus {
    /// Reads what the server said, and from the code alone if it said nothing that is understood.
    pub(super) fn new(code: u16, status: Option<Status>, retry_after: Option<Duration>) -> Self {
        let status = status.unwrap_or_default();
        let details = status.details.unwrap_or_default();
        let told = u64::try_from(details.retry_after_seconds).ok().filter(|seconds| *seconds > 0);
        let message = if status.message.is_empty() { format!("status {code}") } else { status.message };
        Self {
            code,
            reason: reason(&status.reason, code),
            message,
            causes: details.causes.into_iter().map(|cause| cause.reason).collect(),
            retry_after: retry_after.or(told.map(Duration::from_secs)),
        }
    }

    /// Whether a write was refused because the namespace is going away, which no later attempt changes.
    pub fn is_namespace_terminating(&self) -> bool {
        self.causes.iter().any(|cause| cause == "NamespaceTerminating")
    }
}

fn reason(text: &str, code: u16) -> Reason {
    match (text, code) {
        ("NotFound", _) | ("", 404) => Reason::NotFound,
        ("AlreadyExists", _) => Reason::AlreadyExists,
        ("Conflict", _) | ("", 409) => Reason::Conflict,
        ("Expired" | "Gone", _) | ("", 410) => Reason::Expired,
        ("Unauthorized", _) | ("", 401) => Reason::Unauthorized,
        ("Forbidden", _) | ("", 403) => Reason::Forbidden,
        ("Invalid", _) | ("", 422) => Reason::Invalid,
        ("TooManyRequests", _) | ("", 429) => Reason::TooManyRequests,
        _ => Reason::Other,
    }
}

/// The reason why a request has no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server refused.
    #[error("the server refused {what}: {} ({})", .status.message, .status.code)]
    Api {
        /// Verb and path.
        what: String,
        /// Status of the response.
        status: Box<ApiStatus>,
    },
    /// No server could be reached; nothing was sent.
    #[error("cannot connect for {what}")]
    Connect {
        /// Verb and path.
        what: String,
        /// Error of the last attempt.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The connection broke, or the answer did: a write may have happened.
    #[error("lost the answer to {what}: {problem}")]
    Lost {
        /// Verb and path.
        what: String,
        /// The fault, in words.
        problem: String,
    },
    /// No answer in time: a write may have happened.
    #[error("no answer to {what} within {after:?}")]
    Timeout {
        /// Verb and path.
        what: String,
        /// The limit.
        after: Duration,
    },
    /// The answer is not what the API promises.
    #[error("cannot read the answer to {what}: {problem}")]
    Answer {
        /// Verb and path.
        what: String,
        /// The fault, in words.
        problem: String,
    },
    /// There are no credentials.
    #[error("no credentials for the API server")]
    Credentials(#[from] CredentialError),
    /// The request cannot be written.
    #[error("cannot make a request of {what}: {problem}")]
    Request {
        /// Verb and path.
        what: String,
        /// The fault, in words.
        problem: String,
    },
}

impl Error {
    /// The server's refusal, if that is what happened.
    pub fn status(&self) -> Option<&ApiStatus> {
        match self {
            Error::Api { status, .. } => Some(status),
            _ => None,
        }
    }

    /// Whether the server refused for `reason`.
    pub fn is(&self, reason: Reason) -> bool {
        self.status().is_some_and(|status| status.reason == reason)
    }

    /// Whether a write may have happened all the same: the answer was lost, or the server failed in the middle.
    pub fn is_outcome_unknown(&self) -> bool {
        match self {
            Error::Lost { .. } | Error::Timeout { .. } | Error::Answer { .. } => true,
            Error::Api { status, .. } => status.code >= 500 && status.retry_after.is_none(),
            Error::Connect { .. } | Error::Credentials(_) | Error::Request { .. } => false,
        }
    }
}

/// An error with its sources, as one line of a log.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    Causes(error).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::meta::v1::{StatusCause, StatusDetails};

    #[test]
    fn the_reason_of_the_status_wins_over_the_code() {
        let check = |text: &str, code, expected| {
            let status = Status { reason: text.to_owned(), ..Status::default() };
            assert_eq!(ApiStatus::new(code, Some(status), None).reason, expected, "{text} {code}");
        };
        check("AlreadyExists", 409, Reason::AlreadyExists);
        check("Conflict", 409, Reason::Conflict);
        check("", 409, Reason::Conflict);
        check("Expired", 410, Reason::Expired);
        check("", 410, Reason::Expired);
        check("", 404, Reason::NotFound);
        check("Timeout", 504, Reason::Other);
        check("", 500, Reason::Other);
    }

    #[test]
    fn a_missing_status_leaves_the_code() {
        let status = ApiStatus::new(503, None, Some(Duration::from_secs(3)));
        assert_eq!(
            (status.message.as_str(), status.retry_after),
            ("status 503", Some(Duration::from_secs(3)))
        );
    }

    #[test]
    fn details_give_the_causes_and_the_time_of_the_next_attempt() {
        let details = StatusDetails {
            causes: vec![StatusCause { reason: "NamespaceTerminating".to_owned(), ..StatusCause::default() }],
            retry_after_seconds: 2,
            ..StatusDetails::default()
        };
        let status = Status { details: Some(details), reason: "Forbidden".to_owned(), ..Status::default() };
        let status = ApiStatus::new(403, Some(status), None);
        assert!(status.is_namespace_terminating());
        assert_eq!(status.retry_after, Some(Duration::from_secs(2)));
    }

    #[test]
    fn only_lost_answers_and_failures_of_the_server_leave_a_write_in_doubt() {
        let api = |code, retry_after| Error::Api {
            what: "POST /x".to_owned(),
            status: Box::new(ApiStatus::new(code, None, retry_after)),
        };
        assert!(api(500, None).is_outcome_unknown());
        assert!(api(504, None).is_outcome_unknown());
        assert!(!api(503, Some(Duration::from_secs(1))).is_outcome_unknown());
        assert!(!api(409, None).is_outcome_unknown());
        let lost = Error::Lost { what: String::new(), problem: String::new() };
        assert!(lost.is_outcome_unknown());
    }
}
