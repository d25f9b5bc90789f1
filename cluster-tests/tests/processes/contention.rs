//! Many clients that patch one object without a resourceVersion, through every member: each patch is applied exactly
//! once.

use futures::future::join_all;
use orch_cluster_tests::client::Client;
use orch_cluster_tests::cluster::{Cluster, Options};
use serde_json::json;

use crate::objects::{COLLECTION, config_map, make_namespace};

const CLIENTS: usize = 64;
const CHANGES: usize = 8;

/// Counts up this client's own field and returns the responses that were not successful.
async fn count_up(client: &Client, number: usize) -> Vec<String> {
    let mut refused = Vec::new();
    for change in 1..=CHANGES {
        let patch = json!({"data": {format!("client-{number}"): change.to_string()}});
        let answer = client.merge_patch(&format!("{COLLECTION}/shared"), &patch).await.unwrap();
        if answer.status != 200 {
            refused.push(format!("{}: {}", answer.status, String::from_utf8_lossy(&answer.body)));
        }
    }
    refused
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_clients_change_one_object_through_three_members_and_none_is_refused() {
    let cluster = Cluster::start(Options::nodes(3)).await.unwrap();
    let members: Vec<Client> = (0..3).map(|node| cluster.client(node).unwrap()).collect();
    make_namespace(&members[0]).await.unwrap();
    members[0].post(COLLECTION, &config_map("shared", "")).await.unwrap().success().unwrap();
    let clients = (0..CLIENTS).map(|number| count_up(&members[number % 3], number));
    let refused: Vec<String> = join_all(clients).await.into_iter().flatten().collect();
    assert_eq!(refused, [""; 0]);
    let shared = members[1].get(&format!("{COLLECTION}/shared")).await.unwrap().success().unwrap();
    for number in 0..CLIENTS {
        assert_eq!(shared["data"][format!("client-{number}")], json!(CHANGES.to_string()), "{shared}");
    }
}
