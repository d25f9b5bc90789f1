//! Admission webhooks over the pipeline, with a caller that answers in place of servers.

use std::collections::BTreeMap;
use std::sync::Mutex;

use ::metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, SharedString, Unit};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orch_raft::Store as _;

mod kubebuilder;
mod lockout;

use super::*;
use crate::admission::{Chain, NamespaceMaker, PluginSelection, Settings};
use crate::authn::service_account::testing::{accounts, elliptic};
use crate::authn::{AnonymousAccess, Authenticator, TokenTable};
use crate::egress::EgressError;
use crate::gate::Gate;
use crate::webhook::testing::{Answer, Answering};
use crate::webhook::{Call, Outages, Routing, Webhooks};

const MUTATING: &str = "/apis/admissionregistration.orch.io/v1/mutatingwebhookconfigurations";
const VALIDATING: &str = "/apis/admissionregistration.orch.io/v1/validatingwebhookconfigurations";

const ACCOUNTS: &str = "/api/v1/namespaces/ns/serviceaccounts";

/// The request of a call's review.
fn request(call: &Call) -> Value {
    let review: Value = serde_json::from_slice(&call.document).unwrap();
    review["request"].clone()
}

/// The path of a call, without its time.
fn path(call: &Call) -> String {
    call.url.target.split('?').next().unwrap_or_default().to_owned()
}

/// An answer with `response` over one that allows.
fn answered(call: &Call, response: Value) -> Answer {
    let mut merged = json!({"uid": request(call)["uid"].clone(), "allowed": true});
    for (name, value) in response.as_object().unwrap().iter() {
        merged[name.as_str()] = value.clone();
    }
    let head = json!({"kind": "AdmissionReview", "apiVersion": "admission.orch.io/v1", "response": merged});
    Ok((200, head.to_string()))
}

fn patching(call: &Call, operations: Value) -> Answer {
    let patch = STANDARD.encode(operations.to_string());
    answered(call, json!({"patch": patch, "patchType": "JSONPatch"}))
}

fn unreachable() -> Answer {
    Err(EgressError::Unreachable { host: "hook".to_owned(), reason: "connection refused".to_owned() })
}

/// A server whose webhooks answer by `answer`.
async fn served(answer: impl Fn(&Call) -> Answer + Send + Sync + 'static) -> (Server, Answering) {
    let (server, caller, _) = served_with_outages(answer).await;
    (server, caller)
}

/// The same, and the outages that it tells of.
async fn served_with_outages(
    answer: impl Fn(&Call) -> Answer + Send + Sync + 'static,
) -> (Server, Answering, Outages) {
    let mut server = Server::new().await;
    let caller = Answering::new(answer);
    let ambient: Arc<dyn Ambient> = server.ambient.clone();
    let store = server.pipeline.store.clone();
    let webhooks =
        Webhooks::new(Arc::new(caller.clone()), store, ambient.clone(), &ORCH, Routing::ClusterAddress);
    let selection = PluginSelection::parse(&[], &["ServiceAccount".to_owned()]).unwrap();
    let settings = Settings { selection, ..Settings::default() };
    server.pipeline.admission = Chain::configured(settings, &ambient, &NamespaceMaker::default(), &webhooks);
    (server, caller, webhooks.outages().clone())
}

/// A webhook called `name` at `path` on creates and updates of config maps, with `more`.
fn webhook(name: &str, path: &str, more: Value) -> Value {
    let mut webhook = json!({
        "name": format!("{name}.example.com"),
        "clientConfig": {"url": format!("https://hook.example{path}")},
        "rules": [{
            "apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"],
        }],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    });
    for (name, value) in more.as_object().unwrap().iter() {
        webhook[name.as_str()] = value.clone();
    }
    webhook
}

async fn configure(server: &Server, kind: &str, name: &str, webhooks: Vec<Value>) {
    server.create(kind, json!({"metadata": {"name": name}, "webhooks": webhooks})).await;
}

