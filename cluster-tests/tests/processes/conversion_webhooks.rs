//! Conversion webhooks that hang, die, lie and call back, against real processes: whatever one does, it costs the versions that it
//! converts, in bounded time and memory, and no others. And a long list asks one few times.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orch_cluster_tests::client::Client;
use orch_cluster_tests::cluster::{ADMIN_TOKEN, Cluster, Options};
use orch_proto::brand::ORCH;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::misbehaving::{ELSEWHERE, GROWTH_KB_MAX, METADATA_NAME, Misbehaving, Mode, Waits};
use super::tls_host::{Pair, Request, Stream, TlsHost, answer};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Time in which each request has to have an answer, whatever its webhook does. It has the request's own time, which is less.
const PATIENCE: Duration = Duration::from_secs(20);

/// Time for what a change of a definition brings about.
const SETTLING: Duration = Duration::from_secs(40);

/// A server of conversion webhooks. What it does is in the path.
struct Hooks {
    host: TlsHost,
    certificate: String,
    state: Arc<State>,
}

struct State {
    /// It converts, whatever the path.
    works: AtomicBool,
    misbehaving: Misbehaving,
    /// Requests that it has converted.
    converted: AtomicUsize,
}

impl Hooks {
    /// A server that calls back as `api`.
    async fn start(api: Client) -> Hooks {
        let (works, converted) = (AtomicBool::new(false), AtomicUsize::new(0));
        let state = Arc::new(State { works, misbehaving: Misbehaving::new(api), converted });
        let (pair, shared) = (Pair::of("127.0.0.1", false), state.clone());
        let host = TlsHost::start(&pair, move |stream| serve(stream, shared.clone())).await;
        Hooks { host, certificate: pair.certificate, state }
    }

    fn url(&self, path: &str) -> String {
        format!("https://{}/{path}", self.host.address)
    }

    /// Declares the kind of the group `NAME.example.com`, whose webhook is at `url`, and makes the object `a` in the version that is
    /// stored.
    async fn declare(&self, admin: &Client, name: &str, url: &str) {
        let spec = json!({"type": "object", "properties": {"size": {"type": "integer"}}});
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
        let version =
            |name: &str| json!({"name": name, "served": true, "storage": name == "v1", "schema": schema});
        let client = json!({"url": url, "caBundle": STANDARD.encode(&self.certificate)});
        let webhook = json!({"clientConfig": client, "conversionReviewVersions": ["v1"]});
        let document = json!({
            "metadata": {"name": format!("things.{name}.example.com")},
            "spec": {
                "group": format!("{name}.example.com"), "scope": "Namespaced",
                "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
                "versions": [version("v1"), version("v2")],
                "conversion": {"strategy": "Webhook", "webhook": webhook},
            },
        });
        admin.post(&definitions(), &document).await.unwrap().success().unwrap();
        let (path, thing) = (things(name, "v1"), thing(name, "a"));
        let made = async {
            while admin.post(&path, &thing).await.unwrap().status != 201 {
                sleep(Duration::from_millis(50)).await;
            }
        };
        timeout(SETTLING, made).await.unwrap_or_else(|_| panic!("{name} is not served"));
    }
}

fn definitions() -> String {
    format!("/apis/{}/v1/customresourcedefinitions", ORCH.group("apiextensions"))
}

fn things(name: &str, version: &str) -> String {
    format!("/apis/{name}.example.com/{version}/namespaces/default/things")
}

fn thing(group: &str, name: &str) -> Value {
    json!({
        "apiVersion": format!("{group}.example.com/v1"), "kind": "Thing",
        "metadata": {"name": name}, "spec": {"size": 1},
    })
}

/// The answer of a webhook that converts what `review` asks for.
fn converted(review: &Value) -> Value {
    let request = &review["request"];
    let mut objects = request["objects"].as_array().cloned().unwrap_or_default();
    for object in &mut objects {
        object["apiVersion"] = request["desiredAPIVersion"].clone();
    }
    json!({
        "apiVersion": review["apiVersion"], "kind": review["kind"],
        "response": {"uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"}},
    })
}

/// Answers the requests of a connection.
async fn serve(mut stream: Stream, state: Arc<State>) -> std::io::Result<()> {
    loop {
        let request = Request::read(&mut stream).await?;
        let well = converted(&request.body).to_string();
        match Mode::at(request.path()).filter(|_| !state.works.load(Ordering::Relaxed)) {
            Some(mode) => {
                let uid = request.body["request"]["uid"].as_str().unwrap_or_default();
                state.misbehaving.answer(&mut stream, mode, (&format!("noted-{uid}"), &well)).await?;
            }
            None if request.path() == ELSEWHERE => {
                state.misbehaving.note_redirected(&mut stream, &well).await?;
            }
            None => {
                state.converted.fetch_add(1, Ordering::Relaxed);
                answer(&mut stream, "200 OK", &well).await?;
            }
        }
    }
}

/// The status and text of the answer, which comes in time.
async fn ask(client: &Client, path: &str) -> (u16, String) {
    let answered = timeout(PATIENCE, client.get(path)).await;
    let answered = answered.unwrap_or_else(|_| panic!("no answer of {path}")).unwrap();
    (answered.status, String::from_utf8_lossy(&answered.body).into_owned())
}

