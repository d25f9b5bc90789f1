//! Admission webhooks that hang, die, lie and call back, against real processes: whatever one does, it costs the writes that it is
//! about, in bounded time and memory, and no others. And the cluster that a webhook locks out comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use orch_cluster_tests::client::Client;
use orch_cluster_tests::cluster::{ADMIN_TOKEN, Cluster, Options};
use orch_proto::brand::ORCH;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::misbehaving::{ELSEWHERE, GROWTH_KB_MAX, METADATA_NAME, Misbehaving, Mode, Waits};
use super::tls_host::{Pair, Request, Stream, TlsHost, answer};

/// Key and certificate of the server, for 127.0.0.1, and the authority that has signed it.
const SERVER: &str = include_str!("../../vectors/webhook.pem");
const AUTHORITY: &str = include_str!("../../vectors/webhook-ca.pem");

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// Time in which each write has to have an answer, whatever its webhook does. A webhook has a second.
const PATIENCE: Duration = Duration::from_secs(20);

/// Time that the webhook of every pod takes.
const DELAY: Duration = Duration::from_millis(50);

/// A server of webhooks. What it does is in the path.
struct Hooks {
    host: TlsHost,
    seen: Arc<Seen>,
}

/// The client by which the server calls back, and the counts of its requests.
struct Seen {
    allowed: AtomicUsize,
    misbehaving: Misbehaving,
}

impl Hooks {
    /// A server that calls back as `api`.
    async fn start(api: Client) -> Hooks {
        Hooks::showing(&Pair { certificate: SERVER.to_owned(), key: SERVER.to_owned() }, api).await
    }

    /// The same, which shows `pair`.
    async fn showing(pair: &Pair, api: Client) -> Hooks {
        let seen = Arc::new(Seen { allowed: AtomicUsize::new(0), misbehaving: Misbehaving::new(api) });
        let shared = seen.clone();
        let host = TlsHost::start(pair, move |stream| serve(stream, shared.clone())).await;
        Hooks { host, seen }
    }

    fn url(&self, path: &str) -> String {
        format!("https://{}{path}", self.host.address)
    }
}

/// Answers the requests of a connection.
async fn serve(mut stream: Stream, seen: Arc<Seen>) -> std::io::Result<()> {
    loop {
        let request = Request::read(&mut stream).await?;
        let review = &request.body;
        let allow = json!({
            "apiVersion": review["apiVersion"], "kind": review["kind"],
            "response": {"uid": review["request"]["uid"], "allowed": true},
        });
        let allow = allow.to_string();
        if let Some(mode) = Mode::at(request.path()) {
            let note = format!("noted-{}", review["request"]["name"].as_str().unwrap_or_default());
            seen.misbehaving.answer(&mut stream, mode, (&note, &allow)).await?;
        } else if request.path() == ELSEWHERE {
            seen.misbehaving.note_redirected(&mut stream, &allow).await?;
        } else {
            seen.allowed.fetch_add(1, Ordering::Relaxed);
            sleep(DELAY).await;
            answer(&mut stream, "200 OK", &allow).await?;
        }
    }
}

/// A configuration of one webhook called `name`, on creates of `resource` with the label `hook: NAME`.
fn configuration(name: &str, resource: &str, client: Value) -> Value {
    let mut client = client;
    if client["caBundle"].is_null() {
        client["caBundle"] = json!(STANDARD.encode(AUTHORITY));
    }
    json!({
        "metadata": {"name": name},
        "webhooks": [{
            "name": format!("{name}.example.com"), "clientConfig": client, "sideEffects": "None", "timeoutSeconds": 1,
            "admissionReviewVersions": ["v1"], "objectSelector": {"matchLabels": {"hook": name}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}],
        }],
    })
}

fn configurations() -> String {
    format!("/apis/{}/v1/validatingwebhookconfigurations", ORCH.group("admissionregistration"))
}

fn labelled(name: &str, hook: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"hook": hook}}})
}

fn pod(name: &str, hook: &str) -> Value {
    let mut pod = labelled(name, hook);
    pod["spec"] = json!({"containers": [{"name": "c", "image": "i"}]});
    pod
}

async fn must(client: &Client, path: &str, body: &Value) {
    client.post(path, body).await.unwrap().success().unwrap();
}

