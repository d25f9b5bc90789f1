//! The objects that the scheduler follows, of all kinds in one type.
//!
//! Owns the list of kinds that are followed. A kind is a row of the macro below, and a reflector in `informers`.

use crate::api::meta::v1::ObjectMeta;
use crate::api::{apps, core, policy, resource, storage};
use crate::client::{Change, Listed, ObjectKey};

use super::input::Input;

macro_rules! stored {
    ($($variant:ident: $type:ty;)*) => {
        /// An object of the API.
        #[derive(Debug, Clone, PartialEq)]
        #[expect(missing_docs, reason = "each variant holds the kind of its name")]
        pub enum Stored {
            $($variant(Box<$type>),)*
        }

        /// A kind that is followed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "each variant is the kind of its name")]
        pub enum Followed {
            $($variant,)*
        }

        impl Followed {
            /// Every kind that is followed.
            pub const ALL: &[Followed] = &[$(Followed::$variant,)*];
        }

        $(impl Follow for $type {
            const FOLLOWED: Followed = Followed::$variant;

            fn stored(self: Box<Self>) -> Stored {
                Stored::$variant(self)
            }
        })*
    };
}

/// A kind that is followed.
pub(super) trait Follow: Listed {
    /// Which.
    const FOLLOWED: Followed;

    /// The object among those of all kinds.
    fn stored(self: Box<Self>) -> Stored;

    /// The executor's input for a change.
    fn input(change: Change<Self>) -> Input {
        match change {
            Change::Upsert(object) => Input::Upsert(object.stored()),
            Change::Delete(key) => Input::Delete(Box::new(Self::of_key(&key)).stored(), key),
            Change::Synced(number) => Input::Synced(Self::FOLLOWED, number),
        }
    }

    /// An object of which only the name is known.
    fn of_key(key: &ObjectKey) -> Self {
        Self::of_metadata(ObjectMeta {
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            ..ObjectMeta::default()
        })
    }
}

stored! {
    Pod: core::v1::Pod;
    Node: core::v1::Node;
    Namespace: core::v1::Namespace;
    Service: core::v1::Service;
    ReplicationController: core::v1::ReplicationController;
    ReplicaSet: apps::v1::ReplicaSet;
    StatefulSet: apps::v1::StatefulSet;
    PodDisruptionBudget: policy::v1::PodDisruptionBudget;
    PersistentVolume: core::v1::PersistentVolume;
    PersistentVolumeClaim: core::v1::PersistentVolumeClaim;
    StorageClass: storage::v1::StorageClass;
    CsiNode: storage::v1::CsiNode;
    CsiDriver: storage::v1::CsiDriver;
    CsiStorageCapacity: storage::v1::CsiStorageCapacity;
    VolumeAttachment: storage::v1::VolumeAttachment;
    ResourceClaim: resource::v1::ResourceClaim;
    ResourceSlice: resource::v1::ResourceSlice;
    DeviceClass: resource::v1::DeviceClass;
}
