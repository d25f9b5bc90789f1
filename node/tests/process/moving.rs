//! `orch import` between two nodes: killed twice on its way, it ends with equal objects, and `--follow` brings what changes later.
//!
//! `ORCH_MOVE_OBJECTS` sets the number of objects (`make move OBJECTS=20000`).

mod gaps;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use rustix::process::{Pid, Signal, kill_process};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::{PATIENCE, Process, dev};

/// Objects of a usual run.
const OBJECTS: usize = 300;
/// Services that get an address: the range of a node for development has 254. Further ones are headless.
const SERVICES_WITH_ADDRESS: usize = 100;
/// Kinds of definitions.
const CUSTOM_KINDS: usize = 16;
/// Changes that a client makes one after another directly before the cut-over.
const COUNTED: usize = 50;
/// The type of secrets that keep tokens.
const TOKEN: &str = "orch.io/service-account-token";
/// Between two looks at a condition.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Longest rest of a connection before the next request: a node ends those that are silent for some minutes.
const REST_MAX: Duration = Duration::from_secs(30);

/// A node, and a kept connection to it as its administrator.
struct Node {
    _process: Process,
    data: PathBuf,
    address: String,
    sender: SendRequest<Full<Bytes>>,
    /// When a request began last.
    used: Instant,
}

impl Node {
    async fn start(data: PathBuf) -> Node {
        let process = dev(&data);
        let url = process.endpoints().unwrap()["https"].as_str().unwrap().to_owned();
        let address = url.strip_prefix("https://").unwrap().to_owned();
        let sender = Node::connect(&data, &address).await;
        Node { _process: process, data, address, sender, used: Instant::now() }
    }

    async fn connect(data: &Path, address: &str) -> SendRequest<Full<Bytes>> {
        let file = |name: &str| data.join("pki").join(name);
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(file("ca.crt")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_file(file("admin.crt")).unwrap()],
                PrivateKeyDer::from_pem_file(file("admin.key")).unwrap(),
            )
            .unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
        let stream = connector.connect(ServerName::try_from("127.0.0.1").unwrap(), stream).await.unwrap();
        let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    fn config(&self) -> PathBuf {
        self.data.join("admin.conf")
    }

    async fn send(&mut self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let media = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder().method(method).uri(path).header("host", "node");
        let request = request.header("content-type", media).body(Full::new(Bytes::from(text))).unwrap();
        if self.used.elapsed() > REST_MAX {
            self.sender = Node::connect(&self.data, &self.address).await;
        }
        self.used = Instant::now();
        self.sender.ready().await.unwrap();
        let response = self.sender.send_request(request).await.unwrap();
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    async fn create(&mut self, path: &str, object: &Value) -> Value {
        let deadline = Instant::now() + 3 * PATIENCE;
        loop {
            let (status, body) = self.send(Method::POST, path, object).await;
            // A loop may not yet have made what the object needs: ranges of addresses, the kind.
            if matches!(status, 404 | 503) && Instant::now() < deadline {
                tokio::time::sleep(LOOK_EVERY).await;
                continue;
            }
            assert_eq!(status, 201, "{path}: {body}");
            return body;
        }
    }

    async fn get(&mut self, path: &str) -> Value {
        let (status, body) = self.send(Method::GET, path, &Value::Null).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    /// Every object of the kinds in `lists`, by kind, namespace and name, without what cannot be kept.
    async fn objects(&mut self, lists: &[String]) -> BTreeMap<String, Value> {
        let mut all = BTreeMap::new();
        for list in lists {
            for mut item in self.get(list).await["items"].as_array().unwrap().clone() {
                if is_left_behind(list, &item) {
                    continue;
                }
                let metadata = &mut item["metadata"];
                let name = format!("{list} {} {}", metadata["namespace"], metadata["name"]);
                metadata.as_object_mut().unwrap().remove("resourceVersion");
                all.insert(name, item);
            }
        }
        all
    }
}

/// Whether docs/guides/move-in.md says that the target has its own.
fn is_left_behind(list: &str, item: &Value) -> bool {
    let name = item["metadata"]["name"].as_str().unwrap_or_default();
    let is_api = item["metadata"]["namespace"] == "default" && name == "orch";
    match list.rsplit('/').next().unwrap_or_default() {
        // Each server writes its own authority into them.
        "secrets" => item["type"] == TOKEN,
        "services" | "endpoints" | "endpointslices" => is_api,
        "configmaps" => {
            name == "orch-root-ca.crt"
                || name == "extension-apiserver-authentication"
                || name == "orch-apiserver-legacy-service-account-token-tracking"
        }
        "servicecidrs" => name == "orch",
        "apiservices" => !item["spec"]["service"].is_object(),
        _ => false,
    }
}

/// Paths of the lists of everything that `node` keeps and that moves.
async fn lists(node: &mut Node) -> Vec<String> {
    let mut groups = vec!["/api/v1".to_owned()];
    for group in node.get("/apis").await["groups"].as_array().unwrap() {
        let version = group["preferredVersion"]["groupVersion"].as_str().unwrap();
        groups.push(format!("/apis/{version}"));
    }
    let mut lists = Vec::new();
    for group in groups {
        for resource in node.get(&group).await["resources"].as_array().unwrap() {
            let name = resource["name"].as_str().unwrap();
            let has = |verb: &str| resource["verbs"].as_array().unwrap().contains(&json!(verb));
            let stays = ["leases", "leasecandidates", "events", "certificatesigningrequests", "ipaddresses"];
            if has("list") && has("create") && !name.contains('/') && !stays.contains(&name) {
                lists.push(format!("{group}/{name}"));
            }
        }
    }
    lists
}

fn definition(at: usize) -> Value {
    let names = json!({"plural": format!("things{at}"), "kind": format!("Thing{at}")});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 3}}},
        "status": {"type": "object", "x-orch-preserve-unknown-fields": true},
    }}});
    json!({
        "metadata": {"name": format!("things{at}.example.com")},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [
            {"name": "v1", "served": true, "storage": true, "schema": schema, "subresources": {"status": {}}}
        ]},
    })
}

