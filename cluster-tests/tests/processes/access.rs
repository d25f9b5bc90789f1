//! Rights and tokens on a cluster of three: how soon a grant, a token and their ends are in force on the members that did
//! not make them.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orch_cluster_tests::client::Client;
use orch_cluster_tests::cluster::{Cluster, Options};
use orch_cluster_tests::vectors::Users;
use serde_json::{Value, json};
use tokio::time::sleep;

/// How late a grant or its end may be in force on another member.
const LATE_MAX: Duration = Duration::from_millis(200);

/// Grants and revocations that are measured, of which the median counts: other tests may run on the machine.
const ROUNDS: usize = 9;

const ROLES: &str = "/apis/rbac.authorization.orch.io/v1/namespaces/default/roles";
const BINDINGS: &str = "/apis/rbac.authorization.orch.io/v1/namespaces/default/rolebindings";
/// A read of what the member has applied: one of the newest state would make it apply what is measured.
const SECRETS: &str = "/api/v1/namespaces/default/secrets?resourceVersion=0";

/// Waits until a list of `client` answers `status`, and returns how long after `began` that was.
async fn until(client: &Client, status: u16, began: Instant) -> Duration {
    loop {
        if client.get(SECRETS).await.unwrap().status == status {
            return began.elapsed();
        }
        assert!(began.elapsed() < Duration::from_secs(10), "still not {status}");
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_and_its_end_are_soon_in_force_everywhere() {
    let cluster = Cluster::start(Options::nodes(3)).await.unwrap();
    let leader = cluster.leader().await.unwrap();
    let maker = Users::of(&cluster, leader).unwrap();
    let others = [1, 2].map(|after| Users::of(&cluster, (leader + after) % 3).unwrap().alice);
    let rules = json!([{"verbs": ["list"], "apiGroups": [""], "resources": ["secrets"]}]);
    maker
        .admin
        .post(ROLES, &json!({"metadata": {"name": "r"}, "rules": rules}))
        .await
        .unwrap()
        .success()
        .unwrap();
    let group = "rbac.authorization.orch.io";
    let binding = json!({
        "metadata": {"name": "b"},
        "roleRef": {"kind": "Role", "name": "r", "apiGroup": group},
        "subjects": [{"kind": "User", "name": "alice", "apiGroup": group}],
    });
    let (mut granted, mut revoked) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        maker.admin.post(BINDINGS, &binding).await.unwrap().success().unwrap();
        assert_eq!(maker.alice.get(SECRETS).await.unwrap().status, 200, "in force at once where it was made");
        let began = Instant::now();
        let (first, second) = tokio::join!(until(&others[0], 200, began), until(&others[1], 200, began));
        granted.extend([first, second]);
        maker.admin.delete(&format!("{BINDINGS}/b")).await.unwrap().success().unwrap();
        assert_eq!(maker.alice.get(SECRETS).await.unwrap().status, 403, "and ended at once");
        let began = Instant::now();
        let (first, second) = tokio::join!(until(&others[0], 403, began), until(&others[1], 403, began));
        revoked.extend([first, second]);
    }
    for (what, mut late) in [("a grant", granted), ("its end", revoked)] {
        late.sort();
        eprintln!(
            "{what} is in force on other members after {:?} (median), {:?} (longest)",
            late[late.len() / 2],
            late[late.len() - 1]
        );
        assert!(late[late.len() / 2] < LATE_MAX, "{what}: {late:?}");
    }
}

/// Tokens that are made and used at once, each through another member.
const TOKENS: usize = 12;

/// How long a member may accept a token whose account is gone: far longer than a follower is behind, for a busy machine.
const END_MAX: Duration = Duration::from_secs(5);

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const WHO_AM_I: &str = "/apis/authentication.orch.io/v1/selfsubjectreviews";

/// The name of the holder of `token` as `member` answers it; the code of another answer.
async fn holder(member: &Client, token: &str) -> Result<String, u16> {
    let answer = member.with_token(token).post(WHO_AM_I, &json!({})).await.unwrap();
    if answer.status != 201 {
        return Err(answer.status);
    }
    let name = answer.json().unwrap()["status"]["userInfo"]["username"].clone();
    Ok(name.as_str().unwrap_or_default().to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_works_everywhere_at_once_and_ends_everywhere_with_its_account() {
    let flags = vec!["--enable-bootstrap-token-auth".to_owned()];
    let cluster = Cluster::start(Options { flags, ..Options::nodes(3) }).await.unwrap();
    let members = [0, 1, 2].map(|member| cluster.client(member).unwrap());
    for round in 0..TOKENS {
        let (maker, remover) = (&members[round % 3], &members[(round + 1) % 3]);
        let name = format!("robot-{round}");
        maker.post(ACCOUNTS, &json!({"metadata": {"name": name}})).await.unwrap().success().unwrap();
        let path = format!("{ACCOUNTS}/{name}/token");
        let made = maker.post(&path, &json!({"spec": {}})).await.unwrap().success().unwrap();
        let token = made["status"]["token"].as_str().unwrap().to_owned();
        let expected = format!("system:serviceaccount:default:{name}");
        let [first, second, third] = &members;
        let found = tokio::join!(holder(first, &token), holder(second, &token), holder(third, &token));
        let all = || Ok(expected.clone());
        assert_eq!(found, (all(), all(), all()), "made through member {}", round % 3);
        remover.delete(&format!("{ACCOUNTS}/{name}")).await.unwrap().success().unwrap();
        assert_eq!(holder(remover, &token).await, Err(401), "ended at once where the account was deleted");
        let began = Instant::now();
        for member in &members {
            while holder(member, &token).await != Err(401) {
                assert!(began.elapsed() < END_MAX, "a token outlives its account");
                sleep(Duration::from_millis(1)).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bootstrap_token_works_everywhere_at_once_and_ends_everywhere_with_its_secret() {
    let flags = vec!["--enable-bootstrap-token-auth".to_owned()];
    let cluster = Cluster::start(Options { flags, ..Options::nodes(3) }).await.unwrap();
    let members = [0, 1, 2].map(|member| cluster.client(member).unwrap());
    let secrets = "/api/v1/namespaces/orch-system/secrets";
    for (round, maker) in members.iter().enumerate() {
        let id = format!("abcde{round}");
        let data = json!({
            "token-id": id, "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true",
        });
        let name = format!("bootstrap-token-{id}");
        let secret = json!({
            "metadata": {"name": name}, "type": "bootstrap.orch.io/token", "stringData": data,
        });
        maker.post(secrets, &secret).await.unwrap().success().unwrap();
        let token = format!("{id}.0123456789abcdef");
        for member in &members {
            assert_eq!(holder(member, &token).await, Ok(format!("system:bootstrap:{id}")));
        }
        maker.delete(&format!("{secrets}/{name}")).await.unwrap().success().unwrap();
        let began = Instant::now();
        for member in &members {
            while holder(member, &token).await != Err(401) {
                assert!(began.elapsed() < END_MAX, "a token outlives its secret");
                sleep(Duration::from_millis(1)).await;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_in_a_secret_works_everywhere_and_ends_everywhere_with_the_secret() {
    let cluster = Cluster::start(Options::nodes(3)).await.unwrap();
    let members = [0, 1, 2].map(|member| cluster.client(member).unwrap());
    let secrets = "/api/v1/namespaces/default/secrets";
    members[0].post(ACCOUNTS, &json!({"metadata": {"name": "robot"}})).await.unwrap().success().unwrap();
    for (round, maker) in members.iter().enumerate() {
        let (name, annotations) = (format!("s-{round}"), json!({"orch.io/service-account.name": "robot"}));
        let secret = json!({
            "metadata": {"name": name, "annotations": annotations}, "type": "orch.io/service-account-token",
        });
        maker.post(secrets, &secret).await.unwrap().success().unwrap();
        let path = format!("{secrets}/{name}");
        let data =
            changed(maker, &path, |secret| secret["data"].get("token").is_some()).await["data"].clone();
        let token = String::from_utf8(STANDARD.decode(data["token"].as_str().unwrap()).unwrap()).unwrap();
        assert!(data["ca.crt"].is_string() && data["namespace"].is_string());
        for member in &members {
            assert_eq!(holder(member, &token).await, Ok("system:serviceaccount:default:robot".to_owned()));
        }
        let label = "orch.io/legacy-token-last-used";
        changed(maker, &path, |secret| secret["metadata"]["labels"].get(label).is_some()).await;
        maker.delete(&path).await.unwrap().success().unwrap();
        assert_eq!(holder(maker, &token).await, Err(401), "ended at once where the secret was deleted");
        let began = Instant::now();
        for member in &members {
            while holder(member, &token).await != Err(401) {
                assert!(began.elapsed() < END_MAX, "a token outlives its secret");
                sleep(Duration::from_millis(1)).await;
            }
        }
    }
}

/// The object at `path`, once `is_so` holds for it.
async fn changed(client: &Client, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let object = client.get(path).await.unwrap().success().unwrap();
        if is_so(&object) {
            return object;
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{path} stays as it is");
        sleep(Duration::from_millis(10)).await;
    }
}
