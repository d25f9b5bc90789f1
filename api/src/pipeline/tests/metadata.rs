//! Metadata of every kind: system fields, fields of clients, immutable fields.

use super::{DEPLOYMENTS, MAPS, Server, deployment, json, map};

#[tokio::test(start_paused = true)]
async fn a_namespace_on_a_cluster_scoped_object_is_dropped() {
    let server = Server::new().await;
    let role = json!({"metadata": {"name": "r", "namespace": "ns"}, "rules": []});
    let roles = "/apis/rbac.authorization.orch.io/v1/clusterroles";
    let created = server.create(roles, role.clone()).await;
    assert!(created["metadata"].get("namespace").is_none(), "{created}");
    let replaced = server.put(&format!("{roles}/r"), role).await.object();
    assert!(replaced["metadata"].get("namespace").is_none(), "{replaced}");
}

#[tokio::test(start_paused = true)]
async fn kinds_without_a_generation_of_their_own_keep_the_given_one() {
    let server = Server::new().await;
    let mut object = map("a");
    object["metadata"]["generation"] = json!(7);
    assert_eq!(server.create(MAPS, object.clone()).await["metadata"]["generation"], 7);
    object["metadata"]["generation"] = json!(3);
    let replaced = server.put(&format!("{MAPS}/a"), object).await.object();
    assert_eq!(replaced["metadata"]["generation"], 7, "an update cannot touch it");
    let mut object = deployment("d");
    object["metadata"]["generation"] = json!(7);
    assert_eq!(server.create(DEPLOYMENTS, object).await["metadata"]["generation"], 1);
    let refused = server.post(MAPS, json!({"metadata": {"name": "b", "generation": -1}})).await;
    assert_eq!(
        refused.causes(),
        ["FieldValueInvalid metadata.generation: Invalid value: -1: must be greater than or equal to 0"]
    );
}

#[tokio::test(start_paused = true)]
async fn system_fields_of_a_new_object_are_the_servers() {
    let server = Server::new().await;
    let mut object = map("a");
    object["metadata"]["uid"] = json!("mine");
    object["metadata"]["creationTimestamp"] = json!("1999-01-01T00:00:00Z");
    object["metadata"]["deletionTimestamp"] = json!("1999-01-01T00:00:00Z");
    object["metadata"]["deletionGracePeriodSeconds"] = json!(9);
    object["metadata"]["selfLink"] = json!("/x");
    let created = server.create(MAPS, object).await;
    let metadata = &created["metadata"];
    assert_ne!(metadata["uid"], "mine");
    assert_eq!(metadata["creationTimestamp"], "2026-01-02T02:49:05Z");
    for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        assert!(metadata.get(field).is_none(), "{field}");
    }
}

#[tokio::test(start_paused = true)]
async fn no_write_stores_a_self_link() {
    let server = Server::new().await;
    server.create(MAPS, map("a")).await;
    let path = format!("{MAPS}/a");
    let mut replaced = map("a");
    replaced["metadata"]["selfLink"] = json!("/x");
    let config = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "selfLink": "/x"}, "data": {"k": "2"}
    });
    for reply in [
        server.put(&path, replaced).await,
        server.merge(&path, json!({"metadata": {"selfLink": "/x"}})).await,
        server.apply(&format!("{path}?force=true"), "m", config).await,
    ] {
        assert!(reply.object()["metadata"].get("selfLink").is_none());
    }
    assert!(server.get(&path).await.object()["metadata"].get("selfLink").is_none());
}

#[tokio::test(start_paused = true)]
async fn owner_references_that_are_the_same_are_one() {
    let server = Server::new().await;
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u-1"});
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "p", "uid": "u-1"});
    let owners = json!([owner, other, owner, owner]);
    let told = |when: &str| {
        format!(
            ".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, \
             and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: u-1, u-1"
        )
    };
    let mut object = map("a");
    object["metadata"]["ownerReferences"] = owners.clone();
    let reply = server.post(MAPS, object.clone()).await;
    assert_eq!(reply.json["metadata"]["ownerReferences"], json!([owner, other]));
    assert_eq!(reply.warnings, [told("")]);
    let reply = server.put(&format!("{MAPS}/a"), object).await;
    assert_eq!(reply.json["metadata"]["ownerReferences"], json!([owner, other]));
    assert_eq!(reply.warnings, [told("")]);
    let reply = server.merge(&format!("{MAPS}/a"), json!({"metadata": {"ownerReferences": owners}})).await;
    assert_eq!(reply.json["metadata"]["ownerReferences"], json!([owner, other]));
    assert_eq!(reply.warnings, [told(" after mutating admission happens")]);
}

#[tokio::test(start_paused = true)]
async fn a_name_on_its_way_out_is_still_taken() {
    let server = Server::new().await;
    let mut object = map("a");
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    server.create(MAPS, object).await;
    assert_eq!(server.post(MAPS, map("a")).await.refusal(), (409, "configmaps \"a\" already exists"));
    server.delete(&format!("{MAPS}/a"), json!(null)).await.object();
    let refused = server.post(MAPS, map("a")).await;
    assert_eq!(refused.refusal(), (409, "object is being deleted: configmaps \"a\" already exists"));
    assert_eq!(refused.json["reason"], "AlreadyExists");
}

