//! The command line of the works of thousands of watches.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::kubelet::WATCHES_FIXED;
use crate::load::options::duration;
use crate::load::server::ServerOptions;

/// Streams of an HTTP/2 connection, as servers of this API allow them: more watches need more connections.
const STREAMS_MAX: u32 = 100;

/// A work of thousands of watches.
#[derive(Debug, Clone, Subcommand)]
pub enum Work {
    /// Idle watches, each of one node's pods: their memory, and what a change costs beside them
    ///
    /// Changes a pod K times without watches, opens the connections and then the watches, and changes K times a pod that
    /// concerns none of them and K times one that concerns exactly one. Prints the server's CPU time of a change each time
    /// and the ratios, its memory for each connection and each watch, and its CPU time while nothing happens. An event that
    /// comes to a watch it does not concern, that is missing, or a watch that ends is an error.
    #[command(after_help = IDLE_EXAMPLES)]
    WatchIdle(Idle),
    /// Many watches at once, and all of them again after their connections were cut
    ///
    /// Opens all watches at once, cuts all their connections, changes some pods meanwhile, and lets all watches resume at
    /// once from their version. Prints how many did so without a list, the time until all stood, CPU time and the most memory,
    /// and the waits of a writer beside it. A change that a resumed watch does not get ends the run.
    #[command(after_help = STORM_EXAMPLES)]
    WatchStorm(Storm),
    /// Simulated kubelets, pods that are bound to their nodes, and the death of the leader
    ///
    /// Each kubelet has an HTTP/2 connection, makes its node, watches the pods of its node, services, its node, and the config
    /// maps and secrets of its pods by name (each lists first, and ends after five to ten minutes), renews a lease every ten
    /// seconds, patches its node's status every five minutes with jitter, and reports a pod that it gets as running. A writer
    /// makes and binds pods; printed are the time from before a binding is sent until the kubelet's watch shows the pod, the
    /// writer's own waits, the servers' CPU time of a change, and their memory. Ended streams, resumed watches and watches that
    /// listed again are counted each by themselves.
    #[command(after_help = KUBELETS_EXAMPLES)]
    Kubelets(Kubelets),
    /// Definitions of custom kinds: until they are in force, their memory, discovery, and the first objects
    ///
    /// Makes definitions with a schema of the size asked for, sixteen at a time, and waits until discovery shows all of them. Prints the
    /// server's CPU time and memory of each, the waits for the documents of discovery, and what a kind costs whose first object comes.
    #[command(after_help = DEFINITIONS_EXAMPLES)]
    Definitions(Definitions),
    /// Admission policies: until they are in force, their memory, and what a create costs beside them
    ///
    /// Makes config maps one after the other without policies, beside policies of another resource, and through policies that match and
    /// pass. Prints the server's CPU time of a create each time and that of a policy, and the memory of policies with their bindings before
    /// and after their first use.
    #[command(after_help = POLICIES_EXAMPLES)]
    Policies(Policies),
}

const IDLE_EXAMPLES: &str = "\
Examples:
  bench watch-idle --start 1 --watches 4000                          100 watches on a connection
  bench watch-idle --start 1 --watches 1500 --connections 1500       a connection for each
  bench watch-idle --base http://127.0.0.1:8080 --pids 4711          plain HTTP: `orch dev --insecure-port 8080`";

const STORM_EXAMPLES: &str = "\
Examples:
  bench watch-storm --start 1 --watches 10000
  bench watch-storm --start 3 --watches 2000 --connections 2000      a connection for each, over three servers";

const KUBELETS_EXAMPLES: &str = "\
Examples:
  bench kubelets --start 1 --nodes 1000
  bench kubelets --start 3 --nodes 2000 --kill-leader
  bench kubelets --base http://127.0.0.1:8080 --pids 4711 --nodes 100     plain HTTP: `orch dev --insecure-port 8080`";

const DEFINITIONS_EXAMPLES: &str = "\
Examples:
  bench definitions --start 1 --definitions 5000
  bench definitions --start 3 --size 200000 --definitions 100        large ones, over three servers
  bench definitions --start 1 --definitions 5000 --rules 10 --used 5000   rules, and a write of each kind
  bench definitions --base http://127.0.0.1:8080 --pids 4711         plain HTTP: `orch dev --insecure-port 8080`";

