//! Rules of the arguments of plugins.

use orch_schema::SignedDuration;

use crate::config::arguments::{
    BalancedAllocationArgs, DefaultPreemptionArgs, DynamicResourcesArgs, InterPodAffinityArgs,
    NodeResourcesFitArgs, PluginArgs, PodTopologySpreadArgs, ResourceSpec, ShapePoint, SpreadConstraint,
    VolumeBindingArgs,
};
use crate::config::faults::{Faults, Verbatim};
use crate::config::node_affinity::node_affinity_faults;
use crate::config::notation::quote;
use crate::config::qualified_name;

const STRATEGIES: [&str; 3] = ["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"];

/// Notes what is wrong with arguments at `path`.
pub(super) fn check_args(path: &str, args: &PluginArgs, faults: &mut Faults) {
    match args {
        PluginArgs::DefaultPreemption(args) => check_preemption(path, args, faults),
        PluginArgs::DynamicResources(args) => check_dynamic_resources(path, args, faults),
        PluginArgs::InterPodAffinity(InterPodAffinityArgs { hard_pod_affinity_weight: weight, .. }) => {
            if let Some(weight) = weight.filter(|weight| !(0..=100).contains(weight)) {
                let path = format!("{path}.hardPodAffinityWeight");
                faults.invalid(&path, weight, "not in valid range [0, 100]");
            }
        }
        PluginArgs::NodeAffinity(args) => {
            if let Some(affinity) = &args.added_affinity {
                node_affinity_faults(&format!("{path}.addedAffinity"), affinity, faults);
            }
        }
        PluginArgs::NodeResourcesBalancedAllocation(args) => check_balanced(path, args, faults),
        PluginArgs::PodTopologySpread(args) => check_spread(path, args, faults),
        PluginArgs::VolumeBinding(args) => check_volume_binding(path, args, faults),
        // Those of `NodeResourcesFit` are checked when the profile is set up, as in the reference.
        PluginArgs::NodeResourcesFit(_) | PluginArgs::Unknown(_) => {}
    }
}

fn check_preemption(path: &str, args: &DefaultPreemptionArgs, faults: &mut Faults) {
    let percentage = args.min_candidate_nodes_percentage.unwrap_or_default();
    let absolute = args.min_candidate_nodes_absolute.unwrap_or_default();
    let percentage_path = format!("{path}.minCandidateNodesPercentage");
    let absolute_path = format!("{path}.minCandidateNodesAbsolute");
    if !(0..=100).contains(&percentage) {
        faults.invalid(&percentage_path, percentage, "not in valid range [0, 100]");
    }
    if absolute < 0 {
        faults.invalid(&absolute_path, absolute, "not in valid range [0, inf)");
    }
    if percentage == 0 && absolute == 0 {
        let rule = |other: &str| format!("cannot be zero at the same time as {other}");
        faults.invalid(&percentage_path, percentage, rule("minCandidateNodesAbsolute"));
        faults.invalid(&absolute_path, absolute, rule("minCandidateNodesPercentage"));
    }
}

fn check_dynamic_resources(path: &str, args: &DynamicResourcesArgs, faults: &mut Faults) {
    if let Some(timeout) = args.filter_timeout.filter(|timeout| *timeout < SignedDuration::default()) {
        faults.invalid(&format!("{path}.filterTimeout"), timeout, "must be zero or positive");
    }
    if let Some(timeout) = args.binding_timeout.filter(|timeout| *timeout < SignedDuration::from_secs(1)) {
        faults.invalid(&format!("{path}.bindingTimeout"), timeout, "must be at least 1 second");
    }
}

fn check_balanced(path: &str, args: &BalancedAllocationArgs, faults: &mut Faults) {
    for (at, resource) in args.resources.iter().enumerate() {
        let path = format!("{path}.resources[{at}]");
        if args.resources[..at].iter().any(|earlier| earlier.name == resource.name) {
            faults.duplicate(&format!("{path}.name"), &quote(&resource.name));
        }
        if resource.weight != 1 {
            faults.invalid(&format!("{path}.weight"), resource.weight, "must be 1");
        }
    }
}

fn check_spread(path: &str, args: &PodTopologySpreadArgs, faults: &mut Faults) {
    let defaulting = format!("{path}.defaultingType");
    match args.defaulting_type.as_str() {
        "System" if !args.default_constraints.is_empty() => {
            faults.invalid(&defaulting, "System", "when .defaultConstraints are not empty");
        }
        "System" | "List" => {}
        other => faults.unsupported(&defaulting, other, &["System", "List"]),
    }
    for (at, constraint) in args.default_constraints.iter().enumerate() {
        let place = format!("{path}.defaultConstraints[{at}]");
        check_constraint(&place, constraint, faults);
        let is_same = |earlier: &SpreadConstraint| {
            earlier.topology_key == constraint.topology_key
                && earlier.when_unsatisfiable == constraint.when_unsatisfiable
        };
        if args.default_constraints[..at].iter().any(is_same) {
            let value = format!("{{{}, {}}}", constraint.topology_key, constraint.when_unsatisfiable);
            faults.duplicate(&place, &quote(&value));
        }
    }
}

