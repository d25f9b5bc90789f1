//! Managed fields of the scale sub-resource.

use super::*;

fn entry(manager: &str, version: &str, subresource: &str, fields: Value) -> Value {
    let mut entry = json!({"manager": manager, "operation": "Update", "apiVersion": version, "time": "1",
        "fieldsType": "FieldsV1", "fieldsV1": fields});
    if !subresource.is_empty() {
        entry["subresource"] = subresource.into();
    }
    entry
}

#[test]
fn replica_count_changes_hands_through_the_scale() {
    let replicas = json!({"f:spec": {"f:replicas": {}}});
    let deployer = entry("deployer", "apps/v1", "", json!({"f:spec": {"f:paused": {}, "f:replicas": {}}}));
    let other = entry("other", "apps/v1", "", json!({"f:metadata": {"f:labels": {}}}));
    let parent = json!([deployer, other]);
    let seen = scale_managers(Some(&parent), &["spec", "replicas"]).unwrap().unwrap();
    assert_eq!(seen, json!([entry("deployer", "autoscaling/v1", "", replicas.clone())]));

    let same = managers_after_scale(Some(&parent), Some(&seen), &["spec", "replicas"], "apps/v1").unwrap();
    assert_eq!(same, Some(parent.clone()));

    let scaler = json!([entry("scaler", "autoscaling/v1", "scale", replicas.clone())]);
    let after = managers_after_scale(Some(&parent), Some(&scaler), &["spec", "replicas"], "apps/v1").unwrap();
    let mut gained = entry("scaler", "apps/v1", "scale", replicas);
    gained.as_object_mut().unwrap().shift_remove("time");
    let lost = entry("deployer", "apps/v1", "", json!({"f:spec": {"f:paused": {}}}));
    assert_eq!(after, Some(json!([gained, lost, other])));
}
