//! Tests of jobs against the small API server, and of their decisions.

mod claims;
mod extended;
mod volumes;

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::json;

use super::bind::{Known, after_binding, of_pod};
use super::{BindOutcome, Binder, Job, PodRef, Why};
use crate::api::core::v1::{Pod, PodSpec};
use crate::api::meta::v1::ObjectMeta;
use crate::client::Error;
use crate::client::testing::{FakeApi, Fault, pod};
use crate::election::Leadership;
use crate::run::event::Report;

fn job(api: &FakeApi) -> Job {
    let stored = api.store().get("pods", "default", "p").unwrap();
    Job::plain(PodRef {
        namespace: "default".into(),
        name: "p".into(),
        uid: stored["metadata"]["uid"].as_str().unwrap().into(),
        version: stored["metadata"]["resourceVersion"].as_str().unwrap().into(),
    })
}

/// An API with the pod `p`, and a job that binds it to the node `n`.
async fn bench() -> (FakeApi, Binder, Job) {
    let api = FakeApi::start().await;
    api.store().put("pods", pod("p"));
    api.store().put("nodes", json!({ "metadata": { "name": "n" } }));
    let binder = Binder::new(api.client(), Leadership::always(), Arc::new(|_| ()), Arc::new(|_| ()));
    let job = job(&api);
    (api, binder, job)
}

/// The same, with the events for users.
async fn telling() -> (FakeApi, Binder, Job, Arc<Mutex<Vec<Report>>>) {
    let (api, _, job) = bench().await;
    let told: Arc<Mutex<Vec<Report>>> = Arc::default();
    let announce = {
        let told = told.clone();
        Arc::new(move |report| told.lock().push(report))
    };
    let binder = Binder::new(api.client(), Leadership::always(), Arc::new(|_| ()), announce);
    (api, binder, job, told)
}

fn node_of(api: &FakeApi) -> Option<String> {
    api.store().get("pods", "default", "p")?["spec"]["nodeName"].as_str().map(str::to_owned)
}

#[tokio::test]
async fn a_pod_is_bound() {
    let (api, binder, job) = bench().await;
    assert_eq!(binder.run(&job, &mut Vec::new()).await, BindOutcome::Bound);
    assert_eq!(node_of(&api).as_deref(), Some("n"));
    assert_eq!(api.count("GET"), 0, "one request is enough");
}

#[tokio::test]
async fn a_lost_answer_to_a_binding_that_happened_is_found_out() {
    let (api, binder, job) = bench().await;
    api.plant("POST", "/binding", 1, Fault::LostAfter);
    assert_eq!(binder.run(&job, &mut Vec::new()).await, BindOutcome::Bound);
    assert_eq!(api.count("POST"), 1, "the pod says that it is bound");
}

#[tokio::test]
async fn a_binding_that_did_not_happen_is_sent_again() {
    let (api, binder, job) = bench().await;
    api.plant("POST", "/binding", 2, Fault::LostBefore);
    assert_eq!(binder.run(&job, &mut Vec::new()).await, BindOutcome::Bound);
    assert_eq!(api.count("POST"), 3);
}

#[tokio::test]
async fn a_pod_that_cannot_be_read_is_asked_again() {
    let (api, binder, job) = bench().await;
    api.plant("POST", "/binding", 1, Fault::LostAfter);
    api.plant("GET", "/pods/p", 3, Fault::Status(500, 0));
    assert_eq!(binder.run(&job, &mut Vec::new()).await, BindOutcome::Bound);
    assert_eq!(api.count("GET"), 4);
}

#[tokio::test]
async fn bindings_without_effect_come_to_an_end() {
    let (api, binder, job) = bench().await;
    api.plant("POST", "/binding", 100, Fault::LostBefore);
    assert!(matches!(binder.run(&job, &mut Vec::new()).await, BindOutcome::NotBound(Why::Refused(_))));
    assert_eq!(node_of(&api), None);
}

#[tokio::test]
async fn a_pod_of_another_scheduler_or_incarnation_is_left_alone() {
    let (api, binder, mut job) = bench().await;
    let mut taken = pod("p");
    taken["spec"]["nodeName"] = "other".into();
    api.store().put("pods", taken);
    assert_eq!(
        binder.run(&job, &mut Vec::new()).await,
        BindOutcome::NotBound(Why::Taken("other".to_owned()))
    );
    job.pod.uid = "another".into();
    assert_eq!(binder.run(&job, &mut Vec::new()).await, BindOutcome::NotBound(Why::Gone));
    api.store().remove("pods", "default", "p");
    assert_eq!(binder.run(&job, &mut Vec::new()).await, BindOutcome::NotBound(Why::Gone));
}

