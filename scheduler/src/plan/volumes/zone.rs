//! VolumeZone: volumes that are labelled with zones or regions are used there.
//!
//! A label may name several zones, joined by two underscores. Nodes without any label of zone or region take every
//! volume.

use crate::objects::intern::Symbol;
use crate::objects::pod::Pod;

use super::super::cluster::Cluster;
use super::super::cluster::nodes::Slot;
use super::super::compiled_profile::CompiledProfile;
use super::super::profile::Plugin;
use super::super::verdict::{Resolvable, Verdict};
use super::{Refused, find_claim, not_found};

/// The zones or regions that a volume's label allows.
#[derive(Debug)]
pub(super) struct ZoneRule {
    key: Symbol,
    /// The newer name of a deprecated label: the nodes may be newer than the volume.
    newer_key: Option<Symbol>,
    zones: Vec<String>,
}

/// The rules of a pod's volumes.
pub(super) fn prepare(
    rules: &CompiledProfile,
    cluster: &Cluster,
    pod: &Pod,
) -> Result<Vec<ZoneRule>, Refused> {
    let storage = cluster.storage();
    let mut prepared = Vec::new();
    for volume in pod.shape.volumes.claims.iter().filter(|volume| !volume.ephemeral) {
        let claim = find_claim(cluster, pod, &volume.claim)
            .ok_or_else(|| Refused::new(not_found("persistentvolumeclaim", &volume.claim)))?;
        if claim.volume.is_empty() {
            if claim.class.is_empty() {
                return Err(Refused::new("PersistentVolumeClaim had no pv name and storageClass name"));
            }
            let class = storage.classes.get(&claim.class).ok_or_else(|| {
                let kind = format!("storageclass.{}", cluster.brand().group("storage"));
                Refused::new(not_found(&kind, &claim.class))
            })?;
            if class.waits {
                continue;
            }
            return Err(Refused::new("PersistentVolume had no name"));
        }
        let volume = storage
            .volumes
            .get(&claim.volume)
            .ok_or_else(|| Refused::new(not_found("persistentvolume", &claim.volume)))?;
        for (key, newer_key) in rules.zone_labels {
            let Some(value) = volume.labels.value(key) else { continue };
            let zones = cluster.texts().text(value).split("__").map(|zone| zone.trim().to_owned());
            let zones: Vec<String> = zones.collect();
            // A label that is not a list of zones asks for nothing.
            if zones.iter().all(|zone| !zone.is_empty()) {
                prepared.push(ZoneRule { key, newer_key, zones });
            }
        }
    }
    Ok(prepared)
}

/// Whether a node is in the zones of all volumes.
pub(super) fn check(
    rules: &CompiledProfile,
    zone_rules: &[ZoneRule],
    cluster: &Cluster,
    slot: &Slot,
) -> Verdict {
    let labels = &slot.node.labels;
    if zone_rules.is_empty() || rules.zone_labels.iter().all(|(key, _)| labels.value(*key).is_none()) {
        return Verdict::FITS;
    }
    let is_met = |rule: &ZoneRule| {
        let value = labels.value(rule.key).or_else(|| labels.value(rule.newer_key?));
        value.is_some_and(|value| {
            let value = cluster.texts().text(value);
            rule.zones.iter().any(|zone| **zone == **value)
        })
    };
    if zone_rules.iter().all(is_met) {
        return Verdict::FITS;
    }
    Verdict::refused(Plugin::VolumeZone, Resolvable::No, 1)
}
