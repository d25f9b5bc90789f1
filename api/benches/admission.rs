//! The cost of creating one object through the whole pipeline: a config map, and pods without and with the admission
//! plugins of the default set. What webhooks cost that are not about a write, and one that is, without its server and the way to
//! it. And what a slow hook costs those who do not ask it.
//!
//! Prints one line for each figure, the median of many short runs, and what the pod costs more. Run with
//! `make microbench BENCH=admission`. The store is in memory and waits for nobody; nothing is asserted: figures of one
//! machine and one moment.

#![expect(clippy::print_stdout, reason = "a benchmark prints, and measures real time")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use futures::future::{BoxFuture, Either, ready};
use orch_api::admission::{
    self, Additions, Attributes, Chain, NamespaceMaker, Plugin, PluginSelection, Ruling, Settings, View,
};
use orch_api::ambient::{Ambient, SystemAmbient};
use orch_api::authn::{AnonymousAccess, Authenticator, TokenTable, User};
use orch_api::egress::{EgressError, Reply};
use orch_api::error::ApiError;
use orch_api::exchange::Exchange;
use orch_api::gate::Gate;
use orch_api::paging::TokenKey;
use orch_api::pipeline::{Answer, Features, Pipeline, Request};
use orch_api::registry::Registry;
use orch_api::request::{Query, Target, Verb};
use orch_api::webhook::{Call, Caller, Routing, Webhooks};
use orch_proto::brand::ORCH;
use orch_raft::memory::MemoryStore;
use orch_raft::{Index, Key, Operation, Put, Store, Transaction};
use orch_rules::Action;
use orch_schema::budget::Budget;
use orch_schema::json;
use orch_schema::value::Value;

/// The server's allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Number of runs, of which the median is reported.
const RUNS: usize = 401;

/// Creates in a run.
const CALLS: u32 = 10;

/// Time of the slow hook.
const HOOK: Duration = Duration::from_millis(200);

/// Clients that create pods through it, each one after another.
const CLIENTS: usize = 64;

/// Objects of the lists beside it.
const LISTED: usize = 10_000;

/// Time that the lists are measured for, in each of two runs.
const MEASURED: Duration = Duration::from_secs(5);

fn main() {
    let maps = report("create of a config map", server(Chain::new(Vec::new())), "configmaps", &map());
    let bare = report("create of a pod, no plugin", server(Chain::new(Vec::new())), "pods", &pod());
    let selected = Chain::selected(&PluginSelection::default());
    let whole = report("create of a pod, default plugins", server(selected), "pods", &pod());
    println!("a pod over a config map {:>24.1} us, its plugins {:>8.1} us", whole - maps, whole - bare);
    report_webhooks();
    report_lists_beside_a_hook();
}

/// A webhook that allows everything at once.
#[derive(Debug)]
struct Allowing;

impl Caller for Allowing {
    fn call(&self, call: Call) -> BoxFuture<'static, Result<Reply, EgressError>> {
        let text = std::str::from_utf8(&call.document).expect("documents are text");
        let (_, uid) = text.split_once("\"uid\":\"").expect("a review has a uid");
        let (uid, _) = uid.split_once('"').expect("it is a text");
        let answer = format!(
            "{{\"apiVersion\":\"{}/v1\",\"kind\":\"AdmissionReview\",\"response\":{{\"uid\":\"{uid}\",\"allowed\":true}}}}",
            ORCH.group("admission")
        );
        ready(Ok(Reply { status: 200, retry_after: None, body: answer.into() })).boxed()
    }
}

