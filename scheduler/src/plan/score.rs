//! Scores of the nodes that passed, and the choice among the best.
//!
//! Owns the sum over plugins: each score is brought to 0 to 100 over the nodes that passed, and weighted.

use super::affinity::AffinityScore;
use super::cluster::nodes::NodeId;
use super::cluster::{Cluster, Memo};
use super::device_claims::Found;
use super::local::LocalTable;
use super::profile::Plugin;
use super::resource_scores::SCORE_MAX;
use super::rules::Rules;
use super::spread::{self, Constraints};
use crate::objects::pod::Pod;

/// Everything that scores look at.
struct Scored<'a> {
    /// The profile.
    rules: &'a Rules,
    /// The pod.
    pod: &'a Pod,
    /// Scores that look at one node alone.
    table: &'a LocalTable,
    /// Constraints of spreading.
    constraints: &'a Constraints,
    /// Allocations of devices.
    found: &'a Found,
    /// The nodes that passed.
    feasible: &'a [NodeId],
}

impl Scored<'_> {
    /// The scores of the nodes, in their order.
    fn totals(&self, memo: &Memo, affinity: Option<&AffinityScore>) -> Vec<i64> {
        let Scored { rules, pod, table, constraints, found, feasible } = *self;
        let mut totals: Vec<i64> = feasible.iter().map(|node| i64::from(table.fixed[node.index()])).collect();
        let taints = rules.weight(Plugin::TaintToleration);
        if taints != 0 && table.has_taints {
            let raw = |node: &NodeId| i64::from(table.taints[node.index()]);
            add_scaled(&mut totals, feasible, raw, Direction::LessIsBetter, taints);
        }
        let preferred = rules.weight(Plugin::NodeAffinity);
        if preferred != 0 && !(pod.shape.local.preferred_nodes.is_empty() && rules.added_preferred.is_empty())
        {
            let raw = |node: &NodeId| i64::from(table.preferred[node.index()]);
            add_scaled(&mut totals, feasible, raw, Direction::MoreIsBetter, preferred);
        }
        let spread_weight = rules.weight(Plugin::PodTopologySpread);
        if spread_weight != 0 && constraints.has_soft() {
            let Memo { topologies, selections } = memo;
            let scores = spread::score(rules, constraints, topologies, selections, table, feasible);
            add(&mut totals, &scores, spread_weight);
        }
        if let Some(affinity) = affinity {
            let weight = rules.weight(Plugin::InterPodAffinity);
            add(&mut totals, &affinity.score(&memo.topologies, feasible), weight);
        }
        add(&mut totals, &found.scores(feasible), rules.weight(Plugin::DynamicResources));
        totals
    }
}

/// What a choice among nodes follows.
#[derive(Clone, Copy)]
pub(super) struct Choice<'a> {
    /// The profile.
    pub(super) rules: &'a Rules,
    /// The snapshot.
    pub(super) cluster: &'a Cluster,
    /// The pod.
    pub(super) pod: &'a Pod,
    /// Scores that look at one node alone.
    pub(super) table: &'a LocalTable,
    /// Constraints of spreading.
    pub(super) constraints: &'a Constraints,
    /// Chooses among equals.
    pub(super) seed: u64,
}

/// A node, and among how many it was chosen.
#[derive(Clone, Copy)]
pub(super) struct Chosen {
    /// The node.
    pub(super) node: NodeId,
    /// Nodes that were filtered.
    pub(super) evaluated: usize,
    /// Nodes that passed.
    pub(super) feasible: usize,
}

impl Choice<'_> {
    /// One of the best nodes of the table, where every filter looks at one node alone. At least one fits.
    pub(super) fn of_ranking(self, memo: &mut Memo) -> Chosen {
        let ranking = &self.table.ranking;
        let (evaluated, feasible) = (self.cluster.nodes().len(), ranking.fitting_len());
        let affinity = self.affinity_score(memo);
        let node = if affinity.is_none() && !self.compares_nodes() {
            let best = ranking.best().expect("the caller has nodes to choose from");
            best[tie(best.len(), self.seed)]
        } else {
            let feasible: Vec<NodeId> = self.table.fitting().collect();
            self.choose(memo, affinity.as_ref(), &feasible, &Found::default(), &[])
        };
        Chosen { node, evaluated, feasible }
    }

    /// One of the best of these nodes; `extra` is added to their scores, and empty for nothing.
    pub(super) fn of_each(
        self,
        memo: &mut Memo,
        feasible: &[NodeId],
        found: &Found,
        extra: &[i64],
    ) -> NodeId {
        let affinity = self.affinity_score(memo);
        self.choose(memo, affinity.as_ref(), feasible, found, extra)
    }

    /// The score of InterPodAffinity; `None` if it makes no difference to the pod.
    fn affinity_score(self, memo: &mut Memo) -> Option<AffinityScore> {
        let Choice { rules, cluster, pod, .. } = self;
        let has_terms = pod.shape.terms.has_preferences() || !cluster.terms().is_empty();
        if rules.weight(Plugin::InterPodAffinity) == 0 || !has_terms {
            return None;
        }
        AffinityScore::prepare(rules, cluster, memo, pod)
    }

    /// Whether scores that compare nodes with each other make a difference to the pod, apart from that of
    /// InterPodAffinity. Where none does, the order of the table is that of the totals.
    fn compares_nodes(self) -> bool {
        let Choice { rules, pod, table, constraints, .. } = self;
        let prefers = !pod.shape.local.preferred_nodes.is_empty() || !rules.added_preferred.is_empty();
        (table.has_taints && rules.weight(Plugin::TaintToleration) != 0)
            || (prefers && rules.weight(Plugin::NodeAffinity) != 0)
            || (constraints.has_soft() && rules.weight(Plugin::PodTopologySpread) != 0)
    }

    fn choose(
        self,
        memo: &Memo,
        affinity: Option<&AffinityScore>,
        feasible: &[NodeId],
        found: &Found,
        extra: &[i64],
    ) -> NodeId {
        let Choice { rules, pod, table, constraints, seed, .. } = self;
        let mut totals = Scored { rules, pod, table, constraints, found, feasible }.totals(memo, affinity);
        add(&mut totals, extra, 1);
        let best = *totals.iter().max().expect("the caller has nodes to choose from");
        let ties = totals.iter().filter(|total| **total == best).count();
        let at = totals.iter().enumerate().filter(|(_, total)| **total == best).nth(tie(ties, seed));
        feasible[at.expect("one of the ties is chosen").0]
    }
}

/// Which of so many equal nodes the seed chooses.
fn tie(ties: usize, seed: u64) -> usize {
    usize::try_from(mix(seed) % ties as u64).unwrap_or(0)
}

/// Spreads consecutive seeds over all numbers.
fn mix(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    MoreIsBetter,
    LessIsBetter,
}

/// Adds raw scores in relation to the largest of them.
fn add_scaled(
    totals: &mut [i64],
    feasible: &[NodeId],
    raw: impl Fn(&NodeId) -> i64,
    direction: Direction,
    weight: i64,
) {
    let max = feasible.iter().map(&raw).max().unwrap_or(0);
    for (total, node) in totals.iter_mut().zip(feasible) {
        let scaled = if max == 0 { 0 } else { SCORE_MAX * raw(node) / max };
        *total += weight * if direction == Direction::LessIsBetter { SCORE_MAX - scaled } else { scaled };
    }
}

fn add(totals: &mut [i64], scores: &[i64], weight: i64) {
    for (total, score) in totals.iter_mut().zip(scores) {
        *total += score * weight;
    }
}
