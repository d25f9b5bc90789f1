//! An aggregated server whose own pods and endpoints live in the cluster that it is aggregated into, and are gone, while all members
//! start anew: the cluster answers without it, its loops go on, and it comes back when the pods do.

use std::net::{IpAddr, UdpSocket};
use std::time::Duration;

use orch_cluster_tests::client::Client;
use orch_cluster_tests::cluster::{ADMIN_TOKEN, Cluster, Options};
use orch_proto::brand::ORCH;
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::aggregated_servers::{Backend, PATIENCE, api_services, end_namespace, freshness};

const GROUP: &str = "own.example.com";

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// Name of the server's service, pod and endpoints.
const OWN: &str = "own-server";

/// The address from which this machine sends to others; `None` on a machine without a network. Nothing is sent. Endpoints may have no
/// loopback address.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect("203.0.113.7:9").ok()?;
    let address = socket.local_addr().unwrap().ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

fn slices() -> String {
    format!("/apis/{}/v1/namespaces/default/endpointslices", ORCH.group("discovery"))
}

async fn must(client: &Client, path: &str, body: &serde_json::Value) {
    client.post(path, body).await.unwrap().success().unwrap();
}

/// Makes the pod of `backend` and its endpoints, as a workload's and the endpoints' controllers do.
async fn make_pod(admin: &Client, backend: &Backend) {
    let labels = json!({"app": OWN});
    let spec = json!({"containers": [{"name": "c", "image": "i"}]});
    must(admin, PODS, &json!({"metadata": {"name": OWN, "labels": labels}, "spec": spec})).await;
    let slice = json!({
        "metadata": {"name": OWN, "labels": {ORCH.label("service-name"): OWN}},
        "addressType": "IPv4",
        "ports": [{"name": "https", "port": backend.host.address.port(), "protocol": "TCP"}],
        "endpoints": [{"addresses": [backend.host.address.ip().to_string()], "conditions": {"ready": true}}],
    });
    must(admin, &slices(), &slice).await;
}

async fn register(admin: &Client, backend: &Backend) {
    let spec = json!({"selector": {"app": OWN}, "ports": [{"name": "https", "port": 443}]});
    must(admin, "/api/v1/namespaces/default/services", &json!({"metadata": {"name": OWN}, "spec": spec}))
        .await;
    let spec = json!({
        "group": GROUP, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
        "insecureSkipTLSVerify": true, "service": {"namespace": "default", "name": OWN},
    });
    must(admin, &api_services(), &json!({"metadata": {"name": backend.name()}, "spec": spec})).await;
}

/// Waits until `is_done`.
async fn until(what: &str, mut is_done: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !is_done().await {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("{what}"));
}

/// The collector goes on: a dependent goes with its owner, and an owner that is deleted in the foreground goes.
async fn collect(admin: &Client) {
    let owner = json!({"metadata": {"name": "owner"}});
    let made = admin.post(CONFIG_MAPS, &owner).await.unwrap().success().unwrap();
    let reference = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": made["metadata"]["uid"],
        "blockOwnerDeletion": true,
    });
    let dependent = json!({"metadata": {"name": "dependent", "ownerReferences": [reference]}});
    must(admin, CONFIG_MAPS, &dependent).await;
    let path = format!("{CONFIG_MAPS}/owner?propagationPolicy=Foreground");
    admin.delete(&path).await.unwrap().success().unwrap();
    for name in ["dependent", "owner"] {
        let path = format!("{CONFIG_MAPS}/{name}");
        until(&format!("{name} is gone"), async || admin.get(&path).await.unwrap().status == 404).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_whose_aggregated_server_lived_in_it_starts_without_it_and_has_it_back_with_its_pods() {
    let Some(address) = own_address() else {
        eprintln!("this machine has no address that endpoints may have");
        return;
    };
    let flags = vec!["--enable-aggregator-routing".to_owned()];
    let mut cluster = Cluster::start(Options { flags, ..Options::nodes(3) }).await.unwrap();
    let admin = cluster.client(0).unwrap().with_token(ADMIN_TOKEN);
    let mut backend = Backend::start_at(GROUP, address).await;
    register(&admin, &backend).await;
    make_pod(&admin, &backend).await;
    backend.wait(&admin, true).await;
    let things = backend.path("/namespaces/default/things");
    assert_eq!(admin.get(&things).await.unwrap().status, 200);

    // The server, its pods and their endpoints are gone, and all members start anew.
    backend.host.die().await;
    admin.delete(&format!("{PODS}/{OWN}")).await.unwrap().success().unwrap();
    admin.delete(&format!("{}/{OWN}", slices())).await.unwrap().success().unwrap();
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
        must(client, CONFIG_MAPS, &json!({"metadata": {"name": format!("after-{node}")}})).await;
        until(&format!("discovery of member {node} marks the group"), async || {
            freshness(client, GROUP).await.as_deref() == Some("Stale")
        })
        .await;
        let answered = client.get(&things).await.unwrap();
        assert_eq!((answered.status, &answered.body[..]), (503, &b"service unavailable\n"[..]), "{node}");
        assert_eq!(client.get("/openapi/v3").await.unwrap().status, 200);
    }
    backend.wait(&clients[0], false).await;
    let object = clients[1].get(&format!("{}/{}", api_services(), backend.name())).await.unwrap();
    let object = object.success().unwrap();
    assert_eq!(object["status"]["conditions"][0]["reason"], "EndpointsNotFound", "{object}");
    collect(&clients[2]).await;
    end_namespace(&clients[1], GROUP, "other.example.com").await;

    // Nothing of it is in the way of its pods.
    backend.host.revive().await;
    make_pod(&clients[2], &backend).await;
    backend.wait(&clients[0], true).await;
    for (node, client) in clients.iter().enumerate() {
        until(&format!("member {node} has the group back"), async || {
            client.get(&things).await.unwrap().status == 200
                && freshness(client, GROUP).await.as_deref() == Some("Current")
        })
        .await;
    }
    until("the namespace goes", async || {
        clients[0].get("/api/v1/namespaces/going").await.unwrap().status == 404
    })
    .await;
}
