//! Rules of volumes, with the reference's messages.

use super::*;
use crate::kinds::testing::{
    CONTEXT, check_create, check_hostile, check_update, check_update_in, created, updated,
};
use crate::validate::tree::unset;

/// A volume whose spec has these members beside capacity and access modes.
fn volume(members: Value) -> Value {
    let mut spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]});
    for (name, value) in members.as_object().into_iter().flatten() {
        spec[name.as_str()] = value.clone();
    }
    json!({"metadata": {"namespace": ""}, "spec": spec})
}

fn nfs() -> Value {
    json!({"nfs": {"server": "s", "path": "/x"}})
}

#[test]
fn a_new_volume_waits_and_is_kept() {
    let object = created(&PersistentVolume, volume(nfs()));
    let status = json!({"phase": "Pending", "lastPhaseTransitionTime": CONTEXT.now});
    assert_eq!(object["status"], status);
    assert_eq!(object["spec"]["persistentVolumeReclaimPolicy"], "Retain");
    assert_eq!(
        json!(PersistentVolume.table_row(&object, CONTEXT.now)),
        json!(["n", "1Gi", "RWO", "Retain", "Pending", "", "", "<unset>", "", "<unknown>", "Filesystem"])
    );
    let mut noted = object;
    noted["metadata"]["annotations"] = json!({"volume.beta.orch.io/storage-class": "old"});
    assert_eq!(PersistentVolume.table_row(&noted, CONTEXT.now).unwrap()[6], "old");
    check_hostile(&PersistentVolume);
}

