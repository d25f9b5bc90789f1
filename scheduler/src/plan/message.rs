//! The messages about pods that fit nowhere.
//!
//! Owns their wording and order, which users and their tools know.

use std::collections::BTreeMap;

/// How many nodes have which reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reasons(BTreeMap<String, usize>);

impl Reasons {
    /// Counts a reason on some nodes.
    pub fn add(&mut self, reason: String, nodes: usize) {
        if nodes > 0 {
            *self.0.entry(reason).or_default() += nodes;
        }
    }

    /// The message for a cluster of `nodes`.
    pub fn message(&self, nodes: usize) -> String {
        let mut reasons: Vec<String> =
            self.0.iter().map(|(reason, nodes)| format!("{nodes} {reason}")).collect();
        reasons.sort_unstable();
        format!("0/{nodes} nodes are available: {}.", reasons.join(", "))
    }
}

/// The message if a plugin refused the pod before any node was looked at.
pub fn refused_before_nodes(nodes: usize, reason: &str) -> String {
    format!("0/{nodes} nodes are available: {reason}.")
}

/// There is no node at all.
pub const NO_NODES: &str = "no nodes available to schedule pods";
/// Nodes that no eviction makes fit.
pub const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";
/// Nodes without a pod of lower priority.
pub const NO_VICTIMS: &str = "No preemption victims found for incoming pod";
