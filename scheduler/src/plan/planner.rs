//! The planner of a profile: filter, score, choose, and say why not.
//!
//! Owns the tables of results that pods of one shape share. A plan reads the snapshot and changes nothing in it.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::objects::pod::{LocalShape, Pod};
use crate::stopwatch::Stopwatch;

use super::cluster::nodes::{NodeId, Slot};
use super::cluster::{Cluster, Memo};
use super::costs::{Costs, Meter, Status};
use super::decision::{
    Admission, ClaimName, ClaimWrite, Decision, Failure, Placement, Refusal, VolumeWrites,
};
use super::device_claims::Found;
use super::extenders::Extenders;
use super::local::LocalTable;
use super::message::{self, Reasons};
use super::preempt::{Outcome, preempt};
use super::profile::{Plugin, PluginSet, Point, Profile};
use super::rules::Rules;
use super::score::{self, Scored};
use super::spread::Constraints;
use super::trial::{Context, Prepared, RefusedPod, Trial};
use super::verdict::Verdict;
use super::volumes;

/// Tables that are kept. One of 10,000 nodes takes about 200 kB; clusters rarely have this many different workloads
/// pending at a time. The table that was not used for longest goes first.
const TABLES_MAX: usize = 128;

/// Fewer nodes than these are never sampled.
const SAMPLE_MIN: usize = 100;

/// Plans pods of one profile against one [`Cluster`].
#[derive(Debug)]
pub struct Planner {
    rules: Rules,
    tables: HashMap<usize, LocalTable>,
    plans: u64,
    meter: Meter,
}

/// Nodes that passed, and what was said of the others.
struct Filtered {
    feasible: Vec<NodeId>,
    verdicts: Vec<Verdict>,
    evaluated: usize,
}

impl Planner {
    /// A planner for pods of `cluster`. It must not be used with another one.
    pub fn new(cluster: &mut Cluster, profile: Profile) -> Planner {
        Planner {
            rules: Rules::new(cluster, profile),
            tables: HashMap::new(),
            plans: 0,
            meter: Meter::default(),
        }
    }

    /// The profile.
    pub fn profile(&self) -> &Profile {
        &self.rules.profile
    }

    /// Measures plans with `stopwatch` from now on.
    pub fn set_stopwatch(&mut self, stopwatch: Stopwatch) {
        self.meter.set(stopwatch);
    }

    /// What the last plan cost; nothing without a stopwatch.
    pub fn take_costs(&mut self) -> Costs {
        self.meter.take()
    }

    /// Bindings of devices that began before `seconds` (since 1970) have failed; none have unless this is called.
    pub fn set_bindings_timed_out_before(&mut self, seconds: i64) {
        self.rules.bindings_timed_out_before = seconds;
    }

    /// Whether a pod may be queued for planning (PreEnqueue).
    pub fn admit(&self, cluster: &Cluster, pod: &Pod) -> Admission {
        for plugin in &self.rules.profile.enabled.pre_enqueue {
            if *plugin == Plugin::DynamicResources
                && let Some(claims) = &pod.claims
                && let Err(message) = cluster.devices().pre_enqueue(claims)
            {
                return Admission::Held { plugin: *plugin, message };
            }
            if *plugin == Plugin::SchedulingGates && !pod.gates.is_empty() {
                let message = format!("waiting for scheduling gates: [{}]", pod.gates.join(" "));
                return Admission::Held { plugin: *plugin, message };
            }
        }
        Admission::Admitted
    }

    /// Where a pod goes, or why nowhere. Of equal nodes the seed chooses; equal arguments give equal answers.
    pub fn plan(
        &mut self,
        cluster: &Cluster,
        pod: &Arc<Pod>,
        seed: u64,
        extenders: &mut dyn Extenders,
    ) -> Decision {
        if cluster.nodes().is_empty() {
            let refusal = Refusal { clear_nomination: true, ..refusal(message::NO_NODES.into()) };
            return Decision::Unschedulable(refusal);
        }
        let Planner { rules, tables, plans, meter } = self;
        *plans += 1;
        meter.begin();
        let table = table_of(tables, &pod.shape.local, *plans);
        table.update(rules, cluster);
        let table: &LocalTable = table;
        let updating = meter.lap();
        let mut memo = cluster.memo();
        let constraints = Constraints::prepare(rules, cluster, &mut memo, pod);
        let prepared = Prepared::new(rules, cluster, &mut memo, pod);
        let Memo { topologies, selections } = &*memo;
        let context = Context { rules, cluster, topologies, selections, pod, table };
        let mut trial = match Trial::new(context, &constraints, prepared, meter) {
            Ok(trial) => trial,
            Err(refused) => return refuse_pod(context, refused, meter),
        };
        let mut filtered = filter(&mut trial, seed);
        trial.measure(meter, updating, filtered.feasible.first().copied());
        if let Some(message) = trial.error.take() {
            let plugin = Some((Plugin::DynamicResources, Point::Filter));
            return Decision::Failed(Failure { plugin, message });
        }
        if !filtered.feasible.is_empty()
            && let Err(error) = ask_extenders(&mut filtered, &mut trial.own, context, extenders)
        {
            return Decision::Failed(Failure { plugin: None, message: error });
        }
        if filtered.feasible.is_empty() {
            return refuse(&mut trial, &filtered, seed, extenders, meter);
        }
        let found = trial.into_found();
        let node = match filtered.feasible.as_slice() {
            [only] => *only,
            feasible => {
                let extra = extenders.prioritize(cluster, pod, feasible);
                let scored =
                    Scored { rules, cluster, pod, table, constraints: &constraints, found: &found, feasible };
                score::choose(&scored, &mut memo, &extra, seed, meter)
            }
        };
        let slot = cluster.nodes().slot(node).expect("feasible nodes exist");
        Decision::Bind(Placement {
            node: cluster.node_name(node),
            evaluated: filtered.evaluated,
            feasible: filtered.feasible.len(),
            volumes: volume_writes(rules, cluster, pod, slot),
            claims: claim_writes(rules, cluster, &found, node),
        })
    }
}

