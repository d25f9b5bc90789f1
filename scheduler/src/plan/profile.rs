//! A profile: which plugins run at which extension point, their weights and arguments.
//!
//! Plain data without a file format; the configuration of the process fills it in. [`Profile::default`] is the
//! default configuration of the reference.

use crate::api::core::v1;
pub use crate::plugin::{ExtensionPoint, Plugin, PluginSet};

/// A plugin that scores, and how much its score counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weighted {
    /// The plugin.
    pub plugin: Plugin,
    /// Its weight; at least 1.
    pub weight: i64,
}

/// The plugins of each extension point, in the order in which they are called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "one list per extension point, under its name")]
pub struct Enabled {
    pub pre_enqueue: Vec<Plugin>,
    pub queue_sort: Vec<Plugin>,
    pub pre_filter: Vec<Plugin>,
    pub filter: Vec<Plugin>,
    pub post_filter: Vec<Plugin>,
    pub pre_score: Vec<Plugin>,
    pub score: Vec<Weighted>,
    pub reserve: Vec<Plugin>,
    pub permit: Vec<Plugin>,
    pub pre_bind: Vec<Plugin>,
    pub bind: Vec<Plugin>,
    pub post_bind: Vec<Plugin>,
}

impl Enabled {
    /// Every plugin at every point where it does something: what `multiPoint` means. A weight of 0 is 1.
    pub fn multi_point(plugins: &[Weighted]) -> Enabled {
        let mut enabled = Enabled::default();
        for weighted in plugins {
            for point in weighted.plugin.points() {
                match enabled.at(*point) {
                    Some(list) => list.push(weighted.plugin),
                    None => enabled
                        .score
                        .push(Weighted { plugin: weighted.plugin, weight: weighted.weight.max(1) }),
                }
            }
        }
        enabled
    }

    /// The list of an extension point; `None` for [`ExtensionPoint::Score`], whose entries have weights.
    pub fn at(&mut self, point: ExtensionPoint) -> Option<&mut Vec<Plugin>> {
        Some(match point {
            ExtensionPoint::PreEnqueue => &mut self.pre_enqueue,
            ExtensionPoint::QueueSort => &mut self.queue_sort,
            ExtensionPoint::PreFilter => &mut self.pre_filter,
            ExtensionPoint::Filter => &mut self.filter,
            ExtensionPoint::PostFilter => &mut self.post_filter,
            ExtensionPoint::PreScore => &mut self.pre_score,
            ExtensionPoint::Score => return None,
            ExtensionPoint::Reserve => &mut self.reserve,
            ExtensionPoint::Permit => &mut self.permit,
            ExtensionPoint::PreBind => &mut self.pre_bind,
            ExtensionPoint::Bind => &mut self.bind,
            ExtensionPoint::PostBind => &mut self.post_bind,
        })
    }
}

/// How NodeResourcesFit scores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Prefers nodes with much room.
    LeastAllocated,
    /// Prefers nodes that are nearly full.
    MostAllocated,
    /// A broken line from utilisation (0 to 100) to score (0 to 10), by ascending utilisation.
    RequestedToCapacityRatio(Vec<ShapePoint>),
}

/// A point of the line of `requestedToCapacityRatio`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapePoint {
    /// Percent.
    pub utilization: i64,
    /// 0 to 10.
    pub score: i64,
}

/// A resource that is scored, and its weight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceWeight {
    /// Name of the resource.
    pub name: String,
    /// 1 to 100.
    pub weight: i64,
}

/// Which constraints PodTopologySpread gives to pods that have none.
#[derive(Clone, Debug, PartialEq)]
pub enum SpreadDefaults {
    /// The built-in constraints: over host names (skew 3) and zones (skew 5), both `ScheduleAnyway`.
    System,
    /// The constraints of the configuration file; may be empty.
    List(Vec<v1::TopologySpreadConstraint>),
}

/// The arguments of the plugins.
#[derive(Clone, Debug, PartialEq)]
pub struct Arguments {
    /// DefaultPreemption: percentage of nodes to try at least.
    pub min_candidate_nodes_percentage: i32,
    /// DefaultPreemption: number of nodes to try at least.
    pub min_candidate_nodes_absolute: i32,
    /// InterPodAffinity: what a required affinity term of a pod on a node adds to the score of others that match it.
    pub hard_pod_affinity_weight: i32,
    /// InterPodAffinity: leave out preferred terms of pods on nodes if the new pod has no terms.
    pub ignore_preferred_terms_of_existing_pods: bool,
    /// NodeAffinity: an affinity that every pod of the profile has in addition.
    pub added_affinity: Option<v1::NodeAffinity>,
    /// NodeResourcesBalancedAllocation: the resources that are balanced.
    pub balanced_resources: Vec<ResourceWeight>,
    /// NodeResourcesFit: how it scores.
    pub fit_strategy: Strategy,
    /// NodeResourcesFit: the resources that are scored.
    pub fit_resources: Vec<ResourceWeight>,
    /// NodeResourcesFit: extended resources that are not looked at.
    pub ignored_resources: Vec<String>,
    /// NodeResourcesFit: domains of extended resources that are not looked at.
    pub ignored_resource_groups: Vec<String>,
    /// PodTopologySpread: constraints of pods that have none.
    pub spread_defaults: SpreadDefaults,
    /// VolumeBinding: how long the executor waits for volumes to be bound, in seconds.
    pub bind_timeout_seconds: i64,
    /// DynamicResources: how long devices of a pod may take to become usable, in seconds.
    pub binding_timeout_seconds: i64,
    /// DynamicResources: how long the allocation of one node may take, in milliseconds; 0 is no limit.
    pub filter_timeout_ms: u64,
}

impl Default for Arguments {
    fn default() -> Arguments {
        let cpu_and_memory =
            || ["cpu", "memory"].map(|name| ResourceWeight { name: name.into(), weight: 1 }).to_vec();
        Arguments {
            min_candidate_nodes_percentage: 10,
            min_candidate_nodes_absolute: 100,
            hard_pod_affinity_weight: 1,
            ignore_preferred_terms_of_existing_pods: false,
            added_affinity: None,
            balanced_resources: cpu_and_memory(),
            fit_strategy: Strategy::LeastAllocated,
            fit_resources: cpu_and_memory(),
            ignored_resources: Vec::new(),
            ignored_resource_groups: Vec::new(),
            spread_defaults: SpreadDefaults::System,
            bind_timeout_seconds: 600,
            binding_timeout_seconds: 600,
            filter_timeout_ms: 10_000,
        }
    }
}

/// A profile of the configuration file.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Pods with this `spec.schedulerName` are planned with it.
    pub scheduler_name: String,
    /// Its plugins.
    pub enabled: Enabled,
    /// Their arguments.
    pub arguments: Arguments,
    /// How many of the nodes are filtered until enough fit, in percent. 0 and 100 are all: no sample is ever taken
    /// unless one is asked for.
    pub percentage_of_nodes_to_score: i32,
}

impl Default for Profile {
    fn default() -> Profile {
        let plugins = Plugin::ALL.map(|plugin| Weighted { plugin, weight: plugin.default_weight().into() });
        Profile {
            scheduler_name: "default-scheduler".into(),
            enabled: Enabled::multi_point(&plugins),
            arguments: Arguments::default(),
            percentage_of_nodes_to_score: 0,
        }
    }
}
