//! Requests that are passed on, to backends that write them down.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use http::{Method, Request, Response};
use orch_proto::brand::ORCH;
use orch_rules::Action;
use orch_schema::json;
use orch_schema::value::Value;
use parking_lot::Mutex;

use super::audits::{MemorySink, auditor};
use super::{Api, Features, Server, pipeline};
use crate::admission::{
    Additions, Attributes, Chain, NamespaceMaker, Operation, Plugin, PluginSelection, Refusal, Ruling,
    Settings, View, rule,
};
use crate::ambient::Ambient;
use crate::connect::{BackendError, Backends, Connector, Destination, Reach};
use crate::webhook::testing::Answering;
use crate::webhook::{Call, Caller, Routing, Webhooks};

const PODS: &str = "/api/v1/namespaces/ns/pods";

/// Backends that answer every request alike and resolve every name alike.
#[derive(Debug, Default)]
struct Scripted {
    requests: Mutex<Vec<String>>,
    code: u16,
    resolved: Vec<IpAddr>,
    fails: bool,
}

impl Backends for Scripted {
    fn resolve<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<IpAddr>, String>> {
        let found =
            if self.resolved.is_empty() { Err("no such host".to_owned()) } else { Ok(self.resolved.clone()) };
        ready(found).boxed()
    }

    fn forward<'a>(
        &'a self,
        to: &'a Destination,
        request: Request<Body>,
    ) -> BoxFuture<'a, Result<Response<Body>, BackendError>> {
        let line = format!("{} {} at {:?}", request.method(), request.uri(), to.addresses);
        self.requests.lock().push(line);
        if self.fails {
            return ready(Err(BackendError::Dial("refused".to_owned()))).boxed();
        }
        let mut answer = Response::new(Body::from("text"));
        *answer.status_mut() = self.code.try_into().unwrap();
        ready(Ok(answer)).boxed()
    }
}

/// A way to backends that answer nothing of use.
pub(super) fn any_connector() -> Connector {
    connector(&Arc::default())
}

fn connector(backends: &Arc<Scripted>) -> Connector {
    let address_types = vec!["Hostname".to_owned(), "InternalIP".to_owned()];
    Connector { backends: backends.clone(), reach: Reach::default(), address_types }
}

/// A server over `backends` with the pods `p` (without a node), `two` (of two containers) and `q` on the node `n`.
async fn server(backends: Scripted) -> (Server, Arc<Scripted>) {
    server_with(backends, Chain::builtin()).await
}

/// The same with these plugins.
async fn server_with(backends: Scripted, admission: Chain) -> (Server, Arc<Scripted>) {
    server_over(Server::new().await, backends, admission).await
}

/// The same over the store of `server`.
async fn server_over(server: Server, backends: Scripted, admission: Chain) -> (Server, Arc<Scripted>) {
    let backends = Arc::new(backends);
    let mut pipeline = pipeline(server.store.clone(), server.clock.clone(), Features::default());
    pipeline.admission = admission;
    let api = Api::new(Arc::new(pipeline), server.stopping.clone());
    let router = api.connecting(connector(&backends)).router();
    let server = Server { router, ..server };
    let status = json!({"addresses": [{"type": "InternalIP", "address": "10.0.0.2"}]});
    server.create("/api/v1/nodes", json!({"metadata": {"name": "n"}, "status": status})).await;
    let status = json!({"addresses": [{"type": "Hostname", "address": "named.example"}]});
    server.create("/api/v1/nodes", json!({"metadata": {"name": "named"}, "status": status})).await;
    let container = |name: &str| json!({"name": name, "image": "i"});
    for (name, containers, node) in [
        ("p", vec![container("c")], Value::Null),
        ("two", vec![container("x"), container("y")], Value::Null),
        ("q", vec![container("c")], json!("n")),
        ("lost", vec![container("c")], json!("gone")),
    ] {
        let mut spec = json!({"containers": containers});
        if !node.is_null() {
            spec["nodeName"] = node;
        }
        server.create(PODS, json!({"metadata": {"name": name}, "spec": spec})).await;
    }
    (server, backends)
}

