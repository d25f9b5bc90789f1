//! DefaultPreemption: chooses a node and its victims.
//!
//! Owns the choice of victims on a node and the choice among nodes. On each node where pods of lower priority are in
//! the way, all of them leave as a trial; if the pod fits then, they come back one by one, those whose eviction would
//! break a disruption budget first, then the important ones, and who does not fit back in is a victim.

use std::borrow::Cow;
use std::sync::Arc;

use crate::objects::pod::Pod;

use super::cluster::Cluster;
use super::cluster::nodes::NodeId;
use super::context::Context;
use super::decision::{PodName, Preemption};
use super::extenders::Extenders;
use super::message::{NO_VICTIMS, NOT_HELPFUL, Reasons};
use super::trial::Trial;
use super::verdict::Verdict;

/// A node that fits once the victims are gone.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The node.
    pub node: NodeId,
    /// The victims, the most important first.
    pub victims: Vec<Arc<Pod>>,
    /// The number of victims whose eviction breaks a disruption budget.
    pub violations: usize,
}

/// The result of a preemption.
pub(super) enum PreemptionOutcome {
    /// A node, and victims.
    Found(Preemption),
    /// No candidate on any node, with the message.
    Nothing(String),
    /// The pod may not preempt, or not now, or extenders left no candidate; why. Its nomination stays.
    NotEligible(&'static str),
    /// An extender failed.
    Failed(String),
}

/// The filters' results, summed over all nodes.
pub(super) struct Refused<'a> {
    /// Kinds of verdicts, and how many nodes have each.
    pub(super) counts: Cow<'a, [(Verdict, usize)]>,
    /// The nodes that the eviction of pods could make fit, in their order.
    pub(super) potential: Cow<'a, [NodeId]>,
    /// The verdict on the node that the pod's status nominates, if there is such a node.
    pub(super) nominated: Option<Verdict>,
}

/// Looks for the node where the least harm is done.
pub(super) fn preempt(
    trial: &mut Trial<'_>,
    refused: &Refused<'_>,
    seed: u64,
    extenders: &mut dyn Extenders,
) -> PreemptionOutcome {
    let Context { cluster, pod, .. } = trial.context();
    if let Some(reason) = ineligible(trial.context(), refused.nominated) {
        return PreemptionOutcome::NotEligible(reason);
    }
    let all = cluster.nodes().len();
    let mut reasons = Reasons::default();
    reasons.add(NOT_HELPFUL.into(), all - refused.potential.len());
    let candidates = dry_run(trial, &refused.potential, seed, &mut reasons);
    if candidates.is_empty() {
        return PreemptionOutcome::Nothing(reasons.message(all));
    }
    let candidates = match extenders.preempt(cluster, pod, &candidates) {
        Ok(None) => candidates,
        Ok(Some(changed)) => changed.into_iter().map(Arc::new).collect(),
        Err(error) => return PreemptionOutcome::Failed(error),
    };
    // Of equal ones this is the first.
    match candidates.iter().min_by_key(|candidate| harm(candidate)) {
        Some(best) => PreemptionOutcome::Found(answer(trial.context(), best)),
        None => PreemptionOutcome::NotEligible("no candidate node for preemption"),
    }
}

