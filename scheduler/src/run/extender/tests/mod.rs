//! Tests of the calls against an extender on loopback.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::{Value, json};

use super::testing::{config, serve, serve_as};
use super::{Extender, ExtenderConfig, ExtenderError, connection, inline_pem};
use crate::api::core::v1::{Container, Node, Pod, PodSpec, ResourceRequirements};
use crate::api::meta::v1::ObjectMeta;
use crate::api::resource::Quantity;
use crate::client::{Certificate, Trust};
use crate::run::PodRef;

fn pod(name: &str) -> Pod {
    let metadata = ObjectMeta {
        name: name.to_owned(),
        namespace: "default".to_owned(),
        uid: format!("uid-{name}"),
        ..ObjectMeta::default()
    };
    Pod { metadata: Some(metadata), spec: Some(PodSpec::default()), ..Pod::default() }
}

fn node(name: &str) -> Option<&'static Node> {
    static NODES: LazyLock<Vec<Node>> = LazyLock::new(|| {
        let named = |name: &str| Some(ObjectMeta { name: name.to_owned(), ..ObjectMeta::default() });
        ["a", "b", "c"].map(|name| Node { metadata: named(name), ..Node::default() }).into()
    });
    NODES.iter().find(|node| node.metadata.as_ref().is_some_and(|metadata| metadata.name == name))
}

#[tokio::test]
async fn a_filter_with_a_cache_of_nodes_gets_names() {
    let extender = serve(|verb, body| {
        assert_eq!((verb, &body["NodeNames"], &body["Nodes"]), ("filter", &json!(["a", "b", "c"]), &Value::Null));
        assert_eq!(body["Pod"]["metadata"]["name"], "p");
        let failed = json!({ "b": "too loud" });
        (200, json!({ "NodeNames": ["a"], "FailedNodes": failed, "FailedAndUnresolvableNodes": { "c": "never" } }))
    })
    .await;
    let filtered = extender.filter(&pod("p"), &["a", "b", "c"], node).await.unwrap();
    assert_eq!(filtered.feasible, HashSet::from(["a".to_owned()]));
    assert_eq!(filtered.failed["b"], "too loud");
    assert_eq!(filtered.unresolvable["c"], "never");
}

#[tokio::test]
async fn a_filter_without_a_cache_gets_whole_nodes() {
    let whole = ExtenderConfig { is_node_cache_capable: false, ..config() };
    let extender = serve_as(whole, |_, body| {
        assert!(body["NodeNames"].is_null());
        assert_eq!(body["Nodes"]["items"][1]["metadata"]["name"], "b");
        (200, json!({ "nodes": { "items": [{ "metadata": { "name": "b" } }] } }))
    })
    .await;
    let filtered = extender.filter(&pod("p"), &["a", "b"], node).await.unwrap();
    assert_eq!(filtered.feasible, HashSet::from(["b".to_owned()]));
}

#[tokio::test]
async fn a_filter_may_refuse_with_words() {
    let extender = serve(|_, _| (200, json!({ "Error": "I am on strike" }))).await;
    let error = extender.filter(&pod("p"), &["a"], node).await.unwrap_err();
    assert_eq!(error.to_string(), "I am on strike");
}

#[tokio::test]
async fn answers_that_cannot_be_are_errors() {
    let unknown = serve(|_, _| (200, json!({ "NodeNames": ["elsewhere"] }))).await;
    let error = unknown.filter(&pod("p"), &["a"], node).await.unwrap_err();
    assert!(error.to_string().contains("claims a filtered node \"elsewhere\""), "{error}");
    let status = serve(|_, _| (500, json!({}))).await;
    let error = status.filter(&pod("p"), &["a"], node).await.unwrap_err();
    assert!(matches!(error, ExtenderError::Status { code: 500, .. }));
    let unreadable = serve(|_, _| (200, json!([1]))).await;
    assert!(matches!(unreadable.filter(&pod("p"), &["a"], node).await, Err(ExtenderError::Answer { .. })));
}

#[tokio::test]
async fn scores_are_weighted_on_the_scale_of_plugins() {
    let extender = serve(|verb, _| {
        assert_eq!(verb, "prioritize");
        let best = json!({ "Host": "c", "Score": i64::MAX });
        (200, json!([{ "Host": "a", "Score": 10 }, { "host": "b", "score": 3 }, best]))
    })
    .await;
    let scores = extender.prioritize(&pod("p"), &["a", "b", "c"], node).await.unwrap();
    assert_eq!(
        scores,
        HashMap::from([("a".to_owned(), 200), ("b".to_owned(), 60), ("c".to_owned(), i64::MAX)])
    );
}

