//! A compiled profile: names interned, enabled plugins looked up.
//!
//! Owns nothing that changes with the cluster.

use crate::objects::intern::{Interner, Symbol};
use crate::objects::labels::{Labels, Selector};
use crate::objects::node_selector::{NodeSelector, PreferredTerm, compile_preferred};
use crate::objects::resources::Resources;
use crate::objects::spread::{NodePolicy, Spread, Spreads};
use crate::objects::taints::{Effect, Taint};

use super::cluster::Cluster;
use super::profile::{Plugin, PluginSet, Profile, ResourceWeight, SpreadDefaults, Strategy};

/// A resource by what it is stored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResourceKey {
    /// CPU.
    Cpu,
    /// Memory.
    Memory,
    /// Ephemeral storage.
    EphemeralStorage,
    /// Any other.
    Scalar(Symbol),
}

impl ResourceKey {
    fn named(interner: &mut Interner, name: &str) -> ResourceKey {
        match name {
            "cpu" => ResourceKey::Cpu,
            "memory" => ResourceKey::Memory,
            "ephemeral-storage" => ResourceKey::EphemeralStorage,
            name => ResourceKey::Scalar(interner.intern(name)),
        }
    }

    /// The amount of it in `resources`.
    pub(super) fn of(self, resources: &Resources) -> i64 {
        match self {
            ResourceKey::Cpu => resources.cpu_milli,
            ResourceKey::Memory => resources.memory,
            ResourceKey::EphemeralStorage => resources.ephemeral_storage,
            ResourceKey::Scalar(name) => resources.scalar(name),
        }
    }
}

/// A profile, ready for use.
#[derive(Debug)]
pub(super) struct CompiledProfile {
    /// As it was configured.
    pub(super) profile: Profile,
    /// Plugins that filter.
    pub(super) filters: PluginSet,
    /// Whether the plugins that look at one node alone come before those that look further: then what they say of a
    /// node can be kept.
    pub(super) locals_first: bool,
    /// The taint that `spec.unschedulable` stands for.
    pub(super) unschedulable: Taint,
    /// Resources that NodeResourcesFit scores, with weights.
    pub(super) fit_resources: Vec<(ResourceKey, i64)>,
    /// Resources that are balanced.
    pub(super) balanced_resources: Vec<ResourceKey>,
    /// Resources that NodeResourcesFit does not look at.
    pub(super) ignored_resources: Vec<Symbol>,
    /// Required nodes of every pod of the profile.
    pub(super) added_nodes: Option<NodeSelector>,
    /// Preferred nodes of every pod of the profile.
    pub(super) added_preferred: Vec<PreferredTerm>,
    /// Constraints of pods that have none; their selectors are filled in for each pod.
    pub(super) default_spreads: Spreads,
    /// Whether the defaults are those of the system.
    pub(super) system_spreads: bool,
    /// Names of resources with a `/` that hold this text are the API's own: no argument can have them ignored.
    pub(super) native_mark: String,
    /// The label with the name of the host.
    pub(super) hostname: Symbol,
    /// Labels of zones and regions, those of older clusters with what newer ones call them.
    pub(super) zone_labels: [(Symbol, Option<Symbol>); 4],
}

/// Whether a plugin looks at one node alone.
pub(super) fn is_local(plugin: Plugin) -> bool {
    matches!(
        plugin,
        Plugin::NodeUnschedulable
            | Plugin::NodeName
            | Plugin::TaintToleration
            | Plugin::NodeAffinity
            | Plugin::NodePorts
            | Plugin::NodeResourcesFit
    )
}

