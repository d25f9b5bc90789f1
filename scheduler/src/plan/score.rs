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
pub(super) struct Scored<'a> {
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
    /// Allocations of devices.
    pub(super) found: &'a Found,
    /// The nodes that passed.
    pub(super) feasible: &'a [NodeId],
}

impl Scored<'_> {
    /// The scores of the nodes, in their order.
    pub(super) fn totals(&self, memo: &mut Memo) -> Vec<i64> {
        let Scored { rules, cluster, pod, table, constraints, found, feasible } = *self;
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
            let Memo { topologies, selections } = &*memo;
            let scores = spread::score(rules, constraints, topologies, selections, table, feasible);
            add(&mut totals, &scores, spread_weight);
        }
        let affinity_weight = rules.weight(Plugin::InterPodAffinity);
        let has_terms = pod.shape.terms.has_preferences() || !cluster.terms().is_empty();
        if affinity_weight != 0
            && has_terms
            && let Some(affinity) = AffinityScore::prepare(rules, cluster, memo, pod)
        {
            add(&mut totals, &affinity.score(&memo.topologies, feasible), affinity_weight);
        }
        add(&mut totals, &found.scores(feasible), rules.weight(Plugin::DynamicResources));
        totals
    }
}

/// One of the best nodes.
pub(super) fn choose(scored: &Scored<'_>, memo: &mut Memo, extra: &[i64], seed: u64) -> NodeId {
    let mut totals = scored.totals(memo);
    add(&mut totals, extra, 1);
    let best = *totals.iter().max().expect("the caller has nodes to choose from");
    let ties = totals.iter().filter(|total| **total == best).count();
    let chosen = usize::try_from(mix(seed) % ties as u64).unwrap_or(0);
    let at = totals.iter().enumerate().filter(|(_, total)| **total == best).nth(chosen);
    scored.feasible[at.expect("one of the ties is chosen").0]
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
