//! Filters and scores that look at one node alone, and their results for each shape of pods.
//!
//! Owns the columns of results: a plan brings up to date only the nodes that changed since the last plan for a pod of
//! the same shape, and reads the rest. Never looks at other nodes' pods.

use std::cell::RefCell;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::objects::intern::Symbol;
use crate::objects::pod::LocalShape;
use crate::objects::taints::{Effect, tolerated};

use super::cluster::Cluster;
use super::cluster::nodes::{Load, NodeId, Slot};
use super::compiled_profile::{CompiledProfile, is_local};
use super::preempt::Attempts;
use super::profile::Plugin;
use super::ranking::Ranking;
use super::resource_scores as scores;
use super::verdict::{Resolvable, Verdict, fit};

/// The node is one of those that the pod requires.
pub(super) const REQUIRED: u8 = 1;
/// The pod tolerates the taints that keep pods off the node.
pub(super) const TOLERATED: u8 = 2;

/// The result of a plugin that looks at one node alone.
pub(super) fn check(
    plugin: Plugin,
    rules: &CompiledProfile,
    cluster: &Cluster,
    local: &LocalShape,
    slot: &Slot,
    load: &Load,
) -> Verdict {
    let refuse = |reasons| Verdict::refused(plugin, Resolvable::No, reasons);
    let texts = cluster.texts();
    let node = &slot.node;
    match plugin {
        Plugin::NodeUnschedulable
            if node.unschedulable && !tolerated(&local.tolerations, &rules.unschedulable) =>
        {
            refuse(1)
        }
        Plugin::TaintToleration if !tolerates_node(local, slot) => refuse(1),
        Plugin::NodeAffinity => {
            let added = rules.added_nodes.as_ref();
            if added.is_some_and(|added| !added.matches(node.name, &node.labels, texts)) {
                refuse(2)
            } else if !local.nodes.matches(node.name, &node.labels, texts) {
                refuse(1)
            } else {
                Verdict::FITS
            }
        }
        Plugin::NodePorts => {
            let taken = |port| load.ports.iter().any(|other| other.conflicts(port));
            if local.ports.iter().any(taken) {
                Verdict::refused(plugin, Resolvable::Yes, 1)
            } else {
                Verdict::FITS
            }
        }
        Plugin::NodeResourcesFit => check_fit(rules, cluster, local, slot, load),
        _ => Verdict::FITS,
    }
}

fn tolerates_node(local: &LocalShape, slot: &Slot) -> bool {
    slot.node.taints.iter().all(|taint| !taint.effect.is_hard() || tolerated(&local.tolerations, taint))
}

fn check_fit(
    rules: &CompiledProfile,
    cluster: &Cluster,
    local: &LocalShape,
    slot: &Slot,
    load: &Load,
) -> Verdict {
    let (allocatable, used, asked) = (&slot.node.allocatable, &load.requested, &local.requests.total);
    let mut reasons = 0;
    let mut resolvable = Resolvable::Yes;
    if load.pods + 1 > slot.node.pods_max {
        reasons |= fit::PODS;
    }
    let mut compare = |bit: u64, asked: i64, allocatable: i64, used: i64| {
        if asked > 0 && asked > allocatable - used {
            reasons |= bit;
            if asked > allocatable {
                resolvable = Resolvable::No;
            }
        }
    };
    compare(fit::CPU, asked.cpu_milli, allocatable.cpu_milli, used.cpu_milli);
    compare(fit::MEMORY, asked.memory, allocatable.memory, used.memory);
    compare(fit::EPHEMERAL, asked.ephemeral_storage, allocatable.ephemeral_storage, used.ephemeral_storage);
    for (at, (name, amount)) in asked.scalars.iter().enumerate() {
        if rules.counts_resource(*name, cluster.texts()) && !is_left_to_devices(cluster, slot, *name) {
            let bit = 1 << (fit::SCALARS_SHIFT + at.min(fit::SCALARS_MAX - 1));
            compare(bit, *amount, allocatable.scalar(*name), used.scalar(*name));
        }
    }
    match reasons {
        0 => Verdict::FITS,
        reasons => Verdict::refused(Plugin::NodeResourcesFit, resolvable, reasons),
    }
}

/// Whether the node does not offer a resource, but devices may stand for it: DynamicResources looks whether it has them.
fn is_left_to_devices(cluster: &Cluster, slot: &Slot, name: Symbol) -> bool {
    slot.node.allocatable.scalar(name) <= 0 && cluster.devices().offers(cluster.texts().text(name))
}

