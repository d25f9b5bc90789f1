//! `bench`: measures any server of this API over TLS and prints the figures beside the reference's.
#![expect(clippy::print_stdout, reason = "the figures are what this program is for")]

use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use orch_cluster_tests::load::{Options, run, run_scale};
use serde::Serialize;

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    if let Some(work) = &options.scale {
        let report = run_scale(work)?;
        show(&report, work.json())?;
        return Ok(if report.errors() > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    }
    let report = run(&options)?;
    show(&report, options.json.as_deref())?;
    let failed = report.errors() > 0 || report.idle_works() > 0;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn show(report: &(impl Display + Serialize), json: Option<&Path>) -> Result<()> {
    println!("{report}");
    if let Some(path) = json {
        let text = serde_json::to_string_pretty(report)?;
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
