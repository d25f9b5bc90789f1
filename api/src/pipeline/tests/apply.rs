//! Server-side apply as requests: the head of a configuration, managed fields afterwards, and those of all other
//! writes.

use http::Method;

use super::{APPLY, DEPLOYMENTS, MAPS, PODS, STRATEGIC, Server, Value, deployment, json, map, pod};

/// A configuration of a config map.
fn config(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

/// `manager operation subresource version fields` of each entry.
fn owners(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    entries
        .iter()
        .map(|entry| {
            let text = |name: &str| entry[name].as_str().unwrap_or("-").to_owned();
            format!(
                "{} {} {} {} {}",
                text("manager"),
                text("operation"),
                text("subresource"),
                text("apiVersion"),
                entry["fieldsV1"]
            )
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_configuration_says_what_it_is() {
    let server = Server::new().await;
    let path = format!("{MAPS}/a?fieldManager=m");
    for (config, told) in [
        (json!({"kind": "ConfigMap"}), "invalid object type: /, Kind=ConfigMap"),
        (json!({"apiVersion": "v1"}), "invalid object type: /v1, Kind="),
        (json!({"apiVersion": "v2", "kind": "ConfigMap"}), "invalid object type: /v2, Kind=ConfigMap"),
        (
            json!({"apiVersion": "apps/v1", "kind": "Deployment"}),
            "invalid object type: apps/v1, Kind=Deployment",
        ),
        (json!({"apiVersion": "a/b/c", "kind": "ConfigMap"}), "invalid object type: /, Kind="),
        (json!(null), "invalid object type: /, Kind="),
    ] {
        assert_eq!(server.patch(&path, APPLY, config.clone()).await.refusal(), (400, told), "{config}");
    }
    assert_eq!(server.send(Method::PATCH, &path, APPLY, "{[").await.code, 400);
    assert_eq!(server.send(Method::PATCH, &path, APPLY, "text").await.code, 400);
    let refused = server.patch(&format!("{MAPS}/a"), APPLY, config("a", json!({}))).await;
    assert_eq!(
        refused.refusal(),
        (
            422,
            "PatchOptions.meta.orch.io \"\" is invalid: fieldManager: Required value: is required for apply patch"
        )
    );
}

#[tokio::test(start_paused = true)]
async fn a_name_may_be_left_out_where_there_is_an_object() {
    let server = Server::new().await;
    let path = format!("{MAPS}/a");
    let nameless = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}});
    assert_eq!(
        server.apply(&path, "m", nameless.clone()).await.refusal(),
        (400, "the name of the object (a based on URL) was undeterminable: name must be provided")
    );
    let reply = server.apply(&path, "m", config("a", json!({"k": "w"}))).await;
    assert_eq!(reply.code, 201);
    assert_eq!(server.apply(&path, "m", nameless).await.object()["data"], json!({"k": "v"}));
    assert_eq!(
        server.apply(&path, "m", config("b", json!({}))).await.refusal(),
        (400, "the name of the object (b) does not match the name on the URL (a)")
    );
}

#[tokio::test(start_paused = true)]
async fn versions_and_uids_in_configurations() {
    let server = Server::new().await;
    let path = format!("{MAPS}/a");
    let mut with_uid = config("a", json!({}));
    with_uid["metadata"]["uid"] = json!("u-1");
    assert_eq!(
        server.apply(&path, "m", with_uid.clone()).await.refusal(),
        (
            409,
            "Operation cannot be fulfilled on configmaps \"a\": uid mismatch: the provided object specified uid u-1, \
             and no existing object was found"
        )
    );
    let mut with_version = config("a", json!({"k": "v"}));
    with_version["metadata"]["resourceVersion"] = json!("77");
    assert_eq!(
        server.apply(&path, "m", with_version.clone()).await.code,
        201,
        "a version says nothing of what is not there"
    );
    assert_eq!(server.apply(&path, "m", with_version).await.code, 409);
    assert_eq!(server.apply(&path, "m", with_uid).await.code, 422);
    let mut managed = config("a", json!({}));
    managed["metadata"]["managedFields"] = json!([]);
    assert_eq!(
        server.apply(&path, "m", managed).await.refusal(),
        (400, "metadata.managedFields must be nil")
    );
}

#[tokio::test(start_paused = true)]
async fn every_write_is_recorded() {
    let server = Server::new().await;
    server.create(DEPLOYMENTS, deployment("d")).await;
    let path = format!("{DEPLOYMENTS}/d");
    server.merge(&format!("{path}?fieldManager=patcher"), json!({"spec": {"paused": true}})).await.object();
    let status = json!({"status": {"replicas": 2}});
    server.merge(&format!("{path}/status?fieldManager=controller"), status).await.object();
    let applied = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"minReadySeconds": 3}});
    server.apply(&path, "applier", applied).await.object();
    let ended = server.get(&path).await.json;
    let found = owners(&ended);
    assert_eq!(found[0], "applier Apply - apps/v1 {\"f:spec\":{\"f:minReadySeconds\":{}}}");
    assert!(found[1].starts_with("agent Update - apps/v1 {\"f:spec\":{"), "{found:?}");
    assert_eq!(found[2], "controller Update status apps/v1 {\"f:status\":{\"f:replicas\":{}}}");
    assert_eq!(found[3], "patcher Update - apps/v1 {\"f:spec\":{\"f:paused\":{}}}");
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_forgets_all_owners() {
    let server = Server::new().await;
    server.create(MAPS, map("a")).await;
    let path = format!("{MAPS}/a");
    for reset in [json!([]), json!([{}])] {
        let forgotten = server.merge(&path, json!({"metadata": {"managedFields": reset}})).await.object();
        assert_eq!(owners(&forgotten), [""; 0], "{reset}");
        // Managed fields are not tracked until the first apply.
        let patched = server.merge(&path, json!({"data": {"x": format!("{reset}")}})).await.object();
        assert_eq!(owners(&patched), [""; 0]);
        let applied = server.apply(&path, "m", config("a", json!({"y": "1"}))).await.object();
        assert_eq!(
            owners(&applied),
            [
                "m Apply - v1 {\"f:data\":{\"f:y\":{}}}",
                "before-first-apply Update - v1 {\"f:data\":{\".\":{},\"f:k\":{},\"f:x\":{}}}"
            ]
        );
        server.apply(&path, "m", config("a", json!({}))).await.object();
    }
}

