//! VolumeBinding: claims get their volumes where the pod goes.
//!
//! A claim that is bound ties the pod to the nodes that can use its volume. A claim whose class waits for its first
//! pod takes the smallest volume at hand that is right and can be used on the node, or has one made, if the class, the
//! topology and the room allow it. Claims that are bound at once by somebody else keep the pod back until they are.

use crate::objects::labels::Requirement;
use crate::objects::pod::Pod;

use super::super::cluster::Cluster;
use super::super::cluster::nodes::Slot;
use super::super::cluster::storage::{Capacity, Claim, Class, Volume};
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
    waiting: Vec<Waiting<'a>>,
}

/// A claim that waits for its first pod, and all that can be said of it without a node.
#[derive(Debug)]
struct Waiting<'a> {
    name: ClaimName,
    claim: &'a Claim,
    class: Option<&'a Class>,
    /// Volumes that are right for it, the first to be taken first: one that is kept for it, or else the smallest.
    volumes: Vec<&'a Volume>,
    /// Where there is room to make one; `None` if nobody says.
    rooms: Option<Vec<&'a Capacity>>,
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
            claims.waiting.push(Waiting::new(cluster, name, claim));
        } else {
            return Err(Refused::new("pod has unbound immediate PersistentVolumeClaims"));
        }
    }
    claims.waiting.sort_by_key(|waiting| waiting.claim.requested);
    Ok(claims)
}

impl Claims<'_> {
    /// Whether all claims have, or can get, volumes on a node.
    pub(super) fn check(&self, cluster: &Cluster, slot: &Slot) -> Verdict {
        let mut reasons = 0;
        for volume in &self.bound {
            match cluster.storage().volumes.get(volume) {
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

    /// Writes by which all claims get their volumes on a node. Empty on a node that the filter would have
    /// refused: it did not run, and as in the reference the pod is bound without.
    pub(super) fn writes(&self, cluster: &Cluster, slot: &Slot) -> VolumeWrites {
        self.match_waiting(cluster, slot).unwrap_or_default()
    }

    fn match_waiting(&self, cluster: &Cluster, slot: &Slot) -> Result<VolumeWrites, u64> {
        let storage = cluster.storage();
        let mut writes = VolumeWrites::default();
        let mut to_make: Vec<&Waiting<'_>> = Vec::new();
        for waiting in &self.waiting {
            let name = &waiting.name;
            if let Some(node) = storage.selected_node(name, waiting.claim) {
                // Its volume is being made for one node: it can be nowhere else.
                if node != slot.node.name {
                    return Err(NO_VOLUME);
                }
                to_make.push(waiting);
            } else if let Some(volume) = waiting.volume(cluster, slot, &writes.bind) {
                writes.bind.push(BindVolume { volume: volume.name.clone(), claim: name.clone() });
            } else {
                to_make.push(waiting);
            }
        }
        for waiting in to_make {
            waiting.can_be_made(cluster, slot)?;
            writes.provision.push(waiting.name.clone());
        }
        Ok(writes)
    }
}

impl<'a> Waiting<'a> {
    fn new(cluster: &'a Cluster, name: ClaimName, claim: &'a Claim) -> Self {
        let storage = cluster.storage();
        let of_class = || storage.volumes.of(claim.class.as_str());
        let can_hold = |volume: &&Volume| {
            volume.capacity >= claim.requested
                && volume.mode == claim.mode
                && volume.attributes_class == claim.attributes_class
                && !volume.terminating
        };
        let is_kept = |volume: &&Volume| {
            let kept_for = storage.claim_of(volume);
            kept_for.is_some_and(|(other, uid)| *other == name && (uid.is_empty() || uid == claim.uid))
        };
        let volumes = match of_class().filter(is_kept).find(can_hold) {
            Some(kept) => vec![kept],
            None => {
                let is_free = |volume: &&Volume| volume.available && storage.claim_of(volume).is_none();
                let is_right = |volume: &&Volume| is_right(cluster, volume, claim);
                let mut volumes: Vec<_> =
                    of_class().filter(is_free).filter(can_hold).filter(is_right).collect();
                volumes.sort_by_key(|volume| volume.capacity);
                volumes
            }
        };
        let class = storage.classes.get(&claim.class);
        let driver = class.and_then(|class| storage.drivers.get(&class.provisioner));
        let rooms = driver.is_some_and(|driver| driver.publishes_capacity).then(|| {
            let has_room =
                |capacity: &&Capacity| capacity.bytes.is_some_and(|bytes| bytes >= claim.requested);
            storage.capacities.of(claim.class.as_str()).filter(has_room).collect()
        });
        Self { name, claim, class, volumes, rooms }
    }

    /// The volume that it takes on a node, where other claims of the pod have `taken` theirs.
    fn volume(&self, cluster: &Cluster, slot: &Slot, taken: &[BindVolume]) -> Option<&'a Volume> {
        let is_taken = |volume: &Volume| taken.iter().any(|bind| bind.volume == volume.name);
        let mut volumes = self.volumes.iter().copied();
        volumes.find(|volume| !is_taken(volume) && usable_on(cluster, volume, slot))
    }

    /// Whether a volume can be made for it on a node.
    fn can_be_made(&self, cluster: &Cluster, slot: &Slot) -> Result<(), u64> {
        let class = self.class.ok_or(NO_VOLUME)?;
        let nobody = cluster.brand().label("no-provisioner");
        if class.provisioner.is_empty() || class.provisioner == nobody {
            return Err(NO_VOLUME);
        }
        let (labels, texts) = (&slot.node.labels, cluster.texts());
        // A term without requirements selects no node.
        let is_in = |term: &Vec<Requirement>| {
            !term.is_empty() && term.iter().all(|requirement| requirement.matches(labels, texts))
        };
        if !class.topologies.is_empty() && !class.topologies.iter().any(is_in) {
            return Err(NO_VOLUME);
        }
        match &self.rooms {
            Some(rooms) if !rooms.iter().any(|capacity| capacity.nodes.matches(labels, texts)) => {
                Err(NO_ROOM)
            }
            _ => Ok(()),
        }
    }
}

fn usable_on(cluster: &Cluster, volume: &Volume, slot: &Slot) -> bool {
    let texts = cluster.texts();
    volume.nodes.as_ref().is_none_or(|nodes| nodes.matches_labels(&slot.node.labels, texts))
}

/// Whether a volume that nobody has is what a claim asks for, beside what one that is kept for it must be.
fn is_right(cluster: &Cluster, volume: &Volume, claim: &Claim) -> bool {
    claim.access_modes.iter().all(|mode| volume.access_modes.contains(mode))
        && claim.selector.as_ref().is_none_or(|selector| selector.matches(&volume.labels, cluster.texts()))
}
