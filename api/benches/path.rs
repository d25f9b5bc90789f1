//! The cost of a request between the HTTP library and the store: gate, flow control, decoding, admission, rules, encoding, rendering.
//! No socket, no TLS, no log: the store is in memory and waits for nobody.
//!
//! Prints one line for each step, the median time of many short runs (`make microbench BENCH=path`). With `--rounds N STEP` it runs
//! one step N times and prints nothing, for a program that counts instructions (`make instructions`); `--steps` prints their names.

#![expect(clippy::print_stdout, reason = "a benchmark prints, and measures real time")]

use std::hint::black_box;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

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
const CALLS: u32 = 10;

/// Payload of a config map, as in `make bench`.
const PAYLOAD_BYTES: usize = 1024;

/// Calls before the first that counts: what is made when it is first needed is there.
const WARM_ROUNDS: usize = 20;

const MAPS: &str = "/api/v1/namespaces/ns/configmaps";
const PODS: &str = "/api/v1/namespaces/ns/pods";
const EVENTS: &str = "/api/v1/namespaces/ns/events";

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";

/// Something that is done, given the number of the round.
type Call<'a> = Box<dyn Fn(usize) + 'a>;

/// A step, whose name has no spaces.
struct Step<'a> {
    name: &'static str,
    /// Makes what the step needs, uncounted.
    prepare: Call<'a>,
    run: Call<'a>,
}

impl<'a> Step<'a> {
    fn new(name: &'static str, run: impl Fn(usize) + 'a) -> Self {
        Step { name, prepare: Box::new(|_| ()), run: Box::new(run) }
    }

    fn after(self, prepare: impl Fn(usize) + 'a) -> Self {
        Step { prepare: Box::new(prepare), ..self }
    }
}

fn main() {
    let (server, schema) = (Server::start(), Schema::builtin(&ORCH));
    let mut steps = requests(&server);
    steps.extend(codecs(&schema));
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["--steps", ..] => steps.iter().for_each(|step| println!("{}", step.name)),
        ["--rounds", rounds, wanted, ..] => {
            let rounds: usize = rounds.parse().expect("a number of rounds");
            let step = steps.iter().find(|step| step.name == wanted).expect("a step of this name");
            for round in 0..WARM_ROUNDS + rounds {
                (step.prepare)(round);
                if round < WARM_ROUNDS { (step.run)(round) } else { counted_call(&step.run, round) }
            }
        }
        _ => steps.iter().for_each(report),
    }
}

/// Calls `run`. The program that counts instructions counts those of this function.
#[inline(never)]
fn counted_call(run: &Call<'_>, round: usize) {
    run(round);
}

/// Prints the median time of a step.
fn report(step: &Step<'_>) {
    let mut rounds = 0..;
    let mut micros: Vec<f64> = (0..RUNS)
        .map(|_| {
            let mut took = Duration::ZERO;
            for round in rounds.by_ref().take(CALLS as usize) {
                (step.prepare)(round);
                let began = Instant::now();
                (step.run)(round);
                took += began.elapsed();
            }
            took.as_secs_f64() * 1e6 / f64::from(CALLS)
        })
        .collect();
    micros.sort_by(f64::total_cmp);
    println!("{:<16} {:>8.1} us, {:>8.1} us at best", step.name, micros[RUNS / 2], micros[0]);
}

