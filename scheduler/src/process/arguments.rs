//! Arguments of plugins as the planner takes them.
//!
//! Owns the translation; defaults and rules are the configuration's, so that absent members only occur where the
//! reference leaves them absent, too.

use crate::api::core::v1;
use crate::config::arguments::{
    NodeAffinity, NodeResourcesFitArgs, NodeSelectorTerm, PluginArgs, Requirement, ResourceSpec,
    SpreadConstraint,
};
use crate::config::profile::PluginConfig;
use crate::plan::profile::{Arguments, ResourceWeight, ShapePoint, SpreadDefaults, Strategy};

/// The arguments of all plugins of a profile.
pub(super) fn arguments(configs: &[PluginConfig]) -> Result<Arguments, String> {
    let mut arguments = Arguments::default();
    for config in configs {
        apply(&mut arguments, &config.args)?;
    }
    Ok(arguments)
}

fn apply(into: &mut Arguments, args: &PluginArgs) -> Result<(), String> {
    match args {
        PluginArgs::DefaultPreemption(args) => {
            replace(&mut into.min_candidate_nodes_percentage, args.min_candidate_nodes_percentage);
            replace(&mut into.min_candidate_nodes_absolute, args.min_candidate_nodes_absolute);
        }
        PluginArgs::DynamicResources(args) => {
            let timeout = args.filter_timeout.map(|timeout| timeout.duration().as_millis());
            let timeout = timeout.map(|timeout| u64::try_from(timeout).unwrap_or(u64::MAX));
            replace(&mut into.filter_timeout_ms, timeout);
            let timeout = args.binding_timeout.map(|timeout| timeout.duration().as_secs());
            let timeout = timeout.map(|timeout| i64::try_from(timeout).unwrap_or(i64::MAX));
            replace(&mut into.binding_timeout_seconds, timeout);
        }
        PluginArgs::InterPodAffinity(args) => {
            replace(&mut into.hard_pod_affinity_weight, args.hard_pod_affinity_weight);
            into.ignore_preferred_terms_of_existing_pods = args.ignore_preferred_terms_of_existing_pods;
        }
        PluginArgs::NodeAffinity(args) => into.added_affinity = args.added_affinity.as_ref().map(affinity),
        PluginArgs::NodeResourcesBalancedAllocation(args) => {
            into.balanced_resources = weights(&args.resources);
        }
        PluginArgs::NodeResourcesFit(args) => apply_fit(into, args)?,
        PluginArgs::PodTopologySpread(args) => {
            into.spread_defaults = match args.defaulting_type.as_str() {
                "System" => SpreadDefaults::System,
                _ => SpreadDefaults::List(args.default_constraints.iter().map(constraint).collect()),
            };
        }
        PluginArgs::VolumeBinding(args) => replace(&mut into.bind_timeout_seconds, args.bind_timeout_seconds),
        // Of a plugin that has no arguments: without effect, as in the reference.
        PluginArgs::Unknown(_) => {}
    }
    Ok(())
}

fn replace<T>(field: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *field = given;
    }
}

fn apply_fit(into: &mut Arguments, args: &NodeResourcesFitArgs) -> Result<(), String> {
    into.ignored_resources.clone_from(&args.ignored_resources);
    into.ignored_resource_groups.clone_from(&args.ignored_resource_groups);
    let Some(scoring) = &args.scoring_strategy else { return Ok(()) };
    into.fit_resources = weights(&scoring.resources);
    into.fit_strategy = match scoring.strategy.as_str() {
        "LeastAllocated" => Strategy::LeastAllocated,
        "MostAllocated" => Strategy::MostAllocated,
        "RequestedToCapacityRatio" => {
            let shape = scoring.requested_to_capacity_ratio.iter().flat_map(|ratio| &ratio.shape);
            let point = |point: &crate::config::arguments::ShapePoint| ShapePoint {
                utilization: i64::from(point.utilization),
                score: i64::from(point.score),
            };
            Strategy::RequestedToCapacityRatio(shape.map(point).collect())
        }
        other => return Err(format!("NodeResourcesFit has no scoring strategy {other:?}")),
    };
    Ok(())
}

fn weights(resources: &[ResourceSpec]) -> Vec<ResourceWeight> {
    let weight =
        |resource: &ResourceSpec| ResourceWeight { name: resource.name.clone(), weight: resource.weight };
    resources.iter().map(weight).collect()
}

fn affinity(affinity: &NodeAffinity) -> v1::NodeAffinity {
    let required = affinity.required.as_ref().map(|selector| v1::NodeSelector {
        node_selector_terms: selector.node_selector_terms.iter().map(term).collect(),
    });
    let preferred = affinity.preferred.iter().map(|preferred| v1::PreferredSchedulingTerm {
        weight: preferred.weight,
        preference: Some(term(&preferred.preference)),
    });
    v1::NodeAffinity {
        required_during_scheduling_ignored_during_execution: required,
        preferred_during_scheduling_ignored_during_execution: preferred.collect(),
    }
}

fn term(term: &NodeSelectorTerm) -> v1::NodeSelectorTerm {
    let requirement = |requirement: &Requirement| v1::NodeSelectorRequirement {
        key: requirement.key.clone(),
        operator: requirement.operator.clone(),
        values: requirement.values.clone(),
    };
    v1::NodeSelectorTerm {
        match_expressions: term.match_expressions.iter().map(requirement).collect(),
        match_fields: term.match_fields.iter().map(requirement).collect(),
    }
}

