//! Searches seeds for a failure, replays one, and shows that planted bugs are found.
//!
//! `SEED=17` replays a run and prints what happened in it; `SEEDS=10000` searches further.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::plant::Plant;
use super::run::{Report, run};

/// Seeds that are searched where nothing else is asked for.
const SEEDS: u64 = 200;

fn asked(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().expect("SEED and SEEDS are numbers"))
}

fn failure(seed: u64, report: &Report) -> Option<String> {
    let problem = report.problem.as_ref()?;
    let from = report.trace.len().saturating_sub(200);
    let last = report.trace[from..].join("\n");
    Some(format!("{last}\nseed {seed}: {problem}\nreplay it with: make sim-scheduler SEED={seed}"))
}

/// Runs seeds on two threads until one fails. Returns the failure of the smallest seed that did, and totals.
fn search(seeds: u64) -> (Option<String>, usize, usize) {
    let next = AtomicU64::new(0);
    let failed = Mutex::new(None::<(u64, String)>);
    let totals = Mutex::new((0, 0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds || failed.lock().unwrap().is_some() {
                        return;
                    }
                    let report = run(seed, None);
                    if let Some(text) = failure(seed, &report) {
                        let mut failed = failed.lock().unwrap();
                        if failed.as_ref().is_none_or(|(smallest, _)| seed < *smallest) {
                            *failed = Some((seed, text));
                        }
                    }
                    let mut totals = totals.lock().unwrap();
                    totals.0 += report.bound;
                    totals.1 += report.leaders;
                }
            });
        }
    });
    let (bound, leaders) = *totals.lock().unwrap();
    (failed.into_inner().unwrap().map(|(_, text)| text), bound, leaders)
}

#[test]
fn no_seed_breaks_a_promise() {
    if let Some(seed) = asked("SEED") {
        let report = run(seed, None);
        eprintln!("{}", report.trace.join("\n"));
        assert_eq!(report.problem, None, "seed {seed}");
        return;
    }
    let seeds = asked("SEEDS").unwrap_or(SEEDS);
    let (failed, bound, leaders) = search(seeds);
    if let Some(failed) = failed {
        panic!("{failed}");
    }
    let seeds = usize::try_from(seeds).unwrap();
    assert!(bound > seeds * 20, "pods are bound: {bound} in {seeds} runs");
    assert!(leaders > seeds * 2, "leaders change: {leaders} in {seeds} runs");
}

#[test]
fn a_seed_replays_its_run() {
    for seed in 0..3 {
        let (first, second) = (run(seed, None), run(seed, None));
        let differ = first.trace.iter().zip(&second.trace).find(|(one, other)| one != other);
        assert_eq!(differ, None, "seed {seed}");
        assert_eq!(first, second, "seed {seed}");
    }
    assert_ne!(run(3, None).trace, run(4, None).trace);
}

/// Within how many seeds each planted bug is found.
const PLANTS: &[(Plant, u64)] = &[];

#[test]
fn every_planted_bug_is_found() {
    for (plant, seeds) in PLANTS {
        let found = (0..*seeds).find_map(|seed| Some((seed, run(seed, Some(*plant)).problem?)));
        match found {
            Some((seed, problem)) => eprintln!("{plant:?}: seed {seed}: {problem}"),
            None => panic!("{plant:?} is not found within {seeds} seeds"),
        }
    }
}
