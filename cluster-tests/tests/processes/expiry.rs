//! Certificates that end: members that are started after it.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use orch_cluster_tests::client::{Access, Client, Identity, Trust};
use orch_cluster_tests::cluster::{ADMIN_TOKEN, ALICE_TOKEN, Cluster, Options};
use orch_raft::transport::tonic::peer_dns_name;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use serde_json::json;
use tokio::time::sleep;

/// How long a member may take to do what it says: far more than it does, for a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// Life of a certificate that ends while its member runs: longer than a start on a busy machine.
const SHORT: Duration = Duration::from_secs(15);

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Replaces both pairs of member `name` in `certs` by ones that end at `end`, of the same authorities.
fn replace_pairs(certs: &Path, name: &str, end: SystemTime) {
    let text = |file: &str| fs::read_to_string(certs.join(file)).unwrap();
    let both = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    for (authority, pair, first) in
        [("ca", "server", name.to_owned()), ("peer-ca", "peer", peer_dns_name(name))]
    {
        let signer = KeyPair::from_pem(&text(&format!("{authority}.key"))).unwrap();
        let issuer = Issuer::from_ca_cert_pem(&text(&format!("{authority}.crt")), signer).unwrap();
        let hosts = [first, "127.0.0.1".to_owned(), "localhost".to_owned()];
        let mut params = CertificateParams::new(hosts).unwrap();
        params.extended_key_usages = both.to_vec();
        params.not_before = (end - Duration::from_secs(3600)).into();
        params.not_after = end.into();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap();
        let member = certs.join("members").join(name);
        fs::write(member.join(format!("{pair}.key")), key.serialize_pem()).unwrap();
        fs::write(member.join(format!("{pair}.crt")), certificate.pem()).unwrap();
    }
}

/// Moves the keys of the authorities out of `certs`, or back.
fn move_keys(certs: &Path, is_back: bool) {
    for name in ["ca.key", "peer-ca.key"] {
        let (there, away) = (certs.join(name), certs.join(format!("{name}.away")));
        let (from, to) = if is_back { (away, there) } else { (there, away) };
        fs::rename(from, to).unwrap();
    }
}

async fn wait_log(cluster: &Cluster, node: usize, wanted: &str, count: usize) {
    let deadline = Instant::now() + PATIENCE;
    while cluster.log(node).unwrap().matches(wanted).count() < count {
        assert!(Instant::now() < deadline, "{wanted}: {}", cluster.log(node).unwrap());
        sleep(Duration::from_millis(20)).await;
    }
}

/// A client of member 0 that does not verify its certificate, at the address that its log told last: a member without peers
/// writes no `endpoints.json`.
fn trusting_client(cluster: &Cluster) -> Client {
    let log = cluster.log(0).unwrap();
    let address = log.rsplit("listening name=a https=").next().unwrap().split_whitespace().next().unwrap();
    let access = Access::new(Trust::Anyone, Identity::Token(ADMIN_TOKEN.into()));
    Client::new(format!("https://{address}").parse().unwrap(), access)
}