/// The selector stays absent: it is made of the pod's owners.
fn constraint(constraint: &SpreadConstraint) -> v1::TopologySpreadConstraint {
    v1::TopologySpreadConstraint {
        max_skew: constraint.max_skew,
        topology_key: constraint.topology_key.clone(),
        when_unsatisfiable: constraint.when_unsatisfiable.clone(),
        label_selector: None,
        min_domains: constraint.min_domains,
        node_affinity_policy: constraint.node_affinity_policy.clone(),
        node_taints_policy: constraint.node_taints_policy.clone(),
        match_label_keys: constraint.match_label_keys.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::testing::configuration;

    /// The arguments of a profile with `args` of `plugin`.
    fn with(plugin: &str, args: &str) -> Arguments {
        let members = format!("profiles:\n- pluginConfig: [{{name: {plugin}, args: {args}}}]\n");
        arguments(&configuration(&members).profiles[0].plugin_config).unwrap()
    }

    #[test]
    fn each_argument_changes_its_field() {
        let default = Arguments::default;
        let weight = |name: &str, weight| ResourceWeight { name: name.to_owned(), weight };
        for (plugin, args, expected) in [
            (
                "DefaultPreemption",
                "{minCandidateNodesPercentage: 20, minCandidateNodesAbsolute: 7}",
                Arguments {
                    min_candidate_nodes_percentage: 20,
                    min_candidate_nodes_absolute: 7,
                    ..default()
                },
            ),
            (
                "InterPodAffinity",
                "{hardPodAffinityWeight: 0, ignorePreferredTermsOfExistingPods: true}",
                Arguments {
                    hard_pod_affinity_weight: 0,
                    ignore_preferred_terms_of_existing_pods: true,
                    ..default()
                },
            ),
            (
                "NodeResourcesBalancedAllocation",
                "{resources: [{name: cpu, weight: 1}]}",
                Arguments { balanced_resources: vec![weight("cpu", 1)], ..default() },
            ),
            (
                "NodeResourcesFit",
                "{ignoredResources: [example.com/a], ignoredResourceGroups: [example.org], scoringStrategy: \
                 {type: MostAllocated, resources: [{name: memory, weight: 3}]}}",
                Arguments {
                    ignored_resources: vec!["example.com/a".to_owned()],
                    ignored_resource_groups: vec!["example.org".to_owned()],
                    fit_strategy: Strategy::MostAllocated,
                    fit_resources: vec![weight("memory", 3)],
                    ..default()
                },
            ),
            (
                "NodeResourcesFit",
                "{scoringStrategy: {type: RequestedToCapacityRatio, resources: [{name: cpu, weight: 1}], \
                 requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]}}}",
                Arguments {
                    fit_strategy: Strategy::RequestedToCapacityRatio(vec![
                        ShapePoint { utilization: 0, score: 0 },
                        ShapePoint { utilization: 100, score: 10 },
                    ]),
                    fit_resources: vec![weight("cpu", 1)],
                    ..default()
                },
            ),
            ("VolumeBinding", "{bindTimeoutSeconds: 9}", Arguments { bind_timeout_seconds: 9, ..default() }),
            ("DynamicResources", "{filterTimeout: 3s}", Arguments { filter_timeout_ms: 3_000, ..default() }),
            (
                "DynamicResources",
                "{bindingTimeout: 2m}",
                Arguments { binding_timeout_seconds: 120, ..default() },
            ),
        ] {
            assert_eq!(with(plugin, args), expected, "{plugin} {args}");
        }
    }

    #[test]
    fn constraints_and_affinity_become_the_apis_structs() {
        let spread = with(
            "PodTopologySpread",
            "{defaultingType: List, defaultConstraints: [{maxSkew: 2, topologyKey: zone, whenUnsatisfiable: \
             DoNotSchedule}]}",
        );
        let SpreadDefaults::List(constraints) = spread.spread_defaults else { panic!("{spread:?}") };
        assert_eq!(constraints.len(), 1);
        assert_eq!((constraints[0].max_skew, constraints[0].topology_key.as_str()), (2, "zone"));
        assert_eq!(constraints[0].when_unsatisfiable, "DoNotSchedule");
        let added = with(
            "NodeAffinity",
            "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: \
             [{matchExpressions: [{key: a, operator: In, values: [b]}]}]}, \
             preferredDuringSchedulingIgnoredDuringExecution: [{weight: 4, preference: {matchFields: \
             [{key: metadata.name, operator: In, values: [node]}]}}]}}",
        );
        let added = added.added_affinity.unwrap();
        let required = added.required_during_scheduling_ignored_during_execution.unwrap();
        let requirement = &required.node_selector_terms[0].match_expressions[0];
        assert_eq!((requirement.key.as_str(), requirement.operator.as_str()), ("a", "In"));
        assert_eq!(requirement.values, ["b"]);
        let preferred = &added.preferred_during_scheduling_ignored_during_execution[0];
        assert_eq!(preferred.weight, 4);
        assert_eq!(preferred.preference.as_ref().unwrap().match_fields[0].values, ["node"]);
    }
}
