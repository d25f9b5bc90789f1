//! Watches in every representation: media types, framing, and the first event.

use axum::body::Body;
use http::Method;
use http_body_util::BodyExt;
use orch_proto::envelope::Unknown;
use orch_schema::value::Value;
use prost::Message;

use super::{MAPS, Server, json, map};

/// A watch event in Protobuf: its type, and its object in field 1 of a message.
#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(message, optional, tag = "2")]
    object: Option<Raw>,
}

#[derive(Clone, PartialEq, Message)]
struct Raw {
    #[prost(bytes = "vec", tag = "1")]
    raw: Vec<u8>,
}

/// Content type and body of a watch with an ADDED, a MODIFIED, a DELETED and a BOOKMARK event.
async fn watched(accept: &str, query: &str) -> (String, Vec<u8>) {
    let server = Server::new().await;
    server.create(MAPS, map("a", "1")).await;
    let path = format!("{MAPS}?watch=1&timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion=2{query}");
    server.merge(&format!("{MAPS}/a"), json!({"data": {"k": "2"}})).await;
    server.delete(&format!("{MAPS}/a")).await;
    let response = server.open(Method::GET, &path, &[("accept", accept)], Body::empty()).await;
    assert_eq!(response.status(), 200, "{accept}");
    let content_type = response.headers()["content-type"].to_str().unwrap().to_owned();
    assert!(response.headers().get("content-length").is_none());
    (content_type, response.into_body().collect().await.unwrap().to_bytes().to_vec())
}

fn lines(body: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(body).unwrap();
    assert!(text.ends_with('\n'));
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const KINDS: [&str; 4] = ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"];

#[tokio::test(start_paused = true)]
async fn streams_of_json_are_lines() {
    for accept in
        ["application/json", "*/*", "application/json;stream=watch", "text/html, application/json;pretty=1"]
    {
        let (content_type, body) = watched(accept, "&pretty=true").await;
        assert_eq!(content_type, "application/json", "{accept}");
        let events = lines(&body);
        assert_eq!(events.iter().map(|event| event["type"].as_str().unwrap()).collect::<Vec<_>>(), KINDS);
        assert!(events.iter().all(|event| event["object"]["kind"] == "ConfigMap"));
    }
}

#[tokio::test(start_paused = true)]
async fn streams_of_tables_name_their_columns_once() {
    for version in ["v1", "v1beta1"] {
        let accept = format!("application/json;as=Table;g=meta.orch.io;v={version}");
        for (include, row) in [("", "PartialObjectMetadata"), ("&includeObject=Object", "ConfigMap")] {
            let (content_type, body) = watched(&accept, include).await;
            assert_eq!(content_type, "application/json");
            let events = lines(&body);
            let columns = |event: &Value| !event["object"]["columnDefinitions"].is_null();
            assert_eq!(events.iter().map(columns).collect::<Vec<_>>(), [true, false, false, false]);
            for (event, kind) in events.iter().zip(KINDS) {
                let table = &event["object"];
                assert_eq!((&event["type"], &table["kind"]), (&json!(kind), &json!("Table")));
                assert_eq!(table["apiVersion"], format!("meta.orch.io/{version}"));
                let object = &table["rows"][0]["object"];
                assert_eq!(object["kind"], row, "{event}");
                assert_eq!(object["metadata"]["resourceVersion"], table["metadata"]["resourceVersion"]);
                let of_view = row == "PartialObjectMetadata";
                let head = if of_view { format!("meta.orch.io/{version}") } else { "v1".to_owned() };
                assert_eq!(object["apiVersion"], head);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn streams_of_metadata_leave_the_rest_out() {
    let accept = "application/json;as=PartialObjectMetadata;g=meta.orch.io;v=v1, application/json";
    let (_, body) = watched(accept, "").await;
    for (event, kind) in lines(&body).iter().zip(KINDS) {
        let object = event["object"].as_object().unwrap();
        assert_eq!((&event["type"], &object["kind"]), (&json!(kind), &json!("PartialObjectMetadata")));
        assert_eq!(object.keys().collect::<Vec<_>>(), ["kind", "apiVersion", "metadata"]);
    }
}

#[tokio::test(start_paused = true)]
async fn streams_of_protobuf_have_lengths_before_events() {
    let plain = "application/vnd.orch.protobuf";
    let metadata = format!("{plain};as=PartialObjectMetadata;g=meta.orch.io;v=v1");
    let streamed = format!("{plain};stream=watch");
    for (accept, api_version, kind) in [
        (plain, "v1", "ConfigMap"),
        (streamed.as_str(), "v1", "ConfigMap"),
        (metadata.as_str(), "meta.orch.io/v1", "PartialObjectMetadata"),
    ] {
        let (content_type, body) = watched(accept, "").await;
        assert_eq!(content_type, "application/vnd.orch.protobuf;stream=watch", "{accept}");
        let (mut rest, mut kinds) = (body.as_slice(), Vec::new());
        while let Some((length, behind)) = rest.split_first_chunk::<4>() {
            let (frame, behind) = behind.split_at(usize::try_from(u32::from_be_bytes(*length)).unwrap());
            rest = behind;
            let event = Event::decode(frame).unwrap();
            let raw = event.object.unwrap().raw;
            let unknown = Unknown::decode(raw.strip_prefix(b"k8s\0").unwrap()).unwrap();
            let head = unknown.type_meta.unwrap();
            assert_eq!((head.api_version.as_str(), head.kind.as_str()), (api_version, kind), "{accept}");
            kinds.push(event.kind);
        }
        assert!(rest.is_empty());
        assert_eq!(kinds, KINDS, "{accept}");
    }
}

#[tokio::test(start_paused = true)]
async fn streams_that_are_not_written_are_refused_before_they_start() {
    let server = Server::new().await;
    let told = "only the following media types are accepted: application/json;stream=watch";
    let path = format!("{MAPS}?watch=1&timeoutSeconds=1");
    for accept in ["application/yaml", "application/yaml, application/json;q=0.5"] {
        let refused = server.send(Method::GET, &path, &[("accept", accept)], Body::empty()).await;
        assert_eq!(refused.code, 406, "{accept}");
        // The refusal is in YAML, which breaks lines at any space.
        let text = refused.text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(told), "{accept}: {text}");
    }
    let table = "application/json;as=Table;g=meta.orch.io;v=v1";
    let path = format!("{path}&includeObject=x");
    let refused = server.send(Method::GET, &path, &[("accept", table)], Body::empty()).await;
    assert_eq!(refused.code, 400);
}