#[tokio::test]
async fn preemption_is_asked_by_uid_or_with_whole_pods() {
    let victims = HashMap::from([("a".to_owned(), vec![pod("v")]), ("b".to_owned(), vec![pod("w")])]);
    let violations = HashMap::from([("a".to_owned(), 1)]);
    let answer =
        json!({ "NodeNameToMetaVictims": { "a": { "Pods": [{ "UID": "uid-v" }], "NumPDBViolations": 1 } } });
    let expected = answer.clone();
    let by_uid = serve(move |_, body| {
        assert!(body["NodeNameToVictims"].is_null());
        assert_eq!(body["NodeNameToMetaVictims"]["a"], answer["NodeNameToMetaVictims"]["a"]);
        (200, answer.clone())
    })
    .await;
    let kept = by_uid.preempt(&pod("p"), &victims, &violations).await.unwrap();
    assert_eq!(kept["a"].uids().collect::<Vec<_>>(), ["uid-v"]);
    let whole = ExtenderConfig { is_node_cache_capable: false, ..config() };
    let with_pods = serve_as(whole, move |_, body| {
        assert_eq!(body["NodeNameToVictims"]["b"]["Pods"][0]["metadata"]["name"], "w");
        (200, expected.clone())
    })
    .await;
    let kept = with_pods.preempt(&pod("p"), &victims, &violations).await.unwrap();
    assert_eq!((kept.len(), kept["a"].num_pdb_violations), (1, 1));
}

#[tokio::test]
async fn a_binding_is_told_by_names() {
    let extender = serve(|verb, body| {
        let expected = json!({ "PodName": "p", "PodNamespace": "default", "PodUID": "u", "Node": "a" });
        assert_eq!((verb, body), ("bind", &expected));
        (200, json!({ "Error": "no" }))
    })
    .await;
    let pod = PodRef { namespace: "default".into(), name: "p".into(), uid: "u".into(), version: "".into() };
    let error = extender.bind(&pod, "a").await.unwrap_err();
    assert!(!error.is_outcome_unknown() && error.to_string() == "no");
}

#[tokio::test]
async fn an_extender_that_is_not_there_may_be_ignored_but_is_an_error() {
    let nowhere = ExtenderConfig { url_prefix: "127.0.0.1:1".to_owned(), is_ignorable: true, ..config() };
    let extender = Extender::new(nowhere, &orch_proto::brand::ORCH).unwrap();
    let error = extender.filter(&pod("p"), &["a"], node).await.unwrap_err();
    assert!(matches!(error, ExtenderError::Call { is_outcome_unknown: false, .. }), "{error}");
    assert!(extender.config().is_ignorable);
}

#[tokio::test]
async fn only_pods_with_managed_resources_are_shown() {
    let gpus = ExtenderConfig {
        managed_resources: vec!["example.com/gpu".to_owned()],
        url_prefix: "127.0.0.1:1".to_owned(),
        ..config()
    };
    let extender = Extender::new(gpus, &orch_proto::brand::ORCH).unwrap();
    let with = |change: fn(&mut PodSpec, Container)| {
        let one = Quantity { string: "1".to_owned() };
        let resources = ResourceRequirements {
            limits: [("example.com/gpu".to_owned(), one)].into(),
            ..ResourceRequirements::default()
        };
        let mut pod = pod("p");
        let container = Container { resources: Some(resources), ..Container::default() };
        change(pod.spec.as_mut().unwrap(), container);
        pod
    };
    assert!(!extender.is_interested(&pod("p")));
    assert!(extender.is_interested(&with(|spec, container| spec.containers.push(container))));
    assert!(extender.is_interested(&with(|spec, container| spec.init_containers.push(container))));
    let all = ExtenderConfig { url_prefix: "127.0.0.1:1".to_owned(), ..config() };
    assert!(Extender::new(all, &orch_proto::brand::ORCH).unwrap().is_interested(&pod("p")));
}

#[test]
fn an_address_that_is_none_is_refused() {
    let bad = ExtenderConfig { url_prefix: "ftp://x".to_owned(), ..config() };
    assert!(Extender::new(bad, &orch_proto::brand::ORCH).is_err());
}

#[tokio::test]
async fn an_extender_that_takes_too_long_has_failed() {
    // It takes connections and never answers.
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url_prefix = format!("http://{}", listener.local_addr().unwrap());
    let slow = ExtenderConfig { url_prefix, timeout: Duration::from_millis(50), ..config() };
    let extender = Extender::new(slow, &orch_proto::brand::ORCH).unwrap();
    let error = extender.filter(&pod("p"), &["a"], node).await.unwrap_err();
    assert!(error.to_string().contains("50ms"), "{error}");
}

