//! The facts of a node that the queue keeps: hints compare them when the node changes.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::event::{EventKind, EventKinds};
use super::pod::Toleration;
use super::requests::{self, Amounts};
use crate::api::core::v1::{Node, NodeSpec, Taint as ApiTaint};
use crate::api::meta::v1::ObjectMeta;
use crate::selector::Labels;

/// Effects of taints that keep pods away.
const KEEPS_AWAY: [&str; 2] = ["NoSchedule", "NoExecute"];

/// A node as the queue sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// `metadata.labels`.
    pub labels: Labels,
    /// `spec.taints`.
    pub taints: Vec<Taint>,
    /// `spec.unschedulable`.
    pub is_unschedulable: bool,
    /// `status.allocatable`.
    pub allocatable: Amounts,
    /// `status.declaredFeatures`.
    pub features: BTreeSet<String>,
    /// A digest of the status of each condition.
    pub(super) conditions: u64,
    /// A digest of `metadata.annotations`.
    pub(super) annotations: u64,
}

/// A taint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taint {
    /// Key.
    pub key: String,
    /// Value, empty if it has none.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
}

impl NodeFacts {
    /// The facts of `node`.
    pub fn new(node: &Node) -> NodeFacts {
        let (no_metadata, no_spec) = (ObjectMeta::default(), NodeSpec::default());
        let metadata = node.metadata.as_ref().unwrap_or(&no_metadata);
        let spec = node.spec.as_ref().unwrap_or(&no_spec);
        let status = node.status.as_ref();
        let conditions: BTreeMap<_, _> = status
            .into_iter()
            .flat_map(|status| &status.conditions)
            .map(|condition| (condition.r#type.as_str(), condition.status.as_str()))
            .collect();
        let taint = |one: &ApiTaint| Taint {
            key: one.key.clone(),
            value: one.value.clone(),
            effect: one.effect.clone(),
        };
        NodeFacts {
            name: metadata.name.clone(),
            labels: metadata.labels.clone(),
            taints: spec.taints.iter().map(taint).collect(),
            is_unschedulable: spec.unschedulable,
            allocatable: status.map(|status| requests::amounts(&status.allocatable)).unwrap_or_default(),
            features: status.into_iter().flat_map(|status| status.declared_features.clone()).collect(),
            conditions: digest(&conditions),
            annotations: digest(&metadata.annotations),
        }
    }

    /// Whether the node has a taint that keeps pods with these tolerations away.
    pub fn repels(&self, tolerations: &[Toleration]) -> bool {
        let mut taints = self.taints.iter().filter(|taint| KEEPS_AWAY.contains(&taint.effect.as_str()));
        taints.any(|taint| {
            !tolerations.iter().any(|one| one.tolerates(&taint.key, &taint.value, &taint.effect))
        })
    }

    /// What has changed since `old` and may help a pod. A node that became unschedulable helps none.
    pub fn changes(&self, old: &NodeFacts) -> EventKinds {
        let became_schedulable = old.is_unschedulable && !self.is_unschedulable;
        let changes = [
            (EventKind::NodeAllocatable, self.allocatable != old.allocatable),
            (EventKind::NodeLabel, self.labels != old.labels),
            (EventKind::NodeTaint, self.taints != old.taints || became_schedulable),
            (EventKind::NodeCondition, self.conditions != old.conditions),
            (EventKind::NodeAnnotation, self.annotations != old.annotations),
            (EventKind::NodeDeclaredFeature, self.features != old.features),
        ];
        changes.into_iter().filter_map(|(kind, changed)| changed.then_some(kind)).collect()
    }
}

fn digest(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
