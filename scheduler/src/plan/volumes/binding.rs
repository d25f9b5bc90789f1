//! VolumeBinding: claims get their volumes where the pod goes.
//!
//! A claim that is bound ties the pod to the nodes that can use its volume. A claim whose class waits for its first
//! pod takes the smallest volume at hand that is right and can be used on the node, or has one made, if the class, the
//! topology and the room allow it. Claims that are bound at once by somebody else keep the pod back until they are.

use crate::objects::pod::Pod;

use super::super::cluster::Cluster;
use super::super::cluster::nodes::Slot;
use super::super::cluster::storage::{Claim, Volume};
use super::super::decision::{BindVolume, ClaimName, VolumeWrites};
use super::super::profile::Plugin;
use super::super::verdict::{Resolvable, Verdict};
use super::{Refused, claim_name, not_found};

/// Bits of the reasons.
const NODE_CONFLICT: u64 = 1;
const NO_VOLUME: u64 = 1 << 1;
const NO_ROOM: u64 = 1 << 2;
const VOLUME_GONE: u64 = 1 << 3;

/// The claims of a pod.
#[derive(Debug, Default)]
pub(super) struct Claims<'a> {
    /// Claims that have their volume, by the volume's name.
    bound: Vec<&'a str>,
    /// Claims that wait for their first pod; the smallest first.
    waiting: Vec<(ClaimName, &'a Claim)>,
}

/// Sorts the claims of a pod.
pub(super) fn prepare<'a>(cluster: &'a Cluster, pod: &'a Pod) -> Result<Claims<'a>, Refused> {
    let storage = cluster.storage();
    let mut found: Vec<(ClaimName, &Claim)> = Vec::new();
    for volume in &pod.shape.volumes.claims {
        let name = claim_name(pod, &volume.claim);
        let claim = storage.claims.get(&name).ok_or_else(|| {
            Refused::new(if volume.ephemeral {
                let claim = &volume.claim;
                format!(
                    "waiting for ephemeral volume controller to create the persistentvolumeclaim \"{claim}\""
                )
            } else {
                not_found("persistentvolumeclaim", &volume.claim)
            })
        })?;
        if claim.lost {
            let (claim_name, volume) = (&volume.claim, &claim.volume);
            return Err(Refused::new(format!(
                "persistentvolumeclaim \"{claim_name}\" bound to non-existent persistentvolume \"{volume}\""
            )));
        }
        if claim.terminating {
            return Err(Refused::new(format!("persistentvolumeclaim \"{}\" is being deleted", volume.claim)));
        }
        if volume.ephemeral && claim.owner.as_deref() != Some(&*pod.uid) {
            return Err(Refused::new(format!(
                "PVC {}/{} was not created for pod {}/{} (pod is not owner)",
                pod.namespace, volume.claim, pod.namespace, pod.name
            )));
        }
        if !found.iter().any(|(other, _)| *other == name) {
            found.push((name, claim));
        }
    }
    let mut claims = Claims::default();
    for (name, claim) in found {
        if claim.bound {
            claims.bound.push(&claim.volume);
        } else if claim.volume.is_empty()
            && storage.classes.get(&claim.class).is_some_and(|class| class.waits)
        {
            claims.waiting.push((name, claim));
        } else {
            return Err(Refused::new("pod has unbound immediate PersistentVolumeClaims"));
        }
    }
    claims.waiting.sort_by_key(|(_, claim)| claim.requested);
    Ok(claims)
}

