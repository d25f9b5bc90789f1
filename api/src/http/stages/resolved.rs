//! The third stage: what a path leads to, and by which attributes a user is let in there.
//!
//! Owns the kinds of routes. A route's destination stays inside until the user is authorized: 404 and 405 tell nothing to others.

use std::sync::Arc;

use http::Method;
use orch_raft::Store;
use orch_schema::excerpt::quoted;

use super::super::Api;
use super::Arrived;
use crate::aggregation::Remote;
use crate::authn::User;
use crate::authz::{Asked, Attributes};
use crate::endpoint::Endpoint;
use crate::error::ApiError;
use crate::registry::Registry;
use crate::request::{Target, Verb};

/// A kind of path that the node answers.
pub(super) trait Route<'a> {
    /// The destination of the route, for authorized users.
    type Destination;

    /// The attributes that authorization judges; it has no other source.
    fn attributes(&self) -> Attributes<'a>;

    /// The destination, once the user is authorized.
    ///
    /// # Errors
    /// The path leads nowhere.
    fn into_destination(self) -> Result<Self::Destination, ApiError>;
}

/// A request of a known user at a route.
pub(in crate::http) struct Resolved<'a, R> {
    arrived: &'a Arrived,
    user: Arc<User>,
    route: R,
}

impl<'a, R> Resolved<'a, R> {
    pub(super) fn of(arrived: &'a Arrived, user: Arc<User>, route: R) -> Self {
        Resolved { arrived, user, route }
    }

    /// The first stage.
    pub(in crate::http) fn arrived(&self) -> &'a Arrived {
        self.arrived
    }

    /// The route.
    pub(in crate::http) fn route(&self) -> &R {
        &self.route
    }

    /// The head, the authenticated user and the route.
    pub(super) fn into_parts(self) -> (&'a Arrived, Arc<User>, R) {
        (self.arrived, self.user, self.route)
    }
}

/// The method, path and query of a request for a resource, parsed.
pub(in crate::http) struct RequestInfo {
    pub(in crate::http) target: Target,
    /// `None` for methods without one.
    pub(in crate::http) verb: Option<Verb>,
    asked: Asked,
}

impl RequestInfo {
    /// The information about a request for `target`, the parsed path of `arrived`.
    pub(super) fn of(arrived: &Arrived, target: Target) -> Self {
        let verb = Verb::of(&arrived.method, &target, &arrived.query);
        let asked = Asked::of(&arrived.method, &target, &arrived.query);
        RequestInfo { target, verb, asked }
    }
}

/// The route to a resource of this server, served or not.
pub(in crate::http) struct ResourceRoute<'a> {
    pub(in crate::http) info: &'a RequestInfo,
    attributes: Attributes<'a>,
    endpoint: Result<Endpoint<'a>, ApiError>,
}

impl<'a> ResourceRoute<'a> {
    pub(super) fn of(arrived: &'a Arrived, info: &'a RequestInfo) -> Self {
        let asked = Verb::asked(&arrived.method, &info.target, &arrived.query);
        let found = arrived.served().registry.endpoint(&info.target);
        let found = found.and_then(|found| found.check_reach(&info.target, asked).map(|()| found));
        let endpoint = found.map_err(|error| match error {
            ApiError::NoPage => arrived.not_found_error(),
            error => error,
        });
        let attributes = Attributes::Resource(info.asked.attributes(&info.target, &arrived.query));
        ResourceRoute { info, attributes, endpoint }
    }

    /// The warning of a deprecated version of a declared kind. Each request that reaches the kind gets it, refused ones as well.
    pub(super) fn deprecation(&self, registry: &Registry) -> Option<String> {
        if matches!(self.endpoint, Err(ApiError::NoPage | ApiError::UnknownPath)) {
            return None;
        }
        let target = &self.info.target;
        let resource = registry.find(&target.group, &target.version, &target.resource)?;
        resource.is_declared().then(|| resource.strategy.deprecation(registry.brand)).flatten()
    }

    /// The endpoint, for metrics; `None` where the path leads nowhere.
    pub(super) fn endpoint(&self) -> Option<&Endpoint<'a>> {
        self.endpoint.as_ref().ok()
    }
}

/// The endpoint of an authorized request for a resource.
#[derive(Clone, Copy)]
pub(in crate::http) struct ResourceEndpoint<'a> {
    pub(in crate::http) info: &'a RequestInfo,
    pub(in crate::http) endpoint: Endpoint<'a>,
}

impl<'a> Route<'a> for ResourceRoute<'a> {
    type Destination = ResourceEndpoint<'a>;

    fn attributes(&self) -> Attributes<'a> {
        self.attributes
    }

    fn into_destination(self) -> Result<ResourceEndpoint<'a>, ApiError> {
        let endpoint = self.endpoint?;
        check_name(&self.info.target.name)?;
        Ok(ResourceEndpoint { info: self.info, endpoint })
    }
}

