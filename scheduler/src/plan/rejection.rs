//! The decision about a pod that fits on no node.
//!
//! Owns its message: the reasons of all nodes, added up, and the result of preemption.

use super::cluster::nodes::NodeId;
use super::compiled_profile::CompiledProfile;
use super::context::Context;
use super::costs::{Meter, Status};
use super::decision::{Decision, Refusal};
use super::extenders::Extenders;
use super::message::{self, Reasons};
use super::preempt::{PreemptionOutcome, Refused, preempt};
use super::profile::{ExtensionPoint, Plugin, PluginSet};
use super::trial::{RefusedPod, Trial};
use super::verdict::Verdict;

/// A refusal with this message alone.
pub(super) fn refusal(message: String) -> Refusal {
    Refusal {
        message,
        plugins: PluginSet::EMPTY,
        by_extenders: false,
        pending: PluginSet::EMPTY,
        preemption: None,
        clear_nomination: false,
        unusable: None,
    }
}

/// A plugin refused the pod before any node was looked at: no eviction can help.
pub(super) fn refuse_pod(context: Context<'_>, refused: RefusedPod, meter: &mut Meter) -> Decision {
    let Context { rules, cluster, pod, .. } = context;
    meter.point(ExtensionPoint::PreFilter, Status::UnschedulableAndUnresolvable);
    let nodes = cluster.nodes().len();
    let mut messages = Vec::new();
    let mut clear_nomination = rules.profile.enabled.post_filter.is_empty();
    for plugin in &rules.profile.enabled.post_filter {
        match plugin {
            Plugin::DynamicResources if !is_prepared(rules, &refused, *plugin) => {
                // The reference's plugin misses what it would have prepared, and its error ends the attempt.
                messages = vec!["not found".to_owned()];
                clear_nomination = false;
                break;
            }
            Plugin::DynamicResources => messages.push("no new claims to deallocate".to_owned()),
            Plugin::DefaultPreemption if pod.never_preempts => {
                messages.push("preemption: not eligible due to preemptionPolicy=Never.".to_owned());
            }
            Plugin::DefaultPreemption => {
                let mut reasons = Reasons::default();
                reasons.add(message::NOT_HELPFUL.into(), nodes);
                messages.push(format!("preemption: {}", reasons.message(nodes)));
                clear_nomination = true;
            }
            _ => {}
        }
    }
    meter.point(ExtensionPoint::PostFilter, Status::Unschedulable);
    meter.evaluated(ExtensionPoint::PostFilter, rules.profile.enabled.post_filter.iter().copied());
    let before = message::refused_before_nodes(nodes, &refused.message);
    let mut refusal = refusal(format!("{before} {}", messages.join(", ")).trim_end().to_owned());
    refusal.clear_nomination = clear_nomination;
    refusal.plugins.insert(refused.plugin);
    Decision::Unschedulable(refusal)
}

/// Whether a plugin had its turn before the nodes. The one that refuses has had it.
fn is_prepared(rules: &CompiledProfile, refused: &RefusedPod, plugin: Plugin) -> bool {
    let runs = rules.profile.enabled.pre_filter.contains(&plugin);
    runs && (refused.prepared.contains(plugin) || refused.plugin == plugin)
}

/// No node passed.
pub(super) fn refuse(
    trial: &mut Trial<'_>,
    refused: &Refused<'_>,
    seed: u64,
    extenders: &mut dyn Extenders,
    meter: &mut Meter,
) -> Decision {
    meter.lap();
    let decision = refuse_nodes(trial, refused, seed, extenders);
    let Context { rules, .. } = trial.context();
    let is_found = matches!(&decision, Decision::Unschedulable(Refusal { preemption: Some(_), .. }));
    meter.point(ExtensionPoint::PostFilter, if is_found { Status::Success } else { Status::Unschedulable });
    meter.evaluated(ExtensionPoint::PostFilter, rules.profile.enabled.post_filter.iter().copied());
    decision
}

