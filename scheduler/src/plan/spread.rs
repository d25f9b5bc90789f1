//! PodTopologySpread: pods of a kind in equal numbers over zones, hosts or other domains.
//!
//! Owns the counts per domain that one plan needs, as a filter (constraints that have to be met) and as a score
//! (`ScheduleAnyway` constraints). Numbers of pods per node come from the snapshot's counters, so that a plan adds
//! them up by domain and looks at no pod.

use crate::objects::affinity::PodSelection;
use crate::objects::intern::Symbol;
use crate::objects::labels::Selector;
use crate::objects::pod::Pod;
use crate::objects::spread::{NodePolicy, Spread};

use super::cluster::nodes::NodeId;
use super::cluster::selections::{Counted, CounterId, Selections};
use super::cluster::topology::{Topologies, TopologyId};
use super::cluster::{Cluster, Memo};
use super::compiled_profile::CompiledProfile;
use super::context::Context;
use super::local_table::{LocalTable, REQUIRED, TOLERATED};
use super::profile::Plugin;
use super::resource_scores::SCORE_MAX;
use super::verdict::{Resolvable, Verdict};

/// A domain that has no node that counts. Numbers of pods may be below zero: trials take away pods that an empty selector
/// did not count.
const NOT_COUNTED: i64 = i64::MIN;
/// Bit of [`super::verdict`]'s reasons: the skew would be too large.
const SKEW: u64 = 1;
/// The node lacks a topology label.
const MISSING_LABEL: u64 = 2;

/// A constraint with its index and topology.
struct Prepared {
    spread: Spread,
    topology: TopologyId,
    counter: CounterId,
    self_match: bool,
}

impl Prepared {
    /// Pods that are on nodes, by node. A selector that asks for nothing counts none of them, though it selects the pod
    /// of the plan: so does the reference.
    fn pods<'a>(&self, selections: &'a Selections) -> impl Iterator<Item = (NodeId, u32)> + use<'a> {
        let counts = selections.counts(self.counter).iter();
        let is_empty = self.spread.selector.is_everything();
        counts.filter(move |_| !is_empty)
    }
}

/// The constraints of a plan.
pub(super) struct Constraints {
    hard: Vec<Prepared>,
    soft: Vec<Prepared>,
    /// Whether the constraints of the system are used, for which a node may lack labels.
    lenient: bool,
}

impl Constraints {
    /// The constraints of a pod, or the defaults for it. Makes the indexes that they need.
    pub(super) fn prepare(
        rules: &CompiledProfile,
        cluster: &Cluster,
        memo: &mut Memo,
        pod: &Pod,
    ) -> Constraints {
        let own = &pod.shape.spreads;
        let mut prepare = |spreads: &[Spread], selector: Option<&Selector>| -> Vec<Prepared> {
            let spreads = spreads.iter().map(|spread| {
                let mut spread = spread.clone();
                if let Some(selector) = selector {
                    spread.selector = selector.clone();
                }
                prepare_one(cluster, memo, pod, spread)
            });
            spreads.collect()
        };
        if !own.is_empty() {
            return Constraints {
                hard: prepare(&own.hard, None),
                soft: prepare(&own.soft, None),
                lenient: false,
            };
        }
        let selector = if rules.default_spreads.is_empty() {
            Selector::default()
        } else {
            cluster.workloads().selector_for(&pod.shape, cluster.texts())
        };
        if selector.is_everything() {
            return Constraints { hard: Vec::new(), soft: Vec::new(), lenient: false };
        }
        let defaults = &rules.default_spreads;
        Constraints {
            hard: prepare(&defaults.hard, Some(&selector)),
            soft: prepare(&defaults.soft, Some(&selector)),
            lenient: rules.system_spreads,
        }
    }

    /// Whether nodes are filtered.
    pub(super) fn has_hard(&self) -> bool {
        !self.hard.is_empty()
    }

    /// Whether nodes are scored.
    pub(super) fn has_soft(&self) -> bool {
        !self.soft.is_empty()
    }
}

