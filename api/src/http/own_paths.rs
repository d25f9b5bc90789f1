//! The paths of a node beside those of its APIs.
//!
//! Owns their list, and which part of the node answers each. A page is served only at or below one of them, and each has its right
//! in the table of routes.

use axum::body::{Body, HttpBody};
use http::{Method, Response};
use orch_raft::Store;

use super::headers::accept;
use super::memory_ledger::{COUNTED_BYTES_MIN, Payer, keep_until_sent};
use super::openapi::Beside;
use super::stages::{Arrived, Page, Seated};
use super::{Api, health, openapi, respond, token_keys, version};
use crate::authn::service_account::{DISCOVERY_PATH, KEYS_PATH};
use crate::error::ApiError;
use crate::follow::Applied;
use crate::negotiate::require;
use crate::openapi::{VERSION_2, VERSION_3};
use crate::request::without_trailing_slash;

/// The paths, at or below each of which pages are served.
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
    pub(super) async fn open_path(&self, arrived: &Arrived) -> Option<Result<Response<Body>, ApiError>> {
        let path = without_trailing_slash(&arrived.path).filter(|path| is_own(path))?;
        if path == version::PATH {
            let is_read = arrived.method == Method::GET || arrived.method == Method::HEAD;
            return Some(if is_read {
                require("application/json", accept(&arrived.headers).as_deref())
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
        health::answer(path, &arrived.query, node).await.map(Ok)
    }

    /// The additions of aggregated servers to the OpenAPI document at `path`.
    async fn openapi_beside(&self, arrived: &Arrived, path: &str) -> Beside {
        let (aggregation, registry) = (&self.pipeline.aggregation, &arrived.served().registry);
        let applied = Applied::of(&self.pipeline.store);
        match path {
            VERSION_3 => Beside::Entries(aggregation.openapi(registry, &applied).await),
            VERSION_2 => {
                let names = aggregation.merged_openapi(registry, &applied).await;
                Beside::Documents { aggregation: aggregation.clone(), names, brand: registry.brand }
            }
            _ => match self.remote_of(arrived).await {
                Some(remote) if aggregation.makes_version3(&remote, path) => {
                    Beside::Instead { aggregation: aggregation.clone(), name: remote.name.clone() }
                }
                _ => Beside::Entries(Vec::new()),
            },
        }
    }

    /// A page of the node's own: OpenAPI, flow control, metrics, keys of tokens.
    pub(super) async fn own_path(
        &self,
        seated: &Seated<'_, Page>,
        path: &str,
    ) -> Result<Response<Body>, ApiError> {
        let arrived = seated.arrived();
        if openapi::is_openapi_path(path) {
            let beside = self.openapi_beside(arrived, path).await;
            let response = openapi::answer(arrived, path, self.pipeline.ambient.now(), beside).await?;
            let bytes = response.body().size_hint().lower();
            return match usize::try_from(bytes).unwrap_or(usize::MAX) {
                small if small < COUNTED_BYTES_MIN => Ok(response),
                bytes => {
                    let payer = Payer::of(seated.user(), &arrived.exchange);
                    Ok(keep_until_sent(response, self.ledger.take(&payer, bytes)?))
                }
            };
        }
        // Served by the path that was authorized, to the byte: with a slash at its end it is another path.
        let exact = arrived.path.as_str();
        if let Some(response) = self.flow_page(arrived, exact) {
            return response;
        }
        if let Some(response) = self.metrics_page(arrived, exact).await {
            return response;
        }
        let accounts = self.pipeline.gate.service_accounts();
        if let Some(response) = accounts.and_then(|accounts| token_keys::answer(arrived, exact, accounts)) {
            return response;
        }
        Err(arrived.not_found_error())
    }

    /// The response for a debug page of flow control; `None` for other paths.
    fn flow_page(&self, arrived: &Arrived, path: &str) -> Option<Result<Response<Body>, ApiError>> {
        let text = self.flow.page(path, &arrived.query, &Applied::of(&self.pipeline.store))?;
        let is_read = matches!(arrived.method, Method::GET | Method::HEAD);
        Some(match is_read {
            true => Ok(respond::bytes(200, "text/plain; charset=utf-8", text.into())),
            false => Err(ApiError::MethodNotAllowed),
        })
    }
}
