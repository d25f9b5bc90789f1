//! Defaults of the configuration file: absent fields, the default plugins, and what a profile changes of them.

use orch_proto::Brand;
use orch_schema::SignedDuration;

use crate::plugin::Plugin;

use super::arguments::{
    BalancedAllocationArgs, CONFIGURABLE, NodeResourcesFitArgs, PluginArgs, ResourceSpec, ScoringStrategy,
};
use super::names::component;
use super::profile::PluginConfig;
use super::types::{
    ClientConnection, FileConfiguration, LeaderElection, Plugin as FilePlugin, PluginSet, PluginSets,
};

/// Nodes that are looked at beside each other.
pub(crate) const PARALLELISM: i32 = 16;
/// Requests to the API server a second, on average.
const QPS: f32 = 50.0;
/// Requests to the API server at once beyond that.
const BURST: i32 = 100;
/// Seconds until an unschedulable pod is first tried again.
const INITIAL_BACKOFF_SECONDS: i64 = 1;
/// Most seconds between two tries of a pod.
const MAX_BACKOFF_SECONDS: i64 = 10;

impl FileConfiguration {
    /// Fills absent fields, but those of profiles.
    pub(super) fn set_defaults(&mut self, brand: &Brand) {
        self.parallelism.get_or_insert(PARALLELISM);
        self.percentage_of_nodes_to_score.get_or_insert(0);
        self.pod_initial_backoff_seconds.get_or_insert(INITIAL_BACKOFF_SECONDS);
        self.pod_max_backoff_seconds.get_or_insert(MAX_BACKOFF_SECONDS);
        let is_profiling = *self.enable_profiling.get_or_insert(true);
        self.enable_contention_profiling.get_or_insert(is_profiling);
        self.leader_election.set_defaults(brand);
        self.client_connection.set_defaults(brand);
        if self.profiles.is_empty() {
            self.profiles.push(super::types::FileProfile::default());
        }
        // With several profiles each needs a name of its own; validation says so.
        if let [only] = self.profiles.as_mut_slice() {
            only.scheduler_name.get_or_insert_with(|| brand.scheduler_name.to_owned());
        }
    }
}

impl LeaderElection {
    fn set_defaults(&mut self, brand: &Brand) {
        self.leader_elect.get_or_insert(true);
        for (span, seconds) in
            [(&mut self.lease_duration, 15), (&mut self.renew_deadline, 10), (&mut self.retry_period, 2)]
        {
            if *span == SignedDuration::default() {
                *span = SignedDuration::from_secs(seconds);
            }
        }
        fill(&mut self.resource_lock, "leases");
        fill(&mut self.resource_name, &component(brand));
        fill(&mut self.resource_namespace, brand.system_namespace);
    }
}

impl ClientConnection {
    fn set_defaults(&mut self, brand: &Brand) {
        fill(&mut self.content_type, brand.protobuf_media_type);
        if self.qps == 0.0 {
            self.qps = QPS;
        }
        if self.burst == 0 {
            self.burst = BURST;
        }
    }
}

fn fill(text: &mut String, default: &str) {
    if text.is_empty() {
        default.clone_into(text);
    }
}

/// The default plugins with what `custom` changes.
pub(super) fn merged_plugins(custom: Option<&PluginSets>) -> PluginSets {
    let mut default = PluginSets::default();
    let with_weight = |plugin: Plugin| {
        let weight = Some(plugin.default_weight());
        FilePlugin { name: plugin.name().to_owned(), weight }
    };
    default.multi_point.enabled = Plugin::ALL.map(with_weight).into();
    let Some(custom) = custom else { return default };
    let mut merged = custom.clone();
    for set in merged.all_mut() {
        *set = merged_set(&PluginSet::default(), set);
    }
    merged.multi_point = merged_set(&default.multi_point, &custom.multi_point);
    merged
}

