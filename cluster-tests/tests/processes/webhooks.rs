//! Another server says whose a token is and what its holder may: a token webhook and an authorization webhook, the latter
//! in a file that is followed while the process runs.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use orch_cluster_tests::client::Client;
use orch_cluster_tests::cluster::{ADMIN_TOKEN, Cluster, Options};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::sleep;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const REVIEWS: &str = "/apis/authorization.orch.io/v1/subjectaccessreviews";

/// The token that the webhook knows. The log must not show it.
const TOKEN: &str = "canary-b1946ac92492d234";

/// A webhook on plain HTTP, which a loopback address that a file names may have.
struct Hook {
    url: String,
    asked: Arc<Mutex<Vec<Value>>>,
    task: JoinHandle<()>,
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Hook {
    async fn start() -> Hook {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
        let kept = asked.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, kept.clone()));
            }
        });
        Hook { url, asked, task }
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

async fn serve(mut stream: TcpStream, asked: Arc<Mutex<Vec<Value>>>) {
    while let Some(review) = read_review(&mut stream).await {
        let answer = json!({
            "apiVersion": review["apiVersion"], "kind": review["kind"], "status": status(&review["spec"]),
        });
        asked.lock().unwrap().push(review);
        let answer = answer.to_string();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", answer.len());
        if stream.write_all(format!("{head}{answer}").as_bytes()).await.is_err() {
            return;
        }
    }
}

/// The document of the next request; `None` at the end of the connection.
async fn read_review(stream: &mut TcpStream) -> Option<Value> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).ok()?.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?;
    let mut body = vec![0; length.parse().ok()?];
    stream.read_exact(&mut body).await.ok()?;
    serde_json::from_slice(&body).ok()
}

/// The holder of [`TOKEN`] is `hooked`, who may do everything with config maps.
fn status(spec: &Value) -> Value {
    match spec["token"].as_str() {
        Some(TOKEN) => json!({"authenticated": true, "user": {"username": "hooked", "groups": ["hooks"]}}),
        Some(_) => json!({"authenticated": false}),
        None => {
            let is_allowed =
                spec["user"] == "hooked" && spec["resourceAttributes"]["resource"] == "configmaps";
            json!({"allowed": is_allowed, "reason": "told by the hook"})
        }
    }
}

fn write(folder: &Path, name: &str, document: &Value) -> String {
    let (path, half) = (folder.join(name), folder.join(format!("{name}.half")));
    std::fs::write(&half, document.to_string()).unwrap();
    std::fs::rename(&half, &path).unwrap();
    path.display().to_string()
}

/// A configuration of these authorizers.
fn authorizers(authorizers: Value) -> Value {
    json!({
        "apiVersion": "apiserver.config.orch.io/v1", "kind": "AuthorizationConfiguration",
        "authorizers": authorizers,
    })
}

fn webhook(connection: &str) -> Value {
    json!({"type": "Webhook", "name": "hook", "webhook": {
        "timeout": "5s", "authorizedTTL": "5m", "unauthorizedTTL": "30s", "subjectAccessReviewVersion": "v1",
        "matchConditionSubjectAccessReviewVersion": "v1", "failurePolicy": "NoOpinion",
        "connectionInfo": {"type": "KubeConfigFile", "kubeConfigFile": connection},
        "matchConditions": [{"expression": "has(request.resourceAttributes) && request.user != 'alice'"}],
    }})
}

async fn until(client: &Client, path: &str, status: u16) {
    let began = Instant::now();
    while client.get(path).await.unwrap().status != status {
        assert!(began.elapsed() < Duration::from_secs(30), "{path} is still not answered with {status}");
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_server_says_who_a_user_is_and_what_it_may() {
    let hook = Hook::start().await;
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let connection = write(
        folder,
        "hook.conf",
        &json!({
            "clusters": [{"name": "c", "cluster": {"server": hook.url}}], "users": [],
            "contexts": [{"name": "x", "context": {"cluster": "c"}}], "current-context": "x",
        }),
    );
    let rbac = || json!({"type": "RBAC", "name": "rbac"});
    let config = write(folder, "authorization.json", &authorizers(json!([webhook(&connection), rbac()])));
    let mut options = Options::nodes(1);
    options.flags.extend([
        format!("--authentication-token-webhook-config-file={connection}"),
        "--authentication-token-webhook-version=v1".to_owned(),
        format!("--authorization-config={config}"),
        "--v=4".to_owned(),
    ]);
    let cluster = Cluster::start(options).await.unwrap();
    let admin = cluster.client(0).unwrap().with_token(ADMIN_TOKEN);
    let hooked = admin.with_token(TOKEN);
    assert_eq!(hooked.get(CONFIG_MAPS).await.unwrap().status, 200);
    let refused = hooked.get(SECRETS).await.unwrap();
    let message = refused.json().unwrap()["message"].as_str().unwrap().to_owned();
    assert!(refused.status == 403 && message.ends_with(": told by the hook"), "{message}");
    assert_eq!(admin.with_token("unknown").get(CONFIG_MAPS).await.unwrap().status, 401);

    let before = hook.asked();
    for _ in 0..10 {
        assert_eq!(hooked.get(CONFIG_MAPS).await.unwrap().status, 200);
    }
    assert_eq!(hook.asked(), before, "answers are remembered");
    let question = json!({"spec": {
        "user": "hooked", "resourceAttributes": {"verb": "get", "resource": "configmaps", "namespace": "default"},
    }});
    let answered = admin.post(REVIEWS, &question).await.unwrap().success().unwrap();
    assert_eq!(answered["status"], json!({"allowed": true, "reason": "told by the hook"}));

    write(folder, "authorization.json", &authorizers(json!([rbac()])));
    until(&hooked, CONFIG_MAPS, 403).await;
    std::fs::write(folder.join("authorization.json"), "nonsense").unwrap();
    let began = Instant::now();
    while !cluster.log(0).unwrap().contains("configuration not reloaded") {
        assert!(began.elapsed() < Duration::from_secs(30), "the fault is not logged");
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(hooked.get(CONFIG_MAPS).await.unwrap().status, 403, "the last good file stays in force");
    assert_eq!(admin.get(CONFIG_MAPS).await.unwrap().status, 200);
    assert!(!cluster.log(0).unwrap().contains(TOKEN));
}