/// The reason why the pod may not preempt; `None` if it may.
fn ineligible(context: Context<'_>, nominated: Option<Verdict>) -> Option<&'static str> {
    let Context { cluster, pod, .. } = context;
    if pod.never_preempts {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let node = cluster.nodes().find(pod.nominated_node)?;
    if !nominated.is_some_and(Verdict::is_resolvable) {
        return None;
    }
    let slot = cluster.nodes().slot(node)?;
    let leaving = slot.pods.iter().any(|other| other.preempted && other.priority < pod.priority);
    leaving.then_some("not eligible due to a terminating pod on the nominated node.")
}

/// Tries nodes until enough candidates are found, beginning anywhere.
fn dry_run(
    trial: &mut Trial<'_>,
    potential: &[NodeId],
    seed: u64,
    reasons: &mut Reasons,
) -> Vec<Arc<Candidate>> {
    let Context { cluster, pod, table, .. } = trial.context();
    let wanted = candidates_wanted(trial.context(), potential.len());
    let offset = usize::try_from(seed % (potential.len().max(1) as u64)).unwrap_or(0);
    let is_local = trial.is_local();
    // There, the pod leaves no room for itself, and another one of its kind would.
    let own = cluster.nominations().node_of(&pod.uid).and_then(|name| cluster.nodes().find(name));
    let mut kept = table.attempts.borrow_mut();
    if is_local {
        kept.prepare(cluster);
    }
    let mut candidates: Vec<Arc<Candidate>> = Vec::new();
    let mut has_harmless = false;
    let mut no_candidates: Vec<(NoCandidate, usize)> = Vec::new();
    for at in 0..potential.len() {
        let node = potential[(at + offset) % potential.len()];
        let is_kept = is_local && own != Some(node);
        let attempt = match kept.of(node).filter(|_| is_kept) {
            Some(attempt) => attempt.clone(),
            None => {
                let attempt = victims_on(trial, node).map(Arc::new);
                if is_kept {
                    kept.keep(node, attempt.clone());
                }
                attempt
            }
        };
        match attempt {
            Ok(candidate) => {
                has_harmless |= candidate.violations == 0;
                candidates.push(candidate);
                if has_harmless && candidates.len() >= wanted {
                    break;
                }
            }
            Err(why) => match no_candidates.iter_mut().find(|(other, _)| *other == why) {
                Some((_, count)) => *count += 1,
                None => no_candidates.push((why, 1)),
            },
        }
    }
    for (why, count) in no_candidates {
        for text in why.texts(trial.context(), &trial.own) {
            reasons.add(text, count);
        }
    }
    candidates
}

/// The reason why a node is no candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoCandidate {
    /// No pod has a lower priority.
    NoVictims,
    /// The filters refuse the node even without all pods of lower priority.
    Refused(Verdict),
}

impl NoCandidate {
    fn texts(self, context: Context<'_>, own: &[String]) -> Vec<String> {
        match self {
            NoCandidate::NoVictims => vec![NO_VICTIMS.into()],
            NoCandidate::Refused(verdict) => {
                verdict.texts(&context.pod.shape.local, context.cluster.texts(), own)
            }
        }
    }
}

type Attempt = Result<Arc<Candidate>, NoCandidate>;

/// Results of preemption by node, for pods of one shape and priority. Only for pods that look at no other node;
/// a node's entry goes when the node, its pods or those nominated to it change.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    budgets_version: u64,
    of_node: Vec<Option<Attempt>>,
}

impl Attempts {
    fn prepare(&mut self, cluster: &Cluster) {
        if self.budgets_version != cluster.budgets_version() {
            self.of_node.clear();
        }
        self.budgets_version = cluster.budgets_version();
        self.of_node.resize(cluster.nodes().columns(), None);
    }

    fn of(&self, node: NodeId) -> Option<&Attempt> {
        self.of_node.get(node.index())?.as_ref()
    }

    fn keep(&mut self, node: NodeId, attempt: Attempt) {
        self.of_node[node.index()] = Some(attempt);
    }

    /// A node changed.
    pub(super) fn forget(&mut self, node: NodeId) {
        if let Some(entry) = self.of_node.get_mut(node.index()) {
            *entry = None;
        }
    }
}

fn candidates_wanted(context: Context<'_>, potential: usize) -> usize {
    let arguments = &context.rules.profile.arguments;
    let percentage = usize::try_from(arguments.min_candidate_nodes_percentage).unwrap_or(0);
    let absolute = usize::try_from(arguments.min_candidate_nodes_absolute).unwrap_or(0);
    (potential * percentage / 100).max(absolute).min(potential)
}

