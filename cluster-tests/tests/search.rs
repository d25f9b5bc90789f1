//! Runs simulated clusters, by seed.
//!
//! `--seed 17` replays one run and prints its last events if it fails; `--seeds 1000` runs a thousand, from `--from`
//! on, or from the time of day with `--fresh`; `--plants` plants every known bug and prints the seed that found it and
//! the time it took. Exits with 1 when a run fails, or when a planted bug is not found. It is built as a test, so that
//! panics unwind.
#![expect(clippy::print_stdout, reason = "a command line tool")]

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Parser;
use orch_cluster_tests::sim::plant::{PLANTS, Plant};
use orch_cluster_tests::sim::run::{Report, run};
use orch_cluster_tests::sim::setup::Setup;
use parking_lot::Mutex;

/// Seeds in which a planted bug must be found.
const PLANT_SEEDS: u64 = 200;

/// Interval of the progress lines of a long search.
const PROGRESS_EVERY: Duration = Duration::from_secs(60);

/// Simulates clusters of the whole product: one thread, a virtual clock and one seed each.
#[derive(Debug, Parser)]
struct Arguments {
    /// Replay this one seed.
    #[arg(long, conflicts_with_all = ["seeds", "from", "fresh", "hours"])]
    seed: Option<u64>,
    /// Run this many seeds.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first of these seeds.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Begin with a seed made of the time, so that every search is different.
    #[arg(long, conflicts_with = "from")]
    fresh: bool,
    /// Stop after this many hours, however many seeds are left.
    #[arg(long)]
    hours: Option<f64>,
    /// Members of the cluster: 3, 5, or 0 for 3 under even seeds and 5 under odd ones.
    #[arg(long, default_value_t = 0)]
    nodes: u64,
    /// Virtual seconds of clients and faults.
    #[arg(long, default_value_t = 12)]
    seconds: u64,
    /// Objects written before any fault; 0 leaves the number to the seed.
    #[arg(long, default_value_t = 0)]
    objects: u64,
    /// Plant a bug, which must then be found.
    #[arg(long, value_parser = plant)]
    plant: Option<Plant>,
    /// Plant every bug in turn and print a table of the seeds that found it.
    #[arg(long, conflicts_with = "plant")]
    plants: bool,
    /// Concurrent runs; 0 for one on each core.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Write a report of the runs and failures to this file.
    #[arg(long)]
    report: Option<PathBuf>,
    /// Print every event as it happens (to standard error).
    #[arg(long)]
    echo: bool,
    /// Print a line for every run, not only for those that fail.
    #[arg(long, short)]
    verbose: bool,
}

/// Results of a search.
#[derive(Debug, Default)]
struct Search {
    runs: AtomicU64,
    calls: AtomicU64,
    virtual_ms: AtomicU64,
    /// Seed, failure, and the command that replays it.
    failed: Mutex<Vec<(u64, String, String)>>,
    over: AtomicBool,
}

fn plant(name: &str) -> Result<Plant, String> {
    let found = PLANTS.iter().find(|(known, _)| *known == name).map(|(_, plant)| *plant);
    found.ok_or_else(|| format!("one of: {}", PLANTS.map(|(name, _)| name).join(", ")))
}

impl Arguments {
    fn setup(&self, seed: u64) -> Setup {
        let members = if self.nodes == 0 { 3 + 2 * (seed % 2) } else { self.nodes };
        let (length, objects) = (Duration::from_secs(self.seconds), self.objects);
        Setup { plant: self.plant, length, objects, echo: self.echo, ..Setup::new(seed, members) }
    }

    fn seeds(&self) -> std::ops::Range<u64> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // A million seeds for each second.
        let from = if self.fresh { now.as_secs().saturating_mul(1_000_000) } else { self.from };
        self.seed.map_or(from..from + self.seeds, |seed| seed..seed + 1)
    }

    fn jobs(&self) -> usize {
        if self.jobs > 0 { self.jobs } else { std::thread::available_parallelism().map_or(1, usize::from) }
    }

    /// Runs every seed, with as many concurrent runs as there are jobs.
    fn search(&self, seeds: std::ops::Range<u64>) -> Search {
        let (search, next, began) = (Search::default(), AtomicU64::new(seeds.start), Instant::now());
        let limit = self.hours.map(|hours| Duration::try_from_secs_f64(hours * 3600.0).unwrap_or_default());
        let told = Mutex::new(began);
        std::thread::scope(|scope| {
            for _ in 0..self.jobs() {
                scope.spawn(|| {
                    loop {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        let late = limit.is_some_and(|limit| began.elapsed() > limit);
                        if seed >= seeds.end || late || search.over.load(Ordering::Relaxed) {
                            return;
                        }
                        let report = run(self.setup(seed));
                        show(self, &report);
                        search.note(report, self.plants);
                        let mut told = told.lock();
                        if told.elapsed() > PROGRESS_EVERY {
                            *told = Instant::now();
                            eprintln!("{} after {} s", search.so_far(), began.elapsed().as_secs());
                        }
                    }
                });
            }
        });
        search
    }
}