/// `default` with what `custom` changes: an enabled plugin replaces the default one of its name in its place.
fn merged_set(default: &PluginSet, custom: &PluginSet) -> PluginSet {
    let disabled = |name: &str| custom.disabled.iter().any(|plugin| plugin.name == name);
    let complete = |plugin: &FilePlugin| FilePlugin {
        name: plugin.name.clone(),
        weight: Some(plugin.weight.unwrap_or(0)),
    };
    let mut enabled = Vec::new();
    let mut replacing = Vec::new();
    if !disabled("*") {
        for plugin in default.enabled.iter().filter(|plugin| !disabled(&plugin.name)) {
            // Of repeated custom plugins the last replaces the default one; the others are found to be double later.
            match custom.enabled.iter().rposition(|custom| custom.name == plugin.name) {
                Some(at) => {
                    replacing.push(at);
                    enabled.push(complete(&custom.enabled[at]));
                }
                None => enabled.push(plugin.clone()),
            }
        }
    }
    let others = custom.enabled.iter().enumerate().filter(|(at, _)| !replacing.contains(at));
    enabled.extend(others.map(|(_, plugin)| complete(plugin)));
    let disabled =
        custom.disabled.iter().map(|plugin| FilePlugin { name: plugin.name.clone(), weight: Some(0) });
    PluginSet { enabled, disabled: disabled.collect() }
}

/// `given` with defaults, followed by the default arguments of the enabled plugins that have none.
pub(super) fn completed_args(
    mut given: Vec<PluginConfig>,
    plugins: &PluginSets,
    brand: &'static Brand,
) -> Vec<PluginConfig> {
    for config in &mut given {
        config.args.set_defaults();
    }
    let is_enabled = |name: &str| {
        let sets = plugins.by_point();
        let mut sets = sets.iter().map(|(_, set)| *set).chain([&plugins.multi_point]);
        sets.any(|set| set.enabled.iter().any(|plugin| plugin.name == name))
    };
    for name in CONFIGURABLE {
        let is_given = given.iter().any(|config| config.name == name);
        if is_enabled(name)
            && !is_given
            && let Some(args) = PluginArgs::of(name, brand)
        {
            given.push(PluginConfig { name: name.to_owned(), args });
        }
    }
    given
}

impl PluginArgs {
    /// Fills absent fields.
    pub(super) fn set_defaults(&mut self) {
        match self {
            PluginArgs::DefaultPreemption(args) => {
                args.min_candidate_nodes_percentage.get_or_insert(10);
                args.min_candidate_nodes_absolute.get_or_insert(100);
            }
            PluginArgs::DynamicResources(args) => {
                args.filter_timeout.get_or_insert(SignedDuration::from_secs(10));
                args.binding_timeout.get_or_insert(SignedDuration::from_secs(600));
            }
            PluginArgs::InterPodAffinity(args) => {
                args.hard_pod_affinity_weight.get_or_insert(1);
            }
            PluginArgs::NodeResourcesBalancedAllocation(BalancedAllocationArgs { resources }) => {
                complete_resources(resources);
            }
            PluginArgs::NodeResourcesFit(NodeResourcesFitArgs { scoring_strategy, .. }) => {
                let strategy = scoring_strategy.get_or_insert_with(|| ScoringStrategy {
                    strategy: "LeastAllocated".to_owned(),
                    ..ScoringStrategy::default()
                });
                complete_resources(&mut strategy.resources);
            }
            PluginArgs::PodTopologySpread(args) => fill(&mut args.defaulting_type, "System"),
            PluginArgs::VolumeBinding(args) => {
                args.bind_timeout_seconds.get_or_insert(600);
            }
            PluginArgs::NodeAffinity(_) | PluginArgs::Unknown(_) => {}
        }
    }
}

fn complete_resources(resources: &mut Vec<ResourceSpec>) {
    if resources.is_empty() {
        let names = ["cpu", "memory"].map(str::to_owned);
        resources.extend(names.map(|name| ResourceSpec { name, weight: 1 }));
    }
    for resource in resources {
        if resource.weight == 0 {
            resource.weight = 1;
        }
    }
}
