//! Devices in the model: nodes that have some, claims that pods share, and the controller that gives claims back.
//!
//! Owns what only the runs about devices have ([`Theme::Devices`]), and their promises: no device belongs to two claims, and
//! a pod with a node has the device of its claim there for as long as it needs it.

use std::collections::BTreeMap;
use std::sync::Arc;

use rand::Rng;
use rand::rngs::StdRng;

use super::Moment;
use super::api::{Changed, NAMESPACE, Step, Store, is_finished, name_of, node_of, uid_of};
use super::lease::Deed;
use super::network::World;
use super::rules::{Refused, conflict, missing};
use super::users::{ELSEWHERE, node_names};
use crate::api::core::v1::{Pod, PodResourceClaim};
use crate::api::meta::v1::ObjectMeta;
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

/// Makes the devices, their class, and claims without any.
pub(super) fn found(store: &mut Store) {
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
    store.classes =
        vec![DeviceClass { metadata: Some(metadata(CLASS)), spec: Some(DeviceClassSpec::default()) }];
    for index in 0..CLAIMS {
        store.put_claim(0, claim(index));
    }
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
    if store.claims.is_empty() || random.random_bool(0.5) {
        return Vec::new();
    }
    let name = Some(format!("c{}", random.random_range(0..CLAIMS)));
    vec![PodResourceClaim { name: "d".to_owned(), resource_claim_name: name, ..PodResourceClaim::default() }]
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
    pod.spec.as_ref()?.resource_claims.first()?.resource_claim_name.as_deref()
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
        let Some(claim) = named(pod).and_then(|claim| claims.get(claim)) else { continue };
        if node.is_empty() || node == ELSEWHERE || is_finished(pod) {
            continue;
        }
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
    let Some(claim) = named(pod).and_then(|claim| world.store.claims.get(claim)) else { return true };
    match device(claim) {
        Some((place, _)) => place == node,
        None => {
            let held = world.store.claims.values().filter_map(|claim| device(claim));
            held.filter(|(place, _)| *place == node).count() < DEVICES
        }
    }
}
