//! Arguments of plugins: their structs, decoding by the plugin's name, and defaults.

use orch_proto::Brand;
use orch_schema::SignedDuration;
use serde_json::Value;

use super::document::Node;
use super::names::{args_kind, group_version};
use super::wire::{Raw, Reading, Wire, node_of, wire};

wire! {
    /// Arguments of `DefaultPreemption`.
    pub struct DefaultPreemptionArgs = "v1.DefaultPreemptionArgs" {
        /// Least percentage of the nodes that are tried.
        min_candidate_nodes_percentage: Option<i32> = "minCandidateNodesPercentage";
        /// Least number of nodes that are tried.
        min_candidate_nodes_absolute: Option<i32> = "minCandidateNodesAbsolute";
    }
}

wire! {
    /// Arguments of `DynamicResources`.
    pub struct DynamicResourcesArgs = "v1.DynamicResourcesArgs" {
        /// Longest time that filtering one node may take; zero for no limit.
        filter_timeout: Option<SignedDuration> = "filterTimeout", keep;
        /// Longest wait for conditions of devices.
        binding_timeout: Option<SignedDuration> = "bindingTimeout";
    }
}

wire! {
    /// Arguments of `InterPodAffinity`.
    pub struct InterPodAffinityArgs = "v1.InterPodAffinityArgs" {
        /// Score of other pods' required affinity to the pod.
        hard_pod_affinity_weight: Option<i32> = "hardPodAffinityWeight";
        /// Whether other pods' preferences count only for pods with affinity of their own.
        ignore_preferred_terms_of_existing_pods: bool = "ignorePreferredTermsOfExistingPods", keep;
    }
}

wire! {
    /// Arguments of `NodeAffinity`.
    pub struct NodeAffinityArgs = "v1.NodeAffinityArgs" {
        /// Affinity that every pod has beside its own.
        added_affinity: Option<NodeAffinity> = "addedAffinity";
    }
}

wire! {
    /// Affinity to nodes.
    pub struct NodeAffinity = "v1.NodeAffinity" {
        /// Required terms.
        required: Option<NodeSelector> = "requiredDuringSchedulingIgnoredDuringExecution";
        /// Preferred terms with weights.
        preferred: Vec<PreferredTerm> = "preferredDuringSchedulingIgnoredDuringExecution";
    }
}

wire! {
    /// A selector of nodes: one of its terms has to match.
    pub struct NodeSelector = "v1.NodeSelector" {
        /// The terms.
        node_selector_terms: Vec<NodeSelectorTerm> = "nodeSelectorTerms", keep;
    }
}

wire! {
    /// A preference with its weight.
    pub struct PreferredTerm = "v1.PreferredSchedulingTerm" {
        /// 1 to 100.
        weight: i32 = "weight", keep;
        /// The term.
        preference: NodeSelectorTerm = "preference", keep;
    }
}

wire! {
    /// A term: all of its requirements have to match.
    pub struct NodeSelectorTerm = "v1.NodeSelectorTerm" {
        /// Requirements of labels.
        match_expressions: Vec<Requirement> = "matchExpressions";
        /// Requirements of fields.
        match_fields: Vec<Requirement> = "matchFields";
    }
}

wire! {
    /// A requirement of a label or field.
    pub struct Requirement = "v1.NodeSelectorRequirement" {
        /// Its name.
        key: String = "key", keep;
        /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
        operator: String = "operator", keep;
        /// The values.
        values: Vec<String> = "values";
    }
}

wire! {
    /// Arguments of `NodeResourcesBalancedAllocation`.
    pub struct BalancedAllocationArgs = "v1.NodeResourcesBalancedAllocationArgs" {
        /// The resources that are balanced.
        resources: Vec<ResourceSpec> = "resources";
    }
}

wire! {
    /// A resource with its weight.
    pub struct ResourceSpec = "v1.ResourceSpec" {
        /// Its name.
        name: String = "name", keep;
        /// Its weight.
        weight: i64 = "weight";
    }
}

wire! {
    /// Arguments of `NodeResourcesFit`.
    pub struct NodeResourcesFitArgs = "v1.NodeResourcesFitArgs" {
        /// Resources that nodes are not filtered by.
        ignored_resources: Vec<String> = "ignoredResources";
        /// Domains of such resources.
        ignored_resource_groups: Vec<String> = "ignoredResourceGroups";
        /// How nodes are scored.
        scoring_strategy: Option<ScoringStrategy> = "scoringStrategy";
    }
}

