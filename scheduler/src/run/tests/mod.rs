//! The whole engine against the small API server: watches, planning, binding, events and statuses over real sockets.

mod devices;
mod whole;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::effects::Reporter;
use super::engine::StopError;
use super::executor::slots_for_tests;
use super::{Engine, EngineOptions, Recorder};
use crate::client::testing::{FakeApi, Fault, eventually, pod};
use crate::election::Leadership;

fn put_node(api: &FakeApi, name: &str, slots: u32) {
    let status = json!({ "allocatable": { "pods": slots.to_string() } });
    api.store().put("nodes", json!({ "metadata": { "name": name }, "status": status }));
}

fn start(api: &FakeApi, leadership: Leadership) -> Engine {
    start_with(api, leadership, false)
}

fn start_with(api: &FakeApi, leadership: Leadership, waits_for_leadership: bool) -> Engine {
    start_reporting(api, leadership, waits_for_leadership, Box::new(|_| ()))
}

fn start_reporting(
    api: &FakeApi,
    leadership: Leadership,
    waits_for_leadership: bool,
    report: Reporter,
) -> Engine {
    start_rebuilding(api, leadership, waits_for_leadership, report, Duration::from_secs(60))
}

/// An engine that may rebuild its planner so often.
fn start_rebuilding(
    api: &FakeApi,
    leadership: Leadership,
    waits_for_leadership: bool,
    report: Reporter,
    rebuild_interval: Duration,
) -> Engine {
    let (recorder, sending) = Recorder::new(api.client(), "host".to_owned());
    tokio::spawn(sending);
    let (planning, mut executor) = slots_for_tests();
    // Longer than a test takes, but for the one that is about it.
    executor.rebuild.interval_min = rebuild_interval;
    executor.rebuild.pause_max = Duration::from_millis(200);
    let options = EngineOptions {
        client: api.client(),
        recorder,
        observer: Arc::new(|_| ()),
        leadership,
        waits_for_leadership,
        executor,
        ledger: Arc::default(),
        report,
    };
    Engine::start(planning, options).unwrap()
}

fn node_of(api: &FakeApi, pod: &str) -> Option<String> {
    api.store().get("pods", "default", pod)?["spec"]["nodeName"].as_str().map(str::to_owned)
}

fn count_on(api: &FakeApi, node: &str) -> usize {
    api.store().list("pods").1.iter().filter(|(_, pod)| pod["spec"]["nodeName"] == node).count()
}

