//! Durations of the filters of a plan, for metrics.
//!
//! Owns the sampling: filters that run together on many nodes are measured one by one on a single node. It decides
//! nothing: verdicts that are asked for here are dropped.

use std::time::Duration;

use super::Trial;
use crate::plan::cluster::nodes::NodeId;
use crate::plan::context::Context;
use crate::plan::costs::{Meter, Status};
use crate::plan::profile::{ExtensionPoint, Plugin};
use crate::plan::volumes::PodsOn;

impl Trial<'_> {
    /// Measures the filters; `updating` was spent on them before the plugins prepared. In a sampled plan each
    /// filter runs on `node`, or on any if that is `None`.
    pub(in crate::plan) fn measure(&mut self, meter: &mut Meter, updating: Duration, node: Option<NodeId>) {
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
            // The search for devices on the node was made already, and its result is kept: it would take no time.
            if self.is_concerned(plugin) && plugin != Plugin::DynamicResources {
                let started = meter.start();
                let verdict = self.ask_plugin(plugin, node, slot, None, pods);
                meter.plugin(ExtensionPoint::Filter, plugin, Status::of(verdict), started);
            }
        }
        meter.lap();
    }
}
