//! Discovery and OpenAPI documents over aggregated servers.

use super::*;
use crate::aggregation::described::Description;

#[tokio::test]
async fn discovery_tells_of_every_server_and_waits_for_none() {
    let (server, scripted, aggregation) = server(Scripted::default(), "True").await;
    let listed = server.get("/apis").await.json();
    let version = json!({"groupVersion": "a.example.com/v1", "version": "v1"});
    let own = json!({"name": "a.example.com", "versions": [version.clone()], "preferredVersion": version});
    assert_eq!(listed["groups"][0], own, "its rank is above all others");
    assert_eq!(listed["groups"][1]["name"], "apiregistration.orch.io");
    let group = server.get("/apis/a.example.com").await.json();
    assert_eq!((&group["kind"], &group["preferredVersion"]), (&json!("APIGroup"), &own["preferredVersion"]));
    let accept = [("accept", "application/json;g=apidiscovery.orch.io;v=v2;as=APIGroupDiscoveryList")];
    let item = || async {
        let answered = server.send(Method::GET, "/apis", &accept, Body::empty()).await.json();
        answered["items"][0].clone()
    };
    let metadata = json!({"name": "a.example.com"});
    let stale = json!({"metadata": metadata.clone(), "versions": [{"version": "v1", "freshness": "Stale"}]});
    assert_eq!(item().await, stale);
    let resources = vec![json!({"resource": "things"})];
    let name: Arc<str> = "v1.a.example.com".into();
    aggregation.descriptions().set(&name, Description::Current(resources.clone().into()));
    let current = json!({"version": "v1", "resources": resources, "freshness": "Current"});
    assert_eq!(item().await, json!({"metadata": metadata, "versions": [current]}));
    assert_eq!(scripted.seen.lock().len(), 0, "no server is asked by a reader");
    server.delete(&format!("{API_SERVICES}/v1.a.example.com")).await;
    assert_eq!(server.get("/apis/a.example.com").await.text, "404 page not found\n");
    assert_eq!(server.get("/apis").await.json()["groups"][0]["name"], "apiregistration.orch.io");
}

#[tokio::test]
async fn openapi_documents_of_a_server_are_in_the_index_and_come_from_it() {
    let (server, scripted, aggregation) = server(Scripted::default(), "True").await;
    const URL: &str = "/openapi/v3/apis/a.example.com/v1?hash=0AF";
    let before = server.get("/openapi/v3").await;
    assert!(before.json()["paths"]["apis/a.example.com/v1"].is_null());
    aggregation.descriptions().set_openapi(&"v1.a.example.com".into(), Some(URL.to_owned()));
    let index = server.get("/openapi/v3").await;
    let paths = index.json()["paths"].clone();
    assert_eq!(paths["apis/a.example.com/v1"]["serverRelativeURL"], URL);
    assert!(paths["apis/apps/v1"].is_object());
    assert_ne!(before.headers["etag"], index.headers["etag"]);
    assert_eq!(server.get(URL).await.text, "text");
    assert!(scripted.seen.lock()[0].starts_with(&format!("GET {URL} ")));
    assert_eq!(server.get("/openapi/v3/apis/apps/v1").await.json()["openapi"], "3.0.0");
}

#[tokio::test]
async fn documents_of_version_2_are_merged_and_those_of_version_3_made_of_them() {
    use crate::aggregation::openapi::Kept;
    let (server, scripted, aggregation) = server(Scripted::default(), "True").await;
    let answer = json!({"200": {"description": "OK", "schema": {"$ref": "#/definitions/com.example.Thing"}}});
    let paths = json!({
        "/apis/a.example.com/v1/things": {"get": {"operationId": "listThings", "responses": answer}},
        "/apis/apps/v1/deployments": {"get": {"responses": {}}},
    });
    let definitions = json!({"com.example.Thing": {"type": "object", "description": "A thing."}});
    let text = json!({"swagger": "2.0", "paths": paths, "definitions": definitions}).to_string();
    let before = server.get("/openapi/v2").await;
    let kept = Kept::of((text.as_bytes(), "\"1\""), "/apis/a.example.com/v1", true, &orch_proto::brand::ORCH);
    aggregation.documents().set(&"v1.a.example.com".into(), Some(kept.unwrap()));
    let merged = server.get("/openapi/v2").await;
    assert_ne!(before.headers["etag"], merged.headers["etag"]);
    let (before, merged) = (before.json(), merged.json());
    assert_eq!(merged["definitions"]["com.example.Thing"]["description"], "A thing.");
    assert_eq!(merged["paths"]["/apis/a.example.com/v1/things"]["get"]["operationId"], "listThings");
    assert_eq!(merged["paths"]["/apis/apps/v1/deployments"], before["paths"]["/apis/apps/v1/deployments"]);
    let count = |document: &Value| document["paths"].as_object().unwrap().len();
    assert_eq!(count(&merged), count(&before) + 1);
    let index = server.get("/openapi/v3").await.json();
    let url = index["paths"]["apis/a.example.com/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    let made = server.get(&url).await.json();
    assert_eq!(made["components"]["schemas"]["com.example.Thing"]["description"], "A thing.");
    assert_eq!(scripted.seen.lock().len(), 0, "no server is asked by a reader");
    aggregation.descriptions().set_openapi(&"v1.a.example.com".into(), Some(url.clone()));
    assert_eq!(server.get(&url).await.text, "text", "its own counts");
}