/// The first refusal of the plugins that look at one node alone.
pub(super) fn check_all(
    rules: &CompiledProfile,
    cluster: &Cluster,
    local: &LocalShape,
    slot: &Slot,
    load: &Load,
) -> Verdict {
    let plugins = rules.profile.enabled.filter.iter().filter(|plugin| is_local(**plugin));
    plugins
        .map(|plugin| check(*plugin, rules, cluster, local, slot, load))
        .find(|verdict| !verdict.fits())
        .unwrap_or(Verdict::FITS)
}

/// Results for pods of one shape and priority, by node.
#[derive(Debug)]
pub(super) struct LocalTable {
    /// The shape.
    pub(super) local: Arc<LocalShape>,
    /// The priority: pods leave room for nominated pods of at least theirs.
    priority: i32,
    /// Results of the filters by node.
    pub(super) verdicts: Vec<Verdict>,
    /// Refusals on nodes whose nominated pods, added to the load, leave the pod no room.
    with_nominated: HashMap<NodeId, Verdict>,
    /// The nodes in the order of [`LocalTable::verdict`] and `fixed`.
    pub(super) ranking: Ranking,
    /// Scores that need no comparison with other nodes, weighted and summed.
    pub(super) fixed: Vec<i32>,
    /// Number of untolerated `PreferNoSchedule` taints by node.
    pub(super) taints: Vec<u16>,
    /// Weights of preferred terms that match, summed.
    pub(super) preferred: Vec<i32>,
    /// [`REQUIRED`] and [`TOLERATED`].
    pub(super) flags: Vec<u8>,
    /// Whether any node has an untolerated `PreferNoSchedule` taint.
    pub(super) has_taints: bool,
    /// Changes whenever nodes changed for it.
    pub(super) position: u64,
    images_version: u64,
    offers_version: u64,
    devices_version: u64,
    /// Results of preemption on nodes that did not change since.
    pub(super) attempts: RefCell<Attempts>,
    /// When a plan last used it.
    pub(super) used: u64,
}

impl LocalTable {
    /// A table without results; [`LocalTable::update`] fills it.
    pub(super) fn new(local: Arc<LocalShape>, priority: i32) -> LocalTable {
        LocalTable {
            local,
            priority,
            verdicts: Vec::new(),
            with_nominated: HashMap::new(),
            ranking: Ranking::default(),
            fixed: Vec::new(),
            taints: Vec::new(),
            preferred: Vec::new(),
            flags: Vec::new(),
            has_taints: false,
            position: 0,
            images_version: 0,
            offers_version: 0,
            devices_version: 0,
            attempts: RefCell::default(),
            used: 0,
        }
    }

    /// Brings the results up to date with the nodes that changed.
    pub(super) fn update(&mut self, rules: &CompiledProfile, cluster: &Cluster) {
        let nodes = cluster.nodes();
        let is_new = self.verdicts.is_empty();
        let columns = nodes.columns();
        self.verdicts.resize(columns, Verdict::ABSENT);
        self.fixed.resize(columns, 0);
        self.taints.resize(columns, 0);
        self.preferred.resize(columns, 0);
        self.flags.resize(columns, 0);
        let images = cluster.images();
        let images_changed = self.images_version != images.version()
            && self.local.images.iter().any(|image| images.find(*image).is_some());
        self.images_version = images.version();
        let offers_version = cluster.devices().offers_version();
        let offers_changed =
            self.offers_version != offers_version && !self.local.requests.total.scalars.is_empty();
        self.offers_version = offers_version;
        let devices_version = cluster.devices().version();
        let devices_changed = self.devices_version != devices_version && self.scores_devices(rules, cluster);
        self.devices_version = devices_version;
        let is_kept = !is_new && !images_changed && !offers_changed && !devices_changed;
        let changed = nodes.journal().since(self.position).filter(|_| is_kept);
        match changed {
            Some(changed) => {
                for node in changed {
                    self.ranking.remove(node, self.verdict(node), self.fixed[node.index()]);
                    self.evaluate(rules, cluster, node);
                }
            }
            None => {
                self.ranking.clear();
                (0..columns).for_each(|index| self.evaluate(rules, cluster, NodeId::of(index)));
            }
        }
        self.position = nodes.journal().position();
    }

    /// Whether nodes are scored by devices that stand for a resource which the pods ask for.
    fn scores_devices(&self, rules: &CompiledProfile, cluster: &Cluster) -> bool {
        let offered = |name: &Symbol| cluster.devices().offers(cluster.texts().text(*name));
        let asked = |name: &Symbol| self.local.requests.total.scalar(*name) > 0;
        rules.scored_scalars().any(|name| asked(&name) && offered(&name))
    }

    /// The filters' result on a node, with the pods that are nominated to it.
    pub(super) fn verdict(&self, node: NodeId) -> Verdict {
        let with_nominated =
            if self.with_nominated.is_empty() { None } else { self.with_nominated.get(&node) };
        with_nominated.copied().unwrap_or(self.verdicts[node.index()])
    }