#[test]
fn tls_of_an_extender_makes_its_connection() {
    let of = |change: fn(&mut ExtenderConfig)| {
        let mut config = ExtenderConfig { url_prefix: "a.test:7".to_owned(), ..config() };
        change(&mut config);
        connection(&config).unwrap()
    };
    let plain = of(|_| ());
    assert_eq!((plain.endpoints[0].to_string().as_str(), &plain.trust), ("http://a.test:7", &Trust::Anyone));
    assert_eq!((&plain.tls_server_name, &plain.certificate), (&None, &None));
    assert_eq!(of(|config| config.enable_https = true).endpoints[0].to_string(), "https://a.test:7");
    let authority = inline_pem("authority");
    let trusting = of(|config| config.tls.authority = Some(inline_pem("authority")));
    assert_eq!(trusting.trust, Trust::Authority(authority));
    let insecure = of(|config| {
        config.tls.authority = Some(inline_pem("authority"));
        config.tls.insecure = true;
    });
    assert_eq!(insecure.trust, Trust::Anyone);
    let named = of(|config| config.tls.server_name = "b.test".to_owned());
    assert_eq!(named.tls_server_name.as_deref(), Some("b.test"));
    let presenting = of(|config| config.tls.certificate = Some((inline_pem("chain"), inline_pem("key"))));
    let pair = Certificate { chain: inline_pem("chain"), key: inline_pem("key") };
    assert_eq!(presenting.certificate, Some(pair));
}

#[tokio::test]
async fn a_plan_waits_for_extenders_no_longer_than_its_time() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url_prefix = format!("http://{}", listener.local_addr().unwrap());
    let slow = ExtenderConfig { url_prefix, timeout: Duration::from_secs(600), ..config() };
    let extender = Extender::new(slow, &orch_proto::brand::ORCH).unwrap();
    let runtime = tokio::runtime::Handle::current();
    // The planner's thread is none of the runtime's.
    let told = tokio::task::spawn_blocking(move || {
        let soon = tokio::time::Instant::now() + Duration::from_millis(50);
        let pod = pod("p");
        let late = extender.wait(&runtime, soon, extender.filter(&pod, &["a"], node)).unwrap_err();
        extender.silence.failed(Duration::from_secs(1), tokio::time::Instant::now());
        let after = tokio::time::Instant::now() + Duration::from_secs(600);
        let silent = extender.wait(&runtime, after, extender.filter(&pod, &["a"], node)).unwrap_err();
        (late, silent, extender)
    });
    let (late, silent, extender) = told.await.unwrap();
    let pod = PodRef { namespace: "default".into(), name: "p".into(), uid: "u".into(), version: "".into() };
    let bound = extender.bind(&pod, "a").await.unwrap_err();
    assert!(
        matches!(bound, ExtenderError::Silent { .. }),
        "a binding takes no place for it, either: {bound}"
    );
    assert!(matches!(late, ExtenderError::Late { .. }) && late.is_outcome_unknown(), "{late}");
    assert!(matches!(silent, ExtenderError::Silent { .. }) && !silent.is_outcome_unknown(), "{silent}");
}

#[tokio::test]
async fn long_texts_of_an_extender_are_cut() {
    let long = "x".repeat(100_000);
    let text = long.clone();
    let refusing = serve(move |_, _| (200, json!({ "Error": text }))).await;
    let error = refusing.filter(&pod("p"), &["a"], node).await.unwrap_err();
    assert!(error.to_string().len() < 1000);
    let text = long.clone();
    let unknown = serve(move |_, _| (200, json!({ "NodeNames": [text] }))).await;
    let error = unknown.filter(&pod("p"), &["a"], node).await.unwrap_err();
    assert!(error.to_string().len() < 1000);
    let failing =
        serve(move |_, _| (200, json!({ "NodeNames": [], "FailedNodes": { "a": long, "z": "?" } }))).await;
    let filtered = failing.filter(&pod("p"), &["a"], node).await.unwrap();
    assert!(filtered.failed["a"].len() < 1000 && filtered.failed.len() == 1);
}

#[tokio::test]
async fn scores_that_are_no_scores_are_errors_or_cut() {
    for answer in [
        json!([{ "Host": "a", "Score": "10" }]),
        json!([{ "Host": "a", "Score": 1e300 }]),
        json!([{ "Host": "a", "Score": 1.5 }]),
        json!([{ "Host": "a", "Score": null }]),
        json!({ "a": 1 }),
    ] {
        let extender = serve(move |_, _| (200, answer.clone())).await;
        assert!(extender.prioritize(&pod("p"), &["a"], node).await.is_err());
    }
    let lowest = json!([{ "Host": "a", "Score": i64::MIN }, { "Host": "elsewhere", "Score": 5 }]);
    let extender = serve(move |_, _| (200, lowest.clone())).await;
    assert_eq!(extender.prioritize(&pod("p"), &["a"], node).await.unwrap()["a"], i64::MIN);
}