#[tokio::test]
async fn webhooks_change_in_order_and_are_asked_again_behind_later_changes() {
    let (server, caller) = served(|call| match &*path(call) {
        "/a" if request(call)["object"]["data"]["b"] == "b" => {
            patching(call, json!([{"op": "add", "path": "/data/a", "value": "again"}]))
        }
        "/a" => patching(call, json!([{"op": "add", "path": "/data/a", "value": "first"}])),
        "/b" => patching(call, json!([{"op": "add", "path": "/data/b", "value": "b"}])),
        _ => answered(call, json!({})),
    })
    .await;
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    let second = vec![webhook("b", "/b", json!({})), webhook("c", "/c", again.clone())];
    configure(&server, MUTATING, "two", second).await;
    let first = vec![webhook("a", "/a", again), webhook("once", "/once", json!({}))];
    configure(&server, MUTATING, "one", first).await;
    configure(&server, VALIDATING, "last", vec![webhook("v", "/v", json!({}))]).await;
    let made = server.create(MAPS, map("m")).await;
    assert_eq!(made["data"], json!({"k": "v", "a": "again", "b": "b"}));
    let paths: Vec<String> = caller.calls().iter().map(path).collect();
    assert_eq!(paths, ["/a", "/once", "/b", "/c", "/a", "/c", "/v"]);
    let judged = request(&caller.calls()[6]);
    assert_eq!(judged["object"]["data"], made["data"], "it is shown what is stored");
    assert!(judged["object"]["metadata"]["uid"].is_string() && judged["oldObject"].is_null());
}

#[tokio::test]
async fn a_webhook_that_only_looks_is_called_once_and_a_patch_without_effect_is_none() {
    let (server, caller) = served(|call| match &*path(call) {
        "/same" => patching(call, json!([{"op": "add", "path": "/data/k", "value": "v"}])),
        _ => answered(call, json!({})),
    })
    .await;
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    configure(
        &server,
        MUTATING,
        "m",
        vec![webhook("same", "/same", again.clone()), webhook("n", "/n", again)],
    )
    .await;
    server.create(MAPS, map("m")).await;
    assert_eq!(caller.calls().len(), 2);
}

#[tokio::test]
async fn failures_follow_the_policy_and_refusals_are_the_webhooks_own() {
    let (server, caller) = served(|call| match &*path(call) {
        "/gone" => unreachable(),
        "/no" => answered(
            call,
            json!({"allowed": false, "status": {"message": "no", "code": 409, "reason": "Conflict"}}),
        ),
        "/broken" => patching(call, json!([{"op": "remove", "path": "/nonesuch"}])),
        "/odd" => answered(call, json!({"patch": STANDARD.encode("{"), "patchType": "JSONPatch"})),
        _ => answered(call, json!({"warnings": ["first", "", "two\nlines"]})),
    })
    .await;
    let of =
        |name: &str| json!([{"name": "mine", "expression": format!("object.metadata.name == '{name}'")}]);
    let ignoring = |name: &str| json!({"failurePolicy": "Ignore", "matchConditions": of(name)});
    configure(
        &server,
        MUTATING,
        "all",
        vec![
            webhook("gone", "/gone", json!({"matchConditions": of("gone")})),
            webhook("open", "/gone", ignoring("open")),
            webhook("no", "/no", ignoring("no")),
            webhook("broken", "/broken", ignoring("broken")),
            webhook("odd", "/odd", json!({"matchConditions": of("odd")})),
            webhook("oddly", "/odd", ignoring("oddly")),
            webhook("warns", "/warns", ignoring("warns")),
        ],
    )
    .await;
    let failed = |name: &str, reason: &str| {
        format!("Internal error occurred: failed calling webhook \"{name}.example.com\": {reason}")
    };
    let gone = failed(
        "gone",
        "failed to call webhook: Post \"https://hook.example/gone?timeout=10s\": hook: connection refused",
    );
    let no = "admission webhook \"no.example.com\" denied the request: no".to_owned();
    for (name, code, message) in [("gone", 500, gone), ("no", 409, no)] {
        let reply = server.post(MAPS, map(name)).await;
        assert_eq!(reply.refusal(), (code, &*message));
    }
    let broken = server.post(MAPS, map("broken")).await;
    assert_eq!(broken.code, 500, "a patch that does not fit is no failure to call: {}", broken.json);
    let odd = server.post(MAPS, map("odd")).await;
    assert!(odd.refusal().1.contains("received undecodable patch in webhook response: "), "{}", odd.json);
    for name in ["open", "oddly", "other"] {
        server.create(MAPS, map(name)).await;
    }
    let warned = server.post(MAPS, map("warns")).await;
    assert_eq!((warned.code, warned.warnings), (201, vec!["first".to_owned()]));
    assert_eq!(caller.calls().len(), 7, "each is called once");
}

