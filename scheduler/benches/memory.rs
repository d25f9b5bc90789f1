//! The memory of a scheduler: 10,000 nodes and 100,000 pods, as the process takes them in.
//!
//! Objects are decoded from Protobuf, wait in a channel of the process's length, and go through the executor with its
//! queue and the planner's snapshot; beside them stands what reflectors remember of each object. `BOUND=100000` says how
//! many of the pods are on nodes; the others wait for one. `NODES` and `PODS` change the size. Prints the resident memory
//! of this process.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a benchmark"
)]

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use orch_proto::Brand;
use orch_proto::brand::ORCH;
use orch_scheduler::api::core::v1;
use orch_scheduler::api::meta::v1::{
    FieldsV1, LabelSelector, ManagedFieldsEntry, ObjectMeta, OwnerReference, Time,
};
use orch_scheduler::api::resource::Quantity;
use orch_scheduler::client::{Object, ObjectKey};
use orch_scheduler::plan::Profile;
use orch_scheduler::queue::QueueOptions;
use orch_scheduler::run::{
    ClusterPlanner, Executor, ExecutorOptions, Followed, Input, Now, ProfileOptions, Rebuild, Stored,
};
use orch_scheduler::stopwatch::Stopwatch;
use orch_scheduler::wall_time::WallTime;
use prost::Message;
use smol_str::SmolStr;

/// That of the program.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

const BRAND: &Brand = &ORCH;
/// Inputs that wait for the scheduling thread of the process.
const WAITING: usize = 2_048;
/// Workloads of the pods.
const WORKLOADS: usize = 500;

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn amounts(pairs: &[(&str, &str)]) -> BTreeMap<String, Quantity> {
    let amounts = pairs.iter();
    amounts.map(|(name, text)| ((*name).to_owned(), Quantity { string: (*text).to_owned() })).collect()
}

/// Owners of fields, as an API server keeps them of a pod: some two kilobytes.
fn managed() -> Vec<ManagedFieldsEntry> {
    let fields: String =
        (0..24).map(|at| format!("\"f:field{at}\":{{\"f:inner\":{{}},\".\":{{}}}},")).collect();
    let entry = |manager: &str| ManagedFieldsEntry {
        manager: manager.to_owned(),
        operation: "Update".to_owned(),
        api_version: "v1".to_owned(),
        fields_type: "FieldsV1".to_owned(),
        fields_v1: Some(FieldsV1 { raw: format!("{{{}\".\":{{}}}}", fields).into_bytes() }),
        ..Default::default()
    };
    vec![entry("controller-manager"), entry("agent")]
}

