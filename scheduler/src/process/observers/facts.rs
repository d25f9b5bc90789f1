//! The list of the reference's metrics, and the code that observes each.
//!
//! Owns one walk through everything that metrics measure, on this thread and without a cluster. A metric that the walk
//! leaves at nothing must stand in [`NEVER`] with its reason; one that stands there must stay at nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use orch_proto::brand::KUBERNETES;
use tokio::runtime::{Builder, Runtime};

use super::*;
use crate::api::core::v1::{
    Container, Node, NodeStatus, Pod, PodSchedulingGate, PodSpec, PodStatus, ResourceRequirements,
};
use crate::api::meta::v1::ObjectMeta;
use crate::api::resource::Quantity;
use crate::client::testing::{FakeApi, Fault, eventually};
use crate::client::{Bearer, Client, ContentType, ExecPlugin, ObjectKey};
use crate::config::Features;
use crate::config::flags::parse;
use crate::election::{Elector, LeaseLock, Machine, Timing};
use crate::metrics::{Metrics, Policy};
use crate::plan::Profile;
use crate::queue::{QueueOptions, Rejectors};
use crate::run::{
    BindOutcome, ClusterPlanner, Effect, Evicting, Executor, ExecutorOptions, Followed, Input, Job, Now,
    ProfileOptions, Rebuild, Stored,
};
use crate::stopwatch::testing::ticking;
use crate::wall_time::WallTime;

const FACTS: &str = include_str!("../../../tests/data/scheduler-metrics.txt");

/// Where the reference links a library of API servers and never calls it.
const SERVERS_ONLY: &str = "only API servers do this";
/// Where work waits for nobody.
const DONE_AT_ONCE: &str =
    "files are read by whoever finds them changed, so that nothing waits or is under way";

/// Metrics that nothing observes, and why.
const NEVER: &[(&str, &str)] = &[
    ("aggregator_discovery_aggregation_count_total", SERVERS_ONLY),
    ("aggregator_discovery_nopeer_requests_total", SERVERS_ONLY),
    ("aggregator_discovery_peer_aggregated_cache_hits_total", SERVERS_ONLY),
    ("aggregator_discovery_peer_aggregated_cache_misses_total", SERVERS_ONLY),
    ("apiserver_audit_event_total", SERVERS_ONLY),
    ("apiserver_audit_requests_rejected_total", SERVERS_ONLY),
    ("apiserver_envelope_encryption_dek_cache_fill_percent", SERVERS_ONLY),
    ("apiserver_storage_data_key_generation_duration_seconds", SERVERS_ONLY),
    ("apiserver_storage_data_key_generation_failures_total", SERVERS_ONLY),
    ("apiserver_storage_envelope_transformation_cache_misses_total", SERVERS_ONLY),
    ("apiserver_validation_declarative_validation_mismatch_total", SERVERS_ONLY),
    ("apiserver_validation_declarative_validation_panic_total", SERVERS_ONLY),
    ("apiserver_validation_duplicate_validation_error_total", SERVERS_ONLY),
    ("apiserver_webhooks_x509_insecure_sha1_total", SERVERS_ONLY),
    ("apiserver_webhooks_x509_missing_san_total", SERVERS_ONLY),
    ("workqueue_depth", DONE_AT_ONCE),
    ("workqueue_longest_running_processor_seconds", DONE_AT_ONCE),
    ("workqueue_unfinished_work_seconds", DONE_AT_ONCE),
    (
        "rest_client_transport_cert_rotation_gc_calls_total",
        "a transport looks its certificate up at each handshake, and is not replaced with it",
    ),
    ("scheduler_permit_wait_duration_seconds", "no plugin of this program waits at Permit (decision 0030)"),
];

fn metrics_with(flags: &[&str]) -> Metrics {
    let line = parse(["scheduler"].iter().chain(flags).map(Into::into).collect()).unwrap();
    let features = Features::parse(&[]).unwrap();
    Metrics::new(Policy::new(&line.flags.metrics), &features, &KUBERNETES)
}

/// The sum of all samples of each family, without those of buckets.
fn sums(text: &str) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    let mut family = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            family = rest.split(' ').next().unwrap().to_owned();
            sums.insert(family.clone(), 0.0);
        } else if !line.starts_with('#') && !line.contains("_bucket{") {
            let value: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
            *sums.get_mut(&family).unwrap() += value.abs();
        }
    }
    sums
}

