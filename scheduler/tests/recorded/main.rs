//! Replays the recorded scheduling cases against the planner, in memory.
//!
//! Each case has nodes, pods on them, objects, and pods that are planned in turn. Pods go through what the API server
//! does to them (`objects.rs`); victims stay on their node as terminating pods, as they did when the cases were
//! recorded: nothing in that cluster ended them.

#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]
#![allow(clippy::print_stdout, reason = "the numbers of cases that match are what the test is for")]

mod objects;

use std::collections::HashMap;
use std::sync::Arc;

use orch_scheduler::api::core::v1;
use orch_scheduler::api::resource::v1::ResourceClaimConsumerReference;
use orch_scheduler::objects::pod::Pod;
use orch_scheduler::plan::decision::{Admission, ClaimWrite};
use orch_scheduler::plan::{Change, Cluster, Decision, NoExtenders, Object, Planner, Profile};
use orch_scheduler::wall_time::WallTime;
use serde_json::{Value, json};

use objects::Admitted;

const CASES: &str = include_str!("../../../cluster-tests/vectors/scheduling/cases.json");

/// The result for a pending pod, in the form of the recorded answers.
fn answer(node: Option<&str>, reason: Option<(&str, &str)>, nominated: Option<&str>) -> Value {
    let mut answer = json!({ "node": node });
    if let Some((reason, message)) = reason {
        answer["reason"] = json!(reason);
        answer["message"] = json!(message);
    }
    if let Some(nominated) = nominated {
        answer["nominated"] = json!(nominated);
    }
    answer
}

struct Replay {
    cluster: Cluster,
    planner: Planner,
    stored: HashMap<String, v1::Pod>,
    evicted: Vec<String>,
}

impl Replay {
    fn new(case: &Value) -> (Replay, Admitted) {
        let mut cluster = Cluster::new(&orch_proto::brand::ORCH);
        let admitted = Admitted::new(case);
        admitted.apply_objects(case, &mut cluster);
        let mut replay = Replay {
            planner: Planner::new(&mut cluster, Profile::default()),
            cluster,
            stored: HashMap::new(),
            evicted: Vec::new(),
        };
        for pod in case["existing"].as_array().unwrap() {
            replay.store(admitted.pod(pod));
        }
        (replay, admitted)
    }

    fn store(&mut self, pod: v1::Pod) {
        self.cluster.apply(Change::Upsert(Object::Pod(&pod)));
        self.stored.insert(pod.metadata.as_ref().unwrap().uid.clone(), pod);
    }

    fn plan(&mut self, mut object: v1::Pod) -> Value {
        let spec = object.spec.clone().unwrap();
        if !spec.node_name.is_empty() {
            self.store(object);
            return answer(Some(&spec.node_name), None, None);
        }
        if spec.scheduler_name != "default-scheduler" {
            return answer(None, None, None);
        }
        let pod: Arc<Pod> = self.cluster.compile(&object);
        match self.planner.admit(&self.cluster, &pod) {
            Admission::Admitted => {}
            // The API server itself sets the condition of pods with gates.
            Admission::Held { .. } if !pod.gates.is_empty() => {
                let message = "Scheduling is blocked due to non-empty scheduling gates";
                return answer(None, Some(("SchedulingGated", message)), None);
            }
            Admission::Held { .. } => return answer(None, None, None),
        }
        let decision = self.planner.plan(&self.cluster, &pod, WallTime::default(), 1, &mut NoExtenders);
        match decision {
            Decision::Bind(placement) => {
                self.cluster.assume(&pod, &placement).unwrap();
                placement.claims.iter().for_each(|write| self.write_claim(write, &pod));
                object.spec.as_mut().unwrap().node_name = placement.node.to_string();
                self.store(object);
                answer(Some(&placement.node), None, None)
            }
            Decision::Unschedulable(refusal) => {
                let nominated = refusal.preemption.as_ref().map(|preemption| &*preemption.node);
                if let Some(preemption) = &refusal.preemption {
                    self.cluster.nominate(&pod, &preemption.node);
                    for victim in &preemption.victims {
                        self.evict(&victim.uid);
                    }
                }
                answer(None, Some(("Unschedulable", &refusal.message)), nominated)
            }
            Decision::Failed(failure) => answer(None, Some(("SchedulerError", &failure.message)), None),
        }
    }

    /// Writes of a claim before its pod is bound.
    fn write_claim(&mut self, write: &ClaimWrite, pod: &Pod) {
        let name = &write.claim;
        let stored = self.cluster.devices().resource_claim(&name.namespace, &name.name);
        let mut claim = match &write.new {
            Some(new) => {
                let mut claim = new.object.clone();
                let metadata = claim.metadata.as_mut().unwrap();
                metadata.name = format!("{}{}", metadata.generate_name, pod.uid);
                metadata.uid.clone_from(&metadata.name);
                claim
            }
            None => stored.unwrap().clone(),
        };
        let status = claim.status.get_or_insert_default();
        if let Some(allocation) = write.allocation.chosen() {
            status.allocation = Some(allocation.clone());
        }
        status.reserved_for.push(ResourceClaimConsumerReference {
            resource: "pods".into(),
            name: pod.name.to_string(),
            uid: pod.uid.to_string(),
            ..Default::default()
        });
        self.cluster.apply(Change::Upsert(Object::ResourceClaim(&claim)));
    }

    fn evict(&mut self, uid: &str) {
        let mut pod = self.stored[uid].clone();
        let meta = pod.metadata.as_mut().unwrap();
        if meta.deletion_timestamp.is_none() {
            self.evicted.push(meta.name.clone());
            meta.deletion_timestamp = Some(Default::default());
        }
        pod.status.get_or_insert_default().conditions.push(v1::PodCondition {
            r#type: "DisruptionTarget".into(),
            status: "True".into(),
            reason: "PreemptionByScheduler".into(),
            ..Default::default()
        });
        self.store(pod);
    }
}

/// Differences from the recorded answers.
fn differences(case: &Value) -> Vec<String> {
    let (mut replay, admitted) = Replay::new(case);
    let mut differences = Vec::new();
    for (pod, expected) in case["pending"].as_array().unwrap().iter().zip(case["expect"].as_array().unwrap())
    {
        let mut got = replay.plan(admitted.pod(pod));
        got["pod"] = expected["pod"].clone();
        if got != *expected {
            differences.push(format!("expected {expected}\n     got {got}"));
        }
    }
    replay.evicted.sort();
    let evicted = case.get("evicted").cloned().unwrap_or_else(|| json!([]));
    if json!(replay.evicted) != evicted {
        differences.push(format!("evicted: expected {evicted}, got {:?}", replay.evicted));
    }
    differences
}

#[test]
fn every_recorded_case_is_answered_as_recorded() {
    let cases: Vec<Value> = serde_json::from_str(CASES).unwrap();
    let mut failed = Vec::new();
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        let differences = differences(case);
        if !differences.is_empty() {
            println!("{name}\n    {}", differences.join("\n    "));
            failed.push(name);
        }
    }
    println!("{} of {} cases match", cases.len() - failed.len(), cases.len());
    assert!(failed.is_empty(), "cases that differ: {failed:?}");
}
