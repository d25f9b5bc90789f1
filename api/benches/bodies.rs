//! The cost of the largest bodies that a client may send: processor time and memory of a request, over HTTP in memory.
//!
//! Prints one line for each case: bytes of the body and of the object it changes, milliseconds of processor time (the
//! mean of several requests), and the peak memory of one request. Run with `make microbench BENCH=bodies`; a part of a
//! case's name (`ARGS='-- apply'`) selects cases. Each case runs in processes of its own, so that none sees the memory
//! of another. Nothing is asserted: figures of one machine and one moment. No request changes the store.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::Body;
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt;
use orch_api::ambient::{Ambient, Timestamp};
use orch_api::authn::{AnonymousAccess, Authenticator, Peer, TokenTable};
use orch_api::gate::Gate;
use orch_api::http::Api;
use orch_api::paging::TokenKey;
use orch_api::pipeline::{Features, Pipeline};
use orch_api::registry::Registry;
use orch_proto::brand::ORCH;
use orch_raft::memory::MemoryStore;
use tokio::runtime::Builder;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// The server's allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Number of requests, of which the mean time is reported: the kernel counts processor time in hundredths of a second.
const RUNS: u32 = 20;

/// Argument that makes a process of this program measure the time of one case.
const TIME: &str = "--time";
/// Argument that makes a process of this program measure the memory of one case.
const MEMORY: &str = "--memory";

const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

const MAPS: &str = "/api/v1/namespaces/ns/configmaps";
const SECRETS: &str = "/api/v1/namespaces/ns/secrets";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/ns/deployments";
const PODS: &str = "/api/v1/namespaces/ns/pods";

/// Keys of a map whose stored form, managed fields included, has 1.3 MB.
const KEYS: usize = 50_000;

/// A request, and the object that it changes.
struct Case {
    name: &'static str,
    /// Path of the collection, and the object's JSON.
    object: Option<(&'static str, String)>,
    method: Method,
    path: String,
    content_type: &'static str,
    body: String,
}

struct Clock(AtomicU64);

impl Ambient for Clock {
    fn now(&self) -> Timestamp {
        Timestamp(1_767_322_145_000_000)
    }