fn owned(owner: &Value, api_version: &str, kind: &str) -> Value {
    let metadata = &owner["metadata"];
    json!([{"apiVersion": api_version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"],
        "controller": true, "blockOwnerDeletion": true}])
}

fn template() -> Value {
    json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

/// Objects of built-in kinds, one of each, by the path of their list.
fn built_in(at: usize) -> Vec<(String, Value)> {
    let mut objects = of_core(at);
    objects.extend(of_groups());
    for (_, object) in &mut objects {
        object["metadata"] = json!({"name": format!("o{at}")});
    }
    objects.into_iter().map(|(path, object)| (path.to_owned(), object)).collect()
}

/// Objects without a name of the group without a name.
fn of_core(at: usize) -> Vec<(&'static str, Value)> {
    let limit = json!({"type": "Container", "default": {"cpu": "1"}});
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let volume =
        json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}});
    let subset = json!({"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]});
    let pod_network = format!("10.{}.{}.0/24", at / 250, at % 250);
    let service = match at < SERVICES_WITH_ADDRESS {
        true => json!({"ports": [{"port": 80}]}),
        false => json!({"ports": [{"port": 80}], "clusterIP": "None"}),
    };
    vec![
        ("/api/v1/namespaces/shop/configmaps", json!({"data": {"k": at.to_string()}})),
        ("/api/v1/namespaces/shop/secrets", json!({"stringData": {"k": "v"}})),
        ("/api/v1/namespaces/shop/serviceaccounts", json!({})),
        ("/api/v1/namespaces/shop/services", json!({"spec": service})),
        ("/api/v1/namespaces/shop/limitranges", json!({"spec": {"limits": [limit]}})),
        ("/api/v1/namespaces/shop/persistentvolumeclaims", json!({"spec": claim})),
        ("/api/v1/namespaces/shop/podtemplates", json!({"template": template()})),
        ("/api/v1/namespaces/shop/endpoints", json!({"subsets": [subset]})),
        ("/api/v1/persistentvolumes", json!({"spec": volume})),
        ("/api/v1/nodes", json!({"spec": {"podCIDR": pod_network}})),
    ]
}

/// Objects without a name of the other groups.
fn of_groups() -> Vec<(&'static str, Value)> {
    let workload = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template()});
    let job = json!({"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}});
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let subjects = json!([{"kind": "User", "apiGroup": "rbac.authorization.orch.io", "name": "ann"}]);
    let binding = |kind: &str| {
        let role = json!({"apiGroup": "rbac.authorization.orch.io", "kind": kind, "name": "r"});
        json!({"roleRef": role, "subjects": subjects})
    };
    let budget = json!({"minAvailable": 1, "selector": {"matchLabels": {"none": "such"}}});
    let scaled = json!({"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"});
    vec![
        ("/apis/apps/v1/namespaces/shop/statefulsets", json!({"spec": workload})),
        ("/apis/apps/v1/namespaces/shop/daemonsets", json!({"spec": workload})),
        ("/apis/batch/v1/namespaces/shop/jobs", json!({"spec": job})),
        (
            "/apis/batch/v1/namespaces/shop/cronjobs",
            json!({"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": job}}}),
        ),
        ("/apis/networking.orch.io/v1/namespaces/shop/networkpolicies", json!({"spec": {"podSelector": {}}})),
        ("/apis/networking.orch.io/v1/ingressclasses", json!({"spec": {"controller": "example.com/c"}})),
        ("/apis/policy/v1/namespaces/shop/poddisruptionbudgets", json!({"spec": budget})),
        ("/apis/rbac.authorization.orch.io/v1/namespaces/shop/roles", json!({"rules": rules})),
        ("/apis/rbac.authorization.orch.io/v1/namespaces/shop/rolebindings", binding("Role")),
        ("/apis/rbac.authorization.orch.io/v1/clusterroles", json!({"rules": rules})),
        ("/apis/rbac.authorization.orch.io/v1/clusterrolebindings", binding("ClusterRole")),
        ("/apis/scheduling.orch.io/v1/priorityclasses", json!({"value": 7})),
        ("/apis/storage.orch.io/v1/storageclasses", json!({"provisioner": "example.com/p"})),
        (
            "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers",
            json!({"spec": {"maxReplicas": 3, "scaleTargetRef": scaled}}),
        ),
    ]
}

