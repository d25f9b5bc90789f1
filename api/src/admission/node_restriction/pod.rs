//! Writes of a kubelet to pods: it creates mirror pods of its node, deletes pods of its node, and reports their status.

use orch_rules::validate::tree::{Tree, is_unchanged};
use orch_schema::excerpt::{part, quoted};
use orch_schema::value::Value;

use super::{Operation, Refusal, Write, forbidden, refuse_unless};
use crate::authz::node::{MIRROR_ANNOTATION, PodDocument, ReferenceKind};

/// Volumes that refer to no object.
const OWN_VOLUMES: [&str; 22] = [
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

/// Volumes that refer to objects, and how messages name those.
const REFERRING_VOLUMES: [(&str, &str); 7] = [
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile", "secrets (via azureFile volumes)"),
];

/// Sources of projected volumes that refer to objects.
const REFERRING_SOURCES: [(&str, &str); 5] = [
    ("configMap", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
    ("clusterTrustBundle", "clustertrustbundles"),
    ("podCertificate", "podcertificates"),
];

pub(super) fn check(write: Write<'_>) -> Result<(), Refusal> {
    let node = quoted(write.node);
    match (write.attributes.operation, write.object) {
        (Operation::Create, Some(pod)) => check_new(write, &node, pod),
        (Operation::Delete, _) => refuse_unless(is_on(write.attributes.old, write.node), || {
            format!("node {node} can only delete pods with spec.nodeName set to itself")
        }),
        _ => Err(forbidden(format!(
            "unexpected operation \"UPDATE\", node {node} can only create and delete mirror pods"
        ))),
    }
}

fn is_on(pod: Option<&Value>, node: &str) -> bool {
    pod.is_some_and(|pod| pod.at("spec").text("nodeName") == node)
}

/// Accepts the mirror of a pod that the kubelet runs by itself.
fn check_new(write: Write<'_>, node: &str, pod: &Value) -> Result<(), Refusal> {
    let annotation = write.attributes.brand.label(MIRROR_ANNOTATION);
    let is_mirror = pod.at("metadata").at("annotations").get(&annotation).is_some();
    refuse_unless(is_mirror, || {
        format!("pod does not have {annotation:?} annotation, node {node} can only create mirror pods")
    })?;
    refuse_unless(is_on(Some(pod), write.node), || {
        format!("node {node} can only create pods with spec.nodeName set to itself")
    })?;
    check_owner(write, node, pod.at("metadata").items("ownerReferences"))?;
    match referred_kind(pod) {
        Ok(None) => Ok(()),
        Ok(Some(kind)) => Err(forbidden(format!("node {node} can not create pods that reference {kind}"))),
        Err(fault) => Err(forbidden(format!("error checking mirror pod for API references: {fault}"))),
    }
}

/// The one owner of a mirror pod is its node.
fn check_owner(write: Write<'_>, node: &str, owners: &[Value]) -> Result<(), Refusal> {
    let only = |what: &str| format!("node {node} can only create pods with {what} set to itself");
    let owner = match owners {
        [] => return Err(forbidden(only("an owner reference"))),
        [owner] => owner,
        _ => return Err(forbidden(only("a single owner reference"))),
    };
    let is_own =
        (owner.text("apiVersion"), owner.text("kind"), owner.text("name")) == ("v1", "Node", write.node);
    refuse_unless(is_own, || only("an owner reference"))?;
    refuse_unless(owner.flag("controller"), || only("a controller owner reference"))?;
    refuse_unless(!owner.flag("blockOwnerDeletion"), || {
        format!("node {node} must not set blockOwnerDeletion on an owner reference")
    })?;
    let found = write.find("nodes", "", write.node, "node").map_err(Refusal::Error)?;
    let (given, uid) = (owner.text("uid"), found.at("metadata").text("uid"));
    refuse_unless(given == uid, || {
        format!("node {} UID mismatch: expected {} got {uid}", part(write.node), part(given))
    })
}

/// How messages name the kind of the first object that the pod refers to.
///
/// # Errors
/// A volume of an unknown kind.
fn referred_kind(pod: &Value) -> Result<Option<&'static str>, String> {
    let spec = pod.at("spec");
    // A create by a kubelet is rare: it may decode the pod a second time.
    let document = PodDocument::parse(pod.to_string().as_bytes()).ok_or("the pod cannot be read")?;
    let mut kinds = Vec::new();
    document.visit_references(&mut |kind, _| kinds.push(kind));
    for (kind, name) in [
        (ReferenceKind::ServiceAccount, "serviceaccounts"),
        (ReferenceKind::Secret, "secrets"),
        (ReferenceKind::ConfigMap, "configmaps"),
    ] {
        // once: three kinds are looked for.
        if kinds.contains(&kind) {
            return Ok(Some(name));
        }
    }
    if !spec.items("resourceClaims").is_empty() {
        return Ok(Some("resourceclaims"));
    }
    for volume in spec.items("volumes") {
        let kind = kind_of_volume(volume)?;
        if kind.is_some() {
            return Ok(kind);
        }
    }
    Ok(None)
}

fn kind_of_volume(volume: &Value) -> Result<Option<&'static str>, String> {
    // few: the kinds of volumes.
    if OWN_VOLUMES.iter().any(|source| volume.has(source)) {
        return Ok(None);
    }
    // few: the kinds of volumes.
    if let Some((_, kind)) = REFERRING_VOLUMES.iter().find(|(source, _)| volume.has(source)) {
        return Ok(Some(kind));
    }
    if !volume.has("projected") {
        return Err(format!("unknown volume type for volume  {}", quoted(volume.text("name"))));
    }
    for source in volume.at("projected").items("sources") {
        // few: the kinds of sources.
        if let Some((_, kind)) = REFERRING_SOURCES.iter().find(|(member, _)| source.has(member)) {
            return Ok(Some(kind));
        }
        if !source.has("downwardAPI") {
            return Err(format!("unknown source for projected volume {}", quoted(volume.text("name"))));
        }
    }
    Ok(None)
}

/// Accepts the eviction of a pod of the node.
pub(super) fn check_eviction(write: Write<'_>) -> Result<(), Refusal> {
    let (node, attributes) = (quoted(write.node), write.attributes);
    if attributes.name.is_empty() {
        return Err(forbidden("could not determine pod from request data".to_owned()));
    }
    let pod = write.find("pods", attributes.namespace, attributes.name, "pod").map_err(Refusal::Error)?;
    refuse_unless(is_on(Some(&pod), write.node), || {
        format!("node {node} can only evict pods with spec.nodeName set to itself")
    })
}

pub(super) fn check_status(write: Write<'_>) -> Result<(), Refusal> {
    let node = quoted(write.node);
    let (Operation::Update, Some(new), Some(old)) =
        (write.attributes.operation, write.object, write.attributes.old)
    else {
        return Err(forbidden("unexpected operation".to_owned()));
    };
    refuse_unless(is_on(Some(old), write.node), || {
        format!("node {node} can only update pod status for pods with spec.nodeName set to itself")
    })?;
    let is_same = |of: &str, member: &str| is_unchanged(old.at(of).at(member), new.at(of).at(member));
    refuse_unless(is_same("metadata", "labels"), || {
        format!("node {node} cannot update labels through pod status")
    })?;
    for (member, what) in [
        ("resourceClaimStatuses", "resource claim statues"),
        ("extendedResourceClaimStatus", "extended resource claim status"),
        ("nodeAllocatableResourceClaimStatuses", "node allocatable resource claim statuses"),
    ] {
        refuse_unless(is_same("status", member), || format!("node {node} cannot update {what}"))?;
    }
    Ok(())
}
