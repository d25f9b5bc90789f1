//! Tests of the changes that become events: those that can help nobody are dropped.

use super::*;
use crate::api::core::v1::{
    Node, NodeCondition, NodeSpec, NodeStatus, PersistentVolume, PersistentVolumeClaim, Taint,
};
use crate::api::meta::v1::ObjectMeta;
use crate::api::resource;
use crate::api::resource::v1::{
    AllocationResult, ResourceClaim, ResourceClaimStatus, ResourceSlice, ResourceSliceSpec,
};
use crate::api::storage::v1::{
    CsiDriver, CsiDriverSpec, CsiNode, CsiNodeSpec, CsiStorageCapacity, StorageClass,
};
use crate::queue::event::EventKind;

fn named(name: &str) -> Option<ObjectMeta> {
    Some(ObjectMeta { name: name.to_owned(), ..Default::default() })
}

fn quantity(text: &str) -> resource::Quantity {
    resource::Quantity { string: text.to_owned() }
}

fn label(event: Option<ClusterEvent>) -> Option<&'static str> {
    event.map(|event| event.label())
}

/// The event of a node that changes from the plain one by `change`.
fn node_change(change: impl Fn(&mut Node)) -> Option<ClusterEvent> {
    let old = Node {
        metadata: named("n"),
        spec: Some(NodeSpec { unschedulable: true, ..Default::default() }),
        status: Some(NodeStatus::default()),
    };
    let mut new = old.clone();
    change(&mut new);
    ClusterEvent::node_updated(Arc::new(NodeFacts::new(&old)), Arc::new(NodeFacts::new(&new)))
}

/// Changes a node.
type ChangeNode = fn(&mut Node);

