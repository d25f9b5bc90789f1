//! The planner of a profile: filters the nodes, scores those that passed and chooses one, or reports why none fits.
//!
//! Owns the tables of results that pods of one shape and priority share. A plan reads the snapshot and changes nothing in it.

use std::sync::Arc;

use hashbrown::HashMap;

use crate::objects::pod::Pod;
use crate::stopwatch::Stopwatch;
use crate::wall_time::WallTime;

use super::cluster::nodes::{NodeId, Slot};
use super::cluster::{Cluster, Memo};
use super::compiled_profile::CompiledProfile;
use super::context::Context;
use super::costs::{Costs, Meter};
use super::decision::{Admission, ClaimWrite, Decision, Failure, Placement, Refusal, VolumeWrites};
use super::device_claims::Found;
use super::extenders::Extenders;
use super::filtering::{Filtering, ask_extenders, filter};
use super::local_table::LocalTable;
use super::message;
use super::preempt::Refused;
use super::profile::{ExtensionPoint, Plugin, Profile};
use super::rejection::{refusal, refuse, refuse_pod};
use super::score::{Choice, Chosen};
use super::spread::Constraints;
use super::trial::{Prepared, Trial};
use super::volumes;

/// Tables that are kept. One of 10,000 nodes takes about 200 kB; clusters rarely have this many different workloads
/// pending at a time. The table that was not used for longest goes first.
const TABLES_MAX: usize = 128;

/// Plans pods of one profile against one [`Cluster`].
#[derive(Debug)]
pub struct Planner {
    rules: CompiledProfile,
    tables: Tables,
    plans: u64,
    meter: Meter,
}

/// By the address of the shape, which the table holds, and the priority.
type Tables = HashMap<(usize, i32), LocalTable>;