fn node(index: usize) -> v1::Node {
    let name = format!("node-{index:05}.cluster.example");
    let room =
        amounts(&[("cpu", "64"), ("memory", "256Gi"), ("pods", "110"), ("ephemeral-storage", "400Gi")]);
    let image = |at: usize| v1::ContainerImage {
        names: vec![
            format!("registry.example/team/image-{at}:v1"),
            format!("registry.example/team/image-{at}@sha256:{at:064}"),
        ],
        size_bytes: 100_000_000,
    };
    let zone = format!("zone-{}", index % 3);
    v1::Node {
        metadata: Some(ObjectMeta {
            labels: map(&[
                (&BRAND.label("hostname"), &name),
                (&format!("topology.{}", BRAND.label("zone")), &zone),
                (&BRAND.label("os"), "linux"),
                (&BRAND.label("arch"), "amd64"),
                ("pool", "general"),
            ]),
            uid: format!("{index:08x}-0000-4000-8000-000000000001"),
            resource_version: index.to_string(),
            managed_fields: managed(),
            name,
            ..Default::default()
        }),
        status: Some(v1::NodeStatus {
            allocatable: room.clone(),
            capacity: room,
            images: (0..30).map(|at| image(index % 20 + at)).collect(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn pod(index: usize, node: &str) -> v1::Pod {
    let workload = index % WORKLOADS;
    let name = format!("workload-{workload}-7d9c8b5f6d-{index:05}");
    let app = format!("workload-{workload}");
    let asked = amounts(&[("cpu", "250m"), ("memory", "512Mi")]);
    let variable = |at: usize| v1::EnvVar {
        name: format!("VARIABLE_{at}"),
        value: format!("value of it {at}"),
        ..Default::default()
    };
    let container = |name: &str| v1::Container {
        name: name.to_owned(),
        image: format!("registry.example/team/image-{}:v1", workload % 40),
        env: (0..12).map(variable).collect(),
        ports: vec![v1::ContainerPort { container_port: 8080, ..Default::default() }],
        resources: Some(v1::ResourceRequirements {
            limits: asked.clone(),
            requests: asked.clone(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let spread = v1::TopologySpreadConstraint {
        max_skew: 1,
        topology_key: format!("topology.{}", BRAND.label("zone")),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        label_selector: Some(LabelSelector { match_labels: map(&[("app", &app)]), ..Default::default() }),
        ..Default::default()
    };
    let tolerate = |key: &str| v1::Toleration {
        key: key.to_owned(),
        operator: "Exists".to_owned(),
        effect: "NoExecute".to_owned(),
        ..Default::default()
    };
    v1::Pod {
        metadata: Some(ObjectMeta {
            namespace: format!("team-{}", workload % 20),
            uid: format!("{index:08x}-0000-4000-8000-000000000002"),
            resource_version: (1_000_000 + index).to_string(),
            labels: map(&[("app", &app), ("pod-template-hash", "7d9c8b5f6d"), ("tier", "backend")]),
            annotations: map(&[(
                "config.example/checksum",
                "0123456789abcdef0123456789abcdef0123456789abcdef",
            )]),
            owner_references: vec![OwnerReference {
                kind: "ReplicaSet".to_owned(),
                name: format!("{app}-7d9c8b5f6d"),
                controller: Some(true),
                ..Default::default()
            }],
            managed_fields: managed(),
            name,
            ..Default::default()
        }),
        spec: Some(v1::PodSpec {
            node_name: node.to_owned(),
            scheduler_name: BRAND.scheduler_name.to_owned(),
            containers: vec![container("main"), container("proxy")],
            tolerations: vec![tolerate("not-ready"), tolerate("unreachable")],
            topology_spread_constraints: vec![spread],
            ..Default::default()
        }),
        status: Some(v1::PodStatus {
            phase: if node.is_empty() { "Pending" } else { "Running" }.to_owned(),
            start_time: (!node.is_empty()).then_some(Time { seconds: 1_700_000_000, nanos: 0 }),
            ..Default::default()
        }),
    }
}

/// The part of the process that takes objects in.
struct Process {
    executor: Executor<ClusterPlanner>,
    waiting: VecDeque<Input>,
    /// The versions that reflectors remember.
    known: HashMap<ObjectKey, SmolStr>,
    origin: Instant,
}

impl Process {
    fn new(runtime: &tokio::runtime::Runtime) -> Process {
        let profile = Profile { scheduler_name: BRAND.scheduler_name.to_owned(), ..Profile::default() };
        let stopwatch = Stopwatch::default();
        let runtime = runtime.handle().clone();
        let planner = ClusterPlanner::new(BRAND, vec![profile], Vec::new(), runtime, &stopwatch);
        let profiles = vec![ProfileOptions {
            scheduler_name: BRAND.scheduler_name.into(),
            volume_timeout: Duration::from_secs(600),
            device_timeout: Duration::from_secs(600),
        }];
        let queue = QueueOptions::default();
        let options =
            ExecutorOptions { profiles, queue, binders: Vec::new(), stopwatch, rebuild: Rebuild::default() };
        Process {
            executor: Executor::new(planner, options),
            waiting: VecDeque::new(),
            known: HashMap::new(),
            origin: Instant::now(),
        }
    }

    /// Takes in an object as a reflector decodes it.
    fn read<T: Object + Message + Default>(&mut self, object: &T, stored: fn(Box<T>) -> Stored) {
        let decoded = T::decode(object.encode_to_vec().as_slice()).unwrap();
        self.known.insert(decoded.key(), SmolStr::from(decoded.resource_version()));
        self.waiting.push_back(Input::Upsert(stored(Box::new(decoded))));
        if self.waiting.len() == WAITING {
            self.handle();
        }
    }

    fn handle(&mut self) {
        let now = Now { monotonic: self.origin.elapsed(), wall: WallTime::now() };
        let mut effects = Vec::new();
        for input in self.waiting.drain(..) {
            self.executor.handle(input, now, &mut effects);
            effects.clear();
        }
    }

    /// Plans some of the pods that wait, so that tables are made.
    fn plan(&mut self) -> usize {
        let now = Now { monotonic: self.origin.elapsed(), wall: WallTime::now() };
        Followed::ALL
            .iter()
            .for_each(|kind| self.executor.handle(Input::Synced(*kind, 0), now, &mut Vec::new()));
        let mut planned = 0;
        while planned < 1_000 && self.executor.has_room() && self.executor.step(now, 1, &mut Vec::new()) {
            planned += 1;
        }
        planned
    }
}

/// Megabytes of this process that are in memory, now and at most.
fn resident() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let kilobytes = |name: &str| -> u64 {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    (kilobytes("VmRSS:") / 1024, kilobytes("VmHWM:") / 1024)
}

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn main() {
    let (nodes, pods) = (number("NODES", 10_000), number("PODS", 100_000));
    let bound = number("BOUND", pods).min(pods);
    let size = pod(1, "node-00001.cluster.example").encoded_len();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut process = Process::new(&runtime);
    let print = |what: &str| {
        let (now, most) = resident();
        println!("{what:<40} {now:>6} MB resident, {most} MB at most");
    };
    print("nothing");
    (0..nodes).for_each(|index| process.read(&node(index), Stored::Node));
    process.handle();
    print(&format!("{nodes} nodes"));
    for index in 0..pods {
        let node =
            if index < bound { format!("node-{:05}.cluster.example", index % nodes) } else { String::new() };
        process.read(&pod(index, &node), Stored::Pod);
    }
    process.handle();
    print(&format!("{bound} pods of {size} bytes on nodes, {} waiting", pods - bound));
    let planned = process.plan();
    print(&format!("{planned} plans"));
}