#[test]
fn sources_with_what_they_need_are_taken() {
    for good in [
        nfs(),
        json!({"hostPath": {"path": "/x", "type": "Directory"}}),
        json!({"iscsi": {"targetPortal": "10.0.0.1:3260", "iqn": "iqn.2001-04.com.example:storage", "lun": 0}}),
        json!({"fc": {"targetWWNs": ["50060e801049cfd1"], "lun": 0}}),
        json!({"fc": {"wwids": ["x"]}}),
        json!({"rbd": {"monitors": ["m"], "image": "i"}}),
        json!({"azureDisk": {"diskName": "d", "diskURI": "https://x/y.vhd", "kind": "Shared"}}),
        json!({"quobyte": {"registry": "a:1,[::1]:2", "volume": "v"}}),
        json!({"csi": {"driver": "d.example.com", "volumeHandle": "h"}, "volumeAttributesClassName": "gold"}),
    ] {
        check_create(&PersistentVolume, volume(good), &[]);
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one flat table of a volume's sources")]
fn each_source_has_what_it_needs() {
    let secret = json!({"secretRef": {}});
    for (bad, expected) in [
        (json!({}), &["spec: Required value: must specify a volume type"][..]),
        (
            json!({"nfs": {"server": "", "path": "x"}}),
            &[
                "spec.nfs.server: Required value",
                "spec.nfs.path: Invalid value: \"x\": must be an absolute path",
            ],
        ),
        (
            json!({"iscsi": {"targetPortal": "", "iqn": "bad", "lun": 300, "chapAuthSession": true}}),
            &[
                "spec.iscsi.targetPortal: Required value",
                "spec.iscsi.iqn: Invalid value: \"bad\": must be valid format",
                "spec.iscsi.lun: Invalid value: 300: must be between 0 and 255, inclusive",
                "spec.iscsi.secretRef: Required value",
            ],
        ),
        (
            json!({"fc": {"targetWWNs": ["x"], "wwids": ["y"], "lun": -1}}),
            &[
                "spec.fc.targetWWNs: Invalid value: [\"x\"]: targetWWNs and wwids can not be specified simultaneously",
                "spec.fc.lun: Invalid value: -1: must be between 0 and 255, inclusive",
            ],
        ),
        (
            json!({"gcePersistentDisk": {"pdName": "", "partition": 256}}),
            &[
                "spec.persistentDisk.pdName: Required value",
                "spec.persistentDisk.partition: Invalid value: 256: must be between 1 and 255, inclusive",
            ],
        ),
        (
            json!({"cinder": {"volumeID": "v", "secretRef": secret["secretRef"].clone()}}),
            &[
                "spec.cinder.secretRef.name: Required value",
                "spec.cinder.secretRef.namespace: Required value",
            ],
        ),
        (
            json!({"flexVolume": {"driver": "d", "options": {"a.orch.io/x": "1", "own": "2"}}}),
            &[
                "spec.flexVolume.options[a.orch.io/x]: Invalid value: \"a.orch.io/x\": orch.io and orch.io namespaces are \
               reserved",
            ],
        ),
        (
            json!({"csi": {"driver": "", "volumeHandle": "", "nodePublishSecretRef": {"name": "s"}}}),
            &[
                "spec.csi.driver: Required value",
                "spec.csi.volumeHandle: Required value",
                "spec.csi.nodePublishSecretRef.namespace: Required value",
            ],
        ),
        (
            json!({"local": {"path": "/mnt/../x"}}),
            &[
                "spec.local.path: Invalid value: \"/mnt/../x\": must not contain '..'",
                "spec.nodeAffinity: Required value: Local volume requires node affinity",
            ],
        ),
        (
            json!({"nfs": {"server": "s", "path": "/x"}, "cephfs": {"monitors": []}}),
            &["spec.cephFS: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            json!({"azureDisk": {"diskName": "d", "diskURI": "x", "kind": "Managed"}}),
            &[
                "spec.azureDisk.diskURI: Unsupported value: \"x\": supported values: \"/subscriptions/{sub-id}/resourcegroups/\
               {group-name}/providers/microsoft.compute/disks/{disk-id}\"",
            ],
        ),
    ] {
        check_create(&PersistentVolume, volume(bad), expected);
    }
}

#[test]
fn names_of_iscsi_nodes() {
    let with = |iqn: &str| volume(json!({"iscsi": {"targetPortal": "p", "iqn": iqn, "lun": 0}}));
    let hex = "0123456789abcdef";
    for good in ["iqn.2001-04.com.example:a.b", &format!("eui.{hex}"), &format!("naa.{hex}{hex}")] {
        check_create(&PersistentVolume, with(good), &[]);
    }
    for bad in [
        "iqn.2001-04.com.example",
        "iqn.2001-04.com.example:",
        "iqn.20x1-04.a:b",
        "iqn.2001-04.a_b:c",
        "eui.1",
        "ipn",
        "iqn.\u{e9}\u{e9}\u{e9}\u{e9}:x",
    ] {
        let told = format!("spec.iscsi.iqn: Invalid value: \"{bad}\": must be valid format");
        check_create(&PersistentVolume, with(bad), &[&told]);
    }
}

#[test]
fn capacity_modes_and_classes() {
    check_create(
        &PersistentVolume,
        json!({"spec": {"nfs": {"server": "s", "path": "/x"}}}),
        &[
            "spec.accessModes: Required value",
            "spec.capacity: Required value",
            "spec.capacity: Unsupported value: null: supported values: \"storage\"",
        ],
    );
    check_create(
        &PersistentVolume,
        json!({"spec": {
            "nfs": {"server": "s", "path": "/x"}, "capacity": {"storage": "0", "cpu": "1"},
            "accessModes": ["ReadWriteOncePod", "ReadWriteOnce", "Some"], "persistentVolumeReclaimPolicy": "Keep",
            "volumeMode": "Tape", "volumeAttributesClassName": "", "nodeAffinity": {},
        }}),
        &[
            "spec.accessModes: Unsupported value: \"Some\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", \
             \"ReadWriteOnce\", \"ReadWriteOncePod\"",
            "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
            "spec.capacity: Unsupported value: {\"storage\":\"0\",\"cpu\":\"1\"}: supported values: \"storage\"",
            "spec.capacity[storage]: Invalid value: \"0\": must be greater than zero",
            "spec.persistentVolumeReclaimPolicy: Unsupported value: \"Keep\": supported values: \"Delete\", \"Recycle\", \
             \"Retain\"",
            "spec.nodeAffinity.required: Required value: must specify required node constraints",
            "spec.volumeMode: Unsupported value: \"Tape\": supported values: \"Block\", \"Filesystem\"",
            "spec.volumeAttributesClassName: Required value: an empty string is disallowed",
            "spec.csi: Required value: has to be specified when using volumeAttributesClassName",
        ],
    );
    check_create(
        &PersistentVolume,
        volume(json!({"hostPath": {"path": "/x/.."}, "persistentVolumeReclaimPolicy": "Recycle"})),
        &[
            "spec.hostPath.path: Invalid value: \"/x/..\": must not contain '..'",
            "spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'",
        ],
    );
}

#[test]
fn an_affinity_asks_for_labels_that_nodes_can_have() {
    let affinity = |values: Value| {
        let mut volume = volume(nfs());
        let terms = json!([{"matchExpressions": [{"key": "k", "operator": "In", "values": values}]}]);
        volume["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": terms}});
        volume
    };
    let label = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
                 start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
                 validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
    let path = "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].values[1]";
    let error = format!("{path}: Invalid value: \"b c\": {label}");
    check_create(&PersistentVolume, affinity(json!(["a", ""])), &[]);
    check_create(&PersistentVolume, affinity(json!(["a", "b c"])), &[&error]);
    check_update(&PersistentVolume, volume(nfs()), affinity(json!(["a", "b c"])), &[&error]);
    // A volume that has such an affinity can still be changed.
    check_update(&PersistentVolume, affinity(json!(["b c"])), affinity(json!(["b c"])), &[]);
}

#[test]
fn deprecated_labels_are_told_between_policy_and_source() {
    let mut old =
        volume(json!({"rbd": {"monitors": ["m"], "image": "i"}, "persistentVolumeReclaimPolicy": "Recycle"}));
    let terms = json!([{}, {"matchExpressions": [
        {"key": "k", "operator": "Exists"}, {"key": "beta.orch.io/os", "operator": "Exists"},
    ]}]);
    old["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": terms}});
    let warnings = PersistentVolume.warnings(&CONTEXT, None, &old);
    assert!(warnings[0].starts_with("spec.persistentVolumeReclaimPolicy: "), "{warnings:?}");
    assert_eq!(
        warnings[1],
        "spec.nodeAffinity.required.nodeSelectorTerms[1].matchExpressions[1].key: beta.orch.io/os is deprecated since \
         v1.14; use \"orch.io/os\" instead"
    );
    assert!(warnings[2].starts_with("spec.rbd: ") && warnings.len() == 3, "{warnings:?}");
    let status = Context { action: Action::Status, ..CONTEXT };
    assert!(PersistentVolume.warnings(&status, Some(&old), &old).is_empty());
}

