//! Records at rest: a stolen disk shows no secret, a missing key is named at the start, and keys are changed by a command.

use std::fs;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use orch_cluster_tests::client::Identity;
use orch_cluster_tests::cluster::{ALICE_TOKEN, Cluster, Options, READY_TIMEOUT};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// Text that no file of the store may hold, and its form in the base64 of a Secret.
const CANARY: &str = "canary-of-a-secret-at-rest";
const CANARY_BASE64: &str = "Y2FuYXJ5LW9mLWEtc2VjcmV0LWF0LXJlc3Q=";

/// A provider with the key `old`, and one with the key `new`.
const OLD: &str = "{aesgcm: {keys: [{name: old, secret: AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=}]}}";
const NEW: &str = "{secretbox: {keys: [{name: new, secret: AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=}]}}";

/// A configuration with these providers for secrets.
fn write_config(path: &Path, providers: &[&str]) {
    let head = "apiVersion: apiserver.config.orch.io/v1\nkind: EncryptionConfiguration\n";
    let text = format!("{head}resources:\n- resources: [secrets]\n  providers: [{}]\n", providers.join(", "));
    fs::write(path, text).unwrap();
}

/// Files below `folder` that hold the canary in any of its forms.
fn found_in(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(found_in(&path));
            continue;
        }
        let Ok(bytes) = fs::read(&path) else { continue };
        let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        if holds(CANARY) || holds(CANARY_BASE64) {
            found.push(path.display().to_string());
        }
    }
    found
}

fn rewrite(cluster: &Cluster, config: &Path) -> Output {
    let (data, config) = (cluster.data(0).display().to_string(), config.display().to_string());
    let flags = ["--data-dir", &data, "--encryption-provider-config", &config];
    cluster.run(&[&["encryption", "rewrite"][..], &flags].concat()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stolen_disk_shows_no_secret_and_keys_are_changed() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("keys.yaml");
    write_config(&config, &[OLD]);
    let flags = vec![format!("--encryption-provider-config={}", config.display())];
    let mut cluster = Cluster::start(Options { flags, ..Options::nodes(1) }).await.unwrap();
    let data = cluster.data(0);
    let client = cluster.client(0).unwrap();
    for number in 0..20 {
        let metadata = json!({"name": format!("s{number}")});
        let secret = json!({"metadata": metadata, "data": {"password": CANARY_BASE64}});
        client.post(SECRETS, &secret).await.unwrap().success().unwrap();
    }
    let maps = "/api/v1/namespaces/default/configmaps";
    let plain = json!({"metadata": {"name": "plain"}, "data": {"k": "not-a-secret-at-all"}});
    client.post(maps, &plain).await.unwrap().success().unwrap();
    assert_eq!(found_in(&data), [""; 0], "while the node runs");
    cluster.kill(0).unwrap();
    assert_eq!(found_in(&data), [""; 0], "after a crash");

    // The key is lost: the node does not start, and says which key it needs.
    write_config(&config, &[NEW]);
    let refused = rewrite(&cluster, &config);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && told.contains("aesgcm:old"), "{told}");

    // With both keys everything is read, and rewritten by the command; then the new key is enough.
    write_config(&config, &[NEW, OLD]);
    let done = rewrite(&cluster, &config);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let told = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(told.contains("records rewritten") && told.contains("aesgcm:old"), "{told}");
    assert_eq!(found_in(&data), [""; 0], "after a rewrite");
    write_config(&config, &[NEW]);
    cluster.respawn(0).unwrap();
    cluster.wait_ready(0).await.unwrap();
    let read = cluster.client(0).unwrap().get(&format!("{SECRETS}/s7")).await.unwrap().success().unwrap();
    assert_eq!(read["data"]["password"], CANARY_BASE64);
}

