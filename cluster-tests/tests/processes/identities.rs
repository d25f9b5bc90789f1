//! The cluster's identity in a snapshot: a blank machine with other names and addresses becomes the cluster again, and the credentials
//! of before go on working. It is never written in clear.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use orch_cluster_tests::client::{Access, Client, Endpoint, Identity, Trust};
use orch_cluster_tests::cluster::{Cluster, Options, program};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::snapshots::{fail, snapshot, succeed, text};

const WHO_AM_I: &str = "/apis/authentication.orch.io/v1/selfsubjectreviews";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

/// Longest start of a restored member.
const START_MAX: Duration = Duration::from_secs(30);

/// A part of each private key's file.
const PRIVATE: &[u8] = b"PRIVATE KEY";

fn write_config(path: &Path) {
    let text = "apiVersion: apiserver.config.orch.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [secrets]\n  \
        providers: [{aesgcm: {keys: [{name: k, secret: AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=}]}}]\n";
    fs::write(path, text).unwrap();
}

/// A token of a new account, and its own name.
async fn token(client: &Client) -> String {
    client.post(ACCOUNTS, &json!({"metadata": {"name": "robot"}})).await.unwrap().success().unwrap();
    let made = client.post(&format!("{ACCOUNTS}/robot/token"), &json!({})).await.unwrap().success().unwrap();
    made["status"]["token"].as_str().unwrap().to_owned()
}

async fn name(client: &Client) -> Value {
    let told = client.post(WHO_AM_I, &json!({})).await.unwrap().success().unwrap();
    told["status"]["userInfo"]["username"].clone()
}

fn save(cluster: &Cluster, path: &Path, arguments: &[&str]) -> Command {
    let server = cluster.doors()[0].0.authority();
    let mut command = Command::new(program("orch").unwrap());
    command.args(["snapshot", "save"]).arg(path).args(arguments).args(["--server", &server]);
    command.arg("--kubeconfig").arg(cluster.certificates().join("admin.conf"));
    command
}

/// A member of a cluster that was restored. Dropping it ends it.
pub(crate) struct Restored {
    child: Child,
}

