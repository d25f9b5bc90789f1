//! Filters the nodes for a pod.
//!
//! Owns the choice between the ranking of the pod's table, where no other plugin filters, and a look at each
//! node.

use super::cluster::nodes::NodeId;
use super::compiled_profile::CompiledProfile;
use super::context::Context;
use super::extenders::Extenders;
use super::local_table::LocalTable;
use super::trial::Trial;
use super::verdict::Verdict;

/// Fewer nodes than these are never sampled.
const SAMPLE_MIN: usize = 100;

/// The nodes that passed the filters.
pub(super) enum Filtering {
    /// The nodes of the table's ranking.
    Ranked,
    /// The pod goes to the node that its status nominates: the filters and the extenders let it in.
    Nominated(NodeId),
    /// The nodes that passed one by one.
    Each(Filtered),
}

impl Filtering {
    /// A node that passed; `None` if none did.
    pub(super) fn first(&self, table: &LocalTable) -> Option<NodeId> {
        let passed = match self {
            Filtering::Ranked => table.ranking.best().unwrap_or_default(),
            Filtering::Nominated(node) => std::slice::from_ref(node),
            Filtering::Each(filtered) => filtered.feasible.as_slice(),
        };
        passed.first().copied()
    }
}

/// Nodes that passed, and the results of all nodes: empty if some passed and nobody asked for them.
pub(super) struct Filtered {
    /// Nodes that passed, in their order, or from where a sample began.
    pub(super) feasible: Vec<NodeId>,
    /// Verdicts by node.
    pub(super) verdicts: Vec<Verdict>,
    /// Number of nodes that were filtered.
    pub(super) evaluated: usize,
}

impl Filtered {
    /// The table's results by node.
    fn by_table(context: Context<'_>) -> Filtered {
        let Context { cluster, table, .. } = context;
        let columns = 0..cluster.nodes().columns();
        let verdicts: Vec<Verdict> = columns.map(|index| table.verdict(NodeId::of(index))).collect();
        Filtered { feasible: table.fitting().collect(), verdicts, evaluated: cluster.nodes().len() }
    }
}

/// Runs the filters on the nodes.
pub(super) fn filter(trial: &mut Trial<'_>, seed: u64, extenders: &mut dyn Extenders) -> Filtering {
    let context = trial.context();
    let Context { cluster, pod, rules, .. } = context;
    if pod.nominated_node != crate::objects::intern::Symbol::EMPTY
        && let Some(node) = cluster.nodes().find(pod.nominated_node)
        && trial.check_node(node).fits()
        && is_let_in(context, node, extenders)
    {
        return Filtering::Nominated(node);
    }
    let all = cluster.nodes().len();
    let wanted = nodes_wanted(rules, all);
    // A pod that is nominated leaves no room for itself, where others of its kind would: its nodes are asked one by one.
    let is_nominated = cluster.nominations().node_of(&pod.uid).is_some();
    if trial.is_local() && !is_nominated && wanted >= all {
        if !extenders.sees_nodes() {
            return Filtering::Ranked;
        }
        return Filtering::Each(Filtered::by_table(context));
    }
    let columns = cluster.nodes().columns();
    let mut feasible = Vec::with_capacity(all);
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
    Filtering::Each(Filtered { feasible, verdicts, evaluated })
}

/// Whether extenders let the pod in on its nominated node. If one fails all nodes are asked, as in the reference.
fn is_let_in(context: Context<'_>, node: NodeId, extenders: &mut dyn Extenders) -> bool {
    match extenders.filter(context.cluster, context.pod, &[node]) {
        Ok(rejections) => rejections.is_empty(),
        Err(error) => {
            tracing::warn!(error, "an extender failed at a nominated node, all nodes are asked");
            false
        }
    }
}

/// How many feasible nodes are enough.
fn nodes_wanted(rules: &CompiledProfile, all: usize) -> usize {
    match usize::try_from(rules.profile.percentage_of_nodes_to_score) {
        Ok(percentage @ 1..=99) => (all * percentage / 100).max(SAMPLE_MIN).min(all),
        _ => all,
    }
}

/// Lets extenders refuse some of the nodes that passed.
pub(super) fn ask_extenders(
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
        filtered.verdicts = Filtered::by_table(context).verdicts;
    }
    for rejection in rejections {
        filtered.verdicts[rejection.node.index()] = Verdict::extender(rejection.resolvable, own.len());
        own.push(rejection.reason);
    }
    filtered.feasible.retain(|node| filtered.verdicts[node.index()].fits());
    Ok(())
}