impl Claims<'_> {
    /// Whether all claims have, or can get, volumes on a node.
    pub(super) fn check(&self, cluster: &Cluster, slot: &Slot) -> Verdict {
        let mut reasons = 0;
        for volume in &self.bound {
            match cluster.storage().volumes.get(*volume) {
                None => reasons |= VOLUME_GONE,
                Some(volume) if !usable_on(cluster, volume, slot) => reasons |= NODE_CONFLICT,
                Some(_) => {}
            }
        }
        if reasons & VOLUME_GONE != 0 {
            reasons = VOLUME_GONE;
        } else if let Err(reason) = self.match_waiting(cluster, slot) {
            reasons |= reason;
        }
        match reasons {
            0 => Verdict::FITS,
            reasons => Verdict::refused(Plugin::VolumeBinding, Resolvable::No, reasons),
        }
    }

    /// What has to be written so that all claims get their volumes on a node that passed.
    pub(super) fn writes(&self, cluster: &Cluster, slot: &Slot) -> VolumeWrites {
        self.match_waiting(cluster, slot).unwrap_or_default()
    }

    fn match_waiting(&self, cluster: &Cluster, slot: &Slot) -> Result<VolumeWrites, u64> {
        let storage = cluster.storage();
        let mut writes = VolumeWrites::default();
        let mut to_make: Vec<(&ClaimName, &Claim)> = Vec::new();
        for (name, claim) in &self.waiting {
            if let Some(node) = storage.selected_node(name, claim) {
                // Its volume is being made for one node: it can be nowhere else.
                if node != slot.node.name {
                    return Err(NO_VOLUME);
                }
                to_make.push((name, claim));
            } else if let Some(volume) = find_volume(cluster, slot, name, claim, &writes.bind) {
                writes.bind.push(BindVolume { volume: volume.name.clone(), claim: name.clone() });
            } else {
                to_make.push((name, claim));
            }
        }
        for (name, claim) in to_make {
            can_be_made(cluster, slot, claim)?;
            writes.provision.push(name.clone());
        }
        Ok(writes)
    }
}

fn usable_on(cluster: &Cluster, volume: &Volume, slot: &Slot) -> bool {
    let texts = cluster.texts();
    volume.nodes.as_ref().is_none_or(|nodes| nodes.matches(slot.node.name, &slot.node.labels, texts))
}

/// The smallest volume that is right for a claim; one that is kept for it goes first.
fn find_volume<'a>(
    cluster: &'a Cluster,
    slot: &Slot,
    name: &ClaimName,
    claim: &Claim,
    taken: &[BindVolume],
) -> Option<&'a Volume> {
    let storage = cluster.storage();
    let mut smallest: Option<&Volume> = None;
    for volume in
        storage.volumes.values().filter(|volume| !taken.iter().any(|bind| bind.volume == volume.name))
    {
        let kept_for = storage.claim_of(volume);
        let is_kept =
            kept_for.is_some_and(|(other, uid)| other == name && (uid.is_empty() || uid == claim.uid));
        if is_kept {
            let can_hold = volume.capacity >= claim.requested
                && volume.mode == claim.mode
                && volume.attributes_class == claim.attributes_class;
            if can_hold && !volume.terminating {
                return usable_on(cluster, volume, slot).then_some(volume);
            }
            continue;
        }
        let fits = kept_for.is_none()
            && volume.available
            && !volume.terminating
            && is_right(cluster, volume, claim)
            && usable_on(cluster, volume, slot);
        if fits && smallest.is_none_or(|other| volume.capacity < other.capacity) {
            smallest = Some(volume);
        }
    }
    smallest
}

fn is_right(cluster: &Cluster, volume: &Volume, claim: &Claim) -> bool {
    volume.class == claim.class
        && volume.mode == claim.mode
        && volume.attributes_class == claim.attributes_class
        && volume.capacity >= claim.requested
        && claim.access_modes.iter().all(|mode| volume.access_modes.contains(mode))
        && claim.selector.as_ref().is_none_or(|selector| selector.matches(&volume.labels, cluster.texts()))
}

/// Whether a volume can be made for a claim on a node.
fn can_be_made(cluster: &Cluster, slot: &Slot, claim: &Claim) -> Result<(), u64> {
    let storage = cluster.storage();
    let class = storage.classes.get(&claim.class).ok_or(NO_VOLUME)?;
    let nobody = cluster.brand().label("no-provisioner");
    if class.provisioner.is_empty() || class.provisioner == nobody {
        return Err(NO_VOLUME);
    }
    let labels = &slot.node.labels;
    let texts = cluster.texts();
    let in_topology = class.topologies.is_empty()
        || class
            .topologies
            .iter()
            .any(|term| term.iter().all(|requirement| requirement.matches(labels, texts)));
    if !in_topology {
        return Err(NO_VOLUME);
    }
    if !storage.drivers.get(&class.provisioner).is_some_and(|driver| driver.publishes_capacity) {
        return Ok(());
    }
    let has_room = storage.capacities.values().any(|capacity| {
        capacity.class == claim.class
            && capacity.bytes.is_some_and(|bytes| bytes >= claim.requested)
            && capacity.nodes.matches(labels, texts)
    });
    if has_room { Ok(()) } else { Err(NO_ROOM) }
}