/// A deployment, its replica set and its pod, which name one another as owners, below a custom object that owns the deployment.
async fn chain(node: &mut Node, name: &str) {
    let thing =
        json!({"apiVersion": "example.com/v1", "kind": "Thing0", "metadata": {"name": name}, "spec": {}});
    let thing = node.create("/apis/example.com/v1/namespaces/shop/things0", &thing).await;
    let apps = "/apis/apps/v1/namespaces/shop";
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template()});
    let metadata = |owners: Value| json!({"name": name, "labels": {"a": "b"}, "ownerReferences": owners});
    let deployment = json!({"metadata": metadata(owned(&thing, "example.com/v1", "Thing0")), "spec": spec});
    let deployment = node.create(&format!("{apps}/deployments"), &deployment).await;
    let set = json!({"metadata": metadata(owned(&deployment, "apps/v1", "Deployment")), "spec": spec});
    let set = node.create(&format!("{apps}/replicasets"), &set).await;
    let revision = json!({"metadata": metadata(owned(&set, "apps/v1", "ReplicaSet")), "revision": 1, "data": {"k": "v"}});
    node.create(&format!("{apps}/controllerrevisions"), &revision).await;
    let pod = json!({"metadata": metadata(owned(&set, "apps/v1", "ReplicaSet")), "spec": template()["spec"]});
    let pod = node.create("/api/v1/namespaces/shop/pods", &pod).await;
    let path = format!("/api/v1/namespaces/shop/pods/{name}/status");
    let mut running = pod;
    running["status"]["phase"] = json!("Running");
    let (status, body) = node.send(Method::PUT, &path, &running).await;
    assert_eq!(status, 200, "{body}");
}