fn prepare_one(cluster: &Cluster, memo: &mut Memo, pod: &Pod, spread: Spread) -> Prepared {
    let (nodes, namespaces, texts) = (cluster.nodes(), cluster.namespaces(), cluster.texts());
    let selection = PodSelection {
        namespaces: vec![pod.shape.namespace],
        namespace_selector: Selector::nothing(),
        selector: spread.selector.clone(),
    };
    let counted = Counted { all: vec![selection], terminating: false };
    Prepared {
        topology: memo.topologies.prepare(spread.topology_key, nodes),
        self_match: spread.selector.matches(&pod.shape.labels, texts),
        counter: memo.selections.counter(counted, nodes, namespaces, texts),
        spread,
    }
}

fn let_in(spread: &Spread, flags: u8) -> bool {
    (spread.affinity_policy == NodePolicy::Ignore || flags & REQUIRED != 0)
        && (spread.taints_policy == NodePolicy::Ignore || flags & TOLERATED != 0)
}

/// Counts per domain of the `DoNotSchedule` constraints.
pub(super) struct SpreadFilter<'a> {
    constraints: &'a [Prepared],
    /// The pod's namespace, whose pods are counted.
    namespace: Symbol,
    counts: Vec<Vec<i64>>,
    /// The smallest count and the number of domains, per constraint.
    smallest: Vec<(i64, usize)>,
    table: &'a LocalTable,
}

impl<'a> SpreadFilter<'a> {
    /// Adds up the pods by domain.
    pub(super) fn new(constraints: &'a Constraints, context: Context<'a>) -> SpreadFilter<'a> {
        let Context { topologies, selections, table, pod, .. } = context;
        let namespace = pod.shape.namespace;
        let constraints = &constraints.hard;
        let mut filter =
            SpreadFilter { constraints, namespace, counts: Vec::new(), smallest: Vec::new(), table };
        for prepared in constraints {
            let topology = topologies.topology(prepared.topology);
            let mut counts = vec![NOT_COUNTED; topology.len()];
            // Slots without a node have no domain.
            for node in (0..table.flags.len()).map(NodeId::of) {
                if filter.is_counted(prepared, topologies, node) {
                    counts[topology.domain(node) as usize] = 0;
                }
            }
            for (node, count) in prepared.pods(selections) {
                if filter.is_counted(prepared, topologies, node) {
                    counts[topology.domain(node) as usize] += i64::from(count);
                }
            }
            filter.smallest.push(smallest(&counts));
            filter.counts.push(counts);
        }
        filter
    }

    /// Whether the node's pods count: it has the labels of all constraints, and its policies let it in.
    fn is_counted(&self, prepared: &Prepared, topologies: &Topologies, node: NodeId) -> bool {
        let has_labels =
            self.constraints.iter().all(|c| topologies.topology(c.topology).index(node).is_some());
        has_labels && let_in(&prepared.spread, self.table.flags[node.index()])
    }

    /// A pod comes to a node (1) or leaves it (-1), as a trial.
    pub(super) fn adjust(
        &mut self,
        cluster: &Cluster,
        topologies: &Topologies,
        pod: &Pod,
        node: NodeId,
        by: i64,
    ) {
        for (at, prepared) in self.constraints.iter().enumerate() {
            // As in the reference, a pod that is ending counts here, though it was not among those counted at first.
            let counts = pod.shape.namespace == self.namespace
                && prepared.spread.selector.matches(&pod.shape.labels, cluster.texts());
            if !counts || !self.is_counted(prepared, topologies, node) {
                continue;
            }
            let domain = topologies.topology(prepared.topology).domain(node) as usize;
            self.counts[at][domain] += by;
            let (before, _) = self.smallest[at];
            let now = self.counts[at][domain];
            if now < before {
                self.smallest[at].0 = now;
            } else if now - by == before {
                self.smallest[at] = smallest(&self.counts[at]);
            }
        }
    }

    /// Whether the pod can be on the node.
    pub(super) fn check(&self, topologies: &Topologies, node: NodeId) -> Verdict {
        let plugin = Plugin::PodTopologySpread;
        for (at, prepared) in self.constraints.iter().enumerate() {
            let Some(domain) = topologies.topology(prepared.topology).index(node) else {
                return Verdict::refused(plugin, Resolvable::No, MISSING_LABEL);
            };
            let (mut smallest, domains) = self.smallest[at];
            if domains < usize::try_from(prepared.spread.min_domains).unwrap_or(0) {
                smallest = 0;
            }
            let count = match self.counts[at][domain] {
                NOT_COUNTED => 0,
                count => count,
            };
            if count + i64::from(prepared.self_match) - smallest > i64::from(prepared.spread.max_skew) {
                return Verdict::refused(plugin, Resolvable::Yes, SKEW);
            }
        }
        Verdict::FITS
    }
}