/// Whole requests.
fn requests(server: &Server) -> Vec<Step<'_>> {
    server.post(MAPS, &map(&json!({"name": "one"})));
    server.post(PODS, &pod(&json!({"name": "one"})));
    let leases = format!("/apis/coordination.{}/v1/namespaces/ns/leases", ORCH.group_domain);
    server.post(&leases, &lease());
    let (new_map, new_pod) = (map(&json!({"generateName": "m-"})), pod(&json!({"generateName": "p-"})));
    let to_bind = |round| format!("b-{round}");
    vec![
        Step::new("get", |_| server.send(Method::GET, &format!("{MAPS}/one"), "", Bytes::new())),
        Step::new("create", move |_| server.post(MAPS, &new_map)),
        Step::new("create-pod", move |_| server.post(PODS, &new_pod)),
        Step::new("create-event", |_| server.post(EVENTS, &event())),
        Step::new("bind", move |round| {
            let name = to_bind(round);
            server.post(&format!("{PODS}/{name}/binding"), &binding(&name));
        })
        .after(move |round| server.post(PODS, &pod(&json!({"name": to_bind(round)})))),
        Step::new("merge-patch", |round| {
            let patch = json!({"data": {"n": round.to_string()}});
            server.patch(&format!("{MAPS}/one"), MERGE_PATCH, &patch);
        }),
        Step::new("pod-status", |round| {
            server.patch(&format!("{PODS}/one/status"), STRATEGIC_PATCH, &status(round));
        }),
        Step::new("renew-lease", move |round| {
            let patch = json!({"spec": {"renewTime": moment(round)}});
            server.patch(&format!("{leases}/node-1"), MERGE_PATCH, &patch);
        }),
    ]
}

/// Parts of requests.
fn codecs(schema: &Schema) -> Vec<Step<'_>> {
    let pod_type = schema.find_type("core.v1.Pod").expect("pods are built in");
    let text = pod(&json!({"name": "one"})).to_string();
    let decode = move |text: &str| {
        let pod = decode_json(schema, pod_type, text.as_bytes(), Limits::default());
        pod.expect("a good pod").value
    };
    let decoded = decode(&text);
    vec![
        Step::new("decode-pod", move |_| drop(black_box(decode(&text)))),
        Step::new("encode-pod", move |_| {
            let mut out = Vec::with_capacity(1024);
            encode_json(schema, pod_type, &decoded, &mut out);
            black_box(out);
        }),
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
        server.post("/api/v1/namespaces", &json!({"metadata": {"name": "ns"}}));
        server.post("/api/v1/namespaces/ns/serviceaccounts", &json!({"metadata": {"name": "default"}}));
        server
    }

    fn post(&self, path: &str, object: &Value) {
        self.send(Method::POST, path, JSON, object.to_string().into());
    }

    fn patch(&self, path: &str, content_type: &str, patch: &Value) {
        self.send(Method::PATCH, path, content_type, patch.to_string().into());
    }

    /// Sends a request and reads its answer, which must be good.
    fn send(&self, method: Method, path: &str, content_type: &str, body: Bytes) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "localhost:6443")
            .header("user-agent", "bench/1.0")
            .header("accept", JSON)
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
        assert!(matches!(status, StatusCode::OK | StatusCode::CREATED), "{path}: {status}: {body:?}");
        black_box(body);
    }
}

fn map(metadata: &Value) -> Value {
    let data = json!({"payload": "x".repeat(PAYLOAD_BYTES)});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata.clone(), "data": data})
}

fn pod(metadata: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata.clone(),
        "spec": {"containers": [{
            "name": "c", "image": "registry.example.com/team/app:v1.2.3",
            "ports": [{"containerPort": 8080}],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
            "env": [{"name": "LEVEL", "value": "debug"}],
        }]},
    })
}

fn binding(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name.to_owned()},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
    })
}

fn status(round: usize) -> Value {
    json!({"status": {
        "phase": "Running", "podIP": format!("10.0.{}.{}", round / 250 % 250, round % 250),
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-30T00:00:00Z"}],
    }})
}

fn event() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"generateName": "e-"},
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": "ns", "name": "one"},
        "reason": "Pulled", "message": "Container image is already present on machine", "type": "Normal",
        "source": {"component": "kubelet", "host": "node-1"}, "count": 1,
        "firstTimestamp": "2026-11-30T00:00:00Z", "lastTimestamp": "2026-11-30T00:00:00Z",
    })
}

fn lease() -> Value {
    let spec = json!({"holderIdentity": "node-1", "leaseDurationSeconds": 40, "renewTime": moment(0)});
    json!({"metadata": {"name": "node-1"}, "spec": spec})
}

/// Another moment for each round.
fn moment(round: usize) -> String {
    format!("2026-11-30T00:00:{:02}.{:06}Z", round / 1_000_000 % 60, round % 1_000_000 + 1)
}
