//! Definitions of custom kinds are in force when they are acknowledged: through the member that acknowledged them, and through another
//! one that is asked for a state no older.

use orch_cluster_tests::client::Client;
use orch_cluster_tests::cluster::{Cluster, Options};
use serde_json::{Value, json};

/// Path of definitions.
const DEFINITIONS: &str = "/apis/apiextensions.orch.io/v1/customresourcedefinitions";

/// Definitions that are made one after the other.
const DEFINITIONS_MADE: usize = 50;

fn definition(number: usize) -> Value {
    let plural = format!("things{number}");
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}});
    json!({
        "apiVersion": "apiextensions.orch.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.made.example.com")},
        "spec": {
            "group": "made.example.com", "scope": "Cluster",
            "names": {"plural": plural, "singular": format!("thing{number}"), "kind": format!("Thing{number}")},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

fn object(number: usize, name: &str) -> Value {
    json!({"apiVersion": "made.example.com/v1", "kind": format!("Thing{number}"),
        "metadata": {"name": name}, "spec": {"size": number}})
}

fn collection(number: usize) -> String {
    format!("/apis/made.example.com/v1/things{number}")
}

/// Creates a definition through `member`. Returns its `resourceVersion`.
async fn define(member: &Client, number: usize) -> String {
    let made = member.post(DEFINITIONS, &definition(number)).await.unwrap();
    assert_eq!(made.status, 201);
    made.json().unwrap()["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_is_created_as_soon_as_its_definition_is_acknowledged() {
    let cluster = Cluster::start(Options::nodes(1)).await.unwrap();
    let member = cluster.client(0).unwrap();
    for number in 0..DEFINITIONS_MADE {
        define(&member, number).await;
        let created = member.post(&collection(number), &object(number, "a")).await.unwrap();
        assert_eq!(created.status, 201, "{number}: {:?}", created.success());
        let described = member.get("/apis/made.example.com/v1").await.unwrap().success().unwrap();
        let resources = described["resources"].as_array().unwrap();
        assert_eq!(resources.len(), number + 1, "each of them is described");
    }
    // A changed schema is in force with its acknowledgement, too.
    let path = format!("{DEFINITIONS}/things0.made.example.com");
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "string"}}}}});
    let versions =
        json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]);
    member.merge_patch(&path, &json!({"spec": {"versions": versions}})).await.unwrap().success().unwrap();
    let refused = member.post(&collection(0), &object(0, "b")).await.unwrap();
    assert_eq!(refused.status, 422);
    member.delete(&path).await.unwrap().success().unwrap();
    let mut fitting = object(0, "c");
    fitting["spec"]["size"] = json!("large");
    let late = member.post(&collection(0), &fitting).await.unwrap();
    assert!([403, 404].contains(&late.status), "{}", late.status);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_member_knows_a_kind_for_a_client_that_has_seen_its_definition() {
    let cluster = Cluster::start(Options::nodes(3)).await.unwrap();
    let members: Vec<Client> = (0..3).map(|node| cluster.client(node).unwrap()).collect();
    for number in 0..DEFINITIONS_MADE {
        let (first, second) = (&members[number % 3], &members[(number + 1) % 3]);
        let version = define(first, number).await;
        let path = format!("{}?resourceVersion={version}", collection(number));
        let listed = second.get(&path).await.unwrap();
        assert_eq!(listed.status, 200, "{path}: {:?}", listed.success());
        let third = &members[(number + 2) % 3];
        let created = third.post(&collection(number), &object(number, "a")).await.unwrap();
        assert_eq!(created.status, 201, "{number}: {:?}", created.success());
    }
}
