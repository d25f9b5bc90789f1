//! The requests and limits of each pod.
//!
//! Owns a row for each pod that has not ended, whoever schedules it. Pods are told by the watch, not by the scheduling
//! thread, and readers copy the list of rows under the lock and nothing else, so that a page of many megabytes delays
//! neither. Pods of one template share their amounts.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::api::core::v1::{Pod, PodSpec};
use crate::client::{Change, Object, ObjectKey};
use crate::queue::requests::{self, Amounts};

/// Amounts that no pod has any more are dropped once the table has this size, and then whenever it has doubled.
const SWEEP_MIN: usize = 1024;

/// The requests and limits of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Demand {
    /// Requests, overhead among them.
    pub requests: Amounts,
    /// Limits, with the overhead for resources that are limited.
    pub limits: Amounts,
}

impl Demand {
    fn of(spec: Option<&PodSpec>) -> Self {
        let amounts = |sum: fn(&PodSpec) -> Amounts| spec.map(sum).unwrap_or_default();
        Self { requests: amounts(requests::of_spec), limits: amounts(requests::limits_of_spec) }
    }
}

/// A pod with its demand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodDemand {
    /// Namespace of the pod.
    pub namespace: Arc<str>,
    /// Name of the pod.
    pub name: Arc<str>,
    /// Its node; empty before it is bound.
    pub node: Arc<str>,
    /// `spec.schedulerName`.
    pub scheduler: Arc<str>,
    /// Its priority, where it has one.
    pub priority: Option<i32>,
    /// The pod's requests and limits.
    pub demand: Arc<Demand>,
}

/// The pods.
#[derive(Debug, Default)]
pub struct Ledger(Mutex<Rows>);

#[derive(Debug, Default)]
struct Rows {
    pods: HashMap<ObjectKey, Arc<PodDemand>>,
    demands: HashSet<Arc<Demand>>,
    sweep_at: usize,
    // Names of nodes and schedulers, which many pods have in common.
    names: HashSet<Arc<str>>,
}

impl Ledger {
    /// Takes in a change of a pod.
    pub fn apply(&self, change: &Change<Pod>) {
        match change {
            Change::Upsert(pod) if has_ended(pod) => drop(self.0.lock().pods.remove(&pod.key())),
            Change::Upsert(pod) => {
                let demand = Demand::of(pod.spec.as_ref());
                self.0.lock().upsert(pod, demand);
            }
            Change::Delete(key) => drop(self.0.lock().pods.remove(key)),
            Change::Synced(_) => {}
        }
    }

    /// All pods, in the order of namespaces and names.
    pub fn pods(&self) -> Vec<Arc<PodDemand>> {
        let mut pods: Vec<_> = self.0.lock().pods.values().cloned().collect();
        pods.sort_unstable_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        pods
    }
}

/// Whether a pod takes nothing any more. One without a node has not ended, as in the reference.
fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().map_or("", |status| &status.phase);
    let has_node = pod.spec.as_ref().is_some_and(|spec| !spec.node_name.is_empty());
    has_node && matches!(phase, "Succeeded" | "Failed")
}

impl Rows {
    fn upsert(&mut self, pod: &Pod, demand: Demand) {
        let (spec, key) = (pod.spec.as_ref(), pod.key());
        let demand = self.share(demand);
        let row = PodDemand {
            namespace: self.name(&key.namespace),
            name: key.name.as_str().into(),
            node: self.name(spec.map_or("", |spec| &spec.node_name)),
            scheduler: self.name(spec.map_or("", |spec| &spec.scheduler_name)),
            priority: spec.and_then(|spec| spec.priority),
            demand,
        };
        self.pods.insert(key, Arc::new(row));
    }

    fn share(&mut self, demand: Demand) -> Arc<Demand> {
        if let Some(known) = self.demands.get(&demand) {
            return known.clone();
        }
        if self.demands.len() + self.names.len() >= self.sweep_at {
            self.demands.retain(|demand| Arc::strong_count(demand) > 1);
            self.names.retain(|name| Arc::strong_count(name) > 1);
            self.sweep_at = (2 * (self.demands.len() + self.names.len())).max(SWEEP_MIN);
        }
        let demand = Arc::new(demand);
        self.demands.insert(demand.clone());
        demand
    }

    fn name(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.names.get(text) {
            return known.clone();
        }
        let name: Arc<str> = text.into();
        self.names.insert(name.clone());
        name
    }
}
