//! Audit events over HTTP: what each request leaves behind, and what none does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use axum::body::Body;
use bytes::Bytes;
use futures::FutureExt;
use http::Method;
use http_body_util::BodyExt;
use orch_proto::brand::ORCH;
use orch_schema::json;
use orch_schema::value::Value;

use super::routes::all_routes;
use super::{MAPS, Server, map};
use crate::ambient::{Ambient, SystemAmbient};
use crate::audit::{Auditor, NotStored, Policy, Sink, Storing, settled};
use crate::authn::Peer;

/// Keeps events in memory, or fails.
#[derive(Default)]
pub(super) struct MemorySink {
    pub(super) events: Mutex<Vec<Bytes>>,
    fails: AtomicBool,
    is_required: bool,
    bytes_max: Option<usize>,
}

impl Sink for MemorySink {
    fn store(&self, event: Bytes) -> Storing {
        if self.fails.load(Ordering::Relaxed) {
            return settled(Err(NotStored("no".to_owned())));
        }
        self.events.lock().unwrap().push(event);
        settled(Ok(()))
    }

    fn lose(&self, error: NotStored) -> Storing {
        settled(Err(error))
    }

    fn is_required(&self) -> bool {
        self.is_required
    }

    fn event_bytes_max(&self) -> usize {
        self.bytes_max.unwrap_or(usize::MAX)
    }
}

/// A server with an audited API.
struct Audited {
    server: Server,
    sink: Arc<MemorySink>,
}

pub(super) fn auditor(rules: &str, sink: &Arc<MemorySink>, ambient: Arc<dyn Ambient>) -> Arc<Auditor> {
    let policy = Policy::parse(&format!("apiVersion: audit.orch.io/v1\nkind: Policy\n{rules}\n")).unwrap();
    Auditor::new(&ORCH, Arc::new(ArcSwap::from_pointee(policy)), vec![sink.clone()], ambient)
}

const SECRETS: &str = "/api/v1/namespaces/ns/secrets";
const CANARY: &str = "canary-in-clear";
/// The same in base64.
const CANARY_BASE64: &str = "Y2FuYXJ5LWluLWNsZWFy";

impl Audited {
    /// A server whose policy has these rules.
    async fn new(rules: &str) -> Audited {
        Audited::with(rules, MemorySink::default()).await
    }

    async fn with(rules: &str, sink: MemorySink) -> Audited {
        let server = Server::new().await;
        let sink = Arc::new(sink);
        let auditor = auditor(rules, &sink, server.clock.clone());
        let router = server.api_over(server.store.clone()).audited_by(Some(auditor)).router();
        Audited { server: Server { router, ..server }, sink }
    }

    async fn at(level: &str) -> Audited {
        Audited::new(&format!("rules: [{{level: {level}}}]")).await
    }

    /// The events since the last call.
    fn take(&self) -> Vec<Value> {
        let lines = std::mem::take(&mut *self.sink.events.lock().unwrap());
        let parse = |line: &Bytes| {
            assert!(!line.contains(&b'\n'), "one line");
            serde_json::from_slice(line).unwrap()
        };
        lines.iter().map(parse).collect()
    }

    /// Sends a request and returns its last event.
    async fn last(&self, method: Method, path: &str, headers: &[(&str, &str)], body: Value) -> Value {
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        self.server.send(method, path, headers, body).await;
        self.take().pop().unwrap_or_default()
    }

    /// Sends a request whose response need not be text. Returns its code.
    async fn code(&self, method: Method, path: &str, headers: &[(&str, &str)], body: Body) -> u16 {
        let response = self.server.open(method, path, headers, body).await;
        let code = response.status().as_u16();
        response.into_body().collect().await.unwrap();
        code
    }

    fn stages(&self) -> Vec<String> {
        self.take().iter().map(|event| event["stage"].as_str().unwrap().to_owned()).collect()
    }
}

