//! Rights on a cluster of three: how soon a grant and its end are in force on the members that did not make them.

use std::time::{Duration, Instant};

use orch_cluster_tests::client::Client;
use orch_cluster_tests::cluster::{Cluster, Options};
use orch_cluster_tests::vectors::Users;
use serde_json::json;
use tokio::time::sleep;

/// How late a grant or its end may be in force on another member.
const LATE_MAX: Duration = Duration::from_millis(200);

/// Grants and revocations that are measured, of which the median counts: other tests may run on the machine.
const ROUNDS: usize = 9;

const ROLES: &str = "/apis/rbac.authorization.orch.io/v1/namespaces/default/roles";
const BINDINGS: &str = "/apis/rbac.authorization.orch.io/v1/namespaces/default/rolebindings";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// Waits until a list of `client` answers `status`, and returns how long that took.
async fn until(client: &Client, status: u16) -> Duration {
    let began = Instant::now();
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
        for other in &others {
            granted.push(until(other, 200).await);
        }
        maker.admin.delete(&format!("{BINDINGS}/b")).await.unwrap().success().unwrap();
        assert_eq!(maker.alice.get(SECRETS).await.unwrap().status, 403, "and ended at once");
        for other in &others {
            revoked.push(until(other, 403).await);
        }
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
