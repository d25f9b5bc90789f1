//! A cluster of three that is lost with its machines lives on, under other names and addresses, from a snapshot that was taken under
//! load.
//!
//! Owns the way of its clients through that: 64 writers while the snapshot is saved, and two informers of the ecosystem, kube's and the
//! Python client's, which reach the cluster at an address that moves. Each lists anew once, and ends with what the new cluster has.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use orch_cluster_tests::client::{Access, Client, Endpoint, Identity, Trust};
use orch_cluster_tests::cluster::{Cluster, Options, program};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::clients::python;
use crate::identities::Restored;
use crate::load::{Acknowledged, Writers};
use crate::objects::{COLLECTION, NAMESPACE, config_map, list, make_namespace};
use crate::rust_client::Transport;
use crate::saves::Way;
use crate::snapshots::{snapshot, succeed, text};

/// Clients that write while the snapshot is saved.
const WRITERS: usize = 64;

/// Acknowledged writes before the snapshot, and again after it: without load the test proves nothing.
const WRITES_MIN: usize = 500;

/// Longest wait for a step of the clients.
const PATIENCE: Duration = Duration::from_secs(60);

async fn wait_for(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let begin = Instant::now();
    while !condition().await {
        assert!(begin.elapsed() < PATIENCE, "{what} does not come about");
        sleep(Duration::from_millis(50)).await;
    }
}

