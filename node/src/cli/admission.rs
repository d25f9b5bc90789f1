//! Flags of admission plugins.
//!
//! Owns their names, which are the reference's; `run` checks the values.

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
}
