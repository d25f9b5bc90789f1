//! Scheduler processes over simulated clusters: the whole product, from one seed.
//!
//! ```text
//!   users, kubelet ──HTTP──┐
//!                          ├──> links (delays, cuts, losses) ──> the API of simulated members ──> Raft, disks, network
//!   scheduler processes ───┘                                                │
//!                                                   ledger of all changes ──┴──> judge (recomputes every promise)
//! ```
//!
//! The members are those of [`orch_cluster_tests::sim`], with its faults and its oracles. The scheduler processes are the
//! product from its configuration down to single HTTP requests, each on a runtime with a stopped clock of its own:
//! the world gives it slices of time, between which its requests and answers travel. `SEED=17` replays a run and prints
//! its events, `SEEDS=1000` searches further, `PLANT=trusts-lost` plants one bug only.

mod faults;
mod judge;
mod links;
mod plant;
mod run;
mod scheduler;
mod settled;
mod timeline;
mod users;

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use plant::{PLANTS, Plant};
use run::{Report, run};

/// Seeds that are searched where nothing else is asked for.
const SEEDS: u64 = 8;

/// Seeds for a planted bug that is searched for by its name.
const NAMED_SEEDS: u64 = 200;

/// Seeds behind the first one: every change of the product moves the seeds that find a bug, and a search that goes on
/// costs a minute where one that fails costs a release.
const MOVED_SEEDS: u64 = 150;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().expect("SEED and SEEDS are numbers"))
}

/// What a search came to.
#[derive(Default)]
struct Search {
    /// The smallest seed that failed, and its report.
    failed: Option<(u64, Report)>,
    bound: usize,
    leaders: usize,
    late: usize,
    excused: usize,
    untold: usize,
}

/// Runs seeds on two threads until one fails.
fn search(seeds: Range<u64>, plant: Option<Plant>) -> Search {
    let (next, end) = (AtomicU64::new(seeds.start), seeds.end);
    let search = Mutex::new(Search::default());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end || search.lock().expect("no run panics").failed.is_some() {
                        return;
                    }
                    let report = run(seed, plant);
                    search.lock().expect("no run panics").note(seed, report);
                }
            });
        }
    });
    search.into_inner().expect("no run panics")
}

impl Search {
    fn note(&mut self, seed: u64, report: Report) {
        self.bound += report.bound;
        self.leaders += report.leaders;
        self.late += report.late;
        self.excused += report.excused;
        self.untold += usize::from(report.is_untold);
        let is_smaller = self.failed.as_ref().is_none_or(|(smallest, _)| seed < *smallest);
        if report.failure.is_some() && is_smaller {
            self.failed = Some((seed, report));
        }
    }
}

#[test]
fn schedulers_over_a_simulated_cluster_keep_their_promises() {
    if let Some(seed) = number("SEED") {
        let report = run(seed, None);
        eprintln!("{}", report.trace.join("\n"));
        assert_eq!(report.failure, None, "seed {seed}");
        return;
    }
    let seeds = number("SEEDS").unwrap_or(SEEDS);
    let from = number("FROM").unwrap_or_default();
    let found = search(from..from + seeds, None);
    if let Some((seed, report)) = found.failed {
        let from = report.trace.len().saturating_sub(300);
        let failure = report.failure.unwrap_or_default();
        let last = report.trace[from..].join("\n");
        panic!("{last}\nseed {seed}: {failure}\nreplay it with: make sim-scheduling SEED={seed}");
    }
    let Search { bound, leaders, late, excused, untold, .. } = found;
    eprintln!(
        "{seeds} seeds: {bound} pods bound, {leaders} leaderships, {late} bindings came later than a lease can know, \
         {excused} overloads followed from them, {untold} runs could not be judged"
    );
    let seeds = usize::try_from(seeds).expect("seeds are few");
    // Some runs have few pods that fit: about ten are bound in the mean.
    assert!(bound > seeds * 5, "pods are bound: {bound} in {seeds} runs");
    assert!(leaders > seeds, "leaders change: {leaders} in {seeds} runs");
    assert!(untold * 10 <= seeds, "runs can be judged: {untold} of {seeds} could not");
    assert!(excused * 10 <= seeds, "the assumption of the lease excuses little: {excused} in {seeds} runs");
}

#[test]
fn a_seed_replays_its_run() {
    let (first, second) = (run(1, None), run(1, None));
    let differ = first.trace.iter().zip(&second.trace).find(|(one, other)| one != other);
    assert_eq!(differ, None);
    assert_eq!((first.hash, first.bound), (second.hash, second.bound));
    assert_ne!(first.hash, run(2, None).hash, "seeds differ");
}

/// A runtime that is dropped with its tasks drops them in an order of their numbers, which count on through the program.
#[test]
fn a_seed_replays_its_run_whatever_ran_before() {
    for seed in [2, 6] {
        let first = run(seed, None);
        for shift in 1..4 {
            tokio::runtime::Builder::new_current_thread().build().expect("nothing is needed").block_on(
                async {
                    tokio::spawn(async {}).await.expect("it does nothing");
                },
            );
            let again = run(seed, None);
            let differ = first.trace.iter().zip(&again.trace).find(|(one, other)| one != other);
            assert_eq!(differ, None, "seed {seed}, shift {shift}");
        }
    }
}

#[test]
fn planted_bugs_are_found() {
    let name = std::env::var("PLANT").unwrap_or_default();
    let mut missed = Vec::new();
    for (known, plant, first, reason) in PLANTS {
        let seeds = match name.as_str() {
            "" => first..first + MOVED_SEEDS,
            name if name == known => 0..NAMED_SEEDS,
            _ => continue,
        };
        match search(seeds.clone(), Some(plant)).failed {
            Some((seed, report)) => {
                let failure = report.failure.unwrap_or_default();
                eprintln!("{known}: seed {seed}: {failure}");
                if !failure.contains(reason) {
                    missed.push(format!("{known} fails as `{failure}`"));
                }
            }
            None => missed.push(format!("{known} is not found by the seeds {seeds:?}")),
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
