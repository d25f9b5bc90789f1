//! Devices in the model: nodes that have some, claims that pods share, and the controller that gives claims back.
//!
//! Owns what only the runs about devices and about extended resources have, and their promises: no device belongs to two claims,
//! and a pod with a node has the device of its claim there for as long as it needs it. A pod that asks for the extended resource
//! which devices stand for has a claim that the scheduler made, and its status names that.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::Rng;
use rand::rngs::StdRng;

use super::Moment;
use super::api::{Changed, Kept, NAMESPACE, Step, Store, is_finished, name_of, node_of, uid_of};
use super::lease::Deed;
use super::network::World;
use super::rules::{Refused, conflict, missing};
use super::users::{ELSEWHERE, node_names};
use crate::api::core::v1::{Pod, PodResourceClaim};
use crate::api::meta::v1::{DeleteOptions, ObjectMeta, Time};
use crate::api::resource::Quantity;
use crate::api::resource::v1::{
    Device, DeviceClaim, DeviceClass, DeviceClassSpec, DeviceRequest, ExactDeviceRequest, ResourceClaim,
    ResourceClaimSpec, ResourcePool, ResourceSlice, ResourceSliceSpec,
};

/// Claims, of one device each. There are fewer devices than pods that want one, and as many as claims on most nodes.
const CLAIMS: usize = 9;

/// Devices of each node.
const DEVICES: usize = 2;

/// The class of all devices.
const CLASS: &str = "c";

/// How long a write that travelled for too long excuses what it broke: nobody mends that before a pod of it is gone.
const EXCUSED: Moment = 60_000;

/// The extended resource that devices stand for.
const RESOURCE: &str = "x.io/device";

/// Makes the devices, their class, and claims without any.
pub(super) fn found(store: &mut Store) {
    found_devices(store, DeviceClassSpec::default());
    for index in 0..CLAIMS {
        store.put_claim(0, claim(index));
    }
}

/// Makes devices that stand for an extended resource, and their class.
pub(super) fn found_extended(store: &mut Store) {
    let extended_resource_name = Some(RESOURCE.to_owned());
    found_devices(store, DeviceClassSpec { extended_resource_name, ..DeviceClassSpec::default() });
}

fn found_devices(store: &mut Store, class: DeviceClassSpec) {
    let metadata =
        |name: &str| ObjectMeta { name: name.to_owned(), uid: name.to_owned(), ..ObjectMeta::default() };
    store.slices = node_names()
        .map(|node| ResourceSlice {
            metadata: Some(metadata(&node)),
            spec: Some(ResourceSliceSpec {
                driver: "d.io".to_owned(),
                pool: Some(ResourcePool { name: node.clone(), generation: 1, resource_slice_count: 1 }),
                node_name: Some(node),
                devices: (0..DEVICES)
                    .map(|index| Device { name: format!("d{index}"), ..Device::default() })
                    .collect(),
                ..ResourceSliceSpec::default()
            }),
        })
        .collect();
    store.classes = vec![DeviceClass { metadata: Some(metadata(CLASS)), spec: Some(class) }];
}

fn is_extended(store: &Store) -> bool {
    let mut specs = store.classes.iter().filter_map(|class| class.spec.as_ref());
    specs.any(|spec| spec.extended_resource_name.is_some())
}

fn claim(index: usize) -> ResourceClaim {
    let exactly = ExactDeviceRequest {
        device_class_name: CLASS.to_owned(),
        allocation_mode: "ExactCount".to_owned(),
        count: 1,
        ..ExactDeviceRequest::default()
    };
    let request = DeviceRequest { name: "r".to_owned(), exactly: Some(exactly), first_available: Vec::new() };
    let devices = DeviceClaim { requests: vec![request], ..DeviceClaim::default() };
    ResourceClaim {
        metadata: Some(ObjectMeta {
            name: format!("c{index}"),
            namespace: NAMESPACE.to_owned(),
            ..ObjectMeta::default()
        }),
        spec: Some(ResourceClaimSpec { devices: Some(devices) }),
        status: None,
    }
}