const POLICIES_EXAMPLES: &str = "\
Examples:
  bench policies --start 1 --policies 1000
  bench policies --start 1 --policies 20 --unmatched 1000            a usual cluster
  bench policies --base http://127.0.0.1:8080 --pids 4711            plain HTTP: `orch dev --insecure-port 8080`";

/// Servers and generator of every work.
#[derive(Debug, Clone, Args)]
pub(super) struct Common {
    #[command(flatten)]
    pub(super) server: ServerOptions,
    /// Threads of the load generator.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) threads: u32,
    /// Longest time until all watches stand; the work fails after it.
    #[arg(long, default_value = "2m", value_parser = duration, value_name = "TIME")]
    pub(super) patience: Duration,
    /// Write the figures to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
}

/// Watches of the works without kubelets.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct Watches {
    /// Watches, each of the pods of another node.
    #[arg(long = "watches", default_value_t = 1000, value_name = "WATCHES", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) count: u32,
    /// HTTP/2 connections that they share, at most 100 watches each; by default as few as that allows.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    connections: Option<u32>,
}

/// Options of `watch-idle`.
#[derive(Debug, Clone, Args)]
pub struct Idle {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    pub(super) watches: Watches,
    /// Changes of each round.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) changes: u32,
    /// Writers, each with a pod of its own that it changes again when the last change is answered.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) writers: u32,
    /// Longest time of a round, in which fewer changes are made where they are slow.
    #[arg(long, default_value = "1m", value_parser = duration, value_name = "TIME")]
    pub(super) round: Duration,
    /// Time without requests before each look at memory, in which the idle CPU time is measured, too.
    #[arg(long, default_value = "3s", value_parser = duration, value_name = "TIME")]
    pub(super) settle: Duration,
}

/// Options of `watch-storm`.
#[derive(Debug, Clone, Args)]
pub struct Storm {
    #[command(flatten)]
    pub(super) common: Common,
    #[command(flatten)]
    pub(super) watches: Watches,
    /// Changes a second of the writer.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(super) writes: u32,
    /// Time of the writer alone before, to compare with.
    #[arg(long, default_value = "5s", value_parser = duration, value_name = "TIME")]
    pub(super) calm: Duration,
}

/// Options of `kubelets`.
#[derive(Debug, Clone, Args)]
pub struct Kubelets {
    #[command(flatten)]
    pub(super) common: Common,
    /// Kubelets, each with a node and a connection.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub(super) nodes: u32,
    /// Time in which pods are bound, after all kubelets watch.
    #[arg(long, default_value = "1m", value_parser = duration, value_name = "TIME")]
    pub(super) duration: Duration,
    /// Pods that are made and bound each second.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) pods: u32,
    /// Config maps that each kubelet watches; the first is the same for all.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(0..=40))]
    pub(super) config_maps: u32,
    /// Secrets that each kubelet watches.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=40))]
    pub(super) secrets: u32,
    /// Bytes of data in each of those.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) size: u32,
    /// Period of the renewals of a lease; each comes up to 4 % later.
    #[arg(long, default_value = "10s", value_parser = duration, value_name = "TIME")]
    pub(super) lease_period: Duration,
    /// Period of the patches of a node's status; each comes up to half of it earlier or later.
    #[arg(long, default_value = "5m", value_parser = duration, value_name = "TIME")]
    pub(super) status_period: Duration,
    /// Credentials of the kubelets over TLS [default: own with --start, else shared]
    #[arg(long, value_enum, value_name = "WHOSE")]
    pub(super) tls: Option<Credentials>,
    /// Kill the leader after half of the duration; needs --start 3 at least.
    #[arg(long, requires = "start")]
    pub(super) kill_leader: bool,
}

/// Options of `definitions`.
#[derive(Debug, Clone, Args)]
pub struct Definitions {
    #[command(flatten)]
    pub(super) common: Common,
    /// Definitions, each of a kind of its own.
    #[arg(long = "definitions", default_value_t = 1000, value_name = "DEFINITIONS", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub(super) count: u32,
    /// Bytes of the schema of each, about.
    #[arg(long, default_value = "20000", value_parser = size, value_name = "BYTES")]
    pub(super) size: usize,
    /// Rules of each, spread over its schema.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000))]
    pub(super) rules: u32,
    /// Kinds of which an object is made.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(0..=20_000))]
    pub(super) used: u32,
    /// Time without requests before each look at memory.
    #[arg(long, default_value = "3s", value_parser = duration, value_name = "TIME")]
    pub(super) settle: Duration,
}

