//! A quota of 100 pods under 64 clients that create pods through three members: exactly 100 are let in, and each deletion
//! makes room for one.

use std::time::Duration;

use futures::future::join_all;
use orch_cluster_tests::client::Client;
use orch_cluster_tests::cluster::{Cluster, Options};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::objects::{NAMESPACE, make_namespace};

const CLIENTS: usize = 64;
/// Creates of each client: three times as many as are let in.
const CREATES: usize = 5;
const LIMIT: usize = 100;
/// Deletions beside further creates.
const DELETIONS: usize = 20;

/// Some 400 writes that wait for each other take a few seconds.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

fn pods() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/pods")
}

fn quota_path() -> String {
    format!("/api/v1/namespaces/{NAMESPACE}/resourcequotas")
}

async fn create(client: &Client, name: &str) -> u16 {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    client.post(&pods(), &pod).await.unwrap().status
}

/// The codes that a client got for its creates.
async fn create_all(client: &Client, number: usize) -> Vec<u16> {
    let mut codes = Vec::new();
    for at in 0..CREATES {
        codes.push(create(client, &format!("p-{number}-{at}")).await);
    }
    codes
}

async fn used(client: &Client) -> Value {
    let quota = client.get(&format!("{}/q", quota_path())).await.unwrap().success().unwrap();
    quota["status"]["used"].clone()
}

async fn make_quota(client: &Client) {
    let hard = json!({"pods": LIMIT.to_string(), "count/pods": "1000"});
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": hard}});
    client.post(&quota_path(), &quota).await.unwrap().success().unwrap();
    let filled = async {
        while used(client).await["pods"] != "0" {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    };
    timeout(PATIENCE, filled).await.expect("the loop counts for a new quota");
}

async fn names(client: &Client) -> Vec<String> {
    let list = client.get(&pods()).await.unwrap().success().unwrap();
    let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap().to_owned();
    list["items"].as_array().unwrap().iter().map(name).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_clients_fill_a_quota_through_three_members_and_never_exceed_it() {
    let flags = vec!["--disable-admission-plugins=ServiceAccount".to_owned()];
    let cluster = Cluster::start(Options { flags, ..Options::nodes(3) }).await.unwrap();
    let members: Vec<Client> = (0..3).map(|node| cluster.client(node).unwrap()).collect();
    make_namespace(&members[0]).await.unwrap();
    make_quota(&members[1]).await;
    let creates = join_all((0..CLIENTS).map(|number| create_all(&members[number % 3], number)));
    let codes = timeout(PATIENCE, creates).await.expect("no client starves").concat();
    let admitted = codes.iter().filter(|code| **code == 201).count();
    assert_eq!(admitted, LIMIT, "{codes:?}");
    assert!(codes.iter().all(|code| matches!(code, 201 | 403)), "{codes:?}");
    let full = json!({"pods": LIMIT.to_string(), "count/pods": LIMIT.to_string()});
    for member in &members {
        assert_eq!((names(member).await.len(), used(member).await), (LIMIT, full.clone()));
    }
    let doomed = names(&members[0]).await;
    let deletes = join_all(doomed.iter().take(DELETIONS).enumerate().map(|(at, name)| {
        let client = &members[at % 3];
        async move { client.delete(&format!("{}/{name}", pods())).await.unwrap().status }
    }));
    assert!(deletes.await.iter().all(|code| *code == 200));
    assert_eq!(used(&members[2]).await["pods"], json!((LIMIT - DELETIONS).to_string()));
    let again = (0..2 * DELETIONS).map(|at| {
        let client = &members[at % 3];
        async move { create(client, &format!("again-{at}")).await }
    });
    let codes = timeout(PATIENCE, join_all(again)).await.expect("no client starves");
    assert_eq!(codes.iter().filter(|code| **code == 201).count(), DELETIONS, "{codes:?}");
    assert_eq!((names(&members[1]).await.len(), used(&members[1]).await), (LIMIT, full));
}
