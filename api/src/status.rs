//! Failures as Status documents: the only place that maps errors to HTTP codes and the interface's wording.
//!
//! Owns the mapping, exhaustively. It never logs and never decides which error occurred.

mod causes;
mod connect;

use std::borrow::Cow;

use causes::{
    apply_conflict, bound_causes, denied_by_policy, denied_by_webhook, disruption_budget, forbidden,
    internal, invalid, patch_result, too_large_revision,
};
use orch_proto::Brand;
use orch_schema::excerpt::quoted;
use orch_schema::excerpt::{fitting, mark};
use orch_schema::json;
use orch_schema::value::{Map, Value};

use crate::error::{ApiError, NotAcceptable, Subject};

/// A Status document before it is encoded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Status {
    /// HTTP status code; 0 (success) omits the field.
    pub code: u16,
    /// Machine-readable reason; empty omits the field.
    pub reason: Cow<'static, str>,
    /// Human-readable message; empty omits the field.
    pub message: String,
    /// `metadata.continue` of an expired list, if it can be continued.
    pub continue_token: Option<String>,
    /// `details`; `None` omits the field.
    pub details: Option<Details>,
}

/// `details` of a Status.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    /// Group, kind or resource, and name.
    pub subject: Subject,
    /// Uid of the object, for successful deletes; empty omits the field.
    pub uid: String,
    /// Reason, message and field of each cause.
    pub causes: Vec<(String, String, String)>,
    /// Seconds after which a retry may work; 0 omits the field.
    pub retry_after_seconds: u32,
}

/// Seconds that a client should wait before it repeats a request that this node could not serve. Ecosystem clients
/// repeat any request whose 429 or 5xx response carries this time, writes included: only responses to requests that
/// certainly changed nothing carry it.
const RETRY_AFTER_SECONDS: u32 = 1;

/// Bytes of a message as the response holds it: a hundred errors, each with the shown part of a value and 200 bytes
/// around it. The response holds the message while its client reads slowly.
const MESSAGE_BYTES_MAX: usize = 72 * 1024;

/// Bytes of any other text of a Status, and of one cause: the longest error of one field.
const DETAIL_BYTES_MAX: usize = 8 * 1024;

impl Status {
    /// The Status for a delete that removed the object.
    pub fn deleted(subject: Subject, uid: String) -> Self {
        Status { details: Some(Details { subject, uid, ..Details::default() }), ..Status::default() }
    }

    /// The Status for a request that was carried out and leaves nothing to show.
    pub fn created() -> Self {
        Status { code: 201, ..Status::default() }
    }

    /// The Status for a request whose credentials were refused.
    pub fn unauthorized() -> Self {
        plain(401, "Unauthorized", "Unauthorized")
    }

    /// The Status for a failure, with the names of `brand`, cut to its bounds.
    pub fn of(error: &ApiError, brand: &Brand) -> Self {
        Self::from_error(error, brand).bounded()
    }

    /// Cuts all texts: a name, a uid or a version that a client sent may be as long as the body. Every failure passes
    /// through here.
    fn bounded(mut self) -> Self {
        truncate(&mut self.message, MESSAGE_BYTES_MAX);
        if self.reason.len() > DETAIL_BYTES_MAX {
            truncate(self.reason.to_mut(), DETAIL_BYTES_MAX);
        }
        if let Some(Details { subject, uid, causes, .. }) = &mut self.details {
            for text in [&mut subject.group, &mut subject.kind, &mut subject.name, uid] {
                truncate(text, DETAIL_BYTES_MAX);
            }
            bound_causes(causes);
        }
        self
    }