#[test]
fn the_source_stays() {
    let csi = |members: Value| {
        let mut csi = json!({"driver": "d", "volumeHandle": "h"});
        for (name, value) in members.as_object().into_iter().flatten() {
            csi[name.as_str()] = value.clone();
        }
        volume(json!({"csi": csi}))
    };
    let secret = json!({"controllerExpandSecretRef": {"name": "s", "namespace": "n"}});
    check_update(&PersistentVolume, csi(json!({})), csi(secret), &[]);
    check_update(
        &PersistentVolume,
        csi(json!({})),
        csi(json!({"volumeHandle": "other"})),
        &[
            "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\ncsi",
        ],
    );
    let mut block = volume(nfs());
    block["spec"]["volumeMode"] = json!("Block");
    check_update(
        &PersistentVolume,
        volume(nfs()),
        block,
        &["volumeMode: Invalid value: \"Block\": field is immutable"],
    );
}

#[test]
fn a_change_of_the_phase_is_dated() {
    let old = created(&PersistentVolume, volume(nfs()));
    let earlier = "2025-01-01T00:00:00Z";
    let mut before = old.clone();
    before["status"]["lastPhaseTransitionTime"] = json!(earlier);
    let with = |status: Value| {
        let mut new = before.clone();
        new["status"] = status;
        updated(&PersistentVolume, Action::Status, &before, new)["status"].clone()
    };
    assert_eq!(with(json!({"phase": "Pending"}))["lastPhaseTransitionTime"], earlier);
    assert_eq!(with(json!({"phase": "Bound"}))["lastPhaseTransitionTime"], CONTEXT.now);
    let own = json!({"phase": "Bound", "lastPhaseTransitionTime": "2025-02-02T00:00:00Z"});
    assert_eq!(with(own)["lastPhaseTransitionTime"], "2025-02-02T00:00:00Z");
    let status = Context { action: Action::Status, ..CONTEXT };
    check_update_in(&status, &PersistentVolume, volume(nfs()), volume(nfs()), &[]);
}

