//! Configurations of webhooks as they are written: what is refused, in which words, and what is filled in.

use orch_schema::json;
use orch_schema::value::Value;

use super::*;
use crate::kinds::testing::{check_create, check_hostile, check_update, created, updated};
use crate::validate::tree::set;

fn webhook() -> Value {
    json!({
        "name": "a.b.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
        "clientConfig": {"service": {"namespace": "ns", "name": "s"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
    })
}

fn with(field: &str, value: impl Into<Value>) -> Value {
    let mut webhook = webhook();
    set(&mut webhook, field, value);
    json!({"webhooks": [webhook]})
}

#[track_caller]
fn check(object: Value, expected: &[&str]) {
    check_create(&ValidatingWebhookConfiguration, object, expected);
}

#[test]
fn defaults_are_those_of_the_reference() {
    let new = created(&MutatingWebhookConfiguration, json!({"webhooks": [webhook()]}));
    let webhook = &new["webhooks"][0];
    assert_eq!(webhook["clientConfig"]["service"]["port"], 443);
    assert_eq!(webhook["rules"][0]["scope"], "*");
    for (field, value) in [
        ("failurePolicy", json!("Fail")),
        ("matchPolicy", json!("Equivalent")),
        ("namespaceSelector", json!({})),
        ("objectSelector", json!({})),
        ("timeoutSeconds", json!(10)),
        ("reinvocationPolicy", json!("Never")),
    ] {
        assert_eq!(webhook[field], value, "{field}");
    }
    let validating = created(&ValidatingWebhookConfiguration, json!({"webhooks": [self::webhook()]}));
    assert!(validating["webhooks"][0]["reinvocationPolicy"].is_null());
    check(validating, &[]);
}

#[test]
fn rules_have_the_words_of_the_reference() {
    check(
        json!({"webhooks": [{}]}),
        &[
            "webhooks[0].name: Required value",
            "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
            "webhooks[0].clientConfig: Required value: exactly one of url or service is required",
            "webhooks[0].admissionReviewVersions: Required value: must specify one of v1, v1beta1",
        ],
    );
    check(
        with("name", "a.b"),
        &[
            "webhooks[0].name: Invalid value: \"a.b\": should be a domain with at least three segments separated by dots",
        ],
    );
    check(
        with("timeoutSeconds", 31),
        &[
            "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds",
        ],
    );
    check(
        with("sideEffects", "Some"),
        &[
            "webhooks[0].sideEffects: Unsupported value: \"Some\": supported values: \"None\", \"NoneOnDryRun\"",
        ],
    );
    check(
        with("admissionReviewVersions", json!(["v2", "v2"])),
        &[
            "webhooks[0].admissionReviewVersions[1]: Invalid value: \"v2\": duplicate version",
            "webhooks[0].admissionReviewVersions: Invalid value: [\"v2\",\"v2\"]: must include at least one of v1, v1beta1",
        ],
    );
    check(
        with("clientConfig", json!({"url": "http://a/b?c#d"})),
        &[
            "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired \
             format: https://host[/path]",
            "webhooks[0].clientConfig.url: Invalid value: \"d\": fragments are not permitted in the URL",
            "webhooks[0].clientConfig.url: Invalid value: \"c\": query parameters are not permitted in the URL",
        ],
    );
    check(
        with("matchConditions", json!([{"name": "a", "expression": "params.x"}])),
        &[
            "webhooks[0].matchConditions[0].expression: Invalid value: \"params.x\": compilation failed: ERROR: \
           <input>:1:1: undeclared reference to 'params' (in container '')\n | params.x\n | ^",
        ],
    );
    check(
        json!({"webhooks": [webhook(), webhook()]}),
        &["webhooks[1].name: Duplicate value: \"a.b.example.com\""],
    );
    check_create(
        &MutatingWebhookConfiguration,
        with("reinvocationPolicy", "Often"),
        &[
            "webhooks[0].reinvocationPolicy: Unsupported value: \"Often\": supported values: \"IfNeeded\", \"Never\"",
        ],
    );
}

#[test]
fn rules_that_the_stored_configuration_breaks_bind_no_update() {
    let strategy = &ValidatingWebhookConfiguration;
    check_update(strategy, with("sideEffects", "Some"), with("sideEffects", "Unknown"), &[]);
    check_update(
        strategy,
        with("admissionReviewVersions", json!(["v2"])),
        with("admissionReviewVersions", json!(["v3"])),
        &[],
    );
    let twice = json!({"webhooks": [webhook(), webhook()]});
    check_update(strategy, twice.clone(), twice, &[]);
    let conditions = with("matchConditions", json!([{"name": "a", "expression": "gone()"}]));
    check_update(strategy, conditions.clone(), conditions, &[]);
}

#[test]
fn the_generation_follows_the_webhooks() {
    let strategy = &MutatingWebhookConfiguration;
    let first = created(strategy, json!({"webhooks": [webhook()]}));
    assert_eq!(first["metadata"]["generation"], 1);
    let same = updated(strategy, crate::Action::Object, &first, json!({"webhooks": [webhook()]}));
    assert!(same["metadata"]["generation"].is_null(), "the pipeline carries it over");
    let other = updated(strategy, crate::Action::Object, &first, with("timeoutSeconds", 3));
    assert_eq!(other["metadata"]["generation"], 2);
    assert_eq!(strategy.table_row(&first, "2026-01-02T03:04:05Z").unwrap()[1], json!(1));
}

#[test]
fn hostile_objects_are_looked_at_without_harm() {
    check_hostile(&ValidatingWebhookConfiguration);
    check_hostile(&MutatingWebhookConfiguration);
}
