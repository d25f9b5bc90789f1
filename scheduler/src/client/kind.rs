//! The kinds that the scheduler reads and writes, as rows of a table.
//!
//! Owns group, version, path and message of each, and the two traits by which the rest of the client handles all of
//! them alike. A new kind is a row in one of the macros below, and its file in `build.rs`.

use orch_proto::Brand;
use smol_str::SmolStr;

use crate::api::meta::v1::{ListMeta, ObjectMeta};
use crate::api::{apps, authentication, authorization, coordination, core, events, policy, resource};
use crate::api::{meta, storage};

/// An API group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// The core group, which has no name.
    Core,
    /// A group without a domain, such as `apps`.
    Plain(&'static str),
    /// A group in the brand's domain, such as `storage`.
    Branded(&'static str),
}

/// A kind of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// Its group.
    pub group: Group,
    /// Its name, for example `Pod`.
    pub kind: &'static str,
    /// Its name in paths, for example `pods`. Empty for a kind that is only a body, such as `Binding`.
    pub plural: &'static str,
    /// Whether its objects belong to namespaces.
    pub is_namespaced: bool,
    /// Its message in the schema, for example `core.v1.Pod`.
    pub message: &'static str,
}

impl Kind {
    /// `v1`, or `GROUP/v1`. The scheduler reads no other version.
    pub fn api_version(&self, brand: &Brand) -> String {
        match self.group {
            Group::Core => "v1".to_owned(),
            Group::Plain(name) => format!("{name}/v1"),
            Group::Branded(stem) => format!("{}/v1", brand.group(stem)),
        }
    }
}

/// The name of an object within its kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectKey {
    /// Empty for kinds without namespaces.
    pub namespace: SmolStr,
    /// The object's name.
    pub name: SmolStr,
}

impl ObjectKey {
    /// The key of `name` in `namespace`.
    pub fn new(namespace: impl Into<SmolStr>, name: impl Into<SmolStr>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of the object with `metadata`.
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self::new(metadata.namespace.as_str(), metadata.name.as_str())
    }
}

impl std::fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.namespace.as_str() {
            "" => f.write_str(&self.name),
            namespace => write!(f, "{namespace}/{}", self.name),
        }
    }
}

/// A message of the API.
pub trait Object: prost::Message + Default + Clone + 'static {
    /// Its kind.
    const KIND: Kind;

    /// Its metadata; `None` where the message has none, or no kind of its own has.
    fn metadata(&self) -> Option<&ObjectMeta>;

    /// The version that the server last gave the object; empty for one that was never stored.
    fn resource_version(&self) -> &str {
        self.metadata().map_or("", |metadata| &metadata.resource_version)
    }

    /// The object's namespace and name.
    fn key(&self) -> ObjectKey {
        self.metadata().map_or_else(|| ObjectKey::new("", ""), ObjectKey::of)
    }
}

/// A kind with lists and watches.
pub trait Listed: Object {
    /// The message of its lists.
    type List: prost::Message + Default;

    /// The list's metadata and items.
    fn split(list: Self::List) -> (ListMeta, Vec<Self>);

    /// An object of which only the metadata is known.
    fn of_metadata(metadata: ObjectMeta) -> Self;
}

macro_rules! objects {
    ($($group:expr, $plural:literal, $namespaced:literal, $message:literal, $kind:literal: $type:ty;)*) => {$(
        impl Object for $type {
            const KIND: Kind = Kind {
                group: $group, kind: $kind, plural: $plural, is_namespaced: $namespaced, message: $message,
            };

            fn metadata(&self) -> Option<&ObjectMeta> {
                self.metadata.as_ref()
            }
        }
    )*};
}

macro_rules! lists {
    ($($type:ty: $list:ty;)*) => {$(
        impl Listed for $type {
            type List = $list;

            fn split(list: $list) -> (ListMeta, Vec<Self>) {
                (list.metadata.unwrap_or_default(), list.items)
            }

            fn of_metadata(metadata: ObjectMeta) -> Self {
                Self { metadata: Some(metadata), ..Self::default() }
            }
        }
    )*};
}

const APPS: Group = Group::Plain("apps");
const STORAGE: Group = Group::Branded("storage");
const RESOURCE: Group = Group::Branded("resource");

