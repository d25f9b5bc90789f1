//! The fourth stage: a request of a user who was let in, at its destination. Owns nothing but its type; the rules are in `authz`.

use std::sync::Arc;

use orch_raft::Store;

use super::super::Api;
use super::{
    Arrived, Elsewhere, Operation, Page, PageRoute, RemoteRoute, Resolved, ResourceEndpoint, ResourceRoute,
    Route,
};
use crate::authn::User;
use crate::authz::Attributes;
use crate::endpoint::Endpoint;
use crate::error::ApiError;
use crate::exchange::Step;
use crate::follow::Applied;
use crate::request::Verb;

/// A request that an authorizer allowed.
pub(in crate::http) struct Authorized<'a, D> {
    arrived: &'a Arrived,
    user: Arc<User>,
    attributes: Attributes<'a>,
    destination: D,
}

/// A path to a resource that no definition leads to which this node has applied, and the verb.
#[derive(Clone, Copy)]
pub(super) struct Undeclared(pub(super) Verb);

impl<S: Store> Api<S> {
    /// Lets the user in to a resource, as the user that the headers ask to act as, if any.
    ///
    /// # Errors
    /// Those of [`crate::gate::Gate::admit`], and those of the route; `TooManyRequests`, `DeadlineExceeded` and `NothingChanged`
    /// where it is looked for once more.
    pub(super) async fn authorize_resource<'a>(
        &self,
        resolved: Resolved<'a, ResourceRoute<'a>>,
    ) -> Result<Authorized<'a, ResourceEndpoint<'a>>, ApiError> {
        let (arrived, user, route) = resolved.into_parts();
        let user = self.admit(arrived, user, route.attributes()).await?;
        let warn =
            |route: &ResourceRoute<'_>| arrived.exchange.warn(route.deprecation(&arrived.served().registry));
        if !arrived.may_be_declared(&route.info.target) {
            warn(&route);
            return Authorized::at(arrived, user, route);
        }
        let (attributes, destination) =
            (route.attributes(), Undeclared(route.info.verb.unwrap_or(Verb::Get)));
        let authorized = Authorized { arrived, user, attributes, destination };
        Box::pin(self.look_again(&authorized)).await?;
        let route = ResourceRoute::of(arrived, route.info);
        warn(&route);
        Authorized::at(arrived, authorized.user, route)
    }

    /// Lets the user in to a page, as the user that the headers ask to act as, if any.
    ///
    /// # Errors
    /// Those of [`crate::gate::Gate::admit`], and those of the route.
    pub(super) async fn authorize_page<'a>(
        &self,
        resolved: Resolved<'a, PageRoute<'a>>,
    ) -> Result<Authorized<'a, Page>, ApiError> {
        let (arrived, user, route) = resolved.into_parts();
        let user = self.admit(arrived, user, route.attributes()).await?;
        Authorized::at(arrived, user, route)
    }

    /// Lets the user in to a group and version that another server answers, as the user that the headers ask to act as, if any.
    ///
    /// # Errors
    /// Those of [`crate::gate::Gate::admit`].
    pub(super) async fn authorize_remote<'a>(
        &self,
        resolved: Resolved<'a, RemoteRoute<'a>>,
    ) -> Result<Authorized<'a, Elsewhere>, ApiError> {
        let (arrived, user, route) = resolved.into_parts();
        let user = self.admit(arrived, user, route.attributes()).await?;
        Authorized::at(arrived, user, route)
    }

    async fn admit(
        &self,
        arrived: &Arrived,
        user: Arc<User>,
        attributes: Attributes<'_>,
    ) -> Result<Arc<User>, ApiError> {
        let (gate, applied) = (&self.pipeline.gate, Applied::of(&self.pipeline.store));
        let began = self.pipeline.ambient.now();
        let admitted = gate.admit(&arrived.exchange, user, &arrived.headers, attributes, &applied).await;
        arrived.exchange.note(Step::Authorize, began, self.pipeline.ambient.now());
        admitted
    }
}

impl<'a, D> Authorized<'a, D> {
    /// The destination of `route`, whose attributes an authorizer allowed to `user`.
    fn at<R: Route<'a, Destination = D>>(
        arrived: &'a Arrived,
        user: Arc<User>,
        route: R,
    ) -> Result<Self, ApiError> {
        let attributes = route.attributes();
        Ok(Authorized { arrived, user, attributes, destination: route.into_destination()? })
    }

    /// The first stage.
    pub(in crate::http) fn arrived(&self) -> &'a Arrived {
        self.arrived
    }

    /// The user that the request acts as.
    pub(in crate::http) fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// The attributes that were allowed.
    pub(in crate::http) fn attributes(&self) -> Attributes<'a> {
        self.attributes
    }

    /// The destination that the user is authorized for.
    pub(in crate::http) fn destination(&self) -> &D {
        &self.destination
    }
}

impl<'a> Authorized<'a, ResourceEndpoint<'a>> {
    /// The endpoint of the request.
    pub(in crate::http) fn endpoint(&self) -> Endpoint<'a> {
        self.destination.endpoint
    }

    /// The request as an operation that is executed here.
    ///
    /// # Errors
    /// `MethodNotAllowed`, `UnknownPath`: the endpoint does not serve the method. `BadRequest`: it needs the name of an object.
    pub(super) fn into_operation(self) -> Result<Authorized<'a, Operation<'a>>, ApiError> {
        let Authorized { arrived, user, attributes, destination } = self;
        let destination = destination.operation(&arrived.method)?;
        let resource = destination.endpoint.resource;
        if !resource.is_of_declared() {
            arrived.exchange.warn(resource.strategy.deprecation(arrived.served().registry.brand));
        }
        Ok(Authorized { arrived, user, attributes, destination })
    }
}
