//! Scores of the nodes that passed, and the choice among the best.
//!
//! Owns the sum over plugins: each score is brought to 0 to 100 over the nodes that passed, and weighted.

use std::hint::black_box;

use super::affinity::AffinityScore;
use super::cluster::nodes::NodeId;
use super::cluster::{Cluster, Memo};
use super::compiled_profile::CompiledProfile;
use super::costs::{Meter, Status};
use super::device_claims::Found;
use super::local_table::LocalTable;
use super::profile::{ExtensionPoint, Plugin};
use super::resource_scores::{self as resources, SCORE_MAX};
use super::spread::{self, Constraints};
use crate::objects::pod::Pod;

/// Plugins whose scores compare the nodes that passed; those of the others stand in the table.
const COMPARING: [Plugin; 5] = [
    Plugin::TaintToleration,
    Plugin::NodeAffinity,
    Plugin::PodTopologySpread,
    Plugin::InterPodAffinity,
    Plugin::DynamicResources,
];

/// The inputs of a choice among nodes.
#[derive(Clone, Copy)]
pub(super) struct Choice<'a> {
    /// The profile.
    pub(super) rules: &'a CompiledProfile,
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

/// The chosen node, with the number of nodes that were filtered and passed.
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
    /// Chooses among the best nodes of the table, where every filter looks at one node alone. At least one fits.
    pub(super) fn of_ranking(self, memo: &mut Memo, meter: &mut Meter) -> Chosen {
        let ranking = &self.table.ranking;
        let (evaluated, feasible) = (self.cluster.nodes().len(), ranking.fitting_len());
        let best = ranking.best().expect("the caller has nodes to choose from");
        let found = Found::default();
        let scored = Scored { choice: self, found: &found, feasible: best };
        if feasible == 1 {
            return Chosen { node: best[0], evaluated, feasible };
        }
        meter.lap();
        let affinity = self.affinity_score(memo);
        if affinity.is_none() && !scored.compares_nodes() {
            let node = best[tie(best.len(), self.seed)];
            scored.measure(memo, meter);
            return Chosen { node, evaluated, feasible };
        }
        let fitting: Vec<NodeId> = self.table.fitting().collect();
        let scored = Scored { feasible: &fitting, ..scored };
        let node = scored.best(memo, affinity.as_ref(), &[]);
        scored.measure(memo, meter);
        Chosen { node, evaluated, feasible }
    }

    /// Chooses among the best of `feasible`; `extra` is added to their scores, and empty without extenders.
    pub(super) fn of_each(
        self,
        memo: &mut Memo,
        feasible: &[NodeId],
        found: &Found,
        extra: &[i64],
        meter: &mut Meter,
    ) -> NodeId {
        meter.lap();
        let affinity = self.affinity_score(memo);
        let scored = Scored { choice: self, found, feasible };
        let node = scored.best(memo, affinity.as_ref(), extra);
        scored.measure(memo, meter);
        node
    }

    /// The score of InterPodAffinity; `None` if it makes no difference to the pod.
    fn affinity_score(self, memo: &mut Memo) -> Option<AffinityScore> {
        let Choice { rules, cluster, pod, .. } = self;
        if !self.has_affinity() || rules.weight(Plugin::InterPodAffinity) == 0 {
            return None;
        }
        AffinityScore::prepare(rules, cluster, memo, pod)
    }

    /// Whether terms of the pod or of others may prefer a node.
    fn has_affinity(self) -> bool {
        self.pod.shape.terms.has_preferences() || !self.cluster.terms().is_empty()
    }
}

/// The inputs of scores.
#[derive(Clone, Copy)]
struct Scored<'a> {
    /// Of the pod, the snapshot and the table.
    choice: Choice<'a>,
    /// Allocations of devices.
    found: &'a Found,
    /// The nodes that passed, or the best of them.
    feasible: &'a [NodeId],
}

