//! Devices for pods: the plugin `DynamicResources`, with structured parameters.
//!
//! ```text
//!   ResourceSlices -> pools ---+
//!   DeviceClasses -------------+--> Devices -- pre_filter --> PodDevices -- filter(node) --> allocation results
//!   ResourceClaims -> allocated+                                        \- post_filter --> a claim to deallocate
//!
//!   the executor: Devices::assume, then binding::bind for each claim, then the pod is bound; Devices::forget on failure
//! ```
//!
//! [`Devices`] holds what the cluster has, brought up to date object by object. A pod that is planned asks it through
//! [`PodDevices`], which finds the first set of devices for each node and remembers which selectors select what. Pure: no
//! clock, no randomness; writes are made by the functions of [`binding`] and sent by the executor. Messages are the
//! reference's.
//!
//! Invariants: what claims hold (by their status, or assumed) is never handed out twice, but for admin access and within
//! the capacity of shared devices; a result has 32 devices at most; the same state and pod give the same result.

mod allocated;
pub mod binding;
mod capacity;
mod claim;
mod constraint;
mod expression;
mod pod;
mod result;
mod search;
mod slice;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

pub use self::binding::{Binding, binding_state, has_conditions};
pub use self::pod::{
    DeviceLimits, Filter, NodeAllocation, PodClaims, PodDevices, PostFilter, PreFilter, RESERVED_FOR_MAX,
};

use self::allocated::Allocated;
use self::claim::{Claim, Class};
use self::expression::Selectors;
use self::slice::{Pools, Slice};
use crate::api::meta::v1::ObjectMeta;
use crate::api::resource::v1::{AllocationResult, DeviceClass, ResourceClaim, ResourceSlice};
use crate::selector::LabelLookup;

/// A node as this plugin sees it.
#[derive(Clone, Copy)]
pub struct NodeOf<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its labels.
    pub labels: &'a dyn LabelLookup,
}

/// Why no devices were found.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Failure {
    /// Claim or class are wrong: no node helps.
    Fatal(String),
    /// This node cannot tell.
    OnNode(String),
}

/// Claims, classes and slices of the cluster, and who holds what.
#[derive(Debug, Default)]
pub struct Devices {
    claims: HashMap<String, HashMap<String, Claim>>,
    classes: BTreeMap<String, Class>,
    pools: Pools,
    allocated: Allocated,
    /// Results that are being written, by the uid of their claim.
    assumed: HashMap<String, AllocationResult>,
    selectors: Selectors,
}

impl Devices {
    /// Takes in a claim that is there or has changed. A status with an allocation takes the place of an assumed one.
    pub fn upsert_claim(&mut self, claim: ResourceClaim) {
        let (namespace, name) = key(claim.metadata.as_ref());
        self.take_claim(&namespace, &name);
        let claim = Claim::new(claim, &mut self.selectors);
        if let Some(allocation) = claim.allocation() {
            self.allocated.add(allocation);
            if let Some(assumed) = self.assumed.remove(claim.uid()) {
                self.allocated.remove(&assumed);
            }
        }
        self.claims.entry(namespace).or_default().insert(name, claim);
    }

    /// Takes in that a claim is gone.
    pub fn remove_claim(&mut self, namespace: &str, name: &str) {
        if let Some(claim) = self.take_claim(namespace, name) {
            self.forget(claim.uid());
        }
    }

    fn take_claim(&mut self, namespace: &str, name: &str) -> Option<Claim> {
        let claims = self.claims.get_mut(namespace)?;
        let claim = claims.remove(name)?;
        if let Some(allocation) = claim.allocation() {
            self.allocated.remove(allocation);
        }
        if claims.is_empty() {
            self.claims.remove(namespace);
        }
        Some(claim)
    }

    /// Takes in a class that is there or has changed.
    pub fn upsert_class(&mut self, class: &DeviceClass) {
        let (_, name) = key(class.metadata.as_ref());
        let class = Class::new(class, &mut self.selectors);
        self.classes.insert(name, class);
    }

    /// Takes in that a class is gone.
    pub fn remove_class(&mut self, name: &str) {
        self.classes.remove(name);
    }

    /// Takes in a slice that is there or has changed.
    pub fn upsert_slice(&mut self, slice: &ResourceSlice) {
        let (_, name) = key(slice.metadata.as_ref());
        self.pools.upsert(&name, Slice::new(slice));
    }

    /// Takes in that a slice is gone.
    pub fn remove_slice(&mut self, name: &str) {
        self.pools.remove(name);
    }

    /// The claim as it was last seen.
    pub fn resource_claim(&self, namespace: &str, name: &str) -> Option<&ResourceClaim> {
        self.claim(namespace, name).map(|claim| &*claim.api)
    }

    /// Holds the devices of `results` until the claims say so themselves, or [`Devices::forget`].
    pub fn assume(&mut self, results: &[(String, AllocationResult)]) {
        for (uid, result) in results {
            self.forget(uid);
            self.allocated.add(result);
            self.assumed.insert(uid.clone(), result.clone());
        }
    }

    /// Gives back what was assumed for the claim with this uid: its allocation was not written.
    pub fn forget(&mut self, uid: &str) {
        if let Some(assumed) = self.assumed.remove(uid) {
            self.allocated.remove(&assumed);
        }
    }

    fn is_pending(&self, uid: &str) -> bool {
        self.assumed.contains_key(uid)
    }

    fn claim(&self, namespace: &str, name: &str) -> Option<&Claim> {
        self.claims.get(namespace)?.get(name)
    }
}

fn key(metadata: Option<&ObjectMeta>) -> (String, String) {
    metadata.map(|metadata| (metadata.namespace.clone(), metadata.name.clone())).unwrap_or_default()
}
