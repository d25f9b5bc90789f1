//! Rights over HTTP: who may do what, from the next request on, and what is answered to those who ask.

use axum::body::Body;
use http::Method;
use orch_schema::json;
use orch_schema::value::Value;

use super::{Answered, Server};

const ROLES: &str = "/apis/rbac.authorization.orch.io/v1/namespaces/ns/roles";
const BINDINGS: &str = "/apis/rbac.authorization.orch.io/v1/namespaces/ns/rolebindings";
const MAPS: &str = "/api/v1/namespaces/ns/configmaps";

/// Grants `ann` these rules in the namespace `ns`.
async fn grant(server: &Server, rules: Value) {
    server.create(ROLES, json!({"metadata": {"name": "r"}, "rules": rules})).await;
    let subjects = json!([{"kind": "User", "name": "ann", "apiGroup": "rbac.authorization.orch.io"}]);
    let role = json!({"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.orch.io"});
    server.create(BINDINGS, json!({"metadata": {"name": "b"}, "roleRef": role, "subjects": subjects})).await;
}

/// A request as `ann`, whose body is JSON.
async fn ask(server: &Server, method: Method, path: &str, body: &Value) -> Answered {
    let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
    let patch = "application/apply-patch+yaml";
    let content_type = if method == Method::PATCH { patch } else { "application/json" };
    let headers = [("impersonate-user", "ann"), ("content-type", content_type)];
    server.send(method, path, &headers, body).await
}

fn rule(verbs: Value) -> Value {
    json!({"verbs": verbs, "apiGroups": [""], "resources": ["configmaps"]})
}

fn map(name: &str) -> Value {
    let metadata = json!({"name": name});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
}

#[tokio::test(start_paused = true)]
async fn a_grant_and_its_end_are_in_force_with_the_next_request() {
    let server = Server::new().await;
    assert_eq!(ask(&server, Method::GET, MAPS, &Value::Null).await.code, 403);
    grant(&server, json!([rule(json!(["list"]))])).await;
    assert_eq!(ask(&server, Method::GET, MAPS, &Value::Null).await.code, 200);
    let other = MAPS.replace("/ns/", "/other/");
    assert_eq!(ask(&server, Method::GET, &other, &Value::Null).await.code, 403);
    assert_eq!(server.delete(&format!("{BINDINGS}/b")).await.code, 200);
    assert_eq!(ask(&server, Method::GET, MAPS, &Value::Null).await.code, 403);
}

#[tokio::test(start_paused = true)]
async fn whoever_creates_by_put_or_apply_needs_the_right_to_create() {
    let server = Server::new().await;
    grant(&server, json!([rule(json!(["update", "patch"]))])).await;
    // A PUT creates only kinds that the reference lets it create.
    let leases = "/apis/coordination.orch.io/v1/namespaces/ns/leases";
    let lease = json!({
        "apiVersion": "coordination.orch.io/v1", "kind": "Lease", "metadata": {"name": "x"}, "spec": {},
    });
    let all = json!({"verbs": ["update"], "apiGroups": ["coordination.orch.io"], "resources": ["leases"]});
    server.merge(&format!("{ROLES}/r"), json!({"rules": [rule(json!(["update", "patch"])), all]})).await;
    let (put, apply) = (format!("{leases}/x"), format!("{MAPS}/x?fieldManager=m"));
    for (method, path, body) in [(Method::PUT, &put, &lease), (Method::PATCH, &apply, &map("x"))] {
        let refused = ask(&server, method.clone(), path, body).await;
        assert_eq!(refused.code, 403, "{method}: {}", refused.text);
        let told = refused.json()["message"].as_str().unwrap_or_default().to_owned();
        assert!(told.contains("cannot create resource"), "{told}");
    }
    assert_eq!(server.get(&format!("{MAPS}/x")).await.code, 404, "nothing was created");
    server.merge(&format!("{ROLES}/r"), json!({"rules": [rule(json!(["create", "patch"]))]})).await;
    assert_eq!(ask(&server, Method::PATCH, &apply, &map("x")).await.code, 201);
}

#[tokio::test(start_paused = true)]
async fn a_list_of_one_name_is_a_request_for_that_name() {
    let server = Server::new().await;
    server.create(MAPS, map("mine")).await;
    let mut one = rule(json!(["list", "watch", "deletecollection"]));
    orch_rules::validate::tree::set(&mut one, "resourceNames", json!(["mine"]));
    grant(&server, json!([one])).await;
    let selected = |field: &str| format!("{MAPS}?fieldSelector={field}");
    for (path, code) in [
        (selected("metadata.name%3Dmine"), 200),
        (selected("metadata.name%3Dother"), 403),
        (selected("metadata.name!%3Dmine"), 403),
        (MAPS.to_owned(), 403),
    ] {
        assert_eq!(ask(&server, Method::GET, &path, &Value::Null).await.code, code, "{path}");
    }
    let refused = ask(&server, Method::DELETE, &selected("metadata.name%3Dmine"), &Value::Null).await;
    assert_eq!(refused.code, 403, "a deletion of a collection names nothing");
}

