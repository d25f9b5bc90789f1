//! Flags of the configuration's source, of features, of metrics and of log lines.

use std::path::PathBuf;

use clap::{ArgAction, Args};
use orch_schema::SignedDuration;

use super::value::{List, Pairs, VmodulePattern, list, pairs, path, span, unsigned, vmodule};
use crate::config::notation::{Reason, parse_bool};

const CONFIGURATION: &str = "Configuration";
const FEATURES: &str = "Features";
const METRICS: &str = "Metrics";
const LOGS: &str = "Logs";

/// Where the configuration comes from.
#[derive(Clone, Debug, Args)]
pub struct ConfigurationFlags {
    /// Configuration file: profiles, plugins, extenders, and what deprecated flags set
    #[arg(long, value_name = "FILE", value_parser = path, allow_hyphen_values = true, help_heading = CONFIGURATION)]
    pub config: Option<PathBuf>,
    /// Address of the API server; wins over the client configuration file
    #[arg(long, value_name = "URL", allow_hyphen_values = true, help_heading = CONFIGURATION)]
    pub master: Option<String>,
    /// Write the configuration in force to this file, and exit
    #[arg(long, value_name = "FILE", value_parser = path, allow_hyphen_values = true, help_heading = CONFIGURATION)]
    pub write_config_to: Option<PathBuf>,
    /// Names on the wire and of flags: orch or kubernetes; the same as the cluster's
    #[arg(long, value_name = "BRAND", default_value = "orch", help_heading = CONFIGURATION)]
    pub brand: String,
    /// Accepted, without effect: a cloud's registry configuration, which only matters where images are pulled
    #[arg(long, value_name = "FILE", value_parser = path, allow_hyphen_values = true, help_heading = CONFIGURATION)]
    pub cloud_container_registry_config: Option<PathBuf>,
    /// Print the version and exit; --version=raw prints all of it
    #[arg(long, value_name = "true|raw", num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", value_parser = version, action = ArgAction::Set, help_heading = CONFIGURATION)]
    pub version: VersionRequest,
    /// Print this help and exit
    #[arg(long, short, num_args = 0..=1, require_equals = true, default_missing_value = "true",
        default_value = "false", hide_default_value = true, value_name = "BOOL", value_parser = parse_bool,
        action = ArgAction::Set, help_heading = CONFIGURATION)]
    pub help: bool,
}

/// Whether the version is to be printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionRequest {
    /// No.
    No,
    /// In a line.
    Short,
    /// With all its parts.
    Raw,
}

fn version(text: &str) -> Result<VersionRequest, Reason> {
    match text {
        "raw" => Ok(VersionRequest::Raw),
        _ => parse_bool(text).map(|is_on| if is_on { VersionRequest::Short } else { VersionRequest::No }),
    }
}

/// Feature gates.
#[derive(Clone, Debug, Args)]
pub struct FeatureFlags {
    /// Feature gates: NAME=true or NAME=false, comma-separated. AllAlpha and AllBeta stand for all of a stage
    #[arg(long, value_name = "NAME=BOOL,...", action = ArgAction::Append, allow_hyphen_values = true,
        help_heading = FEATURES)]
    pub feature_gates: Vec<String>,
}

/// Flags of metrics.
#[derive(Clone, Debug, Args)]
pub struct MetricsFlags {
    /// Values that a label may have, METRIC,LABEL=VALUE,VALUE; others are counted as "unexpected". Repeatable. Example:
    /// scheduler_pending_pods,queue=active
    #[arg(long, value_name = "METRIC,LABEL=VALUES", value_parser = pairs, action = ArgAction::Append,
        allow_hyphen_values = true, help_heading = METRICS)]
    pub allow_metric_labels: Vec<Pairs>,
    /// Metrics to leave out, by their full names; wins over --show-hidden-metrics-for-version
    #[arg(long, value_name = "NAMES", value_parser = list, action = ArgAction::Append, allow_hyphen_values = true,
        help_heading = METRICS)]
    pub disabled_metrics: Vec<List>,
    /// Show metrics that are hidden since they were deprecated; only the previous minor version can be given
    #[arg(long, value_name = "MAJOR.MINOR", allow_hyphen_values = true, help_heading = METRICS)]
    pub show_hidden_metrics_for_version: Option<String>,
}

/// Flags of log lines.
#[derive(Clone, Debug, Args)]
pub struct LogFlags {
    /// Form of log lines: `text` or `json`
    #[arg(long, value_name = "FORMAT", default_value = "text", allow_hyphen_values = true, help_heading = LOGS)]
    pub logging_format: String,
    /// Longest time that a line waits before it is written; warnings and errors never wait
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = span, allow_hyphen_values = true,
        help_heading = LOGS)]
    pub log_flush_frequency: SignedDuration,
    /// Verbosity: 4 adds a line for each decision of the scheduler and each retry of a request
    #[arg(short = 'v', long = "v", value_name = "LEVEL", default_value = "0", value_parser = unsigned,
        allow_hyphen_values = true, help_heading = LOGS)]
    pub verbosity: u32,
    /// Verbosity of single modules: PATTERN=LEVEL, comma-separated, * for any part. Example: queue=6,serve*=4
    #[arg(long, value_name = "PATTERN=N,...", value_parser = VmoduleParser, default_value = "",
        hide_default_value = true, allow_hyphen_values = true, help_heading = LOGS)]
    pub vmodule: Vmodule,
}

/// The value of `--vmodule`.
pub(super) type Vmodule = std::sync::Arc<[VmodulePattern]>;

/// Parses `--vmodule`; a type of its own, because a list as a value would be taken for a repeated flag.
#[derive(Clone, Debug)]
struct VmoduleParser;

impl clap::builder::TypedValueParser for VmoduleParser {
    type Value = Vmodule;

    fn parse_ref(
        &self,
        command: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<Vmodule, clap::Error> {
        let parser = |text: &str| vmodule(text).map(Vmodule::from);
        clap::builder::TypedValueParser::parse_ref(&parser, command, arg, value)
    }
}
