//! The rules of object metadata, by the errors that they report.

use orch_schema::json;

use super::*;

fn create(meta: Value) -> Vec<String> {
    let errors = validate_object_meta(&meta, true, NameRule::Dns1123Subdomain, &Path::new("metadata"));
    errors.iter().map(ToString::to_string).collect()
}

fn update(old: Value, new: Value) -> Vec<String> {
    let errors = validate_object_meta_update(&new, &old, &Path::new("metadata"));
    errors.iter().map(ToString::to_string).collect()
}

fn named(mut extra: Value) -> Value {
    set(&mut extra, "name", "n");
    set(&mut extra, "namespace", "ns");
    extra
}

#[track_caller]
fn check_one(errors: Vec<String>, start: &str) {
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].starts_with(start), "{errors:?}");
}

#[test]
fn a_plain_object_passes() {
    assert!(
        create(named(json!({"labels": {"a": "b"}, "annotations": {"Ok/Key": "free text ! @ #"}}))).is_empty()
    );
}

#[test]
fn a_name_is_required() {
    check_one(
        create(json!({"namespace": "ns"})),
        "metadata.name: Required value: name or generateName is required",
    );
}

#[test]
fn both_generate_name_and_name_are_reported() {
    let errors = create(json!({"namespace": "ns", "generateName": "Bad_", "name": "Bad_x"}));
    assert!(errors[0].starts_with("metadata.generateName: Invalid value: \"Bad_\": a lowercase RFC 1123"));
    assert!(errors[1].starts_with("metadata.name: Invalid value: \"Bad_x\": a lowercase RFC 1123"));
}

#[test]
fn namespaces_follow_the_scope() {
    check_one(create(json!({"name": "n"})), "metadata.namespace: Required value");
    check_one(create(json!({"name": "n", "namespace": "A"})), "metadata.namespace: Invalid value: \"A\"");
    let cluster = validate_object_meta(
        &json!({"name": "n", "namespace": "x"}),
        false,
        NameRule::PathSegment,
        &Path::new("metadata"),
    );
    assert_eq!(cluster[0].to_string(), "metadata.namespace: Forbidden: not allowed on this type");
}

#[test]
fn labels_and_annotations() {
    check_one(
        create(named(json!({"labels": {"ok": "yes", "bad key!": "x"}}))),
        "metadata.labels: Invalid value: \"bad key!\": name part must consist of",
    );
    check_one(
        create(named(json!({"labels": {"ok": "bad value!"}}))),
        "metadata.labels: Invalid value: \"bad value!\": a valid label must be",
    );
    check_one(
        create(named(json!({"annotations": {"a": "x".repeat(ANNOTATIONS_SIZE_MAX)}}))),
        "metadata.annotations: Too long: may not be more than 262144 bytes",
    );
}

#[test]
fn finalizers_are_qualified_and_exclusive() {
    check_one(
        create(named(json!({"finalizers": ["bad name/x"]}))),
        "metadata.finalizers: Invalid value: \"bad name/x\": prefix part a lowercase RFC 1123 subdomain",
    );
    check_one(
        create(named(json!({"finalizers": ["orphan", "foregroundDeletion"]}))),
        "metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]: finalizer orphan and \
         foregroundDeletion cannot be both set",
    );
    let bare = validate_finalizer_domains(
        &json!({"finalizers": ["orphan", "notqualified", "orch", 7]}),
        &orch_proto::brand::ORCH,
        &Path::new("metadata"),
    );
    let texts: Vec<String> = bare.iter().map(ToString::to_string).collect();
    check_one(
        texts,
        "metadata.finalizers[1]: Invalid value: \"notqualified\": name is neither a standard finalizer name nor is \
         it fully qualified",
    );
}

