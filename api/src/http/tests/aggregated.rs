//! Groups and versions that another server answers, with servers that write down what they get.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures::future::{BoxFuture, ready};
use futures::{FutureExt, StreamExt};
use http::{Method, Request, Response};
use parking_lot::Mutex;

use super::audits::{MemorySink, auditor};
use super::*;
use crate::aggregation::described::Description;
use crate::aggregation::{Aggregation, OwnService, Relay, Server as Target, ServerTrust};
use crate::connect::BackendError;
use crate::egress::{EgressError, Url};
use crate::flow::Options;
use crate::http::Lasting;
use crate::metrics::Exposition;
use crate::registry::Handle;
use crate::webhook::{Call, Caller, Purpose, Routing};

const API_SERVICES: &str = "/apis/apiregistration.orch.io/v1/apiservices";
const THINGS: &str = "/apis/a.example.com/v1/things";

/// A server that answers every request alike.
pub(super) struct Scripted {
    /// Requests: method, target, and the headers whose names begin as given.
    pub(super) seen: Mutex<Vec<String>>,
    targets: Mutex<Vec<Target>>,
    code: u16,
    headers: Vec<(&'static str, &'static str)>,
    fails: bool,
    /// It does not answer.
    hangs: bool,
    /// The body of the answer does not end.
    is_endless: bool,
    /// `Via` of the requests.
    hops: Mutex<Vec<String>>,
    /// The ends of connections that leave HTTP.
    ends: Mutex<Vec<BoxFuture<'static, ()>>>,
}

impl Default for Scripted {
    fn default() -> Self {
        Scripted {
            seen: Mutex::default(),
            targets: Mutex::default(),
            code: 200,
            headers: vec![],
            fails: false,
            hangs: false,
            is_endless: false,
            hops: Mutex::default(),
            ends: Mutex::default(),
        }
    }
}

impl std::fmt::Debug for Scripted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scripted").field("seen", &self.seen).finish_non_exhaustive()
    }
}

impl Relay for Scripted {
    fn relay(
        &self,
        server: Target,
        request: Request<Body>,
    ) -> BoxFuture<'static, Result<Response<Body>, BackendError>> {
        let mut told: Vec<String> = request
            .headers()
            .iter()
            .filter(|(name, _)| !["audit-id", "x-forwarded-for", "via"].contains(&name.as_str()))
            // The recorder of another test gives requests traces of their own. Those of tests have small ids.
            .filter(|(name, value)| {
                *name != "traceparent" || value.as_bytes().starts_with(b"00-0000000000000000")
            })
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        told.sort();
        self.seen.lock().push(format!("{} {} {}", request.method(), request.uri(), told.join(", ")));
        self.targets.lock().push(server);
        if self.hangs {
            return Box::pin(std::future::pending());
        }
        if self.fails {
            return ready(Err(BackendError::Dial("refused".to_owned()))).boxed();
        }
        let mut answer = Response::builder().status(self.code);
        for (name, value) in &self.headers {
            answer = answer.header(*name, *value);
        }
        let hops = request.headers().get_all("via").iter().map(|via| via.to_str().unwrap().to_owned());
        self.hops.lock().extend(hops);
        self.ends.lock().extend(request.extensions().get::<Lasting>().and_then(Lasting::take_end));
        let body = match self.is_endless {
            false => Body::from("text"),
            true => {
                let first = futures::stream::once(async { Ok::<_, std::io::Error>(Bytes::from("text")) });
                Body::from_stream(first.chain(futures::stream::pending()))
            }
        };
        ready(Ok(answer.body(body).unwrap())).boxed()
    }
}

/// A server whose group `a.example.com` is answered by `scripted`, once it is `available`.
pub(super) async fn server(scripted: Scripted, available: &str) -> (Server, Arc<Scripted>, Aggregation) {
    server_with((scripted, available), |api, _| api).await
}

/// The same, of an API that `change` changes.
async fn server_with(
    (scripted, available): (Scripted, &str),
    change: impl FnOnce(Api<MemoryStore>, &Server) -> Api<MemoryStore>,
) -> (Server, Arc<Scripted>, Aggregation) {
    let (server, scripted) = (Server::new().await, Arc::new(scripted));
    let mut pipeline = pipeline(server.store.clone(), server.clock.clone(), Features::default());
    let aggregation =
        Aggregation::none(Builder::BlockingThread).through(scripted.clone(), Routing::ClusterAddress);
    pipeline.aggregation = aggregation.clone();
    let api = change(Api::new(Arc::new(pipeline), server.stopping.clone()), &server);
    let server = Server { router: api.router(), ..server };
    let spec = json!({"type": "ExternalName", "externalName": "things.example.com"});
    server.create("/api/v1/namespaces/ns/services", json!({"metadata": {"name": "s"}, "spec": spec})).await;
    register(&server, "v1.a.example.com", "a.example.com", available).await;
    (server, scripted, aggregation)
}