#[tokio::test(start_paused = true)]
async fn lists_that_cannot_be_read_are_not_taken() {
    let server = Server::new().await;
    let created = server.create(MAPS, map("a")).await;
    let path = format!("{MAPS}/a");
    for bad in [
        json!([{"manager": "x", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {}}]),
        json!([{"manager": "x", "operation": "Nope", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}}]),
        json!([{"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "Other"}]),
    ] {
        let mut object = map("a");
        object["metadata"]["managedFields"] = bad.clone();
        let kept = server.put(&path, object).await.object();
        assert_eq!(kept["metadata"]["managedFields"], created["metadata"]["managedFields"], "{bad}");
    }
    let given = json!([{"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:k": {}}}}]);
    let mut object = map("a");
    object["metadata"]["managedFields"] = given;
    let taken = server.put(&path, object.clone()).await.object();
    assert_eq!(owners(&taken), ["x Update - v1 {\"f:data\":{\"f:k\":{}}}"]);
    let status = "/api/v1/namespaces/ns/pods/p/status";
    let pod = server.create(PODS, pod("p")).await;
    let sent = server.merge(status, json!({"metadata": {"managedFields": [{}]}})).await.object();
    assert_eq!(
        sent["metadata"]["managedFields"], pod["metadata"]["managedFields"],
        "not through a sub-resource"
    );
}

