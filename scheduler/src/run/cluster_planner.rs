//! The planner behind the executor's interface, for one cluster.
//!
//! Owns the snapshot and a planner for each profile. `asked` has the extenders of a profile answer in a plan. Nodes and pods of the API
//! are kept only where an extender wants to see them whole: a hundred thousand pods take hundreds of megabytes.

mod asked;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use orch_proto::Brand;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::api::core::v1::{Node, Pod};
use crate::objects::pod::Pod as Compiled;
use crate::plan::costs::Costs;
use crate::plan::decision::{Admission, ClaimName, ClaimWrite, Decision, Placement};
use crate::plan::{Change, Cluster, Object, Planner, Profile};
use crate::stopwatch::Stopwatch;
use crate::wall_time::WallTime;

use self::asked::Asked;
use super::binding::Written;
use super::extender::Extender;
use super::planning::Planning;
use super::stored::Stored;
#[cfg(test)]
use crate::simulation::plant::{self, Plant};

/// Time of one plan for all calls of extenders together, whatever their time limits are: half of the time after which a thread
/// is taken for stuck and the process ends.
const EXTENDERS_MAX: Duration = Duration::from_secs(30);

/// The planner with its snapshot and the extenders.
pub struct ClusterPlanner {
    brand: &'static Brand,
    stopwatch: Stopwatch,
    cluster: Cluster,
    planners: Vec<Planner>,
    extenders: Vec<Arc<Extender>>,
    runtime: Handle,
    whole: Whole,
}

/// Objects of the API that extenders want to see whole.
#[derive(Default)]
struct Whole {
    // `None`: nobody wants them.
    nodes: Option<HashMap<String, Node>>,
    pods: Option<HashMap<String, Pod>>,
}

impl ClusterPlanner {
    /// A planner of these profiles in the order of the configuration. Extenders are asked on `runtime`, of which the
    /// scheduling thread is no part.
    pub fn new(
        brand: &'static Brand,
        profiles: Vec<Profile>,
        extenders: Vec<Arc<Extender>>,
        runtime: Handle,
        stopwatch: &Stopwatch,
    ) -> Self {
        let (cluster, planners) = empty(brand, profiles, stopwatch);
        let wants = |verbs: fn(&Extender) -> bool| {
            extenders.iter().any(|extender| !extender.config().is_node_cache_capable && verbs(extender))
        };
        let asks_nodes = wants(|extender| {
            !extender.config().filter_verb.is_empty() || !extender.config().prioritize_verb.is_empty()
        });
        let asks_pods = wants(|extender| !extender.config().preempt_verb.is_empty());
        let whole = Whole { nodes: asks_nodes.then(HashMap::new), pods: asks_pods.then(HashMap::new) };
        Self { brand, stopwatch: stopwatch.clone(), cluster, planners, extenders, runtime, whole }
    }
}

/// A snapshot without objects, and the planners of `profiles` for it.
fn empty(brand: &'static Brand, profiles: Vec<Profile>, stopwatch: &Stopwatch) -> (Cluster, Vec<Planner>) {
    let mut cluster = Cluster::new(brand);
    let planner = |profile| {
        let mut planner = Planner::new(&mut cluster, profile);
        planner.set_stopwatch(stopwatch.clone());
        planner
    };
    let planners = profiles.into_iter().map(planner).collect();
    (cluster, planners)
}

impl Planning for ClusterPlanner {
    type Compiled = Compiled;

    fn upsert(&mut self, object: &Stored) {
        self.whole.upsert(object);
        self.cluster.apply(Change::Upsert(planned(object)));
    }

    fn delete(&mut self, object: &Stored) {
        self.whole.delete(object);
        self.cluster.apply(Change::Delete(planned(object)));
    }

    fn worn_bytes(&self) -> usize {
        self.cluster.texts().bytes()
    }

    fn rebuild(&mut self) {
        let profiles = self.planners.iter().map(|planner| planner.profile().clone()).collect();
        (self.cluster, self.planners) = empty(self.brand, profiles, &self.stopwatch);
        self.whole.clear();
    }

    fn reads_pods(&self) -> bool {
        !self.extenders.is_empty()
    }

    fn compile(&mut self, pod: &Pod) -> Arc<Compiled> {
        self.cluster.compile(pod)
    }

    fn admit(&self, profile: usize, pod: &Compiled) -> Admission {
        self.planners[profile].admit(&self.cluster, pod)
    }

