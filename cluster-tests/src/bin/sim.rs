//! Runs simulated clusters, by seed.
//!
//! `--seed 17` replays one run and prints what happened if it fails; `--seeds 1000` runs a thousand, from `--from` on.
//! Exits with 1 when a run fails, or when a planted bug is not found.
#![expect(clippy::print_stdout, reason = "a command line tool")]

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Parser;
use orch_cluster_tests::sim::plant::{PLANTS, Plant};
use orch_cluster_tests::sim::run::{Report, run};
use orch_cluster_tests::sim::setup::Setup;
use parking_lot::Mutex;

/// Simulates clusters of the replicated store: one thread, a virtual clock and one seed each.
#[derive(Debug, Parser)]
struct Arguments {
    /// Replay this one seed.
    #[arg(long, conflicts_with_all = ["seeds", "from"])]
    seed: Option<u64>,
    /// Run this many seeds.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first of them.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Members of the cluster: 3, 5, or 0 for 3 under even seeds and 5 under odd ones.
    #[arg(long, default_value_t = 0)]
    nodes: u64,
    /// Virtual seconds of clients and faults.
    #[arg(long, default_value_t = 12)]
    seconds: u64,
    /// Plant a bug, which must then be found.
    #[arg(long, value_parser = plant)]
    plant: Option<Plant>,
    /// Runs at a time.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Print every event as it happens (to standard error).
    #[arg(long)]
    echo: bool,
    /// Print a line for every run, not only for those that fail.
    #[arg(long, short)]
    verbose: bool,
}

fn plant(name: &str) -> Result<Plant, String> {
    let found = PLANTS.iter().find(|(known, _)| *known == name).map(|(_, plant)| *plant);
    found.ok_or_else(|| format!("one of: {}", PLANTS.map(|(name, _)| name).join(", ")))
}

impl Arguments {
    fn setup(&self, seed: u64) -> Setup {
        let members = if self.nodes == 0 { 3 + 2 * (seed % 2) } else { self.nodes };
        let length = Duration::from_secs(self.seconds);
        Setup { plant: self.plant, length, echo: self.echo, ..Setup::new(seed, members) }
    }

    fn seeds(&self) -> std::ops::Range<u64> {
        self.seed.map_or(self.from..self.from + self.seeds, |seed| seed..seed + 1)
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // What members log, without the real time, which means nothing here. Set RUST_LOG to see it.
    let filter = std::env::var("RUST_LOG").map_or_else(|_| "off".into(), tracing_subscriber::EnvFilter::new);
    tracing_subscriber::fmt().with_env_filter(filter).without_time().with_writer(std::io::stderr).init();
    let seeds = arguments.seeds();
    println!("seeds {} to {}", seeds.start, seeds.end - 1);
    let next = AtomicU64::new(seeds.start);
    let failed: Mutex<Vec<u64>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..arguments.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let report = run(arguments.setup(seed));
                    show(&arguments, &report);
                    if report.failure.is_some() {
                        failed.lock().push(seed);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner();
    println!("{} of {} seeds failed {failed:?}", failed.len(), seeds.end - seeds.start);
    let expected = arguments.plant.is_some();
    if failed.is_empty() == expected { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn show(arguments: &Arguments, report: &Report) {
    let quiet = arguments.seed.is_none() && !arguments.verbose;
    match (&report.failure, arguments.plant) {
        (Some(failure), Some(_)) if quiet => println!("seed {}: found: {failure}", report.setup.seed),
        (None, _) if quiet => {}
        _ => println!("{report}"),
    }
}
