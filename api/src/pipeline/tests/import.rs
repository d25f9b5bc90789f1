//! Imports: objects keep the identity that another server gave them, by a right of its own.

use http::Method;

use super::{JSON, MAPS, PODS, Server, User, Value, json, map, pod};

const UID: &str = "6a2ef3c2-5d0e-4f3e-9d7e-2b3c5f6a7b8c";
const SERVICES: &str = "/api/v1/namespaces/ns/services";

/// `object` as another server has stored it.
fn stored(mut object: Value) -> Value {
    let metadata = &mut object["metadata"];
    metadata["uid"] = json!(UID);
    metadata["creationTimestamp"] = json!("2020-01-02T03:04:05Z");
    metadata["generation"] = json!(7);
    metadata["resourceVersion"] = json!("123456789");
    object
}

fn held_pod() -> Value {
    let mut object = stored(pod("p"));
    let metadata = &mut object["metadata"];
    metadata["namespace"] = json!("ns");
    metadata["finalizers"] = json!(["example.com/hold"]);
    metadata["deletionTimestamp"] = json!("2020-01-02T03:05:05Z");
    metadata["deletionGracePeriodSeconds"] = json!(30);
    metadata["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r-uid", "controller": true}]);
    metadata["managedFields"] = json!([{"manager": "m", "operation": "Update", "apiVersion": "v1",
        "time": "2020-01-02T03:04:05Z", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}}]);
    object["spec"]["nodeName"] = json!("n1");
    object["status"] = json!({"phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}]});
    object
}

#[tokio::test(start_paused = true)]
async fn an_imported_object_is_as_the_other_server_stored_it() {
    let server = Server::new().await;
    let path = format!("{PODS}/p?import=exact");
    let created = server.put(&path, held_pod()).await;
    assert_eq!(created.code, 201, "{}", created.json);
    let found = server.get(&format!("{PODS}/p")).await.json;
    for field in [
        "uid",
        "creationTimestamp",
        "generation",
        "finalizers",
        "deletionTimestamp",
        "ownerReferences",
        "managedFields",
        "deletionGracePeriodSeconds",
    ] {
        assert_eq!(found["metadata"][field], held_pod()["metadata"][field], "{field}");
    }
    assert_eq!(found["status"]["phase"], "Running");
    assert_ne!(found["metadata"]["resourceVersion"], "123456789");
    let again = server.put(&path, held_pod()).await;
    assert_eq!((again.code, &again.json), (200, &found), "the same again writes nothing");
    let mut changed = held_pod();
    changed["status"]["phase"] = json!("Succeeded");
    changed["spec"]["nodeName"] = json!("n2");
    let changed = server.put(&path, changed).await;
    assert_eq!((changed.code, &changed.json["spec"]["nodeName"]), (200, &json!("n2")), "{}", changed.json);
}

#[tokio::test(start_paused = true)]
async fn an_object_of_the_name_gives_way_only_where_that_is_asked_for() {
    let server = Server::new().await;
    let own = server.create(MAPS, map("a")).await;
    let refused = server.put(&format!("{MAPS}/a?import=exact"), stored(map("a"))).await;
    assert_eq!(refused.refusal(), (409, r#"configmaps "a" already exists"#));
    assert_eq!(server.get(&format!("{MAPS}/a")).await.json, own);
    let replaced = server.put(&format!("{MAPS}/a?import=replace"), stored(map("a"))).await;
    assert_eq!((replaced.code, replaced.json["metadata"]["uid"].as_str()), (200, Some(UID)));
}

#[tokio::test(start_paused = true)]
async fn objects_that_do_not_fit_are_refused_with_their_reason() {
    let server = Server::new().await;
    let code = async |path: &str, object: Value| {
        let reply = server.put(path, object).await;
        (reply.code, reply.json["message"].as_str().unwrap_or_default().to_owned())
    };
    let nameless = code(&format!("{MAPS}/a?import=exact"), map("a")).await;
    assert_eq!(nameless.0, 400, "{}", nameless.1);
    let mut wrong = stored(pod("p"));
    wrong["spec"]["restartPolicy"] = json!("Sometimes");
    let wrong = code(&format!("{PODS}/p?import=exact&dryRun=All"), wrong).await;
    assert!(wrong.0 == 422 && wrong.1.contains("spec.restartPolicy"), "{wrong:?}");
    let elsewhere = "/api/v1/namespaces/absent/configmaps/a?import=exact";
    let absent = code(elsewhere, stored(map("a"))).await;
    assert_eq!(absent, (404, r#"namespaces "absent" not found"#.to_owned()));
    let tried = code(&format!("{elsewhere}&dryRun=All"), stored(map("a"))).await;
    assert_eq!(tried.0, 201, "a dry run may be ahead of its namespace: {}", tried.1);
    let unknown = code(&format!("{MAPS}/a?import=yes"), stored(map("a"))).await;
    assert_eq!(unknown.0, 400, "{}", unknown.1);
    assert_eq!(server.get(&format!("{MAPS}/a")).await.code, 404, "nothing was stored");
}

#[tokio::test(start_paused = true)]
async fn a_state_that_only_updates_lead_to_is_taken() {
    let server = Server::new().await;
    let mut debugged = held_pod();
    debugged["spec"]["ephemeralContainers"] = json!([{"name": "debug", "image": "i"}]);
    for code in [201, 200] {
        let reply = server.put(&format!("{PODS}/p?import=exact"), debugged.clone()).await;
        assert_eq!(reply.code, code, "{}", reply.json);
        assert_eq!(reply.json["spec"]["ephemeralContainers"][0]["name"], "debug");
        // A change of a followed object.
        debugged["status"]["phase"] = json!("Succeeded");
    }
    debugged["spec"]["ephemeralContainers"][0]["image"] = json!("");
    let refused = server.put(&format!("{PODS}/p?import=exact"), debugged).await;
    let message = refused.json["message"].as_str().unwrap_or_default();
    assert!(refused.code == 422 && message.contains("ephemeralContainers[0].image"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_service_brings_its_address_and_an_address_in_use_is_refused() {
    let server = Server::new().await;
    server
        .create(
            "/apis/networking.orch.io/v1/servicecidrs",
            json!({"metadata": {"name": "orch"}, "spec": {"cidrs": ["10.96.0.0/24"]}}),
        )
        .await;
    let service = |name: &str, uid: &str| {
        let mut object = stored(json!({
            "metadata": {"name": name},
            "spec": {"ports": [{"port": 80}], "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"]},
        }));
        object["metadata"]["uid"] = json!(uid);
        object
    };
    let first = server.put(&format!("{SERVICES}/a?import=exact"), service("a", "u-a")).await;
    assert_eq!((first.code, &first.json["spec"]["clusterIP"]), (201, &json!("10.96.0.9")), "{}", first.json);
    let second = server.put(&format!("{SERVICES}/b?import=exact"), service("b", "u-b")).await;
    assert_eq!(second.code, 422, "{}", second.json);
    let removed = server.delete(&format!("{SERVICES}/a?import=exact"), Value::Null).await;
    assert_eq!(removed.code, 200, "{}", removed.json);
    let second = server.put(&format!("{SERVICES}/b?import=exact"), service("b", "u-b")).await;
    assert_eq!(second.code, 201, "the address is free again: {}", second.json);
}

#[tokio::test(start_paused = true)]
async fn a_removal_waits_for_nothing_and_takes_no_other_object() {
    let server = Server::new().await;
    server.put(&format!("{PODS}/p?import=exact"), held_pod()).await;
    let path = format!("{PODS}/p?import=exact");
    let other = server.delete(&path, json!({"preconditions": {"uid": "other"}})).await;
    assert_eq!(other.code, 409, "{}", other.json);
    let removed = server.delete(&path, json!({"preconditions": {"uid": UID}})).await;
    assert_eq!((removed.code, removed.json["status"].as_str()), (200, Some("Success")));
    assert_eq!(server.get(&format!("{PODS}/p")).await.code, 404);
    assert_eq!(server.delete(&path, Value::Null).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn every_right_to_objects_is_no_right_to_import_them() {
    let server = Server::new().await;
    let rbac = "/apis/rbac.authorization.orch.io/v1";
    let role = json!({"metadata": {"name": "all"},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]});
    server.create(&format!("{rbac}/clusterroles"), role).await;
    let subject = json!({"kind": "User", "apiGroup": "rbac.authorization.orch.io", "name": "ann"});
    let bound = json!({"metadata": {"name": "all"}, "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.orch.io", "kind": "ClusterRole", "name": "all"}});
    server.create(&format!("{rbac}/clusterrolebindings"), bound).await;
    let ann = User { name: "ann".to_owned(), groups: Vec::new(), ..User::default() };
    let body = stored(map("a")).to_string();
    for (method, value) in [(Method::PUT, "exact"), (Method::PUT, "replace"), (Method::DELETE, "exact")] {
        let path = format!("{MAPS}/a?import={value}");
        let refused = server.send_as(&ann, method, &path, JSON, &body).await;
        let message = refused.json["message"].as_str().unwrap_or_default();
        assert!(refused.code == 403 && message.contains("/orch/v1/import"), "{value}: {message}");
    }
    let role = json!({"metadata": {"name": "all"}, "rules": [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
        {"nonResourceURLs": ["/orch/v1/import"], "verbs": ["post"]},
    ]});
    server.put(&format!("{rbac}/clusterroles/all"), role).await;
    let made = server.send_as(&ann, Method::PUT, &format!("{MAPS}/a?import=exact"), JSON, &body).await;
    assert_eq!(made.code, 201, "{}", made.json);
}
