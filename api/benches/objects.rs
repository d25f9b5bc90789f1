//! The cost of changing a pod of about 4 kB: server-side apply, strategic merge patch, ownership of an update, and the
//! steps around them.
//!
//! Prints one line for each figure, the median of many short runs. Run with `make microbench`. Nothing is asserted:
//! figures of one machine and one moment.

#![expect(clippy::print_stdout, reason = "a benchmark prints, and measures real time")]

use std::hint::black_box;
use std::sync::LazyLock;
use std::time::Instant;

use orch_api::fields::{ApplyOptions, Writer, apply, track_update};
use orch_api::patch::{JsonPatch, merge_patch, strategic_merge_patch};
use orch_proto::brand::ORCH;
use orch_schema::json;
use orch_schema::value::Value;
use orch_schema::{Limits, Schema, decode_json, encode_json};

/// The server's allocator: half of the measured work allocates and frees values.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Number of runs, of which the median is reported.
const RUNS: usize = 401;

/// Calls in a run.
const CALLS: u32 = 10;

fn main() {
    let schema = Schema::builtin(&ORCH);
    let pod = schema.find_type("core.v1.Pod").expect("pods are built in");
    let given = given();
    let config_text = given.to_string();
    let decoded =
        decode_json(&schema, pod, config_text.as_bytes(), Limits::default()).expect("a good pod").value;
    let created = applied(&schema, None, &given, "one");
    let mut stored = Vec::new();
    encode_json(&schema, pod, &created, &mut stored);
    println!("a pod of {} bytes, {} as stored", config_text.len(), stored.len());

    let mut other = given.clone();
    other["spec"]["containers"][1]["image"] = json!("registry.example.com/team/sidecar:v1.2.4");
    let live = || Some(created.clone());
    report("apply, nothing changes", live, |live| applied(&schema, live, &given, "one"));
    report("apply, one field changes", live, |live| applied(&schema, live, &other, "one"));
    report("apply, first by another manager", live, |live| applied(&schema, live, &given, "two"));
    let shared = among_others(&schema, created.clone());
    let live = || Some(shared.clone());
    report("apply, one field, three managers", live, |live| applied(&schema, live, &other, "one"));
    report("apply, creates", || None, |none| applied(&schema, none, &given, "one"));

    let some = json!({"spec": {
        "containers": [{"name": "sidecar", "image": "registry.example.com/team/sidecar:v1.2.4",
            "env": [{"name": "LEVEL", "value": "debug"}]}],
        "$setElementOrder/containers": [{"name": "app"}, {"name": "sidecar"}],
        "tolerations": [{"key": "k", "operator": "Exists"}],
    }, "metadata": {"labels": {"version": "v2"}, "annotations": {"gone": null}}});
    for (name, patch) in [("strategic merge, some fields", &some), ("strategic merge, the whole pod", &given)]
    {
        let given = || (created.clone(), patch.clone());
        report(name, given, |(mut target, patch)| {
            strategic_merge_patch(&schema, pod, &mut target, patch).expect("a good patch");
            target
        });
    }
    let whole = || (created.clone(), given.clone());
    report("merge patch, the whole pod", whole, |(mut target, patch)| {
        merge_patch(&mut target, patch).expect("a good patch");
        target
    });
    let operations = json!([{"op": "replace", "path": "/spec/containers/1/image", "value": "i:2"}]);
    let copy = || created.clone();
    let patched = || (created.clone(), JsonPatch::parse(operations.clone()).expect("a good patch"));
    report("JSON patch, one operation", patched, |(mut target, operations)| {
        operations.apply(&mut target).expect("a path that is there");
        target
    });
    report("ownership of an update, one field", copy, |mut new| {
        new["spec"]["containers"][1]["image"] = json!("i:2");
        track_update(&schema, pod, Some(&created), &mut new, &writer("three")).expect("a good object");
        new
    });
    let nothing = || ();
    report("decode from JSON", nothing, |()| {
        decode_json(&schema, pod, config_text.as_bytes(), Limits::default()).expect("a good pod").value
    });
    report("encode as JSON", nothing, |()| {
        let mut out = Vec::with_capacity(8192);
        encode_json(&schema, pod, &decoded, &mut out);
        out
    });
    report("copy", nothing, |()| created.clone());
}

