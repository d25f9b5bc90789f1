//! Aggregated servers that hang, die and come back, against real processes: their groups are away meanwhile, and nothing else is
//! slower for it.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use orch_cluster_tests::client::Client;
use orch_cluster_tests::cluster::{ADMIN_TOKEN, Cluster, Options};
use orch_proto::brand::ORCH;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::tls_host::{Pair, Request, Stream, TlsHost, answer};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DOCUMENTS: &str = "/openapi/v3";

/// Time in which what a server's coming or going changes has to show.
pub(super) const PATIENCE: Duration = Duration::from_secs(40);

/// Requests that wait for a server that hangs, all at the same time.
const WAITING: usize = 64;

/// Bound of the waits of requests that do not ask that server, but for one in twenty, on a machine that does much else meanwhile.
const OTHERS_MAX: Duration = Duration::from_secs(2);

/// An aggregated server.
pub(super) struct Backend {
    pub(super) host: TlsHost,
    pub(super) group: &'static str,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    hangs: AtomicBool,
    /// Requests for things that it has got.
    asked: AtomicUsize,
}

impl Backend {
    async fn start(group: &'static str) -> Backend {
        Backend::start_at(group, IpAddr::V4(Ipv4Addr::LOCALHOST)).await
    }

    /// The same at an address of this machine.
    pub(super) async fn start_at(group: &'static str, address: IpAddr) -> Backend {
        let state = Arc::new(State::default());
        let shared = state.clone();
        let pair = Pair::of("localhost", false);
        let host =
            TlsHost::start_at(address, &pair, move |stream| serve(stream, group, shared.clone())).await;
        Backend { host, group, state }
    }

    pub(super) fn name(&self) -> String {
        format!("v1.{}", self.group)
    }

    pub(super) fn path(&self, rest: &str) -> String {
        format!("/apis/{}/v1{rest}", self.group)
    }

    /// Has its service and its APIService made.
    async fn register(&self, admin: &Client, number: usize) {
        let service = json!({
            "metadata": {"name": format!("backend-{number}")},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        });
        admin.post("/api/v1/namespaces/default/services", &service).await.unwrap().success().unwrap();
        let spec = json!({
            "group": self.group, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
            "insecureSkipTLSVerify": true,
            "service": {"namespace": "default", "name": format!("backend-{number}"), "port": self.host.address.port()},
        });
        let document = json!({"metadata": {"name": self.name()}, "spec": spec});
        admin.post(&api_services(), &document).await.unwrap().success().unwrap();
    }

