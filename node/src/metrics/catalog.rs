//! The catalog: every metric of this program with its type, stability, labels, help and buckets.
//!
//! Owns what a page says of a metric. The code that counts knows a name alone; a tidy test holds the names of that code against this
//! table, and `tests/process/metrics` holds the table against the page of a node that does what each of them measures. Names, types,
//! labels and buckets are those of the reference, but for those that begin with `orch_` and the watch events that are rendered and
//! shared. The series of its language's runtime are left out, since numbers under their names would be false, but for the number of
//! its threads of execution, for which tasks stand. Those of the process (`process_*`) are the rim's, with their help
//! (`orch_serving::process`).
//!
//! Invariant: names are in order, each once. A help text is a sentence with its unit where the name has none.

use std::fmt;

use orch_proto::Brand;
use orch_proto::brand::{KUBERNETES, ORCH};

use super::buckets::{
    ADMISSION, ANSWERS, CONDITIONS, DEFAULT, ELSEWHERE, EXPRESSIONS, FLOW, HOOKS, LIVES, POLICIES, QUEUES,
    SEATS, WATCHERS,
};

/// Type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Counts up.
    Counter,
    /// A state, which goes up and down.
    Gauge,
    /// Counts samples by their size.
    Histogram,
}

/// The stability of a metric, in the reference's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stability {
    /// May change.
    Alpha,
    /// Changes with notice.
    Beta,
    /// Stays.
    Stable,
}

/// A metric.
#[derive(Debug)]
pub struct Metric {
    /// With a leading underscore the end of a name that begins with the brand's.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Its stability.
    pub stability: Stability,
    /// A sentence about what is measured.
    pub help: &'static str,
    /// Every label of every series, in order of names.
    pub labels: &'static [&'static str],
    /// Upper bounds of a histogram, in the unit of the name; none where the API writes its text itself.
    pub buckets: &'static [f64],
}

impl Kind {
    /// The word on a page.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

impl fmt::Display for Stability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stability::Alpha => "ALPHA",
            Stability::Beta => "BETA",
            Stability::Stable => "STABLE",
        })
    }
}

impl Metric {
    /// Its name under `brand`.
    pub fn name_under(&self, brand: &Brand) -> String {
        let begin = if self.name.starts_with('_') { brand.name } else { "" };
        format!("{begin}{}", self.name)
    }

    /// Its name under each brand, of which there is one for a name without the brand.
    pub(super) fn names(&self) -> Vec<String> {
        let mut names = [&ORCH, &KUBERNETES].map(|brand| self.name_under(brand)).to_vec();
        names.dedup();
        names
    }

    /// The text of its HELP line.
    pub fn description(&self) -> String {
        format!("[{}] {}", self.stability, self.help)
    }
}

/// The metric called `name` on a page.
pub(super) fn metric(name: &str) -> Option<&'static Metric> {
    let is_branded =
        |end: &str| [&ORCH, &KUBERNETES].iter().any(|brand| name.strip_prefix(brand.name) == Some(end));
    // few: the table, at a page of metrics.
    CATALOG.iter().find(|metric| match metric.name.starts_with('_') {
        true => is_branded(metric.name),
        false => metric.name == name,
    })
}

type Labels = &'static [&'static str];

const NONE: Labels = &[];
const ADMITTED: Labels = &["operation", "rejected", "type"];
const API_SERVICE: Labels = &["name"];
const API_SERVICE_REASON: Labels = &["name", "reason"];
const BUILD: Labels = &[
    "build_date",
    "compiler",
    "git_commit",
    "git_tree_state",
    "git_version",
    "go_version",
    "major",
    "minor",
    "platform",
];
const CHECK: Labels = &["name", "type"];
const CHECK_STATUS: Labels = &["name", "status", "type"];
const PART: Labels = &["part"];
const PHASE: Labels = &["phase", "priority_level"];
const FEATURE: Labels = &["name", "stage"];
const RESOURCE: Labels = &["group", "resource"];
const REQUEST: Labels =
    &["component", "dry_run", "group", "resource", "scope", "subresource", "verb", "version"];
const REQUEST_CODE: Labels =
    &["code", "component", "dry_run", "group", "resource", "scope", "subresource", "verb", "version"];
const SENT_CODE: Labels =
    &["code", "component", "group", "resource", "scope", "subresource", "verb", "version"];
