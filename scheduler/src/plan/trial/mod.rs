//! Runs the filters for one pod, on the snapshot or without victims.
//!
//! Owns what the filters prepared for one plan (`pre_filter`), and asks them about single nodes (Filter). Trials change
//! only what they prepared for themselves; each change is taken back. `measure` says what the filters cost.

mod measure;
mod pre_filter;

use std::sync::Arc;

use crate::objects::intern::Symbol;
use crate::objects::pod::Pod;

use super::affinity::AffinityFilter;
use super::cluster::nodes::{Load, NodeId, Slot};
use super::cluster::topology::Topologies;
use super::compiled_profile::is_local;
use super::context::Context;
use super::device_claims::{DeviceClaims, Found};
use super::devices::PostFilter;
use super::local_table;
use super::profile::Plugin;
use super::spread::SpreadFilter;
use super::verdict::{Resolvable, Verdict};
use super::volumes::{PodsOn, VolumeState};

pub(super) use self::pre_filter::{Prepared, RefusedPod};

/// The prepared filters.
pub(super) struct Trial<'a> {
    context: Context<'a>,
    spread: Option<SpreadFilter<'a>>,
    affinity: Option<AffinityFilter>,
    volumes: Option<VolumeState<'a>>,
    devices: Option<DeviceClaims<'a>>,
    /// Reasons that this plan made, for verdicts to point at.
    pub(super) own: Vec<String>,
    /// An error that ends the plan.
    pub(super) error: Option<String>,
    /// The only nodes that the pod names; sorted.
    pub(super) named: Option<Vec<Symbol>>,
    /// Filters that are asked of each node, in the order of the profile. Where those that look at one node alone come
    /// first, the table speaks for them.
    filters: Vec<Plugin>,
    /// Whether filters read columns only, and need no look at the node itself.
    reads_columns: bool,
}

impl<'a> Trial<'a> {
    /// Whether what the filters say of a node depends on that node alone.
    pub(super) fn is_local(&self) -> bool {
        self.spread.is_none()
            && self.affinity.is_none()
            && self.volumes.is_none()
            && self.devices.is_none()
            && self.named.is_none()
            && !self.needs_features()
            && self.context.rules.locals_first
    }

