//! The API in a member's process: the request pipeline, watches and controllers.
//!
//! Owns the counterpart of the parts that `orch_node` puts around a member once its cluster is known, without HTTP: the
//! pipeline on the member's store, a seeded source of time and randomness, the controllers. Requests of most clients are
//! parsed parts, answers are the pipeline's own, and watches are the JSON frames that a socket would carry. Schedulers
//! speak HTTP: their requests pass through the API's own stages below the listener.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use orch_api::admission::{Chain, NamespaceMaker, PluginSelection, Settings};
use orch_api::aggregation::Aggregation;
use orch_api::ambient::{Ambient, Timestamp};
use orch_api::authn::{AnonymousAccess, Authenticator, Peer, TokenTable, User};
use orch_api::controllers;
use orch_api::definitions::Definitions;
use orch_api::error::ApiError;
use orch_api::exchange::Exchange;
use orch_api::follow::Builder;
use orch_api::gate::Gate;
use orch_api::http::Api;
use orch_api::index::Indexes;
use orch_api::negotiate::JSON;
use orch_api::paging::TokenKey;
use orch_api::pipeline::{Answer, Features, Pipeline, Request};
use orch_api::registry::{Registry, Resource};
use orch_api::render::{IncludeObject, Renderer};
use orch_api::request::{Query, Target, Verb};
use orch_api::watch::{Ending, Watch};
use orch_api::webhook::{Routing, Webhooks};
use orch_proto::brand::ORCH;
use orch_raft::member::ClusterIdentity;
use orch_raft::transport::NodeId;
use orch_schema::budget::Budget;
use tokio_util::sync::CancellationToken;
use tower::Service;

use super::dice::Dice;
use super::world::{Handle, World};

/// Time to live of events: short enough that some expire within a run.
const EVENT_TTL: Duration = Duration::from_secs(4);

/// The API of one process. Clones share it.
#[derive(Clone)]
pub struct Server {
    pipeline: Arc<Pipeline<Handle>>,
    /// Made for the first HTTP request: most runs have none.
    http: Arc<OnceLock<Router>>,
}

/// A request of a client.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Verb of the request.
    pub verb: Verb,
    /// Storage name of the resource, for example `configmaps`.
    pub storage: &'static str,
    /// Namespace; empty for cluster scope and for all namespaces.
    pub namespace: String,
    /// Object name; empty for a collection.
    pub name: String,
    /// Query parameters as in a URL.
    pub query: String,
    /// The media type of the body.
    pub content_type: &'static str,
    /// Body; empty if there is none.
    pub body: String,
}

impl Ask {
    /// A request without parameters and body.
    pub fn new(verb: Verb, storage: &'static str, namespace: &str, name: &str) -> Self {
        Ask {
            verb,
            storage,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            query: String::new(),
            content_type: "application/json",
            body: String::new(),
        }
    }

    /// The same request with these query parameters.
    pub fn query(self, query: impl Into<String>) -> Self {
        Ask { query: query.into(), ..self }
    }

    /// The same request with this body.
    pub fn body(self, body: &serde_json::Value) -> Self {
        Ask { body: body.to_string(), ..self }
    }

    fn target(&self, resource: &Resource) -> Target {
        Target {
            group: resource.group.clone(),
            version: resource.version.clone(),
            namespace: self.namespace.clone(),
            resource: resource.plural.clone(),
            name: self.name.clone(),
            ..Target::default()
        }
    }
}

/// The wall clock of a member and the randomness of its process.
struct SimAmbient {
    clock_ms: Arc<dyn Fn() -> u64 + Send + Sync>,
    dice: Dice,
}

impl Ambient for SimAmbient {
    fn now(&self) -> Timestamp {
        Timestamp((self.clock_ms)().saturating_mul(1000))
    }

    fn random(&self) -> u128 {
        let half = || u128::from(self.dice.number(0..u64::MAX));
        half() << 64 | half()
    }
}

/// Compiled once for all runs of this program: it never changes.
fn registry() -> Arc<Registry> {
    static REGISTRY: OnceLock<Arc<Registry>> = OnceLock::new();
    REGISTRY.get_or_init(|| Registry::builtin(&ORCH)).clone()
}

/// A gate that nobody passes: simulated clients drive the pipeline.
fn gate() -> Arc<Gate> {
    let authenticator = Authenticator::new(&ORCH, TokenTable::default(), AnonymousAccess::Refused);
    Gate::builtin(&ORCH, authenticator)
}