objects! {
    Group::Core, "pods", true, "core.v1.Pod", "Pod": core::v1::Pod;
    Group::Core, "nodes", false, "core.v1.Node", "Node": core::v1::Node;
    Group::Core, "namespaces", false, "core.v1.Namespace", "Namespace": core::v1::Namespace;
    Group::Core, "services", true, "core.v1.Service", "Service": core::v1::Service;
    Group::Core, "replicationcontrollers", true, "core.v1.ReplicationController", "ReplicationController":
        core::v1::ReplicationController;
    Group::Core, "persistentvolumes", false, "core.v1.PersistentVolume", "PersistentVolume":
        core::v1::PersistentVolume;
    Group::Core, "persistentvolumeclaims", true, "core.v1.PersistentVolumeClaim", "PersistentVolumeClaim":
        core::v1::PersistentVolumeClaim;
    Group::Core, "endpoints", true, "core.v1.Endpoints", "Endpoints": core::v1::Endpoints;
    Group::Core, "configmaps", true, "core.v1.ConfigMap", "ConfigMap": core::v1::ConfigMap;
    Group::Core, "", true, "core.v1.Binding", "Binding": core::v1::Binding;
    APPS, "replicasets", true, "apps.v1.ReplicaSet", "ReplicaSet": apps::v1::ReplicaSet;
    APPS, "statefulsets", true, "apps.v1.StatefulSet", "StatefulSet": apps::v1::StatefulSet;
    Group::Plain("policy"), "poddisruptionbudgets", true, "policy.v1.PodDisruptionBudget", "PodDisruptionBudget":
        policy::v1::PodDisruptionBudget;
    STORAGE, "storageclasses", false, "storage.v1.StorageClass", "StorageClass": storage::v1::StorageClass;
    STORAGE, "csinodes", false, "storage.v1.CSINode", "CSINode": storage::v1::CsiNode;
    STORAGE, "csidrivers", false, "storage.v1.CSIDriver", "CSIDriver": storage::v1::CsiDriver;
    STORAGE, "csistoragecapacities", true, "storage.v1.CSIStorageCapacity", "CSIStorageCapacity":
        storage::v1::CsiStorageCapacity;
    STORAGE, "volumeattachments", false, "storage.v1.VolumeAttachment", "VolumeAttachment":
        storage::v1::VolumeAttachment;
    RESOURCE, "resourceclaims", true, "resource.v1.ResourceClaim", "ResourceClaim": resource::v1::ResourceClaim;
    RESOURCE, "resourceslices", false, "resource.v1.ResourceSlice", "ResourceSlice": resource::v1::ResourceSlice;
    RESOURCE, "deviceclasses", false, "resource.v1.DeviceClass", "DeviceClass": resource::v1::DeviceClass;
    Group::Branded("coordination"), "leases", true, "coordination.v1.Lease", "Lease": coordination::v1::Lease;
    Group::Branded("events"), "events", true, "events.v1.Event", "Event": events::v1::Event;
    Group::Branded("authentication"), "tokenreviews", false, "authentication.v1.TokenReview", "TokenReview":
        authentication::v1::TokenReview;
    Group::Branded("authorization"), "subjectaccessreviews", false, "authorization.v1.SubjectAccessReview",
        "SubjectAccessReview": authorization::v1::SubjectAccessReview;
}

lists! {
    core::v1::Pod: core::v1::PodList;
    core::v1::Node: core::v1::NodeList;
    core::v1::Namespace: core::v1::NamespaceList;
    core::v1::Service: core::v1::ServiceList;
    core::v1::ReplicationController: core::v1::ReplicationControllerList;
    core::v1::PersistentVolume: core::v1::PersistentVolumeList;
    core::v1::PersistentVolumeClaim: core::v1::PersistentVolumeClaimList;
    apps::v1::ReplicaSet: apps::v1::ReplicaSetList;
    apps::v1::StatefulSet: apps::v1::StatefulSetList;
    policy::v1::PodDisruptionBudget: policy::v1::PodDisruptionBudgetList;
    storage::v1::StorageClass: storage::v1::StorageClassList;
    storage::v1::CsiNode: storage::v1::CsiNodeList;
    storage::v1::CsiDriver: storage::v1::CsiDriverList;
    storage::v1::CsiStorageCapacity: storage::v1::CsiStorageCapacityList;
    storage::v1::VolumeAttachment: storage::v1::VolumeAttachmentList;
    resource::v1::ResourceClaim: resource::v1::ResourceClaimList;
    resource::v1::ResourceSlice: resource::v1::ResourceSliceList;
    resource::v1::DeviceClass: resource::v1::DeviceClassList;
}

/// Bodies without metadata of their own.
macro_rules! bodies {
    ($($message:literal, $kind:literal: $type:ty;)*) => {$(
        impl Object for $type {
            const KIND: Kind = Kind {
                group: Group::Core, kind: $kind, plural: "", is_namespaced: false, message: $message,
            };

            fn metadata(&self) -> Option<&ObjectMeta> {
                None
            }
        }
    )*};
}

bodies! {
    "meta.v1.Status", "Status": meta::v1::Status;
    "meta.v1.DeleteOptions", "DeleteOptions": meta::v1::DeleteOptions;
}
