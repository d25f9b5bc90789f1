//! The whole process: the planner proper, the executor, the election, against the small API server.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{count_on, events, node_of};
use crate::client::ObjectKey;
use crate::client::testing::{FakeApi, PATIENCE, eventually, pod};
use crate::election::{ElectionEnd, Timing};
use crate::plan::Profile;
use crate::run::{
    ElectionOptions, LockKind, Readiness, Rebuild, Scheduler, SchedulerError, SchedulerOptions,
};
use crate::stopwatch::Stopwatch;

pub(super) fn options(api: &FakeApi, host: &str) -> SchedulerOptions {
    SchedulerOptions {
        client: api.config(),
        brand: FakeApi::brand(),
        host: host.to_owned(),
        profiles: vec![Profile::default()],
        extenders: Vec::new(),
        initial_backoff: Duration::from_millis(100),
        max_backoff: Duration::from_millis(400),
        max_in_unschedulable: Duration::from_secs(300),
        election: Some(ElectionOptions {
            lock: LockKind::Leases,
            key: ObjectKey::new("default", "scheduler"),
            timing: Timing::new(Duration::from_secs(3), Duration::from_secs(2), Duration::from_millis(200))
                .unwrap(),
        }),
        waits_for_leadership: false,
        observer: Arc::new(|_| ()),
        ledger: Arc::default(),
        report: Box::new(|_| ()),
        stopwatch: Stopwatch::default(),
        rebuild: Rebuild::default(),
    }
}

pub(super) struct Running {
    readiness: Readiness,
    stop: CancellationToken,
    task: JoinHandle<Result<ElectionEnd, SchedulerError>>,
}

pub(super) fn start(options: SchedulerOptions) -> Running {
    let scheduler = Scheduler::start(options).unwrap();
    let (readiness, stop) = (scheduler.readiness(), CancellationToken::new());
    let task = tokio::spawn(scheduler.run(stop.clone()));
    Running { readiness, stop, task }
}

impl Running {
    pub(super) async fn stop(self) -> ElectionEnd {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.task).await.unwrap().unwrap().unwrap()
    }
}

fn put_node(api: &FakeApi, name: &str) {
    let room = json!({ "cpu": "2", "memory": "8Gi", "pods": "110" });
    let status = json!({ "allocatable": room, "capacity": room });
    api.store().put("nodes", json!({ "metadata": { "name": name }, "status": status }));
}