    /// The nodes that fit, in their order.
    pub(super) fn fitting(&self) -> impl Iterator<Item = NodeId> + '_ {
        (0..self.verdicts.len()).map(NodeId::of).filter(|node| self.verdict(*node).fits())
    }

    /// Once brought up to date, the table equals one that is made anew.
    #[cfg(test)]
    pub(super) fn assert_equals_anew(&self, rules: &CompiledProfile, cluster: &Cluster) {
        let mut anew = LocalTable::new(Arc::clone(&self.local), self.priority);
        anew.update(rules, cluster);
        if self.position != anew.position {
            // No plan asked for it since the last change.
            return;
        }
        assert_eq!(self.verdicts, anew.verdicts, "verdicts of nodes as they are");
        assert_eq!(self.with_nominated, anew.with_nominated, "verdicts of nodes with pods nominated to them");
        assert_eq!(self.ranking.sorted(), anew.ranking.sorted(), "the order of nodes");
        let is_there = |at: &usize| !self.verdicts[*at].is_absent();
        for at in (0..self.verdicts.len()).filter(is_there) {
            let row = |table: &LocalTable| {
                (table.fixed[at], table.taints[at], table.preferred[at], table.flags[at])
            };
            assert_eq!(row(self), row(&anew), "scores of node {at}");
        }
    }

    fn evaluate(&mut self, rules: &CompiledProfile, cluster: &Cluster, node: NodeId) {
        let index = node.index();
        self.attempts.get_mut().forget(node);
        self.with_nominated.remove(&node);
        let Some(slot) = cluster.nodes().slot(node) else {
            self.verdicts[index] = Verdict::ABSENT;
            self.flags[index] = 0;
            return;
        };
        let local = &*self.local;
        let texts = cluster.texts();
        self.verdicts[index] = check_all(rules, cluster, local, slot, &slot.load);
        if let Some(load) = load_with_nominated(cluster, slot, self.priority) {
            let verdict = check_all(rules, cluster, local, slot, &load);
            if !verdict.fits() {
                self.with_nominated.insert(node, verdict);
            }
        }
        self.fixed[index] = fixed_score(rules, cluster, local, slot);
        let preferred = local.preferred_nodes.iter().chain(&rules.added_preferred);
        let preferred = preferred.filter(|p| p.term.matches(slot.node.name, &slot.node.labels, texts));
        self.preferred[index] = i32::try_from(preferred.map(|p| p.weight).sum::<i64>()).unwrap_or(i32::MAX);
        self.taints[index] = untolerated_preferences(local, slot);
        self.has_taints |= self.taints[index] > 0;
        let required = local.nodes.matches(slot.node.name, &slot.node.labels, texts);
        self.flags[index] =
            if required { REQUIRED } else { 0 } | if tolerates_node(local, slot) { TOLERATED } else { 0 };
        self.ranking.insert(node, self.verdict(node), self.fixed[index]);
    }
}

/// The load of a node once the pods that are nominated to it have come, of at least this priority; `None` without any.
fn load_with_nominated(cluster: &Cluster, slot: &Slot, priority: i32) -> Option<Load> {
    let nominated = cluster.nominations().on(slot.node.name).iter();
    let mut nominated = nominated.filter(|pod| pod.priority >= priority).peekable();
    nominated.peek()?;
    let mut load = slot.load.clone();
    nominated.for_each(|pod| load.add(pod));
    Some(load)
}

fn fixed_score(rules: &CompiledProfile, cluster: &Cluster, local: &LocalShape, slot: &Slot) -> i32 {
    let mut sum = 0;
    for weighted in &rules.profile.enabled.score {
        let score = match weighted.plugin {
            Plugin::NodeResourcesFit => scores::fit(rules, cluster, local, slot, &slot.load),
            Plugin::NodeResourcesBalancedAllocation => {
                scores::balanced(rules, cluster, local, slot, &slot.load)
            }
            Plugin::ImageLocality => scores::images(cluster, local, slot),
            _ => 0,
        };
        sum += score * weighted.weight;
    }
    i32::try_from(sum).unwrap_or(i32::MAX)
}

/// How many taints of the kind that only prefers the pod does not tolerate.
pub(super) fn untolerated_preferences(local: &LocalShape, slot: &Slot) -> u16 {
    let soft = slot.node.taints.iter().filter(|taint| taint.effect == Effect::PreferNoSchedule);
    let untolerated = soft.filter(|taint| !tolerated(&local.tolerations, taint)).count();
    u16::try_from(untolerated).unwrap_or(u16::MAX)
}
