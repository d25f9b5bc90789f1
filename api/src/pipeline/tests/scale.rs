//! Scales: numbers of replicas as documents of their own, and who owns them.

use super::*;

fn scale(replicas: i64) -> Value {
    json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "d"}, "spec": {"replicas": replicas}})
}

/// `manager/operation/subresource` of the owners of the number of replicas.
fn owners(object: &Value) -> Vec<String> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let owns = |entry: &&Value| !entry["fieldsV1"]["f:spec"]["f:replicas"].is_null();
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    let named =
        |entry: &Value| ["manager", "operation", "subresource"].map(|field| text(entry, field)).join("/");
    entries.iter().filter(owns).map(named).collect()
}

#[tokio::test]
async fn a_scale_shows_and_changes_the_number_of_its_object() {
    let server = Server::new().await;
    server.create(DEPLOYMENTS, deployment("d")).await;
    let (object, path) = (format!("{DEPLOYMENTS}/d"), format!("{DEPLOYMENTS}/d/scale"));
    let shown = server.get(&path).await.object();
    assert_eq!(shown["spec"], json!({"replicas": 1}));
    assert_eq!(shown["status"], json!({"replicas": 0, "selector": "a=b"}));
    assert!(shown["metadata"]["managedFields"].is_null());
    for (reply, replicas) in [
        (server.put(&path, scale(3)).await, 3),
        (server.merge(&path, json!({"spec": {"replicas": 4}})).await, 4),
        (server.patch(&path, STRATEGIC, json!({"spec": {"replicas": 5}})).await, 5),
        (
            server
                .patch(&path, JSON_PATCH, json!([{"op": "replace", "path": "/spec/replicas", "value": 6}]))
                .await,
            6,
        ),
        (
            server.merge(&path, json!({"metadata": {"labels": {"l": "m"}}, "status": {"replicas": 9}})).await,
            6,
        ),
    ] {
        let written = reply.object();
        assert_eq!(written["spec"]["replicas"], replicas);
        assert_eq!(written["status"]["replicas"], 0);
    }
    let stored = server.get(&object).await.object();
    assert_eq!((&stored["spec"]["replicas"], &stored["metadata"]["generation"]), (&json!(6), &json!(5)));
    assert!(stored["metadata"]["labels"].is_null(), "a scale has no labels to write");
    assert_eq!(owners(&stored), ["agent/Update/scale"]);
    let tried = server.put(&format!("{path}?dryRun=All"), scale(9)).await.object();
    assert_eq!(tried["spec"]["replicas"], 9);
    assert_eq!(server.get(&object).await.object()["spec"]["replicas"], 6);
    let zero = server.put(&path, json!({"metadata": {"name": "d"}})).await.object();
    assert_eq!(zero["spec"], json!({}));
    assert_eq!(server.get(&object).await.object()["spec"]["replicas"], 0);
}

#[tokio::test]
async fn an_applied_scale_owns_the_number_and_conflicts() {
    let server = Server::new().await;
    server.create(DEPLOYMENTS, deployment("d")).await;
    let path = format!("{DEPLOYMENTS}/d/scale");
    server.put(&path, scale(2)).await.object();
    let (code, message) = {
        let reply = server.apply(&path, "m", scale(3)).await;
        (reply.code, reply.refusal().1.to_owned())
    };
    assert_eq!(code, 409);
    let told = "conflict with \"agent\" with subresource \"scale\" using autoscaling/v1";
    assert!(message.contains(told), "{message}");
    server.apply(&format!("{path}?force=true"), "m", scale(3)).await.object();
    let stored = server.get(&format!("{DEPLOYMENTS}/d")).await.object();
    assert_eq!(owners(&stored), ["m/Apply/scale"]);
}

#[tokio::test]
async fn refusals_name_the_scale_or_its_object() {
    let server = Server::new().await;
    let created = server.create(DEPLOYMENTS, deployment("d")).await;
    let path = format!("{DEPLOYMENTS}/d/scale");
    let with = |field: &str, value: &str| {
        let mut scale = scale(2);
        scale["metadata"][field] = json!(value);
        scale
    };
    server.put(&path, scale(2)).await.object();
    let version = created["metadata"]["resourceVersion"].as_str().unwrap();
    for (sent, expected) in [
        (
            scale(-1),
            (
                422,
                "Scale.autoscaling \"d\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0",
            ),
        ),
        (
            with("resourceVersion", version),
            (
                409,
                "Operation cannot be fulfilled on deployments.apps \"d\": the object has been modified; please apply your changes to the latest version and try again",
            ),
        ),
        (with("name", "e"), (400, "the name of the object (e) does not match the name on the URL (d)")),
    ] {
        let reply = server.put(&path, sent).await;
        assert_eq!(reply.refusal(), expected);
    }
    let other = server.put(&path, with("uid", "u")).await;
    assert!(other.refusal().1.starts_with(
        "Operation cannot be fulfilled on deployments/scale.apps \"d\": Precondition failed: UID"
    ));
    let missing = server.get(&format!("{DEPLOYMENTS}/nope/scale")).await;
    assert_eq!(missing.refusal(), (404, "deployments.apps \"nope\" not found"));
    let missing = server.merge(&format!("{DEPLOYMENTS}/nope/scale"), json!({})).await;
    assert_eq!(missing.refusal(), (404, "deployments.apps \"nope\" not found"));
}
