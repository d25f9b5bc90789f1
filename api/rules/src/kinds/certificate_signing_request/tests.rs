//! The rules of requests for certificates, against the reference's messages.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::*;
use crate::certificates::testing::{certificate, request};
use crate::kinds::Requester;
use crate::kinds::testing::{CONTEXT, check_create, check_hostile, created, updated};

const KIND: CertificateSigningRequest = CertificateSigningRequest;

fn encoded(text: &str) -> Value {
    json!(STANDARD.encode(text))
}

/// A valid request with these members of the spec.
fn csr(changes: Value) -> Value {
    let mut object = json!({"spec": {
        "request": encoded(&request("ann", "team", Vec::new())), "signerName": "example.com/signer",
        "usages": ["client auth"],
    }});
    for (name, value) in changes.as_object().into_iter().flatten() {
        set(child_mut(&mut object, "spec"), name, value.clone());
    }
    object
}

fn with_status(mut object: Value, status: Value) -> Value {
    set(&mut object, "status", status);
    object
}

/// A stored request.
fn stored() -> Value {
    let mut object = created(&KIND, csr(json!({})));
    unset(child_mut(&mut object, "metadata"), "namespace");
    object
}

fn condition(kind: &str) -> Value {
    json!({"type": kind, "status": "True"})
}

#[test]
fn the_server_says_who_asks() {
    let groups = ["team".to_owned()];
    let extra = BTreeMap::from([("scopes".to_owned(), vec!["read".to_owned()])]);
    let user = Requester { name: "ann", uid: "u-1", groups: &groups, extra: &extra };
    let asked =
        csr(json!({"username": "root", "uid": "0", "groups": ["system:masters"], "extra": {"a": ["b"]}}));
    let mut made = with_status(asked.clone(), json!({"conditions": [condition("Approved")]}));
    KIND.prepare_for_create(&Context { user, ..CONTEXT }, &mut made);
    let spec = made.at("spec");
    assert_eq!((spec.text("username"), spec.text("uid")), ("ann", "u-1"));
    assert_eq!(spec.at("groups"), &json!(["team"]));
    assert_eq!(spec.at("extra"), &json!({"scopes": ["read"]}));
    assert_eq!(made.at("status"), &json!({}));
    let nobody = Requester { groups: &[], uid: "", extra: &BTreeMap::new(), ..user };
    let mut made = asked;
    KIND.prepare_for_create(&Context { user: nobody, ..CONTEXT }, &mut made);
    assert!(["uid", "groups", "extra"].iter().all(|field| !made.at("spec").has(field)));
}

#[test]
fn specs_follow_the_rules() {
    let usages = "supported values: \"any\", \"cert sign\", \"client auth\"";
    for (changes, expected) in [
        (json!({}), ""),
        (json!({"expirationSeconds": 600}), ""),
        (
            json!({"expirationSeconds": 599}),
            "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)",
        ),
        (json!({"usages": []}), "spec.usages: Required value"),
        (
            json!({"usages": ["client auth", "client auth"]}),
            "spec.usages[1]: Duplicate value: \"client auth\"",
        ),
        (json!({"request": encoded("x")}), "PEM block type must be CERTIFICATE REQUEST"),
        (json!({"signerName": ""}), "spec.signerName: Required value"),
        (
            json!({"signerName": "one"}),
            "spec.signerName: Invalid value: \"one\": must be a fully qualified domain and path of the form 'example.com/signer-name'",
        ),
        (json!({"signerName": "a.b/c/d"}), "must be a fully qualified domain and path"),
        (
            json!({"signerName": "single/x"}),
            "spec.signerName: Invalid value: \"single\": should be a domain with at least two segments separated by dots",
        ),
        (
            json!({"signerName": "A.b/x"}),
            "spec.signerName: Invalid value: \"A.b\": validating label \"A\": a lowercase",
        ),
        (
            json!({"signerName": "a.b/X"}),
            "spec.signerName: Invalid value: \"X\": validating label \"X\": a lowercase",
        ),
        (
            json!({"signerName": "orch.io/legacy-unknown"}),
            "spec.signerName: Invalid value: \"orch.io/legacy-unknown\": the legacy signerName is not allowed via this API version",
        ),
        (json!({"usages": ["none"]}), usages),
    ] {
        let object = created(&KIND, csr(changes.clone()));
        let errors = KIND.validate_create(&CONTEXT, &object);
        let told: Vec<String> = errors.shown().iter().map(ToString::to_string).collect();
        assert_eq!(told.len(), usize::from(!expected.is_empty()), "{changes}: {told:?}");
        assert!(told.first().is_none_or(|told| told.contains(expected)), "{changes}: {told:?}");
    }
    check_create(&KIND, csr(json!({"usages": ["client auth"]})), &[]);
    check_hostile(&KIND);
}

#[test]
fn the_object_itself_never_changes() {
    let old = with_status(created(&KIND, csr(json!({}))), json!({"conditions": [condition("Approved")]}));
    let new = with_status(csr(json!({"signerName": "example.com/other"})), json!({}));
    let after = updated(&KIND, Action::Object, &old, new);
    assert_eq!((after.at("spec"), after.at("status")), (old.at("spec"), old.at("status")));
}

