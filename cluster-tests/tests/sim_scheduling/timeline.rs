//! The pods, nodes and leases of a run, change by change, as the ledger has them.
//!
//! Owns their decoded form, and the state after the newest change. It judges nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use orch_cluster_tests::sim::ledger::{Ledger, ObjectChange};
use orch_raft::Revision;
use serde_json::Value;

/// The resources that are followed.
pub(crate) const FOLLOWED: [&str; 3] = ["pods", "nodes", "leases.coordination"];

/// The room that a pod takes or a node offers: thousandths of CPU, and pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) cpu: u64,
    pub(crate) pods: u64,
}

impl Room {
    pub(crate) fn add(&mut self, other: Self) {
        self.cpu += other.cpu;
        self.pods += other.pods;
    }

    pub(crate) fn fits(self, into: Self) -> bool {
        self.cpu <= into.cpu && self.pods <= into.pods
    }

    pub(crate) fn larger(self, other: Self) -> Self {
        Self { cpu: self.cpu.max(other.cpu), pods: self.pods.max(other.pods) }
    }
}

/// A pod, as far as schedulers and judges care.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pod {
    pub(crate) uid: String,
    /// Empty for none.
    pub(crate) node: String,
    pub(crate) room: Room,
    pub(crate) priority: i64,
    /// The zone that it selects; empty for any.
    pub(crate) zone: String,
    pub(crate) is_gated: bool,
    pub(crate) is_finished: bool,
    pub(crate) is_ending: bool,
    /// The reason that its condition gives for having no node; empty for none.
    pub(crate) unscheduled: String,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) room: Room,
    pub(crate) zone: String,
    /// Cordoned, or with a taint.
    pub(crate) is_closed: bool,
}

/// A change.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// The pod before, and after.
    Pod(Option<Arc<Pod>>, Option<Arc<Pod>>),
    Node(Option<Node>),
    /// The holder; empty for none.
    Lease(String),
}

/// One change of one object.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) at: Duration,
    /// The object's name.
    pub(crate) name: String,
    pub(crate) change: Change,
}

/// All changes so far, and the newest state.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    read: Revision,
    /// A change may be unknown: nothing that follows can be judged.
    pub(crate) is_untold: bool,
    pub(crate) entries: Vec<Entry>,
    pub(crate) pods: BTreeMap<String, Arc<Pod>>,
    pub(crate) nodes: BTreeMap<String, Node>,
    pub(crate) holder: String,
}

impl Timeline {
    /// Takes in the changes that the ledger has got since.
    pub(crate) fn read(&mut self, ledger: &Ledger) {
        let Some((frontier, kept)) = ledger.kept_after(self.read) else {
            self.is_untold = true;
            return;
        };
        self.read = frontier;
        kept.iter().for_each(|kept| self.take(kept));
    }

    fn take(&mut self, kept: &ObjectChange) {
        let read = |object: &Option<_>| {
            object.as_ref().map(|object: &orch_raft::object::SharedObject| document(&object.json))
        };
        let (old, new) = (read(&kept.old), read(&kept.new));
        let name = kept.path.rsplit('/').next().unwrap_or_default().to_owned();
        let change = match &*kept.resource {
            "pods" => {
                let pod = |document: &Value| Arc::new(pod(document));
                let (old, new) = (old.as_ref().map(pod), new.as_ref().map(pod));
                put(&mut self.pods, &name, new.clone());
                Change::Pod(old, new)
            }
            "nodes" => {
                let new = new.as_ref().map(node);
                put(&mut self.nodes, &name, new.clone());
                Change::Node(new)
            }
            _ => {
                let holder =
                    new.as_ref().map(|lease| text(&lease["spec"]["holderIdentity"])).unwrap_or_default();
                self.holder.clone_from(&holder);
                Change::Lease(holder)
            }
        };
        self.entries.push(Entry { at: kept.at, name, change });
    }
}

fn put<T>(map: &mut BTreeMap<String, T>, name: &str, new: Option<T>) {
    match new {
        Some(new) => drop(map.insert(name.to_owned(), new)),
        None => drop(map.remove(name)),
    }
}

fn document(json: &[u8]) -> Value {
    serde_json::from_slice(json).expect("the API stores JSON")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Users write thousandths of CPU or whole ones, and whole pods.
fn amount(value: &Value, unit: u64) -> u64 {
    let written = value.as_str().unwrap_or("0");
    match written.strip_suffix('m') {
        Some(thousandths) => thousandths.parse().expect("users write numbers"),
        None => written.parse::<u64>().expect("users write numbers") * unit,
    }
}

fn pod(pod: &Value) -> Pod {
    let (metadata, spec, status) = (&pod["metadata"], &pod["spec"], &pod["status"]);
    let containers = spec["containers"].as_array().into_iter().flatten();
    let cpu = containers.map(|container| amount(&container["resources"]["requests"]["cpu"], 1_000)).sum();
    let mut conditions = status["conditions"].as_array().into_iter().flatten();
    let told =
        conditions.find(|condition| condition["type"] == "PodScheduled" && condition["status"] == "False");
    let told =
        told.filter(|condition| condition["message"].as_str().is_some_and(|message| !message.is_empty()));
    Pod {
        uid: text(&metadata["uid"]),
        node: text(&spec["nodeName"]),
        room: Room { cpu, pods: 1 },
        priority: spec["priority"].as_i64().unwrap_or_default(),
        zone: text(&spec["nodeSelector"]["zone"]),
        is_gated: spec["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()),
        is_finished: matches!(status["phase"].as_str(), Some("Succeeded" | "Failed")),
        is_ending: metadata["deletionTimestamp"].is_string(),
        unscheduled: told.map(|condition| text(&condition["reason"])).unwrap_or_default(),
    }
}

fn node(node: &Value) -> Node {
    let allocatable = &node["status"]["allocatable"];
    let has_taints = node["spec"]["taints"].as_array().is_some_and(|taints| !taints.is_empty());
    Node {
        room: Room { cpu: amount(&allocatable["cpu"], 1_000), pods: amount(&allocatable["pods"], 1) },
        zone: text(&node["metadata"]["labels"]["zone"]),
        is_closed: has_taints || node["spec"]["unschedulable"].as_bool() == Some(true),
    }
}
