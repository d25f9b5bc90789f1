//! `upgrade`: replaces an older program in a cluster of processes member by member, under load, and tries to go back.
#![expect(clippy::print_stdout, reason = "the report is what this program is for")]

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use orch_cluster_tests::upgrade::{Options, run};

fn main() -> Result<ExitCode> {
    let report = run(&Options::parse())?;
    println!("{report}");
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
