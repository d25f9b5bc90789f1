//! Paths that name no resource: discovery, the index, the pages of the node, or 404.
//!
//! Owns which of them answers. Documents and pages belong to the modules that serve them.

use std::sync::Arc;

use axum::body::Body;
use http::{Method, Response};
use orch_raft::Store;

use super::headers::accept;
use super::own_paths::is_own;
use super::stages::{Page, Seated};
use super::{Api, discovery, respond};
use crate::error::ApiError;
use crate::request::without_trailing_slash;

impl<S: Store> Api<S> {
    /// The response at the path of `seated`.
    ///
    /// # Errors
    /// `NoPage`, `UnknownPath`: nothing is served there; `MethodNotAllowed`; those of the page.
    pub(super) async fn page(
        self: &Arc<Self>,
        seated: &Seated<'_, Page>,
    ) -> Result<Response<Body>, ApiError> {
        let arrived = seated.arrived();
        if let Some(response) = self.open_path(arrived).await {
            return response;
        }
        let path = without_trailing_slash(&arrived.path).ok_or_else(|| arrived.not_found_error())?;
        if is_own(path) {
            return self.own_path(seated, path).await;
        }
        let discovery = &arrived.served.discovery;
        // The root is empty without its slash.
        let (is_root, document) = (path.is_empty(), discovery.find(path));
        if !is_root && document.is_none() {
            return Err(arrived.not_found_error());
        }
        if arrived.method != Method::GET && arrived.method != Method::HEAD {
            return Err(ApiError::MethodNotAllowed);
        }
        let accept = accept(&arrived.headers);
        let aggregated = discovery.find_aggregated(path, accept.as_deref().unwrap_or_default());
        match (aggregated, document) {
            _ if is_root => Ok(respond::json(200, self.index(discovery))),
            (Some((found, encoding)), _) => Ok(discovery::answer_aggregated(found, encoding, arrived)),
            (_, Some(document)) => discovery::answer_plain(document, arrived, accept.as_deref()),
            (None, None) => Err(arrived.not_found_error()),
        }
    }
}