impl Scored<'_> {
    /// Chooses among the nodes with the highest total.
    fn best(&self, memo: &Memo, affinity: Option<&AffinityScore>, extra: &[i64]) -> NodeId {
        let mut totals = self.totals(memo, affinity);
        add(&mut totals, extra, 1);
        let best = *totals.iter().max().expect("the caller has nodes to choose from");
        let ties = totals.iter().filter(|total| **total == best).count();
        let chosen = tie(ties, self.choice.seed);
        let at = totals.iter().enumerate().filter(|(_, total)| **total == best).nth(chosen);
        self.feasible[at.expect("one of the ties is chosen").0]
    }

    /// The scores of the nodes, in their order.
    fn totals(&self, memo: &Memo, affinity: Option<&AffinityScore>) -> Vec<i64> {
        let fixed = |node: &NodeId| i64::from(self.choice.table.fixed[node.index()]);
        let mut totals: Vec<i64> = self.feasible.iter().map(fixed).collect();
        for plugin in COMPARING {
            self.add_scores(plugin, memo, affinity, &mut totals);
        }
        totals
    }

    /// Whether scores that compare nodes with each other make a difference to the pod, apart from that of
    /// InterPodAffinity. Where none does, the order of the table is that of the totals.
    fn compares_nodes(&self) -> bool {
        let differs = |plugin: Plugin| self.is_concerned(plugin) && self.choice.rules.weight(plugin) != 0;
        COMPARING.into_iter().any(|plugin| plugin != Plugin::InterPodAffinity && differs(plugin))
    }

    /// Whether a plugin has something to do for the pod.
    fn is_concerned(&self, plugin: Plugin) -> bool {
        let Choice { rules, pod, table, constraints, .. } = self.choice;
        match plugin {
            Plugin::TaintToleration => table.has_taints,
            Plugin::NodeAffinity => {
                !(pod.shape.local.preferred_nodes.is_empty() && rules.added_preferred.is_empty())
            }
            Plugin::PodTopologySpread => constraints.has_soft(),
            Plugin::InterPodAffinity => self.choice.has_affinity(),
            Plugin::DynamicResources => !self.found.is_empty(),
            // Storage is only scored with a feature that is off.
            Plugin::VolumeBinding => false,
            _ => true,
        }
    }

    /// Adds the weighted scores of a plugin that compares nodes with each other.
    fn add_scores(&self, plugin: Plugin, memo: &Memo, affinity: Option<&AffinityScore>, totals: &mut [i64]) {
        let Scored { choice, found, feasible } = *self;
        let Choice { rules, table, constraints, .. } = choice;
        let weight = rules.weight(plugin);
        if weight == 0 || !self.is_concerned(plugin) {
            return;
        }
        match plugin {
            Plugin::TaintToleration => {
                let raw = |node: &NodeId| i64::from(table.taints[node.index()]);
                add_scaled(totals, feasible, raw, Direction::LessIsBetter, weight);
            }
            Plugin::NodeAffinity => {
                let raw = |node: &NodeId| i64::from(table.preferred[node.index()]);
                add_scaled(totals, feasible, raw, Direction::MoreIsBetter, weight);
            }
            Plugin::PodTopologySpread => {
                let Memo { topologies, selections } = memo;
                add(
                    totals,
                    &spread::score(rules, constraints, topologies, selections, table, feasible),
                    weight,
                );
            }
            Plugin::InterPodAffinity => {
                if let Some(affinity) = affinity {
                    add(totals, &affinity.score(&memo.topologies, feasible), weight);
                }
            }
            Plugin::DynamicResources => add(totals, &found.scores(feasible), weight),
            _ => {}
        }
    }

    /// Measures the scores. In a sampled plan each runs on the first node.
    fn measure(&self, memo: &mut Memo, meter: &mut Meter) {
        let Scored { choice, feasible, .. } = *self;
        let Choice { rules, cluster, pod, .. } = choice;
        meter.point(ExtensionPoint::Score, Status::Success);
        let concerned = |plugin: &Plugin| self.is_concerned(*plugin);
        let enabled = &rules.profile.enabled;
        meter.evaluated(ExtensionPoint::PreScore, enabled.pre_score.iter().copied().filter(concerned));
        let scoring = enabled.score.iter().map(|weighted| weighted.plugin).filter(concerned);
        meter.evaluated(ExtensionPoint::Score, scoring.clone());
        let Some(slot) = feasible.first().and_then(|node| cluster.nodes().slot(*node)) else { return };
        if !meter.is_sampling() {
            return;
        }
        let alone = Scored { feasible: &feasible[..1], ..*self };
        let local = &pod.shape.local;
        for plugin in scoring {
            let started = meter.start();
            match plugin {
                Plugin::NodeResourcesFit => {
                    black_box(resources::fit(rules, cluster, local, slot, &slot.load));
                }
                Plugin::NodeResourcesBalancedAllocation => {
                    black_box(resources::balanced(rules, cluster, local, slot, &slot.load));
                }
                Plugin::ImageLocality => {
                    black_box(resources::images(cluster, local, slot));
                }
                Plugin::InterPodAffinity => {
                    let affinity = choice.affinity_score(memo);
                    alone.add_scores(plugin, memo, affinity.as_ref(), &mut [0]);
                }
                plugin => alone.add_scores(plugin, memo, None, &mut [0]),
            }
            meter.plugin(ExtensionPoint::Score, plugin, Status::Success, started);
        }
        meter.lap();
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
