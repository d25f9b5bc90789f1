//! The semantics of `resourceVersion` on every member of a cluster: a list or watch begun on one member continues on
//! another.

use std::time::Duration;

use orch_cluster_tests::client::Client;
use orch_cluster_tests::cluster::{Cluster, Options};
use serde_json::{Value, json};

use crate::objects::{COLLECTION, config_map, list, make_namespace, name, version};

/// Timeout of the initial events of a watch.
const PATIENCE: Duration = Duration::from_secs(10);

/// Creates the objects `a`, `b`, `c` through one member and returns their versions.
async fn fill(client: &Client) -> Vec<u64> {
    make_namespace(client).await.unwrap();
    let mut versions = Vec::new();
    for name in ["a", "b", "c"] {
        let made = client.post(COLLECTION, &config_map(name, "1")).await.unwrap().success().unwrap();
        versions.push(version(&made).unwrap());
    }
    versions
}

fn names(list: &Value) -> Vec<String> {
    list["items"].as_array().unwrap().iter().map(|item| name(item).unwrap()).collect()
}

async fn page(client: &Client, query: &str) -> Value {
    client.get(&format!("{COLLECTION}?{query}")).await.unwrap().success().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_member_goes_on_with_what_another_began() {
    let cluster = Cluster::start(Options::nodes(3)).await.unwrap();
    let clients: Vec<Client> = (0..3).map(|node| cluster.client(node).unwrap()).collect();
    let versions = fill(&clients[0]).await;
    let first = page(&clients[0], "limit=1").await;
    assert_eq!(names(&first), ["a"]);
    let snapshot = version(&first).unwrap();
    clients[1].post(COLLECTION, &config_map("d", "1")).await.unwrap().success().unwrap();
    clients[2].delete(&format!("{COLLECTION}/b")).await.unwrap().success().unwrap();
    let newest = list(&clients[0], "").await.unwrap().1;

    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = page(&clients[1], &format!("limit=1&continue={token}")).await;
    let token = second["metadata"]["continue"].as_str().unwrap();
    let third = page(&clients[2], &format!("limit=1&continue={token}")).await;
    assert_eq!((names(&second), names(&third)), (vec!["b".to_owned()], vec!["c".to_owned()]));
    assert_eq!((version(&second).unwrap(), version(&third).unwrap()), (snapshot, snapshot));

    for client in &clients {
        let exact =
            page(client, &format!("resourceVersionMatch=Exact&resourceVersion={}", versions[1])).await;
        assert_eq!(
            (names(&exact), version(&exact).unwrap()),
            (vec!["a".to_owned(), "b".to_owned()], versions[1])
        );
        let paged = page(client, &format!("limit=1&resourceVersion={}", versions[1])).await;
        assert_eq!((names(&paged), version(&paged).unwrap()), (vec!["a".to_owned()], versions[1]));
        for query in [
            "".to_owned(),
            format!("resourceVersion={newest}"),
            format!("resourceVersionMatch=NotOlderThan&resourceVersion={newest}"),
        ] {
            let list = page(client, &query).await;
            assert_eq!(names(&list), ["a", "c", "d"], "{query}");
            assert!(version(&list).unwrap() >= newest, "{query}");
        }
        for path in [format!("{COLLECTION}?"), format!("{COLLECTION}/a?")] {
            let ahead = client.get(&format!("{path}resourceVersion={}", newest + 1_000_000)).await.unwrap();
            let status = ahead.json().unwrap();
            assert_eq!((ahead.status, &status["reason"]), (504, &json!("Timeout")), "{status}");
            assert_eq!(ahead.headers["retry-after"], "1");
            assert_eq!(status["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
        }
        let broken = client.get(&format!("{COLLECTION}?continue={token}x")).await.unwrap();
        assert_eq!(broken.status, 400);
        let mut watch =
            client.watch(&format!("{COLLECTION}?watch=1&resourceVersion={snapshot}")).await.unwrap();
        for (kind, told) in [("ADDED", "d"), ("DELETED", "b")] {
            let event = watch.next(PATIENCE).await.unwrap().unwrap();
            assert_eq!(
                (event["type"].as_str().unwrap(), name(&event["object"]).unwrap().as_str()),
                (kind, told)
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_need_no_quorum_are_answered_without_one() {
    let mut cluster = Cluster::start(Options::nodes(3)).await.unwrap();
    let client = cluster.client(2).unwrap();
    let versions = fill(&client).await;
    let token = page(&client, "limit=1").await["metadata"]["continue"].as_str().unwrap().to_owned();
    cluster.kill(0).unwrap();
    cluster.kill(1).unwrap();
    let known = versions[2];
    for (query, expected) in [
        ("resourceVersion=0".to_owned(), vec!["a", "b", "c"]),
        ("resourceVersionMatch=NotOlderThan&resourceVersion=0".to_owned(), vec!["a", "b", "c"]),
        (format!("resourceVersion={known}"), vec!["a", "b", "c"]),
        (format!("resourceVersionMatch=Exact&resourceVersion={}", versions[1]), vec!["a", "b"]),
        (format!("continue={token}"), vec!["b", "c"]),
    ] {
        assert_eq!(names(&page(&client, &query).await), expected, "{query}");
    }
    for query in ["resourceVersion=0".to_owned(), format!("resourceVersion={known}")] {
        client.get(&format!("{COLLECTION}/a?{query}")).await.unwrap().success().unwrap();
    }
    let mut watch = client.watch(&format!("{COLLECTION}?watch=1&resourceVersion=0")).await.unwrap();
    assert_eq!(watch.next(PATIENCE).await.unwrap().unwrap()["type"], "ADDED");
    for path in [COLLECTION.to_owned(), format!("{COLLECTION}/a")] {
        let unanswered = client.get(&format!("{path}?timeout=3s")).await.unwrap();
        assert!(matches!(unanswered.status, 503 | 504), "{path} was answered: {unanswered:?}");
    }
}