#[test]
fn every_metric_of_the_list_is_observed() {
    let metrics = metrics_with(&["--show-hidden-metrics-for-version=1.35"]);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let text = metrics.count_into(|| {
        let mut world = World::new(&runtime);
        world.schedule();
        crate::serve::exercise_tls();
        report_leader("lock", true);
        runtime.block_on(requests(&metrics))
    });
    let mut sums_ = sums(&text);
    for flag in [
        "--disabled-metrics=scheduler_goroutines",
        "--allow-metric-labels=scheduler_pending_pods,queue=active",
    ] {
        // These say what flags have left out, which must not be done to the metrics that are looked for above.
        let others = metrics_with(&[flag]);
        others.count_into(|| report_pods(&Queue::new(QueueOptions::default())));
        for name in [
            "disabled_metrics_total",
            "hidden_metrics_total",
            "cardinality_enforcement_unexpected_categorizations_total",
        ] {
            *sums_.get_mut(name).unwrap() += sums(&others.render())[name];
        }
    }
    let never: BTreeMap<_, _> = NEVER.iter().copied().collect();
    let listed = FACTS.lines().filter_map(|line| line.split_once(' ')).map(|(name, _)| name.to_owned());
    let ours = listed.filter(|name| !name.starts_with("go_"));
    let names: BTreeSet<String> = ours.chain(metrics.names()).collect();
    assert!(names.len() > 70, "{}", names.len());
    for name in &names {
        let is_observed = sums_.get(name).is_some_and(|sum| *sum > 0.0);
        match never.get(name.as_str()) {
            None => assert!(is_observed, "nothing observes {name}:\n{text}"),
            Some(_) => assert!(!is_observed, "{name} is observed after all"),
        }
    }
    assert!(never.keys().all(|name| names.contains(*name)));
}

#[test]
fn durations_have_the_labels_of_the_reference() {
    let metrics = metrics_with(&[]);
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    metrics.count_into(|| World::new(&runtime).schedule());
    let text = metrics.render();
    for series in [
        "scheduler_framework_extension_point_duration_seconds_count{extension_point=\"PreFilter\",profile=\"default-scheduler\",status=\"Success\"}",
        "scheduler_framework_extension_point_duration_seconds_count{extension_point=\"Filter\",profile=\"default-scheduler\",status=\"Success\"}",
        "scheduler_framework_extension_point_duration_seconds_count{extension_point=\"PostFilter\",profile=\"default-scheduler\",status=\"Unschedulable\"}",
        "scheduler_framework_extension_point_duration_seconds_count{extension_point=\"PostFilter\",profile=\"default-scheduler\",status=\"Success\"}",
        "scheduler_framework_extension_point_duration_seconds_count{extension_point=\"Score\",profile=\"default-scheduler\",status=\"Success\"}",
        "scheduler_framework_extension_point_duration_seconds_count{extension_point=\"Reserve\",profile=\"default-scheduler\",status=\"Success\"}",
        "scheduler_plugin_execution_duration_seconds_count{extension_point=\"Filter\",plugin=\"NodeResourcesFit\",status=\"Success\"}",
        "scheduler_plugin_execution_duration_seconds_count{extension_point=\"Score\",plugin=\"ImageLocality\",status=\"Success\"}",
        "scheduler_plugin_evaluation_total{extension_point=\"PreFilter\",plugin=\"NodeResourcesFit\",profile=\"default-scheduler\"}",
        "scheduler_event_handling_duration_seconds_count{event=\"NodeAdd\"}",
        "scheduler_event_handling_duration_seconds_count{event=\"UnschedulablePodAdd\"}",
        "scheduler_event_handling_duration_seconds_count{event=\"AssignedPodAdd\"}",
        "scheduler_event_handling_duration_seconds_count{event=\"AssignedPodDelete\"}",
        "scheduler_queueing_hint_execution_duration_seconds_count{event=\"AssignedPodDelete\",hint=\"Queue\",plugin=\"NodeResourcesFit\"}",
        "scheduler_schedule_attempts_total{profile=\"default-scheduler\",result=\"scheduled\"}",
        "scheduler_schedule_attempts_total{profile=\"default-scheduler\",result=\"unschedulable\"}",
        "scheduler_scheduling_attempt_duration_seconds_count{profile=\"default-scheduler\",result=\"scheduled\"}",
    ] {
        let line = text.lines().find(|line| line.starts_with(series));
        let value = line.unwrap_or_else(|| panic!("{series}:\n{text}")).rsplit(' ').next().unwrap();
        assert_ne!(value, "0", "{series}");
    }
    // Of plugins that were skipped nothing is told.
    assert!(!text.contains("plugin=\"VolumeZone\""), "{text}");
}

/// An executor over the planner proper, whose effects are carried out at once.
struct World {
    executor: Executor<ClusterPlanner>,
    observer: Observer,
    reporter: Reporter,
    now: Duration,
}

fn metadata(name: &str) -> Option<ObjectMeta> {
    let namespace = "default".to_owned();
    Some(ObjectMeta { name: name.to_owned(), namespace, uid: format!("uid-{name}"), ..ObjectMeta::default() })
}

