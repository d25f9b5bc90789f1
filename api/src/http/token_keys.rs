//! What verifiers of service account tokens need: the document of OpenID discovery and the key set.
//!
//! Owns their paths and media types. Access to them is granted to service accounts by a default role.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::Method;

use super::{Parts, accept, require, respond};
use crate::authn::service_account::{DISCOVERY_PATH, KEYS_PATH, ServiceAccounts};
use crate::error::ApiError;

const KEY_SET_TYPE: &str = "application/jwk-set+json";

/// Answers a request for one of the documents; `None` for other paths.
pub(super) fn answer(
    parts: &Parts,
    path: &str,
    accounts: &ServiceAccounts,
) -> Option<Result<Response<Body>, ApiError>> {
    let (media_type, document) = match path {
        _ if !accounts.has_discovery() => return None,
        DISCOVERY_PATH => ("application/json", accounts.discovery()),
        KEYS_PATH => (KEY_SET_TYPE, accounts.key_set()),
        _ => return None,
    };
    if parts.method != Method::GET && parts.method != Method::HEAD {
        return Some(Err(ApiError::MethodNotAllowed));
    }
    let answered = require(media_type, accept(&parts.headers).as_deref());
    Some(answered.map(|()| respond::bytes(200, media_type, Bytes::from(document))))
}