impl Drop for Restored {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Restored {
    /// Starts a member on `data` with `flags`, and returns its address once it is ready.
    pub(crate) async fn start(
        data: &Path,
        flags: &[String],
        client: impl Fn(Endpoint) -> Client,
    ) -> (Restored, Endpoint) {
        let log = fs::File::create(data.with_extension("log")).unwrap();
        let mut command = Command::new(program("orch").unwrap());
        command.args(["serve", "--bind-address=127.0.0.1", "--secure-port=0", "--disk-reserve=64Mi"]);
        command.arg("--data-dir").arg(data).args(flags);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let restored = Restored { child: command.spawn().unwrap() };
        let began = Instant::now();
        loop {
            let endpoints = fs::read(data.join("endpoints.json")).unwrap_or_default();
            let endpoints: Value = serde_json::from_slice(&endpoints).unwrap_or_default();
            if let Some(endpoint) = endpoints["https"].as_str().and_then(|text| text.parse::<Endpoint>().ok())
                && let Ok(answer) = client(endpoint.clone()).get("/readyz").await
                && answer.status == 200
            {
                return (restored, endpoint);
            }
            let log = fs::read_to_string(data.with_extension("log")).unwrap();
            assert!(began.elapsed() < START_MAX, "it does not start: {log}");
            sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Saves without and with the identity; the first is refused.
fn save_with_identity(cluster: &Cluster, folder: &Path, config: &Path, key: &str) {
    let path = folder.join("monday");
    let certs = cluster.certificates().display().to_string();
    let with = ["--with-identity", "--certs-dir", &certs];
    let refused = save(cluster, &path, &with).output().unwrap();
    assert!(!refused.status.success() && text(&refused.stderr).contains("--encrypt-to"), "{refused:?}");
    let config = config.display().to_string();
    let sealed = ["--encrypt-to", key, "--encryption-provider-config", &config];
    let saved = succeed(save(cluster, &path, &[&with[..], &sealed].concat()));
    assert!(text(&saved.stderr).contains("with the cluster's identity"), "{}", text(&saved.stderr));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let whole = fs::read(&path).unwrap();
    assert!(!whole.windows(PRIVATE.len()).any(|window| window == PRIVATE), "a key is in clear");
}

/// A restore with another host was broken off after the identity was at its place: what is there is not taken for that of now.
fn refuse_other_addresses(file: &str, data: &Path, flags: &[&str]) {
    let restore = |host: &str| {
        let mut command = snapshot(&["restore", file, "--host", host]);
        command.arg("--data-dir").arg(data).args(flags);
        command
    };
    succeed(restore("api.example.com"));
    fs::remove_dir_all(data.join("store")).unwrap();
    let certificate = data.join("certs/members/z/server.crt");
    let before = fs::read(&certificate).unwrap();
    let refused = fail(restore("other.example.com"));
    assert!(refused.contains("is not for other.example.com"), "{refused}");
    assert!(!data.join("store").exists() && !data.join("REMAKING").exists());
    assert_eq!(fs::read(&certificate).unwrap(), before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blank_machine_becomes_the_cluster_again_for_the_credentials_of_before() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let config = folder.path().join("keys.yaml");
    write_config(&config);
    let flags = vec![format!("--encryption-provider-config={}", config.display())];
    let options = Options { flags, ..Options::nodes(1) }.with_service_accounts();
    let mut cluster = Cluster::start(options).await.unwrap();
    let certs = cluster.certificates();
    let authority = fs::read(certs.join("ca.crt")).unwrap();
    let token = token(&cluster.client(0).unwrap()).await;
    let (chain, key) =
        (fs::read(certs.join("admin.crt")).unwrap(), fs::read(certs.join("admin.key")).unwrap());
    let (by_token, by_certificate) = (Identity::Token(token), Identity::Certificate { chain, key });
    let of_robot = name(&cluster.client_as(0, by_token.clone()).unwrap()).await;
    let of_admin = name(&cluster.client_as(0, by_certificate.clone()).unwrap()).await;
    assert_eq!(of_robot, json!("system:serviceaccount:default:robot"));

    let public = text(&succeed(snapshot(&["new-key", &at("key")])).stdout);
    save_with_identity(&cluster, folder.path(), &config, public.trim());
    let shown = text(&succeed(snapshot(&["inspect", &at("monday"), "--identity", &at("key")])).stdout);
    assert!(shown.contains("in it, not shown: ca.crt, ca.key, encryption.yaml, peer-ca.crt"), "{shown}");
    assert!(!shown.contains("PRIVATE"), "{shown}");
    // The old cluster is gone with its directories.
    cluster.kill(0).unwrap();
    drop(cluster);
    fs::remove_file(config).unwrap();

    let data = folder.path().join("blank");
    let peer = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let data_dir = data.display().to_string();
    let whole = fs::read(at("monday")).unwrap();
    let restore = |file: &str| {
        let flags =
            ["--identity", &at("key"), "--data-dir", &data_dir, "--name", "z", "--peer-address", &peer];
        snapshot(&[&["restore", file][..], &flags].concat())
    };
    // A key of another pair opens nothing, and nothing is made.
    succeed(snapshot(&["new-key", &at("other-key")]));
    let flags =
        ["--identity", &at("other-key"), "--data-dir", &data_dir, "--name", "z", "--peer-address", &peer];
    let refused = fail(snapshot(&[&["restore", &at("monday")][..], &flags].concat()));
    assert!(refused.contains("none of the private keys") && !data.exists(), "{refused}");
    fs::write(at("cut"), &whole[..whole.len() - 100_000.min(whole.len() / 2)]).unwrap();
    let refused = fail(restore(&at("cut")));
    assert!(refused.contains("cut short"), "{refused}");
    assert!(!data.join("certs").exists() && !data.join("store").exists(), "nothing half-made");
    refuse_other_addresses(
        &at("monday"),
        &data,
        &["--identity", &at("key"), "--name", "z", "--peer-address", &peer],
    );
    let restored = text(&succeed(restore(&at("monday"))).stdout);
    assert!(restored.contains("--certs-dir") && restored.contains("admin.conf"), "{restored}");

    let client = |identity: &Identity, endpoint: Endpoint| {
        Client::new(endpoint, Access::new(Trust::Authority(authority.clone()), identity.clone()))
    };
    // The flags that the restore names.
    let certs = data.join("certs").display().to_string();
    let flags = [
        "--name=z".to_owned(),
        format!("--certs-dir={certs}"),
        format!("--encryption-provider-config={certs}/encryption.yaml"),
        format!("--initial-cluster=z={peer}"),
        "--controllers=*".to_owned(),
        "--enable-admission-plugins=ServiceAccount".to_owned(),
    ];
    let (_running, endpoint) =
        Restored::start(&data, &flags, |endpoint| client(&by_certificate, endpoint)).await;
    assert_eq!(name(&client(&by_token, endpoint.clone())).await, of_robot, "a token of before");
    assert_eq!(name(&client(&by_certificate, endpoint.clone())).await, of_admin, "a certificate of before");
    let accounts = client(&by_certificate, endpoint).get(&format!("{ACCOUNTS}/robot")).await.unwrap();
    assert_eq!(accounts.status, 200);
}
