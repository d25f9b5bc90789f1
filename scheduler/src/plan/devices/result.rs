//! The allocation result of a claim, as it is written into the claim's status.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::NodeOf;
use super::capacity;
use super::claim::{Claim, Class};
use super::search::Picked;
use super::slice::Access;
use crate::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm};
use crate::api::resource::v1::{
    AllocationResult, DeviceAllocationConfiguration, DeviceAllocationResult, DeviceRequestAllocationResult,
};

/// The result for `claim` of the devices that were chosen, with the alternative that was chosen for each request.
pub(super) fn result(
    claim: &Claim,
    picked: &[Picked],
    alternatives: &[usize],
    classes: &BTreeMap<String, Class>,
    node: NodeOf<'_>,
) -> AllocationResult {
    let results = picked.iter().enumerate().map(|(number, one)| device_result(claim, number, one)).collect();
    let config = config(claim, alternatives, classes);
    AllocationResult {
        devices: Some(DeviceAllocationResult { results, config }),
        node_selector: node_selector(picked, node),
        allocation_timestamp: None,
    }
}

fn device_result(claim: &Claim, number: usize, picked: &Picked) -> DeviceRequestAllocationResult {
    let request = &claim.requests[picked.request];
    let alternative = &request.alternatives[picked.alternative];
    let device = &picked.device;
    DeviceRequestAllocationResult {
        request: request.full_name(alternative),
        driver: device.id.pool.driver.to_string(),
        pool: device.id.pool.pool.to_string(),
        device: device.id.device.to_string(),
        admin_access: alternative.admin_access.then_some(true),
        tolerations: alternative.tolerations.clone(),
        binding_conditions: device.api.binding_conditions.clone(),
        binding_failure_conditions: device.api.binding_failure_conditions.clone(),
        share_id: device.is_shared().then(|| share_id(claim.uid(), number)),
        consumed_capacity: capacity::written(device, &picked.consumed),
    }
}

/// The id of a claim's share of a device. Made of the claim's uid and the number of the result: unique like the uid, and
/// the same when the same plan is made again.
fn share_id(uid: &str, number: usize) -> String {
    let half = |part: u8| {
        let mut hasher = DefaultHasher::new();
        (part, uid, number).hash(&mut hasher);
        hasher.finish()
    };
    let (high, low) = (half(0), half(1));
    // Version 8: bits of the application's own making.
    let high = (high & !0xf000) | 0x8000;
    let low = (low & !(0b11 << 62)) | (0b10 << 62);
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

/// Configurations of the classes of the chosen alternatives, each class once, and then those of the claim that speak of
/// one of them.
fn config(
    claim: &Claim,
    alternatives: &[usize],
    classes: &BTreeMap<String, Class>,
) -> Vec<DeviceAllocationConfiguration> {
    let mut config: Vec<DeviceAllocationConfiguration> = Vec::new();
    let mut of_class: BTreeMap<&str, std::ops::Range<usize>> = BTreeMap::new();
    let chosen = || {
        claim.requests.iter().zip(alternatives).filter_map(|(request, at)| {
            request.alternatives.get(*at).map(|alternative| (request, alternative))
        })
    };
    for (request, alternative) in chosen() {
        let name = request.full_name(alternative);
        if let Some(range) = of_class.get(alternative.class.as_str()) {
            for one in &mut config[range.clone()] {
                one.requests.push(name.clone());
            }
            continue;
        }
        let start = config.len();
        let class = classes.get(&alternative.class);
        config.extend(class.into_iter().flat_map(|class| &class.config).map(|one| {
            DeviceAllocationConfiguration {
                source: "FromClass".to_owned(),
                requests: vec![name.clone()],
                device_configuration: one.device_configuration.clone(),
            }
        }));
        of_class.insert(&alternative.class, start..config.len());
    }
    for one in claim.config() {
        if chosen().any(|(request, alternative)| request.is_among(&one.requests, alternative)) {
            config.push(DeviceAllocationConfiguration {
                source: "FromClaim".to_owned(),
                requests: one.requests.clone(),
                device_configuration: one.device_configuration.clone(),
            });
        }
    }
    for one in &mut config {
        // No names mean all requests.
        if one.requests.len() == claim.requests.len() {
            one.requests.clear();
        }
    }
    config
}

/// The nodes from which all devices can be used; `None` if that is everywhere.
fn node_selector(picked: &[Picked], node: NodeOf<'_>) -> Option<NodeSelector> {
    let is_local = |one: &Picked| {
        matches!(one.device.access, Access::Node(_)) || one.device.api.binds_to_node == Some(true)
    };
    if picked.iter().any(is_local) {
        let name = NodeSelectorRequirement {
            key: "metadata.name".to_owned(),
            operator: "In".to_owned(),
            values: vec![node.name.to_owned()],
        };
        let term = NodeSelectorTerm { match_expressions: Vec::new(), match_fields: vec![name] };
        return Some(NodeSelector { node_selector_terms: vec![term] });
    }
    let mut all = NodeSelectorTerm::default();
    for one in picked {
        // The API takes one term only.
        let Access::Selected { api, .. } = &one.device.access else { continue };
        for term in api.node_selector_terms.iter().take(1) {
            merge(&mut all.match_expressions, &term.match_expressions);
            merge(&mut all.match_fields, &term.match_fields);
        }
    }
    let is_everywhere = all.match_expressions.is_empty() && all.match_fields.is_empty();
    (!is_everywhere).then(|| NodeSelector { node_selector_terms: vec![all] })
}

fn merge(into: &mut Vec<NodeSelectorRequirement>, from: &[NodeSelectorRequirement]) {
    for requirement in from {
        if !into.contains(requirement) {
            into.push(requirement.clone());
        }
    }
}
