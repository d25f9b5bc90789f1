//! The plugins of volumes: VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone.
//!
//! Owns the facts that they prepare for a plan ([`VolumeState`]) and their results on a node. Claims, volumes and classes are
//! read from the snapshot; what has to be written before binding is part of the answer.

mod binding;
mod limits;
mod zone;

use std::sync::Arc;

use crate::objects::pod::Pod;

use super::cluster::Cluster;
use super::cluster::nodes::{NodeId, Slot};
use super::cluster::storage::Claim;
use super::compiled_profile::CompiledProfile;
use super::decision::{ClaimName, VolumeWrites};
use super::profile::Plugin;
use super::verdict::{Resolvable, Verdict};

/// A plugin refuses the pod before any node is looked at: no node can be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    /// The plugin's message.
    pub(super) message: String,
}

impl Refused {
    fn new(message: impl Into<String>) -> Refused {
        Refused { message: message.into() }
    }
}

/// Facts about a pod's volumes, which the plugins prepare once for a plan.
#[derive(Debug, Default)]
pub(super) struct VolumeState<'a> {
    /// Claims that only one pod may use.
    exclusive: Vec<&'a str>,
    /// How many other pods on nodes use one of them.
    exclusive_users: i64,
    claims: binding::Claims<'a>,
    zones: Vec<zone::ZoneRule>,
    /// Volumes of CSI drivers, by unique name.
    attachable: Vec<limits::Attachable>,
}

/// Looks up the volumes of a pod. Called once per plugin, in the order of the profile's PreFilter.
pub(super) fn prepare<'a>(
    plugin: Plugin,
    rules: &CompiledProfile,
    cluster: &'a Cluster,
    pod: &'a Pod,
    state: &mut VolumeState<'a>,
) -> Result<(), Refused> {
    match plugin {
        Plugin::VolumeRestrictions => {
            for volume in pod.shape.volumes.claims.iter().filter(|volume| !volume.ephemeral) {
                let claim = find_claim(cluster, pod, &volume.claim)
                    .ok_or_else(|| Refused::new(not_found("persistentvolumeclaim", &volume.claim)))?;
                if claim.access_modes.iter().any(|mode| mode == "ReadWriteOncePod") {
                    state.exclusive.push(&volume.claim);
                    let users = cluster.claim_users(pod.shape.namespace, &volume.claim);
                    if !users.is_empty() {
                        state.exclusive_users += 1;
                    }
                }
            }
        }
        Plugin::NodeVolumeLimits => state.attachable = limits::attachable_of(cluster, pod),
        Plugin::VolumeBinding => state.claims = binding::prepare(cluster, pod)?,
        Plugin::VolumeZone => state.zones = zone::prepare(rules, cluster, pod)?,
        _ => {}
    }
    Ok(())
}

/// The pods on a node during a trial.
#[derive(Clone, Copy)]
pub(super) struct PodsOn<'a> {
    /// The pods of the node.
    pub(super) pods: &'a [Arc<Pod>],
    /// Pods of the node that the trial removes.
    pub(super) without: &'a [Arc<Pod>],
    /// Pods that the trial adds.
    pub(super) with: &'a [Arc<Pod>],
}

impl<'a> PodsOn<'a> {
    /// The pods that are there in the trial.
    pub(super) fn iter(self) -> impl Iterator<Item = &'a Arc<Pod>> {
        let gone = move |pod: &&Arc<Pod>| self.without.iter().any(|other| Arc::ptr_eq(other, pod));
        self.pods.iter().filter(move |pod| !gone(pod)).chain(self.with)
    }
}

impl VolumeState<'_> {
    /// The result of a plugin's filter on a node.
    pub(super) fn check(
        &self,
        plugin: Plugin,
        rules: &CompiledProfile,
        cluster: &Cluster,
        pod: &Pod,
        node: NodeId,
        pods: PodsOn<'_>,
    ) -> Verdict {
        let slot = cluster.nodes().slot(node).expect("only nodes that exist are checked");
        match plugin {
            Plugin::VolumeRestrictions => self.check_restrictions(pod, pods),
            Plugin::NodeVolumeLimits => limits::check(cluster, &self.attachable, slot, pods),
            Plugin::VolumeBinding => self.claims.check(cluster, slot),
            Plugin::VolumeZone => zone::check(rules, &self.zones, cluster, slot),
            _ => Verdict::FITS,
        }
    }

    fn check_restrictions(&self, pod: &Pod, pods: PodsOn<'_>) -> Verdict {
        let disks = &pod.shape.volumes.disks;
        let conflicts = |other: &Arc<Pod>| {
            disks.iter().any(|disk| other.shape.volumes.disks.iter().any(|taken| disk.conflicts(taken)))
        };
        if !disks.is_empty() && pods.iter().any(conflicts) {
            return Verdict::refused(Plugin::VolumeRestrictions, Resolvable::Yes, 1);
        }
        if self.exclusive_users > 0 {
            return Verdict::refused(Plugin::VolumeRestrictions, Resolvable::Yes, 2);
        }
        Verdict::FITS
    }

    /// A pod leaves its node (-1) or comes to one (1), as a trial.
    pub(super) fn adjust(&mut self, pod: &Pod, other: &Pod, by: i64) {
        if pod.shape.namespace != other.shape.namespace {
            return;
        }
        for claim in &self.exclusive {
            if other.shape.volumes.claims.iter().any(|volume| volume.claim == **claim) {
                self.exclusive_users += by;
            }
        }
    }
}

/// Writes of volumes and claims before a pod is bound to a node that passed. Nothing where PreFilter would have refused the pod,
/// and so did not run.
pub(super) fn writes(cluster: &Cluster, pod: &Pod, slot: &Slot) -> VolumeWrites {
    binding::prepare(cluster, pod).map(|claims| claims.writes(cluster, slot)).unwrap_or_default()
}

/// The claim of a pod's volume.
fn find_claim<'a>(cluster: &'a Cluster, pod: &Pod, name: &str) -> Option<&'a Claim> {
    cluster.storage().claims.get(&claim_name(pod, name))
}

fn claim_name(pod: &Pod, name: &str) -> ClaimName {
    ClaimName { namespace: pod.namespace.to_string(), name: name.to_owned() }
}

fn not_found(resource: &str, name: &str) -> String {
    format!("{resource} \"{name}\" not found")
}
