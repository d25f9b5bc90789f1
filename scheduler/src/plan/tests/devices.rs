//! Extended resources in plans: NodeResourcesFit leaves to DynamicResources what nodes do not offer.

use std::sync::Arc;

use orch_proto::brand::ORCH;
use serde_json::{Value, json};

use super::answers::decode;
use crate::api::core::v1;
use crate::objects::pod::Pod;
use crate::plan::decision::{ClaimWrite, Placement, Refusal, UnusableClaim};
use crate::plan::profile::{Plugin, ResourceWeight};
use crate::plan::{Change, Cluster, Decision, NoExtenders, Object, Planner, Profile};
use crate::wall_time::WallTime;

struct Bench {
    cluster: Cluster,
    planner: Planner,
}

fn gpus(name: &str, amount: i64) -> Value {
    json!({
        "metadata": { "name": name, "uid": name, "namespace": "ns" },
        "spec": { "containers": [{
            "name": "c", "image": "i", "resources": { "requests": { "x.com/gpu": amount.to_string() } },
        }] },
    })
}

impl Bench {
    fn new(profile: Profile) -> Bench {
        let mut cluster = Cluster::new(&ORCH);
        let planner = Planner::new(&mut cluster, profile);
        Bench { cluster, planner }
    }

    /// A node that offers so much of the resource itself.
    fn node(&mut self, name: &str, gpus: i64) {
        let allocatable = json!({ "cpu": "8", "memory": "8Gi", "pods": "10", "x.com/gpu": gpus.to_string() });
        let node = json!({ "metadata": { "name": name }, "status": { "allocatable": allocatable } });
        self.cluster.apply(Change::Upsert(Object::Node(&decode("Node", &node))));
    }

    /// The class that offers the resource.
    fn class(&mut self) {
        let class = json!({ "metadata": { "name": "c" }, "spec": { "extendedResourceName": "x.com/gpu" } });
        self.cluster.apply(Change::Upsert(Object::DeviceClass(&decode("DeviceClass", &class))));
    }

    /// Devices of a node.
    fn slice(&mut self, node: &str, devices: usize) {
        let devices: Vec<Value> = (0..devices).map(|index| json!({ "name": format!("d{index}") })).collect();
        let slice = json!({
            "metadata": { "name": node },
            "spec": {
                "driver": "d.io", "nodeName": node, "devices": devices,
                "pool": { "name": node, "generation": 1, "resourceSliceCount": 1 },
            },
        });
        self.cluster.apply(Change::Upsert(Object::ResourceSlice(&decode("ResourceSlice", &slice))));
    }

    fn compiled(&mut self, pod: &Value) -> Arc<Pod> {
        self.cluster.compile(&decode("Pod", pod))
    }

    fn plan(&mut self, pod: &Value) -> Decision {
        let pod = self.compiled(pod);
        self.planner.plan(&self.cluster, &pod, WallTime::default(), 1, &mut NoExtenders)
    }

    fn placed(&mut self, pod: &Value) -> Placement {
        match self.plan(pod) {
            Decision::Bind(placement) => placement,
            other => panic!("{other:?}"),
        }
    }

    fn refused(&mut self, pod: &Value) -> Refusal {
        match self.plan(pod) {
            Decision::Unschedulable(refusal) => refusal,
            other => panic!("{other:?}"),
        }
    }

    /// Plans a pod and counts it on its node.
    fn assume(&mut self, pod: &Value) -> Placement {
        let placement = self.placed(pod);
        let pod = self.compiled(pod);
        self.cluster.assume(&pod, &placement).unwrap();
        placement
    }

    /// The claim of a pod as it was made, with what was found for it.
    fn make(&mut self, name: &str, write: &ClaimWrite) {
        let mut claim = write.new.as_ref().unwrap().object.clone();
        let metadata = claim.metadata.as_mut().unwrap();
        metadata.name = name.to_owned();
        metadata.uid = name.to_owned();
        claim.status.get_or_insert_default().allocation = write.allocation.chosen().cloned();
        self.cluster.apply(Change::Upsert(Object::ResourceClaim(&claim)));
    }
}

