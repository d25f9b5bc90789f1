//! Bindings through both of their paths.

use super::*;

fn binding(pod: &str, metadata: Value) -> Value {
    let mut metadata = metadata;
    metadata["name"] = json!(pod);
    json!({"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": "n"}})
}

#[tokio::test]
async fn a_pod_is_bound_once_through_either_path() {
    let server = Server::new().await;
    let of_pod = |name: &str| format!("{PODS}/{name}/binding");
    let bindings = "/api/v1/namespaces/ns/bindings";
    for (name, path) in [("a", of_pod("a")), ("b", bindings.to_owned())] {
        server.create(PODS, pod(name)).await;
        let sent = binding(name, json!({"annotations": {"x": "y"}, "labels": {"l": "m"}}));
        server.post(&format!("{path}?dryRun=All"), sent.clone()).await.object();
        assert!(server.get(&format!("{PODS}/{name}")).await.object()["spec"]["nodeName"].is_null());
        let reply = server.post(&path, sent.clone()).await;
        assert_eq!(
            (reply.code, &reply.json["status"], &reply.json["code"]),
            (201, &json!("Success"), &json!(201))
        );
        let bound = server.get(&format!("{PODS}/{name}")).await.object();
        assert_eq!(bound["spec"]["nodeName"], "n");
        assert_eq!(bound["metadata"]["annotations"], json!({"x": "y"}));
        assert_eq!(bound["metadata"]["labels"], json!({"l": "m"}));
        assert_eq!(bound["status"]["conditions"][0]["type"], "PodScheduled");
        let again = server.post(&path, sent).await;
        let told = format!(
            "Operation cannot be fulfilled on pods/binding \"{name}\": pod {name} is already assigned to node \"n\""
        );
        assert_eq!(again.refusal(), (409, told.as_str()));
        assert_eq!(again.json["details"], json!({"name": name, "kind": "pods/binding"}));
    }
}

#[tokio::test]
async fn a_binding_fits_its_pod() {
    let server = Server::new().await;
    let created = server.create(PODS, pod("a")).await;
    let mut gated = pod("g");
    gated["spec"]["schedulingGates"] = json!([{"name": "x"}]);
    server.create(PODS, gated).await;
    let path = format!("{PODS}/a/binding");
    let sent = |metadata: Value| binding("a", metadata);
    let uid = created["metadata"]["uid"].as_str().unwrap();
    let mut aimless = sent(json!({}));
    aimless["target"] = json!({"kind": "Pod"});
    for (path, sent, code, part) in [
        (&path, binding("b", json!({})), 400, "name in URL does not match name in Binding object"),
        (
            &path,
            sent(json!({"uid": "other"})),
            409,
            "Precondition failed: UID in precondition: other, UID in object meta:",
        ),
        (
            &path,
            sent(json!({"resourceVersion": "1"})),
            409,
            "Precondition failed: ResourceVersion in precondition: 1,",
        ),
        (&path, aimless, 500, "target.name: Required value"),
        (&format!("{PODS}/nope/binding"), binding("nope", json!({})), 404, "pods \"nope\" not found"),
        (
            &format!("{PODS}/g/binding"),
            binding("g", json!({})),
            409,
            "pod g has non-empty .spec.schedulingGates",
        ),
    ] {
        let reply = server.post(path, sent).await;
        assert_eq!(reply.code, code, "{}", reply.json);
        assert!(reply.refusal().1.contains(part), "{}", reply.json);
    }
    server.post(&path, sent(json!({"uid": uid}))).await.object();
}
