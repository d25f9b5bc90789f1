//! Names of the configuration file's group, kinds and default objects, by the brand.

use orch_proto::Brand;

use super::wire::capitalized;

/// Group and version of the configuration file: `orchscheduler.config.orch.io/v1`.
pub(crate) fn group_version(brand: &Brand) -> String {
    format!("{}scheduler.{}/v1", brand.component_prefix, brand.group("config"))
}

/// Kind of the configuration file: `OrchSchedulerConfiguration`.
pub(crate) fn configuration_kind(brand: &Brand) -> String {
    format!("{}SchedulerConfiguration", capitalized(brand))
}

/// Kind of a plugin's arguments.
pub(crate) fn args_kind(plugin: &str) -> String {
    format!("{plugin}Args")
}

/// Name of this program as a component of the cluster: also of the default lock.
pub fn component(brand: &Brand) -> String {
    format!("{}-scheduler", brand.component_prefix)
}

/// The message about a kind that no document of a configuration has.
pub(crate) fn not_registered(kind: &str, version: &str) -> String {
    format!("no kind {kind:?} is registered for version {version:?} in scheme \"scheduler/config\"")
}
