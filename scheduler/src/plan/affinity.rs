//! InterPodAffinity: pods near other pods, or far from them.
//!
//! Owns the counts per domain that one plan needs: pods that the new pod's terms choose, and pods whose terms choose
//! the new pod. Both come from the snapshot's indexes; no pod is looked at.

use crate::objects::affinity::{PodSelection, PodTerm};
use crate::objects::intern::Symbol;
use crate::objects::pod::Pod;

use super::cluster::nodes::NodeId;
use super::cluster::selections::{Counted, CounterId, Selections};
use super::cluster::terms::{HeldTerm, TermKind};
use super::cluster::topology::{Topologies, TopologyId};
use super::cluster::{Cluster, Memo};
use super::compiled_profile::CompiledProfile;
use super::profile::Plugin;
use super::resource_scores::SCORE_MAX;
use super::verdict::{Resolvable, Verdict};

/// Counts by the domains of one topology.
struct Column {
    key: Symbol,
    topology: TopologyId,
    counts: Vec<i64>,
}

impl Column {
    fn new(cluster: &Cluster, memo: &mut Memo, key: Symbol) -> Column {
        let topology = memo.topologies.prepare(key, cluster.nodes());
        Column { key, topology, counts: vec![0; memo.topologies.topology(topology).len()] }
    }

    /// Adds to the domain of a node. Returns whether it has one.
    fn add(&mut self, topologies: &Topologies, node: NodeId, by: i64) -> bool {
        let domain = topologies.topology(self.topology).index(node);
        if let Some(domain) = domain {
            self.counts[domain] += by;
        }
        domain.is_some()
    }

    /// The count of the domain of a node; `None` if it has none.
    fn of(&self, topologies: &Topologies, node: NodeId) -> Option<i64> {
        topologies.topology(self.topology).index(node).map(|domain| self.counts[domain])
    }
}

/// The filter.
pub(super) struct AffinityFilter {
    /// Pods that all required terms choose, per term.
    near: Vec<Column>,
    near_counter: Option<CounterId>,
    /// The sum over `near`: 0 if no pod anywhere is chosen.
    near_total: i64,
    /// Whether the pod's own terms choose the pod itself.
    chooses_itself: bool,
    /// Pods that a required anti-affinity term chooses, per term.
    apart: Vec<(Column, CounterId)>,
    /// Pods whose required anti-affinity terms choose the new pod, per topology.
    forbidden: Vec<Column>,
}

fn chooses(cluster: &Cluster, selection: &PodSelection, pod: &Pod) -> bool {
    let namespace = pod.shape.namespace;
    selection.matches(namespace, cluster.namespaces().labels(namespace), &pod.shape.labels, cluster.texts())
}

impl AffinityFilter {
    /// Adds up the pods by domain; `None` if nothing is asked for and nobody is in the way.
    pub(super) fn prepare(cluster: &Cluster, memo: &mut Memo, pod: &Pod) -> Option<AffinityFilter> {
        let terms = &pod.shape.terms;
        let forbidden = forbidden(cluster, memo, pod);
        if terms.required.is_empty() && terms.required_anti.is_empty() && forbidden.is_empty() {
            return None;
        }
        let counter = |memo: &mut Memo, all: Vec<PodSelection>| {
            let counted = Counted { all, terminating: true };
            memo.selections.counter(counted, cluster.nodes(), cluster.namespaces(), cluster.texts())
        };
        let mut filter = AffinityFilter {
            near: Vec::new(),
            near_counter: None,
            near_total: 0,
            chooses_itself: terms.required.iter().all(|term| chooses(cluster, &term.pods, pod)),
            apart: Vec::new(),
            forbidden,
        };
        if !terms.required.is_empty() {
            let all = terms.required.iter().map(|term| term.pods.clone()).collect();
            let id = counter(memo, all);
            filter.near_counter = Some(id);
            for term in &terms.required {
                let mut column = Column::new(cluster, memo, term.topology_key);
                for (node, count) in memo.selections.counts(id).iter() {
                    if column.add(&memo.topologies, node, i64::from(count)) {
                        filter.near_total += i64::from(count);
                    }
                }
                filter.near.push(column);
            }
        }
        for term in &terms.required_anti {
            let id = counter(memo, vec![term.pods.clone()]);
            let mut column = Column::new(cluster, memo, term.topology_key);
            for (node, count) in memo.selections.counts(id).iter() {
                column.add(&memo.topologies, node, i64::from(count));
            }
            filter.apart.push((column, id));
        }
        Some(filter)
    }

    /// `victim` comes to a node (1) or leaves it (-1), as a trial.
    pub(super) fn adjust(
        &mut self,
        cluster: &Cluster,
        topologies: &Topologies,
        selections: &Selections,
        pod: &Pod,
        (victim, node, by): (&Pod, NodeId, i64),
    ) {
        let counts = |id| selections.counts_pod(id, victim, cluster.namespaces(), cluster.texts());
        if self.near_counter.is_some_and(counts) {
            for column in &mut self.near {
                if column.add(topologies, node, by) {
                    self.near_total += by;
                }
            }
        }
        for (column, id) in &mut self.apart {
            if counts(*id) {
                column.add(topologies, node, by);
            }
        }
        for term in &victim.shape.terms.required_anti {
            if let Some(column) = self.forbidden.iter_mut().find(|column| column.key == term.topology_key)
                && chooses(cluster, &term.pods, pod)
            {
                column.add(topologies, node, by);
            }
        }
    }

