//! A reflector for each kind that is followed.
//!
//! Owns which objects of a kind are followed: of pods only those that have not ended. The requests of pods go into the ledger
//! of the metrics on its way.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::api::{apps, core, policy, resource, storage};
use crate::client::{Change, Client, ListQuery, Listed, Reflector, Relist};
use crate::metrics::resources::Ledger;

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

    /// Asks every reflector for a new list that tells every object.
    pub(super) fn relist_all(&self, number: u64) {
        for relist in &self.relists {
            relist.request_all(number);
        }
    }

    pub(super) fn stop(&mut self) {
        self.tasks.abort_all();
    }

    fn follow<T: Listed>(
        &mut self,
        reflector: Reflector<T>,
        sender: &mpsc::Sender<Input>,
        input: impl Fn(Change<T>) -> Input + Send + Sync + 'static,
    ) {
        self.relists.push(reflector.relist());
        self.tasks.spawn(reflector.run(sender.clone(), input));
    }
}

/// Starts to follow all kinds. The tasks end when the receiver is gone, or with the informers.
pub(super) fn follow_all(client: &Client, sender: &mpsc::Sender<Input>, ledger: &Arc<Ledger>) -> Informers {
    let mut informers = Informers::default();
    let pods = Reflector::<core::v1::Pod>::new(client.clone(), ListQuery::by_field(PODS));
    let ledger = ledger.clone();
    informers.follow(pods, sender, move |change| {
        ledger.apply(&change);
        core::v1::Pod::input(change)
    });
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
        let reflector = Reflector::<T>::new(self.client.clone(), ListQuery::default());
        self.informers.follow(reflector, self.sender, T::input);
    }
}