    /// The context.
    pub(super) fn context(&self) -> Context<'a> {
        self.context
    }

    /// The verdict of the filters on a node as it is, and with the pods that are nominated to it.
    pub(super) fn check_node(&mut self, node: NodeId) -> Verdict {
        if self.reads_columns {
            return self.check_columns(node);
        }
        let slot = match self.context.cluster.nodes().slot(node) {
            Some(slot) => slot,
            None => return Verdict::ABSENT,
        };
        if self.named.as_ref().is_some_and(|named| named.binary_search(&slot.node.name).is_err()) {
            return Verdict::NOT_SELECTED;
        }
        self.check(node, slot, None, &[])
    }

    /// The same for a pod whose filters read columns only.
    fn check_columns(&self, node: NodeId) -> Verdict {
        let Context { topologies, table, .. } = self.context;
        let verdict = table.verdicts[node.index()];
        if !verdict.fits() {
            return verdict;
        }
        for plugin in &self.filters {
            let verdict = match plugin {
                Plugin::PodTopologySpread => self.check_spread(topologies, node),
                _ => self.check_affinity(topologies, node),
            };
            if !verdict.fits() {
                return verdict;
            }
        }
        Verdict::FITS
    }

    fn check_spread(&self, topologies: &Topologies, node: NodeId) -> Verdict {
        self.spread.as_ref().map_or(Verdict::FITS, |spread| spread.check(topologies, node))
    }

    fn check_affinity(&self, topologies: &Topologies, node: NodeId) -> Verdict {
        self.affinity.as_ref().map_or(Verdict::FITS, |affinity| affinity.check(topologies, node))
    }

    /// The verdict of the filters on a node without some of its pods; `load` is the rest of its load. The indexes that
    /// the filters count by were adjusted before.
    pub(super) fn check(
        &mut self,
        node: NodeId,
        slot: &Slot,
        load: Option<&Load>,
        without: &[Arc<Pod>],
    ) -> Verdict {
        let nominated = self.nominated(slot);
        if !nominated.is_empty() {
            let mut with_nominated = load.unwrap_or(&slot.load).clone();
            nominated.iter().for_each(|pod| with_nominated.add(pod));
            nominated.iter().for_each(|pod| self.adjust(pod, node, 1));
            let pods = PodsOn { pods: &slot.pods, without, with: &nominated };
            let verdict = self.ask(node, slot, Some(&with_nominated), pods);
            nominated.iter().for_each(|pod| self.adjust(pod, node, -1));
            if !verdict.fits() {
                return verdict;
            }
        }
        self.ask(node, slot, load, PodsOn { pods: &slot.pods, without, with: &[] })
    }

    /// Pods nominated to a node that the pod has to leave room for.
    fn nominated(&self, slot: &Slot) -> Vec<Arc<Pod>> {
        let Context { cluster, pod, .. } = self.context;
        if cluster.nominations().is_empty() {
            return Vec::new();
        }
        let on_node = cluster.nominations().on(slot.node.name).iter();
        on_node.filter(|other| other.priority >= pod.priority && other.uid != pod.uid).cloned().collect()
    }

    fn ask(&mut self, node: NodeId, slot: &Slot, load: Option<&Load>, pods: PodsOn<'_>) -> Verdict {
        let Context { rules, cluster, pod, table, .. } = self.context;
        if rules.locals_first {
            let verdict = match load {
                None => table.verdicts[node.index()],
                Some(load) => local_table::check_all(rules, cluster, &pod.shape.local, slot, load),
            };
            if !verdict.fits() {
                return verdict;
            }
        }
        for at in 0..self.filters.len() {
            let plugin = self.filters[at];
            let verdict = self.ask_plugin(plugin, node, slot, load, pods);
            if !verdict.fits() {
                return verdict;
            }
        }
        Verdict::FITS
    }

    /// The result of one filter on a node.
    fn ask_plugin(
        &mut self,
        plugin: Plugin,
        node: NodeId,
        slot: &Slot,
        load: Option<&Load>,
        pods: PodsOn<'_>,
    ) -> Verdict {
        let Context { rules, cluster, topologies, pod, .. } = self.context;
        match plugin {
            plugin if is_local(plugin) => {
                let load = load.unwrap_or(&slot.load);
                local_table::check(plugin, rules, cluster, &pod.shape.local, slot, load)
            }
            Plugin::PodTopologySpread => self.check_spread(topologies, node),
            Plugin::InterPodAffinity => self.check_affinity(topologies, node),
            Plugin::DynamicResources => self.ask_devices(node, slot),
            Plugin::NodeDeclaredFeatures => ask_features(pod, slot),
            plugin => self
                .volumes
                .as_ref()
                .map_or(Verdict::FITS, |volumes| volumes.check(plugin, rules, cluster, pod, node, pods)),
        }
    }

    fn ask_devices(&mut self, node: NodeId, slot: &Slot) -> Verdict {
        let Some(devices) = &mut self.devices else { return Verdict::FITS };
        match devices.check(self.context.cluster, node, slot, &mut self.own) {
            Ok(verdict) => verdict,
            Err(error) => {
                self.error.get_or_insert(error);
                Verdict::ABSENT
            }
        }
    }

    /// PostFilter of DynamicResources, for a pod that fits on no node.
    pub(super) fn post_filter_devices(&self) -> PostFilter {
        self.devices.as_ref().map_or_else(PostFilter::without_claims, DeviceClaims::post_filter)
    }

    /// The allocations that were found for the pod's claims.
    pub(super) fn into_found(self) -> Found {
        self.devices.map(DeviceClaims::into_found).unwrap_or_default()
    }

    /// A pod comes to a node (1) or leaves it (-1).
    pub(super) fn adjust(&mut self, other: &Pod, node: NodeId, by: i64) {
        let Context { cluster, topologies, selections, pod, .. } = self.context;
        if let Some(spread) = &mut self.spread {
            spread.adjust(cluster, topologies, other, node, by);
        }
        if let Some(affinity) = &mut self.affinity {
            affinity.adjust(cluster, topologies, selections, pod, (other, node, by));
        }
        if let Some(volumes) = &mut self.volumes {
            volumes.adjust(pod, other, by);
        }
    }
}

/// Whether the node declares the features that the pod needs. It stands after plugins that look further than one node, so
/// that its verdicts are not kept in tables; few pods need any.
fn ask_features(pod: &Pod, slot: &Slot) -> Verdict {
    if slot.node.features.include(&pod.shape.local.features) {
        return Verdict::FITS;
    }
    Verdict::refused(Plugin::NodeDeclaredFeatures, Resolvable::No, 1)
}