/// The stored versions of all kinds are read and written, and so is what no webhook concerns, until `stop`.
async fn use_others(admin: Client, stop: Arc<AtomicBool>) -> Waits {
    let (mut waits, mut number) = (Waits::default(), 0);
    while !stop.load(Ordering::Relaxed) {
        let map = json!({"metadata": {"name": format!("other-{number}")}});
        let began = Instant::now();
        admin.post(CONFIG_MAPS, &map).await.unwrap().success().unwrap();
        waits.note(began, CONFIG_MAPS);
        for mode in Mode::ALL {
            let path = format!("{}/a", things(mode.name(), "v1"));
            let began = Instant::now();
            assert_eq!(admin.get(&path).await.unwrap().status, 200, "{path}");
            waits.note(began, &path);
            let path = things(mode.name(), "v1");
            let began = Instant::now();
            let made = thing(mode.name(), &format!("t-{number}"));
            assert_eq!(admin.post(&path, &made).await.unwrap().status, 201, "{path}");
            waits.note(began, &path);
        }
        number += 1;
        sleep(Duration::from_millis(20)).await;
    }
    waits
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversion_webhook_that_misbehaves_costs_its_own_version_alone() {
    let cluster = Cluster::start(Options::nodes(1)).await.unwrap();
    let admin = cluster.client(0).unwrap().with_token(ADMIN_TOKEN);
    let hooks = Hooks::start(admin.with_token(ADMIN_TOKEN)).await;
    for mode in Mode::ALL {
        hooks.declare(&admin, mode.name(), &hooks.url(mode.name())).await;
    }
    hooks.declare(&admin, "metadata", "https://169.254.169.254/latest").await;
    hooks.declare(&admin, "named", &format!("https://{METADATA_NAME}/latest")).await;
    let before = cluster.memory(0).unwrap().peak_kb;

    let stop = Arc::new(AtomicBool::new(false));
    let others = tokio::spawn(use_others(admin.with_token(ADMIN_TOKEN), stop.clone()));
    let mut refused = JoinSet::new();
    let modes = Mode::ALL.into_iter().filter(|mode| *mode != Mode::Callback).map(Mode::name);
    for name in modes.chain(["metadata", "named"]) {
        let client = admin.with_token(ADMIN_TOKEN);
        refused.spawn(async move {
            let (all, one) = (things(name, "v2"), format!("{}/a", things(name, "v2")));
            for path in [&one, &all, &one, &all] {
                let (status, text) = ask(&client, &format!("{path}?timeout=3s")).await;
                // A webhook that has not answered when the request's time is over has not failed.
                let is_told = match status {
                    500 => text.contains("conversion webhook for "),
                    504 => matches!(name, "hang" | "slow"),
                    _ => false,
                };
                assert!(is_told, "{name}: {status} {text}");
            }
        });
    }
    refused.join_all().await;
    let called_back = &hooks.state.misbehaving.called_back;
    let (status, text) = ask(&admin, &format!("{}/a", things("callback", "v2"))).await;
    assert_eq!((status, called_back.load(Ordering::Relaxed)), (200, 1), "{text}");
    stop.store(true, Ordering::Relaxed);
    others.await.unwrap().must_be_short(20);
    assert_eq!(hooks.state.misbehaving.redirected.load(Ordering::Relaxed), 0, "no redirect is followed");
    let grown = cluster.memory(0).unwrap().peak_kb.saturating_sub(before);
    eprintln!("{grown} KiB more at the peak");
    assert!(grown < GROWTH_KB_MAX, "{grown} KiB more at the peak");

    // Each version is there again as soon as its webhook works.
    hooks.state.works.store(true, Ordering::Relaxed);
    for mode in Mode::ALL {
        let (status, text) = ask(&admin, &format!("{}/a", things(mode.name(), "v2"))).await;
        assert_eq!(status, 200, "{mode:?}: {text}");
        let shown: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(shown["apiVersion"], format!("{}.example.com/v2", mode.name()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_ten_thousand_objects_in_another_version_asks_its_webhook_ten_times_at_most() {
    const CLIENTS: usize = 32;
    const OBJECTS: usize = 10_000;
    let cluster = Cluster::start(Options::nodes(1)).await.unwrap();
    let admin = cluster.client(0).unwrap().with_token(ADMIN_TOKEN);
    let hooks = Hooks::start(admin.with_token(ADMIN_TOKEN)).await;
    hooks.declare(&admin, "many", &hooks.url("well")).await;
    let mut creating = JoinSet::new();
    for client in 0..CLIENTS {
        let admin = admin.with_token(ADMIN_TOKEN);
        creating.spawn(async move {
            for number in (1..OBJECTS).filter(|number| number % CLIENTS == client) {
                let made = admin.post(&things("many", "v1"), &thing("many", &format!("t-{number}"))).await;
                made.unwrap().success().unwrap();
            }
        });
    }
    creating.join_all().await;
    assert_eq!(
        hooks.state.converted.load(Ordering::Relaxed),
        0,
        "nothing is converted to the stored version"
    );
    let listed = admin.get(&things("many", "v2")).await.unwrap().success().unwrap();
    let items = listed["items"].as_array().unwrap();
    assert_eq!(items.len(), OBJECTS);
    assert!(items.iter().all(|item| item["apiVersion"] == "many.example.com/v2"));
    let calls = hooks.state.converted.load(Ordering::Relaxed);
    eprintln!("{calls} calls for a list of {OBJECTS} objects");
    assert!((1..=10).contains(&calls), "{calls} calls");
}
