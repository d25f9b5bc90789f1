//! Nodes of a `LocalTable`, ordered by score.
//!
//! Owns the index that lets a plan read the best nodes, the reasons of the others, and the nodes where the eviction of
//! pods could help, without a look at each node. A table takes a node out before it is judged anew, and puts it back in.
//!
//! Invariant: it equals an index that is made anew from the verdicts and scores of the table.

use std::collections::BTreeMap;

use super::cluster::nodes::NodeId;
use super::verdict::Verdict;

/// Nodes by score and by reason. Lists are sorted, so that a choice among equals does not depend on the order of
/// changes: in a list of 100,000 nodes a change moves 200 kB, which takes some ten microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ranking {
    fitting: BTreeMap<i32, Vec<NodeId>>,
    fitting_len: usize,
    /// Few: kinds of verdicts, not nodes.
    refused: Vec<(Verdict, usize)>,
    resolvable: Vec<NodeId>,
}

impl Ranking {
    /// Forgets all nodes.
    pub(super) fn clear(&mut self) {
        *self = Ranking::default();
    }

    /// Takes in a node.
    pub(super) fn insert(&mut self, node: NodeId, verdict: Verdict, score: i32) {
        if verdict.is_absent() {
            return;
        }
        if verdict.fits() {
            self.fitting_len += 1;
            insert_sorted(self.fitting.entry(score).or_default(), node);
            return;
        }
        match self.refused.iter_mut().find(|(other, _)| *other == verdict) {
            Some((_, count)) => *count += 1,
            None => self.refused.push((verdict, 1)),
        }
        if verdict.is_resolvable() {
            insert_sorted(&mut self.resolvable, node);
        }
    }

    /// Takes out a node that was taken in with this verdict and score.
    pub(super) fn remove(&mut self, node: NodeId, verdict: Verdict, score: i32) {
        if verdict.is_absent() {
            return;
        }
        if verdict.fits() {
            self.fitting_len -= 1;
            let nodes = self.fitting.get_mut(&score).expect("the node was taken in with this score");
            remove_sorted(nodes, node);
            if nodes.is_empty() {
                self.fitting.remove(&score);
            }
            return;
        }
        let at = self.refused.iter().position(|(other, _)| *other == verdict);
        let at = at.expect("the node was taken in with this verdict");
        self.refused[at].1 -= 1;
        if self.refused[at].1 == 0 {
            self.refused.swap_remove(at);
        }
        if verdict.is_resolvable() {
            remove_sorted(&mut self.resolvable, node);
        }
    }

    /// The same with reasons in an order that does not depend on that of changes.
    #[cfg(test)]
    pub(super) fn sorted(&self) -> Ranking {
        let mut sorted = self.clone();
        let key = |verdict: Verdict| {
            (verdict.plugin().map(|plugin| plugin as u64), verdict.is_resolvable(), verdict.reasons())
        };
        sorted.refused.sort_by_key(|(verdict, _)| key(*verdict));
        sorted
    }

    /// How many nodes fit.
    pub(super) fn fitting_len(&self) -> usize {
        self.fitting_len
    }

    /// The nodes with the highest score, in their order; `None` if no node fits.
    pub(super) fn best(&self) -> Option<&[NodeId]> {
        self.fitting.last_key_value().map(|(_, nodes)| nodes.as_slice())
    }

    /// Verdicts of nodes that do not fit, and how many nodes have each.
    pub(super) fn refused(&self) -> &[(Verdict, usize)] {
        &self.refused
    }

    /// The nodes that do not fit, but could if pods were evicted, in their order.
    pub(super) fn resolvable(&self) -> &[NodeId] {
        &self.resolvable
    }
}

fn insert_sorted(nodes: &mut Vec<NodeId>, node: NodeId) {
    match nodes.last() {
        // A table that is filled comes in order.
        Some(last) if *last > node => {
            let at = nodes.binary_search(&node).expect_err("a node is taken in once");
            nodes.insert(at, node);
        }
        _ => nodes.push(node),
    }
}

fn remove_sorted(nodes: &mut Vec<NodeId>, node: NodeId) {
    let at = nodes.binary_search(&node).expect("what is taken out was taken in");
    nodes.remove(at);
}