#[tokio::test]
async fn a_refusal_is_an_end() {
    let (api, binder, job) = bench().await;
    api.plant("POST", "/binding", 1, Fault::Status(403, 0));
    assert!(matches!(binder.run(&job, &mut Vec::new()).await, BindOutcome::NotBound(Why::Refused(_))));
    assert_eq!((api.count("POST"), node_of(&api)), (1, None));
}

#[tokio::test]
async fn a_node_is_nominated_before_its_pod_is_bound() {
    let (api, binder, mut job) = bench().await;
    let before = job.pod.version.clone();
    binder.nominate(&mut job).await;
    assert_eq!(api.log(), Vec::<String>::new(), "a job that does not prepare is bound at once");
    job.nominates = true;
    binder.nominate(&mut job).await;
    let stored = api.store().get("pods", "default", "p").unwrap();
    assert_eq!(stored["status"]["nominatedNodeName"], "n");
    assert!(job.nominates);
    assert_ne!(job.pod.version, before, "the next write is made from this one");
}

#[tokio::test]
async fn a_nomination_counts_unless_it_was_certainly_not_written() {
    let nominated = async |fault| {
        let (api, binder, mut job) = bench().await;
        job.nominates = true;
        api.plant("PATCH", "/status", 100, fault);
        binder.nominate(&mut job).await;
        job.nominates
    };
    assert!(!nominated(Fault::Status(403, 0)).await);
    assert!(nominated(Fault::LostAfter).await);
    let (api, binder, mut job) = bench().await;
    job.nominates = true;
    job.cancelled.cancel();
    binder.nominate(&mut job).await;
    assert!(!job.nominates);
    assert_eq!(api.log(), Vec::<String>::new());
}

#[tokio::test]
async fn nothing_is_sent_without_leadership() {
    let (api, _, job) = bench().await;
    let (_elector, leadership) = crate::election::Elector::new(
        crate::election::LeaseLock::new(api.client(), crate::client::ObjectKey::new("s", "l")),
        crate::election::Machine::new("me".to_owned(), crate::election::Timing::DEFAULT),
        Box::new(|_, _, _| ()),
    );
    let binder = Binder::new(api.client(), leadership, Arc::new(|_| ()), Arc::new(|_| ()));
    assert_eq!(binder.run(&job, &mut Vec::new()).await, BindOutcome::NotBound(Why::NotLeading));
    assert_eq!(api.log(), Vec::<String>::new());
}

#[test]
fn answers_are_certain_or_the_pod_is_asked() {
    let lost = Error::Lost { what: String::new(), problem: String::new() };
    assert_eq!(after_binding(&Err(lost)), Known::AskPod);
    assert_eq!(after_binding(&Ok(())), Known::Outcome(BindOutcome::Bound));
    let unfit = Error::Request { what: "x".to_owned(), problem: "y".to_owned() };
    assert!(matches!(after_binding(&Err(unfit)), Known::Outcome(BindOutcome::NotBound(Why::Refused(_)))));
}

#[test]
fn a_pod_says_whose_it_is() {
    let wanted = PodRef { namespace: "d".into(), name: "p".into(), uid: "u".into(), version: "".into() };
    let found = |uid: &str, node: &str| Pod {
        metadata: Some(ObjectMeta { uid: uid.to_owned(), ..ObjectMeta::default() }),
        spec: Some(PodSpec { node_name: node.to_owned(), ..PodSpec::default() }),
        ..Pod::default()
    };
    assert_eq!(of_pod(&wanted, "n", &found("u", "")), None);
    assert_eq!(of_pod(&wanted, "n", &found("u", "n")), Some(BindOutcome::Bound));
    assert_eq!(
        of_pod(&wanted, "n", &found("u", "m")),
        Some(BindOutcome::NotBound(Why::Taken("m".to_owned())))
    );
    assert_eq!(of_pod(&wanted, "n", &found("v", "n")), Some(BindOutcome::NotBound(Why::Gone)));
}

/// The label domain's annotation `prefix.DOMAIN/name`.
fn annotation(prefix: &str, name: &str) -> String {
    format!("{prefix}.{}", FakeApi::brand().label(name))
}

#[tokio::test]
async fn an_extender_binds_in_the_schedulers_place() {
    let (api, binder, mut job) = bench().await;
    let extender = crate::run::extender::testing::serve(|verb, body| {
        assert_eq!((verb, &body["PodName"], &body["Node"]), ("bind", &json!("p"), &json!("n")));
        (200, json!({}))
    });
    job.binder = Some(extender.await);
    assert_eq!(binder.run(&job, &mut Vec::new()).await, BindOutcome::Bound);
    assert_eq!(api.count("POST"), 0);
}