/// A verb that the endpoint of an authorized request serves.
#[derive(Clone, Copy)]
pub(in crate::http) struct Operation<'a> {
    pub(in crate::http) target: &'a Target,
    pub(in crate::http) endpoint: Endpoint<'a>,
    pub(in crate::http) verb: Verb,
}

impl<'a> ResourceEndpoint<'a> {
    /// The operation that is executed here of a request of `method`.
    ///
    /// # Errors
    /// `MethodNotAllowed`, `UnknownPath`: the endpoint does not serve the method. `BadRequest`: it needs the name of an object.
    pub(super) fn operation(self, method: &Method) -> Result<Operation<'a>, ApiError> {
        let (target, endpoint) = (&self.info.target, self.endpoint);
        let verb = self.info.verb.ok_or_else(|| self.without_verb(method))?;
        endpoint.check_verb(target, verb)?;
        Ok(Operation { target, endpoint, verb })
    }

    /// The error of a `method` that has no verb on the path. The collection of a declared kind takes those of single objects.
    fn without_verb(&self, method: &Method) -> ApiError {
        let target = &self.info.target;
        let is_collection = target.name.is_empty() && !target.deprecated_watch;
        let is_of_one = *method == Method::PUT || *method == Method::PATCH;
        match is_collection && is_of_one && self.endpoint.resource.is_of_declared() {
            true => ApiError::BadRequest("name must be provided".to_owned()),
            false => ApiError::MethodNotAllowed,
        }
    }
}

/// The route to a page: discovery, OpenAPI, health, metrics, or a path that is not served.
pub(in crate::http) struct PageRoute<'a> {
    verb: &'a str,
    path: &'a str,
}

impl<'a> PageRoute<'a> {
    pub(super) fn of(arrived: &'a Arrived, verb: &'a str) -> Self {
        PageRoute { verb, path: &arrived.path }
    }
}

/// A page that the user may read. The stages before have its path.
#[derive(Clone, Copy)]
pub(in crate::http) struct Page;

impl<'a> Route<'a> for PageRoute<'a> {
    type Destination = Page;

    fn attributes(&self) -> Attributes<'a> {
        Attributes::Path { verb: self.verb, path: self.path }
    }

    fn into_destination(self) -> Result<Page, ApiError> {
        Ok(Page)
    }
}

/// The route to a group and version that another server answers.
pub(super) struct RemoteRoute<'a> {
    attributes: Attributes<'a>,
    elsewhere: Elsewhere,
}

/// The server that answers an authorized request, and the verb of one for a resource.
#[derive(Clone)]
pub(in crate::http) struct Elsewhere {
    pub(in crate::http) remote: Arc<Remote>,
    pub(in crate::http) verb: Option<Verb>,
}

impl<'a> RemoteRoute<'a> {
    pub(super) fn of(
        arrived: &'a Arrived,
        info: Option<&'a RequestInfo>,
        method: &'a str,
        remote: Arc<Remote>,
    ) -> Self {
        let attributes = match info {
            Some(info) => Attributes::Resource(info.asked.attributes(&info.target, &arrived.query)),
            None => Attributes::Path { verb: method, path: &arrived.path },
        };
        let verb = info.and_then(|info| info.verb);
        RemoteRoute { attributes, elsewhere: Elsewhere { remote, verb } }
    }
}

impl<'a> Route<'a> for RemoteRoute<'a> {
    type Destination = Elsewhere;

    fn attributes(&self) -> Attributes<'a> {
        self.attributes
    }

    fn into_destination(self) -> Result<Elsewhere, ApiError> {
        Ok(self.elsewhere)
    }
}

impl<S: Store> Api<S> {
    /// Keeps the credential of a request whose right is asked for again.
    pub(super) fn keep_credential<R>(&self, resolved: &Resolved<'_, R>) {
        let arrived = resolved.arrived;
        if let Some(peer) = arrived.peer.as_ref() {
            let credential = self.pipeline.gate.credential(peer, &arrived.headers, &resolved.user);
            arrived.exchange.set_credential(credential);
        }
    }
}

/// Checks that an object may have this name: names are path segments.
fn check_name(name: &str) -> Result<(), ApiError> {
    let fault = match name {
        "." | ".." => format!("may not be '{name}'"),
        _ if name.contains('%') => "may not contain '%'".to_owned(),
        _ => return Ok(()),
    };
    Err(ApiError::BadRequest(format!("Name parameter invalid: {}: {fault}", quoted(name))))
}
