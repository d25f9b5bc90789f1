//! The stages of a request: one type each, made from the one before.
//!
//!     Arrived -> Authenticated -> Resolved<R> -> Authorized<D> -> Seated<D> -> response -> Answered
//!        |                                           |                            |
//!        +-- open page, without credentials ---------|----------------------------+
//!                                                    +-- passed on, without a seat
//!
//! A path that leads nowhere is looked for once more in the newest definitions of the cluster, by an authorized request with a
//! seat.
//!
//! `R` is a [`Route`]: a path of a resource, or a page of the node. `D` is the destination of the route, known to users who are
//! authorized and to no other. Each stage is a file of its own, which alone can make its type.
//!
//! Invariants: no destination without authorization, and no authorization without a route's attributes; what is executed has a
//! seat; each response leaves through [`Answered`], which counts, audits and logs it.

mod answered;
mod arrived;
mod authenticated;
mod authorized;
mod resolved;
mod seated;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State as Shared;
use http::{Request, Response};
use orch_raft::Store;

use super::Api;
use super::body::Upload;
use super::deadline::check_timeout;
use crate::error::ApiError;
use crate::request::{TargetPath, Verb, parse_path};

pub(super) use self::answered::status_response;
pub(super) use self::arrived::Arrived;
pub(super) use self::authenticated::Authenticated;
pub(super) use self::authorized::Authorized;
pub(super) use self::resolved::{
    Operation, Page, PageRoute, RequestInfo, Resolved, ResourceEndpoint, ResourceRoute,
};
pub(super) use self::seated::Seated;

use self::answered::Rest;
pub(super) use self::resolved::Elsewhere;
use self::resolved::{RemoteRoute, Route};
use crate::aggregation::Remote;

/// Answers a request of any path.
pub(super) async fn handle<S: Store>(
    Shared(api): Shared<Arc<Api<S>>>,
    request: Request<Body>,
) -> Response<Body> {
    let (mut arrived, mut upload) = api.arrive(request);
    api.catch_up_definitions(&mut arrived).await;
    let result = Box::pin(api.answer(&arrived, &mut upload)).await;
    let answered = api.answered(&arrived, result);
    let answered = answered.audited(&arrived).await;
    let (response, rest) = answered.leave(&arrived);
    // Frees the request's headers while the rest of the body drains.
    drop(arrived);
    if rest == Rest::Drained {
        upload.drop_rest(&api.pipeline.store).await;
    }
    response
}

impl<S: Store> Api<S> {
    async fn answer(
        self: &Arc<Self>,
        arrived: &Arrived,
        upload: &mut Upload,
    ) -> Result<Response<Body>, ApiError> {
        check_timeout(&arrived.method, &arrived.path, &arrived.query, &arrived.served().registry)?;
        if arrived.is_without_credentials()
            && let Some(response) = self.open_path(arrived).await
        {
            return response;
        }
        let authenticated = self.authenticate(arrived).await?;
        if let Some(remote) = self.remote_of(arrived).await
            && !self.pipeline.aggregation.makes_version3(&remote, &arrived.path)
        {
            return Box::pin(self.answer_elsewhere(authenticated, remote, upload)).await;
        }
        match parse_path(&arrived.path) {
            TargetPath::Resource(target) => {
                let info = RequestInfo::of(arrived, target);
                self.answer_at_resource(authenticated, &info, upload).await
            }
            TargetPath::Other => {
                let verb = arrived.method.as_str().to_ascii_lowercase();
                self.answer_at_page(authenticated, &verb).await
            }
            TargetPath::Malformed => {
                Err(ApiError::BadRequest("the path holds escapes that are not UTF-8".to_owned()))
            }
        }
    }

    /// The response for a resource: executed here, or passed on to the server that answers it.
    async fn answer_at_resource(
        self: &Arc<Self>,
        authenticated: Authenticated<'_>,
        info: &RequestInfo,
        upload: &mut Upload,
    ) -> Result<Response<Body>, ApiError> {
        let resolved = authenticated.resolve_resource(info);
        let mut under_way = self.measure_begin(resolved.arrived(), info, resolved.route().endpoint());
        if info.verb == Some(Verb::Watch) {
            self.keep_credential(&resolved);
        }
        let authorized = self.authorize_resource(resolved).await?;
        if authorized.arrived().measured().get().is_none() {
            // Only the newest definitions lead there.
            under_way = self.measure_begin(authorized.arrived(), info, Some(&authorized.endpoint()));
        }
        let _under_way = under_way;
        if authorized.endpoint().action.is_passed_on() {
            return Box::pin(self.pass_on(&authorized, upload)).await;
        }
        self.execute(authorized.into_operation()?, upload).await
    }

    /// The response of the server that answers the group and version of the path.
    async fn answer_elsewhere(
        self: &Arc<Self>,
        authenticated: Authenticated<'_>,
        remote: Arc<Remote>,
        upload: &mut Upload,
    ) -> Result<Response<Body>, ApiError> {
        let arrived = authenticated.arrived();
        self.measure_elsewhere(arrived);
        let info = match parse_path(&arrived.path) {
            TargetPath::Resource(target) => Some(RequestInfo::of(arrived, target)),
            TargetPath::Other | TargetPath::Malformed => None,
        };
        let verb = arrived.method.as_str().to_ascii_lowercase();
        let resolved = authenticated.resolve_remote(info.as_ref(), &verb, remote);
        self.keep_credential(&resolved);
        let authorized = self.authorize_remote(resolved).await?;
        self.relay(&authorized, upload).await
    }

    /// The response for a page of the node; `verb` is the method in lower case.
    async fn answer_at_page(
        self: &Arc<Self>,
        authenticated: Authenticated<'_>,
        verb: &str,
    ) -> Result<Response<Body>, ApiError> {
        let authorized = self.authorize_page(authenticated.resolve_page(verb)).await?;
        let seated = self.seat_page(authorized).await?;
        if seated.arrived().may_describe_definitions() {
            self.refresh_definitions().await;
            self.renew(seated.arrived());
        }
        self.page(&seated).await
    }
}
