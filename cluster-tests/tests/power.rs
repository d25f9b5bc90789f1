//! Power losses under the RocksDB disk of a member: none breaks a promise, and a disk that lies about syncs is
//! detected.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use orch_cluster_tests::power::image::{Lie, Writeback};
use orch_cluster_tests::power::run::{BrokenPromise, LIES, Options, Report, run};

/// Power losses of a fresh seed, and of the fixed one: about 36 s each. `make power` runs five hundred.
const CRASHES: u32 = 60;
/// Upper bound: lies are detected well before.
const CRASHES_OF_LIARS: u32 = 60;

fn options(seed: u64, crashes: u32, lie: Lie) -> Options {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_power"));
    Options { seed, crashes, lie, writeback: Writeback::Scattered, program, evidence: None }
}

fn survives(seed: u64) -> Report {
    eprintln!("seed {seed}");
    let (report, outcome) = run(&options(seed, CRASHES, Lie::None));
    eprintln!("{report:?}");
    if let Err(error) = outcome {
        panic!("seed {seed}: {error:#}\n{report:?}");
    }
    report
}

#[test]
fn a_disk_keeps_its_promises_through_power_losses() {
    let report = survives(17);
    // Otherwise the run proves nothing: power must be lost while opening, operations be promised, and unsynced writes
    // be lost.
    assert!(report.while_opening >= 3 && report.judged >= 10, "{report:?}");
    assert!(report.promised > 500 && report.lost > 50 && report.with_unsynced > 10, "{report:?}");
}

#[test]
fn a_disk_keeps_its_promises_under_a_fresh_seed() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    survives(now.as_secs());
}

#[test]
fn a_disk_that_lies_about_syncs_is_found_out() {
    for (name, lie) in LIES {
        let (report, outcome) = run(&options(23, CRASHES_OF_LIARS, lie));
        let error = outcome.expect_err(name);
        println!("{name}: after {} power losses: {error:#}", report.crashes);
        assert!(report.crashes > 0, "{name}: nothing was run");
        assert!(error.is::<BrokenPromise>(), "{name} was not found, the harness failed: {error:#}");
    }
}
