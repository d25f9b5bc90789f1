//! The cost of a request between the HTTP library and the store: gate, flow control, decoding, admission, rules, encoding, rendering.
//! No socket, no TLS, no log: the store is in memory and waits for nobody.
//!
//! Prints one line for each step, the median time of many short runs (`make microbench BENCH=path`). With `--rounds N STEP` it runs
//! one step N times and prints nothing, for a program that counts instructions (`make instructions`); `--steps` prints their names.

#![expect(clippy::print_stdout, reason = "a benchmark prints, and measures real time")]

use std::cell::Cell;
use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use orch_api::admission::{Chain, PluginSelection};
use orch_api::ambient::SystemAmbient;
use orch_api::authn::{AnonymousAccess, Authenticator, Peer, TokenTable};
use orch_api::gate::Gate;
use orch_api::http::Api;
use orch_api::paging::TokenKey;
use orch_api::pipeline::{Features, Pipeline};
use orch_api::registry::Registry;
use orch_proto::brand::ORCH;
use orch_raft::memory::MemoryStore;
use orch_schema::json;
use orch_schema::value::Value;
use orch_schema::{Limits, Schema, decode_json, encode_json};
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// The server's allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Number of runs, of which the median is reported.
const RUNS: usize = 201;

/// Calls in a run.
const CALLS: usize = 10;

/// Payload of a config map, as in `make bench`.
const PAYLOAD_BYTES: usize = 1024;

/// Calls before the first that counts: what is made when it is first needed is there.
const WARM_ROUNDS: usize = 20;

const MAPS: &str = "/api/v1/namespaces/ns/configmaps";
const PODS: &str = "/api/v1/namespaces/ns/pods";

/// A step and its name, which has no spaces.
type Step<'a> = (&'static str, Box<dyn Fn() + 'a>);

fn main() {
    let server = Server::start();
    let schema = Schema::builtin(&ORCH);
    let steps = steps(&server, &schema);
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["--steps", ..] => steps.iter().for_each(|(name, _)| println!("{name}")),
        ["--rounds", rounds, wanted, ..] => {
            let rounds: usize = rounds.parse().expect("a number of rounds");
            let (_, step) = steps.iter().find(|(name, _)| *name == wanted).expect("a step of this name");
            (0..WARM_ROUNDS).for_each(|_| step());
            (0..rounds).for_each(|_| counted(step));
        }
        _ => steps.iter().for_each(|(name, step)| report(name, step)),
    }
}

/// Calls `step`. The program that counts instructions counts those of this function.
#[inline(never)]
fn counted(step: &dyn Fn()) {
    step();
}

/// The steps: whole requests, and parts of them.
fn steps<'a>(server: &'a Server, schema: &'a Schema) -> Vec<Step<'a>> {
    let pod = schema.find_type("core.v1.Pod").expect("pods are built in");
    let pod_text = pod_object().to_string();
    let decoded = decode_json(schema, pod, pod_text.as_bytes(), Limits::default()).expect("a good pod").value;
    let (map_text, pod_body) = (Bytes::from(map("m-").to_string()), Bytes::from(pod_text.clone()));
    server.send(Method::POST, MAPS, "application/json", Bytes::from(map("").to_string()));
    let counter = Cell::new(0_u64);
    vec![
        ("get", Box::new(|| server.send(Method::GET, &format!("{MAPS}/one"), "", Bytes::new()))),
        ("create", Box::new(move || server.send(Method::POST, MAPS, "application/json", map_text.clone()))),
        (
            "create-pod",
            Box::new(move || server.send(Method::POST, PODS, "application/json", pod_body.clone())),
        ),
        (
            "merge-patch",
            Box::new(move || {
                counter.set(counter.get() + 1);
                let body = format!(r#"{{"data":{{"n":"{}"}}}}"#, counter.get());
                server.send(
                    Method::PATCH,
                    &format!("{MAPS}/one"),
                    "application/merge-patch+json",
                    body.into(),
                );
            }),
        ),
        (
            "decode-pod",
            Box::new(move || {
                let pod = decode_json(schema, pod, pod_text.as_bytes(), Limits::default());
                black_box(pod.expect("a good pod"));
            }),
        ),
        (
            "encode-pod",
            Box::new(move || {
                let mut out = Vec::with_capacity(1024);
                encode_json(schema, pod, &decoded, &mut out);
                black_box(out);
            }),
        ),
    ]
}

/// An API over a store in memory, and the administrator's connection to it.
struct Server {
    runtime: Runtime,
    router: Router,
    peer: Arc<Peer>,
}

impl Server {
    fn start() -> Server {
        let authenticator = Authenticator::new(&ORCH, TokenTable::default(), AnonymousAccess::Refused);
        let gate = Gate::builtin(&ORCH, authenticator);
        let (registry, ambient) = (Registry::builtin(&ORCH), Arc::new(SystemAmbient));
        let (store, key) = (MemoryStore::default(), TokenKey::new([7; 32]));
        let mut pipeline = Pipeline::new(store, registry, key, ambient, Features::default(), gate);
        pipeline.admission = Chain::selected(&PluginSelection::default());
        let router = Api::new(Arc::new(pipeline), CancellationToken::new()).router();
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let peer = Arc::new(Peer { address, certificate: None, local_admin: true, is_front_proxy: false });
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        let server = Server { runtime, router, peer };
        for (path, object) in [
            ("/api/v1/namespaces", json!({"metadata": {"name": "ns"}})),
            ("/api/v1/namespaces/ns/serviceaccounts", json!({"metadata": {"name": "default"}})),
        ] {
            server.send(Method::POST, path, "application/json", object.to_string().into());
        }
        server
    }

    /// Sends a request and reads its answer, which must be good.
    fn send(&self, method: Method, path: &str, content_type: &str, body: Bytes) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost:6443")
            .header("user-agent", "bench/1.0")
            .header("accept", "application/json")
            .header("content-type", content_type)
            .header("content-length", body.len())
            .extension(self.peer.clone());
        let request = request.body(Body::from(body)).expect("a good request");
        let answered = async {
            let response = self.router.clone().oneshot(request).await.unwrap_or_else(|never| match never {});
            let status = response.status();
            let body = response.into_body().collect().await.expect("a whole answer").to_bytes();
            (status, body)
        };
        let (status, body) = self.runtime.block_on(answered);
        assert!(matches!(status, StatusCode::OK | StatusCode::CREATED), "{status}: {body:?}");
        black_box(body);
    }
}

/// Prints the median time of a step.
fn report(name: &str, step: &dyn Fn()) {
    let mut micros: Vec<f64> = (0..RUNS)
        .map(|_| {
            let began = Instant::now();
            (0..CALLS).for_each(|_| step());
            began.elapsed().as_secs_f64() * 1e6 / CALLS as f64
        })
        .collect();
    micros.sort_by(f64::total_cmp);
    println!("{name:<16} {:>8.1} us, {:>8.1} us at best", micros[RUNS / 2], micros[0]);
}

/// A config map: `one`, or of a generated name.
fn map(prefix: &str) -> Value {
    let metadata = match prefix {
        "" => json!({"name": "one"}),
        _ => json!({"generateName": prefix}),
    };
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"payload": "x".repeat(PAYLOAD_BYTES)}})
}

fn pod_object() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"generateName": "p-", "labels": {"app": "shop", "tier": "front"}},
        "spec": {"containers": [{
            "name": "c", "image": "registry.example.com/team/app:v1.2.3",
            "ports": [{"containerPort": 8080}],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
            "env": [{"name": "LEVEL", "value": "debug"}],
        }]},
    })
}
