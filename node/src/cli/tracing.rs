//! The flag of traces, under the reference's name.

use std::path::PathBuf;

use clap::Args;

const HEADING: &str = "Traces";

/// Flags of traces.
#[derive(Clone, Debug, Args)]
pub struct TracingArgs {
    /// File of kind TracingConfiguration: the OTLP endpoint and the sampling rate. Without it no trace is recorded
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub tracing_config_file: Option<PathBuf>,
}