async fn register(server: &Server, name: &str, group: &str, available: &str) {
    let spec = json!({
        "group": group, "version": "v1", "groupPriorityMinimum": 20000, "versionPriority": 15,
        "insecureSkipTLSVerify": true, "service": {"namespace": "ns", "name": "s", "port": 8443},
    });
    server.create(API_SERVICES, json!({"metadata": {"name": name}, "spec": spec})).await;
    let status = json!({"conditions": [{"type": "Available", "status": available}]});
    let answered = server.merge(&format!("{API_SERVICES}/{name}/status"), json!({"status": status})).await;
    assert_eq!(answered.code, StatusCode::OK, "{}", answered.text);
}

#[tokio::test(start_paused = true)]
async fn a_request_is_passed_on_under_the_identity_of_its_user() {
    let (server, scripted, _) = server(Scripted::default(), "True").await;
    let headers = [
        ("impersonate-user", "zoe"),
        ("impersonate-group", "system:masters"),
        ("impersonate-extra-team", "blue"),
        ("x-remote-user", "mallory"),
        ("x-remote-extra-fake", "x"),
        ("impersonate_user", "admin"),
        ("x-http-method-override", "DELETE"),
        ("x_original_url", "/apis/a.example.com/v1/others"),
        ("connection", "x-of-connection"),
        ("x-of-connection", "y"),
    ];
    let target = format!("{THINGS}?limit=5&labelSelector=a%3Db&x=y%20z");
    let answered = server.send(Method::POST, &target, &headers, Body::from("body")).await;
    assert_eq!((answered.code.as_u16(), answered.text.as_str()), (200, "text"));
    assert_eq!(
        scripted.seen.lock().as_slice(),
        [format!(
            "POST {THINGS}?labelSelector=a%3Db&limit=5&x=y+z host: things.example.com:8443, \
             x-remote-extra-team: blue, x-remote-group: system:authenticated, x-remote-group: system:masters, \
             x-remote-user: zoe"
        )]
    );
    let expected = Target {
        name: "s.ns.svc".to_owned(),
        at: ("things.example.com".to_owned(), 8443),
        trust: ServerTrust::Anyone,
    };
    assert_eq!(scripted.targets.lock().as_slice(), [expected]);
    let page = server.get("/apis/a.example.com/v1").await;
    assert_eq!(page.text, "text", "documents of the version are the server's, too");
    let version = server.get("/apis/a.example.com/v2/things").await;
    assert_eq!((version.code.as_u16(), version.text.as_str()), (404, "404 page not found\n"));
}

#[tokio::test(start_paused = true)]
async fn nobody_without_the_right_reaches_the_server() {
    let (server, scripted, _) = server(Scripted::default(), "True").await;
    let answered = server.send(Method::GET, THINGS, &[("impersonate-user", "zoe")], Body::empty()).await;
    assert_eq!(answered.code, StatusCode::FORBIDDEN);
    let message = "things.a.example.com is forbidden: User \"zoe\" cannot list resource \"things\" in API group \
                   \"a.example.com\" at the cluster scope";
    assert_eq!(answered.json()["message"], message);
    for path in [format!("{THINGS}/../../../../api/v1/secrets"), format!("{THINGS}/%2e%2e/x")] {
        assert_eq!(server.get(&path).await.code, StatusCode::BAD_REQUEST, "{path}");
    }
    assert_eq!(scripted.seen.lock().len(), 0);
}

/// Gives the user `zoe` the right to documents below `/apis`, as authenticated users have it, and to read single things.
async fn let_zoe_get_things(server: &Server) {
    let rules = json!([
        {"verbs": ["get"], "nonResourceURLs": ["/apis", "/apis/*", "/openapi", "/openapi/*"]},
        {"verbs": ["get"], "apiGroups": ["a.example.com"], "resources": ["things"]},
    ]);
    let roles = "/apis/rbac.authorization.orch.io/v1/clusterroles";
    server.create(roles, json!({"metadata": {"name": "r"}, "rules": rules})).await;
    bind_zoe(server).await;
}

