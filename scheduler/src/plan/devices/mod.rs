//! Devices for pods: the plugin `DynamicResources`, with structured parameters.
//!
//! ```text
//!   ResourceSlices -> pools ---+
//!   DeviceClasses -------------+--> Devices -- pre_filter --> PodDevices -- filter(node) --> allocation results
//!   ResourceClaims -> allocated+                                        \- post_filter --> a claim to free
//!
//!   the executor: Devices::assume; a job of run::binding writes each claim and binds the pod; when that has ended
//!                 Devices::settle_claim for each claim that was written, Devices::forget for the others
//! ```
//!
//! [`Devices`] holds what the cluster has, brought up to date object by object. A pod that is planned asks it through
//! [`PodDevices`], which finds the first set of devices for each node and remembers which selectors select what. Pure: no
//! clock, no randomness, no writes. Messages are the reference's.
//!
//! Invariants: devices that claims hold (by their status, or assumed) are never handed out twice, but for admin access and within
//! the capacity of shared devices; a result has 32 devices at most; the same state and pod give the same result.

mod allocated;
mod capacity;
mod claim;
mod conditions;
mod constraint;
mod expression;
mod extended;
mod pod;
mod pod_claims;
mod pool;
mod result;
mod search;
mod slice;
#[cfg(test)]
mod tests;
mod unmade;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

pub use self::conditions::{Binding, binding_failure, binding_state, has_conditions};
pub use self::pod::{
    DeviceLimits, Filter, NodeAllocation, PodDevices, PostFilter, PreFilter, RESERVED_FOR_MAX,
};
pub use self::pod_claims::PodClaims;
pub use self::unmade::Allocatable;

use orch_proto::Brand;

use self::allocated::Allocated;
use self::claim::{Claim, Class};
use self::expression::Selectors;
use self::extended::Offers;
use self::pool::Pools;
use self::search::{Progress, Selection};
use self::slice::Slice;
use crate::api::meta::v1::ObjectMeta;
use crate::api::resource::v1::{AllocationResult, DeviceClass, ResourceClaim, ResourceSlice};
use crate::plan::decision::ClaimName;
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
#[derive(Debug)]
pub struct Devices {
    brand: &'static Brand,
    claims: HashMap<String, HashMap<String, Claim>>,
    /// Claims that schedulers made for extended resources, by the uid of their pod.
    made: HashMap<String, BTreeSet<ClaimName>>,
    classes: BTreeMap<String, Class>,
    offers: Offers,
    offers_version: u64,
    pools: Pools,
    allocated: Allocated,
    /// Results that are being written, by the uid of their claim.
    assumed: HashMap<String, Assumed>,
    /// Claims that take the place of an assumed result once they are seen with an allocation, with the uid that the result
    /// is assumed under.
    awaited: HashMap<ClaimName, String>,
    selectors: Selectors,
    version: u64,
    /// Which devices classes select, for [`Devices::counts`]; by addresses, so that it is emptied when a slice or a class
    /// changes.
    matches: RefCell<Selection>,
    /// Steps that the claims of the pod took in the last plan.
    claim_steps: Cell<u64>,
    /// Plans in which the steps for [`Devices::counts`] did not suffice.
    cut_plans: Cell<u64>,
}

/// A result that is being written.
#[derive(Debug)]
struct Assumed {
    pod: Arc<str>,
    result: AllocationResult,
    /// The claim, as it was last seen, holds the same devices. A later event, from the time before, may show it without devices.
    is_told: bool,
    /// The version that the claim has since; `None` while the write is under way.
    written: Option<u64>,
}

