//! Numbers of pods by node, for the few nodes where there are any.
//!
//! Owns a sorted list of nodes and counts, so that sums over topologies visit only nodes that matter.

use super::nodes::NodeId;

/// Counts by node; sorted, without zeros.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    entries: Vec<(NodeId, u32)>,
}

impl NodeCounts {
    /// Adds one to a node's count.
    pub fn add(&mut self, node: NodeId) {
        match self.entries.binary_search_by_key(&node, |(id, _)| *id) {
            Ok(at) => self.entries[at].1 += 1,
            Err(at) => self.entries.insert(at, (node, 1)),
        }
    }

    /// Subtracts one from a node's count.
    pub fn remove(&mut self, node: NodeId) {
        let at = self.entries.binary_search_by_key(&node, |(id, _)| *id);
        let at = at.expect("what is removed was added");
        self.entries[at].1 -= 1;
        if self.entries[at].1 == 0 {
            self.entries.remove(at);
        }
    }

    /// The count of a node.
    pub fn of(&self, node: NodeId) -> u32 {
        self.entries.binary_search_by_key(&node, |(id, _)| *id).map_or(0, |at| self.entries[at].1)
    }

    /// Nodes and counts above zero, in the order of nodes.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, u32)> + '_ {
        self.entries.iter().copied()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
