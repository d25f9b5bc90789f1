//! The annotations that calls of webhooks leave in audit events.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::audits::{MemorySink, auditor};
use super::*;
use crate::admission::{Chain, NamespaceMaker, PluginSelection, Settings};
use crate::egress::EgressError;
use crate::webhook::testing::{Answer, Answering};
use crate::webhook::{Call, Routing, Webhooks};

const GROUP: &str = "/apis/admissionregistration.orch.io/v1";

fn answer(call: &Call) -> Answer {
    let review: Value = serde_json::from_slice(&call.document).unwrap();
    let mut response = json!({"uid": review["request"]["uid"].clone(), "allowed": true});
    let mut patch = |value: &str| {
        let patch = json!([{"op": "add", "path": "/data/k", "value": value}]).to_string();
        response["patch"] = json!(STANDARD.encode(patch));
        response["patchType"] = json!("JSONPatch");
    };
    match call.url.target.split('?').next().unwrap() {
        "/change" => patch("changed"),
        "/same" => patch("changed"),
        "/gone" => {
            let (host, reason) = ("hook".to_owned(), "connection refused".to_owned());
            return Err(EgressError::Unreachable { host, reason });
        }
        "/says" => response["auditAnnotations"] = json!({"key": "text", "no key": "x"}),
        _ => {}
    }
    let head = json!({"kind": "AdmissionReview", "apiVersion": "admission.orch.io/v1", "response": response});
    Ok((200, head.to_string()))
}

/// A webhook on config maps that is called at the path of its name; `skip` is about none of them.
fn webhook(name: &str) -> Value {
    let rules = json!([{
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"],
    }]);
    let mut webhook = json!({
        "name": format!("{name}.example.com"), "clientConfig": {"url": format!("https://hook.example/{name}")},
        "rules": rules, "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": "Ignore",
    });
    if name == "skip" {
        webhook["objectSelector"] = json!({"matchLabels": {"a": "b"}});
    }
    webhook
}

#[tokio::test]
async fn events_tell_of_each_call_its_patch_and_what_the_webhook_says() {
    let server = Server::new().await;
    let mut pipeline = pipeline(server.store.clone(), server.clock.clone(), Features::default());
    let ambient: Arc<dyn Ambient> = server.clock.clone();
    let caller = Arc::new(Answering::new(answer));
    let webhooks =
        Webhooks::new(caller, server.store.clone(), ambient.clone(), &ORCH, Routing::ClusterAddress);
    let selection = PluginSelection::parse(&[], &["ServiceAccount".to_owned()]).unwrap();
    let settings = Settings { selection, ..Settings::default() };
    pipeline.admission = Chain::configured(settings, &ambient, &NamespaceMaker::default(), &webhooks);
    let sink = Arc::new(MemorySink::default());
    let auditor = auditor("rules: [{level: Request}]", &sink, server.clock.clone());
    let api = Api::new(Arc::new(pipeline), server.stopping.clone()).audited_by(Some(auditor));
    let server = Server { router: api.router(), ..server };
    for (kind, names) in [
        ("mutatingwebhookconfigurations", &["skip", "change", "same", "gone"][..]),
        ("validatingwebhookconfigurations", &["skip", "gone", "says"]),
    ] {
        let webhooks: Vec<Value> = names.iter().map(|name| webhook(name)).collect();
        server
            .create(&format!("{GROUP}/{kind}"), json!({"metadata": {"name": "c"}, "webhooks": webhooks}))
            .await;
    }
    server.create(MAPS, map("m", "v")).await;
    let event: Value = serde_json::from_slice(sink.events.lock().unwrap().last().unwrap()).unwrap();
    let noted = |key: &str| event["annotations"][key].as_str().unwrap_or_default().to_owned();
    let called = |name: &str, mutated: bool| {
        format!(r#"{{"configuration":"c","webhook":"{name}.example.com","mutated":{mutated}}}"#)
    };
    let patched = |name: &str| {
        let patch = r#"[{"op":"add","path":"/data/k","value":"changed"}]"#;
        format!(
            r#"{{"configuration":"c","webhook":"{name}.example.com","patch":{patch},"patchType":"JSONPatch"}}"#
        )
    };
    for (key, text) in [
        ("mutation.webhook.admission.orch.io/round_0_index_0", String::new()),
        ("mutation.webhook.admission.orch.io/round_0_index_1", called("change", true)),
        ("mutation.webhook.admission.orch.io/round_0_index_2", called("same", false)),
        ("mutation.webhook.admission.orch.io/round_0_index_3", called("gone", false)),
        ("patch.webhook.admission.orch.io/round_0_index_1", patched("change")),
        ("patch.webhook.admission.orch.io/round_0_index_2", patched("same")),
        ("patch.webhook.admission.orch.io/round_0_index_3", String::new()),
        ("failed-open.mutation.webhook.admission.orch.io/round_0_index_3", "gone.example.com".to_owned()),
        ("failed-open.validating.webhook.admission.orch.io/round_0_index_0", "gone.example.com".to_owned()),
        ("failed-open.validating.webhook.admission.orch.io/round_0_index_1", String::new()),
        ("mutation.webhook.admission.orch.io/round_1_index_1", String::new()),
        ("says.example.com/key", "text".to_owned()),
        ("says.example.com/no key", String::new()),
    ] {
        assert_eq!(noted(key), text, "{key}: {}", event["annotations"]);
    }
}
