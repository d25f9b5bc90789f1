//! The second stage: a request of a known user. Owns nothing but its type; the methods are in `authn`.

use std::sync::Arc;

use orch_raft::Store;

use super::super::Api;
use super::super::traced::begin_trace;
use super::{Arrived, PageRoute, RemoteRoute, RequestInfo, Resolved, ResourceRoute};
use crate::aggregation::Remote;
use crate::authn::User;
use crate::error::ApiError;
use crate::exchange::Step;

/// A request whose credentials, or their absence, name a user.
pub(in crate::http) struct Authenticated<'a> {
    arrived: &'a Arrived,
    user: Arc<User>,
}

impl<S: Store> Api<S> {
    /// Authenticates a request.
    ///
    /// # Errors
    /// `Unauthorized`: no valid credentials.
    pub(super) async fn authenticate<'a>(&self, arrived: &'a Arrived) -> Result<Authenticated<'a>, ApiError> {
        let at = (&self.pipeline.store, self.pipeline.ambient.now());
        let (gate, peer) = (&self.pipeline.gate, arrived.peer.as_ref());
        let found =
            gate.authenticate(&arrived.exchange, peer, &arrived.headers, arrived.reporter.as_ref(), at);
        let user = found.await?;
        begin_trace(arrived, &user);
        arrived.exchange.note(Step::Authenticate, at.1, self.pipeline.ambient.now());
        Ok(Authenticated { arrived, user })
    }
}

impl<'a> Authenticated<'a> {
    /// The request at the resource that `info` names.
    pub(super) fn resolve_resource(self, info: &'a RequestInfo) -> Resolved<'a, ResourceRoute<'a>> {
        let route = ResourceRoute::of(self.arrived, info);
        Resolved::of(self.arrived, self.user, route)
    }

    /// The request at a page of the node; `verb` is the method in lower case.
    pub(super) fn resolve_page(self, verb: &'a str) -> Resolved<'a, PageRoute<'a>> {
        let route = PageRoute::of(self.arrived, verb);
        Resolved::of(self.arrived, self.user, route)
    }

    /// The request at `remote`: for a resource where `info` names one, else for a page; `verb` is the method in lower case.
    pub(super) fn resolve_remote(
        self,
        info: Option<&'a RequestInfo>,
        verb: &'a str,
        remote: Arc<Remote>,
    ) -> Resolved<'a, RemoteRoute<'a>> {
        let route = RemoteRoute::of(self.arrived, info, verb, remote);
        Resolved::of(self.arrived, self.user, route)
    }

    /// The first stage.
    pub(super) fn arrived(&self) -> &'a Arrived {
        self.arrived
    }
}
