//! Webhook servers made with the ecosystem's framework for controllers: their configurations, paths and answers as these tools write them,
//! and authorities that another program writes into the configurations later.

use super::*;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/ns/deployments";
const MUTATE: &str = "/mutate-apps-v1-deployment";
const VALIDATE: &str = "/validate-apps-v1-deployment";

/// A configuration as the tool generates it: of the service `webhook-service`, without authorities, for an injector to complete.
fn generated(kind: &str, name: &str, path: &str) -> Value {
    json!({
        "apiVersion": "admissionregistration.orch.io/v1", "kind": kind,
        "metadata": {"name": name, "annotations": {"cert-manager.io/inject-ca-from": "ns/serving-cert"}},
        "webhooks": [{
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"service": {"name": "webhook-service", "namespace": "ns", "path": path}},
            "failurePolicy": "Fail",
            "name": format!("{}-v1.kb.io", path.trim_start_matches('/')),
            "rules": [{
                "apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
                "resources": ["deployments"],
            }],
            "sideEffects": "None",
        }],
    })
}

fn deployment(name: &str) -> Value {
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod("x")["spec"].clone()});
    let spec = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    json!({"metadata": {"name": name}, "spec": spec})
}

/// An answer as the framework encodes it: members in this order, those that are empty left out, and the end of a line.
fn encoded(call: &Call, members: &str) -> Answer {
    let uid = request(call)["uid"].clone();
    let head = r#"{"kind":"AdmissionReview","apiVersion":"admission.orch.io/v1","response":{"uid":"#;
    Ok((200, format!("{head}{uid},{members}}}}}\n")))
}

