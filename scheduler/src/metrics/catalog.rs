//! The catalog: every metric with its type, stability, buckets, and the series that are there from the start.
//!
//! Names, types and buckets are the reference's. Those that the reference inherits from libraries of an API server stay
//! at nothing here, and are there because dashboards add them up over components. The series of its language's runtime
//! are left out: this program has no such runtime, and numbers under their names would be false. One that dashboards show,
//! `go_goroutines`, is written beside the table under the brand of the reference: tasks stand for threads of execution.

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Counts up.
    Counter,
    /// Says what is.
    Gauge,
    /// Counts samples by their size.
    Histogram,
}

/// How settled a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stability {
    /// May change.
    Alpha,
    /// Changes with notice.
    Beta,
    /// Stays.
    Stable,
}

/// A metric.
#[derive(Debug)]
pub(super) struct Definition {
    /// Its name; with a leading underscore the end of a name that begins with the brand.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) stability: Stability,
    pub(super) help: &'static str,
    /// Buckets of a histogram.
    pub(super) buckets: &'static [f64],
    /// Labels of the series that are there from the start.
    pub(super) initial: &'static [&'static [(&'static str, &'static str)]],
    /// The version that deprecated it: it is hidden in later minor versions.
    pub(super) deprecated: Option<&'static str>,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

impl Stability {
    pub(super) fn name(self) -> &'static str {
        match self {
            Stability::Alpha => "ALPHA",
            Stability::Beta => "BETA",
            Stability::Stable => "STABLE",
        }
    }
}

/// The metric `name`.
pub(super) fn definition(name: &str) -> Option<&'static Definition> {
    let is_named = |definition: &&Definition| {
        definition.name == name || definition.name.starts_with('_') && name.ends_with(definition.name)
    };
    CATALOG.iter().find(is_named)
}

/// Buckets of durations without buckets of their own, and of histograms that the catalog does not know.
pub(super) const DEFAULT_BUCKETS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// A millisecond, doubled fourteen times.
const MILLISECONDS: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];
/// A tenth of a millisecond, doubled eleven times.
const EXTENSION_POINT: &[f64] =
    &[0.0001, 0.0002, 0.0004, 0.0008, 0.0016, 0.0032, 0.0064, 0.0128, 0.0256, 0.0512, 0.1024, 0.2048];
/// A hundred-thousandth of a second, by half more nineteen times.
const PLUGIN: &[f64] = &[
    0.00001,
    0.000_015,
    0.000_022_5,
    0.000_033_75,
    0.000_050_625,
    0.000_075_937_5,
    0.000_113_906,
    0.000_170_859,
    0.000_256_289,
    0.000_384_434,
    0.000_576_650,
    0.000_864_976,
    0.001_297_463,
    0.001_946_195,
    0.002_919_293,
    0.004_378_939,
    0.006_568_408,
    0.009_852_613,
    0.014_778_919,
    0.022_168_378,
];
/// A hundredth of a second, doubled nineteen times.
const SLI: &[f64] = &[
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 327.68,
    655.36, 1310.72, 2621.44, 5242.88,
];
const ATTEMPTS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0];
const VICTIMS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];
/// Durations in work queues: ten nanoseconds to ten seconds.
const WORK: &[f64] = &[1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0];
const REQUESTS: &[f64] = &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
const SIZES: &[f64] = &[
    64.0,
    256.0,
    512.0,
    1024.0,
    4096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
];
/// Ages of client certificates: ten minutes to four years.
const AGES: &[f64] = &[
    600.0,
    1800.0,
    3600.0,
    14_400.0,
    86_400.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
    124_416_000.0,
];
/// Remaining lives of client certificates: nothing to a year.
const LIVES: &[f64] = &[
    0.0,
    1800.0,
    3600.0,
    7200.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    345_600.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
];
/// Five millionths of a second, doubled thirteen times.
const DATA_KEYS: &[f64] = &[
    5e-6, 1e-5, 2e-5, 4e-5, 8e-5, 0.000_16, 0.000_32, 0.000_64, 0.001_28, 0.002_56, 0.005_12, 0.010_24,
    0.020_48, 0.040_96,
];

type Initial = &'static [&'static [(&'static str, &'static str)]];

/// Not there before it is used.
const LATER: Initial = &[];
/// There from the start, without labels.
const ONE: Initial = &[&[]];
const QUEUES: Initial =
    &[&[("queue", "active")], &[("queue", "backoff")], &[("queue", "gated")], &[("queue", "unschedulable")]];
