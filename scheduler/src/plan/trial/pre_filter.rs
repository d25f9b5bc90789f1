//! PreFilter: what the filters prepare for one pod, before any node is looked at.
//!
//! Owns the order of the profile's plugins, which of them are skipped, and the answer where one refuses the pod. It looks
//! at no node.

use crate::objects::node_selector::RequiredNodes;
use crate::objects::pod::Pod;

use super::Trial;
use crate::plan::affinity::AffinityFilter;
use crate::plan::cluster::{Cluster, Memo};
use crate::plan::compiled_profile::{CompiledProfile, is_local};
use crate::plan::context::Context;
use crate::plan::costs::{Meter, Status};
use crate::plan::device_claims::DeviceClaims;
use crate::plan::devices::{DeviceLimits, PreFilter};
use crate::plan::profile::{ExtensionPoint, Plugin, PluginSet};
use crate::plan::spread::{Constraints, SpreadFilter};
use crate::plan::volumes::{self, VolumeState};

/// A plugin refused the pod before any node was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::plan) struct RefusedPod {
    /// The plugin.
    pub(in crate::plan) plugin: Plugin,
    /// The plugin's message.
    pub(in crate::plan) message: String,
    /// Plugins that had prepared before it.
    pub(in crate::plan) prepared: PluginSet,
}

/// Filters that need mutable access to the snapshot's indexes, prepared before the context borrows it.
pub(in crate::plan) struct Prepared {
    affinity: Option<AffinityFilter>,
}

impl Prepared {
    /// Makes the indexes that the filters need.
    pub(in crate::plan) fn new(
        rules: &CompiledProfile,
        cluster: &Cluster,
        memo: &mut Memo,
        pod: &Pod,
    ) -> Prepared {
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
    pub(in crate::plan) fn new(
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
                    match cluster.devices().pre_filter(pod.claims.as_deref(), device_limits(context)) {
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
    pub(super) fn needs_features(&self) -> bool {
        !self.context.pod.shape.local.features.is_empty()
    }

    /// Whether a plugin has something to do for the pod: the others are skipped.
    pub(super) fn is_concerned(&self, plugin: Plugin) -> bool {
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
}

/// How long devices may take, by the profile and the time of the plan.
fn device_limits(context: Context<'_>) -> DeviceLimits {
    let arguments = &context.rules.profile.arguments;
    DeviceLimits {
        timed_out_before: context.wall.seconds().saturating_sub(arguments.binding_timeout_seconds),
        filter_timeout_ms: arguments.filter_timeout_ms,
    }
}