#[test]
fn a_resource_that_no_node_offers_is_left_to_devices_once_a_class_offers_it() {
    let mut bench = Bench::new(Profile::default());
    bench.node("a", 0);
    bench.slice("a", 1);
    let refusal = bench.refused(&gpus("p", 1));
    assert!(refusal.message.starts_with("0/1 nodes are available: 1 Insufficient x.com/gpu."));
    assert!(refusal.plugins.contains(Plugin::NodeResourcesFit));
    bench.class();
    let placement = bench.placed(&gpus("p", 1));
    let [write] = placement.claims.as_slice() else { panic!("one claim is new") };
    let mappings = &write.new.as_ref().unwrap().mappings;
    assert_eq!((&*mappings[0].container_name, &*mappings[0].resource_name), ("c", "x.com/gpu"));
    assert!(write.allocation.chosen().is_some());
    let refusal = bench.refused(&gpus("q", 2));
    let reasons =
        "0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: ";
    assert!(refusal.message.starts_with(reasons), "{}", refusal.message);
    assert!(refusal.plugins.contains(Plugin::DynamicResources));
    bench.cluster.apply(Change::Delete(Object::DeviceClass(&decode(
        "DeviceClass",
        &json!({ "metadata": { "name": "c" } }),
    ))));
    assert!(bench.refused(&gpus("p", 1)).message.contains("Insufficient x.com/gpu"));
}

#[test]
fn a_node_that_offers_the_resource_counts_it_itself() {
    let mut bench = Bench::new(Profile::default());
    bench.class();
    bench.node("a", 1);
    bench.slice("a", 8);
    assert_eq!(bench.assume(&gpus("p", 1)).claims, []);
    assert!(bench.refused(&gpus("q", 1)).message.contains("1 Insufficient x.com/gpu"));
    bench.node("b", 0);
    bench.slice("b", 1);
    let placement = bench.assume(&gpus("q", 1));
    assert_eq!((&*placement.node, placement.claims.len()), ("b", 1));
}

#[test]
fn assumed_devices_are_taken_until_they_are_given_back() {
    let mut bench = Bench::new(Profile::default());
    bench.class();
    bench.node("a", 0);
    bench.slice("a", 1);
    let placement = bench.assume(&gpus("p", 1));
    assert!(bench.refused(&gpus("q", 1)).message.contains("cannot allocate all claims"));
    bench.cluster.forget("p");
    assert!(bench.refused(&gpus("q", 1)).message.contains("cannot allocate all claims"), "its job writes on");
    bench.cluster.forget_claims("another", &placement.claims);
    assert!(bench.refused(&gpus("q", 1)).message.contains("cannot allocate all claims"));
    bench.cluster.forget_claims("p", &placement.claims);
    bench.assume(&gpus("q", 1));
    assert!(bench.refused(&gpus("p", 1)).message.contains("cannot allocate all claims"));
}

#[test]
fn a_pod_that_turns_up_elsewhere_gives_its_devices_back_with_its_job() {
    let mut bench = Bench::new(Profile::default());
    bench.class();
    bench.node("a", 0);
    bench.slice("a", 1);
    let placement = bench.assume(&gpus("p", 1));
    bench.node("b", 0);
    let mut elsewhere: v1::Pod = decode("Pod", &gpus("p", 1));
    elsewhere.spec.as_mut().unwrap().node_name = "b".to_owned();
    bench.cluster.apply(Change::Upsert(Object::Pod(&elsewhere)));
    assert!(bench.refused(&gpus("q", 1)).message.contains("cannot allocate all claims"), "the job may go on");
    bench.cluster.forget_claims("p", &placement.claims);
    assert_eq!(&*bench.placed(&gpus("q", 1)).node, "a");
}

#[test]
fn a_bound_pod_keeps_its_devices_by_its_claim() {
    let mut bench = Bench::new(Profile::default());
    bench.class();
    bench.node("a", 0);
    bench.slice("a", 1);
    let placement = bench.assume(&gpus("p", 1));
    let mut bound = gpus("p", 1);
    bound["status"] = json!({ "extendedResourceClaimStatus": { "resourceClaimName": "m", "requestMappings": [
        { "containerName": "c", "resourceName": "x.com/gpu", "requestName": "container-0-request-0" },
    ] } });
    let mut pod: v1::Pod = decode("Pod", &bound);
    pod.spec.as_mut().unwrap().node_name = "a".to_owned();
    bench.cluster.apply(Change::Upsert(Object::Pod(&pod)));
    assert!(bench.refused(&gpus("q", 1)).message.contains("cannot allocate all claims"));
    bench.make("m", &placement.claims[0]);
    bench.cluster.apply(Change::Delete(Object::Pod(&pod)));
    assert!(
        bench.refused(&gpus("q", 1)).message.contains("cannot allocate all claims"),
        "the claim is there"
    );
    let gone = json!({ "metadata": { "name": "m", "namespace": "ns" } });
    bench.cluster.apply(Change::Delete(Object::ResourceClaim(&decode("ResourceClaim", &gone))));
    assert_eq!(&*bench.placed(&gpus("q", 1)).node, "a");
}

