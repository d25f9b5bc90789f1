//! The file of `--tracing-config-file`: a document of kind TracingConfiguration.
//!
//! Owns its form and its checks, in the reference's words. Unlike the reference it takes no socket of this machine.

use std::path::Path;

use orch_spans::Sampling;
use serde::Deserialize;

use crate::access::{ConfigFileError, Faults, parse, read_text};

/// Versions of the file.
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];

/// The collector where the file names none: the port of OTLP over gRPC.
const ENDPOINT: &str = "localhost:4317";

/// A sampling rate that records every trace.
const ALL: i32 = 1_000_000;

/// Which traces are recorded, and where they are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracesPlan {
    /// `HOST:PORT` of the collector, which is asked over plain gRPC.
    pub endpoint: String,
    /// The traces that begin here and are recorded.
    pub sampling: Sampling,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct File {
    #[expect(dead_code, reason = "checked by the reader")]
    api_version: String,
    #[expect(dead_code, reason = "checked by the reader")]
    kind: String,
    endpoint: Option<String>,
    sampling_rate_per_million: Option<i32>,
}

/// Reads the file at `path`.
///
/// # Errors
/// It cannot be read, is another document, or has wrong fields.
pub fn read(path: &Path) -> Result<TracesPlan, ConfigFileError> {
    let text = read_text(path)?;
    let file: File = parse(&text, "TracingConfiguration", &VERSIONS)
        .map_err(|reason| ConfigFileError::Form { path: path.to_owned(), reason })?;
    file.checked().map_err(|faults| ConfigFileError::Fields { path: path.to_owned(), faults })
}

impl File {
    fn checked(self) -> Result<TracesPlan, Faults> {
        let mut faults = Faults::default();
        let rate = self.sampling_rate_per_million.unwrap_or(0);
        if rate < 0 {
            faults.invalid("samplingRatePerMillion", &rate.to_string(), "sampling rate must be positive");
        }
        if rate > ALL {
            let detail = "sampling rate per million must be less than or equal to one million";
            faults.invalid("samplingRatePerMillion", &rate.to_string(), detail);
        }
        let given = self.endpoint.unwrap_or_else(|| ENDPOINT.to_owned());
        let endpoint = given.strip_prefix("dns:///").unwrap_or(&given);
        if let Some((scheme, _)) = endpoint.split_once("//") {
            let scheme = scheme.trim_end_matches(':');
            faults.invalid(
                "endpoint",
                &given,
                &format!("unsupported scheme: {scheme}.  Options are none, or dns"),
            );
        } else if !is_host_and_port(endpoint) {
            faults.invalid("endpoint", &given, "must be HOST:PORT");
        }
        let sampling = Sampling::per_million(u32::try_from(rate).unwrap_or(0));
        let endpoint = endpoint.to_owned();
        faults.or(TracesPlan { endpoint, sampling })
    }
}

/// Whether `text` is a host, or an address, and a port.
fn is_host_and_port(text: &str) -> bool {
    let authority: Option<http::uri::Authority> = text.parse().ok();
    authority.is_some_and(|authority| {
        let has_port = authority.port_u16().is_some_and(|port| port > 0);
        has_port && !authority.host().is_empty() && !text.contains('@')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The plan, or the error's words, of a file with `fields`.
    fn checked(fields: &str) -> Result<TracesPlan, String> {
        let text = format!("apiVersion: apiserver.config.orch.io/v1\nkind: TracingConfiguration\n{fields}\n");
        let file: File = parse(&text, "TracingConfiguration", &VERSIONS)?;
        file.checked().map_err(|faults| faults.to_string())
    }

    #[test]
    fn a_file_without_fields_names_the_collector_of_this_machine_and_begins_no_trace() {
        let plan = TracesPlan { endpoint: "localhost:4317".to_owned(), sampling: Sampling::per_million(0) };
        assert_eq!(checked(""), Ok(plan));
    }

    #[test]
    fn fields_are_taken_and_wrong_ones_told_all_at_once() {
        let plan = checked("endpoint: dns:///collector:4317\nsamplingRatePerMillion: 1000000").unwrap();
        assert_eq!(plan.endpoint, "collector:4317");
        assert_eq!(plan.sampling, Sampling::per_million(1_000_000));
        assert_eq!(checked("endpoint: '[::1]:4317'").unwrap().endpoint, "[::1]:4317");
        for (fields, expected) in [
            ("samplingRatePerMillion: -1", "sampling rate must be positive"),
            ("samplingRatePerMillion: 1000001", "less than or equal to one million"),
            ("endpoint: https://collector:4317", "unsupported scheme: https."),
            ("endpoint: unix:///run/collector", "unsupported scheme: unix."),
            ("endpoint: collector", "must be HOST:PORT"),
            ("endpoint: collector:0", "must be HOST:PORT"),
            ("endpoint: ':4317'", "must be HOST:PORT"),
            ("rate: 1", "unknown field"),
        ] {
            let error = checked(fields).unwrap_err();
            assert!(error.contains(expected), "{fields}: {error}");
        }
        let both = checked("endpoint: collector\nsamplingRatePerMillion: -1").unwrap_err();
        assert!(both.starts_with('[') && both.contains("endpoint: Invalid value"), "{both}");
    }
}
