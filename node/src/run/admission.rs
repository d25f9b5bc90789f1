//! The admission plugins of a node, from its flags and the file that they name.

use orch_api::admission::{PluginSelection, Settings, TolerationSeconds};

use super::error::RunError;
use crate::access::admission::{self, HookFiles};
use crate::cli::AdmissionArgs;

/// Checks the flags and reads the configurations of plugins, and the files of credentials for webhooks that these name.
pub(super) fn plan(arguments: &AdmissionArgs) -> Result<(Settings, HookFiles), RunError> {
    let (on, off) = (&arguments.enable_admission_plugins, &arguments.disable_admission_plugins);
    let selection = PluginSelection::parse(on, off).map_err(RunError::Flags)?;
    let toleration_seconds = TolerationSeconds {
        not_ready: arguments.default_not_ready_toleration_seconds,
        unreachable: arguments.default_unreachable_toleration_seconds,
    };
    let settings = Settings { selection, toleration_seconds, ..Settings::default() };
    match &arguments.admission_control_config_file {
        Some(path) => admission::read(path, settings)
            .map_err(|source| RunError::Access { flag: "admission-control-config-file", source }),
        None => Ok((settings, HookFiles::default())),
    }
}