#[tokio::test(start_paused = true)]
async fn old_update_managers_become_one() {
    let server = Server::new().await;
    server.create(MAPS, map("a")).await;
    let path = format!("{MAPS}/a");
    for at in 0..12 {
        server.advance(1);
        let patch = json!({"data": {format!("k{at:02}"): "v"}});
        server.merge(&format!("{path}?fieldManager=m{at:02}"), patch).await.object();
    }
    let found = owners(&server.get(&path).await.json);
    assert_eq!(found.len(), 10, "{found:?}");
    assert_eq!(
        found[0],
        "ancient-changes Update - v1 {\"f:data\":{\".\":{},\"f:k\":{},\"f:k00\":{},\"f:k01\":{},\"f:k02\":{}}}"
    );
    assert_eq!(found[9], "m11 Update - v1 {\"f:data\":{\"f:k11\":{}}}");
}

#[tokio::test(start_paused = true)]
async fn conflicts_name_owners_with_what_they_wrote_through() {
    let server = Server::new().await;
    server.create(DEPLOYMENTS, deployment("d")).await;
    let path = format!("{DEPLOYMENTS}/d");
    server
        .merge(&format!("{path}/status?fieldManager=controller"), json!({"status": {"replicas": 2}}))
        .await
        .object();
    let config = json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": {"replicas": 3}});
    let refused = server.apply(&format!("{path}/status"), "m", config.clone()).await;
    assert_eq!(
        refused.refusal(),
        (
            409,
            "Apply failed with 1 conflict: conflict with \"controller\" with subresource \"status\" using apps/v1: \
             .status.replicas"
        )
    );
    assert_eq!(
        refused.causes(),
        [
            "FieldManagerConflict .status.replicas: conflict with \"controller\" with subresource \"status\" using apps/v1"
        ]
    );
    let forced = server.apply(&format!("{path}/status?force=true"), "m", config).await.object();
    assert_eq!(forced["status"]["replicas"], 3);
    let ignored = json!({"apiVersion": "apps/v1", "kind": "Deployment", "status": {"replicas": 9}});
    let main = server.apply(&path, "n", ignored).await.object();
    assert_eq!(main["status"]["replicas"], 3, "the main resource neither sets nor owns it");
    assert!(owners(&main).iter().all(|owner| !owner.starts_with("n ")), "{:?}", owners(&main));
}

#[tokio::test(start_paused = true)]
async fn items_are_told_apart_with_defaults() {
    let server = Server::new().await;
    let path = format!("{PODS}/p");
    let config = |ports: Value| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "image": "i", "ports": ports}]}})
    };
    let created = server.apply(&path, "m", config(json!([{"containerPort": 80}]))).await.object();
    assert_eq!(created["spec"]["containers"][0]["ports"], json!([{"containerPort": 80, "protocol": "TCP"}]));
    assert!(
        owners(&created)[0].contains("k:{\\\"containerPort\\\":80,\\\"protocol\\\":\\\"TCP\\\"}"),
        "{:?}",
        owners(&created)
    );
    let twice = config(json!([{"containerPort": 80}, {"containerPort": 80, "protocol": "TCP"}]));
    let refused = server.apply(&path, "m", twice).await;
    assert!(
        refused.refusal().1.contains("duplicate entries for key [containerPort=80,protocol=\"TCP\"]"),
        "{}",
        refused.json
    );
}

#[tokio::test(start_paused = true)]
async fn sets_take_no_duplicates_from_a_configuration() {
    let server = Server::new().await;
    let mut twice = config("a", json!({}));
    twice["metadata"]["finalizers"] = json!(["a.b/c", "a.b/c"]);
    let refused = server.apply(&format!("{MAPS}/a"), "m", twice).await;
    assert!(refused.refusal().1.contains("duplicate entries for key [=\"a.b/c\"]"), "{}", refused.json);
}

