//! Replays recorded answers of the HTTPS port.

use serde_json::Value;

use super::fake_api::FakeApi;
use super::https::{Answer, Client};
use super::process::{free_port, start, write_client_config};

const FACTS: &str = include_str!("../data/scheduler-serving.json");

#[tokio::test(flavor = "multi_thread")]
async fn recorded_answers_are_given() {
    let facts: Value = serde_json::from_str(FACTS).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let api = FakeApi::start().await;
    write_client_config(&dir.path().join("admin.conf"), &api.url());
    let (mut compared, mut differences) = (0, Vec::new());
    for (setup, recorded) in facts["http"].as_object().unwrap() {
        let port = free_port();
        let folder = dir.path().display().to_string();
        let mut arguments = vec![
            format!("--orchconfig={folder}/admin.conf"),
            "--leader-elect=false".to_owned(),
            format!("--secure-port={port}"),
            "--bind-address=127.0.0.1".to_owned(),
            "--log-flush-frequency=0".to_owned(),
            // The small API server of this test answers in JSON.
            "--orch-api-content-type=application/json".to_owned(),
        ];
        let flags = recorded["flags"].as_array().unwrap().iter().filter_map(Value::as_str);
        arguments.extend(flags.map(|flag| flag.replace("DIR", &folder)));
        let mut running = start(&arguments);
        running.wait_until_said("INFO all objects are known");
        for record in recorded["responses"].as_array().unwrap() {
            for credentials in record["credentials"].as_array().unwrap().iter().filter_map(Value::as_str) {
                compared += 1;
                if let Err(difference) = replay(port, record, credentials, &facts["bodies"]).await {
                    let (method, path) = request(record);
                    differences.push(format!("{setup}: {method} {path}, {credentials}: {difference}"));
                }
            }
        }
        assert_eq!(running.stop().code(), Some(1));
    }
    assert_eq!(compared, 450);
    assert!(differences.is_empty(), "{} of 450 differ:\n{}", differences.len(), differences.join("\n"));
}

fn request(record: &Value) -> (&str, &str) {
    (record["method"].as_str().unwrap_or("GET"), record["path"].as_str().unwrap())
}

async fn replay(port: u16, record: &Value, credentials: &str, bodies: &Value) -> Result<(), String> {
    let token = match credentials {
        "none" => None,
        "bad token" => Some("Bearer bad-token"),
        "token without rights" => Some("Bearer alice-token"),
        "admin token" => Some("Bearer admin-token"),
        other => panic!("unknown credentials {other}"),
    };
    let headers: Vec<(&str, &str)> = token.iter().map(|token| ("authorization", *token)).collect();
    let (method, path) = request(record);
    let answer = Client::new(port).send(method, path, &headers, "").await;
    compare(record, &answer, bodies)
}

fn compare(record: &Value, answer: &Answer, bodies: &Value) -> Result<(), String> {
    let header = |name: &str| answer.headers.get(name).and_then(|value| value.to_str().ok());
    let differs = |what: &str, found: &dyn std::fmt::Debug, expected: &dyn std::fmt::Debug| {
        Err(format!("{what}: {found:?} instead of {expected:?}; {:?}", answer.body))
    };
    if record["status"] != answer.status.as_u16() {
        return differs("status", &answer.status, &record["status"]);
    }
    if record["contentType"].as_str() != header("content-type") {
        return differs("content type", &header("content-type"), &record["contentType"]);
    }
    // Records of other methods than GET do not say.
    let is_unsniffed = header("x-content-type-options") == Some("nosniff");
    if record.get("method").is_none() && is_unsniffed != (record["nosniff"] == true) {
        return differs("nosniff", &is_unsniffed, &record["nosniff"]);
    }
    if let Some(name) = record["bodyIs"].as_str() {
        let text = |member: &str| record[member].as_str().unwrap_or_default();
        let path = text("path").split('?').next().unwrap();
        let expected = bodies[name].as_str().unwrap();
        let expected =
            expected.replace("USER", text("user")).replace("VERB", text("verb")).replace("PATH", path);
        if answer.body != expected {
            return differs("body", &answer.body, &expected);
        }
    }
    if record["body"].as_str().is_some_and(|body| body != answer.body) {
        return differs("body", &answer.body, &record["body"]);
    }
    for (member, keys) in record["bodyKeys"].as_object().into_iter().flatten() {
        let body: Value = serde_json::from_str(&answer.body).map_err(|error| error.to_string())?;
        let mut found: Vec<&String> =
            body[member].as_object().into_iter().flatten().map(|(key, _)| key).collect();
        found.sort();
        let expected: Vec<&str> = keys.as_array().unwrap().iter().filter_map(Value::as_str).collect();
        if found != expected {
            return differs("keys", &found, &expected);
        }
    }
    Ok(())
}
