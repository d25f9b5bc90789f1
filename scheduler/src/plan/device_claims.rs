//! DynamicResources in a plan: the results of [`super::devices`], in the form of filters and scores.
//!
//! Owns the allocations that were found on the nodes of one plan.

use hashbrown::HashMap;

use crate::objects::intern::{Interner, Symbol};
use crate::objects::labels::Labels;
use crate::selector::LabelLookup;

use super::cluster::Cluster;
use super::cluster::nodes::{NodeId, Slot};
use super::decision::{Allocation, ClaimName, ClaimWrite};
use super::devices::{Filter, NodeAllocation, NodeOf, PodDevices, PostFilter};
use super::profile::Plugin;
use super::resource_scores::SCORE_MAX;
use super::verdict::{Resolvable, Verdict};

struct NodeLabels<'a> {
    labels: &'a Labels,
    texts: &'a Interner,
}

impl LabelLookup for NodeLabels<'_> {
    fn label(&self, key: &str) -> Option<&str> {
        let value = self.labels.value(self.texts.find(key)?)?;
        Some(self.texts.text(value))
    }
}

/// Of the devices that stand for an extended resource, how many there are on a node and how many of them are in use; zeros
/// if there are none.
pub(super) fn device_counts(cluster: &Cluster, slot: &Slot, resource: Symbol) -> (i64, i64) {
    let texts = cluster.texts();
    let labels = NodeLabels { labels: &slot.node.labels, texts };
    let node = NodeOf { name: texts.text(slot.node.name), labels: &labels };
    cluster.devices().counts(texts.text(resource), node)
}

/// The claims of the pod of a plan.
pub(super) struct DeviceClaims<'a> {
    devices: Box<PodDevices<'a>>,
    found: Found,
}

/// Allocations by node.
#[derive(Debug, Default)]
pub(super) struct Found {
    allocations: HashMap<NodeId, NodeAllocation>,
    claims: Vec<ClaimName>,
}

impl<'a> DeviceClaims<'a> {
    pub(super) fn new(devices: Box<PodDevices<'a>>) -> DeviceClaims<'a> {
        let names = devices.claim_names();
        let names =
            names.map(|(namespace, name)| ClaimName { namespace: namespace.into(), name: name.into() });
        let found = Found { claims: names.collect(), ..Found::default() };
        DeviceClaims { devices, found }
    }

    /// Result of the plugin's Filter for a node. `reasons` are the texts of the plan, to which its own are added.
    ///
    /// # Errors
    /// A claim or a class is wrong: the plan ends.
    pub(super) fn check(
        &mut self,
        cluster: &Cluster,
        node: NodeId,
        slot: &Slot,
        reasons: &mut Vec<String>,
    ) -> Result<Verdict, String> {
        if self.found.allocations.contains_key(&node) {
            return Ok(Verdict::FITS);
        }
        let texts = cluster.texts();
        let labels = NodeLabels { labels: &slot.node.labels, texts };
        let allocatable = |resource: &str| {
            let name = texts.find(resource)?;
            let listed = slot.node.allocatable.scalars.iter();
            listed.clone().find(|(other, _)| *other == name).map(|(_, amount)| *amount)
        };
        let node_of = NodeOf { name: texts.text(slot.node.name), labels: &labels };
        match self.devices.filter(node_of, &allocatable) {
            Filter::Fits(allocation) => {
                self.found.allocations.insert(node, allocation);
                Ok(Verdict::FITS)
            }
            Filter::Unschedulable(reason) => {
                let known = reasons.iter().position(|other| *other == reason);
                let at = known.unwrap_or_else(|| {
                    reasons.push(reason);
                    reasons.len() - 1
                });
                Ok(Verdict::refused(Plugin::DynamicResources, Resolvable::No, at as u64))
            }
            Filter::Error(error) => Err(error),
        }
    }

    /// Result of the plugin's PostFilter: no node fits.
    pub(super) fn post_filter(&self) -> PostFilter {
        self.devices.post_filter()
    }

    /// The allocations that were found.
    pub(super) fn into_found(self) -> Found {
        self.found
    }
}

impl Found {
    /// Whether no allocation was needed, or found.
    pub(super) fn is_empty(&self) -> bool {
        self.allocations.is_empty()
    }

    /// Scores from 0 to 100, in the order of `feasible`: nodes with earlier alternatives of requests are better.
    pub(super) fn scores(&self, feasible: &[NodeId]) -> Vec<i64> {
        if self.allocations.is_empty() {
            return Vec::new();
        }
        let raw = |node: &NodeId| self.allocations.get(node).map_or(0, |allocation| allocation.score);
        let max = feasible.iter().map(raw).max().unwrap_or(0);
        feasible.iter().map(|node| if max == 0 { 0 } else { SCORE_MAX * raw(node) / max }).collect()
    }

    /// Writes of the claims of a pod before it is bound to a node.
    pub(super) fn writes(&self, cluster: &Cluster, node: NodeId) -> Vec<ClaimWrite> {
        let Some(allocation) = self.allocations.get(&node) else { return Vec::new() };
        let writes = self.claims.iter().map(|claim| {
            let object = cluster.devices().resource_claim(&claim.namespace, &claim.name);
            let uid = object.and_then(|object| object.metadata.as_ref()).map(|meta| meta.uid.clone());
            let uid = uid.unwrap_or_default();
            let held = || object.and_then(|object| object.status.as_ref()?.allocation.clone());
            let allocation = match allocation.results.iter().find(|(other, _)| *other == uid) {
                Some((_, result)) => Allocation::Chosen(result.clone()),
                // The plan passes claims without devices only where it chose some: an empty one is never reserved.
                None => Allocation::Held(held().unwrap_or_default()),
            };
            ClaimWrite { claim: claim.clone(), allocation, uid, new: None }
        });
        let new = allocation.new.as_ref().zip(allocation.results.last()).map(|(new, (uid, result))| {
            let namespace = new.object.metadata.as_ref().map(|metadata| metadata.namespace.clone());
            let claim = ClaimName { namespace: namespace.unwrap_or_default(), name: String::new() };
            let allocation = Allocation::Chosen(result.clone());
            ClaimWrite { claim, uid: uid.clone(), allocation, new: Some(new.clone()) }
        });
        writes.chain(new).collect()
    }
}
