//! Objects of several versions, and labels that their namespaces must have.

use super::*;

const V1: &str = "/apis/autoscaling/v1/namespaces/ns/horizontalpodautoscalers";
const V2: &str = "/apis/autoscaling/v2/namespaces/ns/horizontalpodautoscalers";
const CLAIMS: &str = "/apis/resource.orch.io/v1/namespaces/ns/resourceclaims";

fn owned(object: &Value, version: &str) -> Value {
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["apiVersion"] == version);
    entry.map_or(Value::Null, |entry| entry["fieldsV1"]["f:spec"].clone())
}

#[tokio::test]
async fn a_writer_owns_the_fields_of_its_version() {
    let server = Server::new().await;
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let created = server
        .post(V1, json!({"metadata": {"name": "a"}, "spec": {"scaleTargetRef": target, "maxReplicas": 3}}))
        .await;
    assert_eq!(created.code, 201, "{:?}", created.json);
    assert_eq!(
        created.json["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 80,
        "stored as v2"
    );
    let whole = json!({
        "f:maxReplicas": {}, "f:minReplicas": {}, "f:scaleTargetRef": {}, "f:targetCPUUtilizationPercentage": {}
    });
    assert_eq!(owned(&created.json, "autoscaling/v1"), whole, "with what the conversion adds");
    let memory = json!({"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}});
    let patch = json!({"spec": {"metrics": [{"type": "Resource", "resource": memory}]}}).to_string();
    let patched = server.send(Method::PATCH, &format!("{V2}/a"), MERGE, &patch).await;
    assert_eq!(patched.code, 200, "{:?}", patched.json);
    assert_eq!(owned(&patched.json, "autoscaling/v2"), json!({"f:metrics": {}}));
    let rest = json!({"f:maxReplicas": {}, "f:minReplicas": {}, "f:scaleTargetRef": {}});
    assert_eq!(owned(&patched.json, "autoscaling/v1"), rest, "v1 shows the metric in an annotation now");
    let raised =
        server.send(Method::PATCH, &format!("{V1}/a"), MERGE, "{\"spec\":{\"maxReplicas\":9}}").await;
    assert_eq!(raised.json["spec"]["metrics"], patched.json["spec"]["metrics"], "v1 carries it through");
    assert_eq!(raised.json["metadata"].get("annotations"), None, "and stores no annotation");
}

#[tokio::test]
async fn administrators_access_waits_for_the_label_of_the_namespace() {
    let server = Server::new().await;
    let exact = json!({"deviceClassName": "gpu", "adminAccess": true});
    let claim = json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"name": "r", "exactly": exact}]}}});
    let refused = server.post(CLAIMS, claim.clone()).await;
    assert_eq!(refused.code, 422, "{:?}", refused.json);
    assert_eq!(refused.json["details"]["causes"][0]["field"], "spec.devices.requests[0].adminAccess");
    let label = "{\"metadata\":{\"labels\":{\"resource.orch.io/admin-access\":\"true\"}}}";
    server.send(Method::PATCH, "/api/v1/namespaces/ns", MERGE, label).await;
    let created = server.post(CLAIMS, claim).await;
    assert_eq!(created.code, 201, "{:?}", created.json);
}
