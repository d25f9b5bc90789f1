//! Services created through three members at once, one of which is killed: no address and no port is given twice, and none
//! is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use orch_cluster_tests::client::Client;
use orch_cluster_tests::cluster::{Cluster, Options};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::objects::{NAMESPACE, make_namespace, name};

/// Clients that create at a time.
const CLIENTS: usize = 48;

/// Services created unless `SERVICES` names another number (`make services` creates 5,000).
const SERVICES: usize = 480;

/// Attempts at one service while the cluster has no leader: a second apart, as long as an election may take.
const ATTEMPTS_MAX: usize = 60;

const COLLECTION: &str = "/api/v1/namespaces/faults/services";
const ADDRESSES: &str = "/apis/networking.orch.io/v1/ipaddresses";

/// A range with about a quarter more addresses than the services need, so that members draw the same ones.
fn range_for(services: usize) -> String {
    let bits = (services + services / 4 + 300).next_power_of_two().ilog2();
    format!("10.96.0.0/{}", 32 - bits)
}

/// Every second service has a node port.
fn service(number: usize) -> Value {
    let kind = if number.is_multiple_of(2) { "ClusterIP" } else { "NodePort" };
    let spec = json!({"type": kind, "ports": [{"port": 80}], "selector": {"a": "b"}});
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("s-{number}")}, "spec": spec})
}

/// Creates one service, through another member after each failure.
async fn create(members: &[Client], number: usize, created: &AtomicUsize) -> Result<(), String> {
    let mut last = String::new();
    for attempt in 0..ATTEMPTS_MAX {
        let member = &members[(number + attempt) % members.len()];
        match member.post(COLLECTION, &service(number)).await {
            // A conflict is the answer to an earlier attempt whose answer was lost.
            Ok(answer) if answer.status == 201 || answer.status == 409 => {
                created.fetch_add(1, Ordering::Relaxed);
                return Ok(());
            }
            Ok(answer) if answer.status >= 500 => last = String::from_utf8_lossy(&answer.body).into_owned(),
            Ok(answer) => return Err(String::from_utf8_lossy(&answer.body).into_owned()),
            Err(error) => last = error.to_string(),
        }
        sleep(Duration::from_secs(1)).await;
    }
    Err(last)
}

/// The path and the whole of each object of a collection.
async fn all(client: &Client, collection: &str) -> BTreeMap<String, Value> {
    let list = client.get(collection).await.unwrap().success().unwrap();
    list["items"].as_array().unwrap().iter().map(|item| (name(item).unwrap(), item.clone())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_address_and_no_port_is_given_twice_while_a_leader_dies() {
    let count = std::env::var("SERVICES").ok().and_then(|count| count.parse().ok()).unwrap_or(SERVICES);
    let range = format!("--service-cluster-ip-range={}", range_for(count));
    let flags = vec![range, "--service-node-port-range=20000-32767".to_owned(), "--controllers=".to_owned()];
    let mut cluster = Cluster::start(Options { flags, ..Options::nodes(3) }).await.unwrap();
    let leader = cluster.leader().await.unwrap();
    let members: Arc<Vec<Client>> = Arc::new((0..3).map(|node| cluster.client(node).unwrap()).collect());
    make_namespace(&members[0]).await.unwrap();

    let created = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..CLIENTS)
        .map(|first| {
            let (members, created) = (members.clone(), created.clone());
            tokio::spawn(async move {
                let mut refused = Vec::new();
                for number in (first..count).step_by(CLIENTS) {
                    refused.extend(create(&members, number, &created).await.err());
                }
                refused
            })
        })
        .collect();
    while created.load(Ordering::Relaxed) < count / 3 {
        sleep(Duration::from_millis(5)).await;
    }
    cluster.kill(leader).unwrap();
    let refused: Vec<String> = join_all(tasks).await.into_iter().flat_map(Result::unwrap).collect();
    assert_eq!(refused, [""; 0]);

    let survivor = &members[(leader + 1) % 3];
    let services = all(survivor, COLLECTION).await;
    assert_eq!(services.len(), count, "an acknowledged service is lost");
    let (mut addresses, mut ports) = (BTreeMap::new(), BTreeSet::new());
    for (name, service) in &services {
        let address = service["spec"]["clusterIP"].as_str().unwrap().to_owned();
        assert_eq!(
            addresses.insert(address, name.clone()),
            None,
            "{name} has the address of another service"
        );
        if service["spec"]["type"] == "NodePort" {
            let port = service["spec"]["ports"][0]["nodePort"].as_u64().unwrap();
            assert!(ports.insert(port), "{name} has the node port {port} of another service");
        }
    }
    let taken = all(survivor, ADDRESSES).await;
    for (address, service) in &addresses {
        assert_eq!(taken[address]["spec"]["parentRef"]["name"], json!(service), "{address}");
    }
    let held = taken.values().filter(|taken| taken["spec"]["parentRef"]["namespace"] == NAMESPACE).count();
    assert_eq!(held, count, "an address without its service");

    survivor.delete(COLLECTION).await.unwrap().success().unwrap();
    let left = all(survivor, ADDRESSES).await;
    assert!(
        left.keys().all(|address| !addresses.contains_key(address)),
        "addresses are freed with their services"
    );
}