wire! {
    /// How nodes are scored by their resources.
    pub struct ScoringStrategy = "v1.ScoringStrategy" {
        /// `LeastAllocated`, `MostAllocated` or `RequestedToCapacityRatio`.
        strategy: String = "type";
        /// The resources that count.
        resources: Vec<ResourceSpec> = "resources";
        /// The curve of `RequestedToCapacityRatio`.
        requested_to_capacity_ratio: Option<CapacityRatio> = "requestedToCapacityRatio";
    }
}

wire! {
    /// A curve from utilization to score.
    pub struct CapacityRatio = "v1.RequestedToCapacityRatioParam" {
        /// Its points.
        shape: Vec<ShapePoint> = "shape";
    }
}

wire! {
    /// A point of a curve.
    pub struct ShapePoint = "v1.UtilizationShapePoint" {
        /// Utilization in percent.
        utilization: i32 = "utilization", keep;
        /// Score, 0 to 10.
        score: i32 = "score", keep;
    }
}

wire! {
    /// Arguments of `PodTopologySpread`.
    pub struct PodTopologySpreadArgs = "v1.PodTopologySpreadArgs" {
        /// Constraints of pods that have none.
        default_constraints: Vec<SpreadConstraint> = "defaultConstraints";
        /// `System` for built-in constraints, `List` for those above.
        defaulting_type: String = "defaultingType";
    }
}

wire! {
    /// A constraint on how pods are spread.
    pub struct SpreadConstraint = "v1.TopologySpreadConstraint" {
        /// Most that domains may differ.
        max_skew: i32 = "maxSkew", keep;
        /// Label that names the domains.
        topology_key: String = "topologyKey", keep;
        /// `DoNotSchedule` or `ScheduleAnyway`.
        when_unsatisfiable: String = "whenUnsatisfiable", keep;
        /// Must be absent: the pods are those of the pod's owner.
        label_selector: Raw = "labelSelector";
        /// Least number of domains.
        min_domains: Option<i32> = "minDomains";
        /// Whether nodes outside of the pod's affinity count.
        node_affinity_policy: Option<String> = "nodeAffinityPolicy";
        /// Whether tainted nodes count.
        node_taints_policy: Option<String> = "nodeTaintsPolicy";
        /// Labels whose values make groups.
        match_label_keys: Vec<String> = "matchLabelKeys";
    }
}

wire! {
    /// Arguments of `VolumeBinding`.
    pub struct VolumeBindingArgs = "v1.VolumeBindingArgs" {
        /// Longest wait for volumes.
        bind_timeout_seconds: Option<i64> = "bindTimeoutSeconds";
        /// Curve from utilization of storage to score; needs a feature gate that is off.
        shape: Vec<ShapePoint> = "shape";
    }
}

/// Arguments of a plugin, by its name.
#[derive(Clone, Debug, PartialEq)]
#[expect(missing_docs, reason = "named as the plugins")]
pub enum PluginArgs {
    DefaultPreemption(DefaultPreemptionArgs),
    DynamicResources(DynamicResourcesArgs),
    InterPodAffinity(InterPodAffinityArgs),
    NodeAffinity(NodeAffinityArgs),
    NodeResourcesBalancedAllocation(BalancedAllocationArgs),
    NodeResourcesFit(NodeResourcesFitArgs),
    PodTopologySpread(PodTopologySpreadArgs),
    VolumeBinding(VolumeBindingArgs),
    /// Of a plugin without arguments of a known form: kept, without effect.
    Unknown(Raw),
}

/// Plugins with arguments of a known form, in order of names.
pub(crate) const CONFIGURABLE: [&str; 8] = [
    "DefaultPreemption",
    "DynamicResources",
    "InterPodAffinity",
    "NodeAffinity",
    "NodeResourcesBalancedAllocation",
    "NodeResourcesFit",
    "PodTopologySpread",
    "VolumeBinding",
];

/// Arguments that could not be decoded.
#[derive(Debug)]
pub(crate) enum ArgsError {
    /// Fields are unknown.
    Strict(String),
    /// A value is wrong.
    Value(String),
}

