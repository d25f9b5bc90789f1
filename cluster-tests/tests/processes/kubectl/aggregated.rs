//! An aggregated server with a store of its own, and one in the shape of a metrics server, under kubectl.
//!
//! Owns both servers, which are one program here. Its things have owners in the cluster: an owner that is deleted in the foreground
//! takes them along, and one that orphans leaves them there without their references.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::super::tls_host::{Pair, Request, Stream, TlsHost, answer};
use super::*;

/// Time in which what an owner's end changes has to show.
const PATIENCE: Duration = Duration::from_secs(30);

const METRICS: &str = "/apis/metrics.k8s.io/v1beta1";
const SAMPLES: &str = "/apis/samples.example.com/v1";
const THINGS: &str = "/apis/samples.example.com/v1/namespaces/shop/things";

/// The things of the server, by their names, and how many there were.
#[derive(Default)]
struct Store {
    things: BTreeMap<String, Value>,
    made: usize,
}

impl Store {
    fn answer(&mut self, request: &Request) -> (&'static str, Value) {
        match (&*request.method, request.path()) {
            ("GET", METRICS) => {
                ("200 OK", described("metrics.k8s.io/v1beta1", &[("nodes", false), ("pods", true)]))
            }
            ("GET", SAMPLES) => ("200 OK", described("samples.example.com/v1", &[("things", true)])),
            ("GET", path) if path.starts_with(METRICS) => ("200 OK", measured(path)),
            ("POST", THINGS) => self.create(&request.body),
            ("GET", THINGS | "/apis/samples.example.com/v1/things") => {
                let items: Vec<&Value> = self.things.values().collect();
                let list = json!({
                    "kind": "ThingList", "apiVersion": "samples.example.com/v1", "metadata": {"resourceVersion": "1"},
                    "items": items,
                });
                ("200 OK", list)
            }
            (method, path) => match path.strip_prefix(THINGS).and_then(|rest| rest.strip_prefix('/')) {
                Some(name) if self.things.contains_key(name) => self.of_one(method, name, &request.body),
                _ => (
                    "404 Not Found",
                    json!({"kind": "Status", "apiVersion": "v1", "code": 404, "reason": "NotFound"}),
                ),
            },
        }
    }

    fn create(&mut self, sent: &Value) -> (&'static str, Value) {
        self.made += 1;
        let mut thing = sent.clone();
        thing["metadata"]["uid"] = json!(format!("thing-{}", self.made));
        thing["metadata"]["resourceVersion"] = json!("1");
        thing["metadata"]["namespace"] = json!("shop");
        self.things.insert(thing["metadata"]["name"].as_str().unwrap().to_owned(), thing.clone());
        ("201 Created", thing)
    }

    fn of_one(&mut self, method: &str, name: &str, sent: &Value) -> (&'static str, Value) {
        let thing = self.things.get_mut(name).expect("it was found");
        match method {
            "DELETE" => {
                assert_eq!(sent["preconditions"]["uid"], thing["metadata"]["uid"], "{sent}");
                ("200 OK", self.things.remove(name).expect("it was found"))
            }
            "PATCH" => {
                assert_eq!(sent["metadata"]["uid"], thing["metadata"]["uid"], "{sent}");
                thing["metadata"]["ownerReferences"] = sent["metadata"]["ownerReferences"].clone();
                ("200 OK", thing.clone())
            }
            _ => ("200 OK", thing.clone()),
        }
    }
}

/// The document of a group and version.
fn described(version: &str, resources: &[(&str, bool)]) -> Value {
    let resource = |(name, namespaced): &(&str, bool)| {
        let kind = match *name {
            "nodes" => "NodeMetrics",
            "pods" => "PodMetrics",
            _ => "Thing",
        };
        let verbs: &[&str] =
            if kind == "Thing" { &["create", "delete", "get", "list", "patch"] } else { &["get", "list"] };
        json!({"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": verbs})
    };
    let resources: Vec<Value> = resources.iter().map(resource).collect();
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources})
}

/// The measurements of the node `n` and of the pod `p`.
fn measured(path: &str) -> Value {
    let usage = |cpu: &str, memory: &str| json!({"cpu": cpu, "memory": memory});
    let head = json!({"timestamp": "2026-01-01T00:00:00Z", "window": "30s"});
    let (kind, mut item) = match path.ends_with("/nodes") {
        true => ("NodeMetrics", json!({"metadata": {"name": "n"}, "usage": usage("250m", "512Mi")})),
        false => {
            let containers = json!([{"name": "c", "usage": usage("30m", "64Mi")}]);
            ("PodMetrics", json!({"metadata": {"name": "p", "namespace": "shop"}, "containers": containers}))
        }
    };
    item["timestamp"] = head["timestamp"].clone();
    item["window"] = head["window"].clone();
    json!({"kind": format!("{kind}List"), "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": [item]})
}

