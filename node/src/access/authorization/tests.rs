//! Configurations that are refused, by field, and one that is not.

use super::*;

fn checked(text: &str, strictness: Strictness) -> Result<Vec<Authorizer>, String> {
    let whole = format!("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n{text}");
    let file = faults::parse(&whole, "AuthorizationConfiguration", &VERSIONS)?;
    check(file, strictness).map_err(|faults| faults.to_string())
}

/// A webhook of a valid configuration, in which `from` is replaced by `to`.
fn webhook(from: &str, to: &str) -> String {
    let directory = tempfile::NamedTempFile::new().unwrap();
    let path = directory.path().display().to_string();
    let text = format!(
        "authorizers:\n- type: Webhook\n  name: hook\n  webhook:\n    timeout: 3s\n    authorizedTTL: 10s\n    \
         unauthorizedTTL: 5s\n    subjectAccessReviewVersion: v1\n    matchConditionSubjectAccessReviewVersion: v1\n    \
         failurePolicy: Deny\n    connectionInfo:\n      type: KubeConfigFile\n      kubeConfigFile: {path}\n    \
         matchConditions:\n    - expression: request.user != 'a'\n    - expression: has(request.resourceAttributes)\n"
    );
    assert!(from.is_empty() || text.contains(from), "{from}");
    let found = checked(&text.replace(from, to), Strictness::Serve);
    found.map(|_| "valid".to_owned()).unwrap_or_else(|error| error.replace(&path[1..], "FILE"))
}

#[test]
fn a_fault_of_a_webhook_is_told_by_its_field() {
    for (from, to, told) in [
        ("name: hook", "name: hook", "valid"),
        ("    authorizedTTL: 10s\n", "", "valid"),
        ("    timeout: 3s\n", "", "authorizers[0].timeout: Required value"),
        ("timeout: 3s", "timeout: 0s", "authorizers[0].timeout: Required value"),
        (
            "timeout: 3s",
            "timeout: 31s",
            r#"authorizers[0].timeout: Invalid value: "31s": must be > 0s and <= 30s"#,
        ),
        (
            "timeout: 3s",
            "timeout: -30s",
            r#"authorizers[0].timeout: Invalid value: "-30s": must be > 0s and <= 30s"#,
        ),
        ("10s", "-1s", r#"authorizers[0].authorizedTTL: Invalid value: "-1s": must be > 0s"#),
        (
            "    subjectAccessReviewVersion: v1\n",
            "",
            "authorizers[0].subjectAccessReviewVersion: Required value",
        ),
        (
            "    subjectAccessReviewVersion: v1\n",
            "    subjectAccessReviewVersion: v2\n",
            r#"authorizers[0].subjectAccessReviewVersion: Unsupported value: "v2": supported values: "v1", "v1beta1""#,
        ),
        (
            "    matchConditionSubjectAccessReviewVersion: v1\n",
            "",
            "authorizers[0].matchConditionSubjectAccessReviewVersion: Required value: required if match conditions \
             are specified",
        ),
        ("    failurePolicy: Deny\n", "", "authorizers[0].failurePolicy: Required value"),
        (
            "Deny",
            "Allow",
            r#"authorizers[0].failurePolicy: Unsupported value: "Allow": supported values: "NoOpinion", "Deny""#,
        ),
        ("      type: KubeConfigFile\n", "", "authorizers[0].connectionInfo.type: Required value"),
        (
            "kubeConfigFile: /",
            "kubeConfigFile: ",
            r#"authorizers[0].connectionInfo.kubeConfigFile: Invalid value: "FILE": must be an absolute path"#,
        ),
        ("request.user != 'a'", "''", "authorizers[0].matchConditions[0].expression: Required value"),
        (
            "request.user != 'a'",
            "request.who == ''",
            "authorizers[0].matchConditions[0].expression: Invalid value: \"request.who == ''\": compilation failed: \
             ERROR: <input>:1:8: undefined field 'who'\n | request.who == ''\n | .......^",
        ),
        (
            "request.user != 'a'",
            "has(request.resourceAttributes)",
            r#"authorizers[0].matchConditions[1].expression: Duplicate value: "has(request.resourceAttributes)""#,
        ),
        (
            "request.user != 'a'",
            "request.user",
            r#"authorizers[0].matchConditions[0].expression: Invalid value: "request.user": must evaluate to bool"#,
        ),
    ] {
        assert_eq!(webhook(from, to), told, "{from:?} to {to:?}");
    }
}

#[test]
fn a_fault_of_the_list_is_told_by_its_field() {
    use Strictness::{Dev, Serve};
    let always = format!("authorizers[0].type: Invalid value: \"AlwaysAllow\": {ALWAYS_ALLOW}");
    let known = r#"supported values: "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook""#;
    for (entries, strictness, told) in [
        (
            "[]",
            Serve,
            "authorizers: Required value: at least one authorization mode must be defined".to_owned(),
        ),
        ("[{name: a}]", Serve, "authorizers[0].type: Required value".to_owned()),
        (
            "[{type: ABAC, name: a}]",
            Serve,
            format!("authorizers[0].type: Unsupported value: \"ABAC\": {known}"),
        ),
        ("[{type: RBAC}]", Serve, "authorizers[0].name: Required value".to_owned()),
        (
            "[{type: RBAC, name: a}, {type: RBAC, name: b}]",
            Serve,
            "authorizers[1].type: Duplicate value: \"RBAC\"".to_owned(),
        ),
        (
            "[{type: RBAC, name: a}, {type: Node, name: a}]",
            Serve,
            "authorizers[1].name: Duplicate value: \"a\"".to_owned(),
        ),
        (
            "[{type: Webhook, name: a}]",
            Serve,
            "authorizers[0].webhook: Required value: required when type=Webhook".to_owned(),
        ),
        ("[{type: AlwaysAllow, name: a}]", Serve, always),
        ("[{type: AlwaysAllow, name: a}]", Dev, String::new()),
        ("[{type: Node, name: a}, {type: RBAC, name: b}]", Serve, String::new()),
        (
            "[{}, {type: RBAC}]",
            Serve,
            "[authorizers[0].type: Required value, authorizers[1].name: Required value]".to_owned(),
        ),
    ] {
        let found = checked(&format!("authorizers: {entries}"), strictness).map(drop);
        assert_eq!(found.err().unwrap_or_default(), told, "{entries}");
    }
    assert!(checked("authorizers: [{type: RBAC, name: A_}]", Serve).unwrap_err().contains("is invalid"));
    assert!(checked("other: 1", Serve).is_err(), "unknown members are refused");
}

#[test]
fn another_document_is_refused() {
    let parse = |text: &str| faults::parse::<File>(text, "AuthorizationConfiguration", &VERSIONS).map(drop);
    for text in [
        "apiVersion: apiserver.config.k8s.io/v1\nkind: Other\n",
        "apiVersion: apiserver.config.k8s.io/v9\nkind: AuthorizationConfiguration\n",
        "apiVersion: v1\nkind: AuthorizationConfiguration\n",
        "",
        "[]",
        "a: {",
    ] {
        assert!(parse(text).is_err(), "{text:?}");
    }
}
