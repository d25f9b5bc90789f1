//! `attacks`: attacks clusters of the programs beside it and prints what that costs them and a second client.
#![expect(clippy::print_stdout, reason = "the figures are what this program is for")]

use anyhow::Result;
use clap::Parser;
use orch_cluster_tests::attacks::{Options, run};

fn main() -> Result<()> {
    println!("{}", run(&Options::parse())?);
    Ok(())
}
