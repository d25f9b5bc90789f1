//! The rules of events, in both of their groups.

use super::*;
use crate::kinds::testing::{CONTEXT, check_create_in, check_hostile, check_update_in, created};
use crate::validate::tree::{set, unset};

const V1: Context<'static> = Context { group: "events.orch.io", ..CONTEXT };

fn event() -> Value {
    json!({
        "eventTime": "2026-01-02T03:04:05.123456Z", "reportingComponent": "orch.io/test", "reportingInstance": "test-1",
        "action": "Testing", "reason": "Test", "type": "Normal", "message": "hello",
        "involvedObject": {"kind": "Pod", "namespace": "ns", "name": "p", "apiVersion": "v1"}
    })
}

fn with(field: &str, value: Value) -> Value {
    let mut event = event();
    set(&mut event, field, value);
    event
}

#[test]
fn new_events_are_complete() {
    check_create_in(&V1, &Event, event(), &[]);
    for (field, value, expected) in [
        ("eventTime", json!(null), &["eventTime: Required value"][..]),
        ("action", json!(""), &["action: Required value"]),
        ("reason", json!(null), &["reason: Required value"]),
        ("type", json!(""), &["type: Invalid value: \"\": has invalid value: "]),
        ("type", json!("Odd"), &["type: Invalid value: \"\": has invalid value: Odd"]),
        ("reportingInstance", json!(null), &["reportingInstance: Required value"]),
        (
            "involvedObject",
            json!({}),
            &["involvedObject.namespace: Invalid value: \"\": does not match event.namespace"],
        ),
        ("involvedObject", json!({"namespace": "other"}), &[]),
        ("count", json!(3), &["count: Invalid value: \"\": needs to be unset"]),
        ("source", json!({"host": "h"}), &["source: Invalid value: \"\": needs to be unset"]),
        (
            "series",
            json!({"count": 1, "lastObservedTime": "2026-01-02T03:05:05.000001Z"}),
            &["series.count: Invalid value: \"\": should be at least 2"],
        ),
        ("series", json!({"count": 2}), &["series.lastObservedTime: Required value"]),
        ("action", json!("a".repeat(129)), &["action: Invalid value: \"\": can have at most 128 characters"]),
        (
            "message",
            json!("a".repeat(1025)),
            &["message: Invalid value: \"\": can have at most 1024 characters"],
        ),
    ] {
        check_create_in(&V1, &Event, with(field, value), expected);
    }
}

#[test]
fn a_missing_controller_is_reported_three_times() {
    let texts: Vec<String> = Event
        .validate_create(&V1, &created(&Event, with("reportingComponent", json!(""))))
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert_eq!(texts[0], "reportingController: Required value");
    assert_eq!(texts[1], "reportingController: Invalid value: \"\": name part must be non-empty");
}

#[test]
fn events_about_cluster_objects_stand_in_two_namespaces() {
    for namespace in ["default", "orch-system"] {
        let mut event = with("involvedObject", json!({"kind": "Node", "name": "n"}));
        set(&mut event, "metadata", json!({"namespace": namespace}));
        check_create_in(&V1, &Event, event, &[]);
    }
}

#[test]
fn old_events_only_agree_on_the_namespace() {
    check_create_in(
        &CONTEXT,
        &Event,
        json!({"involvedObject": {"namespace": "ns"}, "type": "Odd", "count": 3}),
        &[],
    );
    check_create_in(
        &CONTEXT,
        &Event,
        json!({"involvedObject": {"namespace": "other"}}),
        &["involvedObject.namespace: Invalid value: \"other\": does not match event.namespace"],
    );
    check_create_in(&CONTEXT, &Event, json!({"metadata": {"namespace": "default"}}), &[]);
    check_update_in(&CONTEXT, &Event, with("reason", json!("A")), with("reason", json!("B")), &[]);
}

#[test]
fn an_update_changes_the_series_alone() {
    for (field, value, expected) in [
        ("series", json!({"count": 2, "lastObservedTime": "2026-01-02T03:05:05.000001Z"}), &[][..]),
        ("action", json!("Else"), &["action: Invalid value: \"Else\": field is immutable"]),
        ("message", json!("Other"), &["message: Invalid value: \"Other\": field is immutable"]),
        (
            "reason",
            json!("Other"),
            &[
                "reason: Invalid value: \"Other\": field is immutable",
                "reason: Invalid value: \"Other\": field is immutable",
            ],
        ),
        ("count", json!(2), &["count: Invalid value: 2: field is immutable"]),
        (
            "series",
            json!({"count": 1}),
            &[
                "series.count: Invalid value: \"\": should be at least 2",
                "series.lastObservedTime: Required value",
            ],
        ),
    ] {
        check_update_in(&V1, &Event, event(), with(field, value), expected);
    }
}