fn message(text: &str) -> String {
    let status: Value = serde_json::from_str(text).unwrap_or_default();
    status["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(start_paused = true)]
async fn paths_without_a_backend_are_refused_in_the_reference_words() {
    let (server, backends) = server(Scripted { code: 200, ..Scripted::default() }).await;
    let no_host = "pod p does not have a host assigned";
    let choose = "a container name must be specified for pod two, choose one of: [x y]";
    for (path, code, text) in [
        ("p/exec?command=ls", 400, no_host),
        ("p/exec?container=nope", 400, "container nope is not valid for pod p"),
        ("p/attach", 400, no_host),
        ("p/portforward?ports=80", 400, no_host),
        (
            "p/portforward?ports=x",
            400,
            "cannot convert to []int32: strconv.ParseUint: parsing \"x\": invalid syntax",
        ),
        ("two/exec?command=ls", 400, choose),
        ("two/log", 400, choose),
        ("p/proxy", 400, "address not allowed"),
        ("p:80:x:y/proxy/", 400, "invalid pod request \"p:80:x:y\""),
        ("nope/exec", 404, "pods \"nope\" not found"),
        ("nope/proxy/", 404, "pods \"nope\" not found"),
        ("lost/log", 404, "nodes \"gone\" not found"),
        (
            "q/log?tailLines=-1",
            422,
            "PodLogOptions \"q\" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0",
        ),
        ("q/exec?dryRun=All", 400, "dryRun is not supported"),
        ("q/exec", 400, "Upgrade request required"),
        ("q/log/more", 404, "the server could not find the requested resource"),
    ] {
        let answered = server.get(&format!("{PODS}/{path}")).await;
        assert_eq!((answered.code.as_u16(), message(&answered.text).as_str()), (code, text), "{path}");
    }
    let answered = server.get(&format!("{PODS}/p/log")).await;
    assert_eq!((answered.code.as_u16(), answered.text.as_str()), (204, ""), "there is no log yet");
    let answered = server.get("/api/v1/nodes/named/proxy/").await;
    assert_eq!(
        (answered.code.as_u16(), message(&answered.text).as_str()),
        (400, "lookup named.example: no such host")
    );
    assert!(backends.requests.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_addresses_that_were_checked_are_dialled() {
    let resolved = ["10.1.1.1", "10.1.1.2"].map(|address| address.parse().unwrap()).into();
    let (server, backends) = server(Scripted { code: 200, resolved, ..Scripted::default() }).await;
    for (path, line) in [
        (
            "/api/v1/namespaces/ns/pods/q/log?container=c&follow=1",
            "GET /containerLogs/ns/q/c?follow=true at [10.0.0.2:10250]",
        ),
        ("/api/v1/nodes/n/proxy/metrics?x=y", "GET /metrics?x=y at [10.0.0.2:10250]"),
        ("/api/v1/nodes/http:n:9100/proxy/a//../b/", "GET /b/ at [10.0.0.2:9100]"),
        ("/api/v1/nodes/named/proxy/x", "GET /x at [10.1.1.1:10250, 10.1.1.2:10250]"),
    ] {
        let answered = server.get(path).await;
        assert_eq!((answered.code.as_u16(), answered.text.as_str()), (200, "text"), "{path}");
        assert_eq!(backends.requests.lock().pop().as_deref(), Some(line), "{path}");
    }
    let mixed = ["10.1.1.1", "169.254.169.254"].map(|address| address.parse().unwrap()).into();
    let (server, backends) =
        self::server(Scripted { code: 200, resolved: mixed, ..Scripted::default() }).await;
    let answered = server.get("/api/v1/nodes/named/proxy/x").await;
    assert_eq!((answered.code.as_u16(), message(&answered.text).as_str()), (400, "address not allowed"));
    assert!(backends.requests.lock().is_empty());
}

#[tokio::test(start_paused = true)]
async fn failures_of_backends_are_told_as_the_reference_does() {
    let (unreachable, _) = server(Scripted { fails: true, ..Scripted::default() }).await;
    let upgrade = [("connection", "upgrade"), ("upgrade", "x")];
    for (path, headers, code, text) in [
        (
            "/api/v1/namespaces/ns/pods/q/log",
            &[][..],
            500,
            "Get \"https://10.0.0.2:10250/containerLogs/ns/q/c\": refused",
        ),
        ("/api/v1/nodes/n/proxy/x", &[], 503, "error trying to reach service: refused"),
        ("/api/v1/namespaces/ns/pods/q/exec", &upgrade, 500, "error dialing backend: refused"),
    ] {
        let answered = unreachable.send(Method::GET, path, headers, Body::empty()).await;
        assert_eq!((answered.code.as_u16(), message(&answered.text).as_str()), (code, text), "{path}");
    }
    for (code, told, text) in [
        (404, 404, "the server could not find the requested resource ( pods/log q)"),
        (400, 400, "text"),
        (500, 500, "Internal error occurred: text"),
        (
            502,
            502,
            "an error on the server (\"text\") has prevented the request from succeeding ( pods/log q)",
        ),
    ] {
        let (server, _) = server(Scripted { code, ..Scripted::default() }).await;
        let answered = server.get(&format!("{PODS}/q/log")).await;
        assert_eq!((answered.code.as_u16(), message(&answered.text).as_str()), (told, text), "{code}");
    }
}

/// Notes each connection, names the container `x` of the pod `two`, spoils the options for the pod `lost`, and lets nobody
/// attach.
struct Doorkeeper(Arc<Mutex<Vec<String>>>);

impl Plugin for Doorkeeper {
    fn name(&self) -> &'static str {
        "Doorkeeper"
    }

    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.operation == Operation::Connect
    }

    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        options: Option<&'a mut Value>,
        _view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        let Some(options) = options else { return rule(Ok(())) };
        let Attributes { action, namespace, name, user, .. } = *attributes;
        self.0.lock().push(format!("{} {action:?} {namespace}/{name} {options}", user.name));
        if name == "two" {
            options["container"] = json!("x");
        }
        if name == "lost" {
            options["command"] = json!({"not": "a list"});
        }
        rule(Ok(()))
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        options: Option<&'a Value>,
        _view: &'a View,
        _additions: &'a mut Additions,
    ) -> Ruling<'a> {
        assert!(options.is_some());
        rule(match attributes.action {
            Action::Attach => Err(Refusal::Forbidden("nobody attaches".to_owned())),
            _ => Ok(()),
        })
    }
}