async fn serve(mut stream: Stream, store: Arc<Mutex<Store>>) -> std::io::Result<()> {
    loop {
        let request = Request::read(&mut stream).await?;
        let (status, document) = store.lock().unwrap().answer(&request);
        answer(&mut stream, status, &document.to_string()).await?;
    }
}

impl Session {
    /// Has the server at `port` answer for `group` and `version`, and waits until it does.
    fn register(&self, (group, version): (&str, &str), port: u16) {
        let name = format!("{version}.{group}");
        let document = json!({
            "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": name.as_str()},
            "spec": {
                "group": group, "version": version, "groupPriorityMinimum": 1000, "versionPriority": 15,
                "insecureSkipTLSVerify": true, "service": {"namespace": "shop", "name": "samples", "port": port},
            },
        });
        let file = self.file(&format!("{name}.json"), &document.to_string());
        self.text(&["create", "-f", &file]);
        self.text(&["wait", "--for=condition=Available", "--timeout=30s", &format!("apiservice/{name}")]);
    }

    /// Makes the config map `owner`, and the thing `name` that it owns.
    fn own(&self, owner: &str, name: &str) {
        self.text(&["-n", "shop", "create", "configmap", owner]);
        let uid = self.text(&["-n", "shop", "get", "configmap", owner, "-o", "jsonpath={.metadata.uid}"]);
        let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": uid, "blockOwnerDeletion": true});
        let thing = json!({
            "apiVersion": "samples.example.com/v1", "kind": "Thing",
            "metadata": {"name": name, "ownerReferences": [reference]},
        });
        let file = self.file(&format!("{name}.json"), &thing.to_string());
        self.text(&["create", "--raw", THINGS, "-f", &file]);
    }

    fn owns_and_measures(&self, port: u16) {
        self.text(&["create", "namespace", "shop"]);
        self.text(&[
            "-n",
            "shop",
            "create",
            "service",
            "externalname",
            "samples",
            "--external-name=localhost",
        ]);
        self.register(("metrics.k8s.io", "v1beta1"), port);
        self.register(("samples.example.com", "v1"), port);
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
        self.text(&["create", "-f", &self.file("node.json", &node.to_string())]);
        let status =
            r#"{"status":{"allocatable":{"cpu":"1","memory":"1Gi"},"capacity":{"cpu":"1","memory":"1Gi"}}}"#;
        self.text(&["patch", "node", "n", "--subresource=status", "--type=merge", "-p", status]);
        let top = self.text(&["top", "nodes"]);
        assert!(top.contains("250m") && top.contains("25%") && top.contains("512Mi"), "{top}");
        let top = self.text(&["-n", "shop", "top", "pods"]);
        assert!(top.contains("30m") && top.contains("64Mi"), "{top}");

        self.own("first", "kept");
        self.own("second", "taken");
        let things = self.text(&["-n", "shop", "get", "things", "-o", "name"]);
        assert_eq!(things, "thing.samples.example.com/kept\nthing.samples.example.com/taken\n");
        // Both commands wait until the owner is gone.
        let began = Instant::now();
        self.text(&["-n", "shop", "delete", "configmap", "second", "--cascade=foreground"]);
        self.text(&["-n", "shop", "delete", "configmap", "first", "--cascade=orphan"]);
        assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
        let things = self.text(&["-n", "shop", "get", "things", "-o", "jsonpath={.items[*].metadata}"]);
        assert!(things.contains("kept") && !things.contains("taken"), "{things}");
        assert!(!things.contains("ConfigMap"), "its reference is gone: {things}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn aggregated_servers_measure_for_top_and_keep_things_that_go_with_their_owners() {
    if Command::new(KUBECTL).args(["version", "--client"]).output().is_err() {
        eprintln!("SKIPPED: {KUBECTL} is not installed");
        return;
    }
    let store: Arc<Mutex<Store>> = Arc::default();
    let host =
        TlsHost::start(&Pair::of("localhost", false), move |stream| serve(stream, store.clone())).await;
    let port = host.address.port();
    let flags = vec!["--allow-loopback-aggregation".to_owned()];
    let cluster = Cluster::start(Options { brand: "kubernetes", flags, ..Options::nodes(1) }).await.unwrap();
    tokio::task::spawn_blocking(move || Session::new(&cluster).owns_and_measures(port)).await.unwrap();
}
