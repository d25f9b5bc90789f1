//! The API over one state machine in memory, called as an HTTP service: no socket, no disk, virtual time.

mod access;
mod aggregated;
mod audits;
mod brief;
mod collections;
mod credentials;
mod declared_paths;
mod described;
mod dry_runs;
mod flow;
mod gone;
mod health;
mod hook_audits;
mod hook_time;
mod hooks;
mod index;
mod large;
mod matrix;
mod open_schemas;
mod passing;
mod refusals;
mod replacing;
mod representations;
mod routes;
mod run_time_kinds;
mod settling;
mod snapshots;
mod streams;
mod tokens;
mod traces;
mod traversal;
mod undeclared;
mod unknown_outcomes;
mod uploads;
mod watches;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::Body;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use orch_proto::brand::ORCH;
use orch_raft::Store;
use orch_raft::memory::MemoryStore;
use orch_schema::json;
use orch_schema::value::Value;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use super::Api;
use crate::ambient::{Ambient, Timestamp};
use crate::authn::{AnonymousAccess, Authenticator, Peer, TokenTable};
use crate::follow::Builder;
use crate::gate::Gate;
use crate::index::Indexes;
use crate::paging::TokenKey;
use crate::pipeline::{Features, Pipeline};
use crate::registry::Registry;

/// The collection that most tests write to.
const MAPS: &str = "/api/v1/namespaces/ns/configmaps";

/// A clock set by the test, and consecutive numbers for random ones.
#[derive(Debug)]
struct HandMoved {
    micros: AtomicU64,
    count: AtomicU64,
}

impl Ambient for HandMoved {
    fn now(&self) -> Timestamp {
        Timestamp(self.micros.load(Ordering::Relaxed))
    }

    fn random(&self) -> u128 {
        u128::from(self.count.fetch_add(1, Ordering::Relaxed))
    }
}

/// A server and the administrator's connection to it.
struct Server {
    router: Router,
    store: MemoryStore,
    clock: Arc<HandMoved>,
    stopping: CancellationToken,
    peer: Arc<Peer>,
}

/// A response whose body was read to its end.
#[derive(Debug)]
struct Answered {
    code: StatusCode,
    headers: HeaderMap,
    text: String,
}

/// The key of tokens of the cluster that the servers' was made from.
const EARLIER_KEY: [u8; 32] = [6; 32];

fn api<S: Store>(
    store: S,
    ambient: Arc<dyn Ambient>,
    features: Features,
    stopping: CancellationToken,
) -> Api<S> {
    Api::new(Arc::new(pipeline(store, ambient, features)), stopping)
}

fn pipeline<S: Store>(store: S, ambient: Arc<dyn Ambient>, features: Features) -> Pipeline<S> {
    let (registry, key) = (Registry::builtin(&ORCH), TokenKey::new([7; 32]).after(vec![EARLIER_KEY]));
    let authenticator = Authenticator::new(&ORCH, TokenTable::default(), AnonymousAccess::Refused);
    let gate = Gate::builtin(&ORCH, authenticator);
    let mut pipeline = Pipeline::new(store, registry, key, ambient, features, gate);
    // Collections of few objects have none by themselves.
    pipeline.indexes = Indexes::of_all(Builder::BlockingThread);
    pipeline
}

impl Server {
    /// An API over `store` that shares this server's clock and stop signal.
    fn api_over<S: Store>(&self, store: S) -> Api<S> {
        api(store, self.clock.clone(), Features::default(), self.stopping.clone())
    }

    /// A server with the namespace `ns`.
    async fn new() -> Server {
        Server::with(Features::default()).await
    }

    async fn with(features: Features) -> Server {
        let store = MemoryStore::default();
        let clock =
            Arc::new(HandMoved { micros: AtomicU64::new(1_767_322_145_000_000), count: AtomicU64::new(1) });
        let stopping = CancellationToken::new();
        let router = api(store.clone(), clock.clone(), features, stopping.clone()).router();
        let address = "127.0.0.1:1".parse().unwrap();
        let peer = Arc::new(Peer { address, certificate: None, local_admin: true, is_front_proxy: false });
        let server = Server { router, store, clock, stopping, peer };
        server.create("/api/v1/namespaces", json!({"metadata": {"name": "ns"}})).await;
        server
    }

    /// Sends a request, and returns the response before its body is read.
    async fn open(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Body,
    ) -> http::Response<Body> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.extension(self.peer.clone()).body(body).unwrap();
        self.router.clone().oneshot(request).await.unwrap()
    }

    async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: Body) -> Answered {
        let (parts, body) = self.open(method, path, headers, body).await.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        Answered { code: parts.status, headers: parts.headers, text }
    }

    async fn get(&self, path: &str) -> Answered {
        self.send(Method::GET, path, &[], Body::empty()).await
    }

    /// Creates an object, and returns it as stored.
    async fn create(&self, path: &str, object: Value) -> Value {
        let answered = self.send(Method::POST, path, &[], Body::from(object.to_string())).await;
        assert_eq!(answered.code, StatusCode::CREATED, "{}", answered.text);
        answered.json()
    }

    async fn merge(&self, path: &str, patch: Value) -> Answered {
        let headers = [("content-type", "application/merge-patch+json")];
        self.send(Method::PATCH, path, &headers, Body::from(patch.to_string())).await
    }

    async fn delete(&self, path: &str) -> Answered {
        self.send(Method::DELETE, path, &[], Body::empty()).await
    }

    /// The events of a watch until it ends, which `timeoutSeconds` has to bring about.
    async fn events(&self, path: &str) -> Vec<Value> {
        let answered = self.get(path).await;
        assert_eq!(answered.code, StatusCode::OK, "{}", answered.text);
        answered.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Answered {
    fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// The names of a list's items.
    fn names(&self) -> Vec<String> {
        let list = self.json();
        let items = list["items"].as_array().unwrap_or_else(|| panic!("no list: {list}"));
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    }
}

/// A config map with one value.
fn map(name: &str, value: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"k": value}})
}

/// Runs an async test body under virtual time.
fn block_on<T>(body: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(body)
}
