//! Searches of whole-product simulations: runs of many seeds, the replay of one, and planted bugs.
//!
//! Owns what the environment asks for (`SEED=17` replays a run and prints its events, `SEEDS=1000` and `FROM=500` search further,
//! `PLANT=NAME` plants one bug only), and what a search and its failure look like. A simulation brings its run, and what it counts.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::world::World;

/// Events that are printed of a run that failed.
const TOLD_MAX: usize = 300;

/// Numbers that a simulation sums up over its runs.
pub trait Counted: Clone + Default + Send {
    /// Adds those of another run.
    fn add(&mut self, other: &Self);
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Report<C> {
    /// The first promise that was broken.
    pub failure: Option<String>,
    /// The events, in their order.
    pub trace: Vec<String>,
    /// Hash of the events.
    pub hash: u64,
    /// The counts; empty where the run could not be judged.
    pub counted: C,
    /// The run could not be judged.
    pub is_untold: bool,
}

impl<C: Counted> Report<C> {
    /// The report of a run of `world` that has ended. `counted`: `None` where it could not be judged.
    pub fn of(world: &World, counted: Option<C>) -> Self {
        Report {
            failure: world.failure(),
            trace: world.trace().tail(usize::MAX),
            hash: world.trace().hash().0,
            is_untold: counted.is_none(),
            counted: counted.unwrap_or_default(),
        }
    }
}

/// The result of a search.
#[derive(Debug)]
pub struct Search<C> {
    /// The smallest seed that failed, and its report.
    pub failed: Option<(u64, Report<C>)>,
    /// Sums over the runs.
    pub counted: C,
    /// Runs that could not be judged.
    pub untold: usize,
}

impl<C: Counted> Search<C> {
    fn note(&mut self, seed: u64, report: Report<C>) {
        self.counted.add(&report.counted);
        self.untold += usize::from(report.is_untold);
        let is_smaller = self.failed.as_ref().is_none_or(|(smallest, _)| seed < *smallest);
        if report.failure.is_some() && is_smaller {
            self.failed = Some((seed, report));
        }
    }
}

/// Runs `seeds` on two threads until one fails.
///
/// # Panics
/// A run panics.
pub fn search<C: Counted>(seeds: Range<u64>, run: impl Fn(u64) -> Report<C> + Sync) -> Search<C> {
    let (next, end) = (AtomicU64::new(seeds.start), seeds.end);
    let search = Mutex::new(Search { failed: None, counted: C::default(), untold: 0 });
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end || search.lock().expect("no run panics").failed.is_some() {
                        return;
                    }
                    let report = run(seed);
                    search.lock().expect("no run panics").note(seed, report);
                }
            });
        }
    });
    search.into_inner().expect("no run panics")
}

/// Searches the seeds that the environment asks for, `seeds` where it does not; returns how many, and what they came to. `None`:
/// one seed was to be replayed, and passed. `target` is the target of `make` that replays a seed.
///
/// # Panics
/// A run fails: with its last events, and how it is replayed.
pub fn explore<C: Counted>(
    target: &str,
    seeds: u64,
    run: impl Fn(u64) -> Report<C> + Sync,
) -> Option<(usize, Search<C>)> {
    if let Some(seed) = number("SEED") {
        let report = run(seed);
        eprintln!("{}", report.trace.join("\n"));
        assert_eq!(report.failure, None, "seed {seed}");
        return None;
    }
    let seeds = number("SEEDS").unwrap_or(seeds);
    let from = number("FROM").unwrap_or_default();
    let found = search(from..from + seeds, run);
    if let Some((seed, report)) = found.failed {
        let first = report.trace.len().saturating_sub(TOLD_MAX);
        let failure = report.failure.unwrap_or_default();
        let last = report.trace[first..].join("\n");
        panic!("{last}\nseed {seed}: {failure}\nreplay it with: make {target} SEED={seed}");
    }
    Some((usize::try_from(seeds).expect("seeds are few"), found))
}

/// # Panics
/// The same seed gives another run, or another seed the same.
pub fn assert_replays<C: Counted>(run: impl Fn(u64) -> Report<C>) {
    let (first, second) = (run(1), run(1));
    let differ = first.trace.iter().zip(&second.trace).find(|(one, other)| one != other);
    assert_eq!(differ, None);
    assert_eq!(first.hash, second.hash);
    assert_ne!(first.hash, run(2).hash, "seeds differ");
}

/// A bug that is planted to show that the oracles find it.
#[derive(Clone, Debug)]
pub struct Planted<B> {
    /// Its name in `PLANT`.
    pub name: &'static str,
    /// The bug.
    pub bug: B,
    /// Seeds in which it has to be found.
    pub seeds: Range<u64>,
    /// Texts of failures, of which the one that it is found by has one.
    pub reasons: &'static [&'static str],
}

/// Searches for each of `bugs`, or only for the one that `PLANT` names.
///
/// # Panics
/// A bug is not found, or found as something else.
pub fn assert_found<B: Copy + Sync, C: Counted>(
    bugs: impl IntoIterator<Item = Planted<B>>,
    run: impl Fn(u64, B) -> Report<C> + Sync,
) {
    let only = std::env::var("PLANT").unwrap_or_default();
    let mut missed = Vec::new();
    for Planted { name, bug, seeds, reasons } in bugs {
        if !only.is_empty() && only != name {
            continue;
        }
        match search(seeds.clone(), |seed| run(seed, bug)).failed {
            Some((seed, report)) => {
                let failure = report.failure.unwrap_or_default();
                eprintln!("{name}: seed {seed}: {failure}");
                if !reasons.iter().any(|reason| failure.contains(reason)) {
                    missed.push(format!("{name} fails as `{failure}`"));
                }
            }
            None => missed.push(format!("{name} is not found by the seeds {seeds:?}")),
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

/// The number in the variable `name` of the environment.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().expect("SEED, SEEDS and FROM are numbers"))
}
