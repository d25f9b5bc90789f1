//! Documents for verifiers of service account tokens: OpenID discovery and the key set.
//!
//! Owns their paths and media types. Access to them is granted to service accounts by a default role.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http::Method;

use super::headers::accept;
use super::respond;
use super::stages::Arrived;
use crate::authn::service_account::{DISCOVERY_PATH, KEYS_PATH, ServiceAccounts};
use crate::error::ApiError;
use crate::gate::Gate;
use crate::negotiate::require;
use crate::openapi::TokenKeys;

const KEY_SET_TYPE: &str = "application/jwk-set+json";

/// Whether the documents are served.
pub(super) fn served(gate: &Gate) -> TokenKeys {
    match gate.service_accounts().is_some_and(|accounts| accounts.has_discovery()) {
        true => TokenKeys::Served,
        false => TokenKeys::Absent,
    }
}

/// The paths of the documents, where they are served.
pub(super) fn paths(accounts: &ServiceAccounts) -> &'static [&'static str] {
    if accounts.has_discovery() { &[DISCOVERY_PATH, KEYS_PATH] } else { &[] }
}

/// Answers a request for one of the documents; `None` for other paths.
pub(super) fn answer(
    arrived: &Arrived,
    path: &str,
    accounts: &ServiceAccounts,
) -> Option<Result<Response<Body>, ApiError>> {
    let (media_type, document) = match path {
        _ if !accounts.has_discovery() => return None,
        DISCOVERY_PATH => ("application/json", accounts.discovery()),
        KEYS_PATH => (KEY_SET_TYPE, accounts.key_set()),
        _ => return None,
    };
    if arrived.method != Method::GET && arrived.method != Method::HEAD {
        return Some(Err(ApiError::MethodNotAllowed));
    }
    let answered = require(media_type, accept(&arrived.headers).as_deref());
    Some(answered.map(|()| respond::bytes(200, media_type, Bytes::from(document))))
}
