//! The store of the model of the API: its objects, and every change of them.
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

/// An object of a kind that the store holds by name.
pub(super) trait StoredObject: Object {
    fn metadata_mut(&mut self) -> &mut ObjectMeta;

    /// The objects of the kind, by name.
    fn objects(store: &mut Store) -> &mut BTreeMap<String, Arc<Self>>;

    /// A change of the kind, for the history.
    fn changed(step: Step<Self>) -> Changed;
}

macro_rules! stored_objects {
    ($($kind:ty: $objects:ident, $changed:ident;)*) => {$(
        impl StoredObject for $kind {
            fn metadata_mut(&mut self) -> &mut ObjectMeta {
                self.metadata.get_or_insert_default()
            }

            fn objects(store: &mut Store) -> &mut BTreeMap<String, Arc<Self>> {
                &mut store.$objects
            }

            fn changed(step: Step<Self>) -> Changed {
                Changed::$changed(step)
            }
        }
    )*};
}

stored_objects! {
    Pod: pods, Pod;
    Node: nodes, Node;
    ResourceClaim: claims, Claim;
    PersistentVolume: volumes, Volume;
    PersistentVolumeClaim: volume_claims, VolumeClaim;
}

/// A change of an object, by kind.
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
    /// Stores `object` under its name. It keeps the UID of the object that is there.
    pub(super) fn put<T: StoredObject>(&mut self, at: Moment, mut object: T) -> Arc<T> {
        let name = object.metadata_mut().name.clone();
        let before = T::objects(self).get(&name).cloned();
        let before_metadata = before.as_ref().and_then(|object| object.metadata().cloned());
        self.stamp(object.metadata_mut(), before_metadata);
        let after = Arc::new(object);
        T::objects(self).insert(name, after.clone());
        self.log(at, T::changed(Step { before, after: Some(after.clone()) }));
        after
    }

    /// Removes the object called `name`, if it is there.
    pub(super) fn remove<T: StoredObject>(&mut self, at: Moment, name: &str) {
        if let Some(before) = T::objects(self).remove(name) {
            self.revision += 1;
            self.log(at, T::changed(Step { before: Some(before), after: None }));
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