/// What a defaulter and a validator answer.
fn answer(call: &Call) -> Answer {
    let name = request(call)["name"].as_str().unwrap_or_default().to_owned();
    match (&*path(call), &*name) {
        (MUTATE, "plain") => encoded(call, r#""allowed":true,"status":{"metadata":{},"code":200}"#),
        (MUTATE, _) => {
            let operations = r#"[{"op":"add","path":"/metadata/labels","value":{"set":"by-hook"}},{"op":"replace","path":"/spec/replicas","value":3}]"#;
            let patch = STANDARD.encode(operations);
            encoded(call, &format!(r#""allowed":true,"patch":"{patch}","patchType":"JSONPatch""#))
        }
        (VALIDATE, "forbidden") => {
            let status = r#"{"metadata":{},"message":"too early","reason":"Forbidden","code":403}"#;
            encoded(call, &format!(r#""allowed":false,"status":{status}"#))
        }
        (VALIDATE, "invalid") => {
            let cause =
                r#"{"reason":"FieldValueInvalid","message":"Invalid value: 3: odd","field":"spec.replicas"}"#;
            let details =
                format!(r#"{{"name":"invalid","group":"apps","kind":"Deployment","causes":[{cause}]}}"#);
            let message = r#"Deployment.apps \"invalid\" is invalid: spec.replicas: Invalid value: 3: odd"#;
            let status = format!(
                r#"{{"metadata":{{}},"status":"Failure","message":"{message}","reason":"Invalid","details":{details},"code":422}}"#
            );
            encoded(call, &format!(r#""allowed":false,"status":{status}"#))
        }
        _ => encoded(
            call,
            r#""allowed":true,"status":{"metadata":{},"code":200},"warnings":["deprecated field"]"#,
        ),
    }
}

async fn with_hooks() -> (Server, Answering) {
    let (server, caller) = served(answer).await;
    let spec = json!({"type": "ExternalName", "externalName": "hook.example"});
    let service = json!({"metadata": {"name": "webhook-service"}, "spec": spec});
    server.create("/api/v1/namespaces/ns/services", service).await;
    server.create(MUTATING, generated("MutatingWebhookConfiguration", "mutating", MUTATE)).await;
    server.create(VALIDATING, generated("ValidatingWebhookConfiguration", "validating", VALIDATE)).await;
    (server, caller)
}

#[tokio::test]
async fn reviews_have_what_the_framework_decodes_and_its_answers_are_understood() {
    let (server, caller) = with_hooks().await;
    let made = server.post(DEPLOYMENTS, deployment("d")).await;
    assert_eq!((made.code, &made.warnings[..]), (201, &["deprecated field".to_owned()][..]));
    assert_eq!(made.json["metadata"]["labels"], json!({"set": "by-hook"}));
    assert_eq!(made.json["spec"]["replicas"], 3);
    let calls = caller.calls();
    let urls: Vec<String> = calls.iter().map(|call| call.url.to_string()).collect();
    assert_eq!(
        urls,
        [MUTATE, VALIDATE].map(|path| format!("https://webhook-service.ns.svc{path}?timeout=10s"))
    );
    assert_eq!(calls[0].at, Some(("hook.example".to_owned(), 443)));
    let review: Value = serde_json::from_slice(&calls[0].document).unwrap();
    assert_eq!(
        (&review["kind"], &review["apiVersion"]),
        (&json!("AdmissionReview"), &json!("admission.orch.io/v1"))
    );
    let asked = &review["request"];
    let kind = json!({"group": "apps", "version": "v1", "kind": "Deployment"});
    let resource = json!({"group": "apps", "version": "v1", "resource": "deployments"});
    assert_eq!((&asked["kind"], &asked["requestKind"]), (&kind, &kind));
    assert_eq!((&asked["resource"], &asked["requestResource"]), (&resource, &resource));
    assert_eq!(
        (&asked["name"], &asked["namespace"], &asked["operation"]),
        (&json!("d"), &json!("ns"), &json!("CREATE"))
    );
    assert_eq!(
        (&asked["object"]["apiVersion"], &asked["object"]["kind"]),
        (&json!("apps/v1"), &json!("Deployment"))
    );
    assert_eq!((&asked["oldObject"], &asked["dryRun"]), (&Value::Null, &json!(false)));
    assert_eq!(asked["options"]["kind"], "CreateOptions");
    assert!(asked["userInfo"]["username"].is_string());

    let plain = server.create(DEPLOYMENTS, deployment("plain")).await;
    assert_eq!(plain["spec"]["replicas"], 1, "an answer without a patch has no type of one");
    let forbidden = server.post(DEPLOYMENTS, deployment("forbidden")).await;
    let denied = |message: &str| {
        format!("admission webhook \"validate-apps-v1-deployment-v1.kb.io\" denied the request: {message}")
    };
    assert_eq!(forbidden.refusal(), (403, &*denied("too early")));
    let invalid = server.post(DEPLOYMENTS, deployment("invalid")).await;
    let message = "Deployment.apps \"invalid\" is invalid: spec.replicas: Invalid value: 3: odd";
    assert_eq!(invalid.refusal(), (422, &*denied(message)));
    assert_eq!(invalid.causes(), ["FieldValueInvalid spec.replicas: Invalid value: 3: odd"]);
}

#[tokio::test]
async fn authorities_that_are_injected_later_count_from_the_next_call_on() {
    let (server, caller) = with_hooks().await;
    let bundle = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
    let encoded = STANDARD.encode(bundle);
    let authorities = async |name: &str| {
        server.create(DEPLOYMENTS, deployment(name)).await;
        let calls = caller.calls();
        let of = |call: &Call| call.authorities.as_ref().map(|of| String::from_utf8_lossy(of).into_owned());
        [of(&calls[calls.len() - 2]), of(&calls[calls.len() - 1])]
    };
    assert_eq!(authorities("a").await, [None, None], "the machine's");
    // As a whole object, and as the fields that the injector owns.
    let path = format!("{MUTATING}/mutating");
    let mut whole = server.get(&path).await.object();
    whole["webhooks"][0]["clientConfig"]["caBundle"] = json!(encoded.as_str());
    server.put(&path, whole).await.object();
    assert_eq!(authorities("b").await, [Some(bundle.to_owned()), None]);
    let owned = json!({
        "apiVersion": "admissionregistration.orch.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "validating"},
        "webhooks": [{
            "name": "validate-apps-v1-deployment-v1.kb.io", "clientConfig": {"caBundle": encoded.as_str()},
        }],
    });
    let applied = server.apply(&format!("{VALIDATING}/validating"), "cainjector", owned).await.object();
    let client = &applied["webhooks"][0]["clientConfig"];
    assert_eq!(client["service"]["path"], VALIDATE, "the rest stays");
    assert_eq!(authorities("c").await, [Some(bundle.to_owned()), Some(bundle.to_owned())]);
}

#[tokio::test]
async fn the_placeholder_of_a_bundle_is_none() {
    let (server, caller) = with_hooks().await;
    let path = format!("{MUTATING}/mutating");
    let mut placeholder = server.get(&path).await.object();
    placeholder["webhooks"][0]["clientConfig"]["caBundle"] = json!("Cg==");
    server.put(&path, placeholder).await.object();
    server.create(DEPLOYMENTS, deployment("d")).await;
    assert!(caller.calls()[0].authorities.is_none(), "an empty line");
}