/// The status and message of a create that has an answer in time.
async fn create(client: &Client, path: &str, body: &Value) -> (u16, String) {
    let answered = timeout(PATIENCE, client.post(path, body)).await;
    let answered = answered.unwrap_or_else(|_| panic!("no answer to {body}")).unwrap();
    let message = answered.json().ok().and_then(|status| status["message"].as_str().map(str::to_owned));
    (answered.status, message.unwrap_or_default())
}

/// The outages are seen: in the status with what to do, and as events at the configurations.
async fn must_be_told(cluster: &Cluster, admin: &Client) {
    let status = cluster.operate(0, &["status"]).unwrap();
    assert!(
        status.contains("WEBHOOK DEAD: hang.example.com of ValidatingWebhookConfiguration hang"),
        "{status}"
    );
    assert!(status.contains("orch cluster bypass-webhook hang\n"), "{status}");
    let status: Value =
        serde_json::from_str(&cluster.operate(0, &["status", "--output", "json"]).unwrap()).unwrap();
    let dead: Vec<&str> =
        status["dead_webhooks"].as_array().unwrap().iter().filter_map(|of| of["webhook"].as_str()).collect();
    assert!(dead.contains(&"die.example.com") && !dead.contains(&"callback.example.com"), "{dead:?}");
    let events = "/api/v1/namespaces/default/events?fieldSelector=reason%3DWebhookDead";
    let is_told = async {
        loop {
            let events = admin.get(events).await.unwrap().success().unwrap();
            let all = events["items"].as_array().unwrap();
            if let Some(event) = all.iter().find(|event| event["involvedObject"]["name"] == "hang") {
                return event.clone();
            }
            sleep(Duration::from_millis(100)).await;
        }
    };
    let event = timeout(Duration::from_secs(30), is_told).await.unwrap();
    assert_eq!(event["type"], "Warning");
    assert!(event["message"].as_str().unwrap().contains("bypass-webhook hang"), "{event}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_misbehaves_costs_its_own_writes_alone() {
    let cluster = Cluster::start(Options::nodes(1)).await.unwrap();
    let admin = cluster.client(0).unwrap().with_token(ADMIN_TOKEN);
    let hooks = Hooks::start(admin.with_token(ADMIN_TOKEN)).await;
    for mode in Mode::ALL {
        let client = json!({"url": hooks.url(&format!("/{}", mode.name()))});
        must(&admin, &configurations(), &configuration(mode.name(), "configmaps", client)).await;
    }
    let metadata = json!({"url": "https://169.254.169.254/latest/meta-data"});
    must(&admin, &configurations(), &configuration("metadata", "configmaps", metadata)).await;
    let named = json!({"url": format!("https://{METADATA_NAME}/latest/meta-data")});
    must(&admin, &configurations(), &configuration("named", "configmaps", named)).await;
    let before = cluster.memory(0).unwrap().peak_kb;

    // Others write all the time.
    let others = admin.with_token(ADMIN_TOKEN);
    let (stop, mut stopped) = tokio::sync::oneshot::channel::<()>();
    let writing = tokio::spawn(async move {
        let (mut waits, mut number) = (Waits::default(), 0);
        while stopped.try_recv().is_err() {
            let (began, name) = (Instant::now(), format!("other-{number}"));
            let (status, message) = create(&others, SECRETS, &json!({"metadata": {"name": name}})).await;
            assert_eq!(status, 201, "{message}");
            waits.note(began, SECRETS);
            number += 1;
            sleep(Duration::from_millis(5)).await;
        }
        waits
    });
    let mut refused = JoinSet::new();
    let modes = Mode::ALL.into_iter().filter(|mode| *mode != Mode::Callback).map(Mode::name);
    for mode in modes.chain(["metadata", "named"]) {
        let client = admin.with_token(ADMIN_TOKEN);
        refused.spawn(async move {
            for at in 0..4 {
                let (status, message) =
                    create(&client, CONFIG_MAPS, &labelled(&format!("{mode}-{at}"), mode)).await;
                let expected = format!("failed calling webhook \"{mode}.example.com\"");
                assert!(status == 500 && message.contains(&expected), "{mode}: {status} {message}");
            }
        });
    }
    refused.join_all().await;
    for at in 0..4 {
        let (status, message) =
            create(&admin, CONFIG_MAPS, &labelled(&format!("callback-{at}"), "callback")).await;
        assert_eq!(status, 201, "{message}");
    }
    stop.send(()).unwrap();
    writing.await.unwrap().must_be_short(20);
    let seen = &hooks.seen.misbehaving;
    assert_eq!(seen.called_back.load(Ordering::Relaxed), 4);
    assert_eq!(seen.redirected.load(Ordering::Relaxed), 0, "no redirect is followed");
    let grown = cluster.memory(0).unwrap().peak_kb.saturating_sub(before);
    assert!(grown < GROWTH_KB_MAX, "{grown} KiB more at the peak");

    must_be_told(&cluster, &admin).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_is_called_while_its_certificate_is_of_its_host_and_in_its_time_and_trusted() {
    let cluster = Cluster::start(Options::nodes(1)).await.unwrap();
    let admin = cluster.client(0).unwrap().with_token(ADMIN_TOKEN);
    // Each is its own bundle, as test environments of the ecosystem give it.
    let pairs = [
        ("ended", Pair::of("127.0.0.1", true)),
        ("other", Pair::of("other.example.com", false)),
        ("good", Pair::of("127.0.0.1", false)),
    ];
    let bundle = |pair: &Pair| json!(STANDARD.encode(&pair.certificate));
    let mut servers = Vec::new();
    for (name, pair) in &pairs {
        let hooks = Hooks::showing(pair, admin.with_token(ADMIN_TOKEN)).await;
        let client = json!({"url": hooks.url("/allow"), "caBundle": bundle(pair)});
        must(&admin, &configurations(), &configuration(name, "configmaps", client)).await;
        servers.push(hooks);
    }
    let (mut number, admin) = (0, &admin);
    let mut told = async |name: &str| {
        number += 1;
        create(admin, CONFIG_MAPS, &labelled(&format!("{name}-{number}"), name)).await
    };
    for name in ["ended", "other"] {
        let (status, message) = told(name).await;
        assert!(status == 500 && message.contains("certificate"), "{name}: {status} {message}");
    }
    assert_eq!(told("good").await.0, 201);

    // Another certificate of the same name is another server, though it is at the same address.
    let mut server = servers.pop().unwrap();
    let renewed = Pair::of("127.0.0.1", false);
    server.host.show(&renewed);
    server.host.revive().await;
    let (status, message) = told("good").await;
    assert!(status == 500 && message.contains("certificate"), "{status} {message}");
    let client = json!({"url": server.url("/allow"), "caBundle": bundle(&renewed)});
    let renewing = json!({"webhooks": configuration("good", "configmaps", client)["webhooks"]});
    let path = format!("{}/good", configurations());
    admin.merge_patch(&path, &renewing).await.unwrap().success().unwrap();
    assert_eq!(told("good").await.0, 201, "its bundle says so");
    assert_eq!(servers.iter().map(|hooks| hooks.seen.allowed.load(Ordering::Relaxed)).sum::<usize>(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_on_every_pod_is_called_once_for_each_and_the_quota_is_exact() {
    const CLIENTS: usize = 64;
    const EACH: usize = 4;
    const QUOTA: usize = 200;
    let cluster = Cluster::start(Options::nodes(1)).await.unwrap();
    let admin = cluster.client(0).unwrap().with_token(ADMIN_TOKEN);
    let hooks = Hooks::start(admin.with_token(ADMIN_TOKEN)).await;
    let client = json!({"url": hooks.url("/allow")});
    let mut configuration = configuration("every", "pods", client);
    configuration["webhooks"][0]["timeoutSeconds"] = json!(20);
    must(&admin, &configurations(), &configuration).await;
    let quota = json!({"metadata": {"name": "pods"}, "spec": {"hard": {"pods": QUOTA.to_string()}}});
    must(&admin, "/api/v1/namespaces/default/resourcequotas", &quota).await;
    let mut creating = JoinSet::new();
    for number in 0..CLIENTS {
        let client = admin.with_token(ADMIN_TOKEN);
        creating.spawn(async move {
            let mut created = 0;
            for at in 0..EACH {
                match create(&client, PODS, &pod(&format!("p-{number}-{at}"), "every")).await {
                    (201, _) => created += 1,
                    (403, message) => assert!(message.contains("exceeded quota"), "{message}"),
                    (status, message) => panic!("{status} {message}"),
                }
            }
            created
        });
    }
    let created: usize = creating.join_all().await.into_iter().sum();
    assert_eq!(created, QUOTA);
    assert_eq!(hooks.seen.allowed.load(Ordering::Relaxed), CLIENTS * EACH, "one call for each");
    let quota = admin.get("/api/v1/namespaces/default/resourcequotas/pods").await.unwrap().success().unwrap();
    assert_eq!(quota["status"]["used"]["pods"], QUOTA.to_string());
    let pods = admin.get(PODS).await.unwrap().success().unwrap();
    assert_eq!(pods["items"].as_array().unwrap().len(), QUOTA);
}

/// The status and message of a create of a pod by the loops of the control plane.
async fn create_as_loops(client: &Client, pod: &Value) -> (u16, String) {
    let user = format!("system:{}-controller-manager", ORCH.component_prefix);
    let headers = [
        ("content-type", "application/json"),
        ("impersonate-user", user.as_str()),
        ("impersonate-group", "system:masters"),
    ];
    let answered = client.send(Method::POST, PODS, &headers, pod.to_string().into());
    let answered = timeout(PATIENCE, answered).await.expect("there is an answer in time").unwrap();
    let message = answered.json().ok().and_then(|status| status["message"].as_str().map(str::to_owned));
    (answered.status, message.unwrap_or_default())
}

/// Has the loops of the control plane create pods called `name` and a number, until one is created; the number of refused ones before it.
async fn pods_until_one_passes(client: &Client, name: &str, tries: usize) -> Option<usize> {
    for at in 0..tries {
        match create_as_loops(client, &pod(&format!("{name}-{at}"), "lock")).await {
            (201, _) => return Some(at),
            (status, message) => assert!(status == 500 && message.contains("failed calling"), "{message}"),
        }
    }
    None
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_a_webhook_locks_out_comes_back_where_that_is_switched_on_and_else_by_one_command() {
    let mut cluster = Cluster::start(Options::nodes(3)).await.unwrap();
    let admin = cluster.client(0).unwrap().with_token(ADMIN_TOKEN);
    let service = json!({
        "metadata": {"name": "hook"}, "spec": {"selector": {"hook": "lock"}, "ports": [{"port": 443}]},
    });
    must(&admin, "/api/v1/namespaces/default/services", &service).await;
    let client = json!({"service": {"namespace": "default", "name": "hook"}});
    let mut locking = configuration("lock", "pods", client);
    locking["webhooks"][0]["objectSelector"] = json!({});
    must(&admin, &configurations(), &locking).await;
    for node in 0..3 {
        cluster.kill(node).unwrap();
    }
    for node in 0..3 {
        cluster.respawn(node).unwrap();
    }
    for node in 0..3 {
        cluster.wait_ready(node).await.unwrap();
    }
    let clients: Vec<Client> =
        (0..3).map(|node| cluster.client(node).unwrap().with_token(ADMIN_TOKEN)).collect();
    for (node, client) in clients.iter().enumerate() {
        assert_eq!(pods_until_one_passes(client, &format!("none-{node}"), 4).await, None);
    }
    // By one command, on every member.
    cluster.operate(1, &["bypass-webhook", "lock", "--for", "10m"]).unwrap();
    for (node, client) in clients.iter().enumerate() {
        let passed = async {
            while create(client, PODS, &pod(&format!("bypassed-{node}"), "other")).await.0 == 500 {
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(PATIENCE, passed).await.unwrap();
    }
    cluster.operate(2, &["bypass-webhook", "lock", "--for", "0s"]).unwrap();
    // By itself, where the administrator has chosen that: the pods of its own service that the control plane makes, and no others.
    let key = format!("{}/passes", ORCH.group("lockout.admission"));
    let chosen = json!({"metadata": {"annotations": {key: "own-service"}}});
    let path = format!("{}/lock", configurations());
    clients[0].merge_patch(&path, &chosen).await.unwrap().success().unwrap();
    for (node, client) in clients.iter().enumerate() {
        let passed = pods_until_one_passes(client, &format!("own-{node}"), 6).await;
        assert!(passed.is_some_and(|refused| refused >= 2), "{passed:?}");
        let (status, message) = create_as_loops(client, &pod(&format!("other-{node}"), "other")).await;
        assert_eq!(status, 500, "{message}");
        let (status, message) = create(client, PODS, &pod(&format!("users-{node}"), "lock")).await;
        assert_eq!(status, 500, "{message}");
    }
}