fn cpus(count: u32) -> BTreeMap<String, Quantity> {
    BTreeMap::from([("cpu".to_owned(), Quantity { string: count.to_string() })])
}

fn node(name: &str, count: u32) -> Stored {
    let mut allocatable = cpus(count);
    allocatable.insert("pods".to_owned(), Quantity { string: "10".to_owned() });
    let status = NodeStatus { allocatable, ..NodeStatus::default() };
    let metadata = metadata(name).map(|metadata| ObjectMeta { namespace: String::new(), ..metadata });
    Stored::Node(Box::new(Node { metadata, status: Some(status), ..Node::default() }))
}

fn pod(name: &str, count: u32, priority: i32) -> Pod {
    let resources = Some(ResourceRequirements { requests: cpus(count), ..ResourceRequirements::default() });
    let spec = PodSpec {
        scheduler_name: "default-scheduler".to_owned(),
        containers: vec![Container { resources, ..Container::default() }],
        priority: Some(priority),
        ..PodSpec::default()
    };
    Pod { metadata: metadata(name), spec: Some(spec), status: Some(PodStatus::default()) }
}

fn stored(pod: &Pod) -> Input {
    Input::Upsert(Stored::Pod(Box::new(pod.clone())))
}

fn deleted(name: &str) -> Input {
    Input::Delete(Stored::Pod(Box::new(pod(name, 1, 0))), ObjectKey::new("default", name))
}

impl World {
    fn new(runtime: &Runtime) -> World {
        let (profile, stopwatch) = (Profile::default(), ticking());
        let names: Vec<Arc<str>> = vec![Arc::from(profile.scheduler_name.as_str())];
        let options = ExecutorOptions {
            profiles: vec![ProfileOptions {
                scheduler_name: names[0].clone(),
                volume_timeout: Duration::from_secs(1),
                device_timeout: Duration::from_secs(1),
            }],
            queue: QueueOptions {
                profiles: vec![Rejectors::all()],
                stopwatch: stopwatch.clone(),
                ..QueueOptions::default()
            },
            binders: Vec::new(),
            stopwatch: stopwatch.clone(),
            rebuild: Rebuild::default(),
        };
        let handle = runtime.handle().clone();
        let planner = ClusterPlanner::new(&KUBERNETES, vec![profile], Vec::new(), handle, &stopwatch);
        let mut executor = Executor::new(planner, options);
        let now = Now { monotonic: Duration::ZERO, wall: WallTime(0) };
        for kind in Followed::ALL {
            executor.handle(Input::Synced(*kind, 0), now, &mut Vec::new());
        }
        World { executor, observer: observer(names.clone()), reporter: reporter(names), now: Duration::ZERO }
    }

    fn now(&self) -> Now {
        Now { monotonic: self.now, wall: WallTime(0) }
    }

    /// Gives an input in, and returns the jobs that came of it.
    fn tell(&mut self, input: Input) -> Vec<Job> {
        let mut effects = Vec::new();
        self.executor.handle(input, self.now(), &mut effects);
        self.carry_out(effects)
    }

    /// Plans a pod, if one waits.
    fn step(&mut self) -> Vec<Job> {
        let mut effects = Vec::new();
        self.executor.step(self.now(), 0, &mut effects);
        self.carry_out(effects)
    }

    fn carry_out(&mut self, effects: Vec<Effect>) -> Vec<Job> {
        let mut jobs = Vec::new();
        for effect in effects {
            match effect {
                Effect::Observe(observation) => (self.observer)(observation),
                Effect::Bind(job) => jobs.push(*job),
                Effect::Evict(eviction) => {
                    (self.observer)(Observation::Evicted { is_done: true, took: Duration::from_secs(1) });
                    let outcomes = eviction.victims.iter().cloned().map(Evicting::Deleted).collect();
                    let gone: Vec<_> =
                        eviction.victims.iter().map(|victim| victim.name.to_string()).collect();
                    jobs.extend(self.tell(Input::Evicted(eviction, outcomes)));
                    for name in gone {
                        jobs.extend(self.tell(deleted(&name)));
                    }
                }
                _ => {}
            }
        }
        jobs
    }

    /// Plans a pod that finds a node, and binds it.
    fn bind(&mut self, pod: &Pod) {
        let mut jobs = self.step();
        let job = jobs.pop().expect("the pod finds a node");
        let mut bound = pod.clone();
        bound.spec.as_mut().unwrap().node_name = job.node.to_string();
        self.tell(Input::Finished(Box::new(job), BindOutcome::Bound));
        self.tell(stored(&bound));
    }

