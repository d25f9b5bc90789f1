//! Tests of devices. [`Cluster`] has two nodes, `a` and `b`; pods are planned by the claims that they name.

mod bounds;
mod capacity;
mod conditions;
mod constraints;
mod extended;
mod made;
mod oracle;
mod pods;
mod pools;
mod requests;
mod results;

use std::collections::BTreeMap;

use super::*;
use crate::api::core::v1::{
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodResourceClaim, PodSpec,
};
use crate::api::resource;
use crate::api::resource::v1 as api;
use crate::selector::Labels;

/// No allocation is too old, and searches have the time of the default configuration.
const LIMITS: DeviceLimits = DeviceLimits { timed_out_before: 0, filter_timeout_ms: 10_000 };

struct Cluster {
    devices: Devices,
    limits: DeviceLimits,
}

fn quantity(text: &str) -> resource::Quantity {
    resource::Quantity { string: text.to_owned() }
}

fn metadata(namespace: &str, name: &str) -> Option<ObjectMeta> {
    Some(ObjectMeta {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        ..Default::default()
    })
}

/// A device with attributes: `"x"` is a text, a number or a truth as it looks, `v1.2.3` a version.
fn device(name: &str, attributes: &[(&str, &str)]) -> api::Device {
    let attribute = |text: &str| {
        let mut attribute = api::DeviceAttribute::default();
        if let Ok(number) = text.parse() {
            attribute.int = Some(number);
        } else if let Ok(truth) = text.parse() {
            attribute.bool = Some(truth);
        } else if let Some(version) = text.strip_prefix('v') {
            attribute.version = Some(version.to_owned());
        } else {
            attribute.string = Some(text.to_owned());
        }
        attribute
    };
    let attributes = attributes.iter().map(|(name, text)| ((*name).to_owned(), attribute(text))).collect();
    api::Device { name: name.to_owned(), attributes, ..Default::default() }
}

/// Devices without attributes.
fn plain(names: &[&str]) -> Vec<api::Device> {
    names.iter().map(|name| device(name, &[])).collect()
}

fn with_capacity(mut device: api::Device, name: &str, value: &str) -> api::Device {
    let capacity = api::DeviceCapacity { value: Some(quantity(value)), request_policy: None };
    device.capacity.insert(name.to_owned(), capacity);
    device
}

/// The only slice of a pool, for one node.
fn slice(node: &str, pool: &str, devices: Vec<api::Device>) -> api::ResourceSlice {
    let spec = api::ResourceSliceSpec {
        driver: "d.io".to_owned(),
        pool: Some(api::ResourcePool { name: pool.to_owned(), generation: 1, resource_slice_count: 1 }),
        node_name: Some(node.to_owned()),
        devices,
        ..Default::default()
    };
    api::ResourceSlice { metadata: metadata("", pool), spec: Some(spec) }
}

/// The same slice, changed.
fn changed(
    mut slice: api::ResourceSlice,
    change: impl FnOnce(&mut api::ResourceSliceSpec),
) -> api::ResourceSlice {
    change(slice.spec.as_mut().unwrap());
    slice
}

fn selectors(expressions: &[&str]) -> Vec<api::DeviceSelector> {
    let selector = |expression: &&str| api::DeviceSelector {
        cel: Some(api::CelDeviceSelector { expression: (*expression).to_owned() }),
    };
    expressions.iter().map(selector).collect()
}

fn exactly(class: &str, count: i64, expressions: &[&str]) -> api::ExactDeviceRequest {
    api::ExactDeviceRequest {
        device_class_name: class.to_owned(),
        selectors: selectors(expressions),
        allocation_mode: "ExactCount".to_owned(),
        count,
        ..Default::default()
    }
}

fn all_of(class: &str) -> api::ExactDeviceRequest {
    api::ExactDeviceRequest { allocation_mode: "All".to_owned(), count: 0, ..exactly(class, 0, &[]) }
}

fn request(name: &str, exactly: api::ExactDeviceRequest) -> api::DeviceRequest {
    api::DeviceRequest { name: name.to_owned(), exactly: Some(exactly), first_available: Vec::new() }
}

/// A request for one device of class `c` that the expressions select.
fn one(name: &str, expressions: &[&str]) -> api::DeviceRequest {
    request(name, exactly("c", 1, expressions))
}

fn many(name: &str, count: i64) -> api::DeviceRequest {
    request(name, exactly("c", count, &[]))
}

fn alternative(name: &str, count: i64, expressions: &[&str]) -> api::DeviceSubRequest {
    api::DeviceSubRequest {
        name: name.to_owned(),
        device_class_name: "c".to_owned(),
        selectors: selectors(expressions),
        allocation_mode: "ExactCount".to_owned(),
        count,
        ..Default::default()
    }
}

fn first_of(name: &str, alternatives: Vec<api::DeviceSubRequest>) -> api::DeviceRequest {
    api::DeviceRequest { name: name.to_owned(), exactly: None, first_available: alternatives }
}

fn claim(name: &str, requests: Vec<api::DeviceRequest>) -> api::ResourceClaim {
    let devices = api::DeviceClaim { requests, ..Default::default() };
    api::ResourceClaim {
        metadata: metadata("ns", name),
        spec: Some(api::ResourceClaimSpec { devices: Some(devices) }),
        status: None,
    }
}

