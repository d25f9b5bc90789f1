//! A pod against nodes, as they are or as they would be with some pods gone and others come.
//!
//! Owns what the filters prepared for one plan, and asks them about single nodes. Trials change only what they
//! prepared for themselves; each change is taken back.

use std::sync::Arc;
use std::time::Duration;

use crate::objects::intern::Symbol;
use crate::objects::node_selector::RequiredNodes;
use crate::objects::pod::Pod;

use super::affinity::AffinityFilter;
use super::cluster::nodes::{Load, NodeId, Slot};
use super::cluster::selections::Selections;
use super::cluster::topology::Topologies;
use super::cluster::{Cluster, Memo};
use super::costs::{Meter, Status};
use super::device_claims::{DeviceClaims, Found};
use super::devices::{DeviceLimits, PostFilter, PreFilter};
use super::local::{self, LocalTable};
use super::profile::{ExtensionPoint, Plugin, PluginSet};
use super::rules::{Rules, is_local};
use super::spread::{Constraints, SpreadFilter};
use super::verdict::{Resolvable, Verdict};
use super::volumes::{self, PodsOn, VolumeState};

/// What does not change during a plan.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    /// The profile.
    pub(super) rules: &'a Rules,
    /// The snapshot.
    pub(super) cluster: &'a Cluster,
    /// Topologies that were prepared.
    pub(super) topologies: &'a Topologies,
    /// Counters that were prepared.
    pub(super) selections: &'a Selections,
    /// The pod.
    pub(super) pod: &'a Arc<Pod>,
    /// Results of filters that look at one node alone.
    pub(super) table: &'a LocalTable,
}

/// A plugin refused the pod before any node was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RefusedPod {
    /// The plugin.
    pub(super) plugin: Plugin,
    /// Why.
    pub(super) message: String,
    /// Plugins that had prepared before it.
    pub(super) prepared: PluginSet,
}

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

/// What is asked of the filters before the context is fixed, because it makes indexes.
pub(super) struct Prepared {
    affinity: Option<AffinityFilter>,
}

impl Prepared {
    /// Makes the indexes that the filters need.
    pub(super) fn new(rules: &Rules, cluster: &Cluster, memo: &mut Memo, pod: &Pod) -> Prepared {
        let filters = rules.filters.contains(Plugin::InterPodAffinity);
        let is_needed = filters
            && (!pod.shape.terms.is_empty()
                || !cluster.terms().is_empty()
                || !cluster.nominations().is_empty());
        Prepared { affinity: is_needed.then(|| AffinityFilter::prepare(cluster, memo, pod)).flatten() }
    }
}