    fn random(&self) -> u128 {
        u128::from(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [TIME, name] => time(&case(name)),
        [MEMORY, name] => memory(&case(name)),
        _ => {
            println!("{:<44} {:>9} {:>9} {:>9} {:>9}", "", "body", "object", "time", "memory");
            let parts: Vec<&String> =
                arguments.iter().filter(|argument| !argument.starts_with('-')).collect();
            let cases = cases().into_iter().map(|case| case.name);
            cases.filter(|name| parts.iter().all(|part| name.contains(*part))).for_each(measured);
        }
    }
}

fn case(name: &str) -> Case {
    cases().into_iter().find(|case| case.name == name).expect("a case of this program")
}

/// Measures one case in two processes, and prints its line.
fn measured(name: &str) {
    let program = std::env::current_exe().expect("a program has a path");
    let told = |what: &str| {
        let mut command = Command::new(&program);
        // Freed memory is returned at once, so that a request's memory shows.
        let free_at_once = [("MALLOC_CONF", "dirty_decay_ms:0,muzzy_decay_ms:0")];
        command.args([what, name]).envs(free_at_once.into_iter().filter(|_| what == MEMORY));
        let output = command.output().expect("the program runs");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    // The kernel counts pages in batches, and the allocator returns some late: the maximum of three runs.
    let most = (0..3).filter_map(|_| told(MEMORY).parse::<u64>().ok()).max().unwrap_or_default();
    println!("{name:<44} {} {most:>6} kB", told(TIME));
}

fn time(case: &Case) {
    block_on(async {
        let (router, object) = prepared(case).await;
        sent(&router, case).await;
        let before = processor_ms();
        for _ in 0..RUNS {
            sent(&router, case).await;
        }
        let each = f64::from(processor_ms() - before) / f64::from(RUNS);
        println!("{:>6} kB {:>6} kB {each:>6.0} ms", case.body.len() / 1000, object / 1000);
    });
}

fn memory(case: &Case) {
    block_on(async {
        let (router, _) = prepared(case).await;
        fs::write("/proc/self/clear_refs", "5").expect("Linux forgets the peak");
        let before = status_kb("VmRSS");
        sent(&router, case).await;
        println!("{}", status_kb("VmHWM").saturating_sub(before));
    });
}

fn block_on(work: impl Future<Output = ()>) {
    Builder::new_current_thread().enable_all().build().expect("a runtime starts").block_on(work);
}

/// Milliseconds of processor time of this process.
fn processor_ms() -> u32 {
    let stat = fs::read_to_string("/proc/self/stat").expect("Linux tells");
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    // User and system time, in hundredths of a second.
    behind_name.split(' ').skip(12).take(2).map(|ticks| ticks.parse::<u32>().unwrap_or_default() * 10).sum()
}

fn status_kb(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("Linux tells");
    let line = status.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kilobytes| kilobytes.parse().ok()).unwrap_or_default()
}

/// A server with the object of `case`, and the object's size in bytes.
async fn prepared(case: &Case) -> (Router, usize) {
    let authenticator = Authenticator::new(&ORCH, TokenTable::default(), AnonymousAccess::Refused);
    let pipeline = Pipeline::new(
        MemoryStore::default(),
        Registry::builtin(&ORCH),
        TokenKey::new([7; 32]),
        Arc::new(Clock(AtomicU64::new(1))),
        Features::default(),
        Gate::builtin(&ORCH, authenticator),
    );
    let router = Api::new(Arc::new(pipeline), CancellationToken::new()).router();
    let namespace = r#"{"metadata":{"name":"ns"}}"#.to_owned();
    created(&router, "/api/v1/namespaces", namespace).await;
    let size = match &case.object {
        Some((collection, object)) => created(&router, collection, object.clone()).await,
        None => 0,
    };
    (router, size)
}

async fn created(router: &Router, collection: &str, object: String) -> usize {
    let (code, size) = answer(router, Method::POST, collection, "application/json", object).await;
    assert_eq!(code, StatusCode::CREATED, "the object of a case is good");
    size
}

async fn sent(router: &Router, case: &Case) -> StatusCode {
    answer(router, case.method.clone(), &case.path, case.content_type, case.body.clone()).await.0
}

/// Status code and length of a response.
async fn answer(
    router: &Router,
    method: Method,
    path: &str,
    content_type: &str,
    body: String,
) -> (StatusCode, usize) {
    let address = "127.0.0.1:1".parse().expect("an address");
    let peer = Arc::new(Peer { address, certificate: None, local_admin: true, is_front_proxy: false });
    let request = Request::builder().method(method).uri(path).header("content-type", content_type);
    let request = request.extension(peer).body(Body::from(body)).expect("a request");
    let response = router.clone().oneshot(request).await.expect("an answer");
    let code = response.status();
    let body = response.into_body().collect().await.expect("a whole answer").to_bytes();
    (code, body.len())
}

/// `head`, then as many of `item` as fit into `bytes`, then `tail`.
fn filled(head: &str, item: impl Fn(usize) -> String, tail: &str, bytes: usize) -> String {
    let mut text = head.to_owned();
    for at in 0.. {
        let item = item(at);
        if text.len() + item.len() + tail.len() >= bytes {
            break;
        }
        if at > 0 {
            text.push(',');
        }
        text.push_str(&item);
    }
    text + tail
}

fn keys(value: &str) -> String {
    let entries: Vec<String> = (0..KEYS).map(|at| format!("\"k{at}\":\"{value}\"")).collect();
    entries.join(",")
}

fn big_map() -> String {
    format!(r#"{{"metadata":{{"name":"o","annotations":{{"a":"b"}}}},"data":{{{}}}}}"#, keys("v"))
}

fn port(at: usize) -> String {
    format!(r#"{{"containerPort":{}}}"#, at + 1)
}

/// A deployment's JSON before and after the ports of its container.
const DEPLOYMENT: [&str; 2] = [
    r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"o"},"spec":{"selector":{"matchLabels":{"a":"b"}},
        "template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i","ports":["#,
    "]}]}}}}",
];

fn deployment(ports: usize) -> String {
    let ports: Vec<String> = (0..ports).map(port).collect();
    format!("{}{}{}", DEPLOYMENT[0], ports.join(","), DEPLOYMENT[1])
}

fn variable(at: usize) -> String {
    format!(r#"{{"name":"E{at}","value":"x"}}"#)
}

fn pod(count: usize) -> String {
    let variables: Vec<String> = (0..count).map(variable).collect();
    format!(
        r#"{{"metadata":{{"name":"o"}},"spec":{{"containers":[{{"name":"c","image":"i","env":[{}]}}]}}}}"#,
        variables.join(",")
    )
}

fn cases() -> Vec<Case> {
    let mut cases = changes();
    cases.extend(applies());
    cases.extend(objects());
    cases
}

fn change(
    name: &'static str,
    object: (&'static str, String),
    content_type: &'static str,
    body: String,
) -> Case {
    let options = if content_type == APPLY { "&fieldManager=m&force=true" } else { "" };
    let path = format!("{}/o?dryRun=All{options}", object.0);
    Case { name, object: Some(object), method: Method::PATCH, path, content_type, body }
}

/// Patches of large objects.
fn changes() -> Vec<Case> {
    let map = || (MAPS, big_map());
    let label = || r#"{"metadata":{"labels":{"a":"b"}}}"#.to_owned();
    let one_key = || r#"{"data":{"k7":"w"}}"#.to_owned();
    let operation = |at: usize| format!(r#"{{"op":"replace","path":"/data/k{at}","value":"w"}}"#);
    let operations = |count: usize| format!("[{}]", (0..count).map(operation).collect::<Vec<_>>().join(","));
    let moves = |at: usize| match at % 2 {
        0 => r#"{"op":"move","from":"/data","path":"/metadata/annotations/x"}"#,
        _ => r#"{"op":"move","from":"/metadata/annotations/x","path":"/data"}"#,
    };
    let moves: Vec<&str> = (0..60).map(moves).collect();
    let secret = big_map().replace("\"v\"", "\"dg==\"");
    let variables = |count| {
        filled(
            r#"{"spec":{"containers":[{"name":"c","env":["#,
            |at| variable(at).replace('x', "y"),
            "]}]}}",
            count,
        )
    };
    vec![
        change("merge patch, a label of a map", map(), MERGE, label()),
        change("merge patch, one key of a map", map(), MERGE, one_key()),
        change("merge patch, all keys of a map", map(), MERGE, format!(r#"{{"data":{{{}}}}}"#, keys("w"))),
        change("merge patch, a label of a secret", (SECRETS, secret), MERGE, label()),
        change("merge patch, a label of a deployment", (DEPLOYMENTS, deployment(8000)), MERGE, label()),
        change("strategic patch, a label of a map", map(), STRATEGIC, label()),
        change("strategic patch, one key of a map", map(), STRATEGIC, one_key()),
        change("strategic patch, all variables of a pod", (PODS, pod(12_000)), STRATEGIC, variables(900_000)),
        change("strategic patch, other ports", (DEPLOYMENTS, deployment(8000)), STRATEGIC, {
            let head = r#"{"spec":{"template":{"spec":{"containers":[{"name":"c","ports":["#;
            filled(head, |at| port(at + 4000), "]}]}}}}", 250_000)
        }),
        change("JSON patch, one operation on a map", map(), JSON_PATCH, operations(1)),
        change("JSON patch, 10000 operations on a map", map(), JSON_PATCH, operations(10_000)),
        change("JSON patch, a map is moved", map(), JSON_PATCH, format!("[{}]", moves.join(","))),
    ]
}

/// Server-side applies.
fn applies() -> Vec<Case> {
    let head = |kind: &str| format!(r#"{{"apiVersion":"v1","kind":"{kind}","metadata":{{"name":"o"}},"#);
    let map = |value: &str| format!("{}\"data\":{{{}}}}}", head("ConfigMap"), keys(value));
    let empty = || (MAPS, r#"{"metadata":{"name":"o"}}"#.to_owned());
    let ports = |bytes| filled(DEPLOYMENT[0], |at| port(at + 4000), DEPLOYMENT[1], bytes);
    vec![
        change("apply, the same keys of a map", (MAPS, big_map()), APPLY, map("v")),
        change("apply, all keys of a map", (MAPS, big_map()), APPLY, map("w")),
        change("apply, one key of a map", (MAPS, big_map()), APPLY, {
            format!("{}\"data\":{{\"k7\":\"w\"}}}}", head("ConfigMap"))
        }),
        change("apply, all keys of a new map", empty(), APPLY, map("v")),
        change("apply, other ports", (DEPLOYMENTS, deployment(8000)), APPLY, ports(250_000)),
        change("apply, too many ports", (DEPLOYMENTS, deployment(1)), APPLY, ports(900_000)),
    ]
}

/// Creates and updates of whole objects.
fn objects() -> Vec<Case> {
    let create = |name, collection: &str, body| Case {
        name,
        object: None,
        method: Method::POST,
        path: format!("{collection}?dryRun=All"),
        content_type: "application/json",
        body,
    };
    let put = Case {
        method: Method::PUT,
        ..change("update of a map", (MAPS, big_map()), "application/json", {
            format!(r#"{{"metadata":{{"name":"o"}},"data":{{{}}}}}"#, keys("w"))
        })
    };
    vec![
        create("create of a map", MAPS, big_map()),
        create("create of a deployment", DEPLOYMENTS, deployment(8000)),
        create("create of a pod", PODS, pod(12_000)),
        put,
    ]
}