/// kube's informer of the config maps.
struct Informer {
    store: reflector::Store<ConfigMap>,
    lists: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Informer {
    fn start(client: Client) -> Informer {
        let maps: Api<ConfigMap> =
            Api::namespaced(kube::Client::new(Transport(client), NAMESPACE), NAMESPACE);
        let (store, writer) = reflector::store();
        let lists = Arc::new(AtomicUsize::new(0));
        let counted = lists.clone();
        let task = tokio::spawn(async move {
            let stream = watcher(maps, Config::default()).default_backoff().reflect(writer);
            let mut stream = Box::pin(stream);
            while let Some(event) = stream.next().await {
                // An error is a server that is away: the watcher goes on by itself.
                if let Ok(Event::InitDone) = event {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        Informer { store, lists, task }
    }

    /// Names and versions.
    fn held(&self) -> Vec<(String, String)> {
        let pair = |map: &Arc<ConfigMap>| {
            let metadata = map.metadata.clone();
            (metadata.name.unwrap(), metadata.resource_version.unwrap())
        };
        let mut held: Vec<_> = self.store.state().iter().map(pair).collect();
        held.sort();
        held
    }
}

/// Both informers.
struct Informers {
    kube: Informer,
    python: Option<Child>,
    /// The file with the output of the Python client.
    output: PathBuf,
}

impl Informers {
    /// Starts them on the server that `config` names and `client` reaches, and waits for their first lists.
    async fn start(client: Client, config: &Path, folder: &Path) -> Informers {
        let output = folder.join("python");
        let informers =
            Informers { kube: Informer::start(client), python: python_informer(config, &output), output };
        wait_for("the first list", async || informers.kube.lists.load(Ordering::Relaxed) == 1).await;
        if informers.python.is_some() {
            wait_for("the first list of the Python client", async || informers.told().contains("listed"))
                .await;
        }
        informers
    }

    fn told(&self) -> String {
        fs::read_to_string(&self.output).unwrap_or_default()
    }

    /// Both end with `objects`, and have listed anew once.
    async fn assert_end(mut self, objects: &BTreeMap<String, u64>) {
        let expected: Vec<(String, String)> =
            objects.iter().map(|(name, version)| (name.clone(), version.to_string())).collect();
        wait_for("what the cluster has, with kube's informer", async || self.kube.held() == expected).await;
        // The store has a list shortly before it is counted.
        wait_for("a second list", async || self.kube.lists.load(Ordering::Relaxed) >= 2).await;
        assert_eq!(self.kube.lists.load(Ordering::Relaxed), 2, "it lists anew once");
        self.kube.task.abort();
        let Some(mut child) = self.python.take() else { return };
        wait_for("the end of the Python client", async || child.try_wait().unwrap().is_some()).await;
        let told = self.told();
        assert!(told.lines().any(|line| line == "done"), "{told}");
        let last = told.lines().find(|line| line.starts_with('{')).unwrap();
        let held: Value = serde_json::from_str(last).unwrap();
        assert_eq!(held["lists"], 2, "it lists anew once: {told}");
        let expected: serde_json::Map<String, Value> =
            expected.into_iter().map(|(name, version)| (name, version.into())).collect();
        assert_eq!(held["held"], Value::Object(expected));
    }
}

/// The Python client's informer; `None` where it cannot be installed.
fn python_informer(kubeconfig: &Path, output: &Path) -> Option<Child> {
    const SCRIPT: &str = "python_informer.py";
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients").join(SCRIPT);
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(SCRIPT);
    fs::create_dir_all(&home).unwrap();
    match python(&script, &home) {
        Ok(mut command) => {
            let written = fs::File::create(output).unwrap();
            command.arg(NAMESPACE).env("KUBECONFIG", kubeconfig).stdin(Stdio::null());
            let errors = written.try_clone().unwrap();
            Some(command.stdout(written).stderr(errors).spawn().unwrap())
        }
        Err(reason) => {
            eprintln!("SKIPPED {SCRIPT}: {reason}");
            None
        }
    }
}

/// A client configuration of the administrator, by `certs`, for the server at `address`.
fn kubeconfig(folder: &Path, certs: &Path, address: &str) -> PathBuf {
    let keep = |name: &str| {
        let kept = folder.join(name);
        fs::copy(certs.join(name), &kept).unwrap();
        kept
    };
    let document = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "moving",
        "clusters": [{"name": "moving", "cluster": {
            "server": format!("https://{address}"), "certificate-authority": keep("ca.crt"),
        }}],
        "users": [{"name": "admin", "user": {"client-certificate": keep("admin.crt"), "client-key": keep("admin.key")}}],
        "contexts": [{"name": "moving", "context": {"cluster": "moving", "user": "admin"}}],
    });
    let path = folder.join("moving.conf");
    fs::write(&path, document.to_string()).unwrap();
    path
}

/// A snapshot with the identity, saved while 64 clients write. Returns what was acknowledged, and when the save began.
async fn save_under_load(cluster: &Cluster, file: &Path, key: &str) -> (Vec<Acknowledged>, Instant) {
    let clients: Vec<_> = (0..3).map(|node| cluster.client(node).unwrap()).collect();
    let writers = Writers::start(WRITERS, &clients);
    wait_for("load", async || writers.count() >= WRITES_MIN).await;
    let began = Instant::now();
    let follower = (cluster.leader().await.unwrap() + 1) % 3;
    let certs = cluster.certificates();
    let mut command = Command::new(program("orch").unwrap());
    command.args(["snapshot", "save"]).arg(file).args(["--encrypt-to", key, "--with-identity"]);
    command.args(["--server", &cluster.doors()[follower].0.authority()]);
    command.arg("--certs-dir").arg(&certs).arg("--kubeconfig").arg(certs.join("admin.conf"));
    tokio::task::spawn_blocking(move || succeed(command)).await.unwrap();
    let enough = writers.count() + WRITES_MIN;
    wait_for("load after the snapshot", async || writers.count() >= enough).await;
    (writers.stop().await, began)
}

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// Adds a member that joins through the peer address `join`, on an empty directory, and gives it a vote.
async fn join(
    folder: &Path,
    name: &str,
    join: &str,
    server: &str,
    client: impl Fn(Endpoint) -> Client,
) -> (Restored, Endpoint) {
    let (certs, address) = (folder.join("z/certs"), free_address());
    let config = certs.join("admin.conf").display().to_string();
    let orch = |arguments: &[&str]| {
        let mut command = Command::new(program("orch").unwrap());
        command.args(arguments);
        command
    };
    let certs_dir = certs.display().to_string();
    succeed(orch(&["certs", "add", "--dir", &certs_dir, "--member", &format!("{name}=127.0.0.1")]));
    let through = ["--kubeconfig", &config, "--server", server];
    succeed(orch(&[&["cluster", "add", name, &address][..], &through].concat()));
    let data = folder.join(name);
    let flags = [
        format!("--name={name}"),
        format!("--join={join}"),
        format!("--peer-address={address}"),
        format!("--certs-dir={certs_dir}"),
    ];
    let started = Restored::start(&data, &flags, client).await;
    wait_for("a vote", async || {
        let promoted = orch(&[&["cluster", "promote", name][..], &through].concat()).output().unwrap();
        promoted.status.success()
    })
    .await;
    started
}

/// Restores the snapshot as a cluster of the member `z`, and starts that. Returns its peer address and its server.
async fn restore(folder: &Path, client: impl Fn(Endpoint) -> Client) -> (Restored, String, Endpoint) {
    let at = |name: &str| folder.join(name).display().to_string();
    let peer = free_address();
    let restored =
        ["restore", &at("monday"), "--identity", &at("key"), "--data-dir", &at("z"), "--name", "z"];
    succeed(snapshot(&[&restored[..], &["--peer-address", &peer]].concat()));
    let flags = [
        "--name=z".to_owned(),
        format!("--certs-dir={}", at("z/certs")),
        format!("--initial-cluster=z={peer}"),
    ];
    let (member, endpoint) = Restored::start(&folder.join("z"), &flags, client).await;
    (member, peer, endpoint)
}

/// The new cluster has what is in the snapshot: every write that was acknowledged before it `began`, none that was never made, and
/// versions beyond all that were given out.
async fn nothing_is_lost_nor_invented(
    folder: &Path,
    client: &Client,
    (acknowledged, began): (&[Acknowledged], Instant),
) {
    let at = |name: &str| folder.join(name).display().to_string();
    let (file, key) = (at("monday"), at("key"));
    let wanted = ["--identity", &key, "--resource", "configmaps", "--namespace", NAMESPACE];
    let yaml = text(&succeed(snapshot(&[&["extract", &file][..], &wanted].concat())).stdout);
    let saved = yaml.matches("\n  name: w").count();
    let (objects, version) = list(client, "").await.unwrap();
    let written = objects.keys().filter(|name| name.starts_with('w')).count();
    assert!(
        saved == written && written >= WRITES_MIN,
        "{saved} in the snapshot, {written} in the new cluster"
    );
    for write in acknowledged.iter().filter(|write| write.answered < began) {
        assert!(objects.contains_key(&write.name), "the acknowledged {} is lost", write.name);
    }
    let given_out = acknowledged.iter().map(|write| write.version).max().unwrap();
    let oldest = *objects.values().min().unwrap();
    assert!(version > given_out && oldest > given_out, "{given_out} was given out, and {oldest} is older");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_members_under_load_become_three_others_and_their_informers_live_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let cluster = Cluster::start(Options { brand: "kubernetes", ..Options::nodes(3) }).await.unwrap();
    make_namespace(&cluster.client(0).unwrap()).await.unwrap();
    let way = Way::breaking(cluster.doors()[0].0.authority(), &[]).await;
    let config = kubeconfig(folder, &cluster.certificates(), &way.address);
    let authority = fs::read(folder.join("ca.crt")).unwrap();
    let [chain, key] = ["admin.crt", "admin.key"].map(|name| fs::read(folder.join(name)).unwrap());
    let client = |endpoint: Endpoint| {
        let identity = Identity::Certificate { chain: chain.clone(), key: key.clone() };
        Client::new(endpoint, Access::new(Trust::Authority(authority.clone()), identity))
    };
    let moving = client(format!("https://{}", way.address).parse().unwrap());
    let informers = Informers::start(moving, &config, folder).await;

    let public = text(&succeed(snapshot(&["new-key", folder.join("key").to_str().unwrap()])).stdout);
    let (acknowledged, began) = save_under_load(&cluster, &folder.join("monday"), public.trim()).await;
    // The machines are lost.
    drop(cluster);
    let (_first, peer, endpoint) = restore(folder, client).await;
    *way.target.lock() = endpoint.authority();
    nothing_is_lost_nor_invented(folder, &client(endpoint.clone()), (&acknowledged, began)).await;

    let server = endpoint.authority();
    let (_second, second) = join(folder, "y", &peer, &server, client).await;
    let (_third, third) = join(folder, "x", &peer, &server, client).await;
    client(third.clone()).post(COLLECTION, &config_map("last", "x")).await.unwrap().success().unwrap();
    let (objects, _) = list(&client(endpoint), "").await.unwrap();
    for member in [second, third] {
        assert_eq!(list(&client(member), "").await.unwrap().0, objects);
    }
    informers.assert_end(&objects).await;
}
