//! What the model of the API has stored, and every change of it.
//!
//! Owns versions: one revision counts all changes, and each object carries that of its last one. The history is complete
//! and is all that the checks read of the store; `compacted` only says what a watch may still resume from.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Moment;
use crate::api::coordination::v1::Lease;
use crate::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use crate::api::meta::v1::ObjectMeta;
use crate::api::resource::v1::{DeviceClass, ResourceClaim, ResourceSlice};
use crate::api::storage::v1::StorageClass;
use crate::client::Object;

/// The namespace of everything.
pub(super) const NAMESPACE: &str = "default";

/// A change of one object of a kind: its state before, and after; `None` where there is none.
#[derive(Debug, Clone)]
pub(super) struct Step<T> {
    pub(super) before: Option<Arc<T>>,
    pub(super) after: Option<Arc<T>>,
}

/// An object whose metadata the store writes.
pub(super) trait Kept: Object {
    fn metadata_mut(&mut self) -> &mut ObjectMeta;
}

macro_rules! kept {
    ($($kind:ty),*) => {$(
        impl Kept for $kind {
            fn metadata_mut(&mut self) -> &mut ObjectMeta {
                self.metadata.get_or_insert_default()
            }
        }
    )*};
}

kept!(Node, ResourceClaim, PersistentVolume, PersistentVolumeClaim);

/// A change of whichever kind.
#[derive(Debug, Clone)]
pub(super) enum Changed {
    Pod(Step<Pod>),
    Node(Step<Node>),
    Lease(Step<Lease>),
    Claim(Step<ResourceClaim>),
    Volume(Step<PersistentVolume>),
    VolumeClaim(Step<PersistentVolumeClaim>),
}

/// An entry of the history.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) revision: u64,
    pub(super) at: Moment,
    pub(super) changed: Changed,
}

/// The store.
#[derive(Default)]
pub(super) struct Store {
    pub(super) revision: u64,
    pub(super) compacted: u64,
    pub(super) pods: BTreeMap<String, Arc<Pod>>,
    pub(super) nodes: BTreeMap<String, Arc<Node>>,
    pub(super) lease: Option<Arc<Lease>>,
    pub(super) claims: BTreeMap<String, Arc<ResourceClaim>>,
    // Devices do not change.
    pub(super) slices: Vec<ResourceSlice>,
    pub(super) classes: Vec<DeviceClass>,
    pub(super) volumes: BTreeMap<String, Arc<PersistentVolume>>,
    pub(super) volume_claims: BTreeMap<String, Arc<PersistentVolumeClaim>>,
    pub(super) storage_classes: Vec<StorageClass>,
    pub(super) history: Vec<Entry>,
    serial: u64,
}

impl Store {
    pub(super) fn put_pod(&mut self, at: Moment, mut pod: Pod) -> Arc<Pod> {
        let before = self.pods.get(name_of(pod.metadata.as_ref())).cloned();
        let before_metadata = before.as_ref().and_then(|pod| pod.metadata.clone());
        self.stamp(pod.metadata.get_or_insert_default(), before_metadata);
        let after = Arc::new(pod);
        self.pods.insert(name_of(after.metadata.as_ref()).to_owned(), after.clone());
        self.log(at, Changed::Pod(Step { before, after: Some(after.clone()) }));
        after
    }

    pub(super) fn remove_pod(&mut self, at: Moment, name: &str) {
        if let Some(before) = self.pods.remove(name) {
            self.revision += 1;
            self.log(at, Changed::Pod(Step { before: Some(before), after: None }));
        }
    }

    pub(super) fn put_node(&mut self, at: Moment, mut node: Node) {
        let before = self.nodes.get(name_of(node.metadata.as_ref())).cloned();
        let before_metadata = before.as_ref().and_then(|node| node.metadata.clone());
        self.stamp(node.metadata.get_or_insert_default(), before_metadata);
        let after = Arc::new(node);
        self.nodes.insert(name_of(after.metadata.as_ref()).to_owned(), after.clone());
        self.log(at, Changed::Node(Step { before, after: Some(after) }));
    }

    pub(super) fn remove_node(&mut self, at: Moment, name: &str) {
        if let Some(before) = self.nodes.remove(name) {
            self.revision += 1;
            self.log(at, Changed::Node(Step { before: Some(before), after: None }));
        }
    }

