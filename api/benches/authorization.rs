//! The cost of one decision: RBAC with 10,000 bindings of which 50 touch the user, and the Node authorizer with 5,000
//! nodes of 20 pods each; and what a change adds to the decision after it.
//!
//! Prints one line for each figure, the median of many short runs. Run with `make microbench BENCH=authorization`. Nothing
//! is asserted: figures of one machine and one moment.

#![expect(clippy::print_stdout, reason = "a benchmark prints, and measures real time")]

use std::hint::black_box;
use std::time::Instant;

use futures::FutureExt;
use orch_api::authn::{GROUP_NODES, USER_NODE_PREFIX, User};
use orch_api::authz::node::NodeAuthorizer;
use orch_api::authz::rbac::{CLUSTER_ROLES, ROLE_BINDINGS, Rbac};
use orch_api::authz::{Attributes, Authorizer, Decision, ResourceAttributes};
use orch_api::follow::Applied;
use orch_proto::brand::ORCH;
use orch_raft::memory::MemoryStore;
use orch_raft::{Index, Key, Operation, Put, Store, Transaction};
use orch_schema::json;
use orch_schema::value::Value;

/// The server's allocator.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Number of runs, of which the median is reported.
const RUNS: usize = 401;

/// Decisions in a run.
const CALLS: u32 = 100;

/// Bindings of the cluster.
const BINDINGS: usize = 10_000;

/// Bindings that touch the user.
const OWN: usize = 50;

/// Nodes of the cluster.
const NODES: usize = 5_000;

/// Pods of each node.
const PODS: usize = 20;

fn main() {
    report_rbac();
    report_node();
}

/// All bindings of one namespace, each of a role of its own with four rules; half of the user's are those of a group.
fn report_rbac() {
    let store = MemoryStore::default();
    for at in 0..BINDINGS {
        let rules: Vec<Value> = (0..4)
            .map(|rule| json!({"verbs": ["get", "list"], "apiGroups": ["apps"], "resources": [format!("r{rule}-{at}")]}))
            .collect();
        put(&store, CLUSTER_ROLES, "", &format!("role-{at}"), json!({"rules": rules}));
        let subject = match at % (BINDINGS / OWN) {
            0 if at % 2 == 0 => json!({"kind": "User", "name": "ann"}),
            0 => json!({"kind": "Group", "name": "devs"}),
            _ => json!({"kind": "User", "name": format!("user-{at}")}),
        };
        let role = json!({"kind": "ClusterRole", "name": format!("role-{at}")});
        put(
            &store,
            ROLE_BINDINGS,
            "ns",
            &format!("binding-{at}"),
            json!({"subjects": [subject], "roleRef": role}),
        );
    }
    let rbac = Rbac::new(&ORCH);
    let ann = User { name: "ann".to_owned(), groups: vec!["devs".to_owned()], ..User::default() };
    let last = format!("r3-{}", BINDINGS - BINDINGS / OWN);
    let ask = |resource, expected| {
        let attributes = ResourceAttributes {
            verb: "list",
            group: "apps",
            resource,
            namespace: "ns",
            ..Default::default()
        };
        let applied = Applied::of(&store);
        move |rbac: &Rbac, ann: &User| decide(rbac, ann, attributes, &applied, expected)
    };
    let (allowed, refused) = (ask(&last, true), ask("none", false));
    report("RBAC, allowed by one of 50 of 10,000", || allowed(&rbac, &ann));
    report("RBAC, refused by all of 50 of 10,000", || refused(&rbac, &ann));
}

