//! The benchmark's command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use super::line::Protocol;
use super::scale;
use super::server::ServerOptions;

/// Drives a server of this API over TLS and prints rates, latencies and the server's cost, beside the reference's.
#[derive(Debug, Clone, Parser)]
#[command(name = "bench", max_term_width = 110)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(subcommand_value_name = "SCALE WORK", subcommand_help_heading = "Scale works")]
pub struct Options {
    /// The works to measure, one after the other.
    #[arg(value_enum, required = true)]
    pub works: Vec<WorkName>,
    /// A work of thousands of watches instead, with options of its own.
    #[command(subcommand)]
    pub scale: Option<scale::Work>,
    #[command(flatten)]
    pub(super) server: ServerOptions,
    /// Concurrent clients; by default 64 for create, 32 for get, patch and mixed, 16 writers for watch, 4 for lists.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub clients: Option<u32>,
    /// Payload of one object, in bytes.
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub size: u32,
    /// Objects in the lists.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub objects: u32,
    /// Watchers of the watch work, and of flood-stalled.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub watchers: u32,
    /// Nodes that the schedule work makes for pods to run on, 110 places on each.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub fleet: u32,
    /// Pods that wait for a node when the scheduler of the schedule work starts.
    #[arg(long, default_value_t = 5000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub pods: u32,
    /// Clients of the user who floods, in the flood works.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub flood_clients: u32,
    /// Token of the user who floods; it must not be in the group system:masters.
    #[arg(long, value_name = "TOKEN", default_value = crate::cluster::ALICE_TOKEN, hide_default_value = true)]
    pub flood_token: String,
    /// Token of the user whose gets are timed meanwhile.
    #[arg(long, value_name = "TOKEN", default_value = crate::cluster::BOB_TOKEN, hide_default_value = true)]
    pub timed_token: String,
    /// Make this many role bindings, 50 of them of the clients' user, and send the load as that user instead of as an
    /// administrator, who needs no rules.
    #[arg(long, requires = "start", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub bindings: Option<u32>,
    /// Have a webhook asked about each object that is made, over HTTP/2, which allows it after so many milliseconds.
    #[arg(long, value_name = "MILLISECONDS", requires = "start", value_parser = clap::value_parser!(u64).range(0..=10_000))]
    pub hook: Option<u64>,
    /// Duration of each work: `10s`, `500ms`, `2m`.
    #[arg(long, default_value = "10s", value_parser = duration)]
    pub duration: Duration,
    /// Maximum number of operations in each work.
    #[arg(long)]
    pub count: Option<u64>,
    /// Threads of the load generator.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: u32,
    /// Use HTTP/2 instead of HTTP/1.1.
    #[arg(long)]
    pub http2: bool,
    /// Clients of a thread that share an HTTP/2 connection, a stream each; 1 gives each its own. A client that loses
    /// its connection opens one of its own.
    #[arg(long, default_value_t = 100, requires = "http2", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub sharers: u32,
    /// Record the servers' stacks with perf, and print what each stage of a request takes. Recording costs, too: rates and latencies
    /// are those of a run without it.
    #[arg(long)]
    pub stages: bool,
    /// Keep the namespaces and objects.
    #[arg(long)]
    pub keep: bool,
    /// Write the figures to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The works of the benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum WorkName {
    /// Create config maps.
    Create,
    /// Get by name with a quorum (no resourceVersion).
    Get,
    /// Get by name at any version (resourceVersion=0).
    GetAny,
    /// Get by name from an aggregated server, to which the request is passed on over HTTP/2. Needs `--start`.
    GetAggregated,
    /// Merge-patch config maps.
    MergePatch,
    /// List all objects.
    List,
    /// List in chunks of 500.
    ListChunked,
    /// Watchers that all see every change.
    Watch,
    /// In twenty operations: 12 quorum gets, 2 gets at any version, 3 patches, 2 creates, 1 short list.
    Mixed,
    /// All of the above, one after the other.
    All,
    /// One user floods gets; another user's gets are timed.
    FloodGet,
    /// One user floods patches; another user's gets are timed.
    FloodPatch,
    /// One user floods lists of all objects; another user's gets are timed.
    FloodList,
    /// As flood-list, with `--watchers` of the flooding user that never read while the objects change.
    FloodStalled,
    /// A scheduler gives `--pods` waiting pods nodes out of `--fleet`; latencies count from its start. Needs `--start`.
    Schedule,
}

impl Options {
    /// HTTP version of the clients, and sharing of connections.
    pub(super) fn protocol(&self) -> Protocol {
        if self.http2 { Protocol::Two { sharers: self.sharers } } else { Protocol::One }
    }
}

impl WorkName {
    /// `names` with `all` replaced by every work.
    pub(super) fn expand(names: &[WorkName]) -> Vec<WorkName> {
        let is_one = |name: &WorkName| {
            !matches!(name, Self::All | Self::Schedule | Self::GetAggregated) && !name.is_flood()
        };
        let every: Vec<_> = Self::value_variants().iter().copied().filter(is_one).collect();
        names.iter().flat_map(|name| if *name == Self::All { every.clone() } else { vec![*name] }).collect()
    }

    /// Whether one user floods while another is timed.
    pub(super) fn is_flood(self) -> bool {
        matches!(self, Self::FloodGet | Self::FloodPatch | Self::FloodList | Self::FloodStalled)
    }

    /// Name on the command line and in reports.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Get => "get",
            Self::GetAny => "get-any",
            Self::GetAggregated => "get-aggregated",
            Self::MergePatch => "merge-patch",
            Self::List => "list",
            Self::ListChunked => "list-chunked",
            Self::Watch => "watch",
            Self::Mixed => "mixed",
            Self::All => "all",
            Self::FloodGet => "flood-get",
            Self::FloodPatch => "flood-patch",
            Self::FloodList => "flood-list",
            Self::FloodStalled => "flood-stalled",
            Self::Schedule => "schedule",
        }
    }

    /// Default number of concurrent clients: that of the reference's figures.
    pub(super) fn clients(self) -> u32 {
        match self {
            Self::Create => 64,
            Self::Get | Self::GetAny | Self::GetAggregated | Self::MergePatch | Self::Mixed | Self::All => 32,
            Self::Watch => 16,
            Self::List | Self::ListChunked => 4,
            Self::FloodGet | Self::FloodPatch | Self::FloodList | Self::FloodStalled => 4,
            Self::Schedule => 1,
        }
    }
}

/// Parses a duration of a command line: at most an hour.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().map_err(|_| format!("`{text}` is not a duration such as 10s"))?;
    let duration = match &text[digits.len()..] {
        "ms" => Duration::from_millis(number),
        "s" | "" => Duration::from_secs(number),
        "m" => Duration::from_secs(number.saturating_mul(60)),
        unit => return Err(format!("unknown unit `{unit}`: ms, s or m is wanted")),
    };
    let bound = Duration::from_secs(3600);
    if duration.is_zero() || duration > bound {
        return Err("a work runs for at least 1 ms and at most an hour".into());
    }
    Ok(duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_with_units_and_bounds() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("10s"), Ok(Duration::from_secs(10)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        for bad in ["", "x", "1h", "0s", "61m", "-1s"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn all_is_every_work_once() {
        let every = WorkName::expand(&[WorkName::All]);
        assert_eq!(every.len(), 8);
        assert!(!every.contains(&WorkName::All));
    }
}
