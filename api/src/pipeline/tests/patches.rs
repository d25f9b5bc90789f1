//! Patches as requests: immutable fields, texts of failures, patches without effect.

use http::Method;
use orch_schema::value::Value;

use super::{
    APPLY, DEPLOYMENTS, JSON_PATCH, MAPS, MERGE, PODS, STRATEGIC, Server, deployment, json, map, pod,
};

const GENERIC: &str = "the server rejected our request due to an error in our request";

#[tokio::test(start_paused = true)]
async fn identity_cannot_be_patched() {
    let server = Server::new().await;
    server.create(MAPS, map("a")).await;
    let path = format!("{MAPS}/a");
    for format in [MERGE, STRATEGIC] {
        assert_eq!(
            server.patch(&path, format, json!({"metadata": {"name": "b"}})).await.refusal(),
            (400, "the name of the object (b) does not match the name on the URL (a)")
        );
        assert_eq!(
            server.patch(&path, format, json!({"metadata": {"name": null}})).await.refusal(),
            (400, "the name of the object (a based on URL) was undeterminable: name must be provided")
        );
        assert_eq!(
            server.patch(&path, format, json!({"metadata": {"namespace": "x"}})).await.refusal(),
            (400, "the namespace of the provided object does not match the namespace sent on the request")
        );
        let refused = server.patch(&path, format, json!({"metadata": {"uid": "x"}})).await;
        assert_eq!(refused.code, 422, "{}", refused.json);
        assert_eq!(
            refused.causes()[0],
            "FieldValueInvalid metadata.uid: Invalid value: \"x\": field is immutable"
        );
        let fine = json!({"metadata": {"uid": null, "creationTimestamp": null, "namespace": null}});
        assert_eq!(server.patch(&path, format, fine).await.code, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn a_patch_makes_no_other_kind_of_an_object() {
    let server = Server::new().await;
    server.create(MAPS, map("a")).await;
    let path = format!("{MAPS}/a");
    for (field, value, told) in [
        ("kind", "Secret", "the patch makes v1 Secret of v1 ConfigMap"),
        ("apiVersion", "v2", "the patch makes v2 ConfigMap of v1 ConfigMap"),
    ] {
        let replaced = json!([{"op": "replace", "path": format!("/{field}"), "value": value}]);
        for (format, patch) in [(MERGE, json!({field: value})), (JSON_PATCH, replaced)] {
            let refused = server.patch(&path, format, patch).await;
            assert_eq!(refused.code, 422, "{}", refused.json);
            let cause = &refused.causes()[0];
            assert!(cause.starts_with("FieldValueInvalid patch: ") && cause.ends_with(told), "{cause}");
        }
    }
    let nameless = server.patch(&path, MERGE, json!({"kind": null, "apiVersion": null})).await;
    assert_eq!(nameless.refusal(), (400, "the patched object has no apiVersion"));
    assert_eq!(server.patch(&path, MERGE, json!({"kind": null})).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn a_version_in_a_patch_is_a_condition() {
    let server = Server::new().await;
    let version = server.create(MAPS, map("a")).await["metadata"]["resourceVersion"].clone();
    let path = format!("{MAPS}/a");
    let refused =
        server.merge(&path, json!({"metadata": {"resourceVersion": "1"}, "data": {"x": "y"}})).await;
    assert_eq!((refused.code, &refused.json["reason"]), (409, &json!("Conflict")));
    let patch = json!({"metadata": {"resourceVersion": version}, "data": {"x": "y"}});
    assert_eq!(server.merge(&path, patch.clone()).await.code, 200);
    assert_eq!(server.merge(&path, patch).await.code, 409, "it has moved on");
    let removed = json!({"metadata": {"resourceVersion": null}, "data": {"x": "z"}});
    assert_eq!(server.merge(&path, removed).await.code, 200, "without one the newest is meant");
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_changes_nothing_makes_no_version() {
    let server = Server::new().await;
    let created = server.create(MAPS, map("a")).await;
    let path = format!("{MAPS}/a");
    server.advance(60);
    for (format, patch) in [
        (MERGE, json!({})),
        (MERGE, json!({"data": {"k": "v", "gone": null}})),
        (STRATEGIC, json!({"data": {"k": "v"}})),
        (JSON_PATCH, json!([{"op": "replace", "path": "/data/k", "value": "v"}])),
        (JSON_PATCH, json!([])),
    ] {
        assert_eq!(server.patch(&path, format, patch).await.object(), created, "{format}");
    }
    assert_eq!(server.put(&path, map("a")).await.object(), created);
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    let applied = server.apply(&path, "m", config.clone()).await.object();
    assert_ne!(applied, created, "a new owner");
    server.advance(60);
    assert_eq!(server.apply(&path, "m", config).await.object(), applied, "not even the time");
}

#[tokio::test(start_paused = true)]
async fn failures_of_json_patches() {
    let server = Server::new().await;
    server.create(MAPS, map("a")).await;
    let path = format!("{MAPS}/a");
    for patch in [
        json!([{"op": "test", "path": "/data/k", "value": "w"}]),
        json!([{"op": "remove", "path": "/data/none"}]),
        json!([{"op": "replace", "path": "/data/none", "value": "x"}]),
        json!([{"op": "move", "from": "/data/none", "path": "/data/x"}]),
        json!([{"op": "add", "path": "data/k", "value": "x"}]),
        json!([{"op": "nope", "path": "/data/k"}]),
        json!([{"op": "add", "path": "/none/deep", "value": "x"}]),
    ] {
        let refused = server.patch(&path, JSON_PATCH, patch.clone()).await;
        assert_eq!(refused.refusal(), (422, GENERIC), "{patch}");
        assert_eq!(
            (&refused.json["reason"], &refused.json["details"]),
            (&json!("Invalid"), &json!({})),
            "{patch}"
        );
    }
    let many: Vec<_> = (0..10_001).map(|_| json!({"op": "test", "path": "/data/k", "value": "v"})).collect();
    let refused = server.patch(&path, JSON_PATCH, json!(many)).await;
    assert_eq!(
        refused.refusal(),
        (413, "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001")
    );
    assert_eq!(server.patch(&path, JSON_PATCH, json!(many[..10_000])).await.code, 200);
    assert_eq!(server.patch(&path, JSON_PATCH, json!({"op": "test"})).await.code, 400);
    assert_eq!(server.send(Method::PATCH, &path, JSON_PATCH, "[{").await.code, 400);
}

#[tokio::test(start_paused = true)]
async fn formats_that_are_not_known() {
    let server = Server::new().await;
    server.create(MAPS, map("a")).await;
    for format in ["application/json", "application/apply-patch+cbor", "", "application/yaml"] {
        let refused = server.send(Method::PATCH, &format!("{MAPS}/a"), format, "{}").await;
        assert_eq!(
            (refused.code, &refused.json["reason"]),
            (415, &json!("UnsupportedMediaType")),
            "{format:?}"
        );
    }
    let format = "application/merge-patch+json; charset=utf-8";
    assert_eq!(server.send(Method::PATCH, &format!("{MAPS}/a"), format, "{}").await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn absent_objects_are_patched_by_apply_alone() {
    let server = Server::new().await;
    for format in [MERGE, STRATEGIC] {
        let refused = server.patch(&format!("{MAPS}/none"), format, json!({"data": {}})).await;
        assert_eq!(refused.refusal(), (404, "configmaps \"none\" not found"));
    }
    let config = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "none"}, "status": {"replicas": 1}});
    let refused = server.patch(&format!("{DEPLOYMENTS}/none/status?fieldManager=m"), APPLY, config).await;
    assert_eq!(refused.code, 404, "a sub-resource creates nothing");
}

#[tokio::test(start_paused = true)]
async fn each_part_of_an_object_is_patched_through_its_own_path() {
    let server = Server::new().await;
    server.create(DEPLOYMENTS, deployment("d")).await;
    let path = format!("{DEPLOYMENTS}/d");
    let both = json!({"spec": {"replicas": 7}, "status": {"replicas": 3, "observedGeneration": 1},
        "metadata": {"labels": {"l": "1"}, "annotations": {"n": "1"}}});
    let status = server.merge(&format!("{path}/status"), both.clone()).await.object();
    assert_eq!((&status["spec"]["replicas"], &status["status"]["replicas"]), (&json!(1), &json!(3)));
    assert_eq!(status["metadata"]["generation"], 1);
    assert!(status["metadata"].get("labels").is_none(), "labels of a deployment are not its status");
    let main = server.merge(&path, both).await.object();
    assert_eq!((&main["spec"]["replicas"], &main["status"]["replicas"]), (&json!(7), &json!(3)));
    assert_eq!(main["metadata"]["generation"], 2);
    assert_eq!(main["metadata"]["labels"], json!({"l": "1"}));
    let labels_only = server.merge(&path, json!({"metadata": {"labels": {"l": "2"}}})).await.object();
    assert_eq!(labels_only["metadata"]["generation"], 2, "the spec is as it was");
}

#[tokio::test(start_paused = true)]
async fn strategic_patches_merge_what_has_a_key() {
    let server = Server::new().await;
    server.create(DEPLOYMENTS, deployment("d")).await;
    let path = format!("{DEPLOYMENTS}/d");
    let within = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
    let container = |object: &Value| object["spec"]["template"]["spec"]["containers"][0].clone();
    // Only the container port is the key: another protocol on the same port is the same entry.
    let ports = json!([{"containerPort": 80, "protocol": "UDP"}, {"containerPort": 81}]);
    let patched =
        server.patch(&path, STRATEGIC, within(json!({"containers": [{"name": "c", "ports": ports}]}))).await;
    assert_eq!(
        container(&patched.object())["ports"],
        json!([{"containerPort": 80, "protocol": "UDP"}, {"containerPort": 81, "protocol": "TCP"}])
    );
    let replaced =
        json!({"containers": [{"name": "c", "ports": [{"$patch": "replace"}, {"containerPort": 9}]}]});
    let patched = server.patch(&path, STRATEGIC, within(replaced)).await.object();
    assert_eq!(container(&patched)["ports"], json!([{"containerPort": 9, "protocol": "TCP"}]));
    let bad = [
        (
            json!({"containers": [{"image": "x"}]}),
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (
            json!({"containers": [{"name": "c", "$patch": "nope"}]}),
            "unknown patch type: nope in map: map[$patch:nope name:c]",
        ),
        (
            json!({"containers": [{"name": "c", "$patch": "merge"}]}),
            "merging lists cannot yet be specified in the patch",
        ),
        (json!({"$retainKeys": ["containers"], "volumes": []}), "invalid patch format of retainKeys"),
    ];
    for (spec, told) in bad {
        let refused = server.patch(&path, STRATEGIC, within(spec)).await;
        assert!(refused.code >= 400 && refused.refusal().1.contains(told), "{}", refused.json);
    }
}

#[tokio::test(start_paused = true)]
async fn finalizers_are_a_set_to_strategic_patches() {
    let server = Server::new().await;
    let mut object = map("a");
    object["metadata"]["finalizers"] = json!(["a.b/1", "a.b/2"]);
    server.create(MAPS, object).await;
    let path = format!("{MAPS}/a");
    let added = json!({"metadata": {"finalizers": ["a.b/3"]}});
    assert_eq!(
        server.patch(&path, STRATEGIC, added).await.object()["metadata"]["finalizers"],
        json!(["a.b/3", "a.b/1", "a.b/2"]),
        "what is new stands where the patch has it: first"
    );
    let removed = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.b/2"]}});
    assert_eq!(
        server.patch(&path, STRATEGIC, removed).await.object()["metadata"]["finalizers"],
        json!(["a.b/3", "a.b/1"])
    );
    let order = json!({"metadata": {"finalizers": ["a.b/4"],
        "$setElementOrder/finalizers": ["a.b/4", "a.b/3", "a.b/1"]}});
    assert_eq!(
        server.patch(&path, STRATEGIC, order).await.object()["metadata"]["finalizers"],
        json!(["a.b/4", "a.b/3", "a.b/1"])
    );
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_of_a_patch_shows_what_it_would_be() {
    let server = Server::new().await;
    let created = server.create(PODS, pod("p")).await;
    let path = format!("{PODS}/p?dryRun=All");
    let shown = server.merge(&path, json!({"metadata": {"labels": {"a": "b"}}})).await.object();
    assert_eq!(shown["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(shown["metadata"]["resourceVersion"], created["metadata"]["resourceVersion"]);
    assert_eq!(server.get(&format!("{PODS}/p")).await.json, created);
    let refused = server.merge(&path, json!({"spec": {"nodeName": "x"}})).await;
    assert_eq!(refused.code, 422, "everything but the storing is done");
}

#[tokio::test(start_paused = true)]
async fn a_put_may_create_what_may_be_created_so() {
    let server = Server::new().await;
    let leases = "/apis/coordination.orch.io/v1/namespaces/ns/leases";
    let created =
        server.put(&format!("{leases}/l"), json!({"metadata": {"name": "l", "resourceVersion": "77"}})).await;
    assert_eq!(created.code, 201, "{}", created.json);
    let named = json!({"metadata": {"name": "m", "uid": "u-1"}});
    let refused = server.put(&format!("{leases}/m"), named).await;
    assert_eq!(refused.code, 409);
    assert!(
        refused.refusal().1.ends_with("Precondition failed: UID in precondition: u-1, UID in object meta: "),
        "{}",
        refused.json
    );
    assert_eq!(server.put(&format!("{MAPS}/none"), map("none")).await.code, 404);
    let wrong = json!({"metadata": {"name": "l", "uid": "u-1"}});
    assert_eq!(server.put(&format!("{leases}/l"), wrong).await.code, 409);
}

#[tokio::test(start_paused = true)]
async fn no_refusal_of_a_json_patch_shows_what_it_copied_out_of_a_secret() {
    let server = Server::new().await;
    let secrets = "/api/v1/namespaces/ns/secrets";
    server.create(secrets, json!({"metadata": {"name": "s"}, "stringData": {"k": "hidden"}})).await;
    let path = format!("{secrets}/s");
    for to in [
        "kind",
        "apiVersion",
        "type",
        "immutable",
        "metadata/name",
        "metadata/uid",
        "metadata/resourceVersion",
        "metadata/namespace",
        "metadata/creationTimestamp",
        "metadata/generation",
        "metadata/finalizers/0",
        "metadata/ownerReferences",
    ] {
        let patch = json!([{"op": "add", "path": "/metadata/finalizers", "value": []},
            {"op": "copy", "from": "/data/k", "path": format!("/{to}")}]);
        let refused = server.patch(&path, JSON_PATCH, patch).await;
        assert!((400..500).contains(&refused.code), "{to}: {}", refused.json);
        // The data in base64.
        let said = format!("{} {:?}", refused.json, refused.warnings);
        assert!(!said.contains("aGlkZGVu"), "{to}: {said}");
    }
    // The warning about duplicate owner references quotes their uid.
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": ""});
    let copied = |at: &str| json!({"op": "copy", "from": "/data/k", "path": format!("/metadata/ownerReferences/{at}/uid")});
    let twice = |labels: Value| {
        json!([{"op": "add", "path": "/metadata/ownerReferences", "value": [owner, owner]}, copied("0"), copied("1"),
            {"op": "add", "path": "/metadata/labels", "value": labels}])
    };
    let refused = server.patch(&path, JSON_PATCH, twice(json!({"a b": "c"}))).await;
    assert_eq!((refused.code, &refused.warnings[..]), (422, &[][..]));
    let shown = server.patch(&path, JSON_PATCH, twice(json!({}))).await;
    assert_eq!((shown.code, shown.warnings.len()), (200, 1), "who reads the object may read the warning");
    let wrong = json!([{"op": "add", "path": "/metadata/finalizers", "value": ["a.b/c", "not a name"]}]);
    let refused = server.patch(&path, JSON_PATCH, wrong).await;
    assert!(refused.causes()[0].starts_with("FieldValueInvalid metadata.finalizers: Invalid value: "));
}

#[tokio::test(start_paused = true)]
async fn no_refusal_repeats_a_long_text_as_a_whole() {
    let server = Server::new().await;
    server.create(MAPS, map("a")).await;
    server.create(PODS, pod("p")).await;
    let (path, long) = (format!("{MAPS}/a"), "\u{1}x".repeat(500_000));
    let head =
        |kind: &str, version: &str| json!({"kind": kind, "apiVersion": version, "metadata": {"name": "b"}});
    let number = format!(r#"{{"metadata":{{"name":"b","generation":{}}}}}"#, "9".repeat(1_000_000));
    let refusals = [
        server.post(MAPS, head(&long, "v1")).await,
        server.post(MAPS, head("ConfigMap", &long)).await,
        server.post(MAPS, json!({"metadata": {"name": "b", "creationTimestamp": long}})).await,
        server.send(http::Method::POST, MAPS, "application/json", &number).await,
        server.put(&path, json!({"metadata": {"name": long}})).await,
        server.put(&path, json!({"metadata": {"name": "a", "uid": long}})).await,
        server.delete(&path, json!({"preconditions": {"uid": long}})).await,
        server.delete(&path, json!({"preconditions": {"resourceVersion": long}})).await,
        server.apply(&path, "m", json!({"apiVersion": "v1", "kind": long})).await,
        server.merge(&path, json!({"kind": long})).await,
        server
            .patch(
                &format!("{PODS}/p"),
                STRATEGIC,
                json!({"spec": {"containers": [{"name": "c", "$patch": long}]}}),
            )
            .await,
    ];
    for (at, refused) in refusals.iter().enumerate() {
        let answer = refused.json.to_string();
        assert!((400..500).contains(&refused.code) && answer.len() < 20_000, "{at}: {} bytes", answer.len());
    }
}

#[tokio::test]
async fn a_path_of_many_steps_leads_nowhere() {
    let server = Server::new().await;
    server.create(MAPS, json!({"metadata": {"name": "a"}, "data": {"k": "v"}})).await;
    for steps in [100, 127, 128, 129, 500_000] {
        for op in ["test", "add", "remove"] {
            let patch = json!([{"op": op, "path": "/a".repeat(steps), "value": 1}]);
            let refused = server.patch(&format!("{MAPS}/a"), "application/json-patch+json", patch).await;
            assert_eq!(refused.code, 422, "{op}, {steps} steps: {}", refused.json);
        }
    }
}
