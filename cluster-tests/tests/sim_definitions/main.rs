//! Definitions of custom kinds over simulated clusters: created, changed, deleted and created again under the same name, while
//! clients write, watch and list objects of them on all members, and members die, lag and install snapshots.
//!
//! ```text
//!   definers, writers, owners ──HTTP──> the API of simulated members ──> Raft, disks, network
//!   informers <──lists, watches──┘                        │
//!                                    ledger of all changes ──> judge
//! ```
//!
//! The members are those of [`orch_cluster_tests::sim`], with its faults and its oracles. Each change of a definition is another
//! *edition*: its schemas have the edition as the default of a field, so that every object and every answer says which schema it
//! was made by. `SEED=17` replays a run and prints its events, `SEEDS=1000` searches further, `PLANT=keeps-tables` plants one bug only.

mod clients;
mod documents;
mod informer;
mod judge;
mod plant;
mod run;
mod settling;
mod sightings;

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use plant::{BUGS, Bug};
use run::{Report, run};

/// Seeds that are searched where nothing else is asked for.
const SEEDS: u64 = 6;

/// Seeds for a planted bug: every change of the product moves the seeds that find it.
const BUG_SEEDS: u64 = 60;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().expect("SEED and SEEDS are numbers"))
}

/// What a search came to.
#[derive(Default)]
struct Search {
    /// The smallest seed that failed, and its report.
    failed: Option<(u64, Report)>,
    judged: judge::Judged,
    untold: usize,
}

/// Runs seeds on two threads until one fails.
fn search(seeds: Range<u64>, bug: Option<Bug>) -> Search {
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
                    let report = run(seed, bug);
                    search.lock().expect("no run panics").note(seed, report);
                }
            });
        }
    });
    search.into_inner().expect("no run panics")
}

impl Search {
    fn note(&mut self, seed: u64, report: Report) {
        self.judged.add(report.judged);
        self.untold += usize::from(report.is_untold);
        let is_smaller = self.failed.as_ref().is_none_or(|(smallest, _)| seed < *smallest);
        if report.failure.is_some() && is_smaller {
            self.failed = Some((seed, report));
        }
    }
}

#[test]
fn definitions_of_a_simulated_cluster_keep_their_promises() {
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
        panic!("{last}\nseed {seed}: {failure}\nreplay it with: make sim-definitions SEED={seed}");
    }
    let Search { judged, untold, .. } = found;
    eprintln!("{seeds} seeds: {judged}, {untold} runs could not be judged");
    let seeds = usize::try_from(seeds).expect("seeds are few");
    // A run has several times as many of each.
    assert!(judged.editions > seeds * 4, "definitions are changed: {judged}");
    assert!(judged.endings > seeds, "definitions end: {judged}");
    assert!(judged.written > seeds * 10, "objects are written: {judged}");
    assert!(judged.answers > seeds * 10, "answers are judged: {judged}");
    assert!(untold * 4 <= seeds, "runs can be judged: {untold} of {seeds} could not");
}

#[test]
fn a_seed_replays_its_run() {
    let (first, second) = (run(1, None), run(1, None));
    let differ = first.trace.iter().zip(&second.trace).find(|(one, other)| one != other);
    assert_eq!(differ, None);
    assert_eq!(first.hash, second.hash);
    assert_ne!(first.hash, run(2, None).hash, "seeds differ");
}

#[test]
fn planted_bugs_are_found() {
    let name = std::env::var("PLANT").unwrap_or_default();
    let mut missed = Vec::new();
    for (known, bug, first, reasons) in BUGS {
        if !name.is_empty() && name != known {
            continue;
        }
        let seeds = first..first + BUG_SEEDS;
        match search(seeds.clone(), Some(bug)).failed {
            Some((seed, report)) => {
                let failure = report.failure.unwrap_or_default();
                eprintln!("{known}: seed {seed}: {failure}");
                if !reasons.iter().any(|reason| failure.contains(reason)) {
                    missed.push(format!("{known} fails as `{failure}`"));
                }
            }
            None => missed.push(format!("{known} is not found by the seeds {seeds:?}")),
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