impl Server {
    /// The API of `cluster` on the store of `node`, in its `start`th process.
    pub fn new(world: &World, node: NodeId, start: u64, store: Handle, cluster: &ClusterIdentity) -> Self {
        let dice = world.dice(&format!("api {} {start}", node.0));
        let mut pipeline = Pipeline::new(
            store,
            registry(),
            TokenKey::new(cluster.token_key).after(cluster.earlier_token_keys.clone()),
            Arc::new(SimAmbient { clock_ms: world.clock(node), dice }),
            Features::default(),
            gate(),
        );
        // Lists of a few objects go the way of those of many, and nothing is made on another thread.
        pipeline.indexes = Indexes::of_all(Builder::Caller);
        pipeline.definitions = Definitions::new(&registry(), Builder::Caller);
        pipeline.aggregation = Aggregation::none(Builder::Caller);
        if let Some(caller) = world.caller(node, start) {
            let (store, ambient) = (pipeline.store.clone(), pipeline.ambient.clone());
            let webhooks = Webhooks::new(caller, store, ambient, &ORCH, Routing::ClusterAddress);
            let settings = Settings { selection: PluginSelection::without_loops(), ..Settings::default() };
            let maker = NamespaceMaker::default();
            pipeline.admission = Chain::configured(settings, &pipeline.ambient, &maker, &webhooks);
            pipeline.call_webhooks(webhooks);
        }
        if let Some(relay) = world.relay(node, start) {
            pipeline.aggregation = pipeline.aggregation.through(relay, Routing::ClusterAddress);
        }
        Server { pipeline: Arc::new(pipeline), http: Arc::default() }
    }

    /// Answers an HTTP request as the listener of a development node would, for a local administrator.
    pub async fn http(&self, request: http::Request<Bytes>) -> http::Response<Body> {
        let api = || Api::new(self.pipeline.clone(), CancellationToken::new()).router();
        let mut router = self.http.get_or_init(api).clone();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let peer = Peer { address, certificate: None, local_admin: true, is_front_proxy: false };
        let mut request = request.map(Body::from);
        request.extensions_mut().insert(Arc::new(peer));
        Box::pin(router.call(request)).await.unwrap_or_else(|never| match never {})
    }

    /// Runs the controllers while this member leads. Never completes.
    pub async fn control(self) {
        // Loops that write into every namespace, or that nothing here concerns, would change what each seed plays.
        let selection = "*,-serviceaccount-controller,-root-ca-certificate-publisher-controller,-token-cleaner-controller,\
                         -persistentvolumeclaim-protection-controller,-persistentvolume-protection-controller,\
                         -volumeattributesclass-protection-controller";
        let selection = selection.parse().expect("names of loops");
        let options =
            controllers::Options { event_ttl: EVENT_TTL, selection, ..controllers::Options::default() };
        controllers::run(self.pipeline, options, futures::future::pending()).await;
    }

    /// Handles any request except a watch.
    ///
    /// # Errors
    /// The error of the pipeline.
    pub async fn run(&self, ask: &Ask) -> Result<Answer, ApiError> {
        let resource = self.resource(ask)?;
        let (target, query, user) =
            (ask.target(&resource), Query::parse(&ask.query), Arc::new(User::local_admin()));
        let action = resource.action(&target.subresource).ok_or(ApiError::UnknownPath)?;
        let body = Bytes::from(ask.body.clone());
        let request = Request {
            verb: ask.verb,
            registry: &self.pipeline.registry(),
            target: &target,
            resource: &resource,
            action,
            query: &query,
            exchange: &Exchange::internal(),
            user: &user,
            user_agent: "simulated",
            content_type: ask.content_type,
            body: &body,
            budget: &Budget::default(),
        };
        Box::pin(self.pipeline.run(request)).await
    }

    /// Starts a watch of JSON frames.
    ///
    /// # Errors
    /// The error of a watch before its first frame.
    pub async fn watch(&self, ask: &Ask) -> Result<Watch<Handle>, ApiError> {
        let resource = self.resource(ask)?;
        let (target, query, user) =
            (ask.target(&resource), Query::parse(&ask.query), Arc::new(User::local_admin()));
        let action = resource.action(&target.subresource).ok_or(ApiError::UnknownPath)?;
        let request = Request {
            verb: Verb::Watch,
            registry: &self.pipeline.registry(),
            target: &target,
            resource: &resource,
            action,
            query: &query,
            exchange: &Exchange::internal(),
            user: &user,
            user_agent: "simulated",
            content_type: "",
            body: &Bytes::new(),
            budget: &Budget::default(),
        };
        let renderer = Renderer::new(&self.pipeline.registry(), &resource, JSON, IncludeObject::default());
        Watch::start(self.pipeline.clone(), request, renderer, Ending::default()).await
    }

    fn resource(&self, ask: &Ask) -> Result<Arc<Resource>, ApiError> {
        self.pipeline.registry().stored(ask.storage).cloned().ok_or(ApiError::UnknownPath)
    }
}