async fn write(cluster: &Cluster, node: usize, name: &str) -> u64 {
    let object = json!({"metadata": {"name": name}});
    let made = cluster.client(node).unwrap().post(CONFIG_MAPS, &object).await.unwrap().success().unwrap();
    made["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_whose_certificates_ended_while_it_was_off_starts_and_takes_up_renewed_ones() {
    let mut cluster = Cluster::start(Options::nodes(3)).await.unwrap();
    let certs = cluster.certificates();
    assert_eq!(cluster.stop(0, PATIENCE).await.unwrap().code, Some(0));
    let end = SystemTime::now() + SHORT;
    replace_pairs(&certs, "a", end);
    move_keys(&certs, false);
    cluster.respawn(0).unwrap();
    cluster.wait_ready(0).await.unwrap();
    while SystemTime::now() <= end + Duration::from_secs(1) {
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(cluster.stop(0, PATIENCE).await.unwrap().code, Some(0));
    let meanwhile = write(&cluster, 1, "meanwhile").await;
    cluster.respawn(0).unwrap();
    wait_log(&cluster, 0, "the server certificate has expired", 1).await;
    wait_log(&cluster, 0, "the peer certificate has expired", 1).await;
    let pid = cluster.pids()[0];
    wait_log(&cluster, 0, "listening name=a", 3).await;
    wait_log(&cluster, 1, "certificate expired", 1).await;
    let client = trusting_client(&cluster);
    assert_eq!(client.get("/livez").await.unwrap().status, 200);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let ready = client.get("/readyz").await.unwrap();
        assert_eq!(ready.status, 500);
        if ready.body[..] == b"waiting for the cluster\n"[..] {
            break;
        }
        assert!(Instant::now() < deadline, "{:?}", ready.body);
        sleep(Duration::from_millis(20)).await;
    }
    let metrics = client.get("/metrics").await.unwrap();
    let text = String::from_utf8(metrics.body.to_vec()).unwrap();
    let ended = end.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let series = format!("orch_certificate_expiration_timestamp_seconds{{use=\"peer\"}} {ended}\n");
    assert!(metrics.status == 200 && text.contains(&series), "while it waits: {text}");
    let other = client.with_token(ALICE_TOKEN).get("/metrics").await.unwrap();
    assert_eq!(other.status, 403, "stored rights do not count meanwhile");
    assert_eq!(client.get("/orch/v1/cluster").await.unwrap().status, 503, "another member knows more");
    move_keys(&certs, true);
    let output = cluster.run(&["certs", "renew", "--member", "a", "--dir", certs.to_str().unwrap()]).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    cluster.reload_certificates().await.unwrap();
    cluster.wait_ready(0).await.unwrap();
    cluster.wait_applied(0, meanwhile).await.unwrap();
    write(&cluster, 0, "after").await;
    assert_eq!(cluster.pids()[0], pid, "without a restart");
    let shown = cluster.operate(0, &["status"]).unwrap();
    assert!(shown.contains("\nthe first certificate of a to expire is "), "{shown}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_alone_serves_with_certificates_that_have_ended_and_tells_of_them() {
    let mut cluster = Cluster::start(Options::nodes(1)).await.unwrap();
    let certs = cluster.certificates();
    assert_eq!(cluster.stop(0, PATIENCE).await.unwrap().code, Some(0));
    let end = SystemTime::now() - Duration::from_secs(60);
    replace_pairs(&certs, "a", end);
    move_keys(&certs, false);
    cluster.respawn(0).unwrap();
    wait_log(&cluster, 0, "member a serves", 2).await;
    let client = trusting_client(&cluster);
    let status = client.get("/orch/v1/cluster").await.unwrap().success().unwrap();
    for (place, used_as) in ["serving", "peer"].into_iter().enumerate() {
        let shown = &status["certificates"][place];
        assert!(shown["use"] == used_as && shown["condition"] == "expired", "{status}");
    }
    let metrics = String::from_utf8(client.get("/metrics").await.unwrap().body.to_vec()).unwrap();
    let ended = end.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    for series in [
        format!("orch_certificate_expiration_timestamp_seconds{{use=\"peer\"}} {ended}\n"),
        "orch_certificate_not_before_timestamp_seconds{use=\"authority_peer\"} ".to_owned(),
        "orch_certificate_expiration_timestamp_seconds{use=\"client_admin\"} ".to_owned(),
        "orch_service_account_key_file_modified_timestamp_seconds{use=\"signing\"} ".to_owned(),
    ] {
        assert!(metrics.contains(&series), "{series}: {metrics}");
    }
    assert!(!metrics.contains(certs.to_str().unwrap()), "no path is a label");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_whose_certificates_all_ended_renews_them_where_the_authorities_keys_are() {
    let mut cluster = Cluster::start(Options::nodes(3)).await.unwrap();
    let certs = cluster.certificates();
    let written = write(&cluster, 0, "before").await;
    for node in 0..3 {
        assert_eq!(cluster.stop(node, PATIENCE).await.unwrap().code, Some(0));
        replace_pairs(&certs, cluster.name(node), SystemTime::now() - Duration::from_secs(60));
    }
    let admin = fs::read(certs.join("admin.crt")).unwrap();
    for node in 0..3 {
        cluster.respawn(node).unwrap();
    }
    for node in 0..3 {
        // Its client verifies the server.
        cluster.wait_ready(node).await.unwrap();
        wait_log(&cluster, node, "renewed a certificate of this member", 2).await;
        cluster.wait_applied(node, written).await.unwrap();
        assert!(!cluster.log(node).unwrap().contains("certificate has expired"), "{node}");
    }
    write(&cluster, 2, "after").await;
    assert_eq!(fs::read(certs.join("admin.crt")).unwrap(), admin, "those of clients are the operator's");
}