/// Prints what a create of a config map costs more with webhooks.
fn report_webhooks() {
    let of = |name: &str, resource: &str, selector: Value| {
        let rule = json!({
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource],
        });
        json!({
            "name": format!("{name}.example.com"), "clientConfig": {"url": "https://hook.example.com/"}, "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "objectSelector": selector, "rules": [rule], "failurePolicy": "Fail",
        })
    };
    let others: Vec<Value> = (0..10).map(|at| of(&format!("w{at}"), "secrets", json!({}))).collect();
    let unselected = vec![of("w", "configmaps", json!({"matchLabels": {"none": "has"}}))];
    let asked = vec![of("w", "configmaps", json!({}))];
    let without = report("create of a config map, no webhook", hooked(Vec::new()), "configmaps", &map());
    let cases = [
        ("... ten about other kinds", others),
        ("... one that its selector leaves out", unselected),
        ("... one that is asked", asked),
    ];
    for (name, webhooks) in cases {
        let with = report(name, hooked(webhooks), "configmaps", &map());
        println!("{:<40} {:>8.1} us more", "", with - without);
    }
}

/// A pipeline with the default plugins and a validating configuration of these webhooks.
fn hooked(webhooks: Vec<Value>) -> Pipeline<MemoryStore> {
    let mut pipeline = server(Chain::new(Vec::new()));
    if !webhooks.is_empty() {
        let object = json!({"metadata": {"name": "c"}, "webhooks": webhooks});
        let storage = "validatingwebhookconfigurations.admissionregistration";
        put(&pipeline.store, storage, "", "c", object, Vec::new());
    }
    let ambient: Arc<dyn Ambient> = Arc::new(SystemAmbient);
    let calls = Webhooks::new(
        Arc::new(Allowing),
        pipeline.store.clone(),
        ambient.clone(),
        &ORCH,
        Routing::ClusterAddress,
    );
    pipeline.admission = Chain::configured(Settings::default(), &ambient, &NamespaceMaker::default(), &calls);
    pipeline
}

/// A pipeline over a store with one namespace, whose pods are held to a level, and its service account.
fn server(admission: Chain) -> Pipeline<MemoryStore> {
    let store = MemoryStore::default();
    let labels = ["enforce", "warn"]
        .map(|mode| (format!("pod-security.{}/{mode}", ORCH.label_domain), "baseline".to_owned()));
    put(&store, "namespaces", "", "ns", json!({"metadata": {"name": "ns"}}), labels.to_vec());
    put(&store, "serviceaccounts", "ns", "default", json!({"metadata": {"name": "default"}}), Vec::new());
    let authenticator = Authenticator::new(&ORCH, TokenTable::default(), AnonymousAccess::Refused);
    let gate = Gate::builtin(&ORCH, authenticator);
    let (registry, ambient) = (Registry::builtin(&ORCH), Arc::new(SystemAmbient));
    let mut pipeline =
        Pipeline::new(store, registry, TokenKey::new([7; 32]), ambient, Features::default(), gate);
    pipeline.admission = admission;
    pipeline
}

fn put(
    store: &MemoryStore,
    storage: &str,
    namespace: &str,
    name: &str,
    object: Value,
    labels: Vec<(String, String)>,
) {
    let key = Key::new(&storage.into(), namespace, name).expect("a good name");
    let json = format!(r#"{{"resourceVersion":"",{}"#, &object.to_string()[1..]);
    let index = Index { labels: labels.into_iter().collect(), ..Index::default() };
    let put = Put { key, json: json.into(), revision_at: 20, index };
    let operations = vec![Operation::Put(put)];
    let proposed = store.propose(Transaction { proposed_ms: 0, conditions: Vec::new(), operations });
    proposed.now_or_never().expect("it waits for nobody").expect("it is applied");
}

/// Prints the median time of a create of `object`, and returns it.
fn report(name: &str, pipeline: Pipeline<MemoryStore>, resource: &str, object: &Value) -> f64 {
    let body = Bytes::from(object.to_string());
    let create = || {
        let answer = run(&pipeline, Verb::Create, resource, &body).now_or_never();
        black_box(answer.expect("it waits for nobody").is_ok())
    };
    assert!(create(), "{name}");
    let mut micros: Vec<f64> = (0..RUNS)
        .map(|_| {
            let began = Instant::now();
            for _ in 0..CALLS {
                create();
            }
            began.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS)
        })
        .collect();
    micros.sort_by(f64::total_cmp);
    println!("{name:<40} {:>8.1} us, {:>8.1} us at best", micros[RUNS / 2], micros[0]);
    micros[RUNS / 2]
}

