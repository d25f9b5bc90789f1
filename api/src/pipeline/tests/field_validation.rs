//! Unknown and duplicate fields, in every format and at every level.

use http::Method;
use orch_schema::json;

use super::{APPLY, JSON, JSON_PATCH, MAPS, MERGE, Reply, STRATEGIC, Server, YAML, map};

/// Sends `body` at each level; returns the warnings of Warn and the refusal of Strict. Ignore gives no warning.
async fn levels(
    server: &Server,
    method: Method,
    path: &str,
    format: &str,
    body: &str,
) -> (Vec<String>, Reply) {
    let sign = if path.contains('?') { '&' } else { '?' };
    let at = |level: &str| format!("{path}{sign}fieldValidation={level}");
    let ignored = server.send(method.clone(), &at("Ignore"), format, body).await;
    assert_eq!(ignored.warnings, [""; 0], "{}", ignored.json);
    assert!(ignored.code < 300, "{}", ignored.json);
    let strict = server.send(method.clone(), &at("Strict"), format, body).await;
    assert!(strict.code >= 400, "{}", strict.json);
    let warned = server.send(method, &at("Warn"), format, body).await;
    assert!(warned.code < 300, "{}", warned.json);
    (warned.warnings, strict)
}

#[tokio::test(start_paused = true)]
async fn merge_patches_name_duplicates_before_unknown_fields() {
    let server = Server::new().await;
    server.create(MAPS, map("a")).await;
    let path = format!("{MAPS}/a");
    let body = r#"{"data":{"k":"1","k":"2"},"zzz":1,"Data":{"x":"y"}}"#;
    let (warnings, strict) = levels(&server, Method::PATCH, &path, MERGE, body).await;
    let expected =
        ["duplicate field \"data.k\"", "unknown field \"zzz\"", "unknown field \"Data\""].map(str::to_owned);
    assert_eq!(warnings, expected, "names of fields are compared with case");
    let (code, message) = strict.refusal();
    assert_eq!(code, 422);
    assert!(message.starts_with(" \"\" is invalid: patch: Invalid value: \"{\\\"kind\\\":"), "{message}");
    assert!(
        message.ends_with(
            "strict decoding error: duplicate field \"data.k\", unknown field \"zzz\", unknown field \"Data\""
        ),
        "{message}"
    );
    let stored = server.get(&path).await.json;
    assert_eq!(stored["data"], json!({"k": "2"}), "the last one counts");
}

#[tokio::test(start_paused = true)]
async fn strategic_patches_are_shown_as_maps() {
    let server = Server::new().await;
    server.create(MAPS, map("a")).await;
    let path = format!("{MAPS}/a");
    let body = r#"{"data":{"k":"1","k":"2"},"zzz":1}"#;
    let (warnings, strict) = levels(&server, Method::PATCH, &path, STRATEGIC, body).await;
    assert_eq!(warnings, ["duplicate field \"data.k\"", "unknown field \"zzz\""]);
    assert_eq!(
        strict.refusal(),
        (
            422,
            " \"\" is invalid: patch: Invalid value: \"map[data:map[k:2] zzz:1]\": strict decoding error: \
             duplicate field \"data.k\", unknown field \"zzz\""
        )
    );
}

#[tokio::test(start_paused = true)]
async fn json_patches_name_the_operation() {
    let server = Server::new().await;
    server.create(MAPS, map("a")).await;
    let path = format!("{MAPS}/a");
    let body = r#"[{"op":"add","op":"replace","path":"/data/k","value":"x","foo":1}]"#;
    let (warnings, strict) = levels(&server, Method::PATCH, &path, JSON_PATCH, body).await;
    let expected =
        ["json patch duplicate field \"[0].op\"", "json patch unknown field \"[0].foo\""].map(str::to_owned);
    assert_eq!(warnings, expected);
    assert_eq!(strict.code, 422);
}

