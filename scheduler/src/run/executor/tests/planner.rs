//! A planner of a few lines: a node has slots, a pod takes one.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::api::core::v1::Pod;
use crate::plan::costs::Costs;
use crate::plan::decision::{
    Admission, ClaimName, ClaimWrite, Decision, Failure, Placement, PodName, Preemption, Refusal,
    UnusableClaim, VolumeWrites,
};
use crate::plan::profile::{ExtensionPoint, Plugin, PluginSet};
use crate::wall_time::WallTime;

use super::super::super::binding::Written;
use super::super::super::planning::Planning;
use super::super::super::stored::Stored;

/// A pod as this planner sees it.
#[derive(Debug, Clone)]
pub(super) struct Compiled {
    pub(super) name: PodName,
    pub(super) priority: i32,
    pub(super) is_gated: bool,
}

/// The planner and its snapshot.
#[derive(Debug, Default)]
pub(super) struct Slots {
    nodes: BTreeMap<String, usize>,
    /// Assigned pods and their nodes, by UID.
    pods: BTreeMap<String, (String, Compiled)>,
    /// Assumed pods and their nodes, by UID.
    assumed: BTreeMap<String, (String, Compiled)>,
    nominated: BTreeMap<String, (String, i32)>,
    /// Whether pods of higher priority push others aside.
    pub(super) preempts: bool,
    /// Nodes without room are refused by extenders.
    pub(super) has_extenders: bool,
    /// Pods need a volume that is made first.
    pub(super) provisions: bool,
    /// A claim that keeps pods from nodes without room.
    pub(super) unusable: Option<UnusableClaim>,
    /// Claims that pods need.
    pub(super) claims: Vec<ClaimWrite>,
    /// UIDs of claims that were given back for pods which are elsewhere.
    pub(super) freed_claims: Vec<String>,
    pub(super) settled_claims: Vec<String>,
    /// Claims that were given back before their job ended.
    pub(super) freed_by_settling: Vec<ClaimName>,
    /// The plugin that refuses nodes without room; `NodeResourcesFit` where it is not said.
    pub(super) refusing: Option<Plugin>,
    /// Counters that only grow.
    pub(super) worn: usize,
    /// Planning fails while this is set.
    pub(super) fails: bool,
    /// Pods have claims, which take so many steps.
    pub(super) claim_steps: Option<u64>,
}

impl Slots {
    pub(super) fn taken(&self, node: &str) -> usize {
        let on_node = |pods: &BTreeMap<String, (String, Compiled)>| {
            pods.values().filter(|(name, _)| name == node).count()
        };
        on_node(&self.pods) + on_node(&self.assumed)
    }

    pub(super) fn is_assumed(&self, uid: &str) -> bool {
        self.assumed.contains_key(uid)
    }

    pub(super) fn nominated(&self, uid: &str) -> Option<&str> {
        self.nominated.get(uid).map(|(node, _)| node.as_str())
    }

    fn room(&self, node: &str, pod: &Compiled) -> bool {
        let kept = self.nominated.iter().filter(|(uid, (name, priority))| {
            name == node && *priority >= pod.priority && uid.as_str() != &*pod.name.uid
        });
        self.taken(node) + kept.count() < self.nodes[node]
    }

    fn all(&self) -> impl Iterator<Item = &(String, Compiled)> {
        self.pods.values().chain(self.assumed.values())
    }

    fn victims(&self, pod: &Compiled) -> Option<Preemption> {
        let node = self
            .nodes
            .keys()
            .find(|node| self.all().any(|(name, held)| name == *node && held.priority < pod.priority))?;
        let lower = self.all().filter(|(name, held)| name == node && held.priority < pod.priority);
        // All of them, so that evictions of one and of several pods are both there.
        let victims = lower.map(|(_, held)| held.name.clone()).collect();
        Some(Preemption { node: node.as_str().into(), victims, superseded: Vec::new(), budget_violations: 0 })
    }
}

fn claim() -> ClaimName {
    ClaimName { namespace: "default".to_owned(), name: "c".to_owned() }
}

fn compiled(pod: &Pod) -> Compiled {
    let metadata = pod.metadata.clone().unwrap_or_default();
    let spec = pod.spec.clone().unwrap_or_default();
    Compiled {
        name: PodName {
            namespace: metadata.namespace.into(),
            name: metadata.name.into(),
            uid: metadata.uid.into(),
        },
        priority: spec.priority.unwrap_or_default(),
        is_gated: !spec.scheduling_gates.is_empty(),
    }
}

impl Planning for Slots {
    type Compiled = Compiled;

