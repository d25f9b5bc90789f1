//! The documents that webhooks are sent.

use orch_proto::brand::ORCH;
use orch_schema::json;
use orch_schema::value::Value;

use super::super::review::{Request, ReviewVersion};
use crate::admission::matching::{Asked, Names, Version};
use crate::admission::testing::attributes;
use crate::admission::{Attributes, Operation};

fn document(attributes: &Attributes<'_>, object: Option<&Value>, version: ReviewVersion) -> Value {
    let asked = Asked::of(attributes);
    let names = Names::of(&asked, &Version::Own);
    let request = Request::of(&asked, (&names, &names), object, attributes.old);
    let text = request.document(version, "u-1", &ORCH);
    serde_json::from_slice(&text).expect("it is JSON")
}

#[test]
fn a_review_has_all_of_a_write() {
    let object = json!({"metadata": {"name": "n", "namespace": "ns"}, "data": {"k": "v"}});
    let created = attributes("configmaps", Operation::Create);
    let shown = document(&created, Some(&object), ReviewVersion::V1);
    let kind = json!({"group": "", "version": "v1", "kind": "ConfigMap"});
    let resource = json!({"group": "", "version": "v1", "resource": "configmaps"});
    let expected = json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.orch.io/v1",
        "request": {
            "uid": "u-1", "kind": kind.clone(), "resource": resource.clone(), "requestKind": kind, "requestResource": resource,
            "name": "n", "namespace": "ns", "operation": "CREATE",
            "userInfo": {"username": "system:admin", "groups": ["system:masters", "system:authenticated"]},
            "object": {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "n", "namespace": "ns"}, "data": {"k": "v"}},
            "oldObject": null, "dryRun": false, "options": {"kind": "CreateOptions", "apiVersion": "meta.orch.io/v1"},
        },
    });
    assert_eq!(shown, expected);
    assert_eq!(
        document(&created, Some(&object), ReviewVersion::V1Beta1)["apiVersion"],
        "admission.orch.io/v1beta1"
    );
}

#[test]
fn deletions_show_the_old_object_alone() {
    let old = json!({});
    let deleted = Attributes { old: Some(&old), ..attributes("configmaps", Operation::Delete) };
    let shown = document(&deleted, None, ReviewVersion::V1);
    let request = &shown["request"];
    assert_eq!(request["object"], Value::Null);
    assert_eq!(request["oldObject"], json!({"kind": "ConfigMap", "apiVersion": "v1"}));
    assert_eq!(request["operation"], "DELETE");
}

#[test]
fn converted_objects_are_shown_with_one_kind() {
    let object = json!({"kind": "Other", "apiVersion": "v2", "data": {"k": "v"}});
    let created = attributes("configmaps", Operation::Create);
    let shown = document(&created, Some(&object), ReviewVersion::V1);
    let expected = json!({"kind": "ConfigMap", "apiVersion": "v1", "data": {"k": "v"}});
    assert_eq!(shown["request"]["object"], expected);
    let asked = Asked::of(&created);
    let names = Names::of(&asked, &Version::Own);
    let text =
        Request::of(&asked, (&names, &names), Some(&object), None).document(ReviewVersion::V1, "u", &ORCH);
    assert_eq!(
        String::from_utf8_lossy(&text).matches("\"kind\":\"ConfigMap\"").count(),
        3,
        "each member once"
    );
}

#[test]
fn the_first_known_version_of_the_list_is_sent() {
    for (listed, expected) in [
        (&["v1", "v1beta1"][..], Some(ReviewVersion::V1)),
        (&["v9", "v1beta1", "v1"], Some(ReviewVersion::V1Beta1)),
        (&["v2"], None),
    ] {
        assert_eq!(ReviewVersion::first_of(listed), expected, "{listed:?}");
    }
}