    pub(super) fn put_claim(&mut self, at: Moment, mut claim: ResourceClaim) -> Arc<ResourceClaim> {
        let before = self.claims.get(name_of(claim.metadata.as_ref())).cloned();
        let before_metadata = before.as_ref().and_then(|claim| claim.metadata.clone());
        self.stamp(claim.metadata.get_or_insert_default(), before_metadata);
        let after = Arc::new(claim);
        self.claims.insert(name_of(after.metadata.as_ref()).to_owned(), after.clone());
        self.log(at, Changed::Claim(Step { before, after: Some(after.clone()) }));
        after
    }

    pub(super) fn remove_claim(&mut self, at: Moment, name: &str) {
        if let Some(before) = self.claims.remove(name) {
            self.revision += 1;
            self.log(at, Changed::Claim(Step { before: Some(before), after: None }));
        }
    }

    pub(super) fn put_volume(&mut self, at: Moment, mut volume: PersistentVolume) -> Arc<PersistentVolume> {
        let before = self.volumes.get(name_of(volume.metadata.as_ref())).cloned();
        self.stamp(volume.metadata_mut(), before.as_ref().and_then(|volume| volume.metadata.clone()));
        let after = Arc::new(volume);
        self.volumes.insert(name_of(after.metadata.as_ref()).to_owned(), after.clone());
        self.log(at, Changed::Volume(Step { before, after: Some(after.clone()) }));
        after
    }

    pub(super) fn remove_volume(&mut self, at: Moment, name: &str) {
        if let Some(before) = self.volumes.remove(name) {
            self.revision += 1;
            self.log(at, Changed::Volume(Step { before: Some(before), after: None }));
        }
    }

    pub(super) fn put_volume_claim(
        &mut self,
        at: Moment,
        mut claim: PersistentVolumeClaim,
    ) -> Arc<PersistentVolumeClaim> {
        let before = self.volume_claims.get(name_of(claim.metadata.as_ref())).cloned();
        self.stamp(claim.metadata_mut(), before.as_ref().and_then(|claim| claim.metadata.clone()));
        let after = Arc::new(claim);
        self.volume_claims.insert(name_of(after.metadata.as_ref()).to_owned(), after.clone());
        self.log(at, Changed::VolumeClaim(Step { before, after: Some(after.clone()) }));
        after
    }

    pub(super) fn remove_volume_claim(&mut self, at: Moment, name: &str) {
        if let Some(before) = self.volume_claims.remove(name) {
            self.revision += 1;
            self.log(at, Changed::VolumeClaim(Step { before: Some(before), after: None }));
        }
    }

    pub(super) fn put_lease(&mut self, at: Moment, mut lease: Lease) -> Arc<Lease> {
        let before = self.lease.take();
        let before_metadata = before.as_ref().and_then(|lease| lease.metadata.clone());
        self.stamp(lease.metadata.get_or_insert_default(), before_metadata);
        let after = Arc::new(lease);
        self.lease = Some(after.clone());
        self.log(at, Changed::Lease(Step { before, after: Some(after.clone()) }));
        after
    }

    /// Gives a write its version, and a new object its UID.
    fn stamp(&mut self, metadata: &mut ObjectMeta, before: Option<ObjectMeta>) {
        self.revision += 1;
        metadata.resource_version = self.revision.to_string();
        metadata.uid = match before {
            Some(before) => before.uid,
            None => {
                self.serial += 1;
                format!("uid-{}", self.serial)
            }
        };
    }

    fn log(&mut self, at: Moment, changed: Changed) {
        self.history.push(Entry { revision: self.revision, at, changed });
    }
}

pub(super) fn name_of(metadata: Option<&ObjectMeta>) -> &str {
    metadata.map_or("", |metadata| &metadata.name)
}

pub(super) fn uid_of(pod: &Pod) -> &str {
    pod.metadata.as_ref().map_or("", |metadata| &metadata.uid)
}

/// The node that the pod is bound to; empty for none.
pub(super) fn node_of(pod: &Pod) -> &str {
    pod.spec.as_ref().map_or("", |spec| &spec.node_name)
}

pub(super) fn is_finished(pod: &Pod) -> bool {
    matches!(pod.status.as_ref().map_or("", |status| &status.phase), "Succeeded" | "Failed")
}

pub(super) fn is_ending(pod: &Pod) -> bool {
    pod.metadata.as_ref().is_some_and(|metadata| metadata.deletion_timestamp.is_some())
}