/// A pod that asks for one CPU.
fn hungry(name: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["containers"][0]["resources"] = json!({ "requests": { "cpu": "1" } });
    pod
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_are_placed_by_the_planner_and_refused_with_its_words() {
    let api = FakeApi::start().await;
    for name in ["a", "b", "c"] {
        put_node(&api, name);
    }
    for index in 0..6 {
        api.store().put("pods", hungry(&format!("p{index}")));
    }
    let running = start(options(&api, "one"));
    eventually("six pods have nodes", || (0..6).all(|index| node_of(&api, &format!("p{index}")).is_some()))
        .await;
    assert_eq!(["a", "b", "c"].map(|node| count_on(&api, node)), [2, 2, 2]);
    api.store().put("pods", hungry("late"));
    let message = || {
        let pod = api.store().get("pods", "default", "late").unwrap();
        pod["status"]["conditions"][0]["message"].as_str().unwrap_or_default().to_owned()
    };
    eventually("the seventh is refused", || {
        message().starts_with("0/3 nodes are available: 3 Insufficient cpu.")
    })
    .await;
    put_node(&api, "d");
    eventually("a new node takes it", || node_of(&api, "late").as_deref() == Some("d")).await;
    assert!(running.readiness.is_synced() && running.readiness.leads());
    assert_eq!(running.stop().await, ElectionEnd::Stopped);
    let reasons: Vec<_> = events(&api).iter().map(|event| event["reason"].clone()).collect();
    assert!(
        reasons.contains(&json!("LeaderElection")) && reasons.contains(&json!("FailedScheduling")),
        "{reasons:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_of_higher_priority_takes_the_place_of_others() {
    let api = FakeApi::start().await;
    put_node(&api, "a");
    for name in ["v", "w"] {
        let mut victim = hungry(name);
        victim["spec"]["nodeName"] = "a".into();
        api.store().put("pods", victim);
    }
    let mut important = hungry("p");
    important["spec"]["priority"] = 1000.into();
    important["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2".into();
    api.store().put("pods", important);
    let version =
        |name: &str| api.store().get("pods", "default", name).unwrap()["metadata"]["resourceVersion"].clone();
    let versions = ["v", "w", "p"].map(version);
    let running = start(options(&api, "one"));
    eventually("the important pod has the node", || node_of(&api, "p").as_deref() == Some("a")).await;
    assert_eq!(count_on(&api, "a"), 1, "both victims are gone");
    let preempted = || events(&api).iter().filter(|event| event["reason"] == "Preempted").count();
    eventually("both victims are told of", || preempted() == 2).await;
    for event in events(&api).iter().filter(|event| event["reason"] == "Preempted") {
        let at = if event["regarding"]["name"] == "v" { 0 } else { 1 };
        assert_eq!(event["regarding"]["resourceVersion"], versions[at]);
        // The second victim may be told of after the pod's status was written.
        let number = |version: &Value| version.as_str().and_then(|text| text.parse::<u64>().ok());
        assert!(number(&event["related"]["resourceVersion"]) >= number(&versions[2]), "{event}");
    }
    eventually("users are told of the binding", || {
        events(&api).iter().any(|event| {
            let version = &event["regarding"]["resourceVersion"];
            event["reason"] == "Scheduled" && version.as_str().is_some_and(|version| !version.is_empty())
        })
    })
    .await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clean_stop_lets_the_lock_go_although_a_pod_waits_for_its_volume() {
    let api = FakeApi::start().await;
    put_node(&api, "a");
    let class = json!({
        "metadata": { "name": "slow" }, "provisioner": "nobody.example.com", "volumeBindingMode": "WaitForFirstConsumer",
    });
    api.store().put("storageclasses", class);
    let request = json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": "slow", "resources": { "requests": { "storage": "1Gi" } },
    });
    let claim = json!({ "metadata": { "name": "c", "namespace": "default" }, "spec": request });
    api.store().put("persistentvolumeclaims", claim);
    let mut waiting = pod("p");
    waiting["spec"]["volumes"] = json!([{ "name": "v", "persistentVolumeClaim": { "claimName": "c" } }]);
    api.store().put("pods", waiting);
    let running = start(options(&api, "one"));
    let is_asked_for = || {
        let claim = api.store().get("persistentvolumeclaims", "default", "c").unwrap();
        claim["metadata"]["annotations"].to_string().contains("selected-node")
    };
    eventually("the volume is asked for", is_asked_for).await;
    assert_eq!(running.stop().await, ElectionEnd::Stopped);
    let lease = api.store().get("leases", "default", "scheduler").unwrap();
    assert_eq!(lease["spec"]["holderIdentity"].as_str().unwrap_or_default(), "");
    assert_eq!(node_of(&api, "p"), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_processes_one_works_and_the_other_takes_over() {
    let api = FakeApi::start().await;
    put_node(&api, "a");
    let one = start(options(&api, "one"));
    eventually("the first leads", || one.readiness.leads()).await;
    let two = start(options(&api, "two"));
    eventually("the second knows the cluster", || two.readiness.is_synced()).await;
    api.store().put("pods", hungry("p"));
    eventually("the first binds", || node_of(&api, "p").is_some()).await;
    assert!(!two.readiness.leads());
    assert_eq!(one.stop().await, ElectionEnd::Stopped);
    eventually("the second leads", || two.readiness.leads()).await;
    api.store().put("pods", hungry("q"));
    eventually("the second binds", || node_of(&api, "q").is_some()).await;
    two.stop().await;
}