const CACHED: Initial = &[&[("type", "assumed_pods")], &[("type", "nodes")], &[("type", "pods")]];
const WORK_QUEUES: Initial = &[&[("name", "client_ca")], &[("name", "serving_certificate")]];
const ALGORITHM: Initial = ONE;
const EVALUATIONS: Initial =
    &[&[("extension_point", "Filter"), ("plugin", "NodeName"), ("profile", "default-scheduler")]];
const TRANSPORTS: Initial = &[&[("result", "miss")]];

macro_rules! catalog {
    ($($kind:ident $stability:ident $name:literal $help:literal $initial:ident $(in $buckets:ident)? $(since $deprecated:literal)?;)*) => {
        /// Every metric, in order of names.
        pub(super) const CATALOG: &[Definition] = &[$(Definition {
            name: $name,
            kind: Kind::$kind,
            stability: Stability::$stability,
            help: $help,
            buckets: catalog!(@buckets $($buckets)?),
            initial: $initial,
            deprecated: catalog!(@deprecated $($deprecated)?),
        },)*];
    };
    (@buckets) => { DEFAULT_BUCKETS };
    (@buckets $buckets:ident) => { $buckets };
    (@deprecated) => { None };
    (@deprecated $version:literal) => { Some($version) };
}

catalog! {
    Gauge Beta "_build_info" "Version of the program in its labels." LATER;
    Gauge Beta "_feature_enabled" "Whether a feature gate is on." LATER;
    Counter Alpha "aggregator_discovery_aggregation_count_total" "Rebuilt discovery documents of aggregated servers." ONE;
    Counter Alpha "aggregator_discovery_nopeer_requests_total" "Discovery requests for this server alone." ONE;
    Counter Alpha "aggregator_discovery_peer_aggregated_cache_hits_total" "Discovery of peers that was cached." ONE;
    Counter Alpha "aggregator_discovery_peer_aggregated_cache_misses_total" "Discovery of peers that was not cached." ONE;
    Counter Alpha "apiserver_audit_event_total" "Audit events sent to the audit backend." ONE;
    Counter Alpha "apiserver_audit_requests_rejected_total" "Requests refused because their audit failed." ONE;
    Histogram Alpha "apiserver_client_certificate_expiration_seconds" "Remaining lives of certificates that clients presented." ONE in LIVES;
    Gauge Alpha "apiserver_envelope_encryption_dek_cache_fill_percent" "Filling of the cache of data keys." ONE;
    Histogram Alpha "apiserver_storage_data_key_generation_duration_seconds" "Durations of making data keys." ONE in DATA_KEYS;
    Counter Alpha "apiserver_storage_data_key_generation_failures_total" "Data keys that could not be made." ONE;
    Counter Alpha "apiserver_storage_envelope_transformation_cache_misses_total" "Data keys that were not cached." ONE;
    Counter Beta "apiserver_validation_declarative_validation_mismatch_total" "Differences between two kinds of validation." ONE;
    Counter Beta "apiserver_validation_declarative_validation_panic_total" "Panics of declarative validation." ONE;
    Counter Alpha "apiserver_validation_duplicate_validation_error_total" "Errors that validation reported twice." ONE;
    Counter Alpha "apiserver_webhooks_x509_insecure_sha1_total" "Webhook servers with certificates signed by SHA-1." ONE;
    Counter Alpha "apiserver_webhooks_x509_missing_san_total" "Webhook servers with certificates without alternative names." ONE;
    Counter Alpha "cardinality_enforcement_unexpected_categorizations_total" "Values of labels that no allow-list holds." ONE;
    Counter Beta "disabled_metrics_total" "Metrics that are disabled." ONE;
    Counter Beta "hidden_metrics_total" "Metrics that are hidden." ONE;
    Gauge Alpha "leader_election_master_status" "Whether this instance leads." LATER;
    Counter Alpha "leader_election_slowpath_total" "Renewals of the lease that needed a read." LATER;
    Counter Beta "registered_metrics_total" "Metrics by stability and deprecation." LATER;
    Histogram Alpha "rest_client_exec_plugin_certificate_rotation_age" "Ages of replaced client certificates." ONE in AGES;
    Gauge Alpha "rest_client_exec_plugin_ttl_seconds" "Shortest remaining life of client certificates." ONE;
    Histogram Alpha "rest_client_rate_limiter_duration_seconds" "Waits for the rate limit of requests to the API server." LATER in REQUESTS;
    Histogram Alpha "rest_client_request_duration_seconds" "Durations of requests to the API server." LATER in REQUESTS;
    Histogram Alpha "rest_client_request_size_bytes" "Sizes of requests to the API server." LATER in SIZES;
    Counter Alpha "rest_client_requests_total" "Requests to the API server." LATER;
    Histogram Alpha "rest_client_response_size_bytes" "Sizes of responses of the API server." LATER in SIZES;
    Gauge Alpha "rest_client_transport_cache_entries" "Transports that are kept." ONE;
    Counter Alpha "rest_client_transport_cert_rotation_gc_calls_total" "Transports given up after their certificate changed." ONE;
    Counter Alpha "rest_client_transport_create_calls_total" "Transports made, by whether one was kept." TRANSPORTS;
    Gauge Alpha "scheduler_cache_size" "Nodes, pods and assumed pods that are cached." CACHED;
    Histogram Alpha "scheduler_event_handling_duration_seconds" "Durations of handling events of objects." LATER in EXTENSION_POINT;
    Histogram Stable "scheduler_framework_extension_point_duration_seconds" "Durations of all plugins at an extension point." LATER in EXTENSION_POINT;
    Gauge Alpha "scheduler_goroutines" "Tasks under way." LATER;
    Gauge Alpha "scheduler_inflight_events" "Events that scheduling attempts have not yet been compared with." LATER;
    Gauge Stable "scheduler_pending_pods" "Pods that wait, by queue." QUEUES;
    Histogram Alpha "scheduler_permit_wait_duration_seconds" "Waits for permission." LATER in MILLISECONDS;
    Counter Alpha "scheduler_plugin_evaluation_total" "Runs of plugins, by extension point and profile." EVALUATIONS;
    Histogram Alpha "scheduler_plugin_execution_duration_seconds" "Durations of a plugin at an extension point." LATER in PLUGIN;
    Counter Alpha "scheduler_pod_scheduled_after_flush_total" "Pods bound after they had left the unschedulable set by time alone." ONE;
    Histogram Stable "scheduler_pod_scheduling_attempts" "Attempts until a pod was bound." ONE in ATTEMPTS;
    Histogram Beta "scheduler_pod_scheduling_sli_duration_seconds" "Time from a pod's first queueing to its binding, without the time it was gated." LATER in SLI;
    Counter Stable "scheduler_preemption_attempts_total" "Attempts to make room by preemption." ONE;
    Histogram Alpha "scheduler_preemption_goroutines_duration_seconds" "Durations of the evictions for a pod." LATER in SLI;
    Counter Alpha "scheduler_preemption_goroutines_execution_total" "Evictions for a pod, by their result." LATER;
    Histogram Stable "scheduler_preemption_victims" "Pods that made room at once." ONE in VICTIMS;
    Counter Stable "scheduler_queue_incoming_pods_total" "Pods that entered a queue, by event and queue." LATER;
    Histogram Alpha "scheduler_queueing_hint_execution_duration_seconds" "Durations of deciding whether an event helps a pod." LATER in PLUGIN;
    Counter Stable "scheduler_schedule_attempts_total" "Attempts by result: scheduled, unschedulable, error." LATER;
    Gauge Alpha "scheduler_scheduler_cache_size" "Former name of scheduler_cache_size." CACHED since "1.33.0";
    Histogram Alpha "scheduler_scheduling_algorithm_duration_seconds" "Durations of choosing a node." ALGORITHM in MILLISECONDS;
    Histogram Stable "scheduler_scheduling_attempt_duration_seconds" "Durations of attempts, with binding." LATER in MILLISECONDS;
    Gauge Alpha "scheduler_unschedulable_pods" "Unschedulable pods by the plugin that refused them." LATER;
    Gauge Alpha "version_info" "Versions of the component in its labels." LATER;
    Counter Alpha "workqueue_adds_total" "Additions to a work queue." WORK_QUEUES;
    Gauge Alpha "workqueue_depth" "Length of a work queue." WORK_QUEUES;
    Gauge Alpha "workqueue_longest_running_processor_seconds" "How long the longest work under way has run." WORK_QUEUES;
    Histogram Alpha "workqueue_queue_duration_seconds" "Waits in a work queue." WORK_QUEUES in WORK;
    Counter Alpha "workqueue_retries_total" "Work that was tried again." WORK_QUEUES;
    Gauge Alpha "workqueue_unfinished_work_seconds" "How long all work under way has run." WORK_QUEUES;
    Histogram Alpha "workqueue_work_duration_seconds" "Durations of work." WORK_QUEUES in WORK;
}