/// The claim that a new pod names, if it does.
pub(super) fn wanted(store: &Store, random: &mut StdRng) -> Vec<PodResourceClaim> {
    if store.claims.is_empty() || is_extended(store) || random.random_bool(0.5) {
        return Vec::new();
    }
    let name = Some(format!("c{}", random.random_range(0..CLAIMS)));
    vec![PodResourceClaim { name: "d".to_owned(), resource_claim_name: name, ..PodResourceClaim::default() }]
}

/// What a new pod asks for of the extended resource, if it does.
pub(super) fn wanted_extended(store: &Store, random: &mut StdRng) -> Option<(String, Quantity)> {
    let wants = is_extended(store) && random.random_bool(0.5);
    wants.then(|| (RESOURCE.to_owned(), Quantity { string: "1".to_owned() }))
}

/// The controller of claims: reservations of pods that are gone go, and with the last the allocation.
pub(super) fn collect(now: Moment, store: &mut Store, random: &mut StdRng) {
    if store.claims.is_empty() || random.random_bool(0.9) {
        return;
    }
    let living: Vec<String> =
        store.pods.values().filter(|pod| !is_finished(pod)).map(|pod| uid_of(pod).to_owned()).collect();
    let claims: Vec<Arc<ResourceClaim>> = store.claims.values().cloned().collect();
    for claim in claims {
        let owner = claim.metadata.as_ref().and_then(|metadata| metadata.owner_references.first());
        if let Some(owner) = owner
            && !living.contains(&owner.uid)
        {
            store.remove_claim(now, name_of(claim.metadata.as_ref()));
            continue;
        }
        let mut claim = (*claim).clone();
        let Some(status) = &mut claim.status else { continue };
        let before = status.reserved_for.len();
        status.reserved_for.retain(|holder| living.contains(&holder.uid));
        if status.reserved_for.len() == before {
            continue;
        }
        if status.reserved_for.is_empty() {
            status.allocation = None;
        }
        store.put_claim(now, claim);
    }
}

impl Store {
    pub(super) fn claim(&self, name: &str) -> Result<&Arc<ResourceClaim>, Refused> {
        self.claims.get(name).ok_or_else(|| missing(name))
    }

    /// Makes a claim, under a name that is chosen here.
    pub(super) fn create_claim(&mut self, at: Moment, mut claim: ResourceClaim) -> Arc<ResourceClaim> {
        let number = self.revision;
        let metadata = claim.metadata_mut();
        metadata.name = format!("{}{number}", metadata.generate_name);
        NAMESPACE.clone_into(&mut metadata.namespace);
        self.put_claim(at, claim)
    }

