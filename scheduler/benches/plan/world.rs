//! A cluster whose pods are planned one after another.
//!
//! Owns what the process does around a plan, as far as it is the planner's work: compile, admit, plan, assume; and for
//! preemption nominate, let the victims go some plans later, and plan again. Binding and the API are left out.

use std::collections::VecDeque;
use std::sync::Arc;

use orch_proto::brand::ORCH;
use orch_scheduler::api::core::v1;
use orch_scheduler::api::meta::v1::ObjectMeta;
use orch_scheduler::objects::pod::Pod;
use orch_scheduler::plan::decision::{Admission, Preemption};
use orch_scheduler::plan::{Change, Cluster, Decision, NoExtenders, Object, Planner, Profile};
use orch_scheduler::wall_time::WallTime;

use crate::objects;

/// Plans from an eviction to the end of its victims: a fifth of a second at the rate of the reference's floor.
const PLANS_UNTIL_GONE: u64 = 32;

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) planner: Planner,
    plans: u64,
    preempting: VecDeque<Preempting>,
}

/// A pod that waits for its victims to go.
struct Preempting {
    gone_at: u64,
    preemption: Preemption,
    object: v1::Pod,
}

/// The fate of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Bound,
    Refused,
    Preempts,
}

impl World {
    pub(crate) fn new(nodes: usize, zones: usize) -> World {
        let mut cluster = Cluster::new(&ORCH);
        let made = (0..nodes).map(|index| objects::node(index, zones));
        made.for_each(|node| cluster.apply(Change::Upsert(Object::Node(&node))));
        let planner = Planner::new(&mut cluster, Profile::default());
        World { cluster, planner, plans: 0, preempting: VecDeque::new() }
    }

    pub(crate) fn schedule(&mut self, object: &v1::Pod) -> Outcome {
        while self.preempting.front().is_some_and(|first| first.gone_at <= self.plans) {
            let ready = self.preempting.pop_front().unwrap();
            self.end_victims(&ready.preemption);
            assert_eq!(self.schedule(&ready.object), Outcome::Bound, "the victims made room");
        }
        let pod = self.cluster.compile(object);
        assert_eq!(self.planner.admit(&self.cluster, &pod), Admission::Admitted);
        self.plan(&pod, object)
    }

    fn plan(&mut self, pod: &Arc<Pod>, object: &v1::Pod) -> Outcome {
        self.plans += 1;
        match self.planner.plan(&self.cluster, pod, WallTime::default(), self.plans, &mut NoExtenders) {
            Decision::Bind(placement) => {
                self.cluster.assume(pod, &placement).unwrap();
                Outcome::Bound
            }
            Decision::Unschedulable(refusal) => {
                let Some(preemption) = refusal.preemption else { return Outcome::Refused };
                let mut object = object.clone();
                object.status.get_or_insert_default().nominated_node_name = preemption.node.to_string();
                self.cluster.nominate(pod, &preemption.node);
                let gone_at = self.plans + PLANS_UNTIL_GONE;
                self.preempting.push_back(Preempting { gone_at, preemption, object });
                Outcome::Preempts
            }
            Decision::Failed(failure) => panic!("{failure:?}"),
        }
    }

    fn end_victims(&mut self, preemption: &Preemption) {
        for victim in &preemption.victims {
            let meta = ObjectMeta { uid: victim.uid.to_string(), ..Default::default() };
            self.end(meta);
        }
    }

    /// A pod is gone.
    pub(crate) fn end(&mut self, metadata: ObjectMeta) {
        let gone = v1::Pod { metadata: Some(metadata), ..Default::default() };
        self.cluster.apply(Change::Delete(Object::Pod(&gone)));
    }
}
