//! `failover`: kills the leader of a cluster of processes again and again and prints how long writes pause.
#![expect(clippy::print_stdout, reason = "the figures are what this program is for")]

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;
use orch_cluster_tests::failover::{Options, run};

fn main() -> Result<ExitCode> {
    let report = run(&Options::parse())?;
    println!("{report}");
    Ok(if report.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
