//! A reflector for each kind that is followed.
//!
//! Owns which objects of a kind are followed: of pods only those that have not ended.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::api::{apps, core, policy, resource, scheduling, storage};
use crate::client::{Client, ListQuery, Reflector, Relist};

use super::input::Input;
use super::stored::Follow;

/// Pods that have ended take no room, and there may be more of them than of others.
const PODS: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// The reflectors at work.
#[derive(Default)]
pub(super) struct Informers {
    tasks: JoinSet<()>,
    relists: Vec<Arc<Relist>>,
}

impl Informers {
    /// Asks every reflector for a new list.
    pub(super) fn relist(&self, number: u64) {
        for relist in &self.relists {
            relist.request(number);
        }
    }

    pub(super) fn stop(&mut self) {
        self.tasks.abort_all();
    }
}

/// Starts to follow all kinds. The tasks end when the receiver is gone, or with the informers.
pub(super) fn follow_all(client: &Client, sender: &mpsc::Sender<Input>) -> Informers {
    let mut informers = Informers::default();
    follow::<core::v1::Pod>(client, ListQuery::by_field(PODS), sender, &mut informers);
    let mut all = Everything { client, sender, informers: &mut informers };
    all.of::<core::v1::Node>();
    all.of::<core::v1::Namespace>();
    all.of::<core::v1::Service>();
    all.of::<core::v1::ReplicationController>();
    all.of::<apps::v1::ReplicaSet>();
    all.of::<apps::v1::StatefulSet>();
    all.of::<policy::v1::PodDisruptionBudget>();
    all.of::<core::v1::PersistentVolume>();
    all.of::<core::v1::PersistentVolumeClaim>();
    all.of::<storage::v1::StorageClass>();
    all.of::<storage::v1::CsiNode>();
    all.of::<storage::v1::CsiDriver>();
    all.of::<storage::v1::CsiStorageCapacity>();
    all.of::<storage::v1::VolumeAttachment>();
    all.of::<resource::v1::ResourceClaim>();
    all.of::<resource::v1::ResourceSlice>();
    all.of::<resource::v1::DeviceClass>();
    all.of::<scheduling::v1::PriorityClass>();
    informers
}

/// Follows all objects of kinds.
struct Everything<'a> {
    client: &'a Client,
    sender: &'a mpsc::Sender<Input>,
    informers: &'a mut Informers,
}

impl Everything<'_> {
    fn of<T: Follow>(&mut self) {
        follow::<T>(self.client, ListQuery::default(), self.sender, self.informers);
    }
}

fn follow<T: Follow>(
    client: &Client,
    query: ListQuery,
    sender: &mpsc::Sender<Input>,
    informers: &mut Informers,
) {
    let reflector = Reflector::<T>::new(client.clone(), query);
    informers.relists.push(reflector.relist());
    informers.tasks.spawn(reflector.run(sender.clone(), T::input));
}