    /// Whether the pod can be on the node.
    pub(super) fn check(&self, topologies: &Topologies, node: NodeId) -> Verdict {
        let plugin = Plugin::InterPodAffinity;
        let counts = self.near.iter().map(|column| column.of(topologies, node));
        let mut all_near = true;
        for count in counts {
            match count {
                None => return Verdict::refused(plugin, Resolvable::No, 1),
                Some(count) => all_near &= count > 0,
            }
        }
        if !(all_near || self.near_total == 0 && self.chooses_itself) {
            return Verdict::refused(plugin, Resolvable::No, 1);
        }
        let is_above_zero = |column: &Column| column.of(topologies, node).is_some_and(|count| count > 0);
        if self.apart.iter().any(|(column, _)| is_above_zero(column)) {
            return Verdict::refused(plugin, Resolvable::Yes, 2);
        }
        if self.forbidden.iter().any(is_above_zero) {
            return Verdict::refused(plugin, Resolvable::Yes, 4);
        }
        Verdict::FITS
    }
}

/// Pods whose required anti-affinity chooses `pod`, by topology. Those that are only nominated have a column, too, in
/// which a trial counts them.
fn forbidden(cluster: &Cluster, memo: &mut Memo, pod: &Pod) -> Vec<Column> {
    let mut columns: Vec<Column> = Vec::new();
    let held = cluster.terms().iter().filter(|held| held.kind == TermKind::RequiredAntiAffinity);
    let held = held.filter(|held| is_somewhere(cluster, &held.term));
    for HeldTerm { term, nodes, .. } in held.filter(|held| chooses(cluster, &held.term.pods, pod)) {
        let column = column_of(cluster, memo, &mut columns, term);
        for (node, count) in nodes.iter() {
            column.add(&memo.topologies, node, i64::from(count));
        }
    }
    if !cluster.nominations().is_empty() {
        let nominated = cluster.nominations().nodes().flat_map(|node| cluster.nominations().on(node));
        for term in nominated.flat_map(|other| &other.shape.terms.required_anti) {
            if is_somewhere(cluster, term) && chooses(cluster, &term.pods, pod) {
                column_of(cluster, memo, &mut columns, term);
            }
        }
    }
    columns
}

/// Whether any node has the term's topology. Users choose the keys, and thousands of them may stand in one pod.
fn is_somewhere(cluster: &Cluster, term: &PodTerm) -> bool {
    cluster.nodes().have_label(term.topology_key)
}

fn column_of<'a>(
    cluster: &Cluster,
    memo: &mut Memo,
    columns: &'a mut Vec<Column>,
    term: &PodTerm,
) -> &'a mut Column {
    let at = columns.iter().position(|column| column.key == term.topology_key);
    let at = at.unwrap_or_else(|| {
        columns.push(Column::new(cluster, memo, term.topology_key));
        columns.len() - 1
    });
    &mut columns[at]
}

/// The score: for each node, the weights of what is near it.
pub(super) struct AffinityScore {
    columns: Vec<Column>,
}

impl AffinityScore {
    /// Adds up weights by domain; `None` if nothing is preferred.
    pub(super) fn prepare(
        rules: &CompiledProfile,
        cluster: &Cluster,
        memo: &mut Memo,
        pod: &Pod,
    ) -> Option<AffinityScore> {
        let terms = &pod.shape.terms;
        let arguments = &rules.profile.arguments;
        let mut columns = Vec::new();
        let wanted = terms.preferred.iter().map(|weighted| (weighted.weight, &weighted.term));
        let shunned = terms.preferred_anti.iter().map(|weighted| (-weighted.weight, &weighted.term));
        for (weight, term) in wanted.chain(shunned).filter(|(_, term)| is_somewhere(cluster, term)) {
            let counted = Counted { all: vec![term.pods.clone()], terminating: true };
            let (nodes, namespaces, texts) = (cluster.nodes(), cluster.namespaces(), cluster.texts());
            let id = memo.selections.counter(counted, nodes, namespaces, texts);
            if memo.selections.counts(id).is_empty() {
                continue;
            }
            let column = column_of(cluster, memo, &mut columns, term);
            for (node, count) in memo.selections.counts(id).iter() {
                column.add(&memo.topologies, node, i64::from(count) * weight);
            }
        }
        if !arguments.ignore_preferred_terms_of_existing_pods || terms.has_preferences() {
            for held in cluster.terms().iter() {
                let weight = match held.kind {
                    TermKind::RequiredAntiAffinity => 0,
                    TermKind::RequiredAffinity => i64::from(arguments.hard_pod_affinity_weight),
                    TermKind::Preferred(weight) => weight,
                };
                let counts = weight != 0 && is_somewhere(cluster, &held.term);
                if !counts || !chooses(cluster, &held.term.pods, pod) {
                    continue;
                }
                let column = column_of(cluster, memo, &mut columns, &held.term);
                for (node, count) in held.nodes.iter() {
                    column.add(&memo.topologies, node, i64::from(count) * weight);
                }
            }
        }
        (!columns.is_empty()).then_some(AffinityScore { columns })
    }

    /// Scores from 0 to 100, in the order of `feasible`.
    #[expect(clippy::cast_possible_truncation, reason = "the reference computes in floats")]
    pub(super) fn score(&self, topologies: &Topologies, feasible: &[NodeId]) -> Vec<i64> {
        let raw = feasible
            .iter()
            .map(|node| self.columns.iter().filter_map(|column| column.of(topologies, *node)).sum::<i64>());
        let mut raw: Vec<i64> = raw.collect();
        let max = raw.iter().max().copied().unwrap_or(0);
        let min = raw.iter().min().copied().unwrap_or(0);
        for score in &mut raw {
            *score = match max - min {
                0 => 0,
                range => (SCORE_MAX as f64 * ((*score - min) as f64 / range as f64)) as i64,
            };
        }
        raw
    }
}
