//! The sources of a claim: `dataSource`, and `dataSourceRef`, which replaced it.
//!
//! Owns which of them are stored. Never checks a source: that is the spec's.

use orch_proto::Brand;
use orch_schema::value::Value;

use crate::validate::tree::{Tree, existing_mut, set, unset};

/// Drops the sources of `claim` that are not served, and fills `dataSource` and `dataSourceRef` from each other. `old` is
/// null for a new claim.
pub(super) fn prepare_sources(brand: &Brand, old: &Value, claim: &mut Value) {
    let before = old.at("spec");
    let Some(spec) = existing_mut(claim, "spec") else { return };
    // A claim from another namespace is a feature that is off, so that only a claim that has a reference keeps one.
    if !spec.at("dataSourceRef").text("namespace").is_empty() && !before.has("dataSourceRef") {
        unset(spec, "dataSourceRef");
    }
    // `dataSource` once took two kinds and ignored all others; clients that send another one expect an empty volume.
    let has_source = before.has("dataSource") || before.has("dataSourceRef");
    if !has_source && !spec.has("dataSourceRef") && !is_claim_or_snapshot(brand, spec.at("dataSource")) {
        unset(spec, "dataSource");
    }
    let (source, reference) = (spec.at("dataSource").clone(), spec.at("dataSourceRef").clone());
    if source.is_object() && reference.is_null() {
        set(spec, "dataSourceRef", source);
    } else if source.is_null() && reference.is_object() && reference.text("namespace").is_empty() {
        let mut source = reference;
        unset(&mut source, "namespace");
        set(spec, "dataSource", source);
    }
}

fn is_claim_or_snapshot(brand: &Brand, source: &Value) -> bool {
    match source.text("kind") {
        "PersistentVolumeClaim" => source.text("apiGroup").is_empty(),
        "VolumeSnapshot" => source.text("apiGroup") == brand.group("snapshot.storage"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use orch_schema::json;

    use super::*;
    use crate::Action;
    use crate::kinds::testing::{check_create, created, updated};
    use crate::kinds::volume_claim::PersistentVolumeClaim;
    use crate::kinds::volume_claim::tests::claim;

    #[test]
    fn sources_of_other_kinds_are_dropped_and_the_rest_is_in_both_fields() {
        let with = |sources: Value| {
            let mut claim = claim("1Gi");
            for (field, source) in sources.as_object().into_iter().flatten() {
                claim["spec"][field.as_str()] = source.clone();
            }
            claim
        };
        let sources = |claim: &Value| {
            let spec = &claim["spec"];
            (spec["dataSource"].clone(), spec["dataSourceRef"].clone())
        };
        let claim_source = json!({"kind": "PersistentVolumeClaim", "name": "x"});
        let snapshot = json!({"apiGroup": "snapshot.storage.orch.io", "kind": "VolumeSnapshot", "name": "x"});
        let other = json!({"apiGroup": "a.b", "kind": "K", "name": "x"});
        let abroad = json!({"kind": "PersistentVolumeClaim", "name": "x", "namespace": "o"});
        let at_home = json!({"kind": "PersistentVolumeClaim", "name": "x", "namespace": ""});
        for (given, expected) in [
            (json!({}), (Value::Null, Value::Null)),
            (json!({"dataSource": claim_source}), (claim_source.clone(), claim_source.clone())),
            (json!({"dataSource": snapshot}), (snapshot.clone(), snapshot.clone())),
            (json!({"dataSource": other}), (Value::Null, Value::Null)),
            (json!({"dataSource": {"kind": "Secret", "name": "x"}}), (Value::Null, Value::Null)),
            (json!({"dataSourceRef": other}), (other.clone(), other.clone())),
            (json!({"dataSourceRef": abroad}), (Value::Null, Value::Null)),
            (
                json!({"dataSource": claim_source, "dataSourceRef": abroad}),
                (claim_source.clone(), claim_source.clone()),
            ),
            (json!({"dataSourceRef": at_home}), (claim_source.clone(), at_home.clone())),
            (json!({"dataSource": other, "dataSourceRef": snapshot}), (other.clone(), snapshot.clone())),
        ] {
            let claim = created(&PersistentVolumeClaim, with(given.clone()));
            assert_eq!(sources(&claim), expected, "{given}");
        }
        check_create(
            &PersistentVolumeClaim,
            with(json!({"dataSource": other, "dataSourceRef": snapshot})),
            &["spec: Invalid value: {}: must match dataSourceRef"],
        );
        // A client that knows only the older field keeps a source that it could not have set itself.
        let old = created(&PersistentVolumeClaim, with(json!({"dataSourceRef": other})));
        let kept = with(json!({"dataSource": other}));
        let kept = updated(&PersistentVolumeClaim, Action::Object, &old, kept);
        assert_eq!(sources(&kept), (other.clone(), other));
    }
}