#[test]
fn owners() {
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true});
    assert!(create(named(json!({"ownerReferences": [owner]}))).is_empty());
    check_one(
        create(named(json!({"ownerReferences": [owner, owner]}))),
        "metadata.ownerReferences: Invalid value: [",
    );
    let errors = create(named(json!({"ownerReferences": [{}]})));
    assert_eq!(
        errors,
        [
            "metadata.ownerReferences.apiVersion: Invalid value: \"\": version must not be empty",
            "metadata.ownerReferences.kind: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.name: Invalid value: \"\": must not be empty",
            "metadata.ownerReferences.uid: Invalid value: \"\": must not be empty",
        ]
    );
    check_one(
        create(named(
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "e", "uid": "u"}]}),
        )),
        "metadata.ownerReferences: Invalid value: {\"apiVersion\":\"v1\",\"kind\":\"Event\",\"name\":\"e\",\
         \"uid\":\"u\"}: /v1, Kind=Event is disallowed from being an owner",
    );
    check_one(
        create(named(
            json!({"ownerReferences": [{"apiVersion": "a/b/c", "kind": "K", "name": "e", "uid": "u"}]}),
        )),
        "metadata.ownerReferences.apiVersion: Invalid value: \"a/b/c\": version must not be empty",
    );
}

#[test]
fn managed_fields() {
    check_one(
        create(named(json!({"managedFields": [{}]}))),
        "metadata.managedFields[0].operation: Required value",
    );
    check_one(
        create(named(json!({"managedFields": [{"operation": "Sing"}]}))),
        "metadata.managedFields[0].operation: Unsupported value: \"Sing\": supported values: \"Apply\", \"Update\"",
    );
    check_one(
        create(named(json!({"managedFields": [{"operation": "Apply", "fieldsType": "V2"}]}))),
        "metadata.managedFields[0].fieldsType: Invalid value: \"V2\": must be `FieldsV1`",
    );
}

fn stored() -> Value {
    json!({"name": "n", "namespace": "ns", "uid": "u", "resourceVersion": "5", "creationTimestamp": "2026-01-02T03:04:05Z"})
}

#[test]
fn an_unchanged_object_passes() {
    assert!(update(stored(), stored()).is_empty());
}

#[test]
fn system_fields_do_not_change() {
    for (field, value, message) in [
        ("name", json!("m"), "metadata.name: Invalid value: \"m\": field is immutable"),
        ("namespace", json!("m"), "metadata.namespace: Invalid value: \"m\": field is immutable"),
        ("uid", json!("v"), "metadata.uid: Invalid value: \"v\": field is immutable"),
        (
            "deletionTimestamp",
            json!("2026-01-02T03:04:05Z"),
            "metadata.deletionTimestamp: Invalid value: \"2026-01-02T03:04:05Z\": field is immutable",
        ),
        (
            "deletionGracePeriodSeconds",
            json!(3),
            "metadata.deletionGracePeriodSeconds: Invalid value: 3: field is immutable",
        ),
        (
            "resourceVersion",
            json!(""),
            "metadata.resourceVersion: Invalid value: \"\": must be specified for an update",
        ),
        (
            "generation",
            json!(-1),
            "metadata.generation: Invalid value: -1: must be greater than or equal to 0",
        ),
    ] {
        let mut new = stored();
        set(&mut new, field, value);
        let errors = update(stored(), new);
        assert!(errors.iter().any(|error| error == message), "{field}: {errors:?}");
    }
}

#[test]
fn a_terminating_object_takes_no_new_finalizers() {
    let mut old = stored();
    set(&mut old, "deletionTimestamp", "2026-01-02T03:04:05Z");
    set(&mut old, "finalizers", json!(["example.com/a"]));
    let mut new = old.clone();
    set(&mut new, "finalizers", json!(["example.com/new", "example.com/a"]));
    check_one(
        update(old, new),
        "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new \
         finalizers []string{\"example.com/new\"}",
    );
}

#[test]
fn an_update_inherits_what_it_leaves_out() {
    let mut old = stored();
    set(&mut old, "generation", 4);
    set(&mut old, "deletionTimestamp", "2026-01-02T03:04:05Z");
    set(&mut old, "deletionGracePeriodSeconds", 0);
    let mut new = json!({"name": "n", "namespace": "ns", "resourceVersion": "5", "generation": 99});
    carry_system_fields(&old, &mut new);
    assert!(update(old, new).is_empty());
}

#[test]
fn hostile_metadata_does_not_panic() {
    for meta in [
        json!(null),
        json!([]),
        json!({"labels": [1], "annotations": 3, "finalizers": {"a": 1}, "ownerReferences": [null, 7]}),
        json!({"name": {"x": 1}, "managedFields": ["x"], "generation": "many"}),
    ] {
        assert!(!create(meta).is_empty());
    }
}
