//! Flags of leader election, and deprecated flags.

use std::path::PathBuf;

use clap::{ArgAction, Args};
use orch_schema::SignedDuration;

use super::value::{boolean, float, integer32, path, span};

const ELECTION: &str = "Leader election (a flag that is given wins over --config)";
const DEPRECATED: &str = "Deprecated: use --config";

/// Flags of leader election. Absent ones leave the configuration as it is.
#[derive(Clone, Debug, Args)]
pub struct ElectionFlags {
    /// Schedule only while leading, so that several instances can run [default: true]
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = boolean, action = ArgAction::Set, help_heading = ELECTION)]
    pub leader_elect: Option<bool>,
    /// How long others wait after the leader's last renewal before they take over [default: 15s]
    #[arg(long, value_name = "TIME", value_parser = span, allow_hyphen_values = true, help_heading = ELECTION)]
    pub leader_elect_lease_duration: Option<SignedDuration>,
    /// How long the leader tries to renew before it stops leading; less than the lease duration [default: 10s]
    #[arg(long, value_name = "TIME", value_parser = span, allow_hyphen_values = true, help_heading = ELECTION)]
    pub leader_elect_renew_deadline: Option<SignedDuration>,
    /// Kind of the lock: leases, endpointsleases or configmapsleases. The two latter write both objects, and the lease
    /// decides [default: leases]
    #[arg(long, value_name = "KIND", allow_hyphen_values = true, help_heading = ELECTION)]
    pub leader_elect_resource_lock: Option<String>,
    /// Name of the lock [default: {brand}-scheduler]
    #[arg(long, value_name = "NAME", allow_hyphen_values = true, help_heading = ELECTION)]
    pub leader_elect_resource_name: Option<String>,
    /// Namespace of the lock [default: {namespace}]
    #[arg(long, value_name = "NAMESPACE", allow_hyphen_values = true, help_heading = ELECTION)]
    pub leader_elect_resource_namespace: Option<String>,
    /// Time between attempts to get or renew the lease [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = span, allow_hyphen_values = true, help_heading = ELECTION)]
    pub leader_elect_retry_period: Option<SignedDuration>,
}

/// Flags that fields of the configuration file replace. With `--config` they are ignored, but for the duration in the
/// unschedulable set, which no field replaces.
#[derive(Clone, Debug, Args)]
pub struct DeprecatedFlags {
    /// Client configuration file: the server and how to sign in. Ignored with --config
    #[arg(long = "{brand}config", value_name = "FILE", value_parser = path, allow_hyphen_values = true, help_heading = DEPRECATED)]
    pub client_config: Option<PathBuf>,
    /// Requests to the server a second, on average [default: 50]. Ignored with --config
    #[arg(long = "{brand}-api-qps", value_name = "NUMBER", value_parser = float, allow_hyphen_values = true,
        help_heading = DEPRECATED)]
    pub api_qps: Option<f32>,
    /// Requests to the server at once beyond that [default: 100]. Ignored with --config
    #[arg(long = "{brand}-api-burst", value_name = "NUMBER", value_parser = integer32, allow_hyphen_values = true,
        help_heading = DEPRECATED)]
    pub api_burst: Option<i32>,
    /// Media type of requests to the server [default: {protobuf}]. Ignored with --config
    #[arg(long = "{brand}-api-content-type", value_name = "TYPE", allow_hyphen_values = true,
        help_heading = DEPRECATED)]
    pub api_content_type: Option<String>,
    /// Serve profiles below /debug/pprof/ [default: true]. Ignored with --config
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = boolean, action = ArgAction::Set, help_heading = DEPRECATED)]
    pub profiling: Option<bool>,
    /// Profile waits for locks, too, where profiles are served [default: true]. Ignored with --config
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        value_parser = boolean, action = ArgAction::Set, help_heading = DEPRECATED)]
    pub contention_profiling: Option<bool>,
    /// Name of the lock: use --leader-elect-resource-name [default: {brand}-scheduler]. Ignored with --config
    #[arg(long, value_name = "NAME", allow_hyphen_values = true, help_heading = DEPRECATED)]
    pub lock_object_name: Option<String>,
    /// Namespace of the lock: use --leader-elect-resource-namespace [default: {namespace}]. Ignored with --config
    #[arg(long, value_name = "NAMESPACE", allow_hyphen_values = true, help_heading = DEPRECATED)]
    pub lock_object_namespace: Option<String>,
    /// How long a pod stays in the unschedulable set before it is tried again without a reason
    #[arg(long, value_name = "TIME", default_value = "5m0s", value_parser = span, allow_hyphen_values = true,
        help_heading = DEPRECATED)]
    pub pod_max_in_unschedulable_pods_duration: SignedDuration,
}