    fn upsert(&mut self, object: &Stored) {
        match object {
            Stored::Node(node) => {
                let slots = &node.status.as_ref().unwrap().allocatable["pods"].string;
                let name = node.metadata.as_ref().unwrap().name.clone();
                self.nodes.insert(name, slots.parse().unwrap());
            }
            Stored::Pod(pod) => {
                let compiled = compiled(pod);
                let uid = compiled.name.uid.to_string();
                self.assumed.remove(&uid);
                let node = pod.spec.as_ref().unwrap().node_name.clone();
                assert!(!node.is_empty(), "only assigned pods come here");
                self.pods.insert(uid, (node, compiled));
            }
            _ => {}
        }
    }

    fn delete(&mut self, object: &Stored) {
        match object {
            Stored::Node(node) => drop(self.nodes.remove(&node.metadata.as_ref().unwrap().name)),
            Stored::Pod(pod) => {
                let uid = &pod.metadata.as_ref().unwrap().uid;
                assert!(self.pods.remove(uid).is_some(), "{uid} was never assigned");
            }
            _ => {}
        }
    }

    fn worn_bytes(&self) -> usize {
        self.worn
    }

    fn rebuild(&mut self) {
        *self = Self { preempts: self.preempts, provisions: self.provisions, ..Self::default() };
    }

    fn reads_pods(&self) -> bool {
        false
    }

    fn compile(&mut self, pod: &Pod) -> Arc<Compiled> {
        self.worn += 1;
        Arc::new(compiled(pod))
    }

    fn admit(&self, _profile: usize, pod: &Compiled) -> Admission {
        if !pod.is_gated {
            return Admission::Admitted;
        }
        Admission::Held { plugin: Plugin::SchedulingGates, message: String::new() }
    }

    fn has_claims(&self, _pod: &Compiled) -> bool {
        self.claim_steps.is_some()
    }

    fn claim_steps(&self) -> u64 {
        self.claim_steps.unwrap_or_default()
    }

    fn plan(
        &mut self,
        _profile: usize,
        pod: &Arc<Compiled>,
        _api: &Pod,
        _wall: WallTime,
        seed: u64,
    ) -> Decision {
        if self.fails {
            return Decision::Failed(Failure {
                plugin: Some((Plugin::NodePorts, ExtensionPoint::Filter)),
                message: "broken".to_owned(),
            });
        }
        let names: Vec<&String> = self.nodes.keys().collect();
        let turn = usize::try_from(seed % 97).unwrap() % names.len().max(1);
        let mut turned = names.iter().cycle().skip(turn).take(names.len());
        if let Some(node) = turned.find(|node| self.room(node, pod)) {
            return Decision::Bind(Placement {
                node: node.as_str().into(),
                evaluated: names.len(),
                feasible: 1,
                volumes: VolumeWrites {
                    bind: Vec::new(),
                    provision: self.provisions.then(claim).into_iter().collect(),
                },
                claims: self.claims.clone(),
            });
        }
        let mut plugins = PluginSet::EMPTY;
        if !self.has_extenders {
            plugins.insert(self.refusing.unwrap_or(Plugin::NodeResourcesFit));
        }
        let preemption = if self.preempts { self.victims(pod) } else { None };
        Decision::Unschedulable(Refusal {
            message: format!("0/{} nodes are available", names.len()),
            plugins,
            by_extenders: self.has_extenders,
            pending: PluginSet::EMPTY,
            clear_nomination: preemption.is_none(),
            preemption,
            unusable: self.unusable.clone(),
        })
    }

    fn take_costs(&mut self, _profile: usize) -> Costs {
        Costs::default()
    }

    fn assume(&mut self, pod: &Arc<Compiled>, placement: &Placement) -> Result<(), String> {
        if !self.nodes.contains_key(&*placement.node) {
            return Err(format!("node {} is gone", placement.node));
        }
        let uid = pod.name.uid.to_string();
        assert!(!self.pods.contains_key(&uid), "{uid} has a node");
        let before = self.assumed.insert(uid, (placement.node.to_string(), (**pod).clone()));
        assert!(before.is_none(), "assumed twice: {before:?}");
        Ok(())
    }

    fn forget(&mut self, uid: &str) {
        assert!(self.assumed.remove(uid).is_some(), "{uid} is not assumed");
    }

    fn settle_claims(&mut self, _uid: &str, written: &[Written]) -> Vec<ClaimName> {
        self.settled_claims.extend(written.iter().map(|written| written.uid.clone()));
        std::mem::take(&mut self.freed_by_settling)
    }

    fn forget_claims(&mut self, _uid: &str, claims: &[ClaimWrite]) {
        self.freed_claims.extend(claims.iter().map(|write| write.uid.clone()));
    }

    fn nominate(&mut self, pod: &Arc<Compiled>, node: &str) {
        self.nominated.insert(pod.name.uid.to_string(), (node.to_owned(), pod.priority));
    }

    fn withdraw(&mut self, uid: &str) {
        self.nominated.remove(uid);
    }
}
