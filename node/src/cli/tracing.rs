//! The flag of traces, under the reference's name.

use std::path::PathBuf;

use clap::Args;

const HEADING: &str = "Traces";

/// Flags of traces.
#[derive(Clone, Debug, Args)]
pub struct TracingArgs {
    /// Which traces are recorded, and the collector that gets them over OTLP: a document of kind TracingConfiguration. Without it
    /// none are
    #[arg(long, value_name = "FILE", help_heading = HEADING)]
    pub tracing_config_file: Option<PathBuf>,
}