/// The version of a claim. Versions grow with each write; a version that is no number counts as the first.
fn version_of(claim: &ResourceClaim) -> u64 {
    let version = claim.metadata.as_ref().map(|metadata| metadata.resource_version.as_str());
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// Whether both results are of the same devices.
pub fn has_same_devices(one: &AllocationResult, other: &AllocationResult) -> bool {
    let devices = |result: &AllocationResult| -> Vec<(String, String, String, String)> {
        let results = result.devices.iter().flat_map(|devices| &devices.results);
        let names = results
            .map(|one| (one.request.clone(), one.driver.clone(), one.pool.clone(), one.device.clone()));
        names.collect()
    };
    devices(one) == devices(other)
}

impl Devices {
    /// None yet.
    pub fn new(brand: &'static Brand) -> Devices {
        Devices {
            brand,
            claims: HashMap::new(),
            made: HashMap::new(),
            classes: BTreeMap::new(),
            offers: Offers::default(),
            offers_version: 0,
            pools: Pools::default(),
            allocated: Allocated::default(),
            assumed: HashMap::new(),
            awaited: HashMap::new(),
            selectors: Selectors::default(),
            version: 0,
            matches: RefCell::default(),
            claim_steps: Cell::default(),
            cut_plans: Cell::default(),
        }
    }

    /// Takes in a claim that is there or has changed. The assumption about it ends once an event shows it at the version of its
    /// write. Earlier events are the claim's past, whichever devices it had then.
    pub fn upsert_claim(&mut self, claim: ResourceClaim) {
        self.version += 1;
        let (namespace, name) = key(claim.metadata.as_ref());
        let before = self.take_claim(&namespace, &name);
        let claim = Claim::new(claim, &mut self.selectors);
        if let Some(before) = before.filter(|before| before.uid() != claim.uid()) {
            self.end(before.uid());
        }
        let key = ClaimName { namespace: namespace.clone(), name: name.clone() };
        if let Some(allocation) = claim.allocation() {
            self.allocated.add(allocation);
            if let Some(uid) = self.awaited.remove(&key) {
                self.end(&uid);
            }
        }
        self.told(&claim);
        if let Some(pod) = unmade::pod_of(&claim.api, self.brand) {
            self.made.entry(pod).or_default().insert(key);
        }
        self.claims.entry(namespace).or_default().insert(name, claim);
    }

    /// Takes in that a claim is gone.
    pub fn remove_claim(&mut self, namespace: &str, name: &str) {
        self.version += 1;
        if let Some(claim) = self.take_claim(namespace, name) {
            self.end(claim.uid());
        }
        let key = ClaimName { namespace: namespace.to_owned(), name: name.to_owned() };
        if let Some(uid) = self.awaited.remove(&key) {
            self.end(&uid);
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
        if let Some(pod) = unmade::pod_of(&claim.api, self.brand)
            && let Some(made) = self.made.get_mut(&pod)
        {
            made.retain(|one| (one.namespace.as_str(), one.name.as_str()) != (namespace, name));
            if made.is_empty() {
                self.made.remove(&pod);
            }
        }
        Some(claim)
    }

    /// Takes in a class that is there or has changed.
    pub fn upsert_class(&mut self, class: &DeviceClass) {
        let (_, name) = key(class.metadata.as_ref());
        let class = Class::new(class, &mut self.selectors);
        self.classes.insert(name, class);
        self.renew_offers();
    }

    /// Takes in that a class is gone.
    pub fn remove_class(&mut self, name: &str) {
        self.classes.remove(name);
        self.renew_offers();
    }

    fn renew_offers(&mut self) {
        self.devices_changed();
        let offers = Offers::of(&self.classes, self.brand);
        if offers != self.offers {
            self.offers = offers;
            self.offers_version += 1;
        }
    }

    /// Whether devices of a class stand for an extended resource.
    pub fn offers(&self, resource: &str) -> bool {
        self.offers.class(resource).is_some()
    }

    /// Changes whenever [`Devices::offers`] may say something else.
    pub fn offers_version(&self) -> u64 {
        self.offers_version
    }

    /// Takes in a slice that is there or has changed.
    pub fn upsert_slice(&mut self, slice: &ResourceSlice) {
        self.devices_changed();
        let (_, name) = key(slice.metadata.as_ref());
        self.pools.upsert(&name, Slice::new(slice));
    }

    /// Takes in that a slice is gone.
    pub fn remove_slice(&mut self, name: &str) {
        self.devices_changed();
        self.pools.remove(name);
    }

    fn devices_changed(&mut self) {
        self.version += 1;
        *self.matches.get_mut() = Selection::default();
    }

    /// Changes whenever [`Devices::counts`] may say something else: with the devices, and in a plan after one whose steps
    /// did not suffice for all devices. Both parts only grow.
    pub fn version(&self) -> u64 {
        self.version.saturating_add(self.cut_plans.get())
    }

    /// Begins a plan, which has steps of its own for [`Devices::counts`]. Called before anything else is asked.
    pub fn begin_plan(&self) {
        self.claim_steps.set(0);
        if self.matches.borrow_mut().begin() == Progress::Cut {
            self.cut_plans.set(self.cut_plans.get() + 1);
        }
    }

    /// Steps that the claims of the pod took in the last plan.
    pub fn claim_steps(&self) -> u64 {
        self.claim_steps.get()
    }

    /// Of the devices that stand for an extended resource, how many there are for a node and how many of them are in use;
    /// zeros if there are none, or a selector of their class cannot be evaluated, or takes too long for one plan.
    pub fn counts(&self, resource: &str, node: NodeOf<'_>) -> (i64, i64) {
        let Some(class) = self.offers.class(resource).and_then(|name| self.classes.get(name)) else {
            return (0, 0);
        };
        let mut matches = self.matches.borrow_mut();
        let pools = self.pools.of_node(node);
        let devices = pools.iter().flat_map(|pool| &pool.slices).flat_map(|slice| &slice.devices);
        let (mut all, mut used) = (0, 0);
        for device in devices.filter(|device| device.access.includes(node)) {
            match class.selects(device, &mut matches) {
                Some(true) => {
                    all += 1;
                    used += i64::from(self.allocated.is_used(&device.id));
                }
                Some(false) => {}
                None => return (0, 0),
            }
        }
        (all, used)
    }

    /// The claim as it was last seen.
    pub fn resource_claim(&self, namespace: &str, name: &str) -> Option<&ResourceClaim> {
        self.claim(namespace, name).map(|claim| &*claim.api)
    }

    /// Holds the devices of `results` for `pod` until the claims say so themselves, the pod is gone, or [`Devices::forget`].
    pub fn assume(&mut self, pod: &Arc<str>, results: &[(String, AllocationResult)]) {
        #[cfg(test)]
        if crate::simulation::plant::is(crate::simulation::plant::Plant::ForgetsDevices) {
            return;
        }
        for (uid, result) in results {
            self.version += 1;
            self.end(uid);
            self.allocated.add(result);
            let (pod, result) = (Arc::clone(pod), result.clone());
            self.assumed.insert(uid.clone(), Assumed { pod, result, is_told: false, written: None });
        }
    }

    /// A claim was told while devices are assumed for it: they count once.
    fn told(&mut self, claim: &Claim) {
        let Some(assumed) = self.assumed.get_mut(claim.uid()) else { return };
        if assumed.written.is_some_and(|written| version_of(&claim.api) >= written) {
            self.end(claim.uid());
            return;
        }
        let allocation = claim.allocation();
        let is_told = allocation.is_some_and(|told| has_same_devices(&assumed.result, told));
        match (assumed.is_told, is_told) {
            (false, true) => self.allocated.remove(&assumed.result),
            (true, false) => self.allocated.add(&assumed.result),
            _ => {}
        }
        assumed.is_told = is_told;
    }

    /// The result that was assumed for `claim` with this uid on behalf of `pod` was written: the claim has it since `version`, or lost
    /// it again after that. It is held until the claim is told at that version. Returns whether that ends the hold now, of devices
    /// that the claim does not tell: no event will say that they are free.
    pub fn settle_claim(&mut self, pod: &str, claim: &ClaimName, uid: &str, version: &str) -> bool {
        let told = self.claim(&claim.namespace, &claim.name).filter(|told| told.uid() == uid);
        let told = told.map(|told| version_of(&told.api));
        let assumed = self.assumed.get_mut(uid).filter(|assumed| *assumed.pod == *pod);
        let Some(assumed) = assumed else { return false };
        // Without a number there is nothing to wait for.
        match version.parse() {
            Ok(version) if told.is_some_and(|told| told < version) => {
                assumed.written = Some(version);
                false
            }
            _ => {
                let is_freed = !assumed.is_told;
                self.end(uid);
                is_freed
            }
        }
    }

    /// Gives back what was assumed for the claim with this uid on behalf of `pod`, unless it was written.
    pub fn forget(&mut self, pod: &str, uid: &str) {
        // Another pod may have the claim by now.
        let is_its = |assumed: &Assumed| *assumed.pod == *pod && assumed.written.is_none();
        if self.assumed.get(uid).is_some_and(is_its) {
            self.end(uid);
        }
    }

    /// Ends what is assumed for the claim with this uid.
    fn end(&mut self, uid: &str) {
        if let Some(assumed) = self.assumed.remove(uid) {
            self.version += 1;
            if !assumed.is_told {
                self.allocated.remove(&assumed.result);
            }
            self.awaited.retain(|_, waiting| waiting != uid);
        }
    }

    /// A pod is on its node: the devices assumed for its extended resources are held until the claim that its status names
    /// says so itself. Another claim that was made for the pod, by an attempt that failed, does not count: it may be gone
    /// already.
    pub fn settle(&mut self, pod: &PodClaims) {
        let uid = unmade::unmade_uid(&pod.uid);
        let Some(name) = pod.made_claim.as_ref().filter(|_| self.assumed.contains_key(&uid)) else { return };
        if self.claim(&pod.namespace, name).is_some_and(|claim| claim.allocation().is_some()) {
            self.end(&uid);
        } else {
            let claim = ClaimName { namespace: pod.namespace.clone(), name: name.clone() };
            self.awaited.insert(claim, uid);
        }
    }

    /// A pod is gone: the devices still assumed for its extended resources are free. The events of the claims that it names free
    /// theirs.
    pub fn forget_pod(&mut self, uid: &str) {
        self.end(&unmade::unmade_uid(uid));
    }

    fn is_pending(&self, uid: &str) -> bool {
        self.assumed.get(uid).is_some_and(|assumed| !assumed.is_told)
    }

    fn claim(&self, namespace: &str, name: &str) -> Option<&Claim> {
        self.claims.get(namespace)?.get(name)
    }
}

fn key(metadata: Option<&ObjectMeta>) -> (String, String) {
    metadata.map(|metadata| (metadata.namespace.clone(), metadata.name.clone())).unwrap_or_default()
}