#[test]
fn changes_of_nodes_are_told_apart() {
    let cases: [(&str, ChangeNode); 7] = [
        ("NodeUpdateNodeTaint", |node| node.spec.as_mut().unwrap().unschedulable = false),
        ("NodeUpdateNodeTaint", |node| node.spec.as_mut().unwrap().taints.push(Taint::default())),
        ("NodeUpdateNodeLabel", |node| {
            node.metadata.as_mut().unwrap().labels.insert("a".to_owned(), "b".to_owned());
        }),
        ("NodeUpdateNodeAnnotation", |node| {
            node.metadata.as_mut().unwrap().annotations.insert("a".to_owned(), "b".to_owned());
        }),
        ("NodeUpdateNodeAllocatable", |node| {
            node.status.as_mut().unwrap().allocatable.insert("cpu".to_owned(), quantity("1"));
        }),
        ("NodeUpdateNodeCondition", |node| {
            let condition =
                NodeCondition { r#type: "Ready".to_owned(), status: "True".to_owned(), ..Default::default() };
            node.status.as_mut().unwrap().conditions.push(condition);
        }),
        ("NodeUpdateNodeDeclaredFeature", |node| {
            node.status.as_mut().unwrap().declared_features.push("f".to_owned());
        }),
    ];
    for (expected, change) in cases {
        assert_eq!(label(node_change(change)), Some(expected));
    }
}

#[test]
fn a_node_that_only_says_that_it_lives_is_no_event() {
    assert_eq!(label(node_change(|_| {})), None);
    let heartbeat = node_change(|node| node.metadata.as_mut().unwrap().resource_version = "7".to_owned());
    assert_eq!(label(heartbeat), None);
}

#[test]
fn several_changes_of_a_node_are_one_event() {
    let event = node_change(|node| {
        node.metadata.as_mut().unwrap().labels.insert("a".to_owned(), "b".to_owned());
        node.status.as_mut().unwrap().allocatable.insert("cpu".to_owned(), quantity("1"));
    });
    let kinds = event.unwrap().kinds;
    assert!(kinds.contains(EventKind::NodeLabel) && kinds.contains(EventKind::NodeAllocatable));
    assert!(!kinds.contains(EventKind::NodeTaint));
}

#[test]
fn bound_pods_are_events_by_label_and_by_less_requests() {
    let bound =
        |shape: PodShape| Arc::new(PodFacts { node_name: "n".into(), ..pod("a", 0, &Arc::new(shape)) });
    let asks = |cpu: &str| PodShape {
        requests: [("cpu".to_owned(), orch_schema::quantity::Quantity::parse(cpu).unwrap())].into(),
        ..Default::default()
    };
    let labelled = PodShape { labels: [("a".to_owned(), "b".to_owned())].into(), ..Default::default() };
    let update = |old, new| label(ClusterEvent::assigned_pod_updated(bound(old), bound(new)));
    assert_eq!(update(asks("1"), asks("1")), None);
    assert_eq!(update(asks("1"), asks("2")), None);
    assert_eq!(update(asks("2"), asks("1")), Some("AssignedPodUpdatePodScaleDown"));
    assert_eq!(update(asks("2"), PodShape::default()), Some("AssignedPodUpdatePodScaleDown"));
    assert_eq!(update(PodShape::default(), labelled), Some("AssignedPodUpdatePodLabel"));
}

#[test]
fn claims_of_devices_are_events_when_their_status_changes() {
    let claim =
        |status: Option<ResourceClaimStatus>| ResourceClaim { metadata: named("c"), spec: None, status };
    let allocation = Some(AllocationResult::default());
    let allocated = claim(Some(ResourceClaimStatus { allocation, ..Default::default() }));
    let free = claim(None);
    assert_eq!(label(ClusterEvent::resource_claim(None, &free)), Some("ResourceClaimAdd"));
    assert_eq!(label(ClusterEvent::resource_claim(Some(&free), &free)), None);
    assert_eq!(label(ClusterEvent::resource_claim(Some(&free), &allocated)), Some("ResourceClaimUpdate"));
    assert_eq!(label(ClusterEvent::resource_claim(Some(&allocated), &free)), Some("ResourceClaimUpdate"));
    assert_eq!(label(ClusterEvent::resource_claim_deleted(&free)), None);
    assert_eq!(label(ClusterEvent::resource_claim_deleted(&allocated)), Some("ResourceClaimDelete"));
}

#[test]
fn slices_and_classes_are_events_when_their_specs_change() {
    let slice = |driver: &str| ResourceSlice {
        metadata: None,
        spec: Some(ResourceSliceSpec { driver: driver.to_owned(), ..Default::default() }),
    };
    assert_eq!(label(ClusterEvent::resource_slice(None, &slice("a"))), Some("ResourceSliceAdd"));
    assert_eq!(label(ClusterEvent::resource_slice(Some(&slice("a")), &slice("a"))), None);
    assert_eq!(
        label(ClusterEvent::resource_slice(Some(&slice("a")), &slice("b"))),
        Some("ResourceSliceUpdate")
    );
    let class = crate::api::resource::v1::DeviceClass { metadata: named("c"), spec: None };
    assert_eq!(label(ClusterEvent::device_class(None, &class)), Some("DeviceClassAdd"));
    assert_eq!(label(ClusterEvent::device_class(Some(&class), &class)), None);
}

#[test]
fn storage_classes_are_events_when_their_topologies_change() {
    let class = |terms: usize| StorageClass {
        allowed_topologies: vec![Default::default(); terms],
        ..Default::default()
    };
    assert_eq!(label(ClusterEvent::storage_class(None, &class(0))), Some("StorageClassAdd"));
    assert_eq!(label(ClusterEvent::storage_class(Some(&class(0)), &class(0))), None);
    assert_eq!(label(ClusterEvent::storage_class(Some(&class(0)), &class(1))), Some("StorageClassUpdate"));
}

#[test]
fn capacity_is_an_event_when_it_grows() {
    let capacity = |total: Option<&str>, largest: Option<&str>| CsiStorageCapacity {
        capacity: total.map(quantity),
        maximum_volume_size: largest.map(quantity),
        ..Default::default()
    };
    let update = |old, new| label(ClusterEvent::csi_storage_capacity(Some(&old), &new)).is_some();
    assert!(update(capacity(Some("1Gi"), None), capacity(Some("2Gi"), None)));
    assert!(!update(capacity(Some("2Gi"), None), capacity(Some("1Gi"), None)));
    assert!(!update(capacity(Some("1Gi"), None), capacity(Some("1024Mi"), None)));
    assert!(update(capacity(None, None), capacity(Some("1Gi"), None)));
    assert!(
        !update(capacity(Some("9Gi"), Some("1Gi")), capacity(Some("10Gi"), Some("1Gi"))),
        "the largest counts"
    );
    assert!(update(capacity(Some("9Gi"), Some("1Gi")), capacity(Some("9Gi"), Some("2Gi"))));
    assert_eq!(
        label(ClusterEvent::csi_storage_capacity(None, &capacity(None, None))),
        Some("CSIStorageCapacityAdd")
    );
}

#[test]
fn drivers_of_storage_are_events_when_their_specs_change() {
    let node = |drivers: usize| CsiNode {
        metadata: None,
        spec: Some(CsiNodeSpec { drivers: vec![Default::default(); drivers] }),
    };
    assert_eq!(label(ClusterEvent::csi_node(None, &node(0))), Some("CSINodeAdd"));
    assert_eq!(label(ClusterEvent::csi_node(Some(&node(0)), &node(0))), None);
    assert_eq!(label(ClusterEvent::csi_node(Some(&node(0)), &node(1))), Some("CSINodeUpdate"));
    let driver = |tracks: bool| CsiDriver {
        metadata: None,
        spec: Some(CsiDriverSpec { storage_capacity: Some(tracks), ..Default::default() }),
    };
    assert_eq!(label(ClusterEvent::csi_driver(Some(&driver(true)), &driver(true))), None);
    assert_eq!(label(ClusterEvent::csi_driver(Some(&driver(true)), &driver(false))), Some("CSIDriverUpdate"));
}

#[test]
fn volumes_and_their_claims_are_events_with_every_change() {
    let claim = PersistentVolumeClaim { metadata: named("c"), spec: None, status: None };
    assert_eq!(label(ClusterEvent::volume_claim(None, &claim)), Some("PersistentVolumeClaimAdd"));
    assert_eq!(label(ClusterEvent::volume_claim(Some(&claim), &claim)), Some("PersistentVolumeClaimUpdate"));
    let volume = PersistentVolume { metadata: named("v"), spec: None, status: None };
    assert_eq!(label(ClusterEvent::volume(None, &volume)), Some("PersistentVolumeAdd"));
    assert_eq!(label(ClusterEvent::volume(Some(&volume), &volume)), Some("PersistentVolumeUpdate"));
    assert_eq!(ClusterEvent::volume_attachment_deleted().label(), "VolumeAttachmentDelete");
}

#[test]
fn the_queue_tells_which_kinds_matter() {
    let options = |plugins| QueueOptions { profiles: vec![plugins], ..Default::default() };
    let queue = Queue::new(options(only(Plugin::NodePorts)));
    assert!(queue.interests().contains(EventKind::PodDelete));
    assert!(!queue.interests().contains(EventKind::ResourceSliceAdd));
    let queue = Queue::new(options(only(Rejector::Extenders)));
    assert!(queue.interests().contains(EventKind::NodeCondition));
}