fn constrained(mut claim: api::ResourceClaim, constraints: Vec<api::DeviceConstraint>) -> api::ResourceClaim {
    claim.spec.as_mut().unwrap().devices.as_mut().unwrap().constraints = constraints;
    claim
}

fn matching(attribute: &str, requests: &[&str]) -> api::DeviceConstraint {
    let requests = requests.iter().map(|name| (*name).to_owned()).collect();
    api::DeviceConstraint { requests, match_attribute: Some(attribute.to_owned()), distinct_attribute: None }
}

fn distinct(attribute: &str) -> api::DeviceConstraint {
    api::DeviceConstraint { distinct_attribute: Some(attribute.to_owned()), ..Default::default() }
}

fn requirement(key: &str, values: &[&str]) -> NodeSelectorRequirement {
    let values = values.iter().map(|value| (*value).to_owned()).collect();
    NodeSelectorRequirement { key: key.to_owned(), operator: "In".to_owned(), values }
}

fn nodes_with(requirement: NodeSelectorRequirement) -> NodeSelector {
    let term = NodeSelectorTerm { match_expressions: vec![requirement], match_fields: Vec::new() };
    NodeSelector { node_selector_terms: vec![term] }
}

/// A pod that names these claims.
fn pod_with(claims: &[&str]) -> Pod {
    let named = |name: &&str| PodResourceClaim {
        name: (*name).to_owned(),
        resource_claim_name: Some((*name).to_owned()),
        resource_claim_template_name: None,
    };
    let spec = PodSpec { resource_claims: claims.iter().map(named).collect(), ..Default::default() };
    Pod { metadata: metadata("ns", "pod"), spec: Some(spec), status: None }
}

fn labels_of(node: &str) -> Labels {
    [("node".to_owned(), node.to_owned()), ("zone".to_owned(), "z".to_owned())].into()
}

/// Where claims hold devices, and how a node says no.
type Answer = Result<BTreeMap<String, Vec<String>>, String>;

impl Cluster {
    /// With the class `c`, which takes every device of the driver.
    fn new(slices: Vec<api::ResourceSlice>) -> Cluster {
        let mut cluster = Cluster { devices: Devices::new(&orch_proto::brand::ORCH), limits: LIMITS };
        cluster.class("c", &["device.driver == 'd.io'"]);
        for slice in slices {
            cluster.devices.upsert_slice(&slice);
        }
        cluster
    }

    fn class(&mut self, name: &str, expressions: &[&str]) {
        let spec = api::DeviceClassSpec { selectors: selectors(expressions), ..Default::default() };
        self.devices.upsert_class(&api::DeviceClass { metadata: metadata("", name), spec: Some(spec) });
    }

    fn add(&mut self, claim: api::ResourceClaim) -> &mut Cluster {
        self.devices.upsert_claim(claim);
        self
    }

    /// What the plugin says of a pod with these claims on a node.
    fn filter(&self, claims: &[&str], node: &str) -> Filter {
        let pod = PodClaims::new(&pod_with(claims));
        match self.devices.pre_filter(pod.as_ref(), self.limits) {
            PreFilter::Skip => Filter::Error("skip".to_owned()),
            PreFilter::Unschedulable(reason) => Filter::Error(format!("pre-filter: {reason}")),
            PreFilter::Ready(mut devices) => {
                devices.filter(NodeOf { name: node, labels: &labels_of(node) }, &|_| None)
            }
        }
    }

    /// The devices for each of the claims, as `request=device`.
    fn allocate(&self, claims: &[&str], node: &str) -> Answer {
        let allocation = match self.filter(claims, node) {
            Filter::Fits(allocation) => allocation,
            Filter::Unschedulable(reason) => return Err(reason),
            Filter::Error(reason) => return Err(format!("error: {reason}")),
        };
        let results = allocation.results.iter().map(|(uid, result)| {
            let devices = result.devices.iter().flat_map(|devices| &devices.results);
            let named = devices.map(|one| format!("{}={}", one.request, one.device));
            (uid.trim_start_matches("uid-").to_owned(), named.collect())
        });
        Ok(results.collect())
    }

    /// The same for one claim that is added first.
    fn one(&mut self, claim: api::ResourceClaim, node: &str) -> Result<Vec<String>, String> {
        let name = claim.metadata.as_ref().unwrap().name.clone();
        self.add(claim);
        self.allocate(&[&name], node).map(|mut claims| claims.remove(&name).unwrap_or_default())
    }

    /// Adds a claim and gives it devices on `node`, as if that had been written.
    fn hold(&mut self, mut claim: api::ResourceClaim, node: &str) {
        let name = claim.metadata.as_ref().unwrap().name.clone();
        self.add(claim.clone());
        let Filter::Fits(mut allocation) = self.filter(&[&name], node) else {
            panic!("{name} does not fit {node}")
        };
        let allocation = Some(allocation.results.remove(0).1);
        claim.status = Some(api::ResourceClaimStatus { allocation, ..Default::default() });
        self.add(claim);
    }
}

fn devices(expected: &[&str]) -> Result<Vec<String>, String> {
    Ok(expected.iter().map(|device| (*device).to_owned()).collect())
}

fn refused<T>(reason: &str) -> Result<T, String> {
    Err(reason.to_owned())
}

const CANNOT: &str = "cannot allocate all claims";