    /// Waits until its condition `Available` has this status, and discovery says the same on member 0.
    pub(super) async fn wait(&self, admin: &Client, is_available: bool) {
        let path = format!("{}/{}", api_services(), self.name());
        // A change has the server looked for at once.
        let touched = json!({"metadata": {"annotations": {"touched": is_available.to_string()}}});
        admin.merge_patch(&path, &touched).await.unwrap().success().unwrap();
        let shown = async {
            loop {
                let object = admin.get(&path).await.unwrap().success().unwrap();
                let (status, expected) = if is_available { ("True", "Current") } else { ("False", "Stale") };
                let is_found = object["status"]["conditions"][0]["status"] == status;
                if is_found && freshness(admin, self.group).await.as_deref() == Some(expected) {
                    return;
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        let told = format!("{} is not shown as available: {is_available}", self.group);
        timeout(PATIENCE, shown).await.unwrap_or_else(|_| panic!("{told}"));
    }
}

pub(super) fn api_services() -> String {
    format!("/apis/{}/v1/apiservices", ORCH.group("apiregistration"))
}

/// The freshness of the version of `group` in aggregated discovery.
pub(super) async fn freshness(admin: &Client, group: &str) -> Option<String> {
    let form = format!("application/json;g={};v=v2;as=APIGroupDiscoveryList", ORCH.group("apidiscovery"));
    let answer = admin.send(Method::GET, "/apis", &[("accept", &form)], Bytes::new()).await.unwrap();
    let document = answer.success().unwrap();
    let groups = document["items"].as_array().unwrap();
    let found = groups.iter().find(|item| item["metadata"]["name"] == group)?;
    found["versions"][0]["freshness"].as_str().map(str::to_owned)
}

async fn serve(mut stream: Stream, group: &'static str, state: Arc<State>) -> std::io::Result<()> {
    loop {
        let request = Request::read(&mut stream).await?;
        if state.hangs.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        let own = format!("/apis/{group}/v1");
        let path = request.path();
        if path == own {
            let thing = json!({
                "name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing",
                "verbs": ["get", "list", "create", "delete", "deletecollection"],
            });
            let list = json!({
                "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{group}/v1"),
                "resources": [thing],
            });
            answer(&mut stream, "200 OK", &list.to_string()).await?;
        } else if path.starts_with(&own) {
            state.asked.fetch_add(1, Ordering::Relaxed);
            let list = json!({
                "kind": "ThingList", "apiVersion": format!("{group}/v1"), "metadata": {}, "items": [],
                "method": request.method, "user": header(&request.head, "x-remote-user"),
            });
            answer(&mut stream, "200 OK", &list.to_string()).await?;
        } else {
            answer(&mut stream, "404 Not Found", "{}").await?;
        }
    }
}

fn header(head: &str, name: &str) -> Option<String> {
    let of_name = |line: &str| line.strip_prefix(name)?.strip_prefix(": ").map(str::to_owned);
    head.lines().find_map(of_name)
}

/// Asks for things that concern nobody but this server and `well`, again and again until `stop`; the waits with their paths, the longest last.
async fn use_others(admin: Client, well: String, stop: Arc<AtomicBool>) -> Vec<(Duration, String)> {
    let (mut waits, mut number) = (Vec::new(), 0);
    while !stop.load(Ordering::Relaxed) {
        let map = json!({"metadata": {"name": format!("other-{number}")}});
        number += 1;
        let began = Instant::now();
        admin.post(CONFIG_MAPS, &map).await.unwrap().success().unwrap();
        waits.push((began.elapsed(), CONFIG_MAPS.to_owned()));
        for path in [well.as_str(), "/apis", DOCUMENTS] {
            let began = Instant::now();
            assert_eq!(admin.get(path).await.unwrap().status, 200, "{path}");
            waits.push((began.elapsed(), path.to_owned()));
        }
        sleep(Duration::from_millis(20)).await;
    }
    waits.sort();
    waits
}

/// A namespace ends as far as it can while the server of the group `away` is away, and says what it waits for.
pub(super) async fn end_namespace(admin: &Client, away: &str, there: &str) {
    admin
        .post("/api/v1/namespaces", &json!({"metadata": {"name": "going"}}))
        .await
        .unwrap()
        .success()
        .unwrap();
    let maps = "/api/v1/namespaces/going/configmaps";
    admin.post(maps, &json!({"metadata": {"name": "left"}})).await.unwrap().success().unwrap();
    admin.delete("/api/v1/namespaces/going").await.unwrap().success().unwrap();
    let emptied = async {
        loop {
            let is_empty = admin.get(&format!("{maps}/left")).await.unwrap().status == 404;
            let namespace = admin.get("/api/v1/namespaces/going").await.unwrap().success().unwrap();
            let conditions = namespace["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let is_told = conditions.iter().any(|condition| {
                let message = condition["message"].as_str().unwrap_or_default();
                condition["type"] == "NamespaceDeletionDiscoveryFailure"
                    && condition["status"] == "True"
                    && message.contains(away)
                    && !message.contains(there)
            });
            if is_empty && is_told {
                return;
            }
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, emptied).await.expect("the namespace is emptied, and names the group that is away");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aggregated_server_that_hangs_or_dies_costs_its_own_group_alone() {
    let cluster = Cluster::start(Options {
        flags: vec!["--allow-loopback-aggregation".to_owned()],
        ..Options::nodes(1)
    })
    .await
    .unwrap();
    let admin = cluster.client(0).unwrap().with_token(ADMIN_TOKEN);
    let well = Backend::start("well.example.com").await;
    let mut bad = Backend::start("bad.example.com").await;
    well.register(&admin, 0).await;
    bad.register(&admin, 1).await;
    for backend in [&well, &bad] {
        backend.wait(&admin, true).await;
        let things = backend.path("/namespaces/default/things");
        let shown = admin.get(&things).await.unwrap().success().unwrap();
        assert_eq!(shown["user"], "admin", "{shown}");
    }

    // Handshakes cost more than all requests, and the index of documents is made when it is first asked for.
    assert_eq!(admin.get(DOCUMENTS).await.unwrap().status, 200);
    let clients: Vec<Client> = (0..WAITING).map(|_| admin.with_token(ADMIN_TOKEN)).collect();
    for client in &clients {
        assert_eq!(client.get("/version").await.unwrap().status, 200);
    }

    // It hangs, and requests for it end with their own time. Others go on.
    bad.state.hangs.store(true, Ordering::Relaxed);
    let stop = Arc::new(AtomicBool::new(false));
    let others = use_others(admin.with_token(ADMIN_TOKEN), well.path("/things"), stop.clone());
    let others = tokio::spawn(others);
    let mut waiting = JoinSet::new();
    let path = bad.path("/namespaces/default/things?timeout=2s");
    for client in clients {
        let path = path.clone();
        waiting.spawn(async move {
            let began = Instant::now();
            let status = client.get(&path).await.unwrap().status;
            assert!(matches!(status, 429 | 503 | 504), "{status}");
            assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        });
    }
    waiting.join_all().await;
    bad.wait(&admin, false).await;
    let answered = admin.get(&path).await.unwrap();
    assert_eq!((answered.status, &answered.body[..]), (503, &b"service unavailable\n"[..]));
    assert_eq!(freshness(&admin, well.group).await.as_deref(), Some("Current"));

    end_namespace(&admin, bad.group, well.group).await;

    // It dies, comes back, and the namespace goes.
    bad.host.die().await;
    assert_eq!(admin.get(&path).await.unwrap().status, 503);
    bad.state.hangs.store(false, Ordering::Relaxed);
    bad.host.revive().await;
    bad.wait(&admin, true).await;
    assert_eq!(admin.get(&path).await.unwrap().status, 200);
    let gone = async {
        while admin.get("/api/v1/namespaces/going").await.unwrap().status != 404 {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, gone).await.expect("the namespace goes");
    stop.store(true, Ordering::Relaxed);
    let waits = others.await.unwrap();
    let (p95, longest) = (&waits[waits.len() * 95 / 100], &waits[waits.len() - 1]);
    let told = format!("{} requests of others, one in twenty over {p95:?}, longest {longest:?}", waits.len());
    eprintln!("{told}");
    assert!(p95.0 < OTHERS_MAX, "{told}");
    assert!(well.state.asked.load(Ordering::Relaxed) > 20, "others were asked meanwhile");
}
