//! The paths of a node beside those of its APIs.
//!
//! Owns their list, and which part of the node answers each. A page is served only at or below one of them, and each has its right
//! in the table of routes.

use axum::body::{Body, HttpBody};
use http::{Method, Response};
use orch_raft::Store;

use super::held::{COUNTED_BYTES_MIN, Payer, keep_until_sent};
use super::{Api, Parts, accept, health, openapi, respond, token_keys, version};
use crate::authn::User;
use crate::authn::service_account::{DISCOVERY_PATH, KEYS_PATH};
use crate::error::ApiError;
use crate::negotiate::require;
use crate::request::without_trailing_slash;

/// Each serves a page, or pages below it.
pub(super) const OWN_PATHS: [&str; 10] = [
    DISCOVERY_PATH,
    "/debug/api_priority_and_fairness",
    "/healthz",
    "/livez",
    "/metrics",
    "/openapi/v2",
    "/openapi/v3",
    KEYS_PATH,
    "/readyz",
    "/version",
];

/// Whether `path`, which has no slash at its end, is one of them or below.
pub(super) fn is_own(path: &str) -> bool {
    let is_of =
        |own: &&str| path.strip_prefix(own).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    // few: ten paths.
    OWN_PATHS.iter().any(is_of)
}

impl<S: Store> Api<S> {
    /// Health and version paths.
    pub(super) async fn open_path(&self, parts: &Parts) -> Option<Result<Response<Body>, ApiError>> {
        let path = without_trailing_slash(&parts.path).filter(|path| is_own(path))?;
        if path == version::PATH {
            let is_read = parts.method == Method::GET || parts.method == Method::HEAD;
            return Some(if is_read {
                require("application/json", accept(&parts.headers).as_deref())
                    .map(|()| respond::json(200, self.version.clone()))
            } else {
                Err(ApiError::MethodNotAllowed)
            });
        }
        let node = health::Node {
            store: &self.pipeline.store,
            brand: self.pipeline.served.brand(),
            stopping: &self.stopping,
            checks: &self.checks,
        };
        health::answer(path, &parts.query, node).await.map(Ok)
    }

    /// A page of the node's own: OpenAPI, flow control, metrics, keys of tokens.
    pub(super) async fn own_path(
        &self,
        parts: &Parts,
        user: &User,
        path: &str,
    ) -> Result<Response<Body>, ApiError> {
        if openapi::is_openapi_path(path) {
            let response = openapi::answer(parts, path, self.pipeline.ambient.now()).await?;
            let bytes = response.body().size_hint().lower();
            return match usize::try_from(bytes).unwrap_or(usize::MAX) {
                small if small < COUNTED_BYTES_MIN => Ok(response),
                bytes => {
                    let payer = Payer::of(user, &parts.exchange);
                    Ok(keep_until_sent(response, self.ledger.take(&payer, bytes)?))
                }
            };
        }
        // Served by the path that was authorized, to the byte: with a slash at its end it is another path.
        let exact = parts.path.as_str();
        if let Some(response) = self.flow_page(parts, exact).or_else(|| self.metrics_page(parts, exact)) {
            return response;
        }
        let accounts = self.pipeline.gate.service_accounts();
        if let Some(response) = accounts.and_then(|accounts| token_keys::answer(parts, exact, accounts)) {
            return response;
        }
        Err(parts.not_found_error())
    }
}
