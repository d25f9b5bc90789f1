//! Kinds of the group `storage`: classes, drivers, drivers by node, attachments, capacities.
//!
//! Owns the rules that several of them share: names of drivers, parameters.

mod attachment;
mod attributes_class;
mod capacity;
mod class;
mod csi_driver;
mod csi_node;

pub use attachment::VolumeAttachment;
pub use attributes_class::VolumeAttributesClass;
pub use capacity::CsiStorageCapacity;
pub use class::StorageClass;
pub use csi_driver::CsiDriver;
pub use csi_node::CsiNode;

use crate::validate::metadata::invalid_each;
use crate::validate::{FieldError, FieldErrors, Path, names};

/// Longest name of a driver, in bytes.
const DRIVER_NAME_MAX: usize = 63;

/// Rules for the name of a CSI driver where another object names it.
pub(crate) fn validate_driver_name(name: &str, path: &Path) -> FieldErrors {
    if name.is_empty() {
        return FieldErrors::from(FieldError::required(path.clone(), ""));
    }
    let mut errors = FieldErrors::new();
    if name.len() > DRIVER_NAME_MAX {
        errors.push(FieldError::too_long(path.clone(), DRIVER_NAME_MAX));
    }
    errors.extend(invalid_each(path, name, names::dns1123_subdomain(&name.to_lowercase())));
    errors
}
