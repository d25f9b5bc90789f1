//! `power`: power losses under the disk of a member, again and again.
//!
//! `--crashes 500` runs five hundred power losses from `--seed`. `--lie` plants a disk that reports syncs it has not
//! done, which must then be detected. Exits with 1 if a promise was broken, if a lie was not detected, or if the harness
//! failed. The subcommand `member` is the process that loses power; the main process starts it.
#![expect(clippy::print_stdout, reason = "a command line tool")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use clap::{Parser, Subcommand};
use orch_cluster_tests::power::image::{Lie, Writeback};
use orch_cluster_tests::power::member;
use orch_cluster_tests::power::run::{BrokenPromise, LIES, Options, run};

/// Power losses under the RocksDB disk of a member.
#[derive(Debug, Parser)]
struct Arguments {
    /// Number of power losses.
    #[arg(long, default_value_t = 500)]
    crashes: u32,
    /// Seed of the run; by default drawn from the clock.
    #[arg(long)]
    seed: Option<u64>,
    /// A planted bug: syncs that are reported but not done.
    #[arg(long, value_parser = lie)]
    lie: Option<Lie>,
    /// Order in which unsynced writes survive a power loss: ordered, torn or scattered.
    #[arg(long, default_value = "scattered", value_parser = writeback)]
    writeback: Writeback,
    /// Directory for the evidence of a failure.
    #[arg(long)]
    evidence: Option<PathBuf>,
    #[command(subcommand)]
    process: Option<Process>,
}

#[derive(Debug, Subcommand)]
enum Process {
    /// The process that loses power.
    Member {
        /// Its directory.
        path: PathBuf,
        /// Seed of its operations.
        seed: u64,
        /// The number of its first operation.
        number: u64,
    },
}

fn lie(name: &str) -> Result<Lie, String> {
    let found = LIES.iter().find(|(known, _)| *known == name).map(|(_, lie)| *lie);
    found.ok_or_else(|| format!("one of: {}", LIES.map(|(name, _)| name).join(", ")))
}

fn writeback(name: &str) -> Result<Writeback, String> {
    match name {
        "ordered" => Ok(Writeback::Ordered),
        "torn" => Ok(Writeback::Torn),
        "scattered" => Ok(Writeback::Scattered),
        _ => Err("one of: ordered, torn, scattered".to_owned()),
    }
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    if let Some(Process::Member { path, seed, number }) = arguments.process {
        return member::work(&path, seed, number).map(|()| ExitCode::SUCCESS);
    }
    let fresh = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_secs());
    let seed = arguments.seed.unwrap_or_else(fresh);
    println!("seed {seed}");
    let options = Options {
        seed,
        crashes: arguments.crashes,
        lie: arguments.lie.unwrap_or(Lie::None),
        writeback: arguments.writeback,
        program: std::env::current_exe()?,
        evidence: arguments.evidence,
    };
    let begun = Instant::now();
    let (report, outcome) = run(&options);
    println!("{report:?} in {:.1} s", begun.elapsed().as_secs_f64());
    if let Err(error) = &outcome {
        println!("{error:#}");
    }
    let is_expected = match &outcome {
        Ok(()) => arguments.lie.is_none(),
        Err(error) => arguments.lie.is_some() && error.is::<BrokenPromise>(),
    };
    Ok(if is_expected { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
