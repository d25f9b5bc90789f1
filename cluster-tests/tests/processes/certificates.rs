//! Certificates of a running cluster: requests, approval, the built-in signers, and the rotation of the authorities.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orch_cluster_tests::client::{Access, Client, Identity, Trust};
use orch_cluster_tests::cluster::{ADMIN_TOKEN, Cluster, Options};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use serde_json::{Value, json};
use tokio::time::sleep;

const REQUESTS: &str = "/apis/certificates.orch.io/v1/certificatesigningrequests";
const SELF_REVIEWS: &str = "/apis/authentication.orch.io/v1/selfsubjectreviews";

/// How long the loops may take: far more than they do, for a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A request (base64 of PEM) of a common name and an organization, and its key (PEM).
fn request(common_name: &str, organization: &str) -> (String, String) {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, organization);
    params.distinguished_name.push(DnType::CommonName, common_name);
    let key = KeyPair::generate().unwrap();
    let request = params.serialize_request(&key).unwrap().pem().unwrap();
    (STANDARD.encode(request), key.serialize_pem())
}

async fn ask(client: &Client, name: &str, signer: &str, request: &str, usages: &[&str]) {
    let object = json!({"metadata": {"name": name}, "spec": {
        "request": request, "signerName": signer, "usages": usages, "expirationSeconds": 3600,
    }});
    client.post(REQUESTS, &object).await.unwrap().success().unwrap();
}

/// Waits until the request has its certificate (PEM).
async fn issued(client: &Client, name: &str) -> Vec<u8> {
    let began = Instant::now();
    loop {
        let object = client.get(&format!("{REQUESTS}/{name}")).await.unwrap().success().unwrap();
        if let Some(certificate) = object["status"]["certificate"].as_str() {
            return STANDARD.decode(certificate).unwrap();
        }
        assert!(began.elapsed() < PATIENCE, "not issued: {object}");
        sleep(Duration::from_millis(20)).await;
    }
}

async fn whoami(client: &Client) -> Value {
    let review = client.post(SELF_REVIEWS, &json!({})).await.unwrap().success().unwrap();
    review["status"]["userInfo"].clone()
}

