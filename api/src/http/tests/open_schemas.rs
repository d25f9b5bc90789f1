//! Server-side apply to custom kinds whose schemas leave open what a value is.

use axum::body::Body;
use http::Method;
use orch_schema::json;
use orch_schema::value::Value;

use super::undeclared::define_with;
use super::{Answered, Server};

const WIDGET: &str = "/apis/example.com/v1/namespaces/ns/widgets/w?fieldManager=m&fieldValidation=Strict";

async fn apply(server: &Server, field: &str, value: Value) -> Answered {
    let headers = [("content-type", "application/apply-patch+yaml")];
    let metadata = json!({"name": "w"});
    let body = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, field: value});
    server.send(Method::PATCH, WIDGET, &headers, Body::from(body.to_string())).await
}

#[tokio::test(start_paused = true)]
async fn an_apply_is_refused_by_the_schema_or_loses_what_no_schema_declares() {
    let server = Server::new().await;
    let properties = json!({
        "free": {"type": "object"}, "when": {"type": "string", "format": "date-time"},
        "either": {"x-orch-int-or-string": true},
    });
    define_with(&server, json!({"type": "object", "properties": properties})).await;
    let created = apply(&server, "free", json!({"a": {"b": 1}})).await;
    assert_eq!(created.code, 201, "{}", created.text);
    let created = created.json();
    assert_eq!(created["free"], json!({}));
    let owned = &created["metadata"]["managedFields"][0]["fieldsV1"]["f:free"];
    assert_eq!(owned, &json!({"f:a": {".": {}, "f:b": {}}}));
    for (field, value, told) in [
        ("when", json!(5), r#"must be of type date-time: \"int64\""#),
        ("either", json!({"a": 1}), r#"must be of type integer,string: \"object\""#),
    ] {
        let refused = apply(&server, field, value).await;
        assert!(refused.code == 422 && refused.text.contains(told), "{}", refused.text);
    }
}
