//! Searches seeds for a failure, replays one, and shows that planted bugs are found.
//!
//! `SEED=17` replays a run and prints what happened in it; `SEEDS=10000` searches further; `PLANT=BindsByName` plants one
//! bug only, and prints the seed that finds it.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::plant::Plant;
use super::run::{Report, run};

/// Seeds that are searched where nothing else is asked for.
const SEEDS: u64 = 60;

fn asked(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().expect("SEED and SEEDS are numbers"))
}

/// What a search came to.
#[derive(Default)]
struct Search {
    // The smallest seed that failed, and what was wrong.
    failed: Option<(u64, Report)>,
    bound: usize,
    leaders: usize,
    late: usize,
    overloads: usize,
}

/// Runs seeds on two threads until one fails.
fn search(seeds: u64, planted: Option<Plant>) -> Search {
    let next = AtomicU64::new(0);
    let search = Mutex::new(Search::default());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds || search.lock().unwrap().failed.is_some() {
                        return;
                    }
                    let report = run(seed, planted);
                    let mut search = search.lock().unwrap();
                    search.bound += report.bound;
                    search.leaders += report.leaders;
                    search.late += report.excused.late;
                    search.overloads += report.excused.overloads;
                    let is_smaller = search.failed.as_ref().is_none_or(|(smallest, _)| seed < *smallest);
                    if report.problem.is_some() && is_smaller {
                        search.failed = Some((seed, report));
                    }
                }
            });
        }
    });
    search.into_inner().unwrap()
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
    let Search { failed, bound, leaders, late, overloads } = search(seeds, None);
    if let Some((seed, report)) = failed {
        let from = report.trace.len().saturating_sub(200);
        let last = report.trace[from..].join("\n");
        let problem = report.problem.unwrap_or_default();
        panic!("{last}\nseed {seed}: {problem}\nreplay it with: make sim-scheduler SEED={seed}");
    }
    eprintln!(
        "{seeds} seeds: {bound} bindings sent, {leaders} leaderships; {late} bindings left their machine after a lease that they \
         were sent under, and {overloads} nodes got too much by that"
    );
    let seeds = usize::try_from(seeds).unwrap();
    assert!(late * 4 <= seeds + 4, "few runs have such bindings: {late} in {seeds} runs");
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

/// Within how many seeds each planted bug is found. `None`: how soon was not measured; `PLANT=` names it to search for it.
const PLANTS: &[(Plant, Option<u64>)] = &[
    (Plant::ForgetsAssume, Some(20)),
    (Plant::TakesOverEarly, Some(20)),
    (Plant::IgnoresDeletion, Some(60)),
    (Plant::UndoesUnknown, Some(40)),
    (Plant::TrustsUnknown, Some(20)),
    (Plant::ForgetsEarly, Some(20)),
    (Plant::RenewsFromEnd, Some(60)),
    (Plant::BindsWithoutLease, Some(60)),
    (Plant::LosesWake, Some(20)),
    (Plant::SkipsVersion, None),
    (Plant::ListsWithoutDeletes, Some(40)),
    (Plant::KeepsNomination, Some(20)),
    (Plant::BindsByName, Some(20)),
    (Plant::ReleasesEarly, Some(20)),
    (Plant::ReleasesUnfinished, None),
    (Plant::RetriesWithoutLease, Some(60)),
    (Plant::TrustsOldView, Some(60)),
    (Plant::TellsNothingAgain, Some(20)),
];

/// Seeds for a planted bug that is searched for by its name.
const NAMED_SEEDS: u64 = 1_000;

#[test]
fn planted_bugs_are_found() {
    let name = std::env::var("PLANT").unwrap_or_default();
    let mut missed = Vec::new();
    for (plant, seeds) in PLANTS {
        let seeds = match (name.as_str(), seeds) {
            ("", Some(seeds)) => *seeds,
            (name, _) if format!("{plant:?}") == name => asked("SEEDS").unwrap_or(NAMED_SEEDS),
            _ => continue,
        };
        match search(seeds, Some(*plant)).failed {
            Some((seed, report)) => {
                eprintln!("{plant:?}: seed {seed}: {}", report.problem.unwrap_or_default());
            }
            None => missed.push(format!("{plant:?} is not found within {seeds} seeds")),
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
