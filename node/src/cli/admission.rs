//! Flags of admission plugins.
//!
//! Owns their names, which are the reference's; `run` checks the values.

use std::path::PathBuf;

use clap::Args;

const ADMISSION: &str = "Admission";

/// Flags of admission plugins.
#[derive(Clone, Debug, Args)]
pub struct AdmissionArgs {
    /// Admission plugins to ask, beside those that are asked by default
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', help_heading = ADMISSION)]
    pub enable_admission_plugins: Vec<String>,
    /// Admission plugins not to ask
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', help_heading = ADMISSION)]
    pub disable_admission_plugins: Vec<String>,
    /// Configuration of the admission plugins that have one: a document of kind AdmissionConfiguration
    #[arg(long, value_name = "FILE", help_heading = ADMISSION)]
    pub admission_control_config_file: Option<PathBuf>,
    /// How long a pod stays on a node that is not ready, in seconds, unless it has a toleration for it
    #[arg(long, value_name = "SECONDS", default_value_t = 300, help_heading = ADMISSION)]
    pub default_not_ready_toleration_seconds: i64,
    /// How long a pod stays on a node that is unreachable, in seconds, unless it has a toleration for it
    #[arg(long, value_name = "SECONDS", default_value_t = 300, help_heading = ADMISSION)]
    pub default_unreachable_toleration_seconds: i64,
}