#[tokio::test(start_paused = true)]
async fn connections_pass_admission_with_their_options() {
    let notes = Arc::new(Mutex::new(Vec::new()));
    let chain = Chain::new(vec![Box::new(Doorkeeper(notes.clone()))]);
    let (server, backends) = server_with(Scripted { code: 200, ..Scripted::default() }, chain).await;
    for (path, code, text, note) in [
        (
            "namespaces/ns/pods/two/exec?command=ls&stdin=1",
            400,
            "pod two does not have a host assigned",
            r#"system:admin Exec ns/two {"stdin":true,"command":["ls"]}"#,
        ),
        (
            "namespaces/ns/pods/q/attach?container=c",
            403,
            "pods \"q\" is forbidden: nobody attaches",
            r#"system:admin Attach ns/q {"container":"c"}"#,
        ),
        (
            "namespaces/ns/pods/q/portforward?ports=80,443",
            400,
            "Upgrade request required",
            r#"system:admin PortForward ns/q {"ports":[80,443]}"#,
        ),
        (
            "namespaces/ns/pods/lost/exec?command=ls",
            500,
            "Internal error occurred: after mutating admission, the options of exec cannot be read: ",
            r#"system:admin Exec ns/lost {"command":["ls"]}"#,
        ),
        ("nodes/n/proxy/metrics", 200, "", r#"system:admin Proxy /n {"path":"/metrics"}"#),
        ("namespaces/ns/pods/q/log", 200, "", ""),
    ] {
        let answered = server.get(&format!("/api/v1/{path}")).await;
        let told = message(&answered.text);
        // The rest of the one with a 500 is the decoder's.
        let told = if code == 500 { &told[..text.len().min(told.len())] } else { &told };
        assert_eq!((answered.code.as_u16(), told), (code, text), "{path}: {}", answered.text);
        let noted = std::mem::take(&mut *notes.lock());
        assert_eq!(noted, if note.is_empty() { vec![] } else { vec![note] }, "{path}");
    }
    assert_eq!(backends.requests.lock().len(), 2, "what is refused reaches no backend");
}

/// The configuration `name` of a webhook on connections to `exec`.
fn on_exec(name: &str) -> Value {
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CONNECT"], "resources": ["pods/exec"]});
    json!({"metadata": {"name": name}, "webhooks": [{
        "name": format!("{name}.example.com"), "clientConfig": {"url": format!("https://hook.example/{name}")},
        "rules": [rule], "sideEffects": "None", "admissionReviewVersions": ["v1"],
    }]})
}

#[tokio::test(start_paused = true)]
async fn webhooks_change_and_refuse_connections_by_their_options() {
    let asked = |call: &Call| -> Value { serde_json::from_slice(&call.document).unwrap() };
    let caller = Answering::new(move |call| {
        let review = asked(call);
        let request = &review["request"];
        let changes = call.url.target.starts_with("/change");
        let mut response =
            json!({"uid": request["uid"].clone(), "allowed": changes || request["name"] != "q"});
        if changes {
            let patch = json!([{"op": "add", "path": "/container", "value": "x"}]).to_string();
            response["patchType"] = json!("JSONPatch");
            response["patch"] = json!(STANDARD.encode(patch));
        }
        let head =
            json!({"kind": "AdmissionReview", "apiVersion": "admission.orch.io/v1", "response": response});
        Ok((200, head.to_string()))
    });
    let server = Server::new().await;
    let ambient: Arc<dyn Ambient> = server.clock.clone();
    let hooks: Arc<dyn Caller> = Arc::new(caller.clone());
    let webhooks =
        Webhooks::new(hooks, server.store.clone(), ambient.clone(), &ORCH, Routing::ClusterAddress);
    let selection = PluginSelection::parse(&[], &["ServiceAccount".to_owned()]).unwrap();
    let settings = Settings { selection, ..Settings::default() };
    let chain = Chain::configured(settings, &ambient, &NamespaceMaker::default(), &webhooks);
    let (server, _) = server_over(server, Scripted { code: 200, ..Scripted::default() }, chain).await;
    let group = "/apis/admissionregistration.orch.io/v1";
    server.create(&format!("{group}/mutatingwebhookconfigurations"), on_exec("change")).await;
    server.create(&format!("{group}/validatingwebhookconfigurations"), on_exec("judge")).await;
    for (pod, text) in [
        ("two", "pod two does not have a host assigned"),
        ("q", "admission webhook \"judge.example.com\" denied the request without explanation"),
    ] {
        let answered = server.get(&format!("{PODS}/{pod}/exec?command=ls")).await;
        assert_eq!((answered.code.as_u16(), message(&answered.text).as_str()), (400, text));
    }
    let calls = caller.calls();
    let paths: Vec<&str> = calls.iter().map(|call| call.url.target.split('?').next().unwrap()).collect();
    assert_eq!(paths, ["/change", "/judge", "/change", "/judge"]);
    let shown = &asked(&calls[1])["request"];
    assert_eq!((&shown["operation"], &shown["subResource"]), (&json!("CONNECT"), &json!("exec")));
    assert_eq!((&shown["kind"]["kind"], &shown["name"]), (&json!("PodExecOptions"), &json!("two")));
    assert_eq!((&shown["object"]["command"], &shown["object"]["container"]), (&json!(["ls"]), &json!("x")));
    assert_eq!(server.get(&format!("{PODS}/q/attach?container=c")).await.code, 400);
    assert_eq!(caller.calls().len(), 4, "other connections are none of theirs");
}

#[tokio::test(start_paused = true)]
async fn whoever_may_only_read_opens_no_stream() {
    let (server, backends) = server(Scripted { code: 200, ..Scripted::default() }).await;
    let roles = "/apis/rbac.authorization.orch.io/v1/namespaces/ns";
    for (name, verbs) in [("reader", json!(["get"])), ("user", json!(["get", "create"]))] {
        let rules = json!([{"apiGroups": [""], "resources": ["pods/exec"], "verbs": verbs}]);
        server.create(&format!("{roles}/roles"), json!({"metadata": {"name": name}, "rules": rules})).await;
        let binding = json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.orch.io", "kind": "Role", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.orch.io", "kind": "User", "name": name}],
        });
        server.create(&format!("{roles}/rolebindings"), binding).await;
    }
    let path = format!("{PODS}/q/exec?command=ls");
    for (user, method, text) in [
        ("reader", Method::GET, "pods \"q\" is forbidden: "),
        (
            "reader",
            Method::POST,
            "pods \"q\" is forbidden: User \"reader\" cannot create resource \"pods/exec\" in API group \"\" in the namespace \"ns\"",
        ),
        ("user", Method::GET, "invalid upgrade response: status code 200"),
    ] {
        let headers = [("impersonate-user", user), ("connection", "Upgrade"), ("upgrade", "websocket")];
        let answered = server.send(method, &path, &headers, Body::empty()).await;
        assert_eq!(message(&answered.text), text, "{user}");
        assert_eq!(answered.headers["connection"], "close", "{user}");
    }
    assert_eq!(backends.requests.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn streams_of_one_user_have_a_bound() {
    let (server, _) = server(Scripted { code: 200, ..Scripted::default() }).await;
    let path = format!("{PODS}/q/log");
    let mut open = Vec::new();
    loop {
        let response = server.open(Method::GET, &path, &[], Body::empty()).await;
        if response.status() == 429 {
            break;
        }
        assert_eq!(response.status(), 200);
        open.push(response);
    }
    assert_eq!(open.len(), 1024, "a quarter of the node's room");
    open.pop();
    assert_eq!(server.get(&path).await.code, 200, "a stream that ends gives its room back");
}

#[tokio::test(start_paused = true)]
async fn a_stream_has_an_event_at_its_start_and_one_at_its_end() {
    let (server, backends) = server(Scripted { code: 200, ..Scripted::default() }).await;
    let sink = Arc::new(MemorySink::default());
    let auditor = auditor("rules: [{level: Metadata}]", &sink, server.clock.clone());
    let api = server.api_over(server.store.clone()).connecting(connector(&backends));
    let server = Server { router: api.audited_by(Some(auditor)).router(), ..server };
    let take = || -> Vec<String> {
        let events = std::mem::take(&mut *sink.events.lock().unwrap());
        let outline = |event: &bytes::Bytes| {
            let event: Value = serde_json::from_slice(event).unwrap();
            let part = event["objectRef"]["subresource"].as_str().unwrap().to_owned();
            format!("{} {} {part}", event["stage"].as_str().unwrap(), event["verb"].as_str().unwrap())
        };
        events.iter().map(outline).collect()
    };
    for (path, part) in [(format!("{PODS}/q/log"), "log"), ("/api/v1/nodes/n/proxy/a/b".to_owned(), "proxy")]
    {
        let response = server.open(Method::GET, &path, &[], Body::empty()).await;
        assert_eq!(take(), ["RequestReceived", "ResponseStarted"].map(|stage| format!("{stage} get {part}")));
        drop(response);
        assert_eq!(take(), [format!("ResponseComplete get {part}")]);
    }
}
