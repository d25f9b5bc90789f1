//! `orch cluster migrate-storage` on three members: objects are rewritten and `status.storedVersions` is trimmed, through a member
//! that dies and a definition that is changed meanwhile.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use orch_cluster_tests::client::Client;
use orch_cluster_tests::cluster::{Cluster, Options, READY_TIMEOUT, program};
use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.orch.io/v1/customresourcedefinitions";
const DEFINITION: &str = "/apis/apiextensions.orch.io/v1/customresourcedefinitions/widgets.example.com";
const NAME: &str = "widgets.example.com";

/// The versions of the kind, of which `storage` is the stored one.
fn versions(storage: &str) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {
        "spec": {"type": "object", "x-orch-preserve-unknown-fields": true},
    }}});
    let version =
        |name: &str| json!({"name": name, "served": true, "storage": name == storage, "schema": schema});
    json!([version("v1"), version("v2")])
}

fn definition() -> Value {
    let names = json!({"plural": "widgets", "kind": "Widget"});
    let spec =
        json!({"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions("v1")});
    json!({"metadata": {"name": NAME}, "spec": spec})
}

fn objects(version: &str) -> String {
    format!("/apis/example.com/{version}/namespaces/default/widgets")
}

/// Waits until the kind is served: its names are accepted by a loop.
async fn await_service(client: &Client) {
    let deadline = Instant::now() + READY_TIMEOUT;
    while client.get(&objects("v1")).await.unwrap().status != 200 {
        assert!(Instant::now() < deadline, "the kind is not served");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn create(client: &Client, version: &str, name: &str) {
    let widget = json!({
        "apiVersion": format!("example.com/{version}"),
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": 1},
    });
    client.post(&objects(version), &widget).await.unwrap().success().unwrap();
}

async fn store_as(client: &Client, storage: &str) {
    let patch = json!({"spec": {"versions": versions(storage)}});
    client.merge_patch(DEFINITION, &patch).await.unwrap().success().unwrap();
}

async fn stored_versions(client: &Client) -> Value {
    client.get(DEFINITION).await.unwrap().success().unwrap()["status"]["storedVersions"].clone()
}

/// Names, uids and versions of all objects.
async fn listed(client: &Client) -> Vec<(String, String, u64)> {
    let list = client.get(&objects("v2")).await.unwrap().success().unwrap();
    let items = list["items"].as_array().unwrap().iter();
    let text = |item: &Value, field: &str| item["metadata"][field].as_str().unwrap().to_owned();
    items
        .map(|item| {
            let version = text(item, "resourceVersion").parse().unwrap();
            (text(item, "name"), text(item, "uid"), version)
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_migrated_through_deaths_and_changes_and_stored_versions_trimmed() {
    let mut cluster = Cluster::start(Options::nodes(3)).await.unwrap();
    let client = cluster.client(0).unwrap();
    client.post(DEFINITIONS, &definition()).await.unwrap().success().unwrap();
    await_service(&client).await;
    for at in 0..50 {
        create(&client, "v1", &format!("w{at:02}")).await;
    }
    let told = cluster.operate(0, &["migrate-storage", NAME]).unwrap();
    assert_eq!(told, "widgets.example.com: every object is stored in v1 already\n");

    store_as(&client, "v2").await;
    create(&client, "v2", "new").await;
    assert_eq!(stored_versions(&client).await, json!(["v1", "v2"]));
    let before = listed(&client).await;
    let refused =
        client.merge_patch(DEFINITION, &json!({"spec": {"versions": [versions("v2")[1]]}})).await.unwrap();
    assert_eq!(refused.status, 422, "v1 may still be stored");

    // Broken off after some objects; given again, it goes on with the others, though the member that it asks first has died.
    migrate_for(&cluster, Duration::from_secs(2)).await;
    let half = listed(&client).await;
    let written = half.iter().zip(&before).filter(|(now, then)| now.2 != then.2).count();
    assert!((1..50).contains(&written), "{written} written after a break");
    assert_eq!(stored_versions(&client).await, json!(["v1", "v2"]));
    cluster.kill(0).unwrap();
    let told = cluster.operate(1, &["migrate-storage", NAME]).unwrap();
    let result = format!("51 objects: {} rewritten, {} were already stored in v2", 50 - written, 1 + written);
    assert!(told.contains(&result), "{told}");
    assert!(told.ends_with("status.storedVersions of widgets.example.com is v2 alone\n"), "{told}");
    let client = cluster.client(1).unwrap();
    assert_eq!(stored_versions(&client).await, json!(["v2"]));
    let after = listed(&client).await;
    for (now, then) in after.iter().zip(&before) {
        assert_eq!((&now.0, &now.1), (&then.0, &then.1), "no object was made anew");
        assert_eq!(now.2 == then.2, now.0 == "new", "{} is written, unless it was stored in v2", now.0);
    }
    client
        .merge_patch(DEFINITION, &json!({"spec": {"versions": [versions("v2")[1]]}}))
        .await
        .unwrap()
        .success()
        .unwrap();

    cluster.respawn(0).unwrap();
    cluster.wait_ready(0).await.unwrap();
    changes_meanwhile(&cluster, &client).await;
}

/// A new column during a migration costs another pass; another storage version ends it, and trims nothing.
async fn changes_meanwhile(cluster: &Cluster, client: &Client) {
    store_as(client, "v1").await;
    let running = start(cluster, 40);
    tokio::time::sleep(Duration::from_millis(500)).await;
    let column = json!([{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]);
    let mut with_column = versions("v1");
    with_column[0]["additionalPrinterColumns"] = column;
    client
        .merge_patch(DEFINITION, &json!({"spec": {"versions": with_column}}))
        .await
        .unwrap()
        .success()
        .unwrap();
    let done = running.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(done.status.success() && told.contains("once more"), "{told}");
    assert_eq!(stored_versions(client).await, json!(["v1"]));

    store_as(client, "v2").await;
    let running = start(cluster, 40);
    tokio::time::sleep(Duration::from_millis(500)).await;
    store_as(client, "v1").await;
    let done = running.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(!done.status.success() && told.contains("changed from v2 to v1"), "{told}");
    assert_eq!(stored_versions(client).await, json!(["v1", "v2"]));
}

/// Starts a migration of `rate` objects a second, through every member.
fn start(cluster: &Cluster, rate: u32) -> std::process::Child {
    let config = cluster.certificates().join("admin.conf").display().to_string();
    let mut command = Command::new(program("orch").unwrap());
    command.args(["cluster", "migrate-storage", NAME, "--kubeconfig", &config, "--rate", &rate.to_string()]);
    for node in 0..cluster.size() {
        let server = cluster.client(node).unwrap().endpoint().to_string();
        command.args(["--server", server.trim_start_matches("https://")]);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Migrates 10 objects a second, and ends that after `span`.
async fn migrate_for(cluster: &Cluster, span: Duration) {
    let mut running = start(cluster, 10);
    tokio::time::sleep(span).await;
    running.kill().unwrap();
    let told = running.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains(" of about 51 objects, "), "progress is shown: {told}");
}
