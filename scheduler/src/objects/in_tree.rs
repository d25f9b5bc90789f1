//! Volumes that name their storage system, and not a CSI driver.
//!
//! Owns which CSI driver serves each such system, under which handle the driver knows a volume, and which driver makes
//! the volumes of a class whose provisioner is named after its system. Only systems whose volumes count against the
//! attach limits of nodes have a driver here. Never says whether a node has the driver.

use orch_proto::Brand;

use crate::api::core::v1;

const AWS: &str = "ebs.csi.aws.com";
const AZURE: &str = "disk.csi.azure.com";
const CINDER: &str = "cinder.csi.openstack.org";
const GCE: &str = "pd.csi.storage.gke.io";
const PORTWORX: &str = "pxd.portworx.com";

/// Driver and handle of a volume.
pub type DriverVolume = (&'static str, String);

/// A volume that a pod names without a claim; `None` if no attach limit counts it.
pub fn of_pod(source: &v1::VolumeSource) -> Option<DriverVolume> {
    if let Some(disk) = &source.gce_persistent_disk {
        return Some(gce(&disk.pd_name, None));
    }
    if let Some(disk) = &source.aws_elastic_block_store {
        return aws(&disk.volume_id);
    }
    if let Some(disk) = &source.azure_disk {
        return Some((AZURE, disk.disk_uri.clone()));
    }
    if let Some(disk) = &source.cinder {
        return Some((CINDER, disk.volume_id.clone()));
    }
    source.portworx_volume.as_ref().map(|volume| (PORTWORX, volume.volume_id.clone()))
}

/// A persistent volume with this label of its zones; `None` if no attach limit counts it.
pub fn of_persistent(source: &v1::PersistentVolumeSource, zones: Option<&str>) -> Option<DriverVolume> {
    if let Some(disk) = &source.gce_persistent_disk {
        return Some(gce(&disk.pd_name, zones));
    }
    if let Some(disk) = &source.aws_elastic_block_store {
        return aws(&disk.volume_id);
    }
    if let Some(disk) = &source.azure_disk {
        return Some((AZURE, disk.disk_uri.clone()));
    }
    if let Some(disk) = &source.cinder {
        return Some((CINDER, disk.volume_id.clone()));
    }
    source.portworx_volume.as_ref().map(|volume| (PORTWORX, volume.volume_id.clone()))
}

/// The driver that makes the volumes of a provisioner; `None` if no attach limit counts them. A provisioner that is not
/// named after a storage system is a driver itself.
pub fn driver_of(brand: &Brand, provisioner: &str) -> Option<String> {
    let drivers = [
        ("aws-ebs", Some(AWS)),
        ("azure-disk", Some(AZURE)),
        ("azure-file", None),
        ("cinder", Some(CINDER)),
        ("gce-pd", Some(GCE)),
        ("portworx-volume", Some(PORTWORX)),
        ("vsphere-volume", None),
    ];
    match drivers.iter().find(|(name, _)| brand.label(name) == provisioner) {
        Some((_, driver)) => driver.map(str::to_owned),
        None => Some(provisioner.to_owned()),
    }
}

/// The handle has the zone: disks of one name in two zones are two.
fn gce(name: &str, zones: Option<&str>) -> DriverVolume {
    let place = match zones.filter(|zones| !zones.is_empty()) {
        Some(zones) if zones.contains("__") => format!("regions/{zones}"),
        zones => format!("zones/{}", zones.unwrap_or("UNSPECIFIED")),
    };
    (GCE, format!("projects/UNSPECIFIED/{place}/disks/{name}"))
}

/// An id may be a URL whose host is the zone; the driver knows the volume by the path alone.
fn aws(id: &str) -> Option<DriverVolume> {
    let handle = match id.strip_prefix("aws://") {
        None => id,
        Some(url) => {
            let (_, path) = url.split_once('/')?;
            let path = path.trim_matches('/');
            (path.starts_with("vol-") && !path.contains('/')).then_some(path)?
        }
    };
    Some((AWS, handle.to_owned()))
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;

    use super::{AWS, aws, driver_of, gce};

    #[test]
    fn a_volume_has_one_handle_however_its_id_is_written() {
        for id in ["vol-1", "aws:///vol-1", "aws://zone/vol-1"] {
            assert_eq!(aws(id), Some((AWS, "vol-1".to_owned())), "{id}");
        }
        for id in ["aws://zone", "aws://zone/disk", "aws://zone/vol-1/2"] {
            assert_eq!(aws(id), None, "{id}");
        }
    }

    #[test]
    fn disks_of_one_name_differ_by_zone() {
        assert_eq!(gce("d", None).1, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d");
        assert_eq!(gce("d", Some("")), gce("d", None));
        assert_eq!(gce("d", Some("z1")).1, "projects/UNSPECIFIED/zones/z1/disks/d");
        assert_eq!(gce("d", Some("z1__z2")).1, "projects/UNSPECIFIED/regions/z1__z2/disks/d");
    }

    #[test]
    fn provisioners_named_after_a_system_stand_for_its_driver() {
        let driver = |name: &str| driver_of(&ORCH, &ORCH.label(name));
        assert_eq!(driver("aws-ebs").as_deref(), Some(AWS));
        assert_eq!(driver("azure-file"), None);
        assert_eq!(driver_of(&ORCH, "csi.example.com").as_deref(), Some("csi.example.com"));
        assert_eq!(driver_of(&ORCH, "aws-ebs").as_deref(), Some("aws-ebs"));
    }
}
