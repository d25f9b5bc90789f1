//! Answers of webhooks, and the texts of those that are none.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use orch_proto::brand::ORCH;
use serde_json::{Value, json};

use super::super::answer::{Answer, Fault, Role, read};
use super::super::review::ReviewVersion;
use crate::error::{DenialDetails, Subject, WebhookDenial};

const UID: &str = "705ab4f5-6393-11e8-b7cc-42010a800002";
const PATCH: &str = r#"[{"op":"add","path":"/data","value":{}}]"#;

/// The answer to a review of version v1, whose response is `response` over one that allows.
fn answer(role: Role, response: Value) -> Result<Answer, String> {
    let mut merged = json!({"uid": UID, "allowed": true});
    for (name, value) in response.as_object().unwrap() {
        merged[name] = value.clone();
    }
    let review = json!({"kind": "AdmissionReview", "apiVersion": "admission.orch.io/v1", "response": merged});
    read_text(&review.to_string(), role, ReviewVersion::V1)
}

fn read_text(body: &str, role: Role, version: ReviewVersion) -> Result<Answer, String> {
    let read = read(body.as_bytes(), ("w.example.com", role), (version, UID), &ORCH);
    read.map_err(|fault| fault.to_string())
}

fn invalid(reason: &str) -> Result<Answer, String> {
    Err(format!("received invalid webhook response: {reason}"))
}

/// The refusal that `status` makes.
fn denial(status: Value) -> WebhookDenial {
    let answer = answer(Role::Validating, json!({"allowed": false, "status": status})).unwrap();
    answer.denial.unwrap()
}

