//! Claims of devices, the devices on offer, and their classes.
//!
//! Owns the objects by name, and the allocations that were planned and not yet seen in an event. The allocator reads
//! them; nothing is decided here.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::resource::v1::{AllocationResult, DeviceClass, ResourceClaim, ResourceSlice};
use crate::plan::decision::{ClaimName, ClaimWrite};

/// The objects.
#[derive(Debug, Default)]
pub struct DeviceObjects {
    /// Claims.
    pub claims: BTreeMap<ClaimName, Arc<ResourceClaim>>,
    /// Slices by name.
    pub slices: BTreeMap<String, Arc<ResourceSlice>>,
    /// Classes by name.
    pub classes: BTreeMap<String, Arc<DeviceClass>>,
    assumed: BTreeMap<ClaimName, AllocationResult>,
    version: u64,
}

impl DeviceObjects {
    /// The allocation of a claim: the stored one, or the one that is about to be written.
    pub fn allocation(&self, name: &ClaimName) -> Option<&AllocationResult> {
        let stored = self.claims.get(name).and_then(|claim| claim.status.as_ref()?.allocation.as_ref());
        stored.or_else(|| self.assumed.get(name))
    }

    /// The allocations that are about to be written.
    pub fn assumed(&self) -> &BTreeMap<ClaimName, AllocationResult> {
        &self.assumed
    }

    /// Changes with each change of any of the objects or allocations.
    pub fn version(&self) -> u64 {
        self.version
    }

    pub(super) fn changed(&mut self) {
        self.version += 1;
    }

    pub(super) fn assume(&mut self, writes: &[ClaimWrite]) {
        for write in writes {
            if let Some(allocation) = &write.allocation {
                self.assumed.insert(write.claim.clone(), allocation.clone());
                self.changed();
            }
        }
    }

    pub(super) fn forget(&mut self, writes: &[ClaimWrite]) {
        for write in writes.iter().filter(|write| write.allocation.is_some()) {
            self.assumed.remove(&write.claim);
            self.changed();
        }
    }

    /// A claim was seen: its stored allocation counts from now on, if it has one.
    pub(super) fn set_claim(&mut self, name: ClaimName, claim: Option<ResourceClaim>) {
        self.changed();
        match claim {
            Some(claim) => {
                if claim.status.as_ref().is_some_and(|status| status.allocation.is_some()) {
                    self.assumed.remove(&name);
                }
                self.claims.insert(name, Arc::new(claim));
            }
            None => {
                self.claims.remove(&name);
                self.assumed.remove(&name);
            }
        }
    }
}
