//! The cost of creating one object through the whole pipeline: a config map, and pods without and with the admission
//! plugins of the default set.
//!
//! Prints one line for each figure, the median of many short runs, and what the pod costs more. Run with
//! `make microbench BENCH=admission`. The store is in memory and waits for nobody; nothing is asserted: figures of one
//! machine and one moment.

#![expect(clippy::print_stdout, reason = "a benchmark prints, and measures real time")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures::FutureExt;
use orch_api::admission::{Chain, PluginSelection};
use orch_api::ambient::SystemAmbient;
use orch_api::authn::{AnonymousAccess, Authenticator, TokenTable, User};
use orch_api::exchange::Exchange;
use orch_api::gate::Gate;
use orch_api::paging::TokenKey;
use orch_api::pipeline::{Features, Pipeline, Request};
use orch_api::registry::Registry;
use orch_api::request::{Query, Target, Verb};
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

fn main() {
    let maps = report("create of a config map", server(Chain::new(Vec::new())), "configmaps", &map());
    let bare = report("create of a pod, no plugin", server(Chain::new(Vec::new())), "pods", &pod());
    let selected = Chain::selected(&PluginSelection::default());
    let whole = report("create of a pod, default plugins", server(selected), "pods", &pod());
    println!("a pod over a config map {:>24.1} us, its plugins {:>8.1} us", whole - maps, whole - bare);
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
            verb: Verb::Create,
            registry: &registry,
            target: &target,
            resource: served,
            action: Action::Object,
            query: &query,
            exchange: &exchange,
            user: &user,
            user_agent: "bench",
            content_type: "application/json",
            body: &body,
            budget: &budget,
        };
        let answer = Box::pin(pipeline.run(request)).now_or_never().expect("it waits for nobody");
        black_box(answer.is_ok_and(|_| true))
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
