//! Constraints of spreading over topologies.
//!
//! Owns their compiled form.

use crate::api::core::v1;

use super::intern::{Interner, Symbol};
use super::labels::{Labels, Operator, Requirement, Selector};

/// Which nodes count as domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodePolicy {
    /// Nodes that the pod's node affinity, or its tolerations, let in.
    Honor,
    /// All nodes.
    Ignore,
}

/// A constraint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spread {
    /// At least 1.
    pub max_skew: i32,
    /// Nodes with equal values of this label are one domain.
    pub topology_key: Symbol,
    /// Pods that are counted.
    pub selector: Selector,
    /// With fewer domains the smallest count is 0; at least 1.
    pub min_domains: i32,
    /// About `nodeSelector` and node affinity.
    pub affinity_policy: NodePolicy,
    /// About taints.
    pub taints_policy: NodePolicy,
}

/// The constraints of a pod by what happens if they cannot be met.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Spreads {
    /// `DoNotSchedule`.
    pub hard: Vec<Spread>,
    /// `ScheduleAnyway`.
    pub soft: Vec<Spread>,
}

impl Spreads {
    /// Compiles constraints for a pod with `labels`.
    pub fn compile(
        interner: &mut Interner,
        labels: &Labels,
        constraints: &[v1::TopologySpreadConstraint],
    ) -> Spreads {
        let mut spreads = Spreads::default();
        for constraint in constraints {
            let mut selector = Selector::compile(interner, constraint.label_selector.as_ref());
            for key in &constraint.match_label_keys {
                let key = interner.intern(key);
                if let Some(value) = labels.value(key) {
                    selector.require(Requirement { key, operator: Operator::In(Box::new([value])) });
                }
            }
            let policy = |policy: Option<&str>, default| match policy {
                Some("Honor") => NodePolicy::Honor,
                Some("Ignore") => NodePolicy::Ignore,
                _ => default,
            };
            let spread = Spread {
                max_skew: constraint.max_skew,
                topology_key: interner.intern(&constraint.topology_key),
                selector,
                min_domains: constraint.min_domains.unwrap_or(1),
                affinity_policy: policy(constraint.node_affinity_policy.as_deref(), NodePolicy::Honor),
                taints_policy: policy(constraint.node_taints_policy.as_deref(), NodePolicy::Ignore),
            };
            match constraint.when_unsatisfiable.as_str() {
                "DoNotSchedule" => spreads.hard.push(spread),
                _ => spreads.soft.push(spread),
            }
        }
        spreads
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.hard.is_empty() && self.soft.is_empty()
    }
}