    fn plan(
        &mut self,
        profile: usize,
        pod: &Arc<Compiled>,
        api: &Pod,
        wall: WallTime,
        seed: u64,
    ) -> Decision {
        let Self { cluster, planners, extenders, runtime, whole, .. } = self;
        let interested = extenders.iter().filter(|extender| extender.is_interested(api)).collect();
        let deadline = Instant::now() + EXTENDERS_MAX;
        let mut asked = Asked { extenders: interested, runtime, whole, api, deadline };
        planners[profile].plan(cluster, pod, wall, seed, &mut asked)
    }

    fn has_claims(&self, pod: &Compiled) -> bool {
        pod.claims.is_some()
    }

    fn claim_steps(&self) -> u64 {
        self.cluster.devices().claim_steps()
    }

    fn take_costs(&mut self, profile: usize) -> Costs {
        self.planners[profile].take_costs()
    }

    fn assume(&mut self, pod: &Arc<Compiled>, placement: &Placement) -> Result<(), String> {
        #[cfg(test)]
        if plant::is(Plant::ForgetsAssume) {
            return Ok(());
        }
        self.cluster.assume(pod, placement).map_err(|error| error.to_string())
    }

    fn forget(&mut self, uid: &str) {
        self.cluster.forget(uid);
    }

    fn settle_claims(&mut self, uid: &str, written: &[Written]) -> Vec<ClaimName> {
        let freed = written.iter().filter(|Written { claim, uid: claim_uid, version }| {
            self.cluster.settle_claim(uid, claim, claim_uid, version)
        });
        freed.map(|written| written.claim.clone()).collect()
    }

    fn forget_claims(&mut self, uid: &str, claims: &[ClaimWrite]) {
        self.cluster.forget_claims(uid, claims);
    }

    fn nominate(&mut self, pod: &Arc<Compiled>, node: &str) {
        self.cluster.nominate(pod, node);
    }

    fn withdraw(&mut self, uid: &str) {
        #[cfg(test)]
        if plant::is(Plant::KeepsNomination) {
            return;
        }
        self.cluster.withdraw(uid);
    }
}

impl Whole {
    fn clear(&mut self) {
        self.nodes.iter_mut().for_each(HashMap::clear);
        self.pods.iter_mut().for_each(HashMap::clear);
    }

    fn upsert(&mut self, object: &Stored) {
        match (object, &mut self.nodes, &mut self.pods) {
            (Stored::Node(node), Some(nodes), _) => {
                let name = node.metadata.as_ref().map(|metadata| metadata.name.clone()).unwrap_or_default();
                nodes.insert(name, (**node).clone());
            }
            (Stored::Pod(pod), _, Some(pods)) => {
                let uid = pod.metadata.as_ref().map(|metadata| metadata.uid.clone()).unwrap_or_default();
                pods.insert(uid, (**pod).clone());
            }
            _ => {}
        }
    }

    fn delete(&mut self, object: &Stored) {
        match (object, &mut self.nodes, &mut self.pods) {
            (Stored::Node(node), Some(nodes), _) => {
                nodes.remove(node.metadata.as_ref().map_or("", |metadata| &metadata.name));
            }
            (Stored::Pod(pod), _, Some(pods)) => {
                pods.remove(pod.metadata.as_ref().map_or("", |metadata| &metadata.uid));
            }
            _ => {}
        }
    }

    fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.as_ref()?.get(name)
    }

    /// The victim as the API has it; by its names alone where nobody wants more.
    fn victim(&self, pod: &Compiled) -> Pod {
        let kept = self.pods.as_ref().and_then(|pods| pods.get(&*pod.uid)).cloned();
        kept.unwrap_or_else(|| Pod {
            metadata: Some(crate::api::meta::v1::ObjectMeta {
                namespace: pod.namespace.to_string(),
                name: pod.name.to_string(),
                uid: pod.uid.to_string(),
                ..Default::default()
            }),
            ..Pod::default()
        })
    }
}