fn check_constraint(place: &str, constraint: &SpreadConstraint, faults: &mut Faults) {
    if constraint.max_skew <= 0 {
        faults.invalid(&format!("{place}.maxSkew"), constraint.max_skew, "not in valid range (0, inf)");
    }
    let key = constraint.topology_key.as_str();
    let key_path = format!("{place}.topologyKey");
    if key.is_empty() {
        faults.required(&key_path, "can not be empty");
    } else {
        for fault in qualified_name::faults(key) {
            faults.invalid(&key_path, key, fault);
        }
    }
    let action = format!("{place}.whenUnsatisfiable");
    match constraint.when_unsatisfiable.as_str() {
        "DoNotSchedule" | "ScheduleAnyway" => {}
        "" => faults.required(&action, "can not be empty"),
        other => faults.unsupported(&action, other, &["DoNotSchedule", "ScheduleAnyway"]),
    }
    if !constraint.label_selector.0.is_null() {
        let detail = "constraint must not define a selector, as they deduced for each pod";
        faults.forbidden(&format!("{place}.labelSelector"), detail);
    }
}

fn check_volume_binding(path: &str, args: &VolumeBindingArgs, faults: &mut Faults) {
    if let Some(seconds) = args.bind_timeout_seconds.filter(|seconds| *seconds < 0) {
        let rule = "invalid BindTimeoutSeconds, should not be a negative value";
        faults.invalid(&format!("{path}.bindTimeoutSeconds"), seconds, rule);
    }
    if !args.shape.is_empty() {
        let points = args
            .shape
            .iter()
            .map(|point| format!("{{\"Utilization\":{},\"Score\":{}}}", point.utilization, point.score));
        let shown = Verbatim(format!("[{}]", points.collect::<Vec<_>>().join(",")));
        let rule = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring";
        faults.invalid(&format!("{path}.shape"), shown, rule);
    }
}

/// Validates arguments of `NodeResourcesFit`. Paths are relative to the arguments.
pub(in crate::config) fn fit_args_faults(args: &NodeResourcesFitArgs) -> Faults {
    let mut faults = Faults::default();
    for (at, resource) in args.ignored_resources.iter().enumerate() {
        for fault in qualified_name::faults(resource) {
            faults.invalid(&format!("ignoredResources[{at}]"), resource.as_str(), fault);
        }
    }
    for (at, group) in args.ignored_resource_groups.iter().enumerate() {
        let path = format!("ignoredResourceGroups[{at}]");
        if group.contains('/') {
            faults.invalid(&path, group.as_str(), "resource group name can't contain '/'");
        }
        for fault in qualified_name::faults(group) {
            faults.invalid(&path, group.as_str(), fault);
        }
    }
    let Some(strategy) = &args.scoring_strategy else {
        faults.required("scoringStrategy", "ScoringStrategy field is required");
        return faults;
    };
    if !STRATEGIES.contains(&strategy.strategy.as_str()) {
        faults.unsupported("scoringStrategy.type", &strategy.strategy, &STRATEGIES);
    }
    for (at, ResourceSpec { name, weight }) in strategy.resources.iter().enumerate() {
        if !(1..=100).contains(weight) {
            let rule = format!("resource weight of {name} not in valid range (0, 100]");
            faults.invalid(&format!("scoringStrategy.resources[{at}].weight"), *weight, rule);
        }
    }
    let path = "scoringStrategy.requestedToCapacityRatio";
    let is_ratio = strategy.strategy == "RequestedToCapacityRatio";
    match &strategy.requested_to_capacity_ratio {
        Some(ratio) if is_ratio => check_shape(&format!("{path}.shape"), &ratio.shape, &mut faults),
        None if is_ratio => {
            faults.required(path, "must be specified when type is RequestedToCapacityRatio");
        }
        Some(_) => faults.forbidden(path, "must be nil when type is not RequestedToCapacityRatio"),
        None => {}
    }
    faults
}

fn check_shape(path: &str, shape: &[ShapePoint], faults: &mut Faults) {
    if shape.is_empty() {
        faults.required(path, "at least one point must be specified");
        return;
    }
    let unordered = shape.windows(2).position(|pair| pair[0].utilization >= pair[1].utilization);
    if let Some(at) = unordered.map(|before| before + 1) {
        let rule = "values must be sorted in increasing order";
        faults.invalid(&format!("{path}[{at}].utilization"), shape[at].utilization, rule);
    }
    for (at, point) in shape.iter().enumerate() {
        if !(0..=100).contains(&point.utilization) {
            let path = format!("{path}[{at}].utilization");
            faults.invalid(&path, point.utilization, "not in valid range [0, 100]");
        }
        if !(0..=10).contains(&point.score) {
            faults.invalid(&format!("{path}[{at}].score"), point.score, "not in valid range [0, 10]");
        }
    }
}