    #[expect(clippy::too_many_lines, reason = "one flat match over every error, most a line each")]
    fn from_error(error: &ApiError, brand: &Brand) -> Self {
        match error {
            ApiError::NotFound(subject) => {
                about(404, "NotFound", format!("{} not found", named(subject)), subject)
            }
            ApiError::UnknownPath | ApiError::NoPage => {
                generic(404, "NotFound", "the server could not find the requested resource".to_owned())
            }
            ApiError::AlreadyExists(subject) => {
                about(409, "AlreadyExists", format!("{} already exists", named(subject)), subject)
            }
            ApiError::BeingDeleted(error) => {
                let status = Status::of(error, brand);
                Status { message: format!("object is being deleted: {}", status.message), ..status }
            }
            ApiError::NameGenerationExhausted(subject) => exhausted(subject),
            ApiError::Conflict { subject, reason } => {
                let message = format!("Operation cannot be fulfilled on {}: {reason}", named(subject));
                about(409, "Conflict", message, subject)
            }
            ApiError::ApplyConflict { message, causes } => apply_conflict(message, causes),
            ApiError::Invalid { subject, errors } => invalid(subject, errors),
            ApiError::BadRequest(message) => plain(400, "BadRequest", message),
            ApiError::UnprocessablePatch => {
                let message = "the server rejected our request due to an error in our request";
                generic(422, "Invalid", message.to_owned())
            }
            ApiError::PatchResult(message) => patch_result(message),
            ApiError::Unauthorized => Status::unauthorized(),
            ApiError::Forbidden { subject, message, cause } => forbidden(subject, message, cause.as_ref()),
            ApiError::DeniedByPolicy { subject, message, reason, causes } => {
                denied_by_policy(subject, message, *reason, causes)
            }
            ApiError::DeniedByWebhook(denial) => denied_by_webhook(denial),
            ApiError::MethodNotAllowed => {
                let message = "the server does not allow this method on the requested resource";
                generic(405, "MethodNotAllowed", message.to_owned())
            }
            ApiError::Unserved { verb, subject } => {
                let resource = format!("{}.{}", subject.kind, subject.group);
                let message = format!("{verb} is not supported on resources of kind {resource:?}");
                let details = Some(Details { subject: subject.clone(), ..Details::default() });
                Status { details, ..plain(405, "MethodNotAllowed", &message) }
            }
            ApiError::NotAcceptable(which) => not_acceptable(which, brand),
            ApiError::UnsupportedMediaType(message) if message.starts_with("415") => {
                generic(415, "UnsupportedMediaType", message.clone())
            }
            ApiError::UnsupportedMediaType(message) => plain(415, "UnsupportedMediaType", message),
            ApiError::BodyTooLarge { limit } => {
                let message = format!("Request entity too large: limit is {limit}");
                plain(413, "RequestEntityTooLarge", &message)
            }
            ApiError::Expired { message, continue_token } => {
                let status = plain(410, "Expired", message);
                Status { continue_token: continue_token.clone(), ..status }
            }
            ApiError::RevisionTooLarge { requested, current } => too_large_revision(*requested, *current),
            ApiError::OutcomeUnknown(reason) => {
                let message = format!(
                    "Timeout: the outcome of the request is unknown, it may or may not have been carried out: {reason}"
                );
                // Without `Retry-After`: clients of the reference repeat a POST that is answered with it.
                generic(504, "Timeout", message)
            }
            ApiError::DeadlineExceeded => {
                let message = "Timeout: request did not complete within the allotted timeout";
                generic(504, "Timeout", message.to_owned())
            }
            ApiError::NothingChanged => {
                let message =
                    "Timeout: request did not complete within the allotted timeout: nothing was changed";
                generic(504, "Timeout", message.to_owned())
            }
            ApiError::Unavailable(reason) => with_retry_after(
                503,
                "ServiceUnavailable",
                format!("the server is currently unable to handle the request: {reason}"),
            ),
            ApiError::NoRoom => with_retry_after(
                429,
                "TooManyRequests",
                "too many requests: the answers that are under way must be taken first".to_owned(),
            ),
            // Without `Retry-After`, as in the reference: clients drop such events.
            ApiError::LimitReached(reason) => {
                plain(429, "TooManyRequests", &format!("Too many requests: {reason}"))
            }
            ApiError::TooManyRequests { retry_after_s } => with_retry_after_of(
                429,
                "TooManyRequests",
                "Too many requests, please try again later.".to_owned(),
                *retry_after_s,
            ),
            ApiError::TooManyOperations(message) => {
                plain(413, "RequestEntityTooLarge", &format!("Request entity too large: {message}"))
            }
            ApiError::OverBudget(message) => {
                plain(413, "RequestEntityTooLarge", &format!("Request entity too large: {message}"))
            }
            ApiError::DisruptionBudget { cause, retry_after_seconds } => {
                disruption_budget(cause, *retry_after_seconds)
            }
            ApiError::Unsupported(message) | ApiError::Unconverted(message) => plain(500, "", message),
            // Clients know this message of etcd. It has no reason, as in the reference.
            ApiError::ObjectTooLarge(_) => plain(500, "", "etcdserver: request is too large"),
            // Without `Retry-After`: only freed space or a higher quota helps.
            ApiError::StateFull { used, quota } => {
                let message = format!(
                    "the cluster's state is full: objects use {used} of {quota} bytes (--state-quota); objects can be \
                     deleted, and updated if that does not make them larger"
                );
                plain(507, "InsufficientStorage", &message)
            }
            ApiError::NoSpace { members } => {
                let message = format!(
                    "little space is left on the disks of members: {members} (--disk-reserve); objects can be deleted, \
                     and updated if that does not make them larger, those over 64 KiB only to make them smaller by an eighth"
                );
                plain(507, "InsufficientStorage", &message)
            }
            ApiError::Connect(error) => connect::failed(error),
            ApiError::Internal(message) | ApiError::WebhookFailed(message) => internal(message),
        }
    }

