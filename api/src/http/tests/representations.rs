//! Which representation is answered, and which is refused with 406.

use axum::body::Body;
use http::Method;

use super::{MAPS, Server, json, map};

#[tokio::test(start_paused = true)]
async fn what_cannot_be_shown_so_is_not_acceptable() {
    let server = Server::new().await;
    server.create(MAPS, map("a", "1")).await;
    let one = "application/json;as=PartialObjectMetadata;g=meta.orch.io;v=v1";
    let list = "application/json;as=PartialObjectMetadataList;g=meta.orch.io;v=v1";
    let object = format!("{MAPS}/a");
    let watch = format!("{MAPS}?watch=1&timeoutSeconds=1");
    let plural =
        "you requested PartialObjectMetadata, but the requested object is a list (*core.ConfigMapList)";
    let single =
        "you requested PartialObjectMetadataList, but the requested object is not a list (*core.ConfigMap)";
    // The refusal itself is written in YAML.
    let stream = "reason: NotAcceptable";
    let cases = [
        (MAPS, one, 406, plural),
        (object.as_str(), list, 406, single),
        (watch.as_str(), "application/yaml", 406, stream),
        (MAPS, list, 200, "PartialObjectMetadataList"),
        (object.as_str(), one, 200, "PartialObjectMetadata"),
        (watch.as_str(), one, 200, "PartialObjectMetadata"),
        (watch.as_str(), list, 200, "\"code\":406"),
    ];
    for (path, accept, code, part) in cases {
        let answered = server.send(Method::GET, path, &[("accept", accept)], Body::empty()).await;
        assert_eq!(answered.code, code, "{path} {accept}: {}", answered.text);
        assert!(answered.text.contains(part), "{path} {accept}: {}", answered.text);
    }
}

#[tokio::test(start_paused = true)]
async fn only_tables_look_at_what_to_include() {
    let server = Server::new().await;
    server.create(MAPS, map("a", "1")).await;
    let path = format!("{MAPS}/a?includeObject=Nonsense");
    assert_eq!(server.get(&path).await.code, 200);
    let table = [("accept", "application/json;as=Table;g=meta.orch.io;v=v1")];
    let refused = server.send(Method::GET, &path, &table, Body::empty()).await;
    assert_eq!((refused.code.as_u16(), &refused.json()["reason"]), (400, &json!("BadRequest")));
}