#[tokio::test(start_paused = true)]
async fn nulls_are_values_that_say_nothing() {
    let server = Server::new().await;
    let path = format!("{MAPS}/a");
    let created = server.apply(&path, "m", config("a", json!({"k": "v"}))).await.object();
    let mut with_null = config("a", json!({"k": "v"}));
    with_null["immutable"] = json!(null);
    let applied = server.apply(&path, "m", with_null).await.object();
    assert_eq!(applied["data"], created["data"]);
    assert!(applied.get("immutable").is_none());
}

#[tokio::test(start_paused = true)]
async fn the_command_lines_hand_over_is_followed() {
    let server = Server::new().await;
    let path = format!("{MAPS}/a");
    let last = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"},
        "data": {"k": "v", "gone": "x"}});
    let annotation = "kubectl.orch.io/last-applied-configuration";
    let mut object = map("a");
    object["data"] = json!({"k": "v", "gone": "x"});
    object["metadata"]["annotations"] = json!({annotation: last.to_string()});
    server.post(&format!("{MAPS}?fieldManager=kubectl-client-side-apply"), object).await.object();
    let applied = server.apply(&path, "kubectl", config("a", json!({"k": "w", "gone": "x"}))).await.object();
    assert_eq!(applied["data"], json!({"k": "w", "gone": "x"}));
    let kept = applied["metadata"]["annotations"][annotation].as_str().unwrap();
    assert_eq!(
        kept,
        "{\"apiVersion\":\"v1\",\"data\":{\"gone\":\"x\",\"k\":\"w\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"}}\n"
    );
    // Another name is another manager.
    let refused = server.apply(&path, "other", config("a", json!({"k": "z"}))).await;
    assert_eq!(refused.code, 409);
}

#[tokio::test(start_paused = true)]
async fn an_event_is_owned_in_the_version_it_was_written_in() {
    let server = Server::new().await;
    let new = "/apis/events.orch.io/v1/namespaces/ns/events";
    let event = json!({"metadata": {"name": "e"}, "eventTime": "2026-01-02T03:04:05.000000Z", "type": "Normal",
        "reason": "r", "action": "a", "note": "first", "reportingController": "x.io/c", "reportingInstance": "i",
        "regarding": {"kind": "Pod", "name": "p", "namespace": "ns"}});
    server.create(new, event).await;
    let core = "/api/v1/namespaces/ns/events/e";
    let patched = server
        .patch(&format!("{core}?fieldManager=old"), STRATEGIC, json!({"message": "second"}))
        .await
        .object();
    let found = owners(&patched);
    assert_eq!(found[1], "old Update - v1 {\"f:message\":{}}", "{found:?}");
    assert!(found[0].starts_with("agent Update - events.orch.io/v1 "), "{found:?}");
    assert!(!found[0].contains("f:note"), "what another version changed is lost: {}", found[0]);
    let config = json!({"apiVersion": "v1", "kind": "Event", "message": "third"});
    let refused = server.apply(core, "m", config.clone()).await;
    assert_eq!(
        refused.refusal(),
        (409, "Apply failed with 1 conflict: conflict with \"old\" using v1: .message")
    );
    let other = json!({"apiVersion": "v1", "kind": "Event", "reason": "other"});
    let refused = server.apply(core, "m", other).await;
    assert_eq!(
        refused.refusal(),
        (409, "Apply failed with 1 conflict: conflict with \"agent\" using events.orch.io/v1: .reason")
    );
}

#[tokio::test(start_paused = true)]
async fn owners_in_versions_that_are_not_served_go() {
    let server = Server::new().await;
    let mut object = map("a");
    object["metadata"]["managedFields"] = json!([{"manager": "x", "operation": "Update", "apiVersion": "v9",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:k": {}}}}]);
    server.post(MAPS, object).await.object();
    let patched = server.merge(&format!("{MAPS}/a"), json!({"data": {"y": "z"}})).await.object();
    assert!(owners(&patched).iter().all(|owner| !owner.starts_with("x ")), "{:?}", owners(&patched));
}
