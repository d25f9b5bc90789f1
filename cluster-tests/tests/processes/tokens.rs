//! Service account tokens on a cluster of three: made on one member, they hold on all, and end everywhere with their account.

use std::time::{Duration, Instant};

use orch_cluster_tests::client::{Client, Identity};
use orch_cluster_tests::cluster::{Cluster, Options};
use serde_json::json;
use tokio::time::sleep;

/// How late the end of a token may be in force on another member.
const LATE_MAX: Duration = Duration::from_millis(200);

/// Tokens that are made and ended, of which the median counts: other tests may run on the machine.
const ROUNDS: usize = 5;

const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";

/// Waits until `client` is known, or no longer known, and returns how long that took.
async fn until(client: &Client, is_known: bool) -> Duration {
    let began = Instant::now();
    loop {
        if (client.get("/api").await.unwrap().status != 401) == is_known {
            return began.elapsed();
        }
        assert!(began.elapsed() < Duration::from_secs(10), "still not {is_known}");
        sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_holds_on_every_member_until_its_account_is_gone() {
    let cluster = Cluster::start(Options::nodes(3)).await.unwrap();
    let admin = cluster.client(0).unwrap();
    let mut late = Vec::new();
    for _ in 0..ROUNDS {
        let account = json!({"metadata": {"name": "robot"}});
        admin.post(ACCOUNTS, &account).await.unwrap().success().unwrap();
        let request = json!({"spec": {}});
        let made = admin.post(&format!("{ACCOUNTS}/robot/token"), &request).await.unwrap().success().unwrap();
        let token = made["status"]["token"].as_str().unwrap().to_owned();
        let holder = |node| cluster.client_as(node, Identity::Token(token.clone())).unwrap();
        let holders = [holder(0), holder(1), holder(2)];
        for holder in &holders {
            until(holder, true).await;
        }
        admin.delete(&format!("{ACCOUNTS}/robot")).await.unwrap().success().unwrap();
        assert_eq!(
            holders[0].get("/api").await.unwrap().status,
            401,
            "at once where the account was deleted"
        );
        for holder in &holders[1..] {
            late.push(until(holder, false).await);
        }
    }
    late.sort();
    eprintln!("a token ends on other members after {:?} (median)", late[late.len() / 2]);
    assert!(late[late.len() / 2] < LATE_MAX, "{late:?}");
}