/// The same while the node runs: a new first key by a reload, a rewrite by the member itself, the old key gone from the file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_are_changed_on_a_running_node() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("keys.yaml");
    write_config(&config, &["{identity: {}}"]);
    let flags = vec![
        format!("--encryption-provider-config={}", config.display()),
        "--encryption-provider-config-automatic-reload".to_owned(),
    ];
    let mut cluster = Cluster::start(Options { flags, ..Options::nodes(1) }).await.unwrap();
    let client = cluster.client(0).unwrap();
    for number in 0..20 {
        let metadata = json!({"name": format!("s{number}")});
        let secret = json!({"metadata": metadata, "data": {"password": CANARY_BASE64}});
        client.post(SECRETS, &secret).await.unwrap().success().unwrap();
    }
    assert!(!found_in(&cluster.data(0)).is_empty(), "records are in clear");
    let check = client.get("/readyz/kms-providers").await.unwrap();
    assert_eq!(check.status, 200, "the check is there with reload, as in the reference");

    write_config(&config, &[OLD, "{identity: {}}"]);
    reload(&cluster, 1).await;
    let told = rewrite_running(&cluster);
    assert!(told.contains("a: ") && told.contains("records rewritten"), "{told}");
    assert_eq!(found_in(&cluster.data(0)), [""; 0], "after the rewrite of records in clear");

    write_config(&config, &[NEW, OLD]);
    reload(&cluster, 2).await;
    let told = rewrite_running(&cluster);
    assert!(told.contains("no record needs these keys any more: aesgcm:old"), "{told}");
    let again = rewrite_running(&cluster);
    assert!(again.contains("a: 0 of "), "nothing is left to do: {again}");
    write_config(&config, &[NEW]);
    reload(&cluster, 3).await;
    let read = client.get(&format!("{SECRETS}/s7")).await.unwrap().success().unwrap();
    assert_eq!(read["data"]["password"], CANARY_BASE64);
    let nobody = cluster.client_as(0, Identity::Token(ALICE_TOKEN.into())).unwrap();
    assert_eq!(nobody.get("/orch/v1/cluster/encryption/rewrite").await.unwrap().status, 403);
    cluster.kill(0).unwrap();
    assert_eq!(found_in(&cluster.data(0)), [""; 0], "after a crash");
    cluster.respawn(0).unwrap();
    cluster.wait_ready(0).await.unwrap();
    let read = cluster.client(0).unwrap().get(&format!("{SECRETS}/s7")).await.unwrap().success().unwrap();
    assert_eq!(read["data"]["password"], CANARY_BASE64);
}

/// What members send one another is encrypted by none of their keys, and each disk is encrypted by its own: also that of a
/// member that was killed, and that of one that joins later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_member_of_a_cluster_has_a_secret_in_clear_on_its_disk() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("keys.yaml");
    write_config(&config, &[OLD]);
    let flags = vec![format!("--encryption-provider-config={}", config.display())];
    let mut cluster = Cluster::start(Options { flags, spares: 1, ..Options::nodes(3) }).await.unwrap();
    let leader = cluster.leader().await.unwrap();
    let client = cluster.client(leader).unwrap();
    let write = async |range: std::ops::Range<u32>| {
        for number in range {
            let metadata = json!({"name": format!("s{number}")});
            let secret = json!({"metadata": metadata, "data": {"password": CANARY_BASE64}});
            client.post(SECRETS, &secret).await.unwrap().success().unwrap();
        }
    };
    write(0..10).await;
    let follower = (leader + 1) % 3;
    cluster.kill(follower).unwrap();
    write(10..20).await;

    // Without the key of its disk the member does not start, and says which key it needs.
    write_config(&config, &[NEW]);
    cluster.respawn(follower).unwrap();
    let ending = cluster.wait_end(follower, READY_TIMEOUT).await.unwrap();
    assert!(ending.code != Some(0) && ending.log.contains("aesgcm:old"), "{}", ending.log);

    // With it, and another one for what it writes, it catches up; and so does a member that joins.
    write_config(&config, &[NEW, OLD]);
    cluster.respawn(follower).unwrap();
    cluster.wait_ready(follower).await.unwrap();
    let added = cluster.add().await.unwrap();
    cluster.wait_ready(added).await.unwrap();
    for member in 0..cluster.size() {
        let path = format!("{SECRETS}/s17");
        let read = cluster.client(member).unwrap().get(&path).await.unwrap().success().unwrap();
        assert_eq!(read["data"]["password"], CANARY_BASE64, "member {member}");
        assert_eq!(found_in(&cluster.data(member)), [""; 0], "member {member}");
    }
}

/// Makes member 0 look at its keys, and waits until it has taken them up for the time numbered `count`.
async fn reload(cluster: &Cluster, count: usize) {
    let pid = Pid::from_raw(i32::try_from(cluster.pids()[0]).unwrap()).unwrap();
    kill_process(pid, Signal::HUP).unwrap();
    let deadline = Instant::now() + READY_TIMEOUT;
    loop {
        let log = cluster.log(0).unwrap();
        if log.matches("encryption configuration reloaded").count() == count {
            return;
        }
        assert!(Instant::now() < deadline, "not reloaded:\n{log}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Rewrites the records of member 0 while it runs; returns what the command prints.
fn rewrite_running(cluster: &Cluster) -> String {
    let config = cluster.certificates().join("admin.conf").display().to_string();
    let server = cluster.client(0).unwrap().endpoint().to_string();
    let server = server.trim_start_matches("https://");
    let flags = ["encryption", "rewrite", "--kubeconfig", &config, "--server", server];
    let done = cluster.run(&flags).unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8_lossy(&done.stdout).into_owned()
}
