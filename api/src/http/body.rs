//! Reading a request's body: never more than the limit, whatever the client says its length is.

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};

use crate::error::ApiError;
use crate::request::Verb;

/// Bytes of a request body: the reference's limit.
const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// The whole body of a write; reads have none that matters.
///
/// # Errors
/// `BodyTooLarge`, before anything is read where the client says so; `BadRequest` when the body breaks off.
pub(super) async fn read(verb: Verb, headers: &HeaderMap, body: Body) -> Result<Bytes, ApiError> {
    if matches!(verb, Verb::Get | Verb::List | Verb::Watch) {
        return Ok(Bytes::new());
    }
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    if announced
        .and_then(|text| text.parse::<u64>().ok())
        .is_some_and(|length| length > BODY_BYTES_MAX as u64)
    {
        return Err(ApiError::BodyTooLarge { limit: BODY_BYTES_MAX });
    }
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(ApiError::BodyTooLarge { limit: BODY_BYTES_MAX }),
        Err(error) => Err(ApiError::BadRequest(format!("the body of the request cannot be read: {error}"))),
    }
}
