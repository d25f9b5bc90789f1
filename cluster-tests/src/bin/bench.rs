//! `bench`: measures any server of this API over TLS and prints the figures beside the reference's.
#![expect(clippy::print_stdout, reason = "the figures are what this program is for")]

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use orch_cluster_tests::load::{Options, run};

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let report = run(&options)?;
    println!("{report}");
    if let Some(path) = &options.json {
        let text = serde_json::to_string_pretty(&report)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let failed = report.errors() > 0 || report.idle_works() > 0;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