/// What DynamicResources writes before the pod is bound.
fn claim_writes(rules: &Rules, cluster: &Cluster, found: &Found, node: NodeId) -> Vec<ClaimWrite> {
    let runs = rules.profile.enabled.pre_bind.contains(&Plugin::DynamicResources);
    if runs { found.writes(cluster, node) } else { Vec::new() }
}

/// What VolumeBinding writes before the pod is bound.
fn volume_writes(rules: &Rules, cluster: &Cluster, pod: &Pod, slot: &Slot) -> VolumeWrites {
    let runs = rules.profile.enabled.pre_bind.contains(&Plugin::VolumeBinding);
    if !runs || pod.shape.volumes.claims.is_empty() {
        return VolumeWrites::default();
    }
    volumes::writes(cluster, pod, slot)
}

/// The table of a shape, made if there is none.
fn table_of<'a>(
    tables: &'a mut HashMap<usize, LocalTable>,
    local: &Arc<LocalShape>,
    now: u64,
) -> &'a mut LocalTable {
    // The table holds the shape, so that its address stands for it as long as the table is there.
    let address = Arc::as_ptr(local) as usize;
    if tables.len() >= TABLES_MAX && !tables.contains_key(&address) {
        let oldest = tables.iter().min_by_key(|(_, table)| table.used).map(|(address, _)| *address);
        oldest.map(|address| tables.remove(&address));
    }
    let table = tables.entry(address).or_insert_with(|| LocalTable::new(Arc::clone(local)));
    table.used = now;
    table
}

/// Runs the filters on the nodes.
fn filter(trial: &mut Trial<'_>, seed: u64) -> Filtered {
    let Context { cluster, pod, table, rules, .. } = trial.context();
    if pod.nominated_node != crate::objects::intern::Symbol::EMPTY
        && let Some(node) = cluster.nodes().find(pod.nominated_node)
        && trial.check_node(node).fits()
    {
        return Filtered { feasible: vec![node], verdicts: Vec::new(), evaluated: 1 };
    }
    let all = cluster.nodes().len();
    let wanted = nodes_wanted(rules, all);
    let is_quick = trial.is_local() && cluster.nominations().is_empty() && wanted >= all;
    let mut feasible = Vec::with_capacity(all);
    if is_quick {
        let fits = table.verdicts.iter().enumerate().filter(|(_, verdict)| verdict.fits());
        feasible.extend(fits.map(|(index, _)| NodeId::of(index)));
        let verdicts = if feasible.is_empty() { table.verdicts.clone() } else { Vec::new() };
        return Filtered { feasible, verdicts, evaluated: all };
    }
    let columns = cluster.nodes().columns();
    let mut verdicts = vec![Verdict::ABSENT; columns];
    let offset = if wanted < all { usize::try_from(seed % columns as u64).unwrap_or(0) } else { 0 };
    let mut evaluated = 0;
    for at in 0..columns {
        let index = (at + offset) % columns;
        let node = NodeId::of(index);
        let verdict = trial.check_node(node);
        evaluated += usize::from(!verdict.is_absent());
        verdicts[index] = verdict;
        if verdict.fits() {
            feasible.push(node);
            if feasible.len() >= wanted {
                break;
            }
        }
    }
    Filtered { feasible, verdicts, evaluated }
}

/// How many feasible nodes are enough.
fn nodes_wanted(rules: &Rules, all: usize) -> usize {
    match usize::try_from(rules.profile.percentage_of_nodes_to_score) {
        Ok(percentage @ 1..=99) => (all * percentage / 100).max(SAMPLE_MIN).min(all),
        _ => all,
    }
}

fn ask_extenders(
    filtered: &mut Filtered,
    own: &mut Vec<String>,
    context: Context<'_>,
    extenders: &mut dyn Extenders,
) -> Result<(), String> {
    let rejections = extenders.filter(context.cluster, context.pod, &filtered.feasible)?;
    if rejections.is_empty() {
        return Ok(());
    }
    if filtered.verdicts.is_empty() {
        filtered.verdicts = context.table.verdicts.clone();
    }
    for rejection in rejections {
        filtered.feasible.retain(|node| *node != rejection.node);
        filtered.verdicts[rejection.node.index()] = Verdict::extender(rejection.resolvable, own.len());
        own.push(rejection.reason);
    }
    Ok(())
}