#[tokio::test(start_paused = true)]
async fn methods_without_a_verb_are_no_reads() {
    let server = Server::new().await;
    grant(&server, json!([rule(json!(["get", "list"]))])).await;
    for method in [Method::OPTIONS, Method::TRACE, Method::from_bytes(b"PURGE").unwrap()] {
        assert_eq!(ask(&server, method.clone(), MAPS, &Value::Null).await.code, 403, "{method}");
    }
    grant_again(&server).await;
    let answered = ask(&server, Method::OPTIONS, MAPS, &Value::Null).await;
    assert_eq!(answered.code, 405, "it may, and there is no such method");
}

async fn grant_again(server: &Server) {
    server.merge(&format!("{ROLES}/r"), json!({"rules": [rule(json!(["options"]))]})).await;
}

#[tokio::test(start_paused = true)]
async fn nobody_grants_more_than_they_have() {
    let server = Server::new().await;
    let roles = json!({
        "verbs": ["create", "update", "patch"], "apiGroups": ["rbac.authorization.orch.io"],
        "resources": ["roles", "rolebindings"],
    });
    grant(&server, json!([roles, rule(json!(["get"]))])).await;
    let role = |name: &str, verb: &str| json!({"metadata": {"name": name}, "rules": [rule(json!([verb]))]});
    assert_eq!(ask(&server, Method::POST, ROLES, &role("own", "get")).await.code, 201);
    let refused = ask(&server, Method::POST, ROLES, &role("more", "delete")).await;
    assert_eq!(refused.code, 403);
    assert!(refused.text.contains("attempting to grant RBAC permissions not currently held"));
    assert_eq!(ask(&server, Method::PUT, &format!("{ROLES}/own"), &role("own", "delete")).await.code, 403);
}

#[tokio::test(start_paused = true)]
async fn those_who_ask_are_told_what_they_may() {
    let server = Server::new().await;
    grant(&server, json!([rule(json!(["get"]))])).await;
    let reviews = "/apis/authorization.orch.io/v1/subjectaccessreviews";
    for (user, verb, allowed) in [("ann", "get", true), ("ann", "delete", false), ("tom", "get", false)] {
        let attributes = json!({"namespace": "ns", "verb": verb, "resource": "configmaps"});
        let review = json!({"spec": {"user": user, "resourceAttributes": attributes}});
        let answered = server.create(reviews, review).await;
        assert_eq!(answered["status"]["allowed"], allowed, "{user} {verb}");
    }
    let rules = "/apis/authorization.orch.io/v1/selfsubjectrulesreviews";
    let asked = json!({"spec": {"namespace": "ns"}});
    let answered = server.create(rules, asked.clone()).await;
    assert_eq!(answered["status"]["resourceRules"], json!(null), "rules are those of roles");
    let all = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    let rbac = "/apis/rbac.authorization.orch.io/v1";
    let role = json!({"metadata": {"name": "cluster-admin"}, "rules": [all]});
    server.create(&format!("{rbac}/clusterroles"), role).await;
    let binding = json!({
        "metadata": {"name": "cluster-admin"},
        "subjects": [
            {"kind": "Group", "apiGroup": "rbac.authorization.orch.io", "name": "system:masters"},
            {"kind": "User", "apiGroup": "rbac.authorization.orch.io", "name": "system:admin"},
        ],
        "roleRef": {"kind": "ClusterRole", "apiGroup": "rbac.authorization.orch.io", "name": "cluster-admin"},
    });
    server.create(&format!("{rbac}/clusterrolebindings"), binding).await;
    let answered = server.create(rules, asked).await;
    assert_eq!(answered["status"]["incomplete"], false);
    assert_eq!(
        answered["status"]["resourceRules"],
        json!([all]),
        "a binding counts once, though two of its subjects are the administrator"
    );
    let who = "/apis/authentication.orch.io/v1/selfsubjectreviews";
    let refused = ask(&server, Method::POST, who, &json!({})).await;
    assert_eq!(refused.code, 403, "without the default roles nobody may ask who they are");
    let answered = server.create(who, json!({})).await;
    assert_eq!(answered["status"]["userInfo"]["username"], "system:admin");
    let stored = server.get(reviews).await;
    assert_eq!(stored.code, 405, "a review is not stored");
}

#[tokio::test(start_paused = true)]
async fn a_watch_ends_with_the_right_to_it() {
    let server = Server::new().await;
    grant(&server, json!([rule(json!(["watch"]))])).await;
    let watch = format!("{MAPS}?watch=true&timeoutSeconds=600");
    let began = tokio::time::Instant::now();
    assert_eq!(ask(&server, Method::GET, &watch, &Value::Null).await.code, 200);
    assert_eq!(began.elapsed().as_secs(), 600, "it lasts as long as the right");
    let began = tokio::time::Instant::now();
    let revoked = async {
        tokio::time::sleep(std::time::Duration::from_secs(90)).await;
        server.delete(&format!("{BINDINGS}/b")).await;
    };
    let (answered, ()) = tokio::join!(ask(&server, Method::GET, &watch, &Value::Null), revoked);
    assert_eq!(answered.code, 200);
    assert_eq!(began.elapsed().as_secs(), 120, "the right is asked for every minute");
}
