//! Aggregated servers that hang, die, misbehave and come back, against real processes: their groups are away meanwhile, and nothing
//! else is slower for it.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::Method;
use orch_cluster_tests::client::Client;
use orch_cluster_tests::cluster::{ADMIN_TOKEN, Cluster, Options};
use orch_proto::brand::ORCH;
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::misbehaving::{
    ELSEWHERE, GARBAGE, GROWTH_KB_MAX, HUGE_BYTES, METADATA_NAME, Misbehaving, Mode, Waits,
};
use super::tls_host::{Pair, Request, Stream, TlsHost, answer};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DOCUMENTS: &str = "/openapi/v3";

/// Time in which what a server's coming or going changes has to show.
pub(super) const PATIENCE: Duration = Duration::from_secs(40);

/// Requests that wait for a server that hangs, all at the same time.
const WAITING: usize = 64;

/// An aggregated server.
pub(super) struct Backend {
    pub(super) host: TlsHost,
    pub(super) group: &'static str,
    /// Its own certificate, in PEM: the bundle of its APIService.
    certificate: String,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// `None`: it works.
    mode: Mutex<Option<Mode>>,
    /// `None`: the way of misbehaving needs none.
    misbehaving: Option<Misbehaving>,
    /// Requests for things that it has got.
    asked: AtomicUsize,
}

/// The name of the service of a group, which certificates have to have.
fn service_host(group: &str) -> String {
    format!("{}.default.svc", service_name(group))
}

fn service_name(group: &str) -> &str {
    group.split('.').next().unwrap_or_default()
}

impl Backend {
    /// One that calls back as `api`.
    async fn start(group: &'static str, api: &Client) -> Backend {
        let misbehaving = Some(Misbehaving::new(api.with_token(ADMIN_TOKEN)));
        let pair = Pair::of(&service_host(group), false);
        Backend::showing(&pair, group, IpAddr::V4(Ipv4Addr::LOCALHOST), misbehaving).await
    }

    /// One at an address of this machine.
    pub(super) async fn start_at(group: &'static str, address: IpAddr) -> Backend {
        Backend::showing(&Pair::of("localhost", false), group, address, None).await
    }

    async fn showing(
        pair: &Pair,
        group: &'static str,
        address: IpAddr,
        misbehaving: Option<Misbehaving>,
    ) -> Backend {
        let state = Arc::new(State { misbehaving, ..State::default() });
        let shared = state.clone();
        let host = TlsHost::start_at(address, pair, move |stream| serve(stream, group, shared.clone())).await;
        Backend { host, group, certificate: pair.certificate.clone(), state }
    }

    /// Has it misbehave from now on; `None`: work.
    fn set_mode(&self, mode: Option<Mode>) {
        *self.state.mode.lock().unwrap() = mode;
    }

    pub(super) fn name(&self) -> String {
        format!("v1.{}", self.group)
    }

    pub(super) fn path(&self, rest: &str) -> String {
        format!("/apis/{}/v1{rest}", self.group)
    }

    /// Has its service and its APIService made.
    async fn register(&self, admin: &Client) {
        self.register_at(admin, "localhost").await;
    }

    /// The same at the host `name`.
    async fn register_at(&self, admin: &Client, name: &str) {
        let own = service_name(self.group);
        let service = json!({
            "metadata": {"name": own}, "spec": {"type": "ExternalName", "externalName": name},
        });
        admin.post("/api/v1/namespaces/default/services", &service).await.unwrap().success().unwrap();
        let spec = json!({
            "group": self.group, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
            "caBundle": STANDARD.encode(&self.certificate),
            "service": {"namespace": "default", "name": own, "port": self.host.address.port()},
        });
        let document = json!({"metadata": {"name": self.name()}, "spec": spec});
        admin.post(&api_services(), &document).await.unwrap().success().unwrap();
    }