#[test]
fn answers_of_another_kind_or_uid_are_none() {
    let head = json!({"kind": "AdmissionReview", "apiVersion": "admission.orch.io/v1"});
    let absent = invalid("webhook response was absent");
    assert_eq!(read_text(&head.to_string(), Role::Validating, ReviewVersion::V1), absent);
    let null = r#"{"kind":"AdmissionReview","apiVersion":"admission.orch.io/v1","response":null}"#;
    assert_eq!(read_text(null, Role::Validating, ReviewVersion::V1), absent);
    assert_eq!(
        answer(Role::Validating, json!({"uid": "wrong"})),
        invalid(&format!("expected response.uid=\"{UID}\", got \"wrong\""))
    );
    let bare = format!(r#"{{"response":{{"uid":"{UID}","allowed":true}}}}"#);
    assert_eq!(
        read_text(&bare, Role::Validating, ReviewVersion::V1),
        invalid("expected webhook response of admission.orch.io/v1, Kind=AdmissionReview, got /, Kind=")
    );
    for (kind, version) in [("Review", "admission.orch.io/v1"), ("AdmissionReview", "admission.orch.io/v9")] {
        let review = json!({"kind": kind, "apiVersion": version, "response": {"uid": UID, "allowed": true}});
        let refused = read_text(&review.to_string(), Role::Validating, ReviewVersion::V1).unwrap_err();
        assert!(refused.starts_with("failed to call webhook: no kind "), "{refused}");
    }
}

#[test]
fn an_answer_that_cannot_be_read_does_not_allow() {
    for text in [
        "",
        "not json",
        "[]",
        "null",
        r#"{"response":{"allowed":"true"}}"#,
        r#"{"response":{"allowed":false,"allowed":true}}"#,
        r#"{"response":{"allowed":true,"patch":"*"}}"#,
        r#"{"response":{"allowed":true,"warnings":"one"}}"#,
        r#"{"response":{"allowed":true}} {}"#,
    ] {
        for role in [Role::Mutating, Role::Validating] {
            let body = text.replace("\"allowed\"", &format!("\"uid\":\"{UID}\",\"allowed\""));
            let body = body.replacen(
                '{',
                r#"{"kind":"AdmissionReview","apiVersion":"admission.orch.io/v1","#,
                usize::from(text.starts_with('{')),
            );
            assert!(read_text(&body, role, ReviewVersion::V1).is_err(), "{role:?} {text}");
        }
    }
    let long = format!(r#"{{"kind":"AdmissionReview","response":"{}"}}"#, "x".repeat(100_000));
    let refused = read_text(&long, Role::Validating, ReviewVersion::V1).unwrap_err();
    assert!(refused.len() < 1000, "what a webhook sends is not repeated whole");
}

#[test]
fn patches_come_with_their_type_and_from_mutating_webhooks_alone() {
    let encoded = STANDARD.encode(PATCH);
    let (mutating, validating) = (Role::Mutating, Role::Validating);
    let both = json!({"patch": encoded, "patchType": "JSONPatch"});
    assert_eq!(answer(mutating, both.clone()).unwrap().patch, PATCH.as_bytes());
    for (role, response, reason) in [
        (mutating, json!({"patch": encoded}), "webhook returned response.patch but not response.patchType"),
        (
            mutating,
            json!({"patchType": "JSONPatch"}),
            "webhook returned response.patchType but not response.patch",
        ),
        (
            mutating,
            json!({"patch": encoded, "patchType": ""}),
            "webhook returned invalid response.patchType of \"\"",
        ),
        (validating, both, "validating webhook may not return response.patch"),
        (
            validating,
            json!({"patchType": "JSONPatch"}),
            "validating webhook may not return response.patchType",
        ),
    ] {
        assert_eq!(answer(role, response), invalid(reason));
    }
    let other = answer(mutating, json!({"patch": encoded, "patchType": "Merge"})).unwrap();
    assert_eq!(other.unsupported().unwrap().to_string(), "unsupported patch type \"Merge\"");
    let lines = format!("{}\r\n{}\n", &encoded[..8], &encoded[8..]);
    let in_lines = answer(mutating, json!({"patch": lines, "patchType": "JSONPatch"})).unwrap();
    assert_eq!((in_lines.patch.as_slice(), in_lines.unsupported()), (PATCH.as_bytes(), None));
    let refusing = json!({"allowed": false, "patch": encoded, "patchType": "Merge"});
    assert!(answer(mutating, refusing).unwrap().denial.is_some(), "a refusal stands");
    assert_eq!(answer(mutating, json!({"patch": "", "patchType": null})), Ok(Answer::default()));
}

#[test]
fn the_older_version_checks_neither_uid_nor_type() {
    let encoded = STANDARD.encode(PATCH);
    let body = json!({"response": {"uid": "wrong", "allowed": true, "patch": encoded}}).to_string();
    let older = ReviewVersion::V1Beta1;
    assert_eq!(read_text(&body, Role::Mutating, older).unwrap().patch, PATCH.as_bytes());
    let odd = json!({"response": {"allowed": true, "patch": encoded, "patchType": "Merge"}}).to_string();
    assert_eq!(read_text(&odd, Role::Mutating, older).unwrap().unsupported(), None);
    assert_eq!(read_text(&body, Role::Validating, older), Ok(Answer::default()));
    assert_eq!(read_text("{}", Role::Validating, older), invalid("webhook response was absent"));
}

#[test]
fn refusals_say_what_the_webhook_says() {
    let by = "admission webhook \"w.example.com\" denied the request";
    for (status, code, message) in [
        (json!(null), 400, format!("{by} without explanation")),
        (json!({"message": "no"}), 400, format!("{by}: no")),
        (json!({"reason": "Forbidden"}), 400, format!("{by}: Forbidden")),
        (json!({"message": "no", "code": 200}), 400, format!("{by}: no")),
        (json!({"message": "no", "code": 409, "status": "Success"}), 409, format!("{by}: no")),
        (json!({"message": "no", "code": 1000}), 400, format!("{by}: no")),
        (json!({"message": "no", "code": -1}), 400, format!("{by}: no")),
    ] {
        let found = denial(status.clone());
        assert_eq!((found.code, found.message), (code, message), "{status}");
    }
    let details = json!({
        "name": "n", "group": "g", "kind": "k", "uid": "u", "retryAfterSeconds": 3,
        "causes": [{"reason": "r", "message": "m", "field": "f"}],
    });
    let expected = DenialDetails {
        subject: Subject { group: "g".to_owned(), kind: "k".to_owned(), name: "n".to_owned() },
        uid: "u".to_owned(),
        causes: vec![("r".to_owned(), "m".to_owned(), "f".to_owned())],
        retry_after_seconds: 3,
    };
    let found = denial(json!({"reason": "Conflict", "details": details}));
    assert_eq!((&*found.reason, found.details), ("Conflict", Some(expected)));
    let silent = answer(Role::Validating, json!({"allowed": null})).unwrap();
    assert!(silent.denial.is_some(), "what does not allow refuses");
}

#[test]
fn lists_of_an_answer_are_bounded() {
    let warnings: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    let annotations: Value =
        (0..1000).map(|number| (number.to_string(), json!("x"))).collect::<serde_json::Map<_, _>>().into();
    let found =
        answer(Role::Validating, json!({"warnings": warnings, "auditAnnotations": annotations})).unwrap();
    assert_eq!((found.warnings.len(), found.annotations.len()), (128, 128));
    assert_eq!(found.warnings[..2], ["0", "1"]);
}

#[test]
fn faults_name_the_step_that_failed() {
    for (fault, text) in [
        (Fault::Unanswered("x".to_owned()), "failed to call webhook: x"),
        (Fault::Patch("x".to_owned()), "received undecodable patch in webhook response: x"),
        (Fault::Uncalled("x".to_owned()), "x"),
    ] {
        assert_eq!(fault.to_string(), text);
    }
}