/// The victims on a node, or the reasons why none help.
fn victims_on(trial: &mut Trial<'_>, node: NodeId) -> Result<Candidate, NoCandidate> {
    let Context { cluster, pod, .. } = trial.context();
    let slot = cluster.nodes().slot(node).expect("only nodes that exist were refused");
    let gone: Pods = slot.pods.iter().filter(|other| other.priority < pod.priority).cloned().collect();
    if gone.is_empty() {
        return Err(NoCandidate::NoVictims);
    }
    let mut load = slot.load.clone();
    for other in &gone {
        load.remove(other);
        trial.adjust(other, node, -1);
    }
    let verdict = trial.check(node, slot, Some(&load), &gone);
    if !verdict.fits() {
        gone.iter().for_each(|other| trial.adjust(other, node, 1));
        return Err(NoCandidate::Refused(verdict));
    }
    let mut gone = by_importance(gone);
    let (violating, harmless) = split_by_budget(trial.context(), &gone);
    let mut violations = 0;
    for (others, breaks_budget) in [(violating, true), (harmless, false)] {
        for other in others {
            load.add(&other);
            trial.adjust(&other, node, 1);
            let without: Vec<Arc<Pod>> =
                gone.iter().filter(|pod| !Arc::ptr_eq(pod, &other)).cloned().collect();
            if trial.check(node, slot, Some(&load), &without).fits() {
                gone = without;
            } else {
                load.remove(&other);
                trial.adjust(&other, node, -1);
                violations += usize::from(breaks_budget);
            }
        }
    }
    gone.iter().for_each(|other| trial.adjust(other, node, 1));
    Ok(Candidate { node, victims: gone, violations })
}

/// The most important first: by priority, then by how long they run. The reference takes the present moment for the start
/// of a pod without one, anew in each comparison, so that of two such pods the one that came later goes first.
fn by_importance(pods: Pods) -> Pods {
    let (waiting, mut ordered): (Pods, Pods) = pods.into_iter().partition(|pod| pod.start_time.is_none());
    ordered.extend(waiting.into_iter().rev());
    ordered.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| started(a).cmp(&started(b))));
    ordered
}

/// Pods that did not start yet count as the youngest.
fn started(pod: &Pod) -> (i64, i32) {
    pod.start_time.unwrap_or((i64::MAX, 0))
}

type Pods = Vec<Arc<Pod>>;

/// Pods whose eviction would break a budget, if all before them are evicted, and the others.
fn split_by_budget(context: Context<'_>, pods: &[Arc<Pod>]) -> (Pods, Pods) {
    let cluster = context.cluster;
    let budgets: Vec<_> = cluster.budgets().values().collect();
    let mut allowed: Vec<i32> = budgets.iter().map(|budget| budget.allowed).collect();
    pods.iter().cloned().partition(|pod| {
        let mut breaks = false;
        for (budget, allowed) in budgets.iter().zip(&mut allowed) {
            if budget.covers(pod, cluster.texts()) {
                *allowed -= 1;
                breaks |= *allowed < 0;
            }
        }
        breaks
    })
}

/// Broken budgets, then the highest priority of a victim, then all priorities, then the number of victims, then how
/// early the first of the most important ones started: the later the better.
fn harm(candidate: &Candidate) -> (usize, i32, i64, usize, std::cmp::Reverse<(i64, i32)>) {
    let victims = &candidate.victims;
    let highest = victims.first().map_or(i32::MIN, |pod| pod.priority);
    let shifted = |pod: &Arc<Pod>| i64::from(pod.priority) + i64::from(i32::MAX) + 1;
    let important = victims.iter().filter(|pod| pod.priority == highest);
    let earliest = important.map(|pod| started(pod)).min().unwrap_or((i64::MAX, 0));
    let sum = victims.iter().map(shifted).sum();
    (candidate.violations, highest, sum, victims.len(), std::cmp::Reverse(earliest))
}

fn answer(context: Context<'_>, candidate: &Candidate) -> Preemption {
    let Context { cluster, pod, .. } = context;
    let node = cluster.node_name(candidate.node);
    let slot = cluster.nodes().slot(candidate.node).expect("candidates are nodes that exist");
    let nominated = cluster.nominations().on(slot.node.name).iter();
    Preemption {
        node,
        victims: candidate.victims.iter().map(|pod| name_of(pod)).collect(),
        superseded: nominated.filter(|other| other.priority < pod.priority).map(|pod| name_of(pod)).collect(),
        budget_violations: candidate.violations,
    }
}

fn name_of(pod: &Pod) -> PodName {
    PodName { namespace: Arc::clone(&pod.namespace), name: Arc::clone(&pod.name), uid: Arc::clone(&pod.uid) }
}
