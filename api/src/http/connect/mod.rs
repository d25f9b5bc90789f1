//! Requests that are passed on: logs, commands, attachments, ports, and proxies of pods, services and nodes.
//!
//! Owns the order: read the options, have them admitted, look up the objects, choose the backend, check its addresses, pass
//! the request on, and make of the answer what the client gets. The rules are in `connect`; sockets are the adapter's.
//!
//!     query -> document -> admission -> Options; objects -> Location -> resolved once -> checked -> Destination -> forward -> head -> stream
//!              (lookup)                        (passage)
//!
//! These requests take no seat of flow control and have no deadline once the answer has begun: they last as long as both
//! sides want. Each holds room of its user instead.

mod lookup;
mod passage;

use std::pin::pin;

use axum::body::Body;
use http::Response;
use orch_raft::Store;
use orch_rules::Action;
use orch_schema::budget::Budget;
use orch_schema::value::Value;

use self::lookup::{Lookup, Options, Way};
use self::passage::Passage;
use super::Api;
use super::body::Upload;
use super::deadline::{REQUEST_MAX, run_until_deadline};
use super::memory_ledger::Payer;
use super::respond::{self, Lasting};
use super::stages::{Authorized, ResourceEndpoint};
use crate::admission;
use crate::authz::{Attributes, ResourceAttributes};
use crate::connect::Connector;
use crate::connect::headers::asks_for_upgrade;
use crate::connect::options::document;
use crate::error::{ApiError, Subject};
use crate::follow::Applied;
use crate::request::Verb;

/// Bytes that a passed-on request holds in buffers, half of them in each direction: what its user is charged for.
const STREAM_BYTES: usize = 64 << 10;

impl<S: Store> Api<S> {
    /// Passes a request on and returns what the client gets.
    pub(super) async fn pass_on(
        &self,
        passing: &Authorized<'_, ResourceEndpoint<'_>>,
        upload: &mut Upload,
    ) -> Result<Response<Body>, ApiError> {
        let (arrived, ResourceEndpoint { info, endpoint }) = (passing.arrived(), *passing.destination());
        endpoint.check_method(&info.target, &arrived.method, info.verb)?;
        if endpoint.action == Action::Log {
            arrived.representation_of(endpoint)?;
        } else if arrived.query.value("dryRun").is_some() {
            return Err(ApiError::BadRequest("dryRun is not supported".to_owned()));
        }
        let connector = self.connector.as_ref();
        let unable = || {
            ApiError::Unavailable("this server has no connection to kubelets, pods and services".to_owned())
        };
        let connector = connector.ok_or_else(unable)?;
        self.pipeline.store.may_serve()?;
        let lasting = Lasting::default();
        lasting.keep(self.ledger.take(&Payer::of(passing.user(), &arrived.exchange), STREAM_BYTES)?);
        lasting.keep(self.measure_passing(arrived));
        // Nothing is changed while the way is looked up.
        let (reading, budget) = (Verb::Get, Budget::of(u64::MAX));
        let way = pin!(self.way(passing, connector, &budget));
        let deadline = arrived.deadline_after(REQUEST_MAX);
        let way = run_until_deadline(&self.pipeline.store, deadline, reading, &budget, way).await?;
        let mut headers = arrived.headers.clone();
        self.pipeline.gate.strip_identity(None, &mut headers);
        let passage = Passage { passing, connector, headers, lasting };
        match way {
            Way::Nothing => Ok(respond::no_content()),
            Way::Log(location, query) => passage.log(&location, &query).await,
            Way::Stream(location, query) if asks_for_upgrade(&arrived.headers) => {
                passage.upgrade(&location, &query, None).await
            }
            Way::Stream(..) => Err(ApiError::BadRequest("Upgrade request required".to_owned())),
            Way::Proxy(location) => passage.proxy(&location, upload).await,
        }
    }

    /// The backend of a request, by the options in its query, as admission leaves them, and the newest objects.
    async fn way(
        &self,
        passing: &Authorized<'_, ResourceEndpoint<'_>>,
        connector: &Connector,
        budget: &Budget,
    ) -> Result<Way, ApiError> {
        let (arrived, ResourceEndpoint { info, endpoint }) = (passing.arrived(), *passing.destination());
        let target = &info.target;
        let options = match endpoint.action {
            // A log is read.
            Action::Log => Options::of_log(&target.name, &arrived.query)?,
            action => {
                let mut document = document(action, &arrived.query, &target.subpath)?;
                self.admit_connection(passing, &mut document, budget).await?;
                Options::of_document(action, &document)
            }
        };
        if options.are_of_a_stream() {
            self.require_create(passing).await?;
        }
        let state = self.pipeline.most_recent().await?;
        let lookup = Lookup { state, connector, brand: arrived.served().registry.brand };
        lookup.way(options, endpoint.resource, target, || self.pipeline.ambient.random())
    }

    /// Has the plugins complete the options of a connection, or refuse it.
    async fn admit_connection(
        &self,
        passing: &Authorized<'_, ResourceEndpoint<'_>>,
        options: &mut Value,
        budget: &Budget,
    ) -> Result<(), ApiError> {
        let (arrived, ResourceEndpoint { info, endpoint }) = (passing.arrived(), *passing.destination());
        let target = &info.target;
        let registry = &arrived.served().registry;
        let attributes = admission::Attributes {
            brand: registry.brand,
            operation: admission::Operation::Connect,
            registry,
            resource: endpoint.resource,
            action: endpoint.action,
            path_version: &target.version,
            namespace: &target.namespace,
            name: &target.name,
            path_name: &target.name,
            draws_name: false,
            old: None,
            query: &arrived.query,
            deletion: None,
            user: passing.user(),
            gate: &self.pipeline.gate,
            exchange: &arrived.exchange,
            budget,
            dry_run: false,
            is_removal: false,
            now: self.pipeline.ambient.now(),
        };
        self.pipeline.admit_connection(&attributes, options).await
    }

    /// Checks that the user may create the stream that it asks for by another method: a WebSocket begins with a GET, and
    /// whoever may only read must not run commands.
    async fn require_create(&self, passing: &Authorized<'_, ResourceEndpoint<'_>>) -> Result<(), ApiError> {
        let create = Verb::Create.as_str();
        let Attributes::Resource(asked) = passing.attributes() else { return Ok(()) };
        if asked.verb == create {
            return Ok(());
        }
        let asked = ResourceAttributes { verb: create, ..asked };
        let applied = Applied::of(&self.pipeline.store);
        let ruling = self.pipeline.gate.rule(passing.user(), Attributes::Resource(asked), &applied).await;
        if ruling.is_allowed() {
            return Ok(());
        }
        if let Some(error) = ruling.error() {
            return Err(ApiError::Internal(error.to_owned()));
        }
        let subject = Subject {
            group: asked.group.to_owned(),
            kind: asked.resource.to_owned(),
            name: asked.name.to_owned(),
        };
        // As in the reference, the authorizers' remarks are the whole reason, and mostly there are none.
        let (resource, reason) = (subject.qualified(), ruling.reason());
        let name = orch_schema::excerpt::quoted(&subject.name);
        let message = format!("{resource} {name} is forbidden: {reason}");
        Err(ApiError::Forbidden { subject, message, cause: None })
    }
}
