//! Failures of requests that are passed on to other servers.

use super::{Details, Status, internal, plain};
use crate::error::{ConnectError, Subject};

pub(super) fn failed(error: &ConnectError) -> Status {
    match error {
        ConnectError::Unavailable(message) => plain(503, "ServiceUnavailable", message),
        // Without a reason, as in the reference.
        ConnectError::Failed(message) => plain(500, "", message),
        ConnectError::Refused { code, text, pod } => refused(*code, text, pod),
    }
}

/// The Status for the code and the text with which a kubelet refused a request for a log of `pod`.
fn refused(code: u16, text: &str, pod: &str) -> Status {
    let (reason, message) = match code {
        400 => return plain(400, "BadRequest", text),
        500 => return internal(text),
        401 => ("Unauthorized", "the server has asked for the client to provide credentials".to_owned()),
        403 => ("Forbidden", text.to_owned()),
        404 => ("NotFound", "the server could not find the requested resource".to_owned()),
        405 => (
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource".to_owned(),
        ),
        429 => (
            "TooManyRequests",
            "the server has received too many requests and has asked us to try again later".to_owned(),
        ),
        503 => ("ServiceUnavailable", "the server is currently unable to handle the request".to_owned()),
        504 => (
            "Timeout",
            "the server was unable to return a response in the time allotted, but may still be processing the request"
                .to_owned(),
        ),
        501.. => (
            "InternalError",
            format!(
                "an error on the server ({}) has prevented the request from succeeding",
                orch_schema::excerpt::quoted(text)
            ),
        ),
        _ => (
            "",
            format!("the server responded with the status code {code} but did not return more information"),
        ),
    };
    let subject = Subject { group: String::new(), kind: "pods/log".to_owned(), name: pod.to_owned() };
    let message = format!("{message} ( pods/log {pod})");
    // An answer below 400 is none that a client of this server would take for a failure.
    let code = if code < 400 { 500 } else { code };
    let details = Details { subject, ..Details::default() };
    Status { details: Some(details), ..plain(code, reason, &message) }
}