impl Search {
    fn so_far(&self) -> String {
        let (runs, failed) = (self.runs.load(Ordering::Relaxed), self.failed.lock().len());
        format!("{failed} of {runs} seeds failed")
    }

    fn note(&self, report: Report, first_is_enough: bool) {
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.calls.fetch_add(report.calls as u64, Ordering::Relaxed);
        let took = u64::try_from(report.took.as_millis()).unwrap_or(u64::MAX);
        self.virtual_ms.fetch_add(took, Ordering::Relaxed);
        if let Some(failure) = report.failure {
            self.failed.lock().push((report.setup.seed, failure, report.setup.command()));
            self.over.fetch_or(first_is_enough, Ordering::Relaxed);
        }
    }

    /// The report of the search, in Markdown.
    fn document(&self, seeds: &std::ops::Range<u64>, took: Duration, jobs: usize) -> String {
        let (runs, failed) = (self.runs.load(Ordering::Relaxed), self.failed.lock());
        let (calls, virtual_s) =
            (self.calls.load(Ordering::Relaxed), self.virtual_ms.load(Ordering::Relaxed) / 1000);
        let mut text = format!(
            "# Simulation report\n\n{runs} seeds from {} on, {} failed; {calls} calls with an outcome, {virtual_s} \
             virtual seconds, in {} seconds on {jobs} threads.\n",
            seeds.start,
            failed.len(),
            took.as_secs(),
        );
        for (seed, failure, command) in failed.iter() {
            // Writing to a string does not fail.
            let _ = write!(text, "\n## Seed {seed}\n\n{failure}\n\n    {command}\n");
        }
        text
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // The members' log, without the real time, which means nothing here. Set RUST_LOG to see it.
    let filter = std::env::var("RUST_LOG").map_or_else(|_| "off".into(), tracing_subscriber::EnvFilter::new);
    tracing_subscriber::fmt().with_env_filter(filter).without_time().with_writer(std::io::stderr).init();
    if arguments.seed.is_none() {
        // The report of a run contains its panic.
        std::panic::set_hook(Box::new(|_| ()));
    }
    if arguments.plants {
        return find_plants(arguments);
    }
    let (seeds, began) = (arguments.seeds(), Instant::now());
    println!("seeds {} to {}", seeds.start, seeds.end - 1);
    let search = arguments.search(seeds.clone());
    if let Some(path) = &arguments.report {
        let document = search.document(&seeds, began.elapsed(), arguments.jobs());
        if let Err(error) = std::fs::write(path, document) {
            println!("{}: {error}", path.display());
            return ExitCode::FAILURE;
        }
        println!("report: {}", path.display());
    }
    let runs = search.runs.load(Ordering::Relaxed);
    let failed: Vec<u64> = search.failed.into_inner().into_iter().map(|(seed, ..)| seed).collect();
    println!("{} of {runs} seeds failed {failed:?} in {} s", failed.len(), began.elapsed().as_secs());
    let expected = arguments.plant.is_some();
    if failed.is_empty() == expected { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Plants every bug and prints a table of the seeds that found it.
fn find_plants(mut arguments: Arguments) -> ExitCode {
    println!("| bug | seeds run | found by seed | after | as |\n|---|---|---|---|---|");
    let mut all = true;
    for (name, plant) in PLANTS {
        arguments.plant = Some(plant);
        let began = Instant::now();
        let search = arguments.search(arguments.from..arguments.from + PLANT_SEEDS);
        let (runs, seconds) = (search.runs.load(Ordering::Relaxed), began.elapsed().as_secs_f64());
        let mut failed = search.failed.into_inner();
        failed.sort();
        match failed.first() {
            Some((seed, failure, _)) => {
                let line: String = failure.lines().next().unwrap_or_default().chars().take(90).collect();
                println!("| `{name}` | {runs} | {seed} | {seconds:.1} s | {line} |");
            }
            None => println!("| `{name}` | {runs} | not found | {seconds:.1} s | |"),
        }
        all &= !failed.is_empty();
    }
    if all { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn show(arguments: &Arguments, report: &Report) {
    let quiet = arguments.seed.is_none() && !arguments.verbose;
    match (&report.failure, report.setup.plant) {
        _ if arguments.plants => {}
        (Some(failure), Some(_)) if quiet => println!("seed {}: found: {failure}", report.setup.seed),
        (None, _) if quiet => {}
        _ => println!("{report}"),
    }
}