/// Runs a request of the administrator for a collection in the namespace.
async fn run(
    pipeline: &Pipeline<MemoryStore>,
    verb: Verb,
    resource: &str,
    body: &Bytes,
) -> Result<Answer, ApiError> {
    let target = Target {
        version: "v1".to_owned(),
        namespace: "ns".to_owned(),
        resource: resource.to_owned(),
        ..Target::default()
    };
    let registry = pipeline.registry();
    let served = registry.find("", "v1", resource).expect("it is served");
    let (query, user, exchange, budget) =
        (Query::parse(""), User::local_admin(), Exchange::internal(), Budget::default());
    let request = Request {
        verb,
        registry: &registry,
        target: &target,
        resource: served,
        action: Action::Object,
        query: &query,
        exchange: &exchange,
        user: &user,
        user_agent: "bench",
        content_type: "application/json",
        body,
        budget: &budget,
    };
    Box::pin(pipeline.run(request)).await
}

/// Has every pod wait for [`HOOK`], as for another server.
struct Hook;

impl Plugin for Hook {
    fn name(&self) -> &'static str {
        "Hook"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.is("pods", &[admission::Operation::Create])
    }

    fn mutate<'a>(
        &'a self,
        _attributes: &'a Attributes<'a>,
        _object: Option<&'a mut Value>,
        _view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let wait = async {
            tokio::time::sleep(HOOK).await;
            Ok(())
        };
        Either::Right(wait.boxed())
    }
}

/// Prints how long lists of [`LISTED`] config maps take, alone and beside [`CLIENTS`] clients that create pods through a
/// [`Hook`], all on one thread, and how many pods those create.
fn report_lists_beside_a_hook() {
    let pipeline = server(Chain::new(vec![Box::new(Hook)]));
    let (map, pod) = (Bytes::from(map().to_string()), Bytes::from(pod().to_string()));
    for _ in 0..LISTED {
        let made = run(&pipeline, Verb::Create, "configmaps", &map).now_or_never();
        assert!(made.expect("it waits for nobody").is_ok());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    for clients in [0, CLIENTS] {
        let until = Instant::now() + MEASURED;
        let lists = async {
            let mut micros = Vec::new();
            while Instant::now() < until {
                let began = Instant::now();
                let Ok(Answer::List(list)) = run(&pipeline, Verb::List, "configmaps", &Bytes::new()).await
                else {
                    panic!("a list")
                };
                let bytes: usize = list.objects.iter().map(|object| object.json.len()).sum();
                black_box(bytes);
                micros.push(began.elapsed().as_secs_f64() * 1e6);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            micros.sort_by(f64::total_cmp);
            micros
        };
        let client = async || {
            let mut made = 0_u32;
            while Instant::now() < until {
                made += u32::from(run(&pipeline, Verb::Create, "pods", &pod).await.is_ok());
            }
            made
        };
        let creates = futures::future::join_all((0..clients).map(|_| client()));
        let (micros, made) = runtime.block_on(futures::future::join(lists, creates));
        let rate = f64::from(made.iter().sum::<u32>()) / MEASURED.as_secs_f64();
        let (median, p99) = (micros[micros.len() / 2], micros[micros.len() * 99 / 100]);
        println!(
            "a list of {LISTED} objects beside {clients:>2} clients {median:>8.1} us, p99 {p99:>8.1} us; {rate:.0} pods/s"
        );
    }
}

fn map() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "m-"}, "data": {"k": "v"}})
}

/// A pod as small as the config map: the difference is what a pod costs, not its size.
fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "p-"},
        "spec": {"containers": [{"name": "c", "image": "registry.example.com/team/app:v1.2.3"}]},
    })
}