#[test]
fn errors_come_in_the_order_of_the_reference() {
    let (old, mut new) = (created(&Event, event()), created(&Event, event()));
    for (field, value) in [("action", json!("Else")), ("count", json!(2)), ("message", json!("Other"))] {
        set(&mut new, field, value);
    }
    set(&mut new, "reportingComponent", "orch.io/other");
    let errors = Event.validate_update(&V1, &old, &new);
    let fields: Vec<String> = errors
        .iter()
        .map(|error| error.to_string().split(':').next().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(fields, ["message", "count", "action", "reportingController"]);
}

#[test]
fn each_spelling_names_the_controller_in_its_own_way() {
    for (context, name) in [(&V1, "reportingController"), (&CONTEXT, "reportingComponent")] {
        let errors = Event.validate_create(context, &created(&Event, with("reportingComponent", json!(""))));
        assert!(errors.iter().all(|error| error.to_string().starts_with(name)), "{errors:?}");
        assert_eq!(errors.len(), 3);
    }
}

#[test]
fn names_are_stricter_in_the_new_spelling() {
    let named = with("metadata", json!({"name": "With_Underscore"}));
    check_create_in(&CONTEXT, &Event, named.clone(), &[]);
    let errors = Event.validate_create(&V1, &created(&Event, named));
    assert!(
        errors[0]
            .to_string()
            .starts_with("metadata.name: Invalid value: \"With_Underscore\": a lowercase RFC 1123")
    );
}

#[test]
fn both_spellings_say_the_same() {
    let stored = from_events_v1(&json!({
        "metadata": {"name": "new"}, "eventTime": "2026-01-02T03:04:05.123456Z", "note": "hello", "action": "Testing",
        "reportingController": "orch.io/test", "reportingInstance": "i", "regarding": {"kind": "Pod"}, "kind": "Event"
    }));
    assert_eq!(
        stored,
        json!({
            "metadata": {"name": "new"}, "eventTime": "2026-01-02T03:04:05.123456Z", "message": "hello",
            "action": "Testing", "reportingComponent": "orch.io/test", "reportingInstance": "i",
            "involvedObject": {"kind": "Pod"}, "source": {}, "firstTimestamp": null, "lastTimestamp": null
        })
    );
    let old = json!({
        "involvedObject": {"kind": "Pod"}, "reason": "R", "message": "M", "source": {"host": "h"}, "eventTime": null,
        "firstTimestamp": "2026-01-02T03:04:05Z", "lastTimestamp": null, "count": 3, "reportingComponent": "",
        "reportingInstance": ""
    });
    let new = to_events_v1(&old);
    assert_eq!(
        new,
        json!({
            "regarding": {"kind": "Pod"}, "reason": "R", "note": "M", "deprecatedSource": {"host": "h"},
            "eventTime": null, "deprecatedFirstTimestamp": "2026-01-02T03:04:05Z", "deprecatedLastTimestamp": null,
            "deprecatedCount": 3
        })
    );
    assert_eq!(from_events_v1(&new), old);
    assert_eq!(to_events_v1(&json!([])), to_events_v1(&json!({})));
}

#[test]
fn rows_count_and_date_events() {
    let now = "2026-11-20T03:04:05Z";
    let mut object = created(&Event, event());
    let row = Event.table_row(&object, now).unwrap_or_default();
    assert_eq!(
        json!(row),
        json!(["321d", "Normal", "Test", "pod/p", "", "orch.io/test, test-1", "hello", "321d", 1, "n"])
    );
    set(&mut object, "series", json!({"count": 7, "lastObservedTime": "2026-11-20T03:04:00.000000Z"}));
    unset(&mut object, "involvedObject");
    let row = Event.table_row(&object, now).unwrap_or_default();
    assert_eq!(json!(row[0]), json!("5s"));
    assert_eq!((json!(row[3]), json!(row[8])), (json!(""), json!(7)));
    check_hostile(&Event);
}