#[tokio::test]
async fn a_patch_of_another_type_fails_where_there_is_something_to_change_and_warnings_come_with_it() {
    let (server, _) = served(|call| {
        let operations = match &*path(call) {
            "/none" => "[]",
            "/broken" => "{",
            _ => r#"[{"op":"add","path":"/data/k","value":"w"}]"#,
        };
        let patch = STANDARD.encode(operations);
        answered(call, json!({"patch": patch, "patchType": "MergePatch", "warnings": ["told"]}))
    })
    .await;
    server.create(MAPS, map("old")).await;
    let failed =
        |reason: &str| format!("Internal error occurred: failed calling webhook \"w.example.com\": {reason}");
    for (at, code, says) in [
        ("/some", 500, failed("unsupported patch type \"MergePatch\"")),
        ("/broken", 500, failed("received undecodable patch in webhook response: ")),
        ("/none", 201, String::new()),
    ] {
        configure(&server, MUTATING, "c", vec![webhook("w", at, json!({}))]).await;
        let reply = server.post(&format!("{MAPS}?dryRun=All"), map("m")).await;
        assert_eq!((reply.code, &reply.warnings), (code, &vec!["told".to_owned()]), "{at}: {}", reply.json);
        assert!(code == 201 || reply.refusal().1.starts_with(&says), "{at}: {}", reply.json);
        server.delete(&format!("{MUTATING}/c"), Value::Null).await.object();
    }
    configure(&server, MUTATING, "c", vec![webhook("w", "/some", json!({}))]).await;
    let reply = server.delete(&format!("{MAPS}/old"), Value::Null).await;
    assert!(reply.refusal().1.contains("attempted to modify the object"), "{}", reply.json);
}

/// Labels of the counters that were counted.
#[derive(Default)]
struct Counted(Mutex<Vec<(String, BTreeMap<String, String>)>>);

