//! The whole part that schedules, made from a configuration file, against the small API server.

use std::time::Duration;

use serde_json::json;

use super::*;
use crate::client::testing::{FakeApi, Fault, eventually, pod};
use crate::process::testing::configuration;

fn started(api: &FakeApi, members: &str) -> Running {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("admin.conf");
    let address = api.endpoint();
    std::fs::write(
        &file,
        format!(
            "current-context: a\ncontexts:\n- name: a\n  context: {{cluster: c}}\nclusters:\n- name: c\n  \
             cluster: {{server: \"{address}\"}}\n"
        ),
    )
    .unwrap();
    let members = format!("clientConnection: {{orchconfig: \"{}\"}}\n{members}", file.display());
    let configuration = configuration(&members);
    let election = election(&configuration.election).unwrap();
    start(&configuration, None, "host".to_owned(), election).unwrap()
}

fn put_node(api: &FakeApi) {
    let status = json!({ "allocatable": { "pods": "10", "cpu": "4", "memory": "8Gi" } });
    api.store().put("nodes", json!({ "metadata": { "name": "a" }, "status": status }));
}

fn is_bound(api: &FakeApi, name: &str) -> bool {
    api.store().get("pods", "default", name).is_some_and(|pod| pod["spec"]["nodeName"] == "a")
}

fn holder(api: &FakeApi) -> Option<String> {
    let lease = api.store().get("leases", "ns", "lock")?;
    Some(lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned())
}

const ELECTED: &str = "leaderElection: {leaderElect: true, resourceName: lock, resourceNamespace: ns, \
                       leaseDuration: 2s, renewDeadline: 1s, retryPeriod: 100ms}\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_elected_process_binds_and_lets_the_lock_go() {
    for delays in [false, true] {
        let api = FakeApi::start().await;
        put_node(&api);
        api.store().put("pods", pod("p"));
        let running = started(&api, &format!("{ELECTED}delayCacheUntilActive: {delays}\n"));
        eventually("the pod is bound", || is_bound(&api, "p")).await;
        assert!((running.synced())().is_ok());
        assert_eq!((running.elected().unwrap())(), Ok(()));
        assert!(holder(&api).unwrap().starts_with("host_"));
        running.stop().await.unwrap();
        assert_eq!(holder(&api).as_deref(), Some(""));
        let events = api.store().list("events").1;
        assert!(events.iter().any(|(_, event)| event["reason"] == "LeaderElection"), "{events:?}");
        assert!(events.iter().any(|(_, event)| event["reason"] == "Scheduled"), "{events:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_loses_its_lease_ends_with_an_error() {
    let api = FakeApi::start().await;
    let mut running = started(&api, ELECTED);
    eventually("it leads", || holder(&api).is_some_and(|holder| !holder.is_empty())).await;
    api.plant("GET", "/leases", 1_000, Fault::Status(500, 0));
    api.plant("PUT", "/leases", 1_000, Fault::Status(500, 0));
    let ended = tokio::time::timeout(Duration::from_secs(20), running.ended()).await.unwrap();
    assert_eq!(ended.unwrap_err().to_string(), "leader election lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_election_it_works_at_once_and_has_no_lock() {
    let api = FakeApi::start().await;
    put_node(&api);
    api.store().put("pods", pod("p"));
    let running = started(&api, "leaderElection: {leaderElect: false}\n");
    assert!(running.elected().is_none());
    eventually("the pod is bound", || is_bound(&api, "p")).await;
    running.stop().await.unwrap();
    assert_eq!(api.store().list("leases").1.len(), 0);
}