impl<'a> Trial<'a> {
    /// Runs what comes before the nodes (PreFilter), in the order of the profile.
    pub(super) fn new(
        context: Context<'a>,
        constraints: &'a Constraints,
        prepared: Prepared,
        meter: &mut Meter,
    ) -> Result<Trial<'a>, RefusedPod> {
        let Context { rules, cluster, pod, .. } = context;
        let mut trial = Trial {
            context,
            spread: None,
            affinity: prepared.affinity,
            volumes: None,
            devices: None,
            own: Vec::new(),
            error: None,
            named: None,
            filters: Vec::new(),
            reads_columns: false,
        };
        let mut done = PluginSet::EMPTY;
        let mut volumes = VolumeState::default();
        let has_volumes = !pod.shape.volumes.is_empty();
        for plugin in &rules.profile.enabled.pre_filter {
            let started = meter.start();
            match plugin {
                Plugin::NodeAffinity => {
                    trial.named = pod.shape.local.nodes.named();
                    if trial.named.as_ref().is_some_and(Vec::is_empty) {
                        let message = "pod affinity terms conflict".to_owned();
                        return Err(RefusedPod { plugin: *plugin, message, prepared: done });
                    }
                }
                Plugin::PodTopologySpread if constraints.has_hard() => {
                    trial.spread = Some(SpreadFilter::new(constraints, context));
                }
                Plugin::VolumeRestrictions
                | Plugin::NodeVolumeLimits
                | Plugin::VolumeBinding
                | Plugin::VolumeZone
                    if has_volumes =>
                {
                    volumes::prepare(*plugin, rules, cluster, pod, &mut volumes).map_err(|refused| {
                        RefusedPod { plugin: *plugin, message: refused.message, prepared: done }
                    })?;
                }
                Plugin::DynamicResources => {
                    let claims = pod.claims.as_deref();
                    let limits = DeviceLimits {
                        timed_out_before: rules.bindings_timed_out_before,
                        filter_timeout_ms: rules.profile.arguments.filter_timeout_ms,
                    };
                    match cluster.devices().pre_filter(claims, limits) {
                        PreFilter::Skip => {}
                        PreFilter::Ready(devices) => trial.devices = Some(DeviceClaims::new(devices)),
                        PreFilter::Unschedulable(message) => {
                            return Err(RefusedPod { plugin: *plugin, message, prepared: done });
                        }
                    }
                }
                _ => {}
            }
            done.insert(*plugin);
            if trial.is_concerned(*plugin) {
                meter.plugin(ExtensionPoint::PreFilter, *plugin, Status::Success, started);
            }
        }
        trial.volumes = has_volumes.then_some(volumes);
        trial.filters = rules.profile.enabled.filter.iter().copied().filter(|p| trial.is_asked(*p)).collect();
        trial.reads_columns = trial.can_read_columns();
        meter.point(ExtensionPoint::PreFilter, Status::Success);
        Ok(trial)
    }

    /// Whether a filter can refuse the pod on some node, apart from what the table says.
    fn is_asked(&self, plugin: Plugin) -> bool {
        match plugin {
            plugin if is_local(plugin) => !self.context.rules.locals_first,
            Plugin::PodTopologySpread => self.spread.is_some(),
            Plugin::InterPodAffinity => self.affinity.is_some(),
            Plugin::DynamicResources => self.devices.is_some(),
            Plugin::NodeDeclaredFeatures => self.needs_features(),
            _ => self.volumes.is_some(),
        }
    }

    /// Whether columns hold all that the filters look at.
    fn can_read_columns(&self) -> bool {
        self.context.rules.locals_first
            && self.volumes.is_none()
            && self.devices.is_none()
            && self.named.is_none()
            && !self.needs_features()
            && self.context.cluster.nominations().is_empty()
    }

    /// Whether the node has to declare features.
    fn needs_features(&self) -> bool {
        !self.context.pod.shape.local.features.is_empty()
    }

    /// Whether a plugin has something to do for the pod: the others are skipped.
    fn is_concerned(&self, plugin: Plugin) -> bool {
        let Context { rules, pod, .. } = self.context;
        match plugin {
            Plugin::PodTopologySpread => self.spread.is_some(),
            Plugin::InterPodAffinity => self.affinity.is_some(),
            Plugin::DynamicResources => self.devices.is_some(),
            Plugin::VolumeRestrictions
            | Plugin::NodeVolumeLimits
            | Plugin::VolumeBinding
            | Plugin::VolumeZone => !pod.shape.volumes.is_empty(),
            Plugin::NodePorts => !pod.shape.local.ports.is_empty(),
            Plugin::NodeAffinity => {
                rules.added_nodes.is_some() || pod.shape.local.nodes != RequiredNodes::default()
            }
            Plugin::NodeDeclaredFeatures => self.needs_features(),
            _ => true,
        }
    }

    /// Measures the filters; `updating` was spent on them before the plugins prepared. In a sampled plan each
    /// filter runs on `node`, or on any if that is `None`.
    pub(super) fn measure(&mut self, meter: &mut Meter, updating: Duration, node: Option<NodeId>) {
        let Context { rules, cluster, .. } = self.context;
        let status = if self.error.is_some() { Status::Error } else { Status::Success };
        meter.point_with(ExtensionPoint::Filter, status, updating);
        let enabled = &rules.profile.enabled;
        let concerned = |plugin: &Plugin| self.is_concerned(*plugin);
        meter.evaluated(ExtensionPoint::PreFilter, enabled.pre_filter.iter().copied().filter(concerned));
        meter.evaluated(ExtensionPoint::Filter, enabled.filter.iter().copied().filter(concerned));
        if !meter.is_sampling() {
            return;
        }
        let existing = || (0..cluster.nodes().columns()).map(NodeId::of);
        let node = node.or_else(|| existing().find(|node| cluster.nodes().slot(*node).is_some()));
        let Some((node, slot)) = node.and_then(|node| Some((node, cluster.nodes().slot(node)?))) else {
            return;
        };
        let pods = PodsOn { pods: &slot.pods, without: &[], with: &[] };
        for plugin in enabled.filter.iter().copied() {
            // What devices a node has was searched for already, and the search is remembered: it would take no time.
            if self.is_concerned(plugin) && plugin != Plugin::DynamicResources {
                let started = meter.start();
                let verdict = self.ask_plugin(plugin, node, slot, None, pods);
                meter.plugin(ExtensionPoint::Filter, plugin, Status::of(verdict), started);
            }
        }
        meter.lap();
    }

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

    /// What the filters say of a node as it is, and with the pods that are nominated to it.
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

    /// What the filters say of a node without some of its pods; `load` is what is left of its load. Everything that
    /// the filters count was adjusted before.
    pub(super) fn check(
        &mut self,
        node: NodeId,
        slot: &Slot,
        load: Option<&Load>,
        without: &[Arc<Pod>],
    ) -> Verdict {
        let nominated = self.nominated(slot);
        if !nominated.is_empty() {
            let mut crowded = load.unwrap_or(&slot.load).clone();
            nominated.iter().for_each(|pod| crowded.add(pod));
            nominated.iter().for_each(|pod| self.adjust(pod, node, 1));
            let pods = PodsOn { pods: &slot.pods, without, with: &nominated };
            let verdict = self.ask(node, slot, Some(&crowded), pods);
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
                Some(load) => local::check_all(rules, cluster, &pod.shape.local, slot, load),
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

    /// What one filter says of a node.
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
                local::check(plugin, rules, cluster, &pod.shape.local, slot, load)
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

    /// What DynamicResources does when no node fits.
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