    /// Pods that are bound, refused, preempt others, and come back by time alone.
    fn schedule(&mut self) {
        self.tell(Input::Upsert(node("a", 2)));
        self.tell(Input::Upsert(node("b", 1)));
        let (first, second) = (pod("first", 1, 0), pod("second", 1, 0));
        for pod in [&first, &second] {
            self.tell(stored(pod));
            self.bind(pod);
        }
        let refused = pod("refused", 2, -1);
        self.tell(stored(&refused));
        assert!(self.step().is_empty());
        let important = pod("important", 2, 10);
        self.tell(stored(&important));
        assert!(self.step().is_empty(), "it waits for its victims");
        self.now += Duration::from_secs(15);
        self.executor.tick(self.now());
        self.bind(&important);
        self.bind_after_a_flush(&refused);
        // One pod is left on its way to its node.
        self.tell(Input::Upsert(node("d", 2)));
        self.tell(stored(&pod("under-way", 1, 0)));
        assert_eq!(self.step().len(), 1);
        (self.reporter)(&self.executor.levels());
    }

    /// Room that was kept for another pod is free again, which no event tells the one that was refused: time does.
    fn bind_after_a_flush(&mut self, refused: &Pod) {
        let mut keeper = pod("keeper", 2, 5);
        keeper.spec.as_mut().unwrap().scheduling_gates = vec![PodSchedulingGate { name: "g".to_owned() }];
        keeper.status.as_mut().unwrap().nominated_node_name = "c".to_owned();
        self.tell(stored(&keeper));
        self.tell(Input::Upsert(node("c", 2)));
        self.now += Duration::from_secs(15);
        self.executor.tick(self.now());
        assert!(self.step().is_empty(), "the room is kept");
        keeper.status.as_mut().unwrap().nominated_node_name.clear();
        self.tell(stored(&keeper));
        assert!(self.step().is_empty(), "nothing woke the pod");
        self.now += Duration::from_secs(301);
        self.executor.tick(self.now());
        self.bind(refused);
    }
}

/// Requests to an API with a program's certificates, and the text of the metrics while the client is there.
async fn requests(metrics: &Metrics) -> String {
    let api = FakeApi::start().await;
    let directory = tempfile::tempdir().unwrap();
    let mut config = api.config().with_limits(ContentType::Protobuf, 100.0, 100);
    config.bearer = Bearer::Exec(Box::new(program(directory.path())));
    let client = Client::new(&config, FakeApi::brand()).unwrap();
    for _ in 0..2 {
        // The program says that what it prints is old at once, so that each request asks it again.
        write_certificate(directory.path());
        let missing = client.get::<Pod>("default", "nothing").await;
        assert!(missing.unwrap_err().is(crate::client::Reason::NotFound));
    }
    let text = metrics.render();
    drop(client);
    text + &renewals(metrics, &api).await
}

/// A leader whose renewal failed once, and the text of the metrics of elections.
async fn renewals(metrics: &Metrics, api: &FakeApi) -> String {
    let seconds = Duration::from_secs;
    let timing = Timing::new(seconds(15), seconds(10), Duration::from_millis(10)).unwrap();
    let lock = LeaseLock::new(api.client(), ObjectKey::new("default", "lock"));
    let machine = Machine::new("me".to_owned(), timing);
    let (elector, mut leadership) = Elector::new(lock, machine, Box::new(|_, _, _| ()));
    let stop = CancellationToken::new();
    let running = tokio::spawn(elector.run(stop.clone()));
    assert!(leadership.acquired().await);
    api.plant("PUT", "/leases", 1, Fault::Status(409, 0));
    let family = "leader_election_slowpath_total";
    eventually("the leader reads the lock", || metrics.render().contains(&format!("{family}{{"))).await;
    stop.cancel();
    running.await.unwrap();
    let text = metrics.render();
    let lines = text.lines().filter(|line| line.contains(family));
    lines.map(|line| format!("{line}\n")).collect()
}

fn program(directory: &Path) -> ExecPlugin {
    let path = directory.join("login");
    std::fs::write(&path, format!("#!/bin/sh\ncat {}\n", directory.join("credential").display())).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    let plugin = serde_json::json!({
        "apiVersion": "client.authentication.test/v1", "command": path, "interactiveMode": "Never",
    });
    serde_json::from_value(plugin).unwrap()
}

fn write_certificate(directory: &Path) {
    let certified = rcgen::generate_simple_self_signed(vec!["client.test".to_owned()]).unwrap();
    let credential = serde_json::json!({
        "apiVersion": "client.authentication.test/v1",
        "kind": "ExecCredential",
        "status": {
            "clientCertificateData": certified.cert.pem(),
            "clientKeyData": certified.signing_key.serialize_pem(),
            "expirationTimestamp": "2020-01-01T00:00:00Z",
        },
    });
    std::fs::write(directory.join("credential"), credential.to_string()).unwrap();
}