fn refusal(message: String) -> Refusal {
    Refusal {
        message,
        plugins: PluginSet::EMPTY,
        by_extenders: false,
        pending: PluginSet::EMPTY,
        preemption: None,
        clear_nomination: false,
        deallocate: None,
    }
}

/// A plugin refused the pod before any node was looked at: no eviction can help.
fn refuse_pod(context: Context<'_>, refused: RefusedPod, meter: &mut Meter) -> Decision {
    let Context { rules, cluster, pod, .. } = context;
    meter.point(Point::PreFilter, Status::UnschedulableAndUnresolvable);
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
    meter.point(Point::PostFilter, Status::Unschedulable);
    meter.evaluated(Point::PostFilter, rules.profile.enabled.post_filter.iter().copied());
    let before = message::refused_before_nodes(nodes, &refused.message);
    let mut refusal = refusal(format!("{before} {}", messages.join(", ")).trim_end().to_owned());
    refusal.clear_nomination = clear_nomination;
    refusal.plugins.insert(refused.plugin);
    Decision::Unschedulable(refusal)
}

/// Whether a plugin had its turn before the nodes. The one that refuses has had it.
fn is_prepared(rules: &Rules, refused: &RefusedPod, plugin: Plugin) -> bool {
    let runs = rules.profile.enabled.pre_filter.contains(&plugin);
    runs && (refused.prepared.contains(plugin) || refused.plugin == plugin)
}

/// No node passed.
fn refuse(
    trial: &mut Trial<'_>,
    filtered: &Filtered,
    seed: u64,
    extenders: &mut dyn Extenders,
    meter: &mut Meter,
) -> Decision {
    meter.lap();
    let decision = refuse_nodes(trial, filtered, seed, extenders);
    let Context { rules, .. } = trial.context();
    let is_found = matches!(&decision, Decision::Unschedulable(Refusal { preemption: Some(_), .. }));
    meter.point(Point::PostFilter, if is_found { Status::Success } else { Status::Unschedulable });
    meter.evaluated(Point::PostFilter, rules.profile.enabled.post_filter.iter().copied());
    decision
}

fn refuse_nodes(
    trial: &mut Trial<'_>,
    filtered: &Filtered,
    seed: u64,
    extenders: &mut dyn Extenders,
) -> Decision {
    let Context { rules, cluster, .. } = trial.context();
    let nodes = cluster.nodes().len();
    let (reasons, plugins) = count_reasons(trial.context(), &filtered.verdicts, &trial.own);
    let mut refusal = refusal(reasons.message(nodes));
    refusal.plugins = plugins;
    refusal.clear_nomination = rules.profile.enabled.post_filter.is_empty();
    refusal.by_extenders = filtered.verdicts.iter().any(|verdict| verdict.is_extenders());
    let mut messages = Vec::new();
    for plugin in &rules.profile.enabled.post_filter {
        match plugin {
            Plugin::DynamicResources => {
                let post_filter = trial.post_filter_devices();
                messages.push(post_filter.message.to_owned());
                refusal.deallocate =
                    post_filter.deallocate.map(|(namespace, name)| ClaimName { namespace, name });
            }
            Plugin::DefaultPreemption => match preempt(trial, &filtered.verdicts, seed, extenders) {
                Outcome::Found(preemption) => {
                    refusal.preemption = Some(preemption);
                    return Decision::Unschedulable(refusal);
                }
                Outcome::Nothing(message) => {
                    refusal.clear_nomination = true;
                    messages.push(format!("preemption: {message}"));
                }
                Outcome::NotEligible(message) => messages.push(format!("preemption: {message}")),
                Outcome::Failed(message) => {
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

/// Counts equal verdicts, and the plugins behind them.
fn count_reasons(context: Context<'_>, verdicts: &[Verdict], own: &[String]) -> (Reasons, PluginSet) {
    let mut counts: Vec<(Verdict, usize)> = Vec::new();
    for verdict in verdicts.iter().filter(|verdict| !verdict.is_absent()) {
        // Neighbours are often alike, and kinds of verdicts are few.
        match counts.iter_mut().find(|(other, _)| other == verdict) {
            Some((_, count)) => *count += 1,
            None => counts.push((*verdict, 1)),
        }
    }
    let mut reasons = Reasons::default();
    let mut plugins = PluginSet::EMPTY;
    for (verdict, count) in counts {
        if let Some(plugin) = verdict.plugin() {
            plugins.insert(plugin);
        }
        if verdict == Verdict::NOT_SELECTED {
            plugins.insert(Plugin::NodeAffinity);
        }
        for text in verdict.texts(&context.pod.shape.local, context.cluster.texts(), own) {
            reasons.add(text, count);
        }
    }
    (reasons, plugins)
}