fn has_group(user: &Value, group: &str) -> bool {
    user["groups"].as_array().is_some_and(|groups| groups.iter().any(|held| held == group))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approved_client_logs_in_with_the_issued_certificate() {
    let cluster = Cluster::start(Options::nodes(1)).await.unwrap();
    let admin = cluster.client(0).unwrap();
    let (encoded, key) = request("ann", "team");
    ask(&admin, "ann", "orch.io/kube-apiserver-client", &encoded, &["client auth"]).await;
    let approval = json!({"status": {"conditions": [
        {"type": "Approved", "status": "True", "reason": "Asked", "message": "by the administrator"},
    ]}});
    admin.merge_patch(&format!("{REQUESTS}/ann/approval"), &approval).await.unwrap().success().unwrap();
    let chain = issued(&admin, "ann").await;
    let ann = cluster.client_as(0, Identity::Certificate { chain, key: key.into_bytes() }).unwrap();
    let user = whoami(&ann).await;
    assert!(user["username"] == "ann" && has_group(&user, "team"), "{user}");
    assert_eq!(ann.get("/api/v1/namespaces").await.unwrap().status, 403, "a certificate gives no rights");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kubelet_gets_its_certificate_without_an_administrator() {
    let cluster = Cluster::start(Options::nodes(1)).await.unwrap();
    let admin = cluster.client(0).unwrap();
    let alice = admin.with_token(orch_cluster_tests::cluster::ALICE_TOKEN);
    let group = "rbac.authorization.orch.io";
    let rules = json!([{
        "verbs": ["create", "get"], "apiGroups": ["certificates.orch.io"],
        "resources": ["certificatesigningrequests", "certificatesigningrequests/nodeclient"],
    }]);
    let role = json!({"metadata": {"name": "bootstrap"}, "rules": rules});
    admin.post(&format!("/apis/{group}/v1/clusterroles"), &role).await.unwrap().success().unwrap();
    let binding = json!({
        "metadata": {"name": "bootstrap"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "bootstrap"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "alice"}],
    });
    admin.post(&format!("/apis/{group}/v1/clusterrolebindings"), &binding).await.unwrap().success().unwrap();
    let (encoded, key) = request("system:node:n1", "system:nodes");
    let usages = ["digital signature", "client auth"];
    ask(&alice, "n1", "orch.io/kube-apiserver-client-kubelet", &encoded, &usages).await;
    let chain = issued(&alice, "n1").await;
    let node = cluster.client_as(0, Identity::Certificate { chain, key: key.into_bytes() }).unwrap();
    let user = whoami(&node).await;
    assert!(user["username"] == "system:node:n1" && has_group(&user, "system:nodes"), "{user}");
}

/// Writes through every member, again and again, until told to stop.
struct Traffic {
    stopping: Arc<AtomicBool>,
    writes: Arc<AtomicUsize>,
    tasks: Vec<tokio::task::JoinHandle<Result<(), String>>>,
}

impl Traffic {
    fn start(cluster: &Cluster) -> Self {
        let (stopping, writes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let tasks = (0..cluster.size()).map(|node| {
            let (client, stopping, writes) =
                (cluster.client(node).unwrap(), stopping.clone(), writes.clone());
            tokio::spawn(async move {
                for count in 0_u64.. {
                    if stopping.load(Ordering::Relaxed) {
                        break;
                    }
                    let object = json!({"metadata": {"name": format!("{node}-{count}")}});
                    let answer = client.post("/api/v1/namespaces/default/configmaps", &object).await;
                    answer
                        .and_then(|answer| answer.success())
                        .map_err(|error| format!("{node}: {error:#}"))?;
                    writes.fetch_add(1, Ordering::Relaxed);
                    sleep(Duration::from_millis(20)).await;
                }
                Ok(())
            })
        });
        let tasks = tasks.collect();
        Traffic { stopping, writes, tasks }
    }

    async fn stop(self) -> usize {
        self.stopping.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.unwrap().unwrap();
        }
        self.writes.load(Ordering::Relaxed)
    }
}

/// Clients of all members that trust the authority in the certificate directory now, over fresh connections.
fn fresh_clients(cluster: &Cluster) -> Vec<Client> {
    let authority = std::fs::read(cluster.certificates().join("ca.crt")).unwrap();
    let access = Access::new(Trust::Authority(authority), Identity::Token(ADMIN_TOKEN.into()));
    cluster.doors().into_iter().map(|(endpoint, _)| Client::new(endpoint, access.clone())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authorities_are_rotated_while_every_member_serves() {
    let mut cluster = Cluster::start(Options::nodes(3)).await.unwrap();
    let directory = cluster.certificates();
    let directory = directory.to_str().unwrap().to_owned();
    let traffic = Traffic::start(&cluster);
    for step in ["begin", "issue", "finish"] {
        let output = cluster.run(&["certs", "rotate-ca", step, "--dir", &directory]).unwrap();
        assert!(output.status.success(), "{step}: {}", String::from_utf8_lossy(&output.stderr));
        cluster.reload_certificates().await.unwrap();
        for client in fresh_clients(&cluster) {
            client.get("/readyz").await.unwrap();
            assert_eq!(whoami(&client).await["username"], "admin", "{step}");
        }
    }
    assert!(traffic.stop().await > 0);
    // New connections between members are of the new authority alone.
    cluster.kill(0).unwrap();
    cluster.respawn(0).unwrap();
    let deadline = Instant::now() + PATIENCE;
    let object = json!({"metadata": {"name": "after"}});
    loop {
        let client = fresh_clients(&cluster).remove(0);
        let answer = client.post("/api/v1/namespaces/default/configmaps", &object).await;
        if answer.as_ref().is_ok_and(|answer| matches!(answer.status, 201 | 409)) {
            break;
        }
        assert!(Instant::now() < deadline, "{answer:?}");
        sleep(Duration::from_millis(50)).await;
    }
}