impl ::metrics::Recorder for Counted {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let labels = key.labels().map(|label| (label.key().to_owned(), label.value().to_owned()));
        self.0.lock().unwrap().push((key.name().to_owned(), labels.collect()));
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[test]
fn calls_are_counted_by_the_code_of_their_end() {
    let (counted, expected) = (
        Counted::default(),
        [("gone", "503"), ("teapot", "418"), ("odd", "503"), ("no", "409"), ("type", "400")],
    );
    let run = async {
        let (server, _) = served(|call| match &*path(call) {
            "/gone" => unreachable(),
            "/teapot" => Ok((418, String::new())),
            "/odd" => answered(call, json!({"uid": "another"})),
            "/no" => answered(call, json!({"allowed": false, "status": {"code": 409}})),
            _ => answered(
                call,
                json!({"patch": STANDARD.encode(r#"[{"op":"remove","path":"/data"}]"#), "patchType": "X"}),
            ),
        })
        .await;
        for (name, _) in expected {
            configure(&server, MUTATING, "c", vec![webhook(name, &format!("/{name}"), json!({}))]).await;
            assert!(server.post(MAPS, map(name)).await.code >= 400);
            server.delete(&format!("{MUTATING}/c"), Value::Null).await.object();
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    ::metrics::with_local_recorder(&counted, || runtime.block_on(run));
    let counted = counted.0.into_inner().unwrap();
    for (name, code) in expected {
        let of = |metric: &str, label: &str| {
            let found = counted
                .iter()
                .find(|(found, labels)| found == metric && labels["name"] == format!("{name}.example.com"));
            found.map(|(_, labels)| labels[label].clone())
        };
        let (request, rejection) =
            ("apiserver_admission_webhook_request_total", "apiserver_admission_webhook_rejection_count");
        assert_eq!(of(request, "code").as_deref(), Some(code), "{name}");
        assert_eq!(of(rejection, "rejection_code").as_deref(), Some(code), "{name}");
    }
}

#[tokio::test]
async fn conditions_without_a_value_refuse_by_the_policy_and_without_a_call() {
    let (server, caller) = served(|call| answered(call, json!({}))).await;
    let broken = json!([{"name": "broken", "expression": "object.data.none == 'x'"}]);
    let lenient = json!({"failurePolicy": "Ignore", "matchConditions": broken.clone()});
    configure(&server, VALIDATING, "lenient", vec![webhook("lenient", "/", lenient)]).await;
    server.create(MAPS, map("a")).await;
    configure(
        &server,
        VALIDATING,
        "strict",
        vec![webhook("strict", "/", json!({"matchConditions": broken}))],
    )
    .await;
    let reply = server.post(MAPS, map("b")).await;
    let text = "configmaps \"b\" is forbidden: expression 'object.data.none == 'x'' resulted in error: no such key: none";
    assert_eq!(reply.refusal(), (403, text));
    assert_eq!(caller.calls().len(), 0);
}

#[tokio::test]
async fn all_validating_webhooks_are_called_and_one_refusal_is_enough() {
    let (server, caller) = served(|call| match &*path(call) {
        "/no" => answered(call, json!({"allowed": false})),
        _ => answered(call, json!({"warnings": [path(call)]})),
    })
    .await;
    let mut webhooks = vec![webhook("no", "/no", json!({}))];
    webhooks.extend((0..100).map(|at| webhook(&format!("w{at}"), &format!("/{at}"), json!({}))));
    configure(&server, VALIDATING, "all", webhooks).await;
    let reply = server.post(MAPS, map("m")).await;
    let refused = "admission webhook \"no.example.com\" denied the request without explanation";
    assert_eq!((reply.refusal(), reply.warnings.len()), ((400, refused), 100));
    assert_eq!(caller.calls().len(), 101);
}

#[tokio::test]
async fn deletions_are_shown_and_cannot_be_changed() {
    let (server, caller) = served(|call| match &*path(call) {
        "/patch" => patching(call, json!([{"op": "add", "path": "/data", "value": {}}])),
        _ => answered(call, json!({})),
    })
    .await;
    server.create(MAPS, map("m")).await;
    configure(&server, MUTATING, "m", vec![webhook("patch", "/patch", json!({}))]).await;
    let reply = server.delete(&format!("{MAPS}/m"), Value::Null).await;
    let expected = "Internal error occurred: admission webhook \"patch.example.com\" attempted to modify the object, \
                    which is not supported for this operation";
    assert_eq!(reply.refusal(), (500, expected));
    let shown = request(&caller.calls()[0]);
    assert_eq!((&shown["object"], &shown["oldObject"]["data"]), (&Value::Null, &json!({"k": "v"})));
}

#[tokio::test]
async fn a_webhook_cannot_make_an_object_another_one() {
    let (server, _) = served(|call| {
        let (at, is_update) = (path(call), request(call)["operation"] == "UPDATE");
        let (name, field) = at.trim_start_matches('/').split_once('/').unwrap();
        let is_due = (name == "create") != is_update;
        let operation = if field == "none" { "remove" } else { "add" };
        let field = if field == "none" { "resourceVersion" } else { field };
        let change = json!([{"op": operation, "path": format!("/metadata/{field}"), "value": "1"}]);
        if is_due { patching(call, change) } else { answered(call, json!({})) }
    })
    .await;
    server.create(MAPS, map("m")).await;
    let changed = json!({"metadata": {"name": "m"}, "data": {"k": "w"}});
    let at = format!("{MAPS}/m");
    for (field, code, says) in [
        ("resourceVersion", 409, "the object has been modified"),
        ("uid", 422, "metadata.uid: Invalid value: \"1\": field is immutable"),
        ("name", 422, "metadata.name: Invalid value: \"1\": field is immutable"),
        (
            "namespace",
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        ("none", 200, ""),
    ] {
        configure(&server, MUTATING, "c", vec![webhook("w", &format!("/update/{field}"), json!({}))]).await;
        let (put, merged) =
            (server.put(&at, changed.clone()).await, server.merge(&at, json!({"data": {"k": "x"}})).await);
        for reply in [put, merged] {
            assert_eq!(reply.code, code, "{field}: {}", reply.json);
            assert!(code == 200 || reply.refusal().1.contains(says), "{field}: {}", reply.json);
        }
        server.delete(&format!("{MUTATING}/c"), Value::Null).await.object();
    }
    configure(&server, MUTATING, "c", vec![webhook("w", "/create/resourceVersion", json!({}))]).await;
    let refused = "resourceVersion should not be set on objects to be created";
    assert_eq!(server.post(MAPS, map("n")).await.refusal(), (400, refused));
}

#[tokio::test]
async fn dry_runs_are_for_webhooks_without_side_effects() {
    let (server, caller) = served(|call| answered(call, json!({}))).await;
    configure(&server, VALIDATING, "v", vec![webhook("v", "/v", json!({"sideEffects": "NoneOnDryRun"}))])
        .await;
    assert_eq!(server.post(&format!("{MAPS}?dryRun=All"), map("m")).await.code, 201);
    assert_eq!(request(&caller.calls()[0])["dryRun"], true);
}

#[tokio::test]
async fn dry_runs_are_refused_without_a_call_where_a_stored_webhook_has_side_effects_or_declares_nothing() {
    const REVISION: &str = r#""resourceVersion":""#;
    for (side_effects, code, told) in [
        (json!("Some"), 400, "admission webhook \"v.example.com\" does not support dry run"),
        (Value::Null, 500, "Webhook SideEffects is nil"),
    ] {
        let (server, caller) = served(|call| answered(call, json!({}))).await;
        configure(&server, VALIDATING, "v", vec![webhook("v", "/v", json!({}))]).await;
        // No write through the API leaves such a configuration; older ones may be stored.
        let mut stored = server.get(&format!("{VALIDATING}/v")).await.object();
        stored["metadata"]["resourceVersion"] = json!("");
        stored["webhooks"][0]["sideEffects"] = side_effects;
        let json = stored.to_string();
        let revision_at = u32::try_from(json.find(REVISION).unwrap() + REVISION.len()).unwrap();
        let resource = "validatingwebhookconfigurations.admissionregistration".into();
        let key = orch_raft::Key::new(&resource, "", "v").unwrap();
        let put = orch_raft::Put { key, json: json.into(), revision_at, index: orch_raft::Index::default() };
        let operations = vec![orch_raft::Operation::Put(put)];
        let transaction = orch_raft::Transaction { proposed_ms: 0, conditions: Vec::new(), operations };
        server.pipeline.store.propose(transaction).await.unwrap();

        let refused = server.post(&format!("{MAPS}?dryRun=All"), map("m")).await;
        assert_eq!(refused.code, code, "{}", refused.json);
        assert!(refused.json["message"].as_str().unwrap().contains(told), "{}", refused.json);
        assert_eq!(caller.calls().len(), 0);
        server.create(MAPS, map("m")).await;
        assert_eq!(caller.calls().len(), 1);
    }
}

#[tokio::test]
async fn selectors_look_at_the_namespace_and_at_the_old_object_too() {
    let (server, caller) = served(|call| answered(call, json!({}))).await;
    let selected = json!({"objectSelector": {"matchLabels": {"see": "yes"}}});
    let elsewhere = json!({"namespaceSelector": {"matchLabels": {"team": "blue"}}});
    let webhooks = vec![webhook("own", "/own", selected), webhook("blue", "/blue", elsewhere)];
    configure(&server, VALIDATING, "v", webhooks).await;
    let labelled = json!({"metadata": {"name": "m", "labels": {"see": "yes"}}});
    server.create(MAPS, labelled).await;
    server.put(&format!("{MAPS}/m"), map("m")).await.object();
    server.put(&format!("{MAPS}/m"), json!({"metadata": {"name": "m"}, "data": {"k": "w"}})).await.object();
    let paths: Vec<String> = caller.calls().iter().map(path).collect();
    assert_eq!(paths, ["/own", "/own"], "while the old object or the new one has the label");
    let blue = json!({"metadata": {"name": "blue", "labels": {"team": "blue"}}});
    server.create("/api/v1/namespaces", blue).await;
    server.create("/api/v1/namespaces/blue/configmaps", map("m")).await;
    assert_eq!(path(&caller.calls()[2]), "/blue");
}

#[tokio::test]
async fn equivalent_versions_are_shown_in_the_version_of_the_rule() {
    let (server, caller) = served(|call| answered(call, json!({}))).await;
    let rules = json!([{"apiGroups": ["autoscaling"], "apiVersions": ["v1"], "operations": ["*"], "resources": ["horizontalpodautoscalers"]}]);
    let exact = json!({"rules": rules.clone(), "matchPolicy": "Exact"});
    let webhooks = vec![webhook("e", "/equivalent", json!({"rules": rules})), webhook("x", "/exact", exact)];
    configure(&server, VALIDATING, "v", webhooks).await;
    let scaler = json!({
        "metadata": {"name": "h"},
        "spec": {"scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}, "maxReplicas": 3},
    });
    server.create("/apis/autoscaling/v2/namespaces/ns/horizontalpodautoscalers", scaler).await;
    let calls = caller.calls();
    assert_eq!(calls.iter().map(path).collect::<Vec<_>>(), ["/equivalent"]);
    let shown = request(&calls[0]);
    assert_eq!((&shown["kind"]["version"], &shown["requestKind"]["version"]), (&json!("v1"), &json!("v2")));
    assert_eq!(shown["object"]["apiVersion"], "autoscaling/v1");
}

#[tokio::test]
async fn sub_resources_are_shown_to_the_webhooks_that_name_them() {
    let (server, caller) = served(|call| answered(call, json!({}))).await;
    let of = |resources: Value| {
        let rule =
            json!({"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": resources});
        json!({"rules": [rule]})
    };
    let parts = of(json!(["deployments/scale", "pods/status", "pods/eviction"]));
    let (deployments, pods) = ("/apis/apps/v1/namespaces/ns/deployments", "/api/v1/namespaces/ns/pods");
    let spec = json!({
        "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod("x")["spec"].clone()},
    });
    server.create(deployments, json!({"metadata": {"name": "d"}, "spec": spec})).await;
    server.create(pods, pod("p")).await;
    let whole = of(json!(["deployments", "pods"]));
    let webhooks = vec![webhook("parts", "/parts", parts), webhook("whole", "/whole", whole)];
    configure(&server, VALIDATING, "v", webhooks).await;
    server.merge(&format!("{deployments}/d/scale"), json!({"spec": {"replicas": 2}})).await.object();
    server.merge(&format!("{pods}/p/status"), json!({"status": {"phase": "Running"}})).await.object();
    let eviction = json!({"metadata": {"name": "p"}});
    assert_eq!(server.post(&format!("{pods}/p/eviction"), eviction).await.code, 201);
    let shown: Vec<String> = caller
        .calls()
        .iter()
        .filter(|call| path(call) == "/parts")
        .map(request)
        .map(|shown| format!("{} {} {}", shown["operation"], shown["kind"]["kind"], shown["subResource"]))
        .collect();
    let expected =
        [r#""UPDATE" "Scale" "scale""#, r#""UPDATE" "Pod" "status""#, r#""CREATE" "Eviction" "eviction""#];
    assert_eq!(shown, expected);
    let whole: Vec<Value> = caller
        .calls()
        .iter()
        .filter(|call| path(call) == "/whole")
        .map(|call| request(call)["operation"].clone())
        .collect();
    assert!(whole.iter().all(|operation| *operation == "DELETE"), "the eviction deletes: {whole:?}");
}

#[tokio::test]
async fn configurations_are_written_past_every_webhook() {
    let (server, caller) = served(|_| unreachable()).await;
    let all = json!({"rules": [{"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}]});
    configure(&server, VALIDATING, "v", vec![webhook("v", "/v", all.clone())]).await;
    configure(&server, MUTATING, "m", vec![webhook("m", "/m", all)]).await;
    assert_eq!(server.post(MAPS, map("m")).await.code, 500);
    for path in [format!("{VALIDATING}/v"), format!("{MUTATING}/m")] {
        server.merge(&path, json!({"metadata": {"labels": {"a": "b"}}})).await.object();
        server.delete(&path, Value::Null).await.object();
    }
    assert_eq!(caller.calls().len(), 1);
    server.create(MAPS, map("m")).await;
}

#[tokio::test]
async fn a_webhook_that_does_not_answer_gets_little_time_until_it_does() {
    let is_back = Arc::new(AtomicBool::new(false));
    let back = is_back.clone();
    let (server, caller) = served(move |call| match back.load(Ordering::Relaxed) {
        true => answered(call, json!({})),
        false => unreachable(),
    })
    .await;
    configure(&server, VALIDATING, "v", vec![webhook("v", "/v", json!({}))]).await;
    for _ in 0..4 {
        assert_eq!(server.post(MAPS, map("m")).await.code, 500);
    }
    is_back.store(true, Ordering::Relaxed);
    server.create(MAPS, map("m")).await;
    server.create(MAPS, map("n")).await;
    let seconds: Vec<u64> = caller.calls().iter().map(|call| call.timeout.as_secs()).collect();
    assert_eq!(seconds, [10, 10, 10, 1, 1, 10]);
}

/// A lease in `namespace`.
#[tokio::test]
async fn the_outage_of_the_last_webhook_ends_with_its_configuration() {
    let (server, _, outages) = served_with_outages(|_| unreachable()).await;
    configure(&server, VALIDATING, "v", vec![webhook("v", "/v", json!({}))]).await;
    for _ in 0..3 {
        assert_eq!(server.post(MAPS, map("m")).await.code, 500);
    }
    assert_eq!(outages.all().len(), 1);
    assert_eq!(server.delete(&format!("{VALIDATING}/v"), json!({})).await.code, 200);
    // The next write on this node finds no configuration.
    assert_eq!(server.post(MAPS, map("m")).await.code, 201);
    assert!(outages.all().is_empty(), "{:?}", outages.all());
}

#[tokio::test]
async fn every_call_has_a_uid_of_its_own() {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = calls.clone();
    let (server, _) = served(move |call| {
        seen.lock().unwrap().push(request(call)["uid"].clone());
        answered(call, json!({}))
    })
    .await;
    configure(&server, MUTATING, "m", vec![webhook("m", "/m", json!({}))]).await;
    configure(&server, VALIDATING, "v", vec![webhook("v", "/v", json!({}))]).await;
    for name in ["a", "b"] {
        server.create(MAPS, map(name)).await;
    }
    let mut uids = calls.lock().unwrap().clone();
    uids.sort_by_key(|uid| uid.to_string());
    uids.dedup();
    assert_eq!(uids.len(), 4);
}