/// Gives the user `zoe` what the role `r` grants.
async fn bind_zoe(server: &Server) {
    let group = "rbac.authorization.orch.io";
    let binding = json!({
        "metadata": {"name": "b"},
        "subjects": [{"kind": "User", "apiGroup": group, "name": "zoe"}],
        "roleRef": {"kind": "ClusterRole", "apiGroup": group, "name": "r"},
    });
    server.create(&format!("/apis/{group}/v1/clusterrolebindings"), binding).await;
}

/// The output of `answer`, which goes on while `zoe` has the right to it and ends soon after that is taken away.
async fn end_with_the_right<F: Future + Unpin>(server: &Server, mut answer: F) -> F::Output {
    let early = tokio::time::timeout(Duration::from_secs(600), &mut answer).await;
    assert!(early.is_err(), "it goes on while the right is there");
    take_all_from_zoe(server).await;
    tokio::time::timeout(Duration::from_secs(61), answer).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_right_to_documents_reads_no_resource_by_a_path_that_is_none() {
    let (server, scripted, _) = server(Scripted::default(), "True").await;
    let_zoe_get_things(&server).await;
    let get = async |path: &str| {
        server.send(Method::GET, path, &[("impersonate-user", "zoe")], Body::empty()).await.code.as_u16()
    };
    let deep = format!("{THINGS}/x/y{}", "/a".repeat(27));
    for (path, code) in [
        ("/apis/a.example.com/v1//things", 400),
        ("/apis/a.example.com/v1/%2fthings", 400),
        ("/apis/a.example.com/v1/things//", 400),
        ("/apis/a.example.com/v1//", 400),
        (deep.as_str(), 400),
        ("/apis/a.example.com/v1/things/%252e%252e", 400),
        ("/apis/a.example.com/v1/things/..;/x", 403),
        ("/apis/a.example.com/v1/things/..;", 400),
        ("/apis//a.example.com/v1/things", 404),
        ("/apis/a.example.com//v1/things", 404),
        ("//apis/a.example.com/v1/things", 403),
        ("/apis//x", 404),
        ("/apis/a.example.com/v1%2fthings", 403),
        ("/apis/a.example.com/v1/watch", 404),
        ("/openapi/v3/apis/a.example.com/v1/things", 404),
        (THINGS, 403),
    ] {
        assert_eq!(get(path).await, code, "{path}");
    }
    assert_eq!(scripted.seen.lock().len(), 0);
    for path in ["/apis/a.example.com/v1", "/apis/a.example.com/v1/", "/openapi/v3/apis/a.example.com/v1"] {
        assert_eq!(get(path).await, 200, "{path}");
        let seen = scripted.seen.lock().pop().unwrap();
        assert!(seen.starts_with(&format!("GET {path} ")), "{seen}");
    }
}

#[tokio::test(start_paused = true)]
async fn authorization_audit_and_flow_control_see_what_the_server_is_asked() {
    let sink = Arc::new(MemorySink::default());
    let options = Options { is_fair: true, reads_max: 9, writes_max: 9 };
    let (server, scripted, _) = server_with((Scripted::default(), "True"), |api, server| {
        let auditor = auditor("rules: [{level: Metadata}]", &sink, server.clock.clone());
        api.controlled(options).audited_by(Some(auditor))
    })
    .await;
    let_zoe_get_things(&server).await;
    let rule = json!({
        "subjects": [{"kind": "User", "user": {"name": "zoe"}}],
        "resourceRules": [{
            "verbs": ["get"], "apiGroups": ["a.example.com"], "resources": ["things"], "clusterScope": true,
        }],
    });
    let level = json!({"name": "catch-all"});
    let spec = json!({"priorityLevelConfiguration": level, "matchingPrecedence": 9, "rules": [rule]});
    let schemas = "/apis/flowcontrol.apiserver.orch.io/v1/flowschemas";
    let schema = server.create(schemas, json!({"metadata": {"name": "of-things"}, "spec": spec})).await;
    for path in [format!("{THINGS}/x"), format!("{THINGS}%2Fx"), format!("{THINGS}/%78")] {
        sink.events.lock().unwrap().clear();
        let headers = [("impersonate-user", "zoe")];
        let answered = server.send(Method::GET, &path, &headers, Body::empty()).await;
        assert_eq!(answered.code.as_u16(), 200, "{path}: {}", answered.text);
        let seen = scripted.seen.lock().pop().unwrap();
        assert!(seen.starts_with(&format!("GET {THINGS}/x ")), "{seen}");
        assert_eq!(answered.headers["x-orch-pf-flowschema-uid"], schema["metadata"]["uid"].as_str().unwrap());
        let event: Value = serde_json::from_slice(sink.events.lock().unwrap().last().unwrap()).unwrap();
        let about = &event["objectRef"];
        assert_eq!(
            (&about["apiGroup"], &about["resource"], &about["name"], &event["verb"]),
            (&json!("a.example.com"), &json!("things"), &json!("x"), &json!("get")),
            "{path}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_that_comes_back_goes_round_no_more() {
    let (server, scripted, aggregation) = server(Scripted::default(), "True").await;
    let via = [("via", "1.1 other")];
    assert_eq!(server.send(Method::GET, THINGS, &via, Body::empty()).await.code, StatusCode::OK);
    let own = format!("1.1 {}", aggregation.hop(|| unreachable!("it has a name")));
    assert_eq!(*scripted.hops.lock(), ["1.1 other".to_owned(), own.clone()]);
    for via in [own.clone(), format!("1.1 other, {own}"), format!("1.0 x,{own} (c)")] {
        let headers = [("via", via.as_str())];
        let answered = server.send(Method::GET, THINGS, &headers, Body::empty()).await;
        assert_eq!(answered.code, StatusCode::LOOP_DETECTED, "{via}");
    }
    assert_eq!(scripted.seen.lock().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_watch_of_another_server_ends_with_the_right_to_it() {
    let endless = Scripted { is_endless: true, ..Scripted::default() };
    let (server, _, _) = server(endless, "True").await;
    let_zoe_get_things(&server).await;
    let_zoe(&server, &["watch"]).await;
    let (path, zoe) = (format!("{THINGS}?watch=true"), [("impersonate-user", "zoe")]);
    let answer = server.open(Method::GET, &path, &zoe, Body::empty()).await;
    assert_eq!(answer.status(), StatusCode::OK);
    let ended = end_with_the_right(&server, Box::pin(answer.into_body().collect())).await;
    assert_eq!(ended.unwrap().to_bytes(), "text");
    let refused = server.open(Method::GET, &path, &zoe, Body::empty()).await;
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
}

/// Lets the user `zoe`, who may get things, apply these verbs to them, too.
async fn let_zoe(server: &Server, verbs: &[&str]) {
    let rules = json!({"rules": [{"verbs": verbs.to_vec(), "apiGroups": ["a.example.com"], "resources": ["things"]}]});
    let role = "/apis/rbac.authorization.orch.io/v1/clusterroles/r";
    assert_eq!(server.merge(role, rules).await.code, StatusCode::OK);
}

async fn take_all_from_zoe(server: &Server) {
    let binding = "/apis/rbac.authorization.orch.io/v1/clusterrolebindings/b";
    assert_eq!(server.delete(binding).await.code, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_left_http_ends_with_the_right_to_it() {
    let (server, scripted, _) = server(Scripted::default(), "True").await;
    let_zoe_get_things(&server).await;
    let_zoe(&server, &["watch", "list"]).await;
    let headers = [("impersonate-user", "zoe"), ("connection", "upgrade"), ("upgrade", "websocket")];
    let mut ends = Vec::new();
    for path in [format!("{THINGS}?watch=true"), THINGS.to_owned()] {
        server.send(Method::GET, &path, &headers, Body::empty()).await;
        ends.push(scripted.ends.lock().pop().unwrap());
    }
    end_with_the_right(&server, futures::future::join_all(ends)).await;
}

#[tokio::test(start_paused = true)]
async fn a_long_answer_breaks_off_with_the_right_to_it() {
    let endless = Scripted { is_endless: true, ..Scripted::default() };
    let (server, _, _) = server(endless, "True").await;
    let_zoe_get_things(&server).await;
    let zoe = [("impersonate-user", "zoe")];
    for path in [format!("{THINGS}/x"), "/apis/a.example.com/v1".to_owned()] {
        let answer = server.open(Method::GET, &path, &zoe, Body::empty()).await;
        assert_eq!(answer.status(), StatusCode::OK);
        let ended = end_with_the_right(&server, Box::pin(answer.into_body().collect())).await;
        assert!(ended.is_err(), "{path}: a part is not taken for the whole");
        bind_zoe(&server).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stops_ends_watches_of_other_servers_and_no_other_answers() {
    let endless = Scripted { is_endless: true, ..Scripted::default() };
    let (server, _, _) = server(endless, "True").await;
    let body = async |path: &str| {
        let answer = server.open(Method::GET, path, &[], Body::empty()).await;
        Box::pin(answer.into_body().collect())
    };
    let (watch, list) = (body(&format!("{THINGS}?watch=true")).await, body(THINGS).await);
    server.stopping.cancel();
    assert!(tokio::time::timeout(Duration::from_secs(1), watch).await.unwrap().is_ok());
    assert!(tokio::time::timeout(Duration::from_secs(1), list).await.is_err());
}

#[tokio::test]
async fn a_built_in_group_is_never_given_away() {
    let (server, scripted, aggregation) = server(Scripted::default(), "True").await;
    register(&server, "v1.apps", "apps", "True").await;
    let answered = server.get("/apis/apps/v1/deployments").await;
    assert_eq!(answered.json()["kind"], "DeploymentList");
    let own = server.get("/openapi/v3").await.json()["paths"]["apis/apps/v1"].clone();
    aggregation
        .descriptions()
        .set_openapi(&"v1.apps".into(), Some("/openapi/v3/apis/apps/v1?hash=0".to_owned()));
    assert_eq!(server.get("/openapi/v3").await.json()["paths"]["apis/apps/v1"], own);
    assert_eq!(server.get("/apis/apps").await.json()["preferredVersion"]["version"], "v1");
    assert_eq!(scripted.seen.lock().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn failures_of_a_server_have_the_words_of_the_reference() {
    let redirect =
        Scripted { code: 302, headers: vec![("location", "https://evil.example/")], ..Scripted::default() };
    let fails = Scripted { fails: true, ..Scripted::default() };
    for (scripted, available, code, text) in [
        (redirect, "True", 502, "the backend attempted to redirect this request, which is not permitted"),
        (fails, "True", 503, "error trying to reach service: refused"),
        (Scripted::default(), "False", 503, "service unavailable\n"),
    ] {
        let (server, _, _) = server(scripted, available).await;
        let answered = server.get(THINGS).await;
        assert_eq!((answered.code.as_u16(), answered.text.as_str()), (code, text));
        assert!(answered.headers["content-type"].to_str().unwrap().starts_with("text/plain"));
        assert!(!answered.headers.contains_key("location"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_hangs_has_five_seconds_for_its_documents_and_a_minute_for_the_rest() {
    let (server, _, _) = server(Scripted { hangs: true, ..Scripted::default() }, "True").await;
    for (path, seconds) in [
        ("/apis/a.example.com/v1", 5),
        ("/apis/a.example.com/v1/", 5),
        ("/apis/a.example.com/v1?timeout=2s", 2),
        ("/openapi/v3/apis/a.example.com/v1", 60),
        (THINGS, 60),
    ] {
        let began = tokio::time::Instant::now();
        let answered = server.get(path).await;
        let told = "error trying to reach service: context deadline exceeded";
        assert_eq!((answered.code.as_u16(), answered.text.as_str()), (503, told), "{path}");
        assert_eq!(began.elapsed().as_secs(), seconds, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn headers_of_an_answer_pass_but_for_those_of_its_connection() {
    let headers =
        vec![("warning", "299 - \"mine\""), ("access-control-allow-origin", "*"), ("keep-alive", "5")];
    let (server, _, _) = server(Scripted { code: 418, headers, ..Scripted::default() }, "True").await;
    let answered = server.get(THINGS).await;
    assert_eq!(answered.code.as_u16(), 418);
    assert_eq!(answered.headers["warning"], "299 - \"mine\"");
    assert!(
        ["access-control-allow-origin", "keep-alive"]
            .iter()
            .all(|name| !answered.headers.contains_key(*name))
    );
}

#[tokio::test]
async fn discovery_tells_of_every_server_and_waits_for_none() {
    let (server, scripted, aggregation) = server(Scripted::default(), "True").await;
    let listed = server.get("/apis").await.json();
    let version = json!({"groupVersion": "a.example.com/v1", "version": "v1"});
    let own = json!({"name": "a.example.com", "versions": [version.clone()], "preferredVersion": version});
    assert_eq!(listed["groups"][0], own, "its rank is above all others");
    assert_eq!(listed["groups"][1]["name"], "apiregistration.orch.io");
    let group = server.get("/apis/a.example.com").await.json();
    assert_eq!((&group["kind"], &group["preferredVersion"]), (&json!("APIGroup"), &own["preferredVersion"]));
    let accept = [("accept", "application/json;g=apidiscovery.orch.io;v=v2;as=APIGroupDiscoveryList")];
    let item = || async {
        let answered = server.send(Method::GET, "/apis", &accept, Body::empty()).await.json();
        answered["items"][0].clone()
    };
    let metadata = json!({"name": "a.example.com"});
    let stale = json!({"metadata": metadata.clone(), "versions": [{"version": "v1", "freshness": "Stale"}]});
    assert_eq!(item().await, stale);
    let resources = vec![json!({"resource": "things"})];
    let name: Arc<str> = "v1.a.example.com".into();
    aggregation.descriptions().set(&name, Description::Current(resources.clone().into()));
    let current = json!({"version": "v1", "resources": resources, "freshness": "Current"});
    assert_eq!(item().await, json!({"metadata": metadata, "versions": [current]}));
    assert_eq!(scripted.seen.lock().len(), 0, "no server is asked by a reader");
    server.delete(&format!("{API_SERVICES}/v1.a.example.com")).await;
    assert_eq!(server.get("/apis/a.example.com").await.text, "404 page not found\n");
    assert_eq!(server.get("/apis").await.json()["groups"][0]["name"], "apiregistration.orch.io");
}

#[tokio::test]
async fn openapi_documents_of_a_server_are_in_the_index_and_come_from_it() {
    let (server, scripted, aggregation) = server(Scripted::default(), "True").await;
    const URL: &str = "/openapi/v3/apis/a.example.com/v1?hash=0AF";
    let before = server.get("/openapi/v3").await;
    assert!(before.json()["paths"]["apis/a.example.com/v1"].is_null());
    aggregation.descriptions().set_openapi(&"v1.a.example.com".into(), Some(URL.to_owned()));
    let index = server.get("/openapi/v3").await;
    let paths = index.json()["paths"].clone();
    assert_eq!(paths["apis/a.example.com/v1"]["serverRelativeURL"], URL);
    assert!(paths["apis/apps/v1"].is_object());
    assert_ne!(before.headers["etag"], index.headers["etag"]);
    assert_eq!(server.get(URL).await.text, "text");
    assert!(scripted.seen.lock()[0].starts_with(&format!("GET {URL} ")));
    assert_eq!(server.get("/openapi/v3/apis/apps/v1").await.json()["openapi"], "3.0.0");
}

#[tokio::test]
async fn documents_of_version_2_are_merged_and_those_of_version_3_made_of_them() {
    use crate::aggregation::openapi::Kept;
    let (server, scripted, aggregation) = server(Scripted::default(), "True").await;
    let answer = json!({"200": {"description": "OK", "schema": {"$ref": "#/definitions/com.example.Thing"}}});
    let paths = json!({
        "/apis/a.example.com/v1/things": {"get": {"operationId": "listThings", "responses": answer}},
        "/apis/apps/v1/deployments": {"get": {"responses": {}}},
    });
    let definitions = json!({"com.example.Thing": {"type": "object", "description": "A thing."}});
    let text = json!({"swagger": "2.0", "paths": paths, "definitions": definitions}).to_string();
    let before = server.get("/openapi/v2").await;
    let kept = Kept::of((text.as_bytes(), "\"1\""), "/apis/a.example.com/v1", true, &orch_proto::brand::ORCH);
    aggregation.documents().set(&"v1.a.example.com".into(), Some(kept.unwrap()));
    let merged = server.get("/openapi/v2").await;
    assert_ne!(before.headers["etag"], merged.headers["etag"]);
    let (before, merged) = (before.json(), merged.json());
    assert_eq!(merged["definitions"]["com.example.Thing"]["description"], "A thing.");
    assert_eq!(merged["paths"]["/apis/a.example.com/v1/things"]["get"]["operationId"], "listThings");
    assert_eq!(merged["paths"]["/apis/apps/v1/deployments"], before["paths"]["/apis/apps/v1/deployments"]);
    let count = |document: &Value| document["paths"].as_object().unwrap().len();
    assert_eq!(count(&merged), count(&before) + 1);
    let index = server.get("/openapi/v3").await.json();
    let url = index["paths"]["apis/a.example.com/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    let made = server.get(&url).await.json();
    assert_eq!(made["components"]["schemas"]["com.example.Thing"]["description"], "A thing.");
    assert_eq!(scripted.seen.lock().len(), 0, "no server is asked by a reader");
    aggregation.descriptions().set_openapi(&"v1.a.example.com".into(), Some(url.clone()));
    assert_eq!(server.get(&url).await.text, "text", "its own counts");
}

/// A page of metrics without any but those of requests.
struct Page;

impl Exposition for Page {
    fn render(&self) -> String {
        String::new()
    }
}

#[tokio::test(start_paused = true)]
async fn requests_for_anything_in_an_aggregated_group_have_series_of_their_methods_alone() {
    let scripted = Scripted { code: 299, ..Scripted::default() };
    let (server, _, _) = server_with((scripted, "True"), |api, _| api.exposing(Arc::new(Page))).await;
    let methods = ["GET", "PUT", "MKCOL", "X-1", "X-2", "X-3"]
        .map(|method| Method::from_bytes(method.as_bytes()).unwrap());
    for at in 0..120 {
        let method = methods[at % methods.len()].clone();
        let path = format!("/apis/a.example.com/v1/namespaces/n{at}/unheard-of-{at}/name-{at}/part-{at}");
        server.send(method, &path, &[], Body::empty()).await;
    }
    let text = server.get("/metrics").await.text;
    assert!(!text.contains("unheard-of") && !text.contains("part-"), "a path is no label");
    let mut counted: Vec<&str> = text
        .lines()
        .filter(|line| {
            line.starts_with("apiserver_request_total{") && line.contains("component=\"aggregator\"")
        })
        .collect();
    counted.sort_unstable();
    let of = |verb: &str| counted.iter().filter(|line| line.contains(&format!("verb=\"{verb}\""))).count();
    assert_eq!([of("GET"), of("PUT"), of("other"), counted.len()], [1, 1, 1, 3], "{counted:#?}");
    assert!(counted.iter().all(|line| line.contains("code=\"other\"")), "{counted:#?}");
}

#[tokio::test(start_paused = true)]
async fn a_webhook_at_this_servers_own_service_is_a_collection_of_an_aggregated_group() {
    let (server, scripted, aggregation) = server(Scripted::default(), "True").await;
    let served = Handle::new(Registry::builtin(&ORCH));
    let own = OwnService::new(aggregation, server.store.clone(), served, server.clock.clone());
    let call = async |target: &str, answer_bytes_max: usize| {
        let url = Url::parse(&format!("https://orch.default.svc{target}")).unwrap();
        let (document, timeout) = (Bytes::from_static(b"{}"), Duration::from_secs(5));
        let purpose = Purpose::default();
        own.call(Call {
            purpose,
            url,
            at: None,
            authorities: None,
            document,
            timeout,
            answer_bytes_max,
            trace: None,
        })
        .await
    };
    let reply = call(&format!("{THINGS}?timeout=5s"), 4).await.unwrap();
    assert_eq!((reply.status, &*reply.body), (200, b"text".as_slice()));
    let seen = scripted.seen.lock().pop().unwrap();
    assert_eq!(
        seen,
        format!(
            "POST {THINGS}?timeout=5s accept: application/json, content-length: 2, content-type: application/json, \
             host: things.example.com:8443, user-agent: orch/{}, x-remote-group: system:authenticated, \
             x-remote-group: system:masters, x-remote-user: system:apiserver",
            env!("CARGO_PKG_VERSION")
        )
    );
    let large = call(THINGS, 3).await;
    assert!(matches!(large, Err(EgressError::TooLarge { .. })), "{large:?}");
    scripted.seen.lock().clear();
    for path in [
        "/api/v1/namespaces",
        "/apis/apps/v1/deployments",
        "/apis/b.example.com/v1/things",
        "/apis/a.example.com/v1",
        "/apis/a.example.com/v1/namespaces/ns/things",
        "/apis/a.example.com/v1/things/x",
        "/apis/a.example.com/v1/things/x/proxy",
        "/healthz",
    ] {
        let answered = call(path, 4).await;
        assert!(matches!(answered, Err(EgressError::Unreachable { .. })), "{path}: {answered:?}");
    }
    assert_eq!(scripted.seen.lock().len(), 0);
}