/// The smallest count, and how many domains count. Without any domain no skew is too large.
fn smallest(counts: &[i64]) -> (i64, usize) {
    let counted = counts.iter().filter(|count| **count != NOT_COUNTED);
    let domains = counted.clone().count();
    (counted.min().copied().unwrap_or(i64::from(i32::MAX)), domains)
}

/// Scores of nodes by the constraints that are wished for: 0 to 100, in the order of `feasible`.
#[expect(clippy::cast_possible_truncation, reason = "the reference computes in floats")]
pub(super) fn score(
    rules: &CompiledProfile,
    constraints: &Constraints,
    topologies: &Topologies,
    selections: &Selections,
    table: &LocalTable,
    feasible: &[NodeId],
) -> Vec<i64> {
    let soft = &constraints.soft;
    let has_labels =
        |node: NodeId| soft.iter().all(|c| topologies.topology(c.topology).index(node).is_some());
    let is_ignored = |node: NodeId| !constraints.lenient && !has_labels(node);
    let ignored = feasible.iter().filter(|node| is_ignored(**node)).count();
    let mut raw = vec![0f64; feasible.len()];
    for prepared in soft {
        let topology = topologies.topology(prepared.topology);
        let skew = f64::from(prepared.spread.max_skew - 1);
        if prepared.spread.topology_key == rules.hostname {
            let weight = ((feasible.len() - ignored) as f64 + 2.0).ln();
            let mut by_node = vec![0; table.flags.len()];
            prepared.pods(selections).for_each(|(node, count)| by_node[node.index()] = count);
            for (node, score) in feasible.iter().zip(&mut raw) {
                if topology.index(*node).is_some() {
                    *score += f64::from(by_node[node.index()]) * weight + skew;
                }
            }
            continue;
        }
        let mut by_domain = vec![NOT_COUNTED; topology.len()];
        let scored = feasible.iter().filter(|node| !is_ignored(**node));
        for domain in scored.filter_map(|node| topology.index(*node)) {
            by_domain[domain] = 0;
        }
        let labelled = by_domain.iter().filter(|count| **count != NOT_COUNTED).count();
        // Scored nodes without the label, which only the constraints of the system have, are one domain more.
        let is_unlabelled = |node: &NodeId| !is_ignored(*node) && topology.index(*node).is_none();
        let size = labelled + usize::from(feasible.iter().any(is_unlabelled));
        for (node, count) in prepared.pods(selections) {
            let counted = !is_ignored(node) && let_in(&prepared.spread, table.flags[node.index()]);
            let Some(domain) = topology.index(node).filter(|_| counted) else { continue };
            if by_domain[domain] != NOT_COUNTED {
                by_domain[domain] += i64::from(count);
            }
        }
        let weight = (size as f64 + 2.0).ln();
        for (node, score) in feasible.iter().zip(&mut raw) {
            if let Some(domain) = topology.index(*node) {
                *score += by_domain[domain].max(0) as f64 * weight + skew;
            }
        }
    }
    let raw =
        feasible.iter().zip(raw).map(|(node, score)| (!is_ignored(*node)).then(|| score.round() as i64));
    let raw: Vec<Option<i64>> = raw.collect();
    normalize(&raw)
}

/// The fewest pods score best. Nodes that lack a label score 0.
fn normalize(raw: &[Option<i64>]) -> Vec<i64> {
    let max = raw.iter().flatten().max().copied().unwrap_or(0);
    let min = raw.iter().flatten().min().copied().unwrap_or(0);
    let normalized = raw.iter().map(|score| match score {
        None => 0,
        Some(_) if max == 0 => SCORE_MAX,
        Some(score) => SCORE_MAX * (max + min - score) / max,
    });
    normalized.collect()
}