    /// The Status document, fields in the reference's order.
    pub fn to_value(&self) -> Value {
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".to_owned(), json!(token));
        }
        let mut document = Map::new();
        document.insert("kind".to_owned(), json!("Status"));
        document.insert("apiVersion".to_owned(), json!("v1"));
        document.insert("metadata".to_owned(), Value::Object(metadata));
        let outcome = if self.code < 300 { "Success" } else { "Failure" };
        document.insert("status".to_owned(), json!(outcome));
        insert_text(&mut document, "message", &self.message);
        insert_text(&mut document, "reason", &self.reason);
        if let Some(details) = &self.details {
            document.insert("details".to_owned(), details.to_value());
        }
        if self.code != 0 {
            document.insert("code".to_owned(), json!(self.code));
        }
        Value::Object(document)
    }

    /// Seconds for the `Retry-After` header, if any.
    pub fn retry_after_seconds(&self) -> Option<u32> {
        self.details.as_ref().map(|details| details.retry_after_seconds).filter(|&seconds| seconds > 0)
    }
}

impl Details {
    fn to_value(&self) -> Value {
        let mut details = Map::new();
        insert_text(&mut details, "name", &self.subject.name);
        insert_text(&mut details, "group", &self.subject.group);
        insert_text(&mut details, "kind", &self.subject.kind);
        insert_text(&mut details, "uid", &self.uid);
        if !self.causes.is_empty() {
            let causes = self.causes.iter().map(|(reason, message, field)| {
                let mut cause = Map::new();
                insert_text(&mut cause, "reason", reason);
                insert_text(&mut cause, "message", message);
                insert_text(&mut cause, "field", field);
                Value::Object(cause)
            });
            details.insert("causes".to_owned(), causes.collect());
        }
        if self.retry_after_seconds > 0 {
            details.insert("retryAfterSeconds".to_owned(), json!(self.retry_after_seconds));
        }
        Value::Object(details)
    }
}

/// Cuts `text` so that it takes at most `bytes_max` in the response, and marks the cut.
fn truncate(text: &mut String, bytes_max: usize) {
    let (bytes, fitting) = (text.len(), fitting(text, bytes_max).len());
    if bytes > fitting {
        text.truncate(fitting);
        text.push_str(&mark(bytes));
        text.shrink_to_fit();
    }
}

fn insert_text(into: &mut Map, name: &str, text: &str) {
    if !text.is_empty() {
        into.insert(name.to_owned(), json!(text));
    }
}

fn plain(code: u16, reason: &'static str, message: &str) -> Status {
    Status { code, reason: reason.into(), message: message.to_owned(), ..Status::default() }
}

/// A Status with empty `details`, like the reference's generic errors.
fn generic(code: u16, reason: &'static str, message: String) -> Status {
    Status { code, reason: reason.into(), message, details: Some(Details::default()), ..Status::default() }
}

fn about(code: u16, reason: &'static str, message: String, subject: &Subject) -> Status {
    let details = Details { subject: subject.clone(), ..Details::default() };
    Status { code, reason: reason.into(), message, details: Some(details), ..Status::default() }
}

/// A Status with `Retry-After`, for requests that certainly changed nothing.
fn with_retry_after(code: u16, reason: &'static str, message: String) -> Status {
    with_retry_after_of(code, reason, message, RETRY_AFTER_SECONDS)
}

/// The same, after `seconds`.
fn with_retry_after_of(code: u16, reason: &'static str, message: String, seconds: u32) -> Status {
    let details = Details { retry_after_seconds: seconds, ..Details::default() };
    Status { code, reason: reason.into(), message, details: Some(details), ..Status::default() }
}

/// Qualified resource or kind, and name: `configmaps "a"`.
fn named(subject: &Subject) -> String {
    format!("{} {}", subject.qualified(), quoted(&subject.name))
}

fn exhausted(subject: &Subject) -> Status {
    let message = format!(
        "{} already exists, the server was not able to generate a unique name for the object",
        named(subject)
    );
    let details =
        Details { subject: subject.clone(), retry_after_seconds: RETRY_AFTER_SECONDS, ..Details::default() };
    Status { code: 409, reason: "AlreadyExists".into(), message, details: Some(details), ..Status::default() }
}

fn not_acceptable(which: &NotAcceptable, brand: &Brand) -> Status {
    let protobuf = brand.protobuf_media_type;
    match which {
        NotAcceptable::MediaType => {
            let list = format!(
                "application/json, application/yaml, {protobuf}, application/json;stream=watch, {protobuf};stream=watch"
            );
            generic(406, "NotAcceptable", available(&list))
        }
        NotAcceptable::Alone(media_type) => generic(406, "NotAcceptable", available(media_type)),
        NotAcceptable::Parameters => {
            let list = format!("application/json, application/yaml, {protobuf}");
            let message = format!("only the following media types are accepted: {list}");
            plain(406, "NotAcceptable", &message)
        }
        NotAcceptable::Stream => {
            let list = format!("application/json;stream=watch, {protobuf};stream=watch");
            let message = format!("only the following media types are accepted: {list}");
            plain(406, "NotAcceptable", &message)
        }
        NotAcceptable::View(message) => plain(406, "NotAcceptable", message),
    }
}

/// The message of a 406 for a path whose documents exist in the media types of `list`.
fn available(list: &str) -> String {
    format!("406: Not Acceptable\n\nAvailable representations: {list}")
}

#[cfg(test)]
mod tests;