fn refuse_nodes(
    trial: &mut Trial<'_>,
    refused: &Refused<'_>,
    seed: u64,
    extenders: &mut dyn Extenders,
) -> Decision {
    let Context { rules, cluster, .. } = trial.context();
    let nodes = cluster.nodes().len();
    let (reasons, plugins) = reasons_of(trial.context(), &refused.counts, &trial.own);
    let mut refusal = refusal(reasons.message(nodes));
    refusal.plugins = plugins;
    refusal.clear_nomination = rules.profile.enabled.post_filter.is_empty();
    refusal.by_extenders = refused.counts.iter().any(|(verdict, _)| verdict.is_extenders());
    let mut messages = Vec::new();
    for plugin in &rules.profile.enabled.post_filter {
        match plugin {
            Plugin::DynamicResources => {
                let post_filter = trial.post_filter_devices();
                messages.push(post_filter.message.to_owned());
                refusal.unusable = post_filter.unusable;
            }
            Plugin::DefaultPreemption => match preempt(trial, refused, seed, extenders) {
                PreemptionOutcome::Found(preemption) => {
                    refusal.preemption = Some(preemption);
                    return Decision::Unschedulable(refusal);
                }
                PreemptionOutcome::Nothing(message) => {
                    refusal.clear_nomination = true;
                    messages.push(format!("preemption: {message}"));
                }
                PreemptionOutcome::NotEligible(message) => messages.push(format!("preemption: {message}")),
                PreemptionOutcome::Failed(message) => {
                    messages = vec![message];
                    break;
                }
            },
            _ => {}
        }
    }
    if !messages.is_empty() {
        refusal.message = format!("{} {}", refusal.message, messages.join(", "));
    }
    Decision::Unschedulable(refusal)
}

impl<'a> Refused<'a> {
    /// By the verdicts of all nodes.
    pub(super) fn by_node(context: Context<'_>, verdicts: &[Verdict]) -> Refused<'a> {
        let Context { cluster, pod, .. } = context;
        let mut counts: Vec<(Verdict, usize)> = Vec::new();
        for verdict in verdicts.iter().filter(|verdict| !verdict.is_absent()) {
            // Neighbours are often alike, and kinds of verdicts are few.
            match counts.iter_mut().find(|(other, _)| other == verdict) {
                Some((_, count)) => *count += 1,
                None => counts.push((*verdict, 1)),
            }
        }
        let helped = |verdict: Verdict| !verdict.fits() && verdict.is_resolvable();
        let potential = (0..verdicts.len()).filter(|index| helped(verdicts[*index])).map(NodeId::of);
        let nominated = cluster.nodes().find(pod.nominated_node);
        Refused {
            counts: counts.into(),
            potential: potential.collect(),
            nominated: nominated.map(|node| verdicts[node.index()]),
        }
    }

    /// By the ranking, where the table says all.
    pub(super) fn by_ranking(context: Context<'a>) -> Refused<'a> {
        let Context { cluster, pod, table, .. } = context;
        let nominated = cluster.nodes().find(pod.nominated_node);
        Refused {
            counts: table.ranking.refused().into(),
            potential: table.ranking.resolvable().into(),
            nominated: nominated.map(|node| table.verdict(node)),
        }
    }
}

/// The reasons of verdicts, and the plugins behind them.
fn reasons_of(context: Context<'_>, counts: &[(Verdict, usize)], own: &[String]) -> (Reasons, PluginSet) {
    let mut reasons = Reasons::default();
    let mut plugins = PluginSet::EMPTY;
    for (verdict, count) in counts {
        if let Some(plugin) = verdict.plugin() {
            plugins.insert(plugin);
        }
        if *verdict == Verdict::NOT_SELECTED {
            plugins.insert(Plugin::NodeAffinity);
        }
        for text in verdict.texts(&context.pod.shape.local, context.cluster.texts(), own) {
            reasons.add(text, *count);
        }
    }
    (reasons, plugins)
}