const DEPRECATED: Labels = &["group", "removed_release", "resource", "subresource", "version"];
const GROUP_RESOURCE: Labels = &["resource"];
/// A request of which it does not count whether it is a dry run.
const SENT: Labels = &["component", "group", "resource", "scope", "subresource", "verb", "version"];
const REQUEST_KIND: Labels = &["request_kind"];
const RESULT: Labels = &["result"];
const LEVEL: Labels = &["priority_level"];
const SCHEMA: Labels = &["flow_schema", "priority_level"];
const SCHEMA_EXECUTE: Labels = &["execute", "flow_schema", "priority_level"];
const SCHEMA_REASON: Labels = &["flow_schema", "priority_level", "reason"];
const SCHEMA_TYPE: Labels = &["flow_schema", "priority_level", "type"];
const EVALUATED: Labels =
    &["decision", "mode", "policy_level", "policy_version", "request_operation", "resource", "subresource"];
const EXEMPT: Labels = &["request_operation", "resource", "subresource"];
const CONVERSION: Labels = &["failure_type", "result"];
const CONVERTED: Labels = &["crd_name", "from_version", "succeeded", "to_version"];
const AUDIT_LEVEL: Labels = &["level"];
const AUDIT_SINK: Labels = &["plugin"];
const HOOK: Labels = &["name", "type"];
const HOOK_CALL: Labels = &["code", "name", "operation", "rejected", "type"];
const HOOK_CONDITION: Labels = &["kind", "name", "operation", "type"];
const HOOK_DURATION: Labels = &["name", "operation", "rejected", "type"];
const HOOK_PASSED: Labels = &["name", "reason", "type"];
const HOOK_REJECTION: Labels = &["error_type", "name", "operation", "rejection_code", "type"];
const CLIENT_CODE: Labels = &["code", "host", "method"];
const CLIENT_VERB: Labels = &["host", "verb"];
const MEMBER: Labels = &["member"];
const PLACE: Labels = &["place"];
const POINT: Labels = &["point"];
const QUEUE: Labels = &["name"];
const REASON: Labels = &["reason"];
const STORAGE: Labels = &["storage_cluster_id"];
const TARGET: Labels = &["target"];
const USE: Labels = &["use"];
const USER: Labels = &["username"];
const MUTATED: Labels = &["error_type", "policy", "policy_binding"];
const VALIDATED: Labels = &["enforcement_action", "error_type", "policy", "policy_binding"];
const WAY: Labels = &["way"];

macro_rules! catalog {
    ($($kind:ident $stability:ident $name:literal $labels:ident $help:literal $(in $buckets:ident)?;)*) => {
        /// Every metric, in order of names.
        pub const CATALOG: &[Metric] = &[$(Metric {
            name: $name,
            kind: Kind::$kind,
            stability: Stability::$stability,
            help: $help,
            labels: $labels,
            buckets: catalog!(@buckets $($buckets)?),
        },)*];
    };
    (@buckets) => { DEFAULT };
    (@buckets $buckets:ident) => { $buckets };
}

