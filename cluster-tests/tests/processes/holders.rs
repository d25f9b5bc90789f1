//! `orch kubeconfig` and `orch reset` of a running node: further users and service accounts log in with what was made for
//! them, and a member's data goes only once it is stopped and confirmed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use orch_cluster_tests::client::{Access, Client};
use orch_cluster_tests::cluster::{Cluster, Options};
use serde_json::{Value, json};

const SELF_REVIEWS: &str = "/apis/authentication.orch.io/v1/selfsubjectreviews";

/// Longest wait for the end of a node.
const END_MAX: Duration = Duration::from_secs(30);

/// The administrator's configuration with the port that the node chose.
fn administrator(cluster: &Cluster, folder: &Path) -> PathBuf {
    let made = fs::read_to_string(cluster.certificates().join("admin.conf")).unwrap();
    let mut config: Value = serde_json::from_str(&made).unwrap();
    config["clusters"][0]["cluster"]["server"] = cluster.client(0).unwrap().endpoint().to_string().into();
    let path = folder.join("admin.conf");
    fs::write(&path, config.to_string()).unwrap();
    path
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

async fn whoami(config: &Path) -> Value {
    let (server, access) = Access::from_kubeconfig(config).unwrap();
    let client = Client::new(server.parse().unwrap(), access);
    let review = client.post(SELF_REVIEWS, &json!({})).await.unwrap().success().unwrap();
    review["status"]["userInfo"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn users_and_service_accounts_log_in_with_the_configurations_made_for_them() {
    let cluster = Cluster::start(Options::nodes(1).with_service_accounts()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (admin, certificates) = (administrator(&cluster, folder.path()), cluster.certificates());
    let (ann, till) = (folder.path().join("ann.conf"), folder.path().join("till.conf"));
    let text = |path: &Path| path.display().to_string();
    let (admin, certificates) = (text(&admin), text(&certificates));
    let make = |holder: &[&str], out: &Path| {
        let out = text(out);
        let all = [&["kubeconfig", "--kubeconfig", &admin, "--out", &out], holder].concat();
        cluster.run(&all).unwrap()
    };
    let user = ["--user", "ann", "--group", "devs", "--group", "ops", "--certs-dir", &certificates];
    let made = make(&user, &ann);
    assert!(made.status.success(), "{}", words(&made));
    assert_eq!(fs::metadata(&ann).unwrap().permissions().mode() & 0o777, 0o600);
    let who = whoami(&ann).await;
    assert_eq!(who["username"], "ann");
    let groups = who["groups"].as_array().unwrap();
    assert!(["devs", "ops"].iter().all(|group| groups.iter().any(|held| held == group)), "{who}");
    let again = make(&user, &ann);
    assert!(!again.status.success() && words(&again).contains("exists already"), "{}", words(&again));

    let account = json!({"metadata": {"name": "till"}});
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    cluster.client(0).unwrap().post(accounts, &account).await.unwrap().success().unwrap();
    let made = make(&["--service-account", "default/till", "--valid-for", "20m"], &till);
    assert!(made.status.success() && words(&made).contains("valid until 20"), "{}", words(&made));
    let who = whoami(&till).await;
    assert_eq!(who["username"], "system:serviceaccount:default:till");
    let token = fs::read_to_string(&till).unwrap();
    let token: Value = serde_json::from_str(&token).unwrap();
    let token = token["users"][0]["user"]["token"].as_str().unwrap();
    assert!(!words(&made).contains(token), "the token is in the file alone");
    let none = make(&["--service-account", "default/nobody"], &folder.path().join("none.conf"));
    assert!(!none.status.success() && words(&none).contains("not found"), "{}", words(&none));
    assert!(!folder.path().join("none.conf").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_s_data_goes_once_it_is_stopped_and_confirmed() {
    let mut cluster = Cluster::start(Options::nodes(1)).await.unwrap();
    let data = cluster.data(0);
    let directory = data.display().to_string();
    let reset = |cluster: &Cluster, name: &str| {
        cluster.run(&["reset", "--data-dir", &directory, "--confirm", name]).unwrap()
    };
    let refused = reset(&cluster, "a");
    assert!(
        !refused.status.success() && words(&refused).contains("is in use by process"),
        "{}",
        words(&refused)
    );
    let name = cluster.status(0).await.unwrap().name;
    cluster.stop(0, END_MAX).await.unwrap();
    let refused = reset(&cluster, "b");
    let told = words(&refused);
    assert!(!refused.status.success() && told.contains("nothing was removed"), "{told}");
    assert!(told.contains(&format!("member      {name} (id ")) && told.contains("(orch)"), "{told}");
    assert!(told.contains("orch cluster remove") && !told.contains("last index  none"), "{told}");
    // It is as it was.
    cluster.respawn(0).unwrap();
    cluster.wait_ready(0).await.unwrap();
    cluster.stop(0, END_MAX).await.unwrap();
    let done = reset(&cluster, &name);
    assert!(done.status.success(), "{}", words(&done));
    let left: Vec<_> = fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
    let again = reset(&cluster, &name);
    assert!(!again.status.success() && words(&again).contains("holds no member's data"), "{}", words(&again));
}