fn events(api: &FakeApi) -> Vec<Value> {
    api.store().list("events").1.into_iter().map(|(_, event)| event).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_are_bound_and_users_are_told() {
    let api = FakeApi::start().await;
    put_node(&api, "a", 2);
    api.store().put("pods", pod("before"));
    let engine = start(&api, Leadership::always());
    eventually("the first pod is bound", || node_of(&api, "before").is_some()).await;
    assert!(engine.is_synced());
    api.store().put("pods", pod("after"));
    eventually("the second pod is bound", || node_of(&api, "after").is_some()).await;
    api.store().put("pods", pod("late"));
    let refused = || {
        let pod = api.store().get("pods", "default", "late").unwrap();
        pod["status"]["conditions"][0]["reason"] == "Unschedulable"
    };
    eventually("the third pod is refused", refused).await;
    eventually("three events", || events(&api).len() == 3).await;
    let reasons: Vec<_> =
        events(&api).iter().map(|event| event["reason"].as_str().unwrap().to_owned()).collect();
    assert_eq!(reasons.iter().filter(|reason| *reason == "Scheduled").count(), 2, "{reasons:?}");
    api.store().remove("pods", "default", "before");
    eventually("its room wakes the third", || node_of(&api, "late").is_some()).await;
    engine.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn faults_of_the_api_bind_every_pod_once_and_no_node_too_often() {
    let api = FakeApi::start().await;
    for index in 0..10 {
        put_node(&api, &format!("n{index}"), 20);
    }
    let engine = start(&api, Leadership::always());
    for index in 0..200 {
        match index % 20 {
            3 => api.plant("POST", "/binding", 2, Fault::LostAfter),
            7 => api.plant("POST", "/binding", 2, Fault::LostBefore),
            11 => api.plant("POST", "/binding", 2, Fault::Status(500, 0)),
            15 => api.store().break_watches(),
            _ => {}
        }
        api.store().put("pods", pod(&format!("p{index}")));
    }
    eventually("every pod has a node", || {
        (0..200).all(|index| node_of(&api, &format!("p{index}")).is_some())
    })
    .await;
    for index in 0..10 {
        assert_eq!(count_on(&api, &format!("n{index}")), 20);
    }
    engine.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_planned_without_leadership() {
    let api = FakeApi::start().await;
    put_node(&api, "a", 2);
    api.store().put("pods", pod("p"));
    let (elector, leadership) = crate::election::Elector::new(
        crate::election::LeaseLock::new(api.client(), crate::client::ObjectKey::new("default", "lock")),
        crate::election::Machine::new("me".to_owned(), crate::election::Timing::DEFAULT),
        Box::new(|_, _, _| ()),
    );
    let engine = start(&api, leadership);
    eventually("all is known", || engine.is_synced()).await;
    assert_eq!(node_of(&api, "p"), None);
    let stop = tokio_util::sync::CancellationToken::new();
    let running = tokio::spawn(elector.run(stop.clone()));
    eventually("the pod is bound once it leads", || node_of(&api, "p").is_some()).await;
    engine.stop().await.unwrap();
    stop.cancel();
    tokio::time::timeout(Duration::from_secs(20), running).await.unwrap().unwrap();
    let lease = api.store().get("leases", "default", "lock").unwrap();
    assert_eq!(lease["spec"]["holderIdentity"].as_str().unwrap_or_default(), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_writes_no_status_and_makes_up_for_it_when_it_leads() {
    let api = FakeApi::start().await;
    let mut gated = pod("p");
    gated["spec"]["schedulingGates"] = json!([{ "name": "example.com/gate" }]);
    api.store().put("pods", gated);
    let (lease, until) = tokio::sync::watch::channel(None);
    let gated = Arc::new(AtomicUsize::new(0));
    let seen = gated.clone();
    let report: Reporter =
        Box::new(move |levels| seen.store(levels.queue.pending().gated, Ordering::Relaxed));
    let engine = start_reporting(&api, Leadership::until(until), false, report);
    eventually("the gate is known", || gated.load(Ordering::Relaxed) == 1).await;
    assert_eq!(api.count("PATCH"), 0);
    lease.send_replace(Some(tokio::time::Instant::now() + Duration::from_secs(3_600)));
    let is_told = || {
        let pod = api.store().get("pods", "default", "p").unwrap();
        pod["status"]["conditions"][0]["reason"] == "SchedulingGated"
    };
    eventually("users are told of the gate", is_told).await;
    engine.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_binding_that_nobody_can_ask_after_does_not_stop_planning_when_a_rebuild_is_due() {
    let api = FakeApi::start().await;
    put_node(&api, "a", 100);
    let interval = Duration::from_millis(50);
    let engine = start_rebuilding(&api, Leadership::always(), false, Box::new(|_| ()), interval);
    eventually("all is known", || engine.is_synced()).await;
    api.plant("POST", "/pods/stuck/binding", 1, Fault::LostAfter);
    api.plant("GET", "/pods/stuck", 1_000_000, Fault::Status(403, 0));
    api.store().put("pods", pod("stuck"));
    eventually("it is asked after", || api.count("GET /api/v1/namespaces/default/pods/stuck") > 0).await;
    for index in 0..8 {
        let name = format!("p{index}");
        api.store().put("pods", pod(&name));
        eventually("a later pod is bound", || node_of(&api, &name).is_some()).await;
    }
    engine.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_failures_become_a_series_of_one_event() {
    let api = FakeApi::start().await;
    let (recorder, sending) = Recorder::new(api.client(), "host".to_owned());
    let sending = tokio::spawn(sending);
    let report = |name: &str| super::Report {
        regarding: crate::api::core::v1::ObjectReference {
            kind: "Pod".to_owned(),
            namespace: "default".to_owned(),
            name: name.to_owned(),
            ..Default::default()
        },
        related: None,
        severity: super::Severity::Warning,
        reason: "FailedScheduling",
        action: "Scheduling",
        note: "no".to_owned(),
        controller: "default-scheduler".into(),
    };
    recorder.record(report("p"));
    eventually("the event is stored", || events(&api).len() == 1).await;
    recorder.record(report("p"));
    eventually("it is a series", || events(&api)[0]["series"]["count"] == 2).await;
    api.plant("POST", "/events", 1, Fault::LostAfter);
    recorder.record(report("q"));
    drop(recorder);
    tokio::time::timeout(Duration::from_secs(20), sending).await.unwrap().unwrap();
    assert_eq!(events(&api).len(), 2, "an event whose answer was lost is there once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_that_waits_follows_nothing_until_it_leads() {
    let api = FakeApi::start().await;
    put_node(&api, "a", 2);
    api.store().put("pods", pod("p"));
    let (elector, leadership) = crate::election::Elector::new(
        crate::election::LeaseLock::new(api.client(), crate::client::ObjectKey::new("default", "lock")),
        crate::election::Machine::new("me".to_owned(), crate::election::Timing::DEFAULT),
        Box::new(|_, _, _| ()),
    );
    let engine = start_with(&api, leadership.clone(), true);
    let eager = start_with(&api, leadership, false);
    eventually("a standby that does not wait knows all", || eager.is_synced()).await;
    eager.stop().await.unwrap();
    let lists = |api: &FakeApi| api.log().iter().filter(|line| line.contains("/nodes?limit")).count();
    let by_eager = lists(&api);
    assert_eq!(by_eager, 1, "the other one has asked for nothing");
    assert!(!engine.is_synced());
    let stop = tokio_util::sync::CancellationToken::new();
    let running = tokio::spawn(elector.run(stop.clone()));
    eventually("the pod is bound once it leads", || node_of(&api, "p").is_some()).await;
    assert!(lists(&api) > by_eager, "{:?}", api.log());
    engine.stop().await.unwrap();
    stop.cancel();
    tokio::time::timeout(Duration::from_secs(20), running).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_thread_that_is_stuck_ends_the_process_and_is_not_waited_for() {
    let api = FakeApi::start().await;
    // The thread waits here until the end of the test.
    let (release, held) = std::sync::mpsc::channel::<()>();
    let engine =
        start_reporting(&api, Leadership::always(), false, Box::new(move |_| assert!(held.recv().is_err())));
    eventually("all is known", || engine.is_synced()).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    tokio::time::pause();
    engine.stuck().await;
    assert_eq!(engine.stop().await, Err(StopError::Stuck));
    drop(release);
}

#[tokio::test]
async fn a_thread_that_takes_turns_is_not_stuck() {
    let api = FakeApi::start().await;
    let engine = start(&api, Leadership::always());
    let patience = Duration::from_secs(3);
    assert!(tokio::time::timeout(patience, engine.stuck()).await.is_err());
    engine.stop().await.unwrap();
}
