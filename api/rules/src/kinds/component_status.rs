//! core/v1 ComponentStatus: the health of other parts of the control plane.
//!
//! Owns the warning that the kind is deprecated. No object is ever stored: this server watches over no other component.

use orch_proto::Brand;

use super::Strategy;

/// The rules of component statuses.
#[derive(Debug)]
pub struct ComponentStatus;

impl Strategy for ComponentStatus {
    fn deprecation(&self, _brand: &Brand) -> Option<String> {
        Some("v1 ComponentStatus is deprecated in v1.19+".to_owned())
    }
}