/// Pods of 5,000 nodes, each with an account, two secrets, a config map and a claim that is bound to a volume.
fn report_node() {
    let store = MemoryStore::default();
    for at in 0..NODES * PODS {
        put(&store, "pods", "ns", &format!("pod-{at}"), pod(at));
    }
    for at in 0..NODES {
        let csi = json!({"nodePublishSecretRef": {"namespace": "ns", "name": "of-all-volumes"}});
        let claim = json!({"namespace": "ns", "name": format!("claim-{at}")});
        put(
            &store,
            "persistentvolumes",
            "",
            &format!("volume-{at}"),
            json!({"spec": {"claimRef": claim, "csi": csi}}),
        );
    }
    let authorizer = NodeAuthorizer::new(&ORCH);
    let began = Instant::now();
    let user = User {
        name: format!("{USER_NODE_PREFIX}node-7"),
        groups: vec![GROUP_NODES.to_owned()],
        ..User::default()
    };
    let get = |resource, name| ResourceAttributes {
        verb: "get",
        resource,
        namespace: "ns",
        name,
        ..Default::default()
    };
    let applied = Applied::of(&store);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(authorizer.prepare(&applied));
    decide(&authorizer, &user, get("secrets", "secret-7-0"), &applied, true);
    println!(
        "{:<44} {:>8.1} ms",
        "Node, all pods read, beside the requests",
        began.elapsed().as_secs_f64() * 1e3
    );
    for (name, resource, object, expected) in [
        ("Node, a secret of its pods", "secrets", "secret-7-0", true),
        ("Node, a secret of other pods", "secrets", "secret-8-0", false),
        ("Node, a secret of 5,000 volumes", "secrets", "of-all-volumes", true),
        ("Node, a claim of its pods", "persistentvolumeclaims", "claim-7", true),
        ("Node, a pod of its own", "pods", "pod-7", true),
    ] {
        report(name, || decide(&authorizer, &user, get(resource, object), &applied, expected));
    }
    let mut at = 0;
    report("Node, a change of a pod and a decision", || {
        at += 1;
        put(&store, "pods", "ns", &format!("pod-{at}"), pod(at));
        decide(&authorizer, &user, get("pods", "pod-7"), &Applied::of(&store), true);
    });
}

/// Pod number `at`, on node `at % NODES`.
fn pod(at: usize) -> Value {
    let (node, index) = (at % NODES, at / NODES);
    let secret = |name: String| json!({"name": name, "secret": {"secretName": name}});
    json!({
        "spec": {
            "nodeName": format!("node-{node}"), "serviceAccountName": format!("account-{index}"),
            "containers": [{"name": "c", "image": "registry.example.com/team/app:v1.2.3", "env": [
                {"name": "A", "value": "b"},
                {"name": "C", "valueFrom": {"configMapKeyRef": {"name": format!("map-{index}"), "key": "k"}}},
            ]}],
            "volumes": [
                secret(format!("secret-{node}-{index}")), secret(format!("shared-{index}")),
                {"name": "d", "persistentVolumeClaim": {"claimName": format!("claim-{node}")}},
            ],
        },
        "status": {"phase": "Running", "message": at},
    })
}

fn put(store: &MemoryStore, storage: &str, namespace: &str, name: &str, object: Value) {
    let key = Key::new(&storage.into(), namespace, name).expect("a good name");
    let json = format!(r#"{{"resourceVersion":"",{}"#, &object.to_string()[1..]);
    let put = Put { key, json: json.into(), revision_at: 20, index: Index::default() };
    let operations = vec![Operation::Put(put)];
    let proposed = store.propose(Transaction { proposed_ms: 0, conditions: Vec::new(), operations });
    proposed.now_or_never().expect("it waits for nobody").expect("it is applied");
}

fn decide<A: Authorizer>(
    authorizer: &A,
    user: &User,
    asked: ResourceAttributes<'_>,
    applied: &Applied,
    expected: bool,
) {
    let decision = authorizer.decide(user, Attributes::Resource(asked), applied).now_or_never();
    let is_allowed = matches!(decision, Some(Decision::Allow(_)));
    assert_eq!(is_allowed, expected, "{asked:?}");
    black_box(is_allowed);
}

/// Prints the median time of a call of `work`.
fn report(name: &str, mut work: impl FnMut()) {
    let mut micros: Vec<f64> = (0..RUNS)
        .map(|_| {
            let began = Instant::now();
            for _ in 0..CALLS {
                work();
            }
            began.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS)
        })
        .collect();
    micros.sort_by(f64::total_cmp);
    println!("{name:<44} {:>8.2} us, {:>8.2} us at best", micros[RUNS / 2], micros[0]);
}