#[test]
fn deprecated_and_lost_features_are_warned_of() {
    let mut old =
        volume(json!({"rbd": {"monitors": ["m"], "image": "i"}, "persistentVolumeReclaimPolicy": "Recycle"}));
    old["metadata"] = json!({"annotations": {"volume.beta.orch.io/storage-class": "x"}});
    assert_eq!(
        PersistentVolume.warnings(&CONTEXT, None, &old),
        [
            "metadata.annotations[volume.beta.orch.io/storage-class]: deprecated since v1.8; use \"storageClassName\" \
             attribute instead",
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach \
             is to use dynamic provisioning.",
            "spec.rbd: deprecated in v1.28, non-functional in v1.31+",
        ]
    );
}

#[test]
fn an_affinity_moves_from_beta_labels_to_stable_ones_alone() {
    let affinity = |key: &str, value: &str| {
        let requirement = json!({"key": key, "operator": "In", "values": [value]});
        let mut members = nfs();
        members["nodeAffinity"] =
            json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}});
        volume(members)
    };
    for (beta, stable) in [
        ("failure-domain.beta.orch.io/zone", "topology.orch.io/zone"),
        ("failure-domain.beta.orch.io/region", "topology.orch.io/region"),
        ("beta.orch.io/instance-type", "node.orch.io/instance-type"),
        ("beta.orch.io/arch", "orch.io/arch"),
        ("beta.orch.io/os", "orch.io/os"),
    ] {
        check_update(&PersistentVolume, affinity(beta, "a"), affinity(stable, "a"), &[]);
        for (old, new) in [
            (affinity(stable, "a"), affinity(beta, "a")),
            (affinity(beta, "a"), affinity(stable, "b")),
            (affinity(beta, "a"), affinity("other", "a")),
            (affinity("other", "a"), affinity(stable, "a")),
        ] {
            let shown = shown(new.at("spec").at("nodeAffinity"));
            let error = format!("nodeAffinity: Invalid value: {shown}: field is immutable");
            check_update(&PersistentVolume, old, new, &[&error]);
        }
    }
}

#[test]
fn a_host_path_has_a_type() {
    let object = created(&PersistentVolume, volume(json!({"hostPath": {"path": "/x"}})));
    assert_eq!(object["spec"]["hostPath"], json!({"path": "/x", "type": ""}));
}

#[test]
fn a_volume_that_was_stored_without_the_type_can_still_be_changed() {
    let mut old = created(&PersistentVolume, volume(json!({"hostPath": {"path": "/x"}})));
    unset(child_mut(child_mut(&mut old, "spec"), "hostPath"), "type");
    let mut new = old.clone();
    PersistentVolume.default(&CONTEXT, &mut new);
    let is_refused = |old: &Value| {
        let errors = PersistentVolume.validate_update(&CONTEXT, old, &new);
        errors.iter().any(|error| error.to_string().contains("immutable"))
    };
    assert!(!is_refused(&old));
    set(child_mut(child_mut(&mut old, "spec"), "hostPath"), "type", json!("File"));
    assert!(is_refused(&old));
}