/// The object as plans look at it.
fn planned(object: &Stored) -> Object<'_> {
    match object {
        Stored::Pod(object) => Object::Pod(object),
        Stored::Node(object) => Object::Node(object),
        Stored::Namespace(object) => Object::Namespace(object),
        Stored::Service(object) => Object::Service(object),
        Stored::ReplicationController(object) => Object::ReplicationController(object),
        Stored::ReplicaSet(object) => Object::ReplicaSet(object),
        Stored::StatefulSet(object) => Object::StatefulSet(object),
        Stored::PodDisruptionBudget(object) => Object::PodDisruptionBudget(object),
        Stored::PersistentVolume(object) => Object::PersistentVolume(object),
        Stored::PersistentVolumeClaim(object) => Object::PersistentVolumeClaim(object),
        Stored::StorageClass(object) => Object::StorageClass(object),
        Stored::CsiNode(object) => Object::CsiNode(object),
        Stored::CsiDriver(object) => Object::CsiDriver(object),
        Stored::CsiStorageCapacity(object) => Object::CsiStorageCapacity(object),
        Stored::VolumeAttachment(object) => Object::VolumeAttachment(object),
        Stored::ResourceClaim(object) => Object::ResourceClaim(object),
        Stored::ResourceSlice(object) => Object::ResourceSlice(object),
        Stored::DeviceClass(object) => Object::DeviceClass(object),
    }
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;

    use super::*;
    use crate::api::meta::v1::ObjectMeta;

    #[tokio::test]
    async fn texts_of_pods_that_are_gone_weigh_until_a_rebuild() {
        let mut planner = ClusterPlanner::new(
            &ORCH,
            vec![Profile::default()],
            Vec::new(),
            Handle::current(),
            &Stopwatch::default(),
        );
        let fresh = planner.worn_bytes();
        for number in 0..100 {
            let labels = [("app".to_owned(), format!("job-{number:060}"))].into();
            let metadata = ObjectMeta { uid: "u".to_owned(), labels, ..ObjectMeta::default() };
            let pod = Pod { metadata: Some(metadata), ..Pod::default() };
            planner.compile(&pod);
            planner.upsert(&Stored::Pod(Box::new(pod.clone())));
            planner.delete(&Stored::Pod(Box::new(pod)));
        }
        assert!(planner.worn_bytes() > fresh + 100 * 64, "{fresh}, {}", planner.worn_bytes());
        planner.rebuild();
        assert_eq!(planner.worn_bytes(), fresh);
    }

    #[tokio::test]
    async fn no_score_of_an_extender_turns_into_its_opposite() {
        use crate::api::core::v1::{NodeStatus, PodSpec};
        use crate::api::resource::Quantity;
        use crate::run::extender::testing::serve;

        let node = |name: &str| {
            let metadata = ObjectMeta { name: name.to_owned(), ..ObjectMeta::default() };
            let amount = |text: &str| Quantity { string: text.to_owned() };
            let allocatable = [("cpu", "4"), ("memory", "8Gi"), ("pods", "10")];
            let allocatable = allocatable.map(|(name, text)| (name.to_owned(), amount(text))).into();
            let status = NodeStatus { allocatable, ..NodeStatus::default() };
            Node { metadata: Some(metadata), status: Some(status), ..Node::default() }
        };
        for (best, worst) in [(i64::MAX, 0), (0, i64::MIN), (i64::MAX, i64::MIN)] {
            let extender = serve(move |verb, _| match verb {
                "filter" => (200, serde_json::json!({ "NodeNames": ["a", "b"] })),
                _ => {
                    let scores = [("a", worst), ("b", best)];
                    let scores =
                        scores.map(|(host, score)| serde_json::json!({ "Host": host, "Score": score }));
                    (200, serde_json::json!(scores))
                }
            })
            .await;
            let extenders = vec![extender.clone(), extender];
            let stopwatch = Stopwatch::default();
            let mut planner = ClusterPlanner::new(
                &ORCH,
                vec![Profile::default()],
                extenders,
                Handle::current(),
                &stopwatch,
            );
            ["a", "b"].into_iter().for_each(|name| planner.upsert(&Stored::Node(Box::new(node(name)))));
            let metadata = ObjectMeta { uid: "u".to_owned(), name: "p".to_owned(), ..ObjectMeta::default() };
            let pod = Pod { metadata: Some(metadata), spec: Some(PodSpec::default()), ..Pod::default() };
            // The planner's thread is none of the runtime's.
            let planned = tokio::task::spawn_blocking(move || {
                let compiled = planner.compile(&pod);
                planner.plan(0, &compiled, &pod, WallTime(0), 0)
            });
            match planned.await.unwrap() {
                Decision::Bind(placement) => assert_eq!(&*placement.node, "b", "{best} {worst}"),
                other => panic!("{best} {worst}: {other:?}"),
            }
        }
    }
}