catalog! {
    Gauge Beta "_build_info" BUILD "Version of the program in its labels; always 1.";
    Gauge Beta "_feature_enabled" FEATURE "Whether a feature gate is on.";
    Gauge Stable "_healthcheck" CHECK "Whether a check of health passed when it was last carried out.";
    Counter Stable "_healthchecks_total" CHECK_STATUS "Checks of health by their result.";
    Gauge Alpha "aggregator_unavailable_apiservice" API_SERVICE "Whether the server of an APIService is not available.";
    Counter Alpha "aggregator_unavailable_apiservice_total" API_SERVICE_REASON "Times that the server of an APIService became unavailable, by reason.";
    Histogram Stable "apiserver_admission_controller_admission_duration_seconds" HOOK_DURATION "Time that an admission plugin takes for a write." in ADMISSION;
    Counter Alpha "apiserver_admission_match_condition_evaluation_errors_total" HOOK_CONDITION "Match conditions of webhooks and policies that ended in an error.";
    Histogram Alpha "apiserver_admission_match_condition_evaluation_seconds" HOOK_CONDITION "Time of evaluating the match conditions of a webhook or policy that do not all hold." in CONDITIONS;
    Counter Alpha "apiserver_admission_match_condition_exclusions_total" HOOK_CONDITION "Writes that match conditions kept from a webhook.";
    Histogram Stable "apiserver_admission_step_admission_duration_seconds" ADMITTED "Time that all admission plugins take to complete or to judge a write." in ADMISSION;
    Histogram Stable "apiserver_admission_webhook_admission_duration_seconds" HOOK_DURATION "Time of calls of admission webhooks, the handling of their answers included." in HOOKS;
    Counter Alpha "apiserver_admission_webhook_fail_open_count" HOOK "Failed calls of webhooks that the write went on without.";
    Counter Alpha "apiserver_admission_webhook_rejection_count" HOOK_REJECTION "Writes refused by a webhook or for its failure.";
    Counter Alpha "apiserver_admission_webhook_request_total" HOOK_CALL "Calls of admission webhooks by the code of their end.";
    Counter Alpha "apiserver_audit_error_total" AUDIT_SINK "Audit events that a sink has not stored.";
    Counter Alpha "apiserver_audit_event_total" NONE "Audit events handed to the sinks.";
    Counter Alpha "apiserver_audit_level_total" AUDIT_LEVEL "Requests by the level that the audit policy gave them.";
    Counter Alpha "apiserver_audit_requests_rejected_total" NONE "Requests refused because their arrival could not be audited.";
    Histogram Beta "apiserver_cel_compilation_duration_seconds" NONE "Time to compile the expressions of a policy that a request meets first." in EXPRESSIONS;
    Histogram Beta "apiserver_cel_evaluation_duration_seconds" NONE "Time to evaluate a policy, or all rules that an object meets." in EXPRESSIONS;
    Histogram Alpha "apiserver_client_certificate_expiration_seconds" NONE "Remaining lives of certificates that clients presented." in LIVES;
    Histogram Alpha "apiserver_conversion_webhook_duration_seconds" CONVERSION "Times of questions to conversion webhooks." in ANSWERS;
    Counter Alpha "apiserver_conversion_webhook_request_total" CONVERSION "Questions to conversion webhooks by their outcome.";
    Histogram Alpha "apiserver_crd_conversion_webhook_duration_seconds" CONVERTED "Times of questions to the conversion webhook of a definition." in ANSWERS;
    Gauge Stable "apiserver_current_inflight_requests" REQUEST_KIND "Requests under way that read, and that write.";
    Gauge Alpha "apiserver_current_inqueue_requests" REQUEST_KIND "Requests that wait in queues of flow control.";
    Gauge Beta "apiserver_flowcontrol_current_executing_requests" SCHEMA "Requests that have their seats.";
    Gauge Beta "apiserver_flowcontrol_current_executing_seats" SCHEMA "Seats that are taken.";
    Gauge Beta "apiserver_flowcontrol_current_inqueue_requests" SCHEMA "Requests that wait for seats.";
    Gauge Alpha "apiserver_flowcontrol_current_inqueue_seats" SCHEMA "Seats that are waited for.";
    Gauge Alpha "apiserver_flowcontrol_current_limit_seats" LEVEL "Seats of the level, with those that it has borrowed or lent.";
    Gauge Alpha "apiserver_flowcontrol_current_r" LEVEL "Progress of the level's virtual time, in seconds of work.";
    Histogram Alpha "apiserver_flowcontrol_demand_seats" LEVEL "Seats demanded as shares of the nominal ones, weighed by the nanoseconds they held." in ELSEWHERE;
    Gauge Alpha "apiserver_flowcontrol_demand_seats_average" LEVEL "Mean of the seats demanded in the last period.";
    Gauge Alpha "apiserver_flowcontrol_demand_seats_high_watermark" LEVEL "Most seats demanded at once in the last period.";
    Gauge Alpha "apiserver_flowcontrol_demand_seats_smoothed" LEVEL "Seats demanded, smoothed over periods.";
    Gauge Alpha "apiserver_flowcontrol_demand_seats_stdev" LEVEL "Standard deviation of the seats demanded in the last period.";
    Counter Beta "apiserver_flowcontrol_dispatched_requests_total" SCHEMA "Requests that got their seats.";
    Gauge Alpha "apiserver_flowcontrol_lower_limit_seats" LEVEL "Fewest seats of the level, however many others borrow.";
    Gauge Beta "apiserver_flowcontrol_nominal_limit_seats" LEVEL "Seats of the level by its configuration.";
    Histogram Alpha "apiserver_flowcontrol_priority_level_request_utilization" PHASE "Requests as shares of seats or of places in queues, weighed by nanoseconds." in ELSEWHERE;
    Histogram Alpha "apiserver_flowcontrol_priority_level_seat_utilization" PHASE "Seats in use as shares of the level's, weighed by nanoseconds." in ELSEWHERE;
    Counter Beta "apiserver_flowcontrol_rejected_requests_total" SCHEMA_REASON "Requests refused by flow control.";
    Gauge Alpha "apiserver_flowcontrol_request_concurrency_in_use" LEVEL "Seats of the level that are taken.";
    Gauge Alpha "apiserver_flowcontrol_request_concurrency_limit" LEVEL "Seats of the level by its configuration, under an older name.";
    Histogram Alpha "apiserver_flowcontrol_request_execution_seconds" SCHEMA_TYPE "Time that requests had their seats." in FLOW;
    Histogram Alpha "apiserver_flowcontrol_request_queue_length_after_enqueue" SCHEMA "Length of the queue that a request joined, with it." in QUEUES;
    Histogram Beta "apiserver_flowcontrol_request_wait_duration_seconds" SCHEMA_EXECUTE "Time that requests waited for seats, or for their refusal." in FLOW;
    Gauge Alpha "apiserver_flowcontrol_seat_fair_frac" NONE "Share of the demand that every level gets where seats are short.";
    Gauge Alpha "apiserver_flowcontrol_target_seats" LEVEL "Seats that the level is to have by its demand.";
    Gauge Alpha "apiserver_flowcontrol_upper_limit_seats" LEVEL "Most seats of the level, with all that it may borrow.";
    Histogram Alpha "apiserver_flowcontrol_watch_count_samples" SCHEMA "Watches that the event of a write goes to." in WATCHERS;
    Histogram Alpha "apiserver_flowcontrol_work_estimated_seats" SCHEMA "Seats that requests took." in SEATS;
    Gauge Stable "apiserver_longrunning_requests" SENT "Watches, logs and connections under way.";
    Histogram Alpha "apiserver_mutating_admission_policy_check_duration_seconds" MUTATED "Time to evaluate mutations of policies." in POLICIES;
    Counter Alpha "apiserver_mutating_admission_policy_check_total" MUTATED "Mutations of policies by their error.";
    Histogram Stable "apiserver_request_duration_seconds" REQUEST "Time from a request's arrival to the head of its response." in ELSEWHERE;
    Histogram Alpha "apiserver_request_sli_duration_seconds" SENT "The same without the waits for webhooks and for seats." in ELSEWHERE;
    Counter Alpha "apiserver_request_terminations_total" SENT_CODE "Requests that the server ended early to protect itself, by status code.";
    Counter Stable "apiserver_request_total" REQUEST_CODE "Requests by resource, verb and status code.";
    Gauge Stable "apiserver_requested_deprecated_apis" DEPRECATED "Versions that are deprecated and were asked for; always 1.";
    Gauge Alpha "apiserver_resource_objects" RESOURCE "Stored objects.";
    Gauge Alpha "apiserver_resource_size_estimate_bytes" RESOURCE "Bytes of the stored objects as JSON.";
    Histogram Stable "apiserver_response_sizes" SENT "Bytes of the responses to reads." in ELSEWHERE;
    Gauge Stable "apiserver_storage_objects" GROUP_RESOURCE "Stored objects, with the group in the name of the resource.";
    Gauge Stable "apiserver_storage_size_bytes" STORAGE "Bytes that this node's store takes on its disk.";
    Counter Alpha "apiserver_tls_handshake_errors_total" NONE "Connections that ended in their TLS handshake.";
    Histogram Beta "apiserver_validating_admission_policy_check_duration_seconds" VALIDATED "Time to evaluate policies of which a validation does not hold." in POLICIES;
    Counter Beta "apiserver_validating_admission_policy_check_total" VALIDATED "Validations that do not hold, by what is done about them.";
    Counter Alpha "apiserver_watch_events_rendered_total" NONE "Watch events that were encoded.";
    Counter Alpha "apiserver_watch_events_shared_total" NONE "Watch events that another watch had encoded.";
    Counter Alpha "authenticated_user_requests" USER "Authenticated requests by user, the known ones by name.";
    Counter Alpha "authentication_attempts" RESULT "Requests by the result of authentication.";
    Counter Alpha "authorization_attempts_total" RESULT "Authorizations by their result.";
    Gauge Alpha "go_goroutines" NONE "Tasks of the process, under the brand of the reference alone.";
    Gauge Alpha "orch_admission_webhook_dead" HOOK "Whether a webhook did not answer the last calls of this node.";
    Counter Alpha "orch_admission_webhook_passed_total" HOOK_PASSED "Writes that passed beside a webhook, by the reason.";
    Counter Alpha "orch_agreement_divergences_total" NONE "Times that this member found members whose state differs.";
    Gauge Alpha "orch_agreement_quarantined" NONE "Whether this member serves no client, because its state differs from the majority's.";
    Gauge Alpha "orch_backup_due_timestamp_seconds" NONE "Time at which this member's next backup is due, in the past where it is overdue, since 1970.";
    Gauge Alpha "orch_backup_duration_seconds" TARGET "Time that this member's newest backup took, or its copy to the target.";
    Counter Alpha "orch_backup_failures_total" TARGET "Backups that were not saved, or not copied to the target.";
    Gauge Alpha "orch_backup_last_success_timestamp_seconds" TARGET "Time of this member's newest backup in the target that passed its test, since 1970.";
    Gauge Alpha "orch_backup_size_bytes" TARGET "Size of this member's newest backup in the target.";
    Gauge Alpha "orch_certificate_expiration_timestamp_seconds" USE "End of the certificate's validity, since 1970; NaN once it is taken away.";
    Gauge Alpha "orch_certificate_not_before_timestamp_seconds" USE "Start of the certificate's validity, since 1970; NaN once it is taken away.";
    Gauge Alpha "orch_consensus_has_leader" NONE "Whether this member knows a leader that answers, with a majority of the voters.";
    Gauge Alpha "orch_consensus_index" POINT "Index of the last entry of the log that this member appended, knows committed, applied.";
    Gauge Alpha "orch_consensus_is_leader" NONE "Whether this member leads.";
    Counter Alpha "orch_consensus_leader_changes_total" NONE "Changes of the leader that this member has seen.";
    Gauge Alpha "orch_consensus_member_clock_skew_seconds" MEMBER "Time by which the clock of the member is ahead of this one's, as far as an answer tells.";
    Gauge Alpha "orch_consensus_member_heard_seconds" MEMBER "Time since a member that answers heard this one.";
    Gauge Alpha "orch_consensus_member_lag_entries" MEMBER "Committed entries that the member had not applied when it was heard.";
    Gauge Alpha "orch_consensus_member_up" MEMBER "Whether the member answered the last question of this one.";
    Gauge Alpha "orch_consensus_member_voter" MEMBER "Whether the member has a vote.";
    Gauge Alpha "orch_consensus_term" NONE "Newest term that this member knows.";
    Gauge Alpha "orch_disk_growth_refused" NONE "Whether writes that make the state larger are refused for want of space.";
    Gauge Alpha "orch_disk_pressure" NONE "Want of space on this member's disk: 0 none, 1 tight, 2 short.";
    Gauge Alpha "orch_disk_reserve_bytes" NONE "Room below which growth is refused.";
    Gauge Alpha "orch_disk_room_bytes" NONE "Bytes that the store may still take.";
    Gauge Alpha "orch_garbage_undecided_dependents" PLACE "Dependents that stay because an owner is absent whose end no leader saw.";
    Gauge Alpha "orch_history_bytes" PLACE "Bytes of the history of changes, in memory and on the disk.";
    Gauge Alpha "orch_history_revisions" NONE "Revisions that the history in memory reaches back.";
    Counter Alpha "orch_lists_total" WAY "Lists by the way in which they found their objects: by a path, by an index, or by a scan of all within reach.";
    Gauge Alpha "orch_log_bytes" NONE "Bytes of the log, estimated for entries from before the start.";
    Histogram Alpha "orch_log_sync_duration_seconds" NONE "Time from the append of entries to the log until they are durable." in ELSEWHERE;
    Gauge Alpha "orch_memory_bytes" PART "Bytes of memory that count against a bound, by part: history, bodies and answers of requests, objects, watches.";
    Histogram Alpha "orch_proposal_duration_seconds" NONE "Time from a proposal of this member until it is applied here." in ELSEWHERE;
    Counter Alpha "orch_proposals_failed_total" REASON "Proposals of this member that failed, or that their client left, by reason.";
    Counter Alpha "orch_proposals_forwarded_total" NONE "Proposals that this member sent to the leader.";
    Gauge Alpha "orch_proposals_pending" NONE "Proposals of this member without an outcome.";
    Histogram Alpha "orch_read_barrier_duration_seconds" NONE "Time of linearizable reads that asked the leader or a quorum." in ELSEWHERE;
    Counter Alpha "orch_read_barriers_failed_total" NONE "Linearizable reads that failed, or that their client left.";
    Gauge Alpha "orch_service_account_key_file_modified_timestamp_seconds" USE "Modification of the oldest file of these keys, since 1970.";
    Counter Alpha "orch_slow_disk_handovers_total" NONE "Leads that this member gave up because of its disk.";
    Counter Alpha "orch_snapshots_installed_total" NONE "Times that this member took its whole state from the leader.";
    Gauge Alpha "orch_state_bytes" NONE "Size of all objects, as it counts against the quota.";
    Gauge Alpha "orch_state_quota_bytes" NONE "The quota of the state; absent where there is none.";
    Gauge Alpha "orch_tasks" NONE "Tasks of the runtime that answers requests.";
    Counter Alpha "pod_security_evaluations_total" EVALUATED "Decisions of pod security by policy and mode.";
    Counter Alpha "pod_security_exemptions_total" EXEMPT "Requests that pod security was not to look at.";
    Histogram Alpha "rest_client_request_duration_seconds" CLIENT_VERB "Time of the requests of the loops." in ELSEWHERE;
    Counter Alpha "rest_client_requests_total" CLIENT_CODE "Requests of the loops by method and status code.";
    Counter Alpha "serviceaccount_invalid_legacy_auto_token_uses_total" NONE "Uses of generated tokens in secrets that are marked as invalid.";
    Counter Alpha "serviceaccount_legacy_auto_token_uses_total" NONE "Uses of generated tokens in secrets.";
    Counter Alpha "serviceaccount_legacy_manual_token_uses_total" NONE "Uses of tokens in secrets that were made by hand.";
    Counter Alpha "serviceaccount_legacy_tokens_total" NONE "Uses of tokens in secrets.";
    Counter Alpha "serviceaccount_stale_tokens_total" NONE "Uses of mounted tokens that should have been read anew.";
    Counter Alpha "serviceaccount_valid_tokens_total" NONE "Uses of mounted tokens in their time.";
    Counter Alpha "workqueue_adds_total" QUEUE "Keys that became due in the work queue of a loop.";
    Gauge Alpha "workqueue_depth" QUEUE "Keys that are due and not worked on yet.";
    Gauge Alpha "workqueue_longest_running_processor_seconds" QUEUE "How long the longest work under way has run.";
    Histogram Alpha "workqueue_queue_duration_seconds" QUEUE "Time that keys were due before their work began." in ELSEWHERE;
    Counter Alpha "workqueue_retries_total" QUEUE "Work that is tried again.";
    Gauge Alpha "workqueue_unfinished_work_seconds" QUEUE "How long all work under way has run.";
    Histogram Alpha "workqueue_work_duration_seconds" QUEUE "Durations of work." in ELSEWHERE;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_and_units_and_helps_fit() {
        let names: Vec<&str> = CATALOG.iter().map(|metric| metric.name).collect();
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "each once, in order: {names:?}");
        for metric in CATALOG {
            let Metric { name, kind, help, labels, buckets, .. } = metric;
            assert!(help.ends_with('.') && help.starts_with(char::is_uppercase), "{name}: {help}");
            assert!(!help.contains('\n') && help.len() <= 120, "{name}: {help}");
            assert!(labels.windows(2).all(|pair| pair[0] < pair[1]), "{name}: {labels:?}");
            assert!(buckets.windows(2).all(|pair| pair[0] < pair[1]), "{name}: {buckets:?}");
            assert!(!labels.contains(&"le") && !labels.contains(&"quantile"), "{name}");
            if name.ends_with("_total") {
                assert_eq!(*kind, Kind::Counter, "{name}");
            }
        }
    }

    #[test]
    fn a_metric_is_found_under_each_brand() {
        for brand in [&ORCH, &KUBERNETES] {
            let found = metric(&format!("{}_feature_enabled", brand.name)).unwrap();
            assert_eq!(found.description(), "[BETA] Whether a feature gate is on.");
            assert!(found.names().contains(&found.name_under(brand)));
        }
        let backup = metric("orch_backup_size_bytes").unwrap();
        assert_eq!(backup.names(), [backup.name]);
        assert!(metric("_build_info").is_none() && metric("x_build_info").is_none());
    }
}
