//! The audit log of real processes: what a killed and a stopped one leave behind, and that no secret is in it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orch_cluster_tests::cluster::{ADMIN_TOKEN, Cluster, Options};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::sleep;

use crate::load::Writers;
use crate::objects::{COLLECTION, config_map, make_namespace};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// Text that no line of the log may hold, and its form in the base64 of a Secret.
const CANARY: &str = "canary-of-a-secret-in-an-event";
const CANARY_BASE64: &str = "Y2FuYXJ5LW9mLWEtc2VjcmV0LWluLWFuLWV2ZW50";

/// A cluster of one whose requests are audited at `level` into the returned file.
async fn audited(folder: &TempDir, level: &str, flags: &[&str]) -> (Cluster, PathBuf) {
    let (policy, log) = (folder.path().join("policy.yaml"), folder.path().join("audit.log"));
    let text = format!("apiVersion: audit.orch.io/v1\nkind: Policy\nrules: [{{level: {level}}}]\n");
    fs::write(&policy, text).unwrap();
    let own =
        [format!("--audit-policy-file={}", policy.display()), format!("--audit-log-path={}", log.display())];
    let flags = own.into_iter().chain(flags.iter().map(|flag| (*flag).to_owned())).collect();
    (Cluster::start(Options { flags, ..Options::nodes(1) }).await.unwrap(), log)
}

/// The events of a log. A killed process may leave the beginning of a line at its end.
fn events(log: &Path) -> Vec<Value> {
    let text = fs::read_to_string(log).unwrap();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("torn: {line}"))).collect()
}

/// Names of the objects whose creation has an event of `stage`.
fn created(events: &[Value], stage: &str) -> BTreeSet<String> {
    let is_wanted = |event: &&Value| event["verb"] == "create" && event["stage"] == stage;
    let name = |event: &Value| event["objectRef"]["name"].as_str().unwrap_or_default().to_owned();
    events.iter().filter(is_wanted).map(name).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_process_loses_no_event_of_an_answered_request() {
    let folder = tempfile::tempdir().unwrap();
    let strict = ["--audit-log-mode=blocking-strict"];
    let (mut cluster, log) = audited(&folder, "Metadata", &strict).await;
    let client = cluster.client(0).unwrap();
    make_namespace(&client).await.unwrap();
    let writers = Writers::start(16, &[client]);
    while writers.count() < 200 {
        sleep(Duration::from_millis(5)).await;
    }
    cluster.kill(0).unwrap();
    let acknowledged = writers.stop().await;
    let events = events(&log);
    let complete = created(&events, "ResponseComplete");
    for write in &acknowledged {
        assert!(complete.contains(&write.name), "the answered creation of {} has no event", write.name);
    }
    let arrived = events.iter().filter(|event| event["stage"] == "RequestReceived").count();
    assert!(arrived >= acknowledged.len(), "{arrived} arrivals");
    assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
    let founded = events.iter().any(|event| event["requestURI"] == "/orch/v1/cluster/found");
    assert!(founded, "the node's own paths are audited");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_process_stores_the_batch_that_was_filling() {
    let folder = tempfile::tempdir().unwrap();
    let batch =
        ["--audit-log-mode=batch", "--audit-log-batch-max-size=10000", "--audit-log-batch-max-wait=1h"];
    let (mut cluster, log) = audited(&folder, "Metadata", &batch).await;
    let client = cluster.client(0).unwrap();
    make_namespace(&client).await.unwrap();
    for number in 0..20 {
        let object = config_map(&format!("m{number}"), "x");
        client.post(COLLECTION, &object).await.unwrap().success().unwrap();
    }
    assert_eq!(fs::metadata(&log).unwrap().len(), 0, "the batch is filling");
    cluster.stop(0, Duration::from_secs(30)).await.unwrap();
    let complete = created(&events(&log), "ResponseComplete");
    for number in 0..20 {
        assert!(complete.contains(&format!("m{number}")), "m{number} of {complete:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_secret_is_in_the_log_at_the_highest_level() {
    let folder = tempfile::tempdir().unwrap();
    let (cluster, log) = audited(&folder, "RequestResponse", &[]).await;
    let client = cluster.client(0).unwrap();
    let secret =
        json!({"metadata": {"name": "s"}, "data": {"k": CANARY_BASE64}, "stringData": {"l": CANARY}});
    client.post(SECRETS, &secret).await.unwrap().success().unwrap();
    client.get(&format!("{SECRETS}/s")).await.unwrap().success().unwrap();
    client.get(&format!("{SECRETS}?access_token={CANARY}")).await.unwrap().success().unwrap();
    client.merge_patch(&format!("{SECRETS}/s"), &json!({"stringData": {"m": CANARY}})).await.unwrap();
    let review = json!({"spec": {"token": ADMIN_TOKEN}});
    let reviews = "/apis/authentication.orch.io/v1/tokenreviews";
    client.post(reviews, &review).await.unwrap().success().unwrap();
    client.with_token(CANARY).get(SECRETS).await.unwrap();
    let text = fs::read_to_string(&log).unwrap();
    for secret in [CANARY, CANARY_BASE64, ADMIN_TOKEN] {
        assert!(!text.contains(secret), "{secret}");
    }
    assert!(text.contains("REDACTED") && text.contains("\"code\":401"));
}
