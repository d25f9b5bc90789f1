//! The steps of a kubelet that joins: a bootstrap token, a certificate of its own, its Node and lease, the pods of its node and
//! what these refer to.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orch_cluster_tests::client::{Client, Identity};
use orch_cluster_tests::cluster::{Cluster, Options};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};
use tokio::time::sleep;

const REQUESTS: &str = "/apis/certificates.orch.io/v1/certificatesigningrequests";
const RBAC: &str = "rbac.authorization.orch.io";
const NAMESPACE: &str = "/api/v1/namespaces/default";
const LEASES: &str = "/apis/coordination.orch.io/v1/namespaces/orch-node-lease/leases";

/// How long the loops may take: far more than they do, for a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

async fn made(client: &Client, path: &str, object: Value) -> Value {
    client.post(path, &object).await.unwrap().success().unwrap()
}

#[track_caller]
fn assert_forbidden(answer: &orch_cluster_tests::client::Response, reason: &str) {
    let status = answer.json().unwrap();
    let message = status["message"].as_str().unwrap_or_default();
    assert!(answer.status == 403 && message.contains(reason), "{status}");
}

/// A cluster whose bootstrap tokens may ask for certificates of nodes, and one such token.
async fn with_bootstrap_token(admin: &Client) -> &'static str {
    let data = json!({
        "token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
    });
    let secret = json!({
        "metadata": {"name": "bootstrap-token-abcdef"}, "type": "bootstrap.orch.io/token", "stringData": data,
    });
    made(admin, "/api/v1/namespaces/orch-system/secrets", secret).await;
    let approved = "system:certificates.orch.io:certificatesigningrequests:nodeclient";
    for (name, role) in [("ask", "system:node-bootstrapper"), ("approved", approved)] {
        let binding = json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": "system:bootstrappers"}],
        });
        made(admin, &format!("/apis/{RBAC}/v1/clusterrolebindings"), binding).await;
    }
    "abcdef.0123456789abcdef"
}

/// The identity of node `name`, asked for by the holder of a bootstrap token.
async fn join(bootstrapper: &Client, name: &str) -> Identity {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(DnType::CommonName, format!("system:node:{name}"));
    let key = KeyPair::generate().unwrap();
    let request = STANDARD.encode(params.serialize_request(&key).unwrap().pem().unwrap());
    let spec = json!({
        "request": request, "signerName": "orch.io/kube-apiserver-client-kubelet",
        "usages": ["digital signature", "client auth"],
    });
    made(bootstrapper, REQUESTS, json!({"metadata": {"name": name}, "spec": spec})).await;
    let began = Instant::now();
    loop {
        let object = bootstrapper.get(&format!("{REQUESTS}/{name}")).await.unwrap().success().unwrap();
        if let Some(certificate) = object["status"]["certificate"].as_str() {
            let chain = STANDARD.decode(certificate).unwrap();
            return Identity::Certificate { chain, key: key.serialize_pem().into_bytes() };
        }
        assert!(began.elapsed() < PATIENCE, "not issued: {object}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// The node registers itself and keeps its lease, and cannot do so for another.
async fn register(node: &Client) {
    made(node, "/api/v1/nodes", json!({"metadata": {"name": "n1", "labels": {"orch.io/os": "linux"}}})).await;
    let other = node.post("/api/v1/nodes", &json!({"metadata": {"name": "n2"}})).await.unwrap();
    assert_forbidden(&other, "node \"n1\" is not allowed to modify node \"n2\"");
    let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    node.merge_patch("/api/v1/nodes/n1/status", &status).await.unwrap().success().unwrap();
    made(node, LEASES, json!({"metadata": {"name": "n1"}, "spec": {"holderIdentity": "n1"}})).await;
    let renewed = json!({"spec": {"renewTime": "2026-01-02T03:04:05.000000Z"}});
    node.merge_patch(&format!("{LEASES}/n1"), &renewed).await.unwrap().success().unwrap();
    assert_forbidden(&node.get(&format!("{LEASES}/n2")).await.unwrap(), "can only access node lease");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kubelet_joins_and_gets_what_its_pods_need() {
    let flags = vec!["--enable-bootstrap-token-auth".to_owned()];
    let cluster = Cluster::start(Options { flags, ..Options::nodes(1) }).await.unwrap();
    let admin = cluster.client(0).unwrap();
    let token = with_bootstrap_token(&admin).await;
    let identity = join(&admin.with_token(token), "n1").await;
    let node = cluster.client_as(0, identity).unwrap();
    register(&node).await;

    for name in ["mine", "theirs"] {
        made(&admin, &format!("{NAMESPACE}/secrets"), json!({"metadata": {"name": name}})).await;
    }
    made(&admin, &format!("{NAMESPACE}/serviceaccounts"), json!({"metadata": {"name": "app"}})).await;
    let projected = json!({"sources": [{"serviceAccountToken": {"path": "t", "audience": "shop"}}]});
    let pod = made(
        &admin,
        &format!("{NAMESPACE}/pods"),
        json!({"metadata": {"name": "p"}, "spec": {
            "nodeName": "n1", "serviceAccountName": "app", "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "s", "secret": {"secretName": "mine"}}, {"name": "t", "projected": projected}],
        }}),
    )
    .await;

    let unrelated = "no relationship found between node 'n1' and this object";
    let own = node.get("/api/v1/pods?fieldSelector=spec.nodeName%3Dn1").await.unwrap().success().unwrap();
    assert_eq!(own["items"][0]["metadata"]["name"], "p");
    assert_forbidden(&node.get("/api/v1/pods").await.unwrap(), "spec.nodeName field selector");
    node.get(&format!("{NAMESPACE}/secrets/mine")).await.unwrap().success().unwrap();
    assert_forbidden(&node.get(&format!("{NAMESPACE}/secrets/theirs")).await.unwrap(), unrelated);
    let running = json!({"status": {"phase": "Running"}});
    node.merge_patch(&format!("{NAMESPACE}/pods/p/status"), &running).await.unwrap().success().unwrap();

    let bound =
        json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod["metadata"]["uid"].clone()});
    let asked = |audience: &str| json!({"spec": {"boundObjectRef": bound.clone(), "audiences": [audience]}});
    let tokens = format!("{NAMESPACE}/serviceaccounts/app/token");
    let issued = made(&node, &tokens, asked("shop")).await;
    assert!(issued["status"]["token"].is_string(), "{issued}");
    let other = node.post(&tokens, &asked("bank")).await.unwrap();
    assert_forbidden(&other, "audience \"bank\" not found in pod spec volume");

    node.delete(&format!("{NAMESPACE}/pods/p?gracePeriodSeconds=0")).await.unwrap().success().unwrap();
    assert_forbidden(&node.get(&format!("{NAMESPACE}/secrets/mine")).await.unwrap(), unrelated);
}