/// `pod` after a second manager has applied a label and a third has written an annotation and a status.
fn among_others(schema: &Schema, pod: Value) -> Value {
    let config = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"tier": "front"}}});
    let labelled = applied(schema, Some(pod), &config, "two");
    let mut new = labelled.clone();
    new["metadata"]["annotations"]["example.com/seen"] = json!("yes");
    new["spec"]["nodeName"] = json!("node-1");
    let pod = schema.find_type("core.v1.Pod").expect("pods are built in");
    track_update(schema, pod, Some(&labelled), &mut new, &writer("three")).expect("a good object");
    new
}

static RESET: LazyLock<[String; 1]> = LazyLock::new(|| ["status".to_owned()]);

fn writer(manager: &str) -> Writer<'_> {
    Writer {
        manager,
        api_version: "v1",
        subresource: "",
        now: "2026-01-02T03:04:05Z",
        reset: &*RESET,
        others: &[],
    }
}

fn applied(schema: &Schema, live: Option<Value>, config: &Value, manager: &str) -> Value {
    let pod = schema.find_type("core.v1.Pod").expect("pods are built in");
    let options = ApplyOptions { force: true, brand: &ORCH };
    apply(schema, pod, live, config, &writer(manager), options).expect("a good configuration")
}

/// Prints the median time of a call of `work` on the result of `prepare`, which is not measured.
fn report<I, T>(name: &str, prepare: impl Fn() -> I, mut work: impl FnMut(I) -> T) {
    if !std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .all(|part| name.contains(&part))
    {
        return;
    }
    let mut micros: Vec<f64> = (0..RUNS)
        .map(|_| {
            let given: Vec<I> = (0..CALLS).map(|_| prepare()).collect();
            let began = Instant::now();
            for input in given {
                black_box(work(input));
            }
            began.elapsed().as_secs_f64() * 1e6 / f64::from(CALLS)
        })
        .collect();
    micros.sort_by(f64::total_cmp);
    println!("{name:<40} {:>8.1} us, {:>8.1} us at best", micros[RUNS / 2], micros[0]);
}

/// A pod as a larger deployment creates it.
fn given() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "shop-frontend-7d4b9c6f5-x2x9z", "namespace": "shop",
            "labels": {"app": "frontend", "team": "shop", "version": "v1", "pod-template-hash": "7d4b9c6f5"},
            "annotations": {"example.com/scrape": "true", "example.com/port": "9090", "gone": "soon"}},
        "spec": {
            "serviceAccountName": "frontend", "terminationGracePeriodSeconds": 45, "restartPolicy": "Always",
            "securityContext": {"runAsNonRoot": true, "runAsUser": 1000, "fsGroup": 2000},
            "tolerations": [
                {"key": "node.example.com/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
                {"key": "node.example.com/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
            "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100,
                "podAffinityTerm": {"topologyKey": "example.com/zone", "labelSelector": {"matchLabels": {"app": "frontend"}}}}]}},
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "example.com/zone",
                "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": "frontend"}}}],
            "volumes": [
                {"name": "config", "configMap": {"name": "frontend-config", "items": [{"key": "app.yaml", "path": "app.yaml"}]}},
                {"name": "tls", "secret": {"secretName": "frontend-tls", "defaultMode": 256}},
                {"name": "cache", "emptyDir": {"sizeLimit": "256Mi"}}],
            "initContainers": [container("migrate", 1)],
            "containers": [container("app", 4), container("sidecar", 2)],
        }
    })
}

fn container(name: &str, variables: usize) -> Value {
    let env: Vec<Value> = (0..variables)
        .map(|at| json!({"name": format!("SETTING_{at}"), "value": format!("value of setting {at}")}))
        .collect();
    let probe = json!({"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10,
        "timeoutSeconds": 2, "failureThreshold": 3});
    json!({
        "name": name, "image": format!("registry.example.com/team/{name}:v1.2.3"), "imagePullPolicy": "IfNotPresent",
        "command": [format!("/bin/{name}"), "--config", "/etc/app/app.yaml", "--verbose"],
        "env": env,
        "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"},
            {"name": "metrics", "containerPort": 9090, "protocol": "TCP"}],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "500m", "memory": "256Mi"}},
        "livenessProbe": probe, "readinessProbe": probe,
        "volumeMounts": [{"name": "config", "mountPath": "/etc/app", "readOnly": true},
            {"name": "tls", "mountPath": "/etc/tls", "readOnly": true}, {"name": "cache", "mountPath": "/var/cache"}],
        "securityContext": {"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]}},
    })
}