#[tokio::test(start_paused = true)]
async fn generated_names_that_keep_colliding_are_told() {
    let server = Server::new().await;
    server.repeat_chance();
    let object = json!({"metadata": {"generateName": "a-"}});
    let name = server.create(MAPS, object.clone()).await["metadata"]["name"].as_str().unwrap().to_owned();
    assert!(name.starts_with("a-") && name.len() == 7, "{name}");
    let refused = server.post(MAPS, object).await;
    let told = format!(
        "configmaps {name:?} already exists, the server was not able to generate a unique name for the object"
    );
    assert_eq!(refused.refusal(), (409, told.as_str()));
    assert_eq!(refused.json["details"]["name"], name.as_str());
    assert_eq!(refused.json["details"]["retryAfterSeconds"], 1);
    let both = json!({"metadata": {"name": name, "generateName": "a-"}});
    assert_eq!(server.post(MAPS, both).await.refusal(), (409, told.as_str()));
    let dry = server.post(&format!("{MAPS}?dryRun=All"), json!({"metadata": {"generateName": "a-"}})).await;
    assert_eq!(dry.code, 409);
}

#[tokio::test(start_paused = true)]
async fn generated_names_stay_short_enough_for_labels() {
    let server = Server::new().await;
    let prefix = "x".repeat(80);
    let created = server.create(MAPS, json!({"metadata": {"generateName": prefix}})).await;
    assert_eq!(created["metadata"]["name"].as_str().unwrap().len(), 63);
    assert_eq!(created["metadata"]["generateName"], prefix);
}

#[tokio::test(start_paused = true)]
async fn finalizers_keep_their_rules_on_update() {
    let server = Server::new().await;
    server.create(MAPS, map("a")).await;
    let both = json!({"metadata": {"finalizers": ["orphan", "foregroundDeletion"]}});
    let refused = server.merge(&format!("{MAPS}/a"), both).await;
    assert_eq!(refused.code, 422);
    assert!(
        refused.causes().contains(
            &"FieldValueInvalid metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: \
              finalizer orphan and foregroundDeletion cannot be both set"
                .to_owned()
        ),
        "{:?}",
        refused.causes()
    );
    let leases = "/apis/coordination.orch.io/v1/namespaces/ns/leases";
    server.create(leases, json!({"metadata": {"name": "l"}})).await;
    let refused =
        server.merge(&format!("{leases}/l"), json!({"metadata": {"finalizers": ["no good!"]}})).await;
    assert_eq!(refused.code, 422, "{}", refused.json);
}

#[tokio::test(start_paused = true)]
async fn a_put_names_the_object_of_the_path() {
    let server = Server::new().await;
    server.create(MAPS, map("a")).await;
    let path = format!("{MAPS}/a");
    assert_eq!(
        server.put(&path, map("b")).await.refusal(),
        (400, "the name of the object (b) does not match the name on the URL (a)")
    );
    assert_eq!(
        server.put(&path, json!({"data": {}})).await.refusal(),
        (400, "the name of the object (a based on URL) was undeterminable: name must be provided")
    );
    let elsewhere = json!({"metadata": {"name": "a", "namespace": "other"}});
    assert_eq!(
        server.put(&path, elsewhere).await.refusal(),
        (400, "the namespace of the provided object does not match the namespace sent on the request")
    );
}

#[tokio::test(start_paused = true)]
async fn fixed_metadata_stays_over_an_update() {
    let server = Server::new().await;
    let created = server.create(MAPS, map("a")).await;
    server.advance(5);
    let mut object = map("a");
    object["metadata"]["creationTimestamp"] = json!("1999-01-01T00:00:00Z");
    object["data"]["k"] = json!("w");
    let replaced = server.put(&format!("{MAPS}/a"), object).await.object();
    assert_eq!(replaced["metadata"]["creationTimestamp"], created["metadata"]["creationTimestamp"]);
    assert_eq!(replaced["metadata"]["uid"], created["metadata"]["uid"]);
    let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-02T02:49:05Z"}});
    let refused = server.merge(&format!("{MAPS}/a"), deleted).await;
    assert_eq!(refused.code, 422, "{}", refused.json);
    assert_eq!(
        refused.causes()[0],
        "FieldValueInvalid metadata.deletionTimestamp: Invalid value: \"2026-01-02T02:49:05Z\": field is immutable"
    );
    let refused =
        server.merge(&format!("{MAPS}/a"), json!({"metadata": {"deletionGracePeriodSeconds": 3}})).await;
    assert_eq!(
        refused.causes()[0],
        "FieldValueInvalid metadata.deletionGracePeriodSeconds: Invalid value: 3: field is immutable"
    );
}
