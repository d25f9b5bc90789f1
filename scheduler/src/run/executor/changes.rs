//! Changes of all other objects.
//!
//! Owns the last state of the few kinds whose old and new state have to be compared to know whom a change helps. The
//! snapshot takes a change in before anybody is woken by it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use crate::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use crate::api::storage::v1::{CsiDriver, CsiNode, CsiStorageCapacity, StorageClass};
use crate::client::{Object, ObjectKey};
use crate::queue::{ClusterEvent, NodeFacts};

use super::super::input::Effect;
use super::super::planning::Planning;
use super::super::stored::Stored;
use super::{Executor, Now};

/// Objects as they were last told.
#[derive(Default)]
pub(super) struct Objects {
    volumes: HashMap<ObjectKey, PersistentVolume>,
    volume_claims: HashMap<ObjectKey, PersistentVolumeClaim>,
    storage_classes: HashMap<ObjectKey, StorageClass>,
    csi_nodes: HashMap<ObjectKey, CsiNode>,
    csi_drivers: HashMap<ObjectKey, CsiDriver>,
    capacities: HashMap<ObjectKey, CsiStorageCapacity>,
    claims: HashMap<ObjectKey, ResourceClaim>,
    slices: HashMap<ObjectKey, ResourceSlice>,
    device_classes: HashMap<ObjectKey, DeviceClass>,
}

impl<P: Planning> Executor<P> {
    /// Takes in an object, and returns the label of the event that it was.
    pub(super) fn upsert(
        &mut self,
        object: Stored,
        now: Now,
        effects: &mut Vec<Effect>,
    ) -> Option<&'static str> {
        if let Stored::Pod(pod) = object {
            return self.upsert_pod(pod, now, effects);
        }
        self.planning.upsert(&object);
        let event = match object {
            Stored::Node(node) => self.node_event(&node),
            Stored::Namespace(namespace) => {
                let metadata = namespace.metadata.unwrap_or_default();
                self.queue.set_namespace(&metadata.name, metadata.labels);
                None
            }
            other => self.objects.upsert(other),
        };
        self.wake(event, now)
    }

    /// Takes in that an object is gone, and returns the label of the event that it was.
    pub(super) fn delete(
        &mut self,
        object: Stored,
        key: &ObjectKey,
        now: Now,
        effects: &mut Vec<Effect>,
    ) -> Option<&'static str> {
        if let Stored::Pod(_) = object {
            return self.delete_pod(key, now, effects);
        }
        self.planning.delete(&object);
        let event = match object {
            Stored::Node(_) => self.nodes.remove(key.name.as_str()).map(ClusterEvent::node_deleted),
            Stored::Namespace(_) => {
                self.queue.remove_namespace(&key.name);
                None
            }
            other => self.objects.delete(&other, key),
        };
        self.wake(event, now)
    }

    fn node_event(&mut self, node: &crate::api::core::v1::Node) -> Option<ClusterEvent> {
        let facts = Arc::new(NodeFacts::new(node));
        let name = node.metadata.as_ref().map(|metadata| metadata.name.clone()).unwrap_or_default();
        match self.nodes.insert(name, facts.clone()) {
            None => Some(ClusterEvent::node_added(facts)),
            Some(before) => ClusterEvent::node_updated(before, facts),
        }
    }
}

impl Objects {
    /// Keeps the object, and returns what its change means to pods that wait.
    fn upsert(&mut self, object: Stored) -> Option<ClusterEvent> {
        match object {
            Stored::PersistentVolume(new) => keep(&mut self.volumes, *new, ClusterEvent::volume),
            Stored::PersistentVolumeClaim(new) => {
                keep(&mut self.volume_claims, *new, ClusterEvent::volume_claim)
            }
            Stored::StorageClass(new) => keep(&mut self.storage_classes, *new, ClusterEvent::storage_class),
            Stored::CsiNode(new) => keep(&mut self.csi_nodes, *new, ClusterEvent::csi_node),
            Stored::CsiDriver(new) => keep(&mut self.csi_drivers, *new, ClusterEvent::csi_driver),
            Stored::CsiStorageCapacity(new) => {
                keep(&mut self.capacities, *new, ClusterEvent::csi_storage_capacity)
            }
            Stored::ResourceClaim(new) => keep(&mut self.claims, *new, ClusterEvent::resource_claim),
            Stored::ResourceSlice(new) => keep(&mut self.slices, *new, ClusterEvent::resource_slice),
            Stored::DeviceClass(new) => keep(&mut self.device_classes, *new, ClusterEvent::device_class),
            Stored::Pod(_)
            | Stored::Node(_)
            | Stored::Namespace(_)
            | Stored::Service(_)
            | Stored::ReplicationController(_)
            | Stored::ReplicaSet(_)
            | Stored::StatefulSet(_)
            | Stored::PodDisruptionBudget(_)
            | Stored::VolumeAttachment(_) => None,
        }
    }

    /// Forgets the object, and returns what its end means to pods that wait.
    fn delete(&mut self, object: &Stored, key: &ObjectKey) -> Option<ClusterEvent> {
        match object {
            Stored::ResourceClaim(_) => {
                let before = self.claims.remove(key)?;
                return ClusterEvent::resource_claim_deleted(&before);
            }
            Stored::VolumeAttachment(_) => return Some(ClusterEvent::volume_attachment_deleted()),
            Stored::PersistentVolume(_) => drop(self.volumes.remove(key)),
            Stored::PersistentVolumeClaim(_) => drop(self.volume_claims.remove(key)),
            Stored::StorageClass(_) => drop(self.storage_classes.remove(key)),
            Stored::CsiNode(_) => drop(self.csi_nodes.remove(key)),
            Stored::CsiDriver(_) => drop(self.csi_drivers.remove(key)),
            Stored::CsiStorageCapacity(_) => drop(self.capacities.remove(key)),
            Stored::ResourceSlice(_) => drop(self.slices.remove(key)),
            Stored::DeviceClass(_) => drop(self.device_classes.remove(key)),
            Stored::Pod(_)
            | Stored::Node(_)
            | Stored::Namespace(_)
            | Stored::Service(_)
            | Stored::ReplicationController(_)
            | Stored::ReplicaSet(_)
            | Stored::StatefulSet(_)
            | Stored::PodDisruptionBudget(_) => {}
        }
        None
    }
}

fn keep<T: Object>(
    kept: &mut HashMap<ObjectKey, T>,
    new: T,
    event: fn(Option<&T>, &T) -> Option<ClusterEvent>,
) -> Option<ClusterEvent> {
    let key = new.key();
    let event = event(kept.get(&key), &new);
    kept.insert(key, new);
    event
}
