//! The admission plugins of a node, from its flags.

use orch_api::admission::PluginSelection;

use super::error::RunError;
use crate::cli::AdmissionArgs;

/// Checks the names of the flags.
pub(super) fn plan(arguments: &AdmissionArgs) -> Result<PluginSelection, RunError> {
    let (on, off) = (&arguments.enable_admission_plugins, &arguments.disable_admission_plugins);
    PluginSelection::parse(on, off).map_err(RunError::Flags)
}