#[test]
fn a_claim_that_is_left_of_an_attempt_is_to_be_deleted() {
    let mut bench = Bench::new(Profile::default());
    bench.class();
    bench.node("a", 0);
    bench.slice("a", 2);
    let write = bench.placed(&gpus("p", 1)).claims.remove(0);
    bench.make("m", &write);
    let refusal = bench.refused(&gpus("p", 1));
    let reasons = "0/1 nodes are available: 1 cannot schedule extended resource claim. deletion of \
        ResourceClaim completed, preemption: ";
    assert!(refusal.message.starts_with(reasons), "{}", refusal.message);
    let Some(UnusableClaim::Delete { claim, uid }) = refusal.unusable else {
        panic!("{:?}", refusal.unusable)
    };
    assert_eq!((&*claim.namespace, &*claim.name, &*uid), ("ns", "m", "m"));
    assert_eq!(bench.placed(&gpus("q", 1)).claims.len(), 1, "other pods are planned");
}

#[test]
fn a_claim_whose_devices_take_too_long_by_the_time_of_the_plan_is_given_up() {
    let mut bench = Bench::new(Profile::default());
    bench.class();
    bench.node("a", 0);
    bench.slice("a", 1);
    let result = json!({
        "request": "r", "driver": "d.io", "pool": "a", "device": "d0",
        "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"],
    });
    let claim = json!({
        "metadata": { "name": "x", "uid": "x", "namespace": "ns" },
        "spec": { "devices": { "requests": [{ "name": "r", "exactly": { "deviceClassName": "c" } }] } },
        "status": { "allocation": {
            "devices": { "results": [result] }, "allocationTimestamp": "1970-01-01T00:16:40Z",
        } },
    });
    bench.cluster.apply(Change::Upsert(Object::ResourceClaim(&decode("ResourceClaim", &claim))));
    let pod = bench.compiled(&json!({
        "metadata": { "name": "p", "uid": "p", "namespace": "ns" },
        "spec": {
            "containers": [{ "name": "c", "image": "i" }],
            "resourceClaims": [{ "name": "r", "resourceClaimName": "x" }],
        },
    }));
    // The default `bindingTimeoutSeconds` is 600; the devices were allocated at second 1000.
    for (seconds, is_bound) in [(1_600, true), (1_601, false), (1_600, true)] {
        let wall = WallTime::from_seconds(seconds);
        let decision = bench.planner.plan(&bench.cluster, &pod, wall, 1, &mut NoExtenders);
        assert_eq!(matches!(decision, Decision::Bind(_)), is_bound, "{seconds}: {decision:?}");
    }
}

/// A profile that scores nodes by the resource alone.
fn scoring_gpus() -> Profile {
    let mut profile = Profile::default();
    let resource = || vec![ResourceWeight { name: "x.com/gpu".to_owned(), weight: 1 }];
    profile.arguments.fit_resources = resource();
    profile.arguments.balanced_resources = resource();
    profile
}

#[test]
fn nodes_are_scored_by_their_devices() {
    let mut bench = Bench::new(scoring_gpus());
    bench.class();
    for (name, devices) in [("a", 2), ("b", 10), ("c", 4)] {
        bench.node(name, 0);
        bench.slice(name, devices);
    }
    let placed = ["p0", "p1", "p2", "p3"].map(|name| bench.assume(&gpus(name, 2)));
    // The least allocated after it has the pod: 80, 60, then 50 against 40, then 40 against none.
    assert_eq!(placed.each_ref().map(|placement| &*placement.node), ["b", "b", "c", "b"]);
    bench.cluster.forget("p2");
    bench.cluster.forget_claims("p2", &placed[2].claims);
    assert_eq!(&*bench.placed(&gpus("q", 2)).node, "c", "what is given back counts at once");
}

#[test]
fn devices_that_come_change_the_scores() {
    let mut bench = Bench::new(scoring_gpus());
    bench.class();
    for (name, devices) in [("a", 4), ("b", 2)] {
        bench.node(name, 0);
        bench.slice(name, devices);
    }
    assert_eq!(&*bench.placed(&gpus("p", 1)).node, "a");
    bench.slice("b", 8);
    assert_eq!(&*bench.placed(&gpus("p", 1)).node, "b");
}