impl PluginArgs {
    /// Decodes the arguments of the plugin `name`; without defaults.
    pub(crate) fn decode(name: &str, raw: &Raw, brand: &'static Brand) -> Result<PluginArgs, ArgsError> {
        if !CONFIGURABLE.contains(&name) {
            return Ok(PluginArgs::Unknown(raw.clone()));
        }
        let node = without_type(name, &raw.0, brand)?;
        let mut reading = Reading::new(brand);
        let args = PluginArgs::read(name, &node, &mut reading);
        let prefix = format!("decoding args for plugin {name}: ");
        if let Some(fault) = reading.fault {
            return Err(ArgsError::Value(prefix + &fault));
        }
        match reading.strict.is_empty() {
            true => Ok(args),
            false => {
                let inner = format!("strict decoding error: {}", reading.strict.join(", "));
                Err(ArgsError::Strict(format!("strict decoding error: {prefix}{inner}")))
            }
        }
    }

    fn read(name: &str, node: &Node, reading: &mut Reading) -> PluginArgs {
        match name {
            "DefaultPreemption" => PluginArgs::DefaultPreemption(Wire::decode(node, reading)),
            "DynamicResources" => PluginArgs::DynamicResources(Wire::decode(node, reading)),
            "InterPodAffinity" => PluginArgs::InterPodAffinity(Wire::decode(node, reading)),
            "NodeAffinity" => PluginArgs::NodeAffinity(Wire::decode(node, reading)),
            "NodeResourcesBalancedAllocation" => {
                PluginArgs::NodeResourcesBalancedAllocation(Wire::decode(node, reading))
            }
            "NodeResourcesFit" => PluginArgs::NodeResourcesFit(Wire::decode(node, reading)),
            "PodTopologySpread" => PluginArgs::PodTopologySpread(Wire::decode(node, reading)),
            "VolumeBinding" => PluginArgs::VolumeBinding(Wire::decode(node, reading)),
            _ => PluginArgs::Unknown(Raw::decode(node, reading)),
        }
    }

    /// The default arguments of the plugin `name`; `None` for a plugin without arguments of a known form.
    pub(crate) fn of(name: &str, brand: &'static Brand) -> Option<PluginArgs> {
        CONFIGURABLE.contains(&name).then(|| {
            let mut args = PluginArgs::read(name, &Node::Null, &mut Reading::new(brand));
            args.set_defaults();
            args
        })
    }

    /// The document of the arguments of the plugin `name`, with its type.
    pub(crate) fn encode(&self, name: &str, brand: &Brand) -> Value {
        let mut value = match self {
            PluginArgs::DefaultPreemption(args) => args.encode(brand),
            PluginArgs::DynamicResources(args) => args.encode(brand),
            PluginArgs::InterPodAffinity(args) => args.encode(brand),
            PluginArgs::NodeAffinity(args) => args.encode(brand),
            PluginArgs::NodeResourcesBalancedAllocation(args) => args.encode(brand),
            PluginArgs::NodeResourcesFit(args) => args.encode(brand),
            PluginArgs::PodTopologySpread(args) => args.encode(brand),
            PluginArgs::VolumeBinding(args) => args.encode(brand),
            PluginArgs::Unknown(raw) => return raw.0.clone(),
        };
        if let Value::Object(members) = &mut value {
            members.insert("apiVersion".to_owned(), Value::String(group_version(brand)));
            members.insert("kind".to_owned(), Value::String(args_kind(name)));
        }
        value
    }
}

/// The arguments without `apiVersion` and `kind`, which may be absent and else have to be the plugin's.
fn without_type(name: &str, raw: &Value, brand: &'static Brand) -> Result<Node, ArgsError> {
    let mut node = node_of(raw);
    let text = |member: &str| node.member(member).and_then(Node::text).unwrap_or_default().to_owned();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let (expected_version, expected_kind) = (group_version(brand), args_kind(name));
    let is_ours =
        (version.is_empty() || version == expected_version) && (kind.is_empty() || kind == expected_kind);
    let is_known = CONFIGURABLE.iter().any(|plugin| args_kind(plugin) == kind);
    if !is_ours && is_known && (version.is_empty() || version == expected_version) {
        let group = expected_version.split('/').next().unwrap_or_default();
        return Err(ArgsError::Value(format!(
            "args for plugin {name} were not of type {expected_kind}.{group}, got {kind}.{group}"
        )));
    }
    if !is_ours {
        let (kind, version) = (
            if kind.is_empty() { expected_kind } else { kind },
            if version.is_empty() { expected_version } else { version },
        );
        return Err(ArgsError::Value(format!(
            "decoding args for plugin {name}: {}",
            super::names::not_registered(&kind, &version)
        )));
    }
    if let Node::Object(members) = &mut node {
        members.retain(|(name, _)| name != "apiVersion" && name != "kind");
    }
    Ok(node)
}
