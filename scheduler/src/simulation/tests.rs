//! Searches seeds for a failure, replays one, and shows that planted bugs are found.
//!
//! `SEED=17` replays a run and prints what happened in it; `SEEDS=10000` searches further; `PLANT=BindsByName` plants one
//! bug only, and prints the seed that finds it. `FROM=7 STEP=8` searches only among the seeds of a theme.

use std::ops::Range;
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

/// Runs seeds on two threads until one fails for `reason`: its problem contains it.
fn search(seeds: Range<u64>, planted: Option<Plant>, reason: &str) -> Search {
    let step = asked("STEP").unwrap_or(1);
    let next = AtomicU64::new(seeds.start);
    let search = Mutex::new(Search::default());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(step, Ordering::Relaxed);
                    if seed >= seeds.end || search.lock().unwrap().failed.is_some() {
                        return;
                    }
                    let report = run(seed, planted);
                    let mut search = search.lock().unwrap();
                    search.bound += report.bound;
                    search.leaders += report.leaders;
                    search.late += report.excused.late;
                    search.overloads += report.excused.overloads;
                    let is_smaller = search.failed.as_ref().is_none_or(|(smallest, _)| seed < *smallest);
                    let is_found = report.problem.as_ref().is_some_and(|problem| problem.contains(reason));
                    if let Some(problem) = report.problem.as_ref().filter(|_| !is_found) {
                        eprintln!("seed {seed}, by a side effect: {problem}");
                    }
                    if is_found && is_smaller {
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
    let from = asked("FROM").unwrap_or_default();
    let Search { failed, bound, leaders, late, overloads } = search(from..from + seeds, None, "");
    if let Some((seed, report)) = failed {
        let from = report.trace.len().saturating_sub(200);
        let last = report.trace[from..].join("\n");
        let problem = report.problem.unwrap_or_default();
        panic!("{last}\nseed {seed}: {problem}\nreplay it with: make sim-scheduler SEED={seed}");
    }
    eprintln!(
        "{seeds} seeds: {bound} pods bound, {leaders} leaderships; {late} bindings left their machine after a lease that they \
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

/// The seeds within which each planted bug is found, and a part of what it is found as: the promise that it breaks. Where a
/// change of the product or of the faults moves them, `PLANT=` names one to search for it. An empty range: no seed is known.
const PLANTS: [(Plant, Range<u64>, &str); 27] = [
    (Plant::ForgetsAssume, 0..3, "offers"),
    (Plant::TakesOverEarly, 13..16, "lead"),
    (Plant::IgnoresDeletion, 4..7, "has no node in the end, and"),
    (Plant::UndoesUnknown, 8..11, "offers"),
    (Plant::TrustsUnknown, 0..3, "told `Successfully assigned"),
    (Plant::ForgetsEarly, 0..3, "offers"),
    (Plant::RenewsFromEnd, 9..10, "after its lease ended by its own clock"),
    (Plant::BindsWithoutLease, 13..15, "after its lease ended by its own clock"),
    (Plant::EvictsWithoutLease, 15..16, "sends Eviction"),
    (Plant::LosesWake, 4..8, "has no node in the end, and"),
    (Plant::SkipsVersion, 0..3, "has no node in the end"),
    (Plant::ListsWithoutDeletes, 0..0, "has no node in the end, and"),
    (Plant::KeepsNomination, 3..6, "has no node in the end, and"),
    (Plant::BindsByName, 3..5, "told `Successfully assigned"),
    (Plant::ReleasesEarly, 4..8, "arrives, while the lease names"),
    (Plant::ReleasesUnfinished, 759..760, "arrives, while the lease names"),
    (Plant::RetriesWithoutLease, 13..16, "after its lease ended by its own clock"),
    (Plant::TrustsOldView, 652..653, "offers"),
    (Plant::TellsNothingAgain, 98..99, "has no node in the end, and"),
    (Plant::PatchesBesideBinding, 60..61, "is on n"),
    (Plant::ForgetsDevices, 5..6, "belongs to the claims"),
    (Plant::BindsBeforeVolumes, 8..9, "and the volume of its claim"),
    (Plant::TrustsAnyVolume, 56..57, "and the volume of its claim"),
    (Plant::NamesNoClaim, 10..11, "and its claim"),
    (Plant::TrustsSilentExtenders, 27..28, "and the extender let through"),
    (Plant::ReservesAnyDevices, 0..0, "its device on"),
    (Plant::PatchesLate, 0..3, "says that it has none"),
];

/// Seeds for a planted bug that is searched for by its name.
const NAMED_SEEDS: u64 = 1_000;

#[test]
fn planted_bugs_are_found() {
    let name = std::env::var("PLANT").unwrap_or_default();
    let mut missed = Vec::new();
    for (plant, seeds, reason) in PLANTS {
        let seeds = match name.as_str() {
            "" if seeds.is_empty() => continue,
            "" => seeds,
            name if format!("{plant:?}") == name => {
                asked("FROM").unwrap_or(0)..asked("SEEDS").unwrap_or(NAMED_SEEDS)
            }
            _ => continue,
        };
        match search(seeds.clone(), Some(plant), reason).failed {
            Some((seed, report)) => {
                eprintln!("{plant:?}: seed {seed}: {}", report.problem.unwrap_or_default());
            }
            None => missed.push(format!("{plant:?} is not found within the seeds {seeds:?}")),
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