impl CompiledProfile {
    /// Interns what a profile names.
    pub(super) fn new(cluster: &mut Cluster, profile: Profile) -> CompiledProfile {
        let brand = cluster.brand();
        let texts = cluster.texts_mut();
        let filter = &profile.enabled.filter;
        let last_local = filter.iter().rposition(|plugin| is_local(*plugin)).unwrap_or(0);
        let keys = |texts: &mut Interner, list: &[ResourceWeight]| -> Vec<(ResourceKey, i64)> {
            list.iter().map(|r| (ResourceKey::named(texts, &r.name), r.weight)).collect()
        };
        let arguments = &profile.arguments;
        let added = arguments.added_affinity.as_ref();
        let required = added.and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref());
        let preferred = added.map_or(&[][..], |a| &a.preferred_during_scheduling_ignored_during_execution);
        let hostname = texts.intern(&brand.label("hostname"));
        let zone = texts.intern(&format!("topology.{}", brand.label("zone")));
        let region = texts.intern(&format!("topology.{}", brand.label("region")));
        let old_zone = texts.intern(&format!("failure-domain.beta.{}", brand.label("zone")));
        let old_region = texts.intern(&format!("failure-domain.beta.{}", brand.label("region")));
        let default_spreads = match &arguments.spread_defaults {
            SpreadDefaults::System => system_spreads(hostname, zone),
            SpreadDefaults::List(list) => Spreads::compile(texts, &Labels::default(), list),
        };
        CompiledProfile {
            filters: filter.iter().copied().collect(),
            locals_first: filter.iter().take(last_local).all(|plugin| is_local(*plugin)),
            unschedulable: Taint {
                key: texts.intern(&format!("node.{}", brand.label("unschedulable"))),
                value: Symbol::EMPTY,
                effect: Effect::NoSchedule,
            },
            fit_resources: keys(texts, &arguments.fit_resources),
            balanced_resources: keys(texts, &arguments.balanced_resources)
                .into_iter()
                .map(|(key, _)| key)
                .collect(),
            ignored_resources: arguments.ignored_resources.iter().map(|name| texts.intern(name)).collect(),
            added_nodes: required.map(|required| NodeSelector::compile(texts, required)),
            added_preferred: compile_preferred(texts, preferred),
            default_spreads,
            system_spreads: arguments.spread_defaults == SpreadDefaults::System,
            native_mark: format!("{}/", brand.label_domain),
            hostname,
            zone_labels: [(zone, None), (region, None), (old_zone, Some(zone)), (old_region, Some(region))],
            profile,
        }
    }

    /// The weight of a plugin's score; 0 if it does not score.
    pub(super) fn weight(&self, plugin: Plugin) -> i64 {
        let score = &self.profile.enabled.score;
        score.iter().find(|weighted| weighted.plugin == plugin).map_or(0, |weighted| weighted.weight)
    }

    /// Whether NodeResourcesFit looks at a resource beyond CPU, memory and ephemeral storage.
    pub(super) fn counts_resource(&self, name: Symbol, texts: &Interner) -> bool {
        let text = texts.text(name);
        let Some((group, _)) = text.split_once('/').filter(|_| !text.contains(&self.native_mark)) else {
            return true;
        };
        let groups = &self.profile.arguments.ignored_resource_groups;
        !self.ignored_resources.contains(&name) && !groups.iter().any(|ignored| ignored == group)
    }

    /// Resources beyond CPU, memory and ephemeral storage that nodes are scored by.
    pub(super) fn scored_scalars(&self) -> impl Iterator<Item = Symbol> + '_ {
        let fit = self.fit_resources.iter().map(|(key, _)| key);
        fit.chain(&self.balanced_resources).filter_map(|key| match key {
            ResourceKey::Scalar(name) => Some(*name),
            ResourceKey::Cpu | ResourceKey::Memory | ResourceKey::EphemeralStorage => None,
        })
    }

    /// How NodeResourcesFit scores.
    pub(super) fn fit_strategy(&self) -> &Strategy {
        &self.profile.arguments.fit_strategy
    }
}

fn system_spreads(hostname: Symbol, zone: Symbol) -> Spreads {
    let soft = [(hostname, 3), (zone, 5)].map(|(topology_key, max_skew)| Spread {
        max_skew,
        topology_key,
        selector: Selector::default(),
        min_domains: 1,
        affinity_policy: NodePolicy::Honor,
        taints_policy: NodePolicy::Ignore,
    });
    Spreads { hard: Vec::new(), soft: soft.into() }
}
