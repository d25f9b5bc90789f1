//! Checks of flags that concern no configuration file, in the reference's order and words.

use super::flags::Flags;
use super::notation::quote;
use crate::logging::Format;

/// The minor version before this one, the only one that `--show-hidden-metrics-for-version` takes.
pub const PREVIOUS_MINOR: &str = "1.35";

/// Checks the values of the flags of serving, authentication, authorization and metrics.
pub fn check_flags(flags: &Flags) -> Result<(), String> {
    let mut faults = super::faults::Faults::default();
    let port = flags.serving.secure_port;
    if port > i64::from(u16::MAX) {
        faults.push(format!(
            "--secure-port {port} must be between 1 and 65535, inclusive. It cannot be turned off with 0"
        ));
    } else if port < 0 {
        faults.push(format!(
            "--secure-port {port} must be between 0 and 65535, inclusive. 0 for turning off secure port"
        ));
    }
    let authentication = &flags.authentication;
    for (name, lists) in [
        ("requestheader-username-headers", &authentication.requestheader_username_headers),
        ("requestheader-group-headers", &authentication.requestheader_group_headers),
        ("requestheader-extra-headers-prefix", &authentication.requestheader_extra_headers_prefix),
        ("requestheader-allowed-names", &authentication.requestheader_allowed_names),
    ] {
        if lists.iter().flat_map(|list| &list.0).any(|value| value.trim().is_empty()) {
            faults.push(format!("empty value in {}", quote(name)));
        }
    }
    let version = flags.metrics.show_hidden_metrics_for_version.as_deref().unwrap_or_default();
    if !version.is_empty() && version != PREVIOUS_MINOR {
        faults.push(format!(
            "metrics.showHiddenMetricsForVersion: Invalid value: {}: must be omitted or have the value \
             '{PREVIOUS_MINOR}'; only the previous minor version is allowed",
            quote(version)
        ));
    }
    for (key, _) in flags.metrics.allow_metric_labels.iter().flat_map(|pairs| &pairs.0) {
        let is_key = key.split_once(',').is_some_and(|(metric, label)| is_name(metric) && is_name(label));
        if !is_key {
            faults.push(format!(
                "metrics.allowMetricLabels: Invalid value: {}: must have the form METRIC,LABEL",
                quote(key)
            ));
        }
    }
    for name in flags.metrics.disabled_metrics.iter().flat_map(|list| &list.0) {
        if !is_name(name) {
            faults.push(format!(
                "metrics.disabledMetrics: Invalid value: {}: must be the full name of a metric",
                quote(name)
            ));
        }
    }
    faults.result()
}

/// Checks `--logging-format`. It is checked first, and its fault is printed and not logged.
pub fn check_logging_format(flags: &Flags) -> Result<(), String> {
    let name = flags.logs.logging_format.as_str();
    match Format::named(name) {
        Some(Format::Text | Format::Json) => Ok(()),
        None => Err(format!("format: Invalid value: {}: Unsupported log format", quote(name))),
    }
}

/// Checks the kind of the lock.
pub fn check_lock(election: &super::types::LeaderElection) -> Result<(), String> {
    match super::validate::LOCKS.contains(&election.resource_lock.as_str()) {
        true => Ok(()),
        false => Err(format!("couldn't create resource lock: Invalid lock-type {}", election.resource_lock)),
    }
}

/// Whether `text` is a name of metrics or labels.
fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(|first| first.is_ascii_alphabetic() || matches!(first, b'_' | b':'))
        && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':'))
}
