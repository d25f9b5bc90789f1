//! A front proxy names users, the cluster announces its authority, and a revocation list ends its connections.

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use orch_cluster_tests::client::{Client, Identity};
use orch_cluster_tests::cluster::{Cluster, Options};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType, ExtendedKeyUsagePurpose,
    IsCa, Issuer, KeyIdMethod, KeyPair, RevokedCertParams, SerialNumber, date_time_ymd,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::time::sleep;

const WHO: &str = "/apis/authentication.orch.io/v1/selfsubjectreviews";
const ANNOUNCED: &str = "/api/v1/namespaces/orch-system/configmaps/extension-apiserver-authentication";

/// Longest wait for a loop of the leader, or for a signal to be taken.
const PATIENCE: Duration = Duration::from_secs(20);

/// An authority of front proxies.
struct Proxies {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Proxies {
    fn new() -> Proxies {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "proxies");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let pem = params.self_signed(&key).unwrap().pem();
        Proxies { issuer: Issuer::new(params, key), pem }
    }

    fn proxy(&self, name: &str, serial: u64) -> Identity {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.serial_number = Some(SerialNumber::from(serial));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let chain = params.signed_by(&key, &self.issuer).unwrap().pem().into_bytes();
        Identity::Certificate { chain, key: key.serialize_pem().into_bytes() }
    }

    /// Writes a list that revokes the certificate with `serial`.
    fn revoke(&self, serial: u64, path: &Path) {
        let revoked = RevokedCertParams {
            serial_number: SerialNumber::from(serial),
            revocation_time: date_time_ymd(2026, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2026, 1, 1),
            next_update: date_time_ymd(2126, 1, 1),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        std::fs::write(path, list.signed_by(&self.issuer).unwrap().pem().unwrap()).unwrap();
    }
}

async fn who(client: &Client, headers: &[(&str, &str)]) -> Value {
    let headers = [headers, &[("content-type", "application/json")]].concat();
    let answer = client.send(Method::POST, WHO, &headers, Bytes::from("{}")).await.unwrap();
    answer.json().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_front_proxy_names_users_until_it_is_revoked() {
    let directory = tempfile::tempdir().unwrap();
    let proxies = Proxies::new();
    let (authority, list) = (directory.path().join("proxies.crt"), directory.path().join("revoked.pem"));
    std::fs::write(&authority, &proxies.pem).unwrap();
    proxies.revoke(999, &list);
    let flags = vec![
        format!("--requestheader-client-ca-file={}", authority.display()),
        "--requestheader-allowed-names=front".to_owned(),
        format!("--client-crl-file={}", list.display()),
    ];
    let cluster = Cluster::start(Options { flags, ..Options::nodes(1) }).await.unwrap();
    let client = |identity| cluster.client_as(0, identity).unwrap();
    let front = client(proxies.proxy("front", 1));
    for name in ["ann", "tom"] {
        let headers = [("X-Remote-User", name), ("X-Remote-Group", "devs"), ("X-Remote-Extra-Team", "red")];
        let found = who(&front, &headers).await["status"]["userInfo"].clone();
        let groups = json!(["devs", "system:authenticated"]);
        assert_eq!(found, json!({"username": name, "groups": groups, "extra": {"team": ["red"]}}));
    }
    let spoofed = [("X-Remote-User", "root"), ("X-Remote-Group", "system:masters")];
    for other in [client(proxies.proxy("other", 2)), client(Identity::Anonymous)] {
        assert_eq!(who(&other, &spoofed).await["code"], 401);
    }
    let admin = cluster.client(0).unwrap();
    let announced = announced(&admin).await;
    assert_eq!(announced["requestheader-client-ca-file"], proxies.pem.replace("\r\n", "\n"));
    assert_eq!(announced["requestheader-allowed-names"], r#"["front"]"#);
    assert!(announced["client-ca-file"].as_str().unwrap().contains("BEGIN CERTIFICATE"));

    let masters = [("X-Remote-User", "root"), ("X-Remote-Group", "system:masters")];
    let watch = front.start(Method::GET, "/api/v1/nodes?watch=1", &masters, Bytes::new()).await;
    let (_connection, mut watch) = watch.unwrap();
    assert_eq!(watch.status(), 200);
    proxies.revoke(1, &list);
    let pid = Pid::from_raw(i32::try_from(cluster.pids()[0]).unwrap()).unwrap();
    kill_process(pid, Signal::HUP).unwrap();
    let ended = async { while let Some(Ok(_)) = watch.body_mut().frame().await {} };
    tokio::time::timeout(PATIENCE, ended).await.expect("the watch of a revoked proxy ends");
    assert_eq!(who(&client(proxies.proxy("front", 1)), &masters).await["code"], 401);
    assert!(who(&client(proxies.proxy("front", 3)), &masters).await["status"].is_object());
}

/// The data of the config map that announces the authorities, once it is there.
async fn announced(admin: &Client) -> Value {
    let began = Instant::now();
    loop {
        let answer = admin.get(ANNOUNCED).await.unwrap();
        if answer.status == 200 {
            return answer.json().unwrap()["data"].clone();
        }
        assert!(began.elapsed() < PATIENCE, "it is not announced: {answer:?}");
        sleep(Duration::from_millis(50)).await;
    }
}
