//! The services of the compose file, the units and the pods of the manifests are started as processes, with their flags, in
//! the root of the container image.
//!
//! The root is what `deploy/containers/root.sh` makes, as in the Containerfile. It is read-only, processes belong to the
//! image's user and have no capabilities ([`root`]). Not proven here: that an image is built, that a container engine, systemd
//! or a cluster reads the files as this test does, and the filters of system calls.

mod chart;
mod compose;
mod containers;
mod flags;
mod manifests;
mod release;
mod root;
mod units;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use orch_cluster_tests::client::{Access, Client, Endpoint, Identity, Trust};
use serde_json::{Value, json};

/// Longest wait for a start, a founding or a scheduled pod: far more than each takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// The port of HTTPS in every one of these files.
const SECURE_PORT: u16 = 6443;

/// Most levels of merge keys in these files.
const MERGES: usize = 3;

/// The root of the repository.
fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// The text of a file of the repository.
fn source(name: &str) -> String {
    let path = repository().join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The documents of a YAML file, with its merge keys applied.
fn documents(text: &str) -> Vec<Value> {
    let documents = serde_norway::Deserializer::from_str(text).map(|document| {
        let mut value: serde_norway::Value = serde::Deserialize::deserialize(document).unwrap();
        // Once for each level: a merged map may itself merge another.
        for _ in 0..MERGES {
            value.apply_merge().unwrap();
        }
        serde_json::to_value(value).unwrap()
    });
    documents.filter(|value: &Value| !value.is_null()).collect()
}

/// The texts of a list.
fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.map(|item| item.as_str().unwrap_or_else(|| panic!("not a text: {item}")).to_owned()).collect()
}

/// Runs a tool to its end; its absence fails with the package that has it.
fn tool(name: &str, package: &str, run: impl FnOnce(&mut Command)) -> std::process::Output {
    let mut command = Command::new(name);
    run(&mut command);
    command.output().unwrap_or_else(|error| panic!("{name}: {error}; `apt-get install {package}` brings it"))
}

/// A client of the member at `address`, with the administrator's certificate in `certificates`. The address is no name of the
/// member's: its names are those that the deployment gives it.
fn administrator(certificates: &std::path::Path, address: &str) -> Client {
    let read = |name: &str| std::fs::read(certificates.join(name)).unwrap();
    let identity = Identity::Certificate { chain: read("admin.crt"), key: read("admin.key") };
    Client::new(Endpoint::https(address, SECURE_PORT), Access::new(Trust::Anyone, identity))
}

/// A client without credentials, as probes are.
fn probe(address: &str) -> Client {
    Client::new(Endpoint::https(address, SECURE_PORT), Access::new(Trust::Anyone, Identity::Anonymous))
}

/// Asks again until `look` finds something.
async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Result<T, String>) -> T {
    let began = Instant::now();
    loop {
        match look().await {
            Ok(found) => return found,
            Err(seen) => assert!(began.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}: {seen}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until `path` at `address` answers 200 to a request without credentials.
async fn wait_probe(address: &str, path: &str) {
    until(&format!("{address}{path}"), async || match probe(address).get(path).await {
        Ok(answer) if answer.status == 200 => Ok(()),
        Ok(answer) => Err(format!("{} {}", answer.status, String::from_utf8_lossy(&answer.body))),
        Err(error) => Err(format!("{error:#}")),
    })
    .await;
}

/// Waits until a pod that is made now is bound to a node: a scheduler works.
async fn wait_scheduled(client: &Client) {
    let node = json!({"metadata": {"name": "one"},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}});
    client.post("/api/v1/nodes", &node).await.unwrap().success().unwrap();
    let ready = json!({"spec": {"taints": null}});
    client.merge_patch("/api/v1/nodes/one", &ready).await.unwrap().success().unwrap();
    let pod = json!({"metadata": {"name": "first"},
        "spec": {"containers": [{"name": "main", "image": "hello"}]}});
    // The namespace gets its account a moment later.
    until("a pod is made", async || {
        let answer = client.post("/api/v1/namespaces/default/pods", &pod).await;
        answer.and_then(|answer| answer.success()).map_err(|error| format!("{error:#}"))
    })
    .await;
    until("a pod is scheduled", async || {
        let found = client.get("/api/v1/namespaces/default/pods/first").await;
        let found = found.and_then(|answer| answer.success()).map_err(|error| format!("{error:#}"))?;
        found["spec"]["nodeName"].as_str().map(drop).ok_or_else(|| found["status"].to_string())
    })
    .await;
}

/// Asserts that every member of the cluster is a voter and answers.
async fn assert_voters(client: &Client, names: &[&str]) {
    until("every member votes", async || {
        let view = client.get("/orch/v1/cluster?survey=true").await;
        let view = view.and_then(|answer| answer.success()).map_err(|error| format!("{error:#}"))?;
        let members = view["members"].as_array().cloned().unwrap_or_default();
        let voters = members.iter().filter(|member| member["role"] == "voter");
        let mut found: Vec<_> = voters.filter_map(|member| member["name"].as_str()).collect();
        found.sort_unstable();
        if found == names { Ok(()) } else { Err(view.to_string()) }
    })
    .await;
}
