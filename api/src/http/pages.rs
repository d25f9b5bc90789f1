//! Paths that name no resource: discovery, the index, the pages of the node, or 404.
//!
//! Owns which of them answers. Documents and pages belong to the modules that serve them.

use std::sync::Arc;

use axum::body::Body;
use http::{Method, Response};
use orch_raft::Store;

use super::own_paths::is_own;
use super::stages::{Page, Seated};
use super::{Api, discovery, respond};
use crate::error::ApiError;
use crate::follow::Applied;
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
        // The root is empty without its slash.
        if path.is_empty() {
            let is_read = arrived.method == Method::GET || arrived.method == Method::HEAD;
            let index = || respond::json(200, self.index(&arrived.served().registry));
            return if is_read { Ok(index()) } else { Err(ApiError::MethodNotAllowed) };
        }
        let merged = match discovery::may_be_merged(path) {
            true => {
                let applied = Applied::of(&self.pipeline.store);
                self.pipeline.aggregation.discovery(&arrived.served().registry, &applied).await
            }
            false => None,
        };
        discovery::answer(arrived, path, merged.as_deref()).await
    }
}