#[test]
fn conditions_keep_their_times_and_get_those_they_lack() {
    let stored = json!({"conditions": [
        {"type": "Approved", "status": "True", "message": "m", "lastUpdateTime": "2025-01-01T00:00:00Z",
            "lastTransitionTime": "2025-01-01T00:00:00Z"},
    ], "certificate": "eA=="});
    let old = with_status(csr(json!({})), stored.clone());
    let sent = json!({"conditions": [
        {"type": "Approved", "status": "True", "message": "again"}, {"type": "Other", "status": "False"},
    ]});
    let after = updated(&KIND, Action::Approval, &old, with_status(csr(json!({})), sent.clone()));
    let conditions = after.at("status").items("conditions");
    assert_eq!(conditions[0].text("message"), "again");
    assert_eq!(conditions[0].text("lastUpdateTime"), CONTEXT.now);
    assert_eq!(conditions[0].text("lastTransitionTime"), "2025-01-01T00:00:00Z");
    assert_eq!(conditions[1].text("lastTransitionTime"), CONTEXT.now);
    assert_eq!(after.at("status").text("certificate"), "eA==", "an approval leaves the certificate");
    let after = updated(&KIND, Action::Status, &old, with_status(csr(json!({})), sent));
    assert_eq!(
        after.at("status").items("conditions")[0],
        stored.items("conditions")[0],
        "approvals stay as decided"
    );
}

#[test]
fn updates_decide_once_and_sign_once() {
    let issued = || json!({"certificate": encoded(&certificate())});
    let with =
        |kinds: &[&str]| json!({"conditions": kinds.iter().map(|kind| condition(kind)).collect::<Vec<_>>()});
    let removed = |kind: &str| {
        format!("status.conditions: Forbidden: updates may not remove a condition of type \"{kind}\"")
    };
    let added = "status.conditions: Forbidden: updates may not add a condition of type \"Denied\"".to_owned();
    let exclusive =
        "status.conditions: Invalid value: \"Denied\": Approved and Denied conditions are mutually exclusive";
    let twice =
        "status.certificate: Forbidden: updates may not modify existing certificate content".to_owned();
    let malformed = "status.certificate: Invalid value: \"<certificate data>\": must contain at least one \
                     CERTIFICATE PEM block";
    for (action, old, new, expected) in [
        (Action::Approval, with(&[]), with(&["Denied"]), vec![]),
        (Action::Approval, with(&["Denied"]), with(&[]), vec![removed("Denied")]),
        (Action::Approval, with(&["Approved"]), with(&["Approved", "Denied"]), vec![exclusive.to_owned()]),
        (Action::Approval, with(&["Approved", "Denied"]), with(&["Approved", "Denied"]), vec![]),
        (Action::Approval, with(&["Failed"]), with(&[]), vec![removed("Failed")]),
        (Action::Approval, with(&["", ""]), with(&["", ""]), vec![]),
        (Action::Status, with(&[]), with(&["Failed"]), vec![]),
        (Action::Status, with(&[]), with(&["Denied"]), vec![added]),
        (Action::Status, with(&["Denied"]), with(&[]), vec![removed("Denied")]),
        (Action::Status, json!({}), issued(), vec![]),
        (Action::Status, issued(), issued(), vec![twice]),
        (Action::Status, json!({}), json!({"certificate": encoded("x")}), vec![malformed.to_owned()]),
        (Action::Status, json!({"certificate": "eA=="}), json!({"certificate": "eA=="}), vec![]),
    ] {
        let context = Context { action, ..CONTEXT };
        let before = with_status(stored(), old.clone());
        let mut after = with_status(before.clone(), new.clone());
        KIND.prepare_for_update(&context, &before, &mut after);
        let errors = KIND.validate_update(&context, &before, &after);
        let told: Vec<String> = errors.shown().iter().map(ToString::to_string).collect();
        assert_eq!(told, expected, "{action:?} {old} -> {new}");
    }
}

#[test]
fn conditions_have_types_and_known_statuses() {
    for (conditions, expected) in [
        (
            json!([{"type": "Approved", "status": "False"}]),
            "[0].status: Unsupported value: \"False\": supported values: \"True\"",
        ),
        (json!([{"type": "Other", "status": "Maybe"}]), "supported values: \"False\", \"True\", \"Unknown\""),
        (json!([{"type": "", "status": "True"}]), "status.conditions[0].type: Required value"),
        (json!([{"type": "Other"}]), "status.conditions[0].status: Required value"),
        (
            json!([{"type": "Denied", "status": "True"}, {"type": "Denied", "status": "True"}]),
            "status.conditions[1].type: Duplicate value: \"Denied\"",
        ),
    ] {
        let context = Context { action: Action::Approval, ..CONTEXT };
        let old = stored();
        let mut new = with_status(old.clone(), json!({"conditions": conditions.clone()}));
        KIND.prepare_for_update(&context, &old, &mut new);
        let errors = KIND.validate_update(&context, &old, &new);
        let told: Vec<String> = errors.shown().iter().map(ToString::to_string).collect();
        assert!(told.len() == 1 && told[0].contains(expected), "{conditions}: {told:?}");
    }
    assert!(KIND.validate_update(&CONTEXT, &stored(), &stored()).is_empty());
}

#[test]
fn tables_tell_the_state() {
    let conditions = |kinds: &[&str]| Value::Array(kinds.iter().map(|kind| condition(kind)).collect());
    for (kinds, certificate, expected) in [
        (&[][..], "", "Pending"),
        (&["Approved"], "", "Approved"),
        (&["Approved"], "eA==", "Approved,Issued"),
        (&["Approved", "Failed"], "", "Approved,Failed"),
        (&["Denied"], "", "Denied"),
        (&["Failed"], "", "Pending,Failed"),
    ] {
        let status = json!({"conditions": conditions(kinds), "certificate": certificate});
        let object = with_status(csr(json!({"username": "ann", "expirationSeconds": 3600})), status);
        let row = KIND.table_row(&object, CONTEXT.now).unwrap();
        assert_eq!(row[2..], [json!("example.com/signer"), json!("ann"), json!("60m"), json!(expected)]);
    }
    assert_eq!(KIND.field_value(&csr(json!({})), "spec.signerName"), "example.com/signer");
}
