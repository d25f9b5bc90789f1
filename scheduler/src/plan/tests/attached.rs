//! Attach limits of nodes in plans, for volumes that name their storage system instead of a CSI driver.

use std::sync::Arc;

use orch_proto::brand::ORCH;
use serde_json::{Value, json};

use super::answers::decode;
use crate::api::core::v1;
use crate::objects::pod::Pod;
use crate::plan::{Change, Cluster, Decision, NoExtenders, Object, Planner, Profile};
use crate::wall_time::WallTime;

const FULL: &str = "0/1 nodes are available: 1 node(s) exceed max volume count.";

/// One node, to which a driver attaches one volume.
struct Bench {
    cluster: Cluster,
    planner: Planner,
}

/// A pod with these volumes.
fn pod(name: &str, volumes: &[Value]) -> Value {
    let volume = |(at, source): (usize, &Value)| {
        let mut volume = source.clone();
        volume["name"] = json!(format!("v{at}"));
        volume
    };
    let volumes: Vec<Value> = volumes.iter().enumerate().map(volume).collect();
    json!({
        "metadata": { "name": name, "uid": name, "namespace": "ns" },
        "spec": { "containers": [{ "name": "c", "image": "i" }], "volumes": volumes },
    })
}

fn aws(id: &str) -> Value {
    json!({ "awsElasticBlockStore": { "volumeID": id } })
}

fn claimed(claim: &str) -> Value {
    json!({ "persistentVolumeClaim": { "claimName": claim } })
}

impl Bench {
    fn new(driver: &str) -> Bench {
        let mut cluster = Cluster::new(&ORCH);
        let planner = Planner::new(&mut cluster, Profile::default());
        let node = json!({ "metadata": { "name": "a" }, "status": { "allocatable": { "pods": "10" } } });
        cluster.apply(Change::Upsert(Object::Node(&decode("Node", &node))));
        let driver = json!({ "name": driver, "nodeID": "a", "allocatable": { "count": 1 } });
        let node = json!({ "metadata": { "name": "a" }, "spec": { "drivers": [driver] } });
        cluster.apply(Change::Upsert(Object::CsiNode(&decode("CSINode", &node))));
        Bench { cluster, planner }
    }

    /// A claim `claim` that is bound to a volume.
    fn bound(&mut self, claim: &str, zone: &str, source: Value) {
        let mut spec = json!({ "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"] });
        spec.as_object_mut().unwrap().extend(source.as_object().unwrap().clone());
        let zone_label = format!("topology.{}", ORCH.label("zone"));
        let labels = json!({ zone_label: zone });
        let volume = json!({ "metadata": { "name": claim, "labels": labels }, "spec": spec });
        self.cluster.apply(Change::Upsert(Object::PersistentVolume(&decode("PersistentVolume", &volume))));
        let completed = format!("pv.{}", ORCH.label("bind-completed"));
        self.claim(json!({
            "metadata": { "name": claim, "namespace": "ns", "annotations": { completed: "yes" } },
            "spec": { "accessModes": ["ReadWriteOnce"], "volumeName": claim },
        }));
    }

    fn claim(&mut self, object: Value) {
        let claim = decode("PersistentVolumeClaim", &object);
        self.cluster.apply(Change::Upsert(Object::PersistentVolumeClaim(&claim)));
    }

    /// Puts a pod with these volumes onto the node.
    fn assigned(&mut self, volumes: &[Value]) {
        let mut pod: v1::Pod = decode("Pod", &pod("there", volumes));
        pod.spec.as_mut().unwrap().node_name = "a".to_owned();
        self.cluster.apply(Change::Upsert(Object::Pod(&pod)));
    }

    /// Whether the node takes a pod with these volumes.
    fn takes(&mut self, volumes: &[Value]) -> bool {
        let pod: Arc<Pod> = self.cluster.compile(&decode("Pod", &pod("p", volumes)));
        match self.planner.plan(&self.cluster, &pod, WallTime::default(), 1, &mut NoExtenders) {
            Decision::Bind(_) => true,
            Decision::Unschedulable(refusal) if refusal.message.starts_with(FULL) => false,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_volume_of_a_storage_system_counts_for_its_driver() {
    let mut bench = Bench::new("ebs.csi.aws.com");
    bench.bound("one", "", aws("vol-1"));
    bench.bound("two", "", aws("vol-2"));
    assert!(bench.takes(&[claimed("one")]));
    assert!(!bench.takes(&[claimed("one"), claimed("two")]));
    bench.assigned(&[claimed("one")]);
    assert!(!bench.takes(&[claimed("two")]));
    assert!(bench.takes(&[json!({ "emptyDir": {} })]));
}

#[test]
fn a_volume_without_a_claim_counts_once_with_the_one_of_a_claim() {
    let mut bench = Bench::new("ebs.csi.aws.com");
    bench.bound("one", "", aws("aws://zone/vol-1"));
    bench.assigned(&[json!({ "azureDisk": { "diskName": "d", "diskURI": "u" } })]);
    assert!(bench.takes(&[claimed("one"), aws("vol-1")]));
    assert!(!bench.takes(&[claimed("one"), aws("vol-2")]));
    bench.assigned(&[aws("vol-3")]);
    assert!(!bench.takes(&[claimed("one")]));
}

#[test]
fn disks_of_one_name_in_two_zones_are_two() {
    let mut bench = Bench::new("pd.csi.storage.gke.io");
    let disk = || json!({ "gcePersistentDisk": { "pdName": "d" } });
    bench.bound("one", "z1", disk());
    bench.bound("same", "z1", disk());
    bench.bound("other", "z2", disk());
    assert!(bench.takes(&[claimed("one"), claimed("same")]));
    assert!(!bench.takes(&[claimed("one"), claimed("other")]));
}

#[test]
fn a_volume_that_is_not_made_counts_for_the_driver_behind_its_provisioner() {
    for (provisioner, is_counted) in [("cinder", true), ("azure-file", false)] {
        let mut bench = Bench::new("cinder.csi.openstack.org");
        let class = json!({
            "metadata": { "name": "c" }, "provisioner": ORCH.label(provisioner),
            "volumeBindingMode": "WaitForFirstConsumer",
        });
        bench.cluster.apply(Change::Upsert(Object::StorageClass(&decode("StorageClass", &class))));
        for name in ["one", "two"] {
            bench.claim(json!({
                "metadata": { "name": name, "namespace": "ns" },
                "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": "c" },
            }));
        }
        assert!(bench.takes(&[claimed("one")]));
        assert_eq!(bench.takes(&[claimed("one"), claimed("two")]), !is_counted, "{provisioner}");
    }
}
