//! Drives one strategy in tests as the pipeline would.

use std::collections::BTreeMap;

use orch_schema::json;
use orch_schema::value::Value;

use crate::Action;
use crate::kinds::{Context, Requester, Strategy};
use crate::validate::FieldError;
use crate::validate::tree::{Tree, child_mut, set_default};

/// The context of tests: a request to the main resource in namespace `ns`.
pub(crate) const CONTEXT: Context<'static> = Context {
    brand: &orch_proto::brand::ORCH,
    group: "",
    version: "v1",
    namespace: "ns",
    action: Action::Object,
    user: Requester { name: "me", uid: "", groups: &[], extra: &BTreeMap::new() },
    now: "2026-01-02T03:04:05Z",
    labels_given: true,
};

/// Gives the object the metadata that makes it valid, where it has none.
pub(super) fn with_metadata(mut object: Value) -> Value {
    let metadata = child_mut(&mut object, "metadata");
    for (field, value) in [("name", "n"), ("namespace", "ns"), ("resourceVersion", "5"), ("uid", "u")] {
        set_default(metadata, field, value);
    }
    object
}

/// The object after the kind's defaults.
pub(super) fn defaulted(strategy: &dyn Strategy, object: Value) -> Value {
    let mut object = object;
    strategy.default(&CONTEXT, &mut object);
    object
}

/// The object as a create would store it.
pub(super) fn created(strategy: &dyn Strategy, object: Value) -> Value {
    let labels_given = !object.at("metadata").is_empty_at("labels");
    let context = Context { labels_given, ..CONTEXT };
    let mut object = defaulted(strategy, with_metadata(object));
    strategy.prepare_for_create(&context, &mut object);
    object
}

/// The object as an update would store it.
pub(super) fn updated(strategy: &dyn Strategy, action: Action, old: &Value, new: Value) -> Value {
    let context = Context { action, ..CONTEXT };
    let mut object = defaulted(strategy, with_metadata(new));
    strategy.prepare_for_update(&context, old, &mut object);
    object
}

/// Creates the object and compares the errors of the kind, in order.
#[track_caller]
pub(super) fn check_create(strategy: &dyn Strategy, object: Value, expected: &[&str]) {
    check_create_in(&CONTEXT, strategy, object, expected);
}

/// [`check_create`] for another context.
#[track_caller]
pub(super) fn check_create_in(
    context: &Context<'_>,
    strategy: &dyn Strategy,
    object: Value,
    expected: &[&str],
) {
    let object = created(strategy, object);
    compare(&strategy.validate_create(context, &object), expected, &object);
}

/// Updates `old` to `new`, both after defaults, and compares the errors of the kind, in order.
#[track_caller]
pub(super) fn check_update(strategy: &dyn Strategy, old: Value, new: Value, expected: &[&str]) {
    check_update_in(&CONTEXT, strategy, old, new, expected);
}

/// [`check_update`] for another context.
#[track_caller]
pub(super) fn check_update_in(
    context: &Context<'_>,
    strategy: &dyn Strategy,
    old: Value,
    new: Value,
    expected: &[&str],
) {
    let old = created(strategy, old);
    let mut new = defaulted(strategy, with_metadata(new));
    crate::validate::carry_system_fields(&old["metadata"], child_mut(&mut new, "metadata"));
    strategy.prepare_for_update(context, &old, &mut new);
    compare(&strategy.validate_update(context, &old, &new), expected, &new);
}

/// Checks that no rule panics on values that no decoder lets through.
pub(super) fn check_hostile(strategy: &dyn Strategy) {
    for hostile in [
        json!(null),
        json!([]),
        json!("text"),
        json!({"metadata": [], "spec": 7, "status": "x", "data": [1]}),
        json!({"metadata": {"labels": 1}, "spec": {"template": {"spec": []}, "containers": {"a": 1}}}),
        json!({"spec": {"containers": [null, 1, {"ports": [{}], "env": "x", "resources": {"limits": {"cpu": 9e99}}}]}}),
        json!({"rules": [1, {"verbs": {}}], "subjects": [null], "roleRef": [], "spec": {"replicas": "many"}}),
    ] {
        let mut object = hostile.clone();
        strategy.default(&CONTEXT, &mut object);
        strategy.prepare_for_create(&CONTEXT, &mut object);
        strategy.validate_create(&CONTEXT, &hostile);
        strategy.validate_update(&CONTEXT, &hostile, &object);
        strategy.prepare_for_update(&CONTEXT, &hostile, &mut object);
        strategy.table_row(&hostile, CONTEXT.now);
        strategy.field_value(&hostile, "spec.nodeName");
        strategy.warnings(&CONTEXT, None, &hostile);
        strategy.grace_period_seconds(&hostile, None);
    }
}

#[track_caller]
fn compare(errors: &[FieldError], expected: &[&str], object: &Value) {
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(texts, expected, "{object}");
}