#[tokio::test(start_paused = true)]
async fn applies_name_duplicates_by_line() {
    let server = Server::new().await;
    let head = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n";
    let body = format!("{head}data:\n  k: a\n  k: b\n");
    let path = format!("{MAPS}/a?fieldManager=m");
    let (warnings, strict) = levels(&server, Method::PATCH, &path, APPLY, &body).await;
    assert_eq!(warnings, ["line 7: key \"k\" already set in map"]);
    assert_eq!(
        strict.refusal(),
        (
            400,
            "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  \
             line 7: key \"k\" already set in map"
        )
    );
    // Apply refuses unknown fields at every level: they cannot be merged.
    let unknown = format!("{head}nope: 1\n");
    let refused =
        server.send(Method::PATCH, &format!("{path}&fieldValidation=Ignore"), APPLY, &unknown).await;
    assert!(refused.refusal().1.ends_with(".nope: field not declared in schema"), "{}", refused.json);
}

#[tokio::test(start_paused = true)]
async fn yaml_bodies_are_warned_of_line_by_line() {
    let server = Server::new().await;
    let body = "metadata:\n  name: a\n  name: a\ndata:\n  k: a\n  k: b\nnope: 1\n";
    let path = format!("{MAPS}?dryRun=All");
    let (warnings, strict) = levels(&server, Method::POST, &path, YAML, body).await;
    let expected = [
        "line 3: key \"name\" already set in map",
        "line 6: key \"k\" already set in map",
        "unknown field \"nope\"",
    ];
    assert_eq!(warnings, expected);
    assert!(
        strict.refusal().1.contains(
            "strict decoding error: yaml: unmarshal errors:\n  line 3: key \"name\" already set in map\n  \
             line 6: key \"k\" already set in map, unknown field \"nope\""
        ),
        "{}",
        strict.json
    );
}

#[tokio::test(start_paused = true)]
async fn no_more_than_a_hundred_fields_are_named() {
    let server = Server::new().await;
    let fields: Vec<String> = (0..150).map(|at| format!("\"x{at}\":1")).collect();
    let body = format!("{{\"metadata\":{{\"name\":\"a\"}},{}}}", fields.join(","));
    let reply = server.send(Method::POST, MAPS, JSON, &body).await;
    assert_eq!(reply.warnings.len(), 100);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_type_is_refused_at_every_level() {
    let server = Server::new().await;
    server.create(MAPS, map("a")).await;
    for level in ["Ignore", "Warn", "Strict"] {
        let body = r#"{"metadata":{"name":"b"},"data":{"k":1},"nope":1}"#;
        let refused = server.send(Method::POST, &format!("{MAPS}?fieldValidation={level}"), JSON, body).await;
        assert_eq!((refused.code, &refused.json["reason"]), (400, &json!("BadRequest")));
        let path = format!("{MAPS}/a?fieldValidation={level}");
        for format in [MERGE, STRATEGIC] {
            let refused = server.send(Method::PATCH, &path, format, r#"{"data":{"k":1},"nope":1}"#).await;
            assert_eq!(refused.code, 422, "{format} {level}");
            assert!(!refused.refusal().1.contains("unknown field"), "the other reason counts");
        }
    }
    let refused = server.send(Method::POST, &format!("{MAPS}?fieldValidation=strict"), JSON, "{}").await;
    assert_eq!(refused.code, 422);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_for_another_reason_tells_of_the_fields_too() {
    let server = Server::new().await;
    server.create(MAPS, map("a")).await;
    let body = |name: &str, version: &str| {
        let metadata = json!({"name": name, "resourceVersion": version});
        json!({"metadata": metadata, "zzz": 1}).to_string()
    };
    let one = format!("{MAPS}/a");
    let patch = r#"{"metadata":{"uid":"x"},"zzz":1}"#.to_owned();
    for (method, path, format, body, code) in [
        (Method::POST, MAPS.to_owned(), JSON, body("Not A Name", ""), 422),
        (Method::POST, format!("{MAPS}?fieldValidation="), JSON, body("a", ""), 409),
        (Method::PUT, one.clone(), JSON, body("a", "1"), 409),
        (Method::PATCH, one.clone(), MERGE, patch.clone(), 422),
        (Method::PATCH, one.clone(), STRATEGIC, patch, 422),
    ] {
        let refused = server.send(method, &path, format, &body).await;
        assert_eq!(refused.code, code, "{}", refused.json);
        assert_eq!(refused.warnings, ["unknown field \"zzz\""], "{path} {format}");
    }
    let ignored = server
        .send(Method::POST, &format!("{MAPS}?fieldValidation=Ignore"), JSON, &body("Not A Name", ""))
        .await;
    assert_eq!((ignored.code, ignored.warnings.len()), (422, 0));
}
