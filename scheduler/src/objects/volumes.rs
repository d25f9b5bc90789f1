//! Volumes of pods, as far as they matter to where a pod goes.
//!
//! Owns the compiled form: claims by name, and disks that cannot be in two pods of one node.

use crate::api::core::v1;

use super::in_tree::{self, DriverVolume};

/// A volume that is backed by a PersistentVolumeClaim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClaimVolume {
    /// Name of the claim, in the pod's namespace.
    pub claim: String,
    /// Whether the claim is made for the pod from a template, and belongs to it alone.
    pub ephemeral: bool,
}

/// A disk that is mounted without a claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields are those of the API's volume sources")]
pub enum Disk {
    Gce { name: String, read_only: bool },
    Aws { id: String },
    Rbd { monitors: Vec<String>, pool: String, image: String, read_only: bool },
    Iscsi { iqn: String, read_only: bool },
}

impl Disk {
    /// Whether both cannot be mounted on one node.
    pub fn conflicts(&self, other: &Disk) -> bool {
        match (self, other) {
            (Disk::Gce { name, read_only }, Disk::Gce { name: n, read_only: r }) => {
                name == n && !(*read_only && *r)
            }
            (Disk::Aws { id }, Disk::Aws { id: i }) => id == i,
            (
                Disk::Rbd { monitors, pool, image, read_only },
                Disk::Rbd { monitors: m, pool: p, image: i, read_only: r },
            ) => {
                monitors.iter().any(|monitor| m.contains(monitor))
                    && pool == p
                    && image == i
                    && !(*read_only && *r)
            }
            (Disk::Iscsi { iqn, read_only }, Disk::Iscsi { iqn: i, read_only: r }) => {
                iqn == i && !(*read_only && *r)
            }
            (Disk::Gce { .. } | Disk::Aws { .. } | Disk::Rbd { .. } | Disk::Iscsi { .. }, _) => false,
        }
    }
}

/// The volumes of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Volumes {
    /// Volumes that are backed by claims.
    pub claims: Vec<ClaimVolume>,
    /// Disks without claims.
    pub disks: Vec<Disk>,
    /// Volumes without claims that count against the attach limits of nodes.
    pub attachable: Vec<DriverVolume>,
}

impl Volumes {
    /// Compiles the volumes of a pod called `pod`.
    pub fn compile(pod: &str, volumes: &[v1::Volume]) -> Volumes {
        let mut compiled = Volumes::default();
        for volume in volumes {
            let Some(source) = &volume.volume_source else { continue };
            if let Some(claim) = &source.persistent_volume_claim {
                compiled.claims.push(ClaimVolume { claim: claim.claim_name.clone(), ephemeral: false });
            } else if source.ephemeral.is_some() {
                let claim = format!("{pod}-{}", volume.name);
                compiled.claims.push(ClaimVolume { claim, ephemeral: true });
            }
            compiled.disks.extend(disk(source));
            compiled.attachable.extend(in_tree::of_pod(source));
        }
        compiled
    }

    /// Whether there is none that matters.
    pub fn is_empty(&self) -> bool {
        self.claims.is_empty() && self.disks.is_empty() && self.attachable.is_empty()
    }
}

fn disk(source: &v1::VolumeSource) -> Option<Disk> {
    if let Some(gce) = &source.gce_persistent_disk {
        return Some(Disk::Gce { name: gce.pd_name.clone(), read_only: gce.read_only });
    }
    if let Some(aws) = &source.aws_elastic_block_store {
        return Some(Disk::Aws { id: aws.volume_id.clone() });
    }
    if let Some(rbd) = &source.rbd {
        let pool = if rbd.pool.is_empty() { "rbd" } else { &rbd.pool };
        return Some(Disk::Rbd {
            monitors: rbd.monitors.clone(),
            pool: pool.to_owned(),
            image: rbd.image.clone(),
            read_only: rbd.read_only,
        });
    }
    let iscsi = source.iscsi.as_ref()?;
    Some(Disk::Iscsi { iqn: iscsi.iqn.clone(), read_only: iscsi.read_only })
}