    /// The condition `Available` once it is no success, with its reason and message.
    async fn refused(&self, admin: &Client) -> String {
        let path = format!("{}/{}", api_services(), self.name());
        let shown = async {
            loop {
                let object = admin.get(&path).await.unwrap().success().unwrap();
                let condition = &object["status"]["conditions"][0];
                if condition["status"] == "False" {
                    return condition.to_string();
                }
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(PATIENCE, shown).await.unwrap_or_else(|_| panic!("{} is available", self.group))
    }

    /// Waits until its condition `Available` has this status, and discovery says the same on member 0.
    pub(super) async fn wait(&self, admin: &Client, is_available: bool) {
        let path = format!("{}/{}", api_services(), self.name());
        // A change has the server looked for at once.
        let touched = format!("{:?}", Instant::now());
        let touched = json!({"metadata": {"annotations": {"touched": touched}}});
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
        let own = format!("/apis/{group}/v1");
        let path = request.path();
        let mode = *state.mode.lock().unwrap();
        if let (Some(misbehaving), Some(mode)) = (&state.misbehaving, mode) {
            if path == ELSEWHERE {
                misbehaving.note_redirected(&mut stream, "{}").await?;
            } else {
                misbehaving.answer(&mut stream, mode, (&format!("noted-{group}"), "{}")).await?;
            }
            continue;
        }
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

/// Asks for things that concern nobody but this server and `well`, again and again until `stop`.
async fn use_others(admin: Client, well: String, stop: Arc<AtomicBool>) -> Waits {
    let (mut waits, mut number) = (Waits::default(), 0);
    while !stop.load(Ordering::Relaxed) {
        let map = json!({"metadata": {"name": format!("other-{number}")}});
        number += 1;
        let began = Instant::now();
        admin.post(CONFIG_MAPS, &map).await.unwrap().success().unwrap();
        waits.note(began, CONFIG_MAPS);
        for path in [well.as_str(), "/apis", DOCUMENTS] {
            let began = Instant::now();
            assert_eq!(admin.get(path).await.unwrap().status, 200, "{path}");
            waits.note(began, path);
        }
        sleep(Duration::from_millis(20)).await;
    }
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

/// A cluster of one member with aggregated servers on this machine.
async fn started() -> (Cluster, Client) {
    let flags = vec!["--allow-loopback-aggregation".to_owned()];
    let cluster = Cluster::start(Options { flags, ..Options::nodes(1) }).await.unwrap();
    let admin = cluster.client(0).unwrap().with_token(ADMIN_TOKEN);
    (cluster, admin)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aggregated_server_that_hangs_or_dies_costs_its_own_group_alone() {
    let (_cluster, admin) = started().await;
    let well = Backend::start("well.example.com", &admin).await;
    let mut bad = Backend::start("bad.example.com", &admin).await;
    well.register(&admin).await;
    bad.register(&admin).await;
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
    bad.set_mode(Some(Mode::Hang));
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
    bad.set_mode(None);
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
    others.await.unwrap().must_be_short(20);
    assert!(well.state.asked.load(Ordering::Relaxed) > 20, "others were asked meanwhile");
}

/// Asks for things at `path` of a server that misbehaves in the way `mode`.
async fn ask_misbehaving(client: &Client, mode: Mode, path: &str) {
    let began = Instant::now();
    let answered = client.get(path).await;
    let took = began.elapsed();
    assert!(took < PATIENCE, "{mode:?}: {took:?}");
    if mode == Mode::Slow {
        // What has come is passed on as it comes, until the client has enough of it.
        assert!(answered.is_err() && took > Duration::from_secs(1), "{took:?}");
        return;
    }
    let answered = answered.unwrap();
    let told = format!("{mode:?}: {}", answered.status);
    match mode {
        Mode::Hang => assert!(matches!(answered.status, 503 | 504), "{told}"),
        Mode::Die => assert_eq!(answered.status, 503, "{told}"),
        Mode::Redirect => assert_eq!(answered.status, 502, "{told}"),
        // It is the server's own answer, and the client's to judge.
        Mode::Garbage => assert_eq!((answered.status, &answered.body[..]), (200, GARBAGE.as_bytes())),
        Mode::Huge => assert_eq!((answered.status, answered.body.len()), (200, HUGE_BYTES)),
        Mode::Slow | Mode::Callback => assert_eq!(answered.status, 200, "{told}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aggregated_server_that_misbehaves_costs_its_own_requests_alone_in_bounded_time_and_memory() {
    const GROUPS: [&str; 7] = [
        "hang.example.com",
        "die.example.com",
        "redirect.example.com",
        "garbage.example.com",
        "huge.example.com",
        "slow.example.com",
        "callback.example.com",
    ];
    let (cluster, admin) = started().await;
    let well = Backend::start("well.example.com", &admin).await;
    well.register(&admin).await;
    let mut servers = Vec::new();
    for (mode, group) in Mode::ALL.into_iter().zip(GROUPS) {
        let backend = Backend::start(group, &admin).await;
        backend.register(&admin).await;
        servers.push((mode, backend));
    }
    for backend in servers.iter().map(|(_, backend)| backend).chain([&well]) {
        backend.wait(&admin, true).await;
    }
    assert_eq!(admin.get(DOCUMENTS).await.unwrap().status, 200);
    let before = cluster.memory(0).unwrap().peak_kb;

    let stop = Arc::new(AtomicBool::new(false));
    let others = use_others(admin.with_token(ADMIN_TOKEN), well.path("/things"), stop.clone());
    let others = tokio::spawn(others);
    let mut asking = JoinSet::new();
    for (mode, backend) in &servers {
        backend.set_mode(Some(*mode));
        let mode = *mode;
        let time = if matches!(mode, Mode::Hang | Mode::Slow) { "?timeout=3s" } else { "" };
        let path = backend.path(&format!("/namespaces/default/things{time}"));
        for _ in 0..2 {
            let client = admin.with_token(ADMIN_TOKEN);
            let client =
                if mode == Mode::Slow { client.with_timeout(Duration::from_secs(5)) } else { client };
            let path = path.clone();
            asking.spawn(async move {
                for _ in 0..2 {
                    ask_misbehaving(&client, mode, &path).await;
                }
            });
        }
    }
    asking.join_all().await;
    // Loops ask them, too: the look for each, and for its documents.
    for (mode, backend) in &servers {
        if matches!(mode, Mode::Hang | Mode::Die | Mode::Redirect) {
            backend.wait(&admin, false).await;
        }
    }
    stop.store(true, Ordering::Relaxed);
    others.await.unwrap().must_be_short(20);
    let grown = cluster.memory(0).unwrap().peak_kb.saturating_sub(before);
    eprintln!("{grown} KiB more at the peak");
    assert!(grown < GROWTH_KB_MAX, "{grown} KiB more at the peak");
    let count = |of: fn(&Misbehaving) -> &AtomicUsize| -> usize {
        let all = servers.iter().filter_map(|(_, backend)| backend.state.misbehaving.as_ref());
        all.map(|misbehaving| of(misbehaving).load(Ordering::Relaxed)).sum()
    };
    assert!(count(|of| &of.called_back) >= 4);
    assert_eq!(count(|of| &of.redirected), 0, "no redirect is followed");
    for (_, backend) in &servers {
        backend.set_mode(None);
        backend.wait(&admin, true).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aggregated_server_is_asked_while_its_certificate_is_of_its_service_and_in_its_time_and_trusted() {
    let (_cluster, admin) = started().await;
    let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
    for (group, host, has_ended) in [
        ("ended.example.com", "ended.default.svc", true),
        ("other.example.com", "another.default.svc", false),
    ] {
        let backend = Backend::showing(&Pair::of(host, has_ended), group, here, None).await;
        backend.register(&admin).await;
        let told = backend.refused(&admin).await;
        assert!(told.contains("certificate"), "{group}: {told}");
        let answered = admin.get(&backend.path("/things")).await.unwrap();
        assert_eq!(answered.status, 503, "{group}");
        assert_eq!(backend.state.asked.load(Ordering::Relaxed), 0, "{group}");
    }
    let mut good = Backend::start("good.example.com", &admin).await;
    good.register(&admin).await;
    good.wait(&admin, true).await;
    assert_eq!(admin.get(&good.path("/things")).await.unwrap().status, 200);

    // Another certificate of the same name is another server, though it is at the same address.
    let renewed = Pair::of(&service_host(good.group), false);
    good.host.show(&renewed);
    good.host.revive().await;
    good.wait(&admin, false).await;
    assert_eq!(admin.get(&good.path("/things")).await.unwrap().status, 503);
    let trusting = json!({"spec": {"caBundle": STANDARD.encode(&renewed.certificate)}});
    let path = format!("{}/{}", api_services(), good.name());
    admin.merge_patch(&path, &trusting).await.unwrap().success().unwrap();
    good.wait(&admin, true).await;
    assert_eq!(admin.get(&good.path("/things")).await.unwrap().status, 200, "its bundle says so");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aggregated_server_at_a_metadata_service_is_not_asked_whatever_its_host_is_called() {
    let (_cluster, admin) = started().await;
    for (group, host) in [("literal.example.com", "169.254.169.254"), ("named.example.com", METADATA_NAME)] {
        let backend = Backend::start(group, &admin).await;
        backend.register_at(&admin, host).await;
        let told = backend.refused(&admin).await;
        assert!(told.contains("the address 169.254.169.254 is not dialled"), "{host}: {told}");
        assert_eq!(admin.get(&backend.path("/things")).await.unwrap().status, 503, "{host}");
    }
}