/// `event` without the members that every event has alike.
fn outline(event: &Value) -> String {
    let object = &event["objectRef"];
    let part = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or("-").to_owned();
    let names = ["apiGroup", "resource", "subresource", "namespace", "name"].map(part).join(" ");
    let verb = event["verb"].as_str().unwrap();
    format!("{verb} {names} {}", event["responseStatus"]["code"].as_i64().unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn an_event_tells_who_did_what_and_how_it_ended() {
    let audited = Audited::at("RequestResponse").await;
    let headers = [
        ("audit-id", "id-1"),
        ("user-agent", "test/1"),
        ("x-forwarded-for", "192.0.2.7"),
        ("authorization", "Bearer canary-in-clear"),
    ];
    // A bad bearer token would be refused: the local administrator sends none.
    let body = json!({"metadata": {"name": "m"}, "data": {"k": "v"}});
    let path = format!("{MAPS}?fieldManager=me&access_token={CANARY}");
    let answered =
        audited.server.send(Method::POST, &path, &headers[..3], Body::from(body.to_string())).await;
    assert_eq!(answered.code, 201);
    let events = audited.take();
    let received = json!({
        "kind": "Event", "apiVersion": "audit.orch.io/v1", "level": "RequestResponse", "auditID": "id-1",
        "stage": "RequestReceived",
        "requestURI": "/api/v1/namespaces/ns/configmaps?fieldManager=me&access_token=REDACTED", "verb": "create",
        "user": {"username": "system:admin", "groups": ["system:masters", "system:authenticated"]},
        "sourceIPs": ["192.0.2.7", "127.0.0.1"], "userAgent": "test/1",
        "objectRef": {"resource": "configmaps", "namespace": "ns", "apiVersion": "v1"},
        "requestReceivedTimestamp": "2026-01-02T02:49:05.000000Z",
        "stageTimestamp": "2026-01-02T02:49:05.000000Z",
    });
    assert_eq!(events[0], received);
    let mut complete = received.clone();
    complete["stage"] = json!("ResponseComplete");
    complete["objectRef"]["name"] = json!("m");
    complete["responseStatus"] = json!({"metadata": {}, "code": 201});
    complete["requestObject"] = json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"name": "m", "creationTimestamp": null}, "data": {"k": "v"},
    });
    complete["responseObject"] = answered.json();
    complete["annotations"] =
        json!({"authorization.orch.io/decision": "allow", "authorization.orch.io/reason": ""});
    let mut found = events[1].clone();
    // Whether an absent time is written is not the claim of this test.
    for event in [&mut found, &mut complete] {
        event["requestObject"]["metadata"].as_object_mut().unwrap().shift_remove("creationTimestamp");
    }
    assert_eq!(found, complete);
    assert_eq!(events.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn each_verb_has_its_events() {
    let audited = Audited::at("Metadata").await;
    let merge = [("content-type", "application/merge-patch+json")];
    let nobody = [("impersonate-user", "nobody")];
    let one = format!("{MAPS}/m");
    for (method, path, headers, body, expected) in [
        (Method::POST, MAPS.to_owned(), &[][..], map("m", "v"), "create - configmaps - ns m 201"),
        (Method::POST, MAPS.to_owned(), &[], map("m", "v"), "create - configmaps - ns m 409"),
        (Method::GET, one.clone(), &[], Value::Null, "get - configmaps - ns m 200"),
        (Method::GET, format!("{MAPS}/none"), &[], Value::Null, "get - configmaps - ns none 404"),
        (Method::GET, MAPS.to_owned(), &[], Value::Null, "list - configmaps - ns - 200"),
        (
            Method::GET,
            format!("{MAPS}?fieldSelector=metadata.name%3Dm"),
            &[],
            Value::Null,
            "list - configmaps - ns m 200",
        ),
        (Method::GET, format!("{MAPS}?limit=x"), &[], Value::Null, "list - configmaps - ns - 400"),
        (Method::PUT, one.clone(), &[], map("m", "w"), "update - configmaps - ns m 200"),
        (Method::PATCH, one.clone(), &merge, json!({"data": {"k": "x"}}), "patch - configmaps - ns m 200"),
        (Method::GET, one.clone(), &nobody, Value::Null, "get - configmaps - ns m 403"),
        (Method::DELETE, one.clone(), &[], Value::Null, "delete - configmaps - ns m 200"),
        (Method::DELETE, MAPS.to_owned(), &[], Value::Null, "deletecollection - configmaps - ns - 200"),
        (Method::OPTIONS, one.clone(), &[], Value::Null, "options - configmaps - ns m 405"),
        (Method::GET, "/api/v1/namespaces/ns".to_owned(), &[], Value::Null, "get - namespaces - ns ns 200"),
        (
            Method::GET,
            "/apis/apps/v1/namespaces/ns/deployments/d/status".to_owned(),
            &[],
            Value::Null,
            "get apps deployments status ns d 404",
        ),
        (Method::GET, "/api".to_owned(), &[], Value::Null, "get - - - - - 200"),
        (Method::GET, "/livez".to_owned(), &[], Value::Null, "get - - - - - 200"),
        (Method::GET, "/nowhere".to_owned(), &[], Value::Null, "get - - - - - 404"),
        (Method::GET, "/api/v1/namespaces/%ff/pods".to_owned(), &[], Value::Null, "get - - - - - 400"),
    ] {
        let event = audited.last(method.clone(), &path, headers, body).await;
        assert_eq!(outline(&event), expected, "{method} {path}: {event}");
        assert_eq!(event["stage"], json!("ResponseComplete"), "{method} {path}");
        assert!(event.get("requestObject").is_none() && event.get("responseObject").is_none(), "{event}");
    }
    assert!(audited.take().is_empty());
}

#[tokio::test(start_paused = true)]
async fn refusals_and_impersonation_are_told() {
    let audited = Audited::at("Metadata").await;
    let headers = [("impersonate-user", "ann"), ("impersonate-group", "devs")];
    let event = audited.last(Method::GET, MAPS, &headers, Value::Null).await;
    assert_eq!(event["user"]["username"], json!("system:admin"));
    let ann = json!({"username": "ann", "groups": ["devs", "system:authenticated"]});
    assert_eq!(event["impersonatedUser"], ann);
    let constraint = json!({"impersonationConstraint": "impersonate:user-info"});
    assert_eq!(event["authenticationMetadata"], constraint);
    assert_eq!(event["annotations"]["authorization.orch.io/decision"], json!("forbid"));
    assert_eq!(event["responseStatus"]["reason"], json!("Forbidden"));
    assert!(event["responseStatus"]["message"].as_str().unwrap().contains("cannot list"), "{event}");

    // Impersonation without a user: refused before anything is decided.
    let event = audited.last(Method::GET, MAPS, &headers[1..], Value::Null).await;
    assert_eq!(outline(&event), "list - configmaps - ns - 400");
    assert!(event.get("annotations").is_none(), "{event}");

    let stranger = Arc::new(Peer {
        address: "127.0.0.1:1".parse().unwrap(),
        certificate: None,
        local_admin: false,
        is_front_proxy: false,
    });
    let audited = Audited { server: Server { peer: stranger, ..audited.server }, ..audited };
    let token = [("authorization", "Bearer canary-in-clear")];
    audited.server.send(Method::GET, &format!("{MAPS}/m"), &token, Body::empty()).await;
    let events = audited.take();
    assert_eq!(events.len(), 1, "{events:?}");
    let event = &events[0];
    assert_eq!((&event["stage"], &event["user"]), (&json!("ResponseStarted"), &json!({})));
    assert_eq!(outline(event), "get - configmaps - ns m 401");
    let unauthorized = json!({
        "metadata": {}, "status": "Failure", "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
    });
    assert_eq!(event["responseStatus"], unauthorized);
    assert!(!event.to_string().contains(CANARY));

    // A probe carries no credentials.
    let event = audited.last(Method::GET, "/livez", &[], Value::Null).await;
    let anonymous = json!({"username": "system:anonymous", "groups": ["system:unauthenticated"]});
    assert_eq!(event["user"], anonymous);
    assert_eq!(event["requestURI"], json!("/livez"));
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_told_at_its_start_and_at_its_end() {
    let audited = Audited::at("RequestResponse").await;
    let watch = format!("{MAPS}?watch=1&timeoutSeconds=5");
    audited.server.get(&watch).await;
    assert_eq!(audited.stages(), ["RequestReceived", "ResponseStarted", "ResponseComplete"]);
    let response = audited.server.open(Method::GET, &watch, &[], Body::empty()).await;
    assert_eq!(audited.stages(), ["RequestReceived", "ResponseStarted"]);
    drop(response);
    let events = audited.take();
    assert_eq!(events.len(), 1, "its client has left");
    assert_eq!(outline(&events[0]), "watch - configmaps - ns - 200");
    assert_eq!(events[0]["stage"], json!("ResponseComplete"));
    let event = audited.last(Method::GET, &format!("{watch}&resourceVersion=x"), &[], Value::Null).await;
    assert_eq!(event["responseStatus"]["code"], json!(400), "{event}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_before_the_answer_is_told() {
    let audited = Audited::at("Metadata").await;
    let never = Body::from_stream(futures::stream::pending::<Result<Bytes, std::io::Error>>());
    let mut request = Box::pin(audited.server.open(Method::POST, MAPS, &[], never));
    assert!(request.as_mut().now_or_never().is_none());
    assert_eq!(audited.stages(), ["RequestReceived"]);
    drop(request);
    let events = audited.take();
    assert_eq!(events.len(), 1, "{events:?}");
    assert_eq!(outline(&events[0]), "create - configmaps - ns - 499");
    assert_eq!(events[0]["responseStatus"]["message"], json!("Connection closed early"));
}

#[tokio::test(start_paused = true)]
async fn levels_and_stages_are_as_the_policy_says() {
    let rules = "omitStages: [RequestReceived]\nomitManagedFields: true\nrules:\n\
        - {level: None, verbs: [get]}\n\
        - {level: Request, verbs: [patch, delete]}\n\
        - {level: RequestResponse, verbs: [create]}\n\
        - {level: Metadata, omitStages: [ResponseComplete]}";
    let audited = Audited::new(rules).await;
    let created = audited.last(Method::POST, MAPS, &[], map("m", "v")).await;
    let metadata = created["responseObject"]["metadata"].as_object().unwrap();
    assert!(metadata.contains_key("uid") && !metadata.contains_key("managedFields"), "{created}");
    audited.server.get(&format!("{MAPS}/m")).await;
    audited.server.get(MAPS).await;
    assert_eq!(audited.stages(), [""; 0]);
    let merge = [("content-type", "application/merge-patch+json")];
    let patch = json!({"data": {"k": "x"}});
    let patched = audited.last(Method::PATCH, &format!("{MAPS}/m"), &merge, patch.clone()).await;
    assert_eq!(patched["requestObject"], patch);
    assert!(patched.get("responseObject").is_none(), "{patched}");
    let options = json!({"propagationPolicy": "Background"});
    let deleted = audited.last(Method::DELETE, &format!("{MAPS}/m"), &[], options).await;
    let expected =
        json!({"kind": "DeleteOptions", "apiVersion": "meta.orch.io/v1", "propagationPolicy": "Background"});
    assert_eq!(deleted["requestObject"], expected);
    assert_eq!(deleted["responseStatus"]["status"], json!("Success"), "{deleted}");
    assert_eq!(deleted["responseStatus"]["details"]["name"], json!("m"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_told_as_json_whatever_its_encoding() {
    let audited = Audited::at("RequestResponse").await;
    audited.server.create(MAPS, map("m", "v")).await;
    let one = format!("{MAPS}/m");
    let table = "application/json;as=Table;g=meta.orch.io;v=v1";
    for (path, accept, kind) in [
        (one.as_str(), "application/json", "ConfigMap"),
        (&format!("{one}?pretty=1"), "application/json", "ConfigMap"),
        (&one, "application/yaml", "ConfigMap"),
        (&one, "application/vnd.orch.protobuf", "ConfigMap"),
        (&one, table, "Table"),
        (MAPS, "application/yaml", "ConfigMapList"),
        (MAPS, table, "Table"),
    ] {
        let code = audited.code(Method::GET, path, &[("accept", accept)], Body::empty()).await;
        assert_eq!(code, 200, "{path} {accept}");
        let event = audited.take().pop().unwrap();
        assert_eq!(event["responseObject"]["kind"], json!(kind), "{path} {accept}: {event}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_stored_event_a_strict_sink_lets_nothing_happen() {
    for is_required in [true, false] {
        let sink = MemorySink { is_required, ..MemorySink::default() };
        let audited = Audited::with("rules: [{level: Metadata}]", sink).await;
        audited.sink.fails.store(true, Ordering::Relaxed);
        let body = Body::from(map("m", "v").to_string());
        let answered = audited.server.send(Method::POST, MAPS, &[], body).await;
        assert_eq!(answered.code, if is_required { 500 } else { 201 }, "{}", answered.text);
        let health = audited.server.get("/livez").await;
        // The administrator's read of the path is a request like any other.
        assert_eq!(health.code, if is_required { 500 } else { 200 });
        audited.sink.fails.store(false, Ordering::Relaxed);
        let found = audited.server.get(&format!("{MAPS}/m")).await;
        assert_eq!(found.code, if is_required { 404 } else { 200 }, "{}", found.text);
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_event_loses_its_objects_and_a_longer_one_is_not_stored() {
    let sink = MemorySink { bytes_max: Some(1500), ..MemorySink::default() };
    let audited = Audited::with("rules: [{level: RequestResponse}]", sink).await;
    let event = audited.last(Method::POST, MAPS, &[], map("m", &"x".repeat(2000))).await;
    assert_eq!(event["annotations"]["audit.orch.io/truncated"], json!("true"));
    assert!(event.get("requestObject").is_none() && event.get("responseObject").is_none(), "{event}");
    assert_eq!(outline(&event), "create - configmaps - ns m 201");
    let path = format!("{MAPS}?x={}", "x".repeat(2000));
    assert_eq!(audited.last(Method::GET, &path, &[], Value::Null).await, Value::Null);
    assert_eq!(audited.server.get(&path).await.code, 200);
    let sink = MemorySink { is_required: true, bytes_max: Some(1500), ..MemorySink::default() };
    let strict = Audited::with("rules: [{level: Metadata}]", sink).await;
    assert_eq!(strict.server.get(&path).await.code, 500, "no request without its event");
    assert_eq!(strict.server.get(MAPS).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn no_text_of_a_client_makes_an_event_too_long() {
    let sink = MemorySink { is_required: true, bytes_max: Some(32 << 10), ..MemorySink::default() };
    let audited = Audited::with("rules: [{level: RequestResponse}]", sink).await;
    let long = "x".repeat(60_000);
    let headers = [("audit-id", &*long), ("user-agent", &*long)];
    let path = format!("{MAPS}/{long}");
    let answered = audited.server.send(Method::GET, &path, &headers, Body::empty()).await;
    assert_eq!(answered.headers["audit-id"].len(), 60_000, "the answer has the id as it came");
    let name = "x".repeat(50_000);
    audited.server.send(Method::POST, MAPS, &headers, Body::from(map(&name, "v").to_string())).await;
    let events = audited.take();
    assert_eq!(events.len(), 4, "two of each request");
    for event in events {
        assert_eq!(event["auditID"], json!("x".repeat(256)));
        assert!(event["userAgent"].as_str().unwrap().ends_with("...TRUNCATED"));
    }
}

#[tokio::test(start_paused = true)]
async fn every_route_is_audited_by_its_attributes() {
    let audited = Audited::at("Metadata").await;
    let stranger = Arc::new(Peer {
        address: "127.0.0.1:1".parse().unwrap(),
        certificate: None,
        local_admin: false,
        is_front_proxy: false,
    });
    let stranger = Server { peer: stranger, router: audited.server.router.clone(), ..Server::new().await };
    for (method, path) in all_routes() {
        stranger.send(method.clone(), &path, &[], Body::empty()).await;
        let refused = audited.take();
        assert_eq!(refused.len(), 1, "{method} {path}");
        assert_eq!(refused[0]["responseStatus"]["code"], json!(401), "{method} {path}");
        let nobody = [("impersonate-user", "nobody")];
        let answered = audited.server.send(method.clone(), &path, &nobody, Body::empty()).await;
        let message = answered.json()["message"].as_str().unwrap_or_default().to_owned();
        let event = audited.take().pop().unwrap_or_else(|| panic!("{method} {path} is not audited"));
        for event in [&refused[0], &event] {
            let verb = event["verb"].as_str().unwrap();
            assert!(message.contains(&format!("cannot {verb} ")), "{method} {path}: {verb}, {message}");
            let object = event.get("objectRef").map(|object| {
                let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_default();
                match text("subresource") {
                    "" => format!("resource \"{}\" in API group \"{}\"", text("resource"), text("apiGroup")),
                    part => format!("resource \"{}/{part}\" in API group", text("resource")),
                }
            });
            let object = object.unwrap_or_else(|| format!("path \"{path}\""));
            assert!(message.contains(&object), "{method} {path}: {object}, {message}");
        }
        assert_eq!(event["responseStatus"]["code"], json!(403), "{method} {path}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_event_holds_a_secret() {
    let audited = Audited::at("RequestResponse").await;
    let merge = ("content-type", "application/merge-patch+json");
    let apply = ("content-type", "application/apply-patch+yaml");
    let operations = ("content-type", "application/json-patch+json");
    let table = ("accept", "application/json;as=Table;g=meta.orch.io;v=v1");
    let applied = "orch.io/last-applied-configuration";
    let named = |name: &str| json!({"name": name, "annotations": {applied: CANARY}});
    let data = json!({"k": CANARY_BASE64});
    let secret = json!({"metadata": named("s"), "data": data, "stringData": {"l": CANARY}, "other": CANARY});
    let one = format!("{SECRETS}/s");
    let reviews = "/apis/authentication.orch.io/v1/tokenreviews";
    let new = format!("{SECRETS}/t?fieldManager=m");
    let all = format!("{SECRETS}?includeObject=Object");
    let token = format!("{SECRETS}?access_token={CANARY}&token={CANARY}");
    let other = json!({"metadata": {"name": "s"}, "data": {"k": CANARY_BASE64}, "type": "other"});
    let replace = json!([{"op": "add", "path": "/data/n", "value": CANARY_BASE64}]);
    let config = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "t"}, "stringData": {"a": CANARY},
    });
    type Headers = Vec<(&'static str, &'static str)>;
    let requests: Vec<(Method, &str, Headers, String)> = vec![
        (Method::POST, SECRETS, vec![], secret.to_string()),
        (
            Method::POST,
            SECRETS,
            vec![],
            json!({"metadata": {"name": "x"}, "data": {"k": CANARY}}).to_string(),
        ),
        (Method::POST, SECRETS, vec![], format!("{{\"data\": \"{CANARY}\"}}")),
        (Method::POST, SECRETS, vec![], format!("{CANARY}: [")),
        (Method::POST, SECRETS, vec![("content-type", "application/yaml")], format!("data: {{k: {CANARY}")),
        (Method::GET, &one, vec![], String::new()),
        (Method::GET, &one, vec![("authorization", "")], String::new()),
        (Method::GET, &one, vec![table], String::new()),
        (Method::GET, &one, vec![("accept", "application/yaml")], String::new()),
        (Method::GET, &one, vec![("accept", "application/vnd.orch.protobuf")], String::new()),
        (Method::GET, SECRETS, vec![], String::new()),
        (Method::GET, &all, vec![table], String::new()),
        (Method::GET, &token, vec![], String::new()),
        (Method::PUT, &one, vec![], other.to_string()),
        (Method::PUT, &one, vec![], secret.to_string()),
        (Method::PATCH, &one, vec![merge], json!({"data": {"m": CANARY_BASE64}}).to_string()),
        (Method::PATCH, &one, vec![merge], json!({"data": CANARY, "dota": [CANARY]}).to_string()),
        (Method::PATCH, &one, vec![merge], json!({"items": [], "data": {"m": CANARY_BASE64}}).to_string()),
        (Method::PATCH, &one, vec![merge], json!({"rows": [], "stringData": {"m": CANARY}}).to_string()),
        (Method::PATCH, &one, vec![operations], replace.to_string()),
        (Method::PATCH, &new, vec![apply], config.to_string()),
        (Method::DELETE, &one, vec![], String::new()),
        (Method::DELETE, SECRETS, vec![], String::new()),
        (Method::POST, reviews, vec![], json!({"spec": {"token": CANARY}}).to_string()),
        (Method::POST, reviews, vec![], json!({"spec": {"token": [CANARY]}}).to_string()),
    ];
    let mut shown = 0;
    for (method, path, headers, body) in requests {
        audited.code(method.clone(), path, &headers, Body::from(body)).await;
        let events = audited.take();
        assert!(!events.is_empty(), "{method} {path}");
        for event in events {
            let text = event.to_string();
            assert!(!text.contains(CANARY) && !text.contains(CANARY_BASE64), "{method} {path}: {text}");
            shown += usize::from(text.contains("REDACTED"));
        }
    }
    assert!(shown > 10, "objects are shown, without what is secret: {shown}");
}

#[tokio::test(start_paused = true)]
async fn an_issued_token_is_named_by_its_id_and_not_shown() {
    let sink = Arc::new(MemorySink::default());
    let auditor = auditor("rules: [{level: RequestResponse}]", &sink, Arc::new(SystemAmbient));
    let server = Server::with_tokens_audited(|_| {}, Some(auditor)).await;
    let answered = server.request_token(json!({"audiences": ["a"]})).await;
    let token = answered.json()["status"]["token"].as_str().unwrap().to_owned();
    let audited = Audited { server, sink };
    let events = audited.take();
    let event = events.last().unwrap();
    assert!(!event.to_string().contains(&token), "{event}");
    assert_eq!(event["responseObject"]["status"]["token"], json!("REDACTED"), "{event}");
    assert_eq!(event["requestObject"]["spec"]["audiences"], json!(["a"]));
    let id = event["annotations"]["authentication.orch.io/issued-credential-id"].as_str().unwrap();
    assert!(id.starts_with("JTI="), "{id}");
    assert_eq!(outline(event), "create - serviceaccounts token ns robot 201");
}

#[tokio::test(start_paused = true)]
async fn admission_annotates_the_events_of_writes() {
    let audited = Audited::at("Metadata").await;
    let merge = [("content-type", "application/merge-patch+json")];
    let pods = "/api/v1/namespaces/ns/pods";
    let pod = |name: &str, network: bool| {
        let spec = json!({"containers": [{"name": "c", "image": "i"}], "hostNetwork": network});
        json!({"metadata": {"name": name}, "spec": spec})
    };
    let annotation = |event: &Value, name: &str| {
        event["annotations"][format!("pod-security.orch.io/{name}").as_str()]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    let event = audited.last(Method::POST, pods, &[], pod("a", true)).await;
    assert_eq!(annotation(&event, "enforce-policy"), "privileged:latest", "{event}");
    let labels =
        json!({"pod-security.orch.io/enforce": "baseline", "pod-security.orch.io/audit": "restricted"});
    let labelled = json!({"metadata": {"labels": labels}});
    audited.last(Method::PATCH, "/api/v1/namespaces/ns", &merge, labelled).await;
    let event = audited.last(Method::POST, pods, &[], pod("b", false)).await;
    assert_eq!(annotation(&event, "enforce-policy"), "baseline:latest", "{event}");
    let violations = "would violate PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false (";
    assert!(annotation(&event, "audit-violations").starts_with(violations), "{event}");
    let event = audited.last(Method::POST, pods, &[], pod("c", true)).await;
    assert_eq!(event["responseStatus"]["code"], json!(403), "{event}");
    let violations = "would violate PodSecurity \"restricted:latest\": host namespaces (hostNetwork=true), ";
    assert!(annotation(&event, "audit-violations").starts_with(violations), "{event}");
}