    /// Deletes the claim with this UID; one that a finalizer holds is marked.
    pub(super) fn delete_claim(
        &mut self,
        at: Moment,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<(), Refused> {
        let mut claim = (**self.claim(name)?).clone();
        let metadata = claim.metadata_mut();
        let wanted = options.preconditions.as_ref().and_then(|conditions| conditions.uid.as_deref());
        if wanted.is_some_and(|wanted| wanted != metadata.uid) {
            return Err(conflict("another UID"));
        }
        if metadata.finalizers.is_empty() {
            self.remove_claim(at, name);
            return Ok(());
        }
        let seconds = i64::try_from(at / 1_000).unwrap_or(i64::MAX);
        metadata.deletion_timestamp = Some(Time { seconds, nanos: 0 });
        self.put_claim(at, claim);
        Ok(())
    }

    /// Replaces a claim, or its status, at the version that was read.
    pub(super) fn replace_claim(
        &mut self,
        at: Moment,
        name: &str,
        new: ResourceClaim,
        subresource: Option<&str>,
    ) -> Result<Arc<ResourceClaim>, Refused> {
        let mut claim = (**self.claim(name)?).clone();
        let version = |claim: &ResourceClaim| {
            claim.metadata.as_ref().map(|metadata| metadata.resource_version.clone()).unwrap_or_default()
        };
        if !version(&new).is_empty() && version(&new) != version(&claim) {
            return Err(conflict("the claim has been modified"));
        }
        match subresource {
            Some(_) => claim.status = new.status,
            None => {
                let finalizers = new.metadata.unwrap_or_default().finalizers;
                claim.metadata.get_or_insert_default().finalizers = finalizers;
            }
        }
        Ok(self.put_claim(at, claim))
    }
}

/// The name of the claim of a pod.
fn named(pod: &Pod) -> Option<&str> {
    if is_asking(pod) {
        let made = pod.status.as_ref()?.extended_resource_claim_status.as_ref();
        return Some(made.map_or("", |made| &made.resource_claim_name));
    }
    pod.spec.as_ref()?.resource_claims.first()?.resource_claim_name.as_deref()
}

/// Whether the pod asks for the extended resource.
fn is_asking(pod: &Pod) -> bool {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.filter_map(|one| one.resources.as_ref()).any(|all| all.requests.contains_key(RESOURCE))
}

/// The device of a claim: its node and its name.
fn device(claim: &ResourceClaim) -> Option<(&str, &str)> {
    let allocation = claim.status.as_ref()?.allocation.as_ref()?;
    let result = allocation.devices.as_ref()?.results.first()?;
    Some((&result.pool, &result.device))
}

fn is_reserved(claim: &ResourceClaim, uid: &str) -> bool {
    claim.status.as_ref().is_some_and(|status| status.reserved_for.iter().any(|holder| holder.uid == uid))
}

/// Checks the promises at each moment.
pub(super) fn check(world: &World) -> Result<(), String> {
    let arrived = world.arrived.iter().filter(|arrived| arrived.deed != Deed::Eviction);
    let late = arrived.filter(|arrived| arrived.is_late(world));
    let late: Vec<Moment> = late.map(|arrived| arrived.at).collect();
    let is_excused = |at: Moment| late.iter().any(|since| *since <= at && at - since < EXCUSED);
    let mut claims: BTreeMap<String, Arc<ResourceClaim>> = BTreeMap::new();
    let mut pods: BTreeMap<String, Arc<Pod>> = BTreeMap::new();
    for entry in &world.store.history {
        match &entry.changed {
            Changed::Claim(Step { after: Some(claim), .. }) => {
                let name = name_of(claim.metadata.as_ref());
                claims.insert(name.to_owned(), claim.clone());
            }
            Changed::Claim(Step { before: Some(claim), .. }) => {
                claims.remove(name_of(claim.metadata.as_ref()));
            }
            Changed::Pod(Step { after: Some(pod), .. }) => {
                pods.insert(name_of(pod.metadata.as_ref()).to_owned(), pod.clone());
            }
            Changed::Pod(Step { before: Some(pod), .. }) => {
                pods.remove(name_of(pod.metadata.as_ref()));
            }
            _ => continue,
        }
        if !is_excused(entry.at) {
            consistent(entry.at, &claims, &pods)?;
        }
    }
    Ok(())
}

fn consistent(
    at: Moment,
    claims: &BTreeMap<String, Arc<ResourceClaim>>,
    pods: &BTreeMap<String, Arc<Pod>>,
) -> Result<(), String> {
    let mut held: BTreeMap<(&str, &str), &str> = BTreeMap::new();
    for (name, claim) in claims {
        let Some(device) = device(claim) else { continue };
        if let Some(other) = held.insert(device, name) {
            return Err(format!("at {at} the device {device:?} belongs to the claims {other} and {name}"));
        }
    }
    for (name, pod) in pods {
        let node = node_of(pod);
        let Some(claim) = named(pod) else { continue };
        if node.is_empty() || node == ELSEWHERE || is_finished(pod) {
            continue;
        }
        let Some(claim) = claims.get(claim) else {
            return Err(format!("at {at} pod {name} is on {node}, and its claim `{claim}` is not there"));
        };
        let place = device(claim).map(|(place, _)| place);
        if place != Some(node) || !is_reserved(claim, uid_of(pod)) {
            return Err(format!(
                "at {at} pod {name} is on {node}, and its device on {place:?} is not its own"
            ));
        }
    }
    Ok(())
}

/// Whether the claim of `pod` has a device on `node`, or could have.
pub(super) fn has_device(world: &World, pod: &Pod, node: &str) -> bool {
    let Some(claim) = named(pod) else { return true };
    match world.store.claims.get(claim).and_then(|claim| device(claim)) {
        Some((place, _)) => place == node,
        None => {
            let held = world.store.claims.values().filter_map(|claim| device(claim));
            held.filter(|(place, _)| *place == node).count() < DEVICES
        }
    }
}
