//! NodeVolumeLimits: how many volumes of a CSI driver a node can attach.
//!
//! A volume that is in use on the node already takes no more room. Volumes that are not made yet count by their claim.
//! Volumes that name their storage system instead of a driver count for the driver that serves the system.

use crate::objects::pod::Pod;
use crate::objects::volumes::Volumes;

use super::super::cluster::Cluster;
use super::super::cluster::nodes::Slot;
use super::super::profile::Plugin;
use super::super::verdict::{Resolvable, Verdict};
use super::{PodsOn, claim_name};

/// A volume of a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Attachable {
    driver: String,
    /// The handle; of a volume that is not made yet, its claim.
    handle: String,
}

/// The volumes that a pod uses and a driver attaches, each once.
pub(super) fn attachable_of(cluster: &Cluster, pod: &Pod) -> Vec<Attachable> {
    let storage = cluster.storage();
    let mut found: Vec<Attachable> = Vec::new();
    for volume in &pod.shape.volumes.claims {
        let name = claim_name(pod, &volume.claim);
        let Some(claim) = storage.claims.get(&name) else { continue };
        let bound = storage.volumes.get(&claim.volume).filter(|_| !claim.volume.is_empty());
        let attachable = match bound {
            Some(volume) => {
                let Some((driver, handle)) = volume.driver_and_handle() else { continue };
                Attachable { driver: driver.to_owned(), handle: handle.to_owned() }
            }
            None => {
                let class = storage.classes.get(&claim.class);
                let Some(driver) = class.and_then(|class| class.driver.clone()) else { continue };
                let handle = format!("{}/{}", name.namespace, name.name);
                Attachable { driver, handle }
            }
        };
        if !found.contains(&attachable) {
            found.push(attachable);
        }
    }
    for (driver, handle) in &pod.shape.volumes.attachable {
        let attachable = Attachable { driver: (*driver).to_owned(), handle: handle.clone() };
        if !found.contains(&attachable) {
            found.push(attachable);
        }
    }
    found
}

/// Whether a node can attach the volumes in addition to those of its pods.
pub(super) fn check(cluster: &Cluster, wanted: &[Attachable], slot: &Slot, pods: PodsOn<'_>) -> Verdict {
    if wanted.is_empty() {
        return Verdict::FITS;
    }
    let storage = cluster.storage();
    let Some(drivers) = storage.node_drivers.get(&slot.node.name) else { return Verdict::FITS };
    if drivers.limits.iter().all(|(_, limit)| limit.is_none()) {
        return Verdict::FITS;
    }
    let has_attachable = |volumes: &Volumes| !volumes.claims.is_empty() || !volumes.attachable.is_empty();
    let of_pods = pods.iter().filter(|pod| has_attachable(&pod.shape.volumes));
    let mut of_pods: Vec<Attachable> = of_pods.flat_map(|pod| attachable_of(cluster, pod)).collect();
    let handle_of =
        |volume: &str| storage.volumes.get(volume)?.csi.as_ref().map(|(_, handle)| handle.clone());
    let attached = storage.attachments.of(&slot.node.name).filter_map(|attachment| {
        Some(Attachable { driver: attachment.driver.clone(), handle: handle_of(&attachment.volume)? })
    });
    let mut used: Vec<Attachable> = attached.chain(of_pods.iter().cloned()).collect();
    for volumes in [&mut of_pods, &mut used] {
        volumes.sort_unstable_by(|a, b| (&a.driver, &a.handle).cmp(&(&b.driver, &b.handle)));
        volumes.dedup();
    }
    for (driver, limit) in &drivers.limits {
        let Some(limit) = limit else { continue };
        let of_driver = |attachable: &&Attachable| attachable.driver == *driver;
        // As in the reference, a volume that is attached and that no pod of the node uses counts as new once more.
        let new = wanted.iter().filter(of_driver).filter(|volume| !of_pods.contains(volume)).count();
        let used = used.iter().filter(of_driver).count();
        if new > 0 && i64::try_from(used + new).is_ok_and(|total| total > i64::from(*limit)) {
            return Verdict::refused(Plugin::NodeVolumeLimits, Resolvable::Yes, 1);
        }
    }
    Verdict::FITS
}
