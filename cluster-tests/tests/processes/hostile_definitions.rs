//! Definitions of custom kinds at the bounds and beyond them: those are served, these are refused, and the server answers on.

use std::time::{Duration, Instant};

use orch_cluster_tests::client::Client;
use orch_cluster_tests::cluster::{Cluster, Options};
use serde_json::{Map, Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.orch.io/v1/customresourcedefinitions";

/// Longest answer, on a machine shared with other tests.
const ANSWER_MAX: Duration = Duration::from_secs(20);

/// Levels of objects in a schema whose document is not yet nested too deeply: a schema has two levels for each.
const LEVELS_MAX: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn definitions_beyond_a_bound_are_refused_and_those_at_it_are_served() {
    let cluster = Cluster::start(Options::nodes(1)).await.unwrap();
    let client = cluster.client(0).unwrap().with_timeout(ANSWER_MAX);
    let text = |bytes: usize| json!({"type": "object", "description": "x".repeat(bytes)});
    // What the store does not take has the reference's status.
    refused(&client, "large", &text(3_000_000), 500, "request is too large").await;
    refused(&client, "wide", &properties(1 << 16), 413, "too many values").await;
    refused(&client, "deep", &nested(10 * LEVELS_MAX), 400, "maximum nesting depth").await;
    for (name, schema) in
        [("large", text(1_400_000)), ("wide", properties(11_000)), ("deep", nested(LEVELS_MAX))]
    {
        client.post(DEFINITIONS, &definition(name, &schema)).await.unwrap().success().unwrap();
        let listed = client.get(&format!("/apis/{name}.example.com/v1/things")).await.unwrap();
        assert_eq!(listed.status, 200, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn columns_with_deep_paths_are_printed_while_the_server_answers_others() {
    let cluster = Cluster::start(Options::nodes(1)).await.unwrap();
    let client = cluster.client(0).unwrap().with_timeout(ANSWER_MAX);
    let path = format!("{}.b", ".a".repeat(2_000));
    let column = |number: usize| json!({"name": format!("c{number}"), "type": "string", "jsonPath": path});
    let mut deep = definition("columns", &json!({"type": "object", "x-orch-preserve-unknown-fields": true}));
    deep["spec"]["versions"][0]["additionalPrinterColumns"] = (0..300).map(column).collect();
    client.post(DEFINITIONS, &deep).await.unwrap().success().unwrap();
    let things = "/apis/columns.example.com/v1/namespaces/default/things";
    for number in 0..20 {
        let thing = json!({"apiVersion": "columns.example.com/v1", "kind": "Thing",
            "metadata": {"name": format!("t{number}")}, "a": {"a": {"a": {"b": "x"}}}});
        client.post(things, &thing).await.unwrap().success().unwrap();
    }
    let begin = Instant::now();
    let table = [("Accept", "application/json;as=Table;g=meta.orch.io;v=v1")];
    let printed = client.send(http::Method::GET, things, &table, bytes::Bytes::new()).await.unwrap();
    let printed = printed.success().unwrap();
    assert!(begin.elapsed() < ANSWER_MAX);
    assert_eq!(printed["columnDefinitions"].as_array().unwrap().len(), 301);
    let rows = printed["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 20);
    assert!(rows.iter().all(|row| row["cells"].as_array().unwrap().len() == 301));
}

/// The definition is refused with this status and a message that has `text`.
async fn refused(client: &Client, name: &str, schema: &Value, status: u16, text: &str) {
    let answer = client.post(DEFINITIONS, &definition(name, schema)).await.unwrap();
    assert_eq!(answer.status, status, "{name}");
    let message = answer.json().unwrap()["message"].as_str().unwrap().to_owned();
    assert!(message.contains(text), "{name}: {message}");
    assert_eq!(client.get("/readyz").await.unwrap().status, 200);
}

/// A definition of things in a group called after `name`.
fn definition(name: &str, schema: &Value) -> Value {
    let group = format!("{name}.example.com");
    json!({"apiVersion": "apiextensions.orch.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}")},
        "spec": {"group": group, "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
}

/// A schema of `count` properties.
fn properties(count: usize) -> Value {
    let property = |number: usize| (format!("p{number}"), json!({"type": "string"}));
    json!({"type": "object", "properties": (0..count).map(property).collect::<Map<_, _>>()})
}

/// A schema of objects in objects.
fn nested(levels: usize) -> Value {
    (0..levels)
        .fold(json!({"type": "string"}), |below, _| json!({"type": "object", "properties": {"a": below}}))
}