/// Options of `policies`.
#[derive(Debug, Clone, Args)]
pub struct Policies {
    #[command(flatten)]
    pub(super) common: Common,
    /// Policies that match config maps and pass, each with a binding.
    #[arg(long = "policies", default_value_t = 1000, value_name = "POLICIES", value_parser = clap::value_parser!(u32).range(1..=20_000))]
    pub(super) count: u32,
    /// Policies of another resource, each with a binding.
    #[arg(long, default_value_t = 1000, value_name = "POLICIES", value_parser = clap::value_parser!(u32).range(0..=20_000))]
    pub(super) unmatched: u32,
    /// Validations of each.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) validations: u32,
    /// Config maps that are made each time.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(super) creates: u32,
    /// Bytes of data in each.
    #[arg(long, default_value = "3000", value_parser = size, value_name = "BYTES")]
    pub(super) size: usize,
    /// Time without requests before each look at memory.
    #[arg(long, default_value = "3s", value_parser = duration, value_name = "TIME")]
    pub(super) settle: Duration,
}

/// Bytes of a schema or an object, up to what an object may have.
fn size(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(bytes @ 100..=1_000_000) => Ok(bytes),
        Ok(_) => Err("not in 100..=1000000".to_owned()),
        Err(error) => Err(format!("{error}")),
    }
}

/// Credentials of the kubelets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Credentials {
    /// A client certificate of its own for each node, signed by the authority of the servers that are started: rights are
    /// those of nodes.
    Own,
    /// Those of the command line, or of the administrator, for all.
    Shared,
}

impl Kubelets {
    /// Watches of each kubelet.
    pub(super) fn watches_each(&self) -> u32 {
        WATCHES_FIXED + self.config_maps + self.secrets
    }

    /// Credentials of the kubelets.
    pub(super) fn credentials(&self) -> Credentials {
        let default = if self.common.server.start.is_some() { Credentials::Own } else { Credentials::Shared };
        self.tls.unwrap_or(default)
    }

    /// # Errors
    /// A leader is to be killed whose followers are no majority.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let servers = self.common.server.start.unwrap_or(1);
        anyhow::ensure!(
            !self.kill_leader || servers >= 3,
            "--kill-leader leaves no majority of {servers} servers: --start 3"
        );
        Ok(())
    }
}

impl Work {
    /// Name on the command line and in reports.
    pub fn word(&self) -> &'static str {
        match self {
            Self::WatchIdle(_) => "watch-idle",
            Self::WatchStorm(_) => "watch-storm",
            Self::Kubelets(_) => "kubelets",
            Self::Definitions(_) => "definitions",
            Self::Policies(_) => "policies",
        }
    }

    /// The file that gets the figures as JSON.
    pub fn json(&self) -> Option<&Path> {
        self.common().json.as_deref()
    }

    fn common(&self) -> &Common {
        match self {
            Self::WatchIdle(options) => &options.common,
            Self::WatchStorm(options) => &options.common,
            Self::Kubelets(options) => &options.common,
            Self::Definitions(options) => &options.common,
            Self::Policies(options) => &options.common,
        }
    }
}

impl Watches {
    /// Number of connections: as many as were asked for, else as few as hold the watches.
    ///
    /// # Errors
    /// There are fewer than hold them, or more than watches.
    pub(super) fn connections(self) -> anyhow::Result<u32> {
        let Watches { count: watches, connections } = self;
        let least = watches.div_ceil(STREAMS_MAX);
        let count = connections.unwrap_or(least);
        anyhow::ensure!(
            (least..=watches).contains(&count),
            "{watches} watches take {least} to {watches} connections, at most {STREAMS_MAX} watches each, not {count}"
        );
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_has_a_hundred_watches_at_most() {
        for (count, connections, want) in [
            (1, None, Some(1)),
            (100, None, Some(1)),
            (101, None, Some(2)),
            (100_000, None, Some(1000)),
            (100, Some(100), Some(100)),
            (100, Some(101), None),
            (101, Some(1), None),
        ] {
            let watches = Watches { count, connections };
            assert_eq!(watches.connections().ok(), want, "{watches:?}");
        }
    }
}