impl Planner {
    /// A planner for pods of `cluster`. It must not be used with another one.
    pub fn new(cluster: &mut Cluster, profile: Profile) -> Planner {
        Planner {
            rules: CompiledProfile::new(cluster, profile),
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

    /// Durations of the last plan; nothing without a stopwatch.
    pub fn take_costs(&mut self) -> Costs {
        self.meter.take()
    }

    /// Compares what is kept with what is made anew.
    #[cfg(test)]
    pub(super) fn assert_tables(&self, cluster: &Cluster) {
        self.tables.values().for_each(|table| table.assert_equals_anew(&self.rules, cluster));
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

    /// Where a pod goes, or why nowhere. By `wall`, bindings of devices may have taken too long. Of equal nodes the seed
    /// chooses; equal arguments give equal answers.
    pub fn plan(
        &mut self,
        cluster: &Cluster,
        pod: &Arc<Pod>,
        wall: WallTime,
        seed: u64,
        extenders: &mut dyn Extenders,
    ) -> Decision {
        cluster.devices().begin_plan();
        if cluster.nodes().is_empty() {
            let refusal = Refusal { clear_nomination: true, ..refusal(message::NO_NODES.into()) };
            return Decision::Unschedulable(refusal);
        }
        let Planner { rules, tables, plans, meter } = self;
        *plans += 1;
        meter.begin();
        let table = table_of(tables, pod, *plans);
        table.update(rules, cluster);
        let table: &LocalTable = table;
        let updating = meter.lap();
        let mut memo = cluster.memo();
        let constraints = Constraints::prepare(rules, cluster, &mut memo, pod);
        let prepared = Prepared::new(rules, cluster, &mut memo, pod);
        let Memo { topologies, selections } = &*memo;
        let context = Context { rules, cluster, topologies, selections, pod, table, wall };
        let mut trial = match Trial::new(context, &constraints, prepared, meter) {
            Ok(trial) => trial,
            Err(refused) => return refuse_pod(context, refused, meter),
        };
        let filtering = filter(&mut trial, seed, extenders);
        trial.measure(meter, updating, filtering.first(table));
        let choice = Choice { rules, cluster, pod, table, constraints: &constraints, seed };
        let mut filtered = match filtering {
            Filtering::Each(filtered) => filtered,
            Filtering::Nominated(node) => {
                let chosen = Chosen { node, evaluated: 1, feasible: 1 };
                let claims = claim_writes(rules, cluster, &trial.into_found(), node);
                return Decision::Bind(Placement { claims, ..placement(choice, chosen) });
            }
            Filtering::Ranked if table.ranking.fitting_len() == 0 => {
                return refuse(&mut trial, &Refused::by_ranking(context), seed, extenders, meter);
            }
            Filtering::Ranked => {
                drop(trial);
                return Decision::Bind(placement(choice, choice.of_ranking(&mut memo, meter)));
            }
        };
        if let Some(message) = trial.error.take() {
            let plugin = Some((Plugin::DynamicResources, ExtensionPoint::Filter));
            return Decision::Failed(Failure { plugin, message });
        }
        if !filtered.feasible.is_empty()
            && let Err(error) = ask_extenders(&mut filtered, &mut trial.own, context, extenders)
        {
            return Decision::Failed(Failure { plugin: None, message: error });
        }
        if filtered.feasible.is_empty() {
            let refused = Refused::by_node(context, &filtered.verdicts);
            return refuse(&mut trial, &refused, seed, extenders, meter);
        }
        let found = trial.into_found();
        let node = match filtered.feasible.as_slice() {
            [only] => *only,
            feasible => {
                let extra = extenders.prioritize(cluster, pod, feasible);
                choice.of_each(&mut memo, feasible, &found, &extra, meter)
            }
        };
        let claims = claim_writes(rules, cluster, &found, node);
        let numbers = Chosen { node, evaluated: filtered.evaluated, feasible: filtered.feasible.len() };
        Decision::Bind(Placement { claims, ..placement(choice, numbers) })
    }
}

/// The answer for a pod without claims of devices.
fn placement(choice: Choice<'_>, chosen: Chosen) -> Placement {
    let Choice { rules, cluster, pod, .. } = choice;
    let slot = cluster.nodes().slot(chosen.node).expect("feasible nodes exist");
    Placement {
        node: cluster.node_name(chosen.node),
        evaluated: chosen.evaluated,
        feasible: chosen.feasible,
        volumes: volume_writes(rules, cluster, pod, slot),
        claims: Vec::new(),
    }
}

/// Writes of DynamicResources before the pod is bound.
fn claim_writes(rules: &CompiledProfile, cluster: &Cluster, found: &Found, node: NodeId) -> Vec<ClaimWrite> {
    let runs = rules.profile.enabled.pre_bind.contains(&Plugin::DynamicResources);
    if runs { found.writes(cluster, node) } else { Vec::new() }
}

/// Writes of VolumeBinding before the pod is bound.
fn volume_writes(rules: &CompiledProfile, cluster: &Cluster, pod: &Pod, slot: &Slot) -> VolumeWrites {
    let runs = rules.profile.enabled.pre_bind.contains(&Plugin::VolumeBinding);
    if !runs || pod.shape.volumes.claims.is_empty() {
        return VolumeWrites::default();
    }
    volumes::writes(cluster, pod, slot)
}

/// The table of a pod's shape and priority, made if there is none.
fn table_of<'a>(tables: &'a mut Tables, pod: &Pod, now: u64) -> &'a mut LocalTable {
    // The table holds the shape, so that its address stands for it as long as the table is there.
    let key = (Arc::as_ptr(&pod.shape.local) as usize, pod.priority);
    if tables.len() >= TABLES_MAX && !tables.contains_key(&key) {
        let oldest = tables.iter().min_by_key(|(_, table)| table.used).map(|(key, _)| *key);
        oldest.map(|key| tables.remove(&key));
    }
    let new = || LocalTable::new(Arc::clone(&pod.shape.local), pod.priority);
    let table = tables.entry(key).or_insert_with(new);
    table.used = now;
    table
}
