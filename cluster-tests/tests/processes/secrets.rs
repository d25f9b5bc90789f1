//! Canaries: no log line, at the highest verbosity, and no error response contains a secret.

use bytes::Bytes;
use http::Method;
use orch_cluster_tests::client::{Client, Identity};
use orch_cluster_tests::cluster::{ADMIN_TOKEN, ALICE_TOKEN, Cluster, Options};
use serde_json::{Value, json};

use crate::objects::{NAMESPACE, make_namespace};

/// A token that belongs to no user.
const WRONG_TOKEN: &str = "canary-token-0b5f7c";
/// A secret's value, plain and in base64 as in an object.
const DATA: &str = "canary-data-93ae11";
const DATA_BASE64: &str = "Y2FuYXJ5LWRhdGEtOTNhZTEx";
/// A value in a query and in a refused body.
const QUERY: &str = "canary-query-5dd0a2";

const SECRETS: &str = "/api/v1/namespaces/faults/secrets";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_log_and_no_failure_shows_a_token_a_key_or_the_data_of_a_secret() {
    let flags = vec!["--v=10".to_owned()];
    let mut cluster = Cluster::start(Options { flags, ..Options::nodes(3) }).await.unwrap();
    let leader = cluster.leader().await.unwrap();
    let client = cluster.client((leader + 1) % 3).unwrap();
    make_namespace(&client).await.unwrap();
    store_one(&client).await;
    let mut failures = Vec::new();
    for (method, path, content_type, body) in refused() {
        let headers = [("content-type", content_type)];
        let answer = client.send(method.clone(), &path, &headers, Bytes::from(body)).await.unwrap();
        assert!(answer.status >= 400, "{method} {path}: {answer:?}");
        failures.push(String::from_utf8_lossy(&answer.body).into_owned());
    }
    failures.extend(strangers(&cluster).await);
    for node in 0..3 {
        let metrics = cluster.client(node).unwrap().get("/metrics").await.unwrap();
        let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
        assert!(metrics.contains("authentication_attempts"), "{metrics:.400}");
        let secret = canaries(&cluster).into_iter().find(|secret| metrics.contains(secret));
        assert!(secret.is_none(), "{secret:?} is in the metrics of {}", cluster.name(node));
    }
    // Shutting down with open connections logs, too.
    let mut open = Vec::new();
    for node in 0..3 {
        let client = cluster.client(node).unwrap();
        open.push(client.watch(&format!("{SECRETS}?watch=1")).await.unwrap());
    }
    for node in 0..3 {
        let ending = cluster.stop(node, std::time::Duration::from_secs(30)).await.unwrap();
        assert_eq!(ending.code, Some(0), "{}", ending.log);
        assert!(ending.log.contains("DEBUG") || ending.log.contains("TRACE"), "not verbose: {}", ending.log);
        for secret in canaries(&cluster) {
            let line = ending.log.lines().find(|line| line.contains(&secret));
            assert!(line.is_none(), "{secret} is in the log of {}: {line:?}", cluster.name(node));
        }
    }
    for secret in canaries(&cluster).into_iter().filter(|secret| secret != QUERY) {
        let answer = failures.iter().find(|answer| answer.contains(&secret));
        assert!(answer.is_none(), "{secret} is in an answer: {answer:?}");
    }
}

/// All strings that must stay out of the logs; a private key by a line from its middle.
fn canaries(cluster: &Cluster) -> Vec<String> {
    let mut canaries =
        [ADMIN_TOKEN, ALICE_TOKEN, WRONG_TOKEN, DATA, DATA_BASE64, QUERY].map(str::to_owned).to_vec();
    for key in ["admin.key", "members/a/server.key", "members/a/peer.key", "service-account.key"] {
        let text = std::fs::read_to_string(cluster.certificates().join(key)).unwrap();
        canaries.push(text.lines().nth(1).unwrap().to_owned());
    }
    canaries
}

fn secret(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
        "data": {"password": DATA_BASE64}, "stringData": {"plain": DATA},
    })
}

async fn store_one(client: &Client) {
    client.post(SECRETS, &secret("kept")).await.unwrap().success().unwrap();
    let path = format!("{SECRETS}/kept");
    client.merge_patch(&path, &json!({"stringData": {"other": DATA}})).await.unwrap().success().unwrap();
    let apply = [("content-type", "application/apply-patch+yaml")];
    let body = Bytes::from(secret("kept").to_string());
    let query = format!("{path}?fieldManager=test&force=true");
    client.send(Method::PATCH, &query, &apply, body).await.unwrap().success().unwrap();
    client.get(&path).await.unwrap().success().unwrap();
}

/// Writes of secrets that are refused, each for another reason.
fn refused() -> Vec<(Method, String, &'static str, String)> {
    let json = "application/json";
    let kept = format!("{SECRETS}/kept");
    let mut stale = secret("kept");
    stale["metadata"]["resourceVersion"] = "1".into();
    let mut immutable = secret("kept");
    immutable["type"] = "other".into();
    let mut unknown = secret("unknown");
    unknown["password"] = DATA.into();
    let mut number = secret("number");
    number["data"]["password"] = 7.into();
    let test = json!([{"op": "test", "path": "/data/password", "value": "no"}]).to_string();
    let missing = json!([{"op": "replace", "path": format!("/no/{NAMESPACE}"), "value": DATA}]).to_string();
    let cut = secret("cut").to_string();
    vec![
        (Method::POST, SECRETS.into(), json, secret("kept").to_string()),
        (Method::PUT, kept.clone(), json, stale.to_string()),
        (Method::PUT, kept.clone(), json, immutable.to_string()),
        (Method::POST, format!("{SECRETS}?fieldValidation=Strict"), json, unknown.to_string()),
        (Method::POST, SECRETS.into(), json, number.to_string()),
        (Method::POST, SECRETS.into(), json, cut[..cut.len() - 3].to_owned()),
        (Method::POST, SECRETS.into(), "text/plain", secret("text").to_string()),
        (Method::POST, "/api/v1/namespaces/absent/secrets".into(), json, secret("kept").to_string()),
        (Method::PATCH, kept.clone(), "application/json-patch+json", test),
        (Method::PATCH, kept, "application/json-patch+json", missing),
        (Method::GET, format!("{SECRETS}?fieldSelector=data%3D{QUERY}"), json, String::new()),
        (Method::GET, format!("{SECRETS}/kept?resourceVersion={QUERY}"), json, String::new()),
    ]
}

/// The responses to clients without access.
async fn strangers(cluster: &Cluster) -> Vec<String> {
    let mut answers = Vec::new();
    for token in [WRONG_TOKEN, ALICE_TOKEN] {
        for node in 0..3 {
            let client = cluster.client_as(node, Identity::Token(token.to_owned())).unwrap();
            let answer = client.post(SECRETS, &secret("never")).await.unwrap();
            assert!(answer.status == 401 || answer.status == 403, "{answer:?}");
            answers.push(String::from_utf8_lossy(&answer.body).into_owned());
        }
    }
    answers
}
