//! Messages about pods that fit on no node.
//!
//! Owns their wording and order, which users and their tools know.

use std::collections::BTreeMap;

/// How many nodes have which reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Reasons(BTreeMap<String, usize>);

impl Reasons {
    /// Counts a reason on some nodes.
    pub(super) fn add(&mut self, reason: String, nodes: usize) {
        if nodes > 0 {
            *self.0.entry(reason).or_default() += nodes;
        }
    }

    /// The message for a cluster of `nodes`.
    pub(super) fn message(&self, nodes: usize) -> String {
        let mut reasons: Vec<String> =
            self.0.iter().map(|(reason, nodes)| format!("{nodes} {reason}")).collect();
        reasons.sort_unstable();
        format!("0/{nodes} nodes are available: {}.", reasons.join(", "))
    }
}

/// The message if a plugin refused the pod before any node was looked at.
pub(super) fn refused_before_nodes(nodes: usize, reason: &str) -> String {
    format!("0/{nodes} nodes are available: {reason}.")
}

/// There is no node at all.
pub(super) const NO_NODES: &str = "no nodes available to schedule pods";
/// Nodes that no eviction makes fit.
pub(super) const NOT_HELPFUL: &str = "Preemption is not helpful for scheduling";
/// Nodes without a pod of lower priority.
pub(super) const NO_VICTIMS: &str = "No preemption victims found for incoming pod";