/// A secret with a token of `account`, once the node has filled it in.
async fn token(node: &mut Node, account: &str) -> Value {
    let annotations = json!({"orch.io/service-account.name": account});
    let name = format!("token-of-{account}");
    let secret = json!({"metadata": {"name": name, "annotations": annotations}, "type": TOKEN});
    node.create("/api/v1/namespaces/shop/secrets", &secret).await;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let secret = node.get(&format!("/api/v1/namespaces/shop/secrets/{name}")).await;
        if secret["data"]["token"].is_string() {
            return secret;
        }
        assert!(Instant::now() < deadline, "{secret}");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn fill(node: &mut Node, count: usize) {
    node.create("/api/v1/namespaces", &json!({"metadata": {"name": "shop", "labels": {"team": "x"}}})).await;
    let classes = json!({"metadata": {"name": "r"}, "rules": []});
    node.create("/apis/rbac.authorization.orch.io/v1/clusterroles", &classes).await;
    for at in 0..CUSTOM_KINDS {
        node.create("/apis/apiextensions.orch.io/v1/customresourcedefinitions", &definition(at)).await;
    }
    let (mut made, mut at) = (0, 0);
    while made < count {
        for (path, object) in built_in(at) {
            node.create(&path, &object).await;
            made += 1;
        }
        for kind in 0..CUSTOM_KINDS {
            let thing = json!({"apiVersion": "example.com/v1", "kind": format!("Thing{kind}"),
                "metadata": {"name": format!("o{at}"), "finalizers": ["example.com/f"]}, "spec": {"size": at}});
            node.create(&format!("/apis/example.com/v1/namespaces/shop/things{kind}"), &thing).await;
            made += 1;
        }
        chain(node, &format!("c{at}")).await;
        made += 5;
        at += 1;
    }
}

/// The command of a move from `source` to `target`.
fn import(source: &Node, target: &Node, state: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_orch"));
    command.arg("import").arg("--kubeconfig").arg(source.config()).arg("--to").arg(target.config());
    command.arg("--state").arg(state).args(flags).stdin(Stdio::null());
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Begins the move and kills it when the state file has `lines` lines.
fn begin_and_kill(mut command: Command, state: &Path, lines: usize) {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (mut deadline, mut before) = (Instant::now() + 3 * PATIENCE, 0);
    loop {
        let now = fs::read_to_string(state).map_or(0, |text| text.lines().count());
        if now >= lines {
            break;
        }
        if now > before {
            (deadline, before) = (Instant::now() + 3 * PATIENCE, now);
        }
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was killed");
        assert!(Instant::now() < deadline, "the move does not go on");
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The differences between two servers, a line each.
fn differences(source: &BTreeMap<String, Value>, target: &BTreeMap<String, Value>) -> Vec<String> {
    let mut found = Vec::new();
    for (name, object) in source {
        match target.get(name) {
            None => found.push(format!("{name} is missing")),
            Some(other) if other == object => {}
            Some(other) => found.push(format!("{name}:\n  {object}\n  {other}")),
        }
    }
    found.extend(
        target.keys().filter(|name| !source.contains_key(*name)).map(|name| format!("{name} is too many")),
    );
    found
}

/// Waits until both servers have the same objects.
async fn await_equality(source: &mut Node, target: &mut Node, lists: &[String]) {
    let deadline = Instant::now() + 3 * PATIENCE;
    loop {
        let (ours, theirs) = (source.objects(lists).await, target.objects(lists).await);
        let found = differences(&ours, &theirs);
        if found.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "{}", found.join("\n"));
        tokio::time::sleep(LOOK_EVERY * 5).await;
    }
}

#[tokio::test]
async fn a_move_that_is_killed_twice_ends_equal_and_follows_what_changes() {
    let count = std::env::var("ORCH_MOVE_OBJECTS").ok().and_then(|text| text.parse().ok()).unwrap_or(OBJECTS);
    let directory = tempfile::tempdir().unwrap();
    let mut source = Node::start(directory.path().join("source")).await;
    let mut target = Node::start(directory.path().join("target")).await;
    let state = directory.path().join("state");
    fill(&mut source, count).await;
    let tokens = [token(&mut source, "default").await, token(&mut source, "o0").await];
    let lists = lists(&mut source).await;
    assert!(lists.len() > 60, "{lists:?}");
    let objects = source.objects(&lists).await;
    let kinds: BTreeSet<&str> = objects.keys().filter_map(|name| name.split(' ').next()).collect();
    assert!(objects.len() >= count && kinds.len() >= 40, "{} objects of {kinds:?}", objects.len());

    let before = target.get("/orch/v1/cluster").await["applied"].clone();
    let tried = import(&source, &target, &state, &["--dry-run"]).output().unwrap();
    let shown = text(&tried);
    assert_eq!(tried.status.code(), Some(3), "{shown}");
    assert!(
        shown.contains("things0.example.com: ") && shown.contains("come with their definition"),
        "{shown}"
    );
    assert!(!shown.contains("REFUSED") && !shown.contains("DO NOT FIT"), "{shown}");
    let after = target.get("/orch/v1/cluster").await["applied"].clone();
    assert!(!state.exists(), "a dry run leaves nothing");
    assert!(after.as_u64().unwrap() < before.as_u64().unwrap() + 20, "{before} {after}");

    begin_and_kill(import(&source, &target, &state, &[]), &state, count / 3);
    // Copied by now, and gone before the next run.
    let gone = "/apis/apiextensions.orch.io/v1/customresourcedefinitions/things0.example.com";
    assert_eq!(target.send(Method::GET, gone, &Value::Null).await.0, 200);
    begin_and_kill(import(&source, &target, &state, &[]), &state, count * 2 / 3);
    // Copied or not by now, and another object before the next run.
    for path in ["/api/v1/namespaces/shop/podtemplates", "/apis/batch/v1/namespaces/shop/cronjobs"] {
        let first = source.get(&format!("{path}/o0")).await;
        source.send(Method::DELETE, &format!("{path}/o0"), &Value::Null).await;
        let mut again = first.clone();
        again["metadata"] = json!({"name": "o0"});
        assert_ne!(source.create(path, &again).await["metadata"]["uid"], first["metadata"]["uid"]);
    }
    let ended = import(&source, &target, &state, &[]).output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended));
    assert!(text(&ended).contains("going on with"), "{}", text(&ended));
    await_equality(&mut source, &mut target, &lists).await;
    for token in tokens {
        let name = token["metadata"]["name"].as_str().unwrap();
        let found = target.get(&format!("/api/v1/namespaces/shop/secrets/{name}")).await;
        assert_eq!(found["metadata"]["uid"], token["metadata"]["uid"], "it stays with its account");
        assert_eq!(found["data"]["token"], token["data"]["token"]);
    }

    follow(&mut source, &mut target, &state, &lists).await;
}

/// Has changes of every sort made at the source while they are followed.
async fn follow(source: &mut Node, target: &mut Node, state: &Path, lists: &[String]) {
    let mut command = import(source, target, state, &["--follow"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    source.create("/api/v1/namespaces", &json!({"metadata": {"name": "later"}})).await;
    let map = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    source.create("/api/v1/namespaces/later/configmaps", &map).await;
    let patch = json!({"data": {"k": "changed"}});
    source.send(Method::PATCH, "/api/v1/namespaces/shop/configmaps/o0", &patch).await;
    source.send(Method::DELETE, "/api/v1/namespaces/shop/secrets/o0", &Value::Null).await;
    chain(source, "late").await;
    let definition = definition(CUSTOM_KINDS);
    source.create("/apis/apiextensions.orch.io/v1/customresourcedefinitions", &definition).await;
    let kind = format!("Thing{CUSTOM_KINDS}");
    let thing = json!({"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "x"}, "spec": {}});
    let things = format!("/apis/example.com/v1/namespaces/shop/things{CUSTOM_KINDS}");
    source.create(&things, &thing).await;
    // The replica set and its pod stay, without their owner.
    let orphan = json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Orphan"});
    source.send(Method::DELETE, "/apis/apps/v1/namespaces/shop/deployments/c0", &orphan).await;
    let all: Vec<String> =
        lists.iter().cloned().chain([format!("/apis/example.com/v1/things{CUSTOM_KINDS}")]).collect();
    let deadline = Instant::now() + 3 * PATIENCE;
    while target.send(Method::GET, &all[all.len() - 1], &Value::Null).await.0 != 200 {
        assert!(Instant::now() < deadline, "the new kind does not come");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    await_equality(source, target, &all).await;
    // A client goes on at the source until the cut-over, and then at the target.
    let counter = "/api/v1/namespaces/shop/configmaps/o0";
    for at in 1..=COUNTED {
        let (status, body) =
            source.send(Method::PATCH, counter, &json!({"data": {"count": at.to_string()}})).await;
        assert_eq!(status, 200, "{body}");
    }
    let before = source.get(counter).await;
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{}", text(&ended));
    assert!(text(&ended).contains("listing everything once more"), "{}", text(&ended));
    let after = target.get(counter).await;
    assert_eq!(after["data"]["count"], COUNTED.to_string(), "the last write before the cut-over is there");
    assert_eq!(after["metadata"]["uid"], before["metadata"]["uid"]);
    await_equality(source, target, &all).await;
    let version = &after["metadata"]["resourceVersion"];
    let next = json!({"metadata": {"uid": before["metadata"]["uid"], "resourceVersion": version}, "data": {"count": "next"}});
    let (status, body) = target.send(Method::PATCH, counter, &next).await;
    assert_eq!((status, &body["data"]["count"]), (200, &json!("next")), "{body}");
}
