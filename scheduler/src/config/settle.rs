//! The configuration in force: the file or the deprecated flags, with defaults, checked.

use std::path::{Path, PathBuf};
use std::time::Duration;

use orch_proto::Brand;
use serde_json::Value;

use super::arguments::PluginArgs;
use super::defaults::{completed_args, merged_plugins};
use super::document::to_yaml;
use super::file::{self, Loaded, unreadable};
use super::flags::{DeprecatedFlags, ElectionFlags, Flags};
use super::names::{configuration_kind, group_version};
use super::profile::{Draft, Profile};
use super::types::{ClientConnection, Extender, FileConfiguration, LeaderElection};
use super::validate;
use super::wire::Wire;

/// The configuration after the file, the flags and the defaults, and before profiles are set up.
#[derive(Clone, Debug)]
pub struct Settled {
    brand: &'static Brand,
    file: FileConfiguration,
    drafts: Vec<Draft>,
    pod_max_in_unschedulable: Duration,
}

/// The configuration in force.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// Names on the wire.
    pub brand: &'static Brand,
    /// The connection to the API server.
    pub client: ClientConnection,
    /// Leader election.
    pub election: LeaderElection,
    /// Nodes that are looked at beside each other.
    pub parallelism: usize,
    /// Percentage of the nodes that are scored; 0 for all.
    pub percentage_of_nodes_to_score: i32,
    /// Time until an unschedulable pod is first tried again.
    pub pod_initial_backoff: Duration,
    /// Most time between two tries of a pod.
    pub pod_max_backoff: Duration,
    /// Longest time that a pod stays in the unschedulable set.
    pub pod_max_in_unschedulable: Duration,
    /// Profiles, each of another scheduler name; at least one.
    pub profiles: Vec<Profile>,
    /// Servers that take part in scheduling.
    pub extenders: Vec<Extender>,
    /// Whether a standby waits with its caches until it leads.
    pub delay_cache_until_active: bool,
    /// Whether profiles of the process are served.
    pub profiling: bool,
    /// Whether waits for locks are profiled, too.
    pub contention_profiling: bool,
    document: FileConfiguration,
}

/// Reads the file that `flags` name, or the flags that stand for it, and checks the result.
pub fn settle(flags: &Flags, brand: &'static Brand) -> Result<Settled, String> {
    let loaded = match &flags.configuration.config {
        Some(path) => Some(file::load(path, brand)?),
        None => None,
    };
    let is_file = loaded.is_some();
    let Loaded { mut configuration, args } = loaded.unwrap_or_else(|| Loaded {
        configuration: FileConfiguration {
            api_version: group_version(brand),
            kind: configuration_kind(brand),
            ..FileConfiguration::default()
        },
        args: Vec::new(),
    });
    configuration.set_defaults(brand);
    let mut args = args.into_iter();
    let draft = |profile: &super::types::FileProfile| {
        let sets = merged_plugins(profile.plugins.as_ref());
        let plugin_config = completed_args(args.next().unwrap_or_default(), &sets, brand);
        Draft {
            scheduler_name: profile.scheduler_name.clone().unwrap_or_default(),
            percentage_of_nodes_to_score: profile.percentage_of_nodes_to_score,
            sets,
            plugin_config,
        }
    };
    let drafts: Vec<Draft> = configuration.profiles.iter().map(draft).collect();
    if !is_file {
        apply_deprecated(&mut configuration, &flags.deprecated);
    }
    apply_election(&mut configuration.leader_election, &flags.election);
    if is_file {
        validate::check(&configuration, &drafts, brand)?;
    }
    let pod_max_in_unschedulable = flags.deprecated.pod_max_in_unschedulable_pods_duration.duration();
    Ok(Settled { brand, file: configuration, drafts, pod_max_in_unschedulable })
}

/// The flags that a file replaces, by name, of those that were given: they are ignored beside one.
pub fn ignored_flags(flags: &Flags, brand: &Brand) -> Vec<String> {
    let DeprecatedFlags {
        client_config,
        api_qps,
        api_burst,
        api_content_type,
        profiling,
        contention_profiling,
        lock_object_name,
        lock_object_namespace,
        pod_max_in_unschedulable_pods_duration: _,
    } = &flags.deprecated;
    let prefix = brand.component_prefix;
    let given = [
        (client_config.is_some(), format!("--{prefix}config")),
        (api_qps.is_some(), format!("--{prefix}-api-qps")),
        (api_burst.is_some(), format!("--{prefix}-api-burst")),
        (api_content_type.is_some(), format!("--{prefix}-api-content-type")),
        (profiling.is_some(), "--profiling".to_owned()),
        (contention_profiling.is_some(), "--contention-profiling".to_owned()),
        (lock_object_name.is_some(), "--lock-object-name".to_owned()),
        (lock_object_namespace.is_some(), "--lock-object-namespace".to_owned()),
    ];
    let is_ignored = flags.configuration.config.is_some();
    given.into_iter().filter(|(is_given, _)| *is_given && is_ignored).map(|(_, name)| name).collect()
}

fn apply_deprecated(configuration: &mut FileConfiguration, flags: &DeprecatedFlags) {
    let client = &mut configuration.client_connection;
    if let Some(path) = &flags.client_config {
        client.client_config = path.to_string_lossy().into_owned();
    }
    replace(&mut client.qps, flags.api_qps);
    replace(&mut client.burst, flags.api_burst);
    replace(&mut client.content_type, flags.api_content_type.clone());
    replace(&mut configuration.enable_profiling, flags.profiling.map(Some));
    replace(&mut configuration.enable_contention_profiling, flags.contention_profiling.map(Some));
    let election = &mut configuration.leader_election;
    replace(&mut election.resource_name, flags.lock_object_name.clone());
    replace(&mut election.resource_namespace, flags.lock_object_namespace.clone());
}

fn apply_election(election: &mut LeaderElection, flags: &ElectionFlags) {
    replace(&mut election.leader_elect, flags.leader_elect.map(Some));
    replace(&mut election.lease_duration, flags.leader_elect_lease_duration);
    replace(&mut election.renew_deadline, flags.leader_elect_renew_deadline);
    replace(&mut election.retry_period, flags.leader_elect_retry_period);
    replace(&mut election.resource_lock, flags.leader_elect_resource_lock.clone());
    replace(&mut election.resource_name, flags.leader_elect_resource_name.clone());
    replace(&mut election.resource_namespace, flags.leader_elect_resource_namespace.clone());
}

fn replace<T>(field: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *field = given;
    }
}

impl Settled {
    /// The client configuration file; `None` for the cluster in which the process runs.
    pub fn client_config(&self) -> Option<&Path> {
        let path = &self.file.client_connection.client_config;
        (!path.is_empty()).then(|| Path::new(path))
    }

    /// Leader election.
    pub fn election(&self) -> &LeaderElection {
        &self.file.leader_election
    }

    /// Sets the profiles up.
    pub fn complete(self) -> Result<Configuration, String> {
        let Settled { brand, mut file, mut drafts, pod_max_in_unschedulable } = self;
        for draft in &mut drafts {
            leave_to_extenders(draft, &file.extenders);
        }
        let profiles: Vec<Profile> = drafts.into_iter().map(Draft::build).collect::<Result<_, _>>()?;
        file.profiles = profiles.iter().map(|profile| profile.to_file(brand)).collect();
        let seconds = |value: Option<i64>| {
            Duration::from_secs(value.and_then(|value| u64::try_from(value).ok()).unwrap_or_default())
        };
        Ok(Configuration {
            brand,
            client: file.client_connection.clone(),
            election: file.leader_election.clone(),
            parallelism: file.parallelism.and_then(|value| usize::try_from(value).ok()).unwrap_or(1),
            percentage_of_nodes_to_score: file.percentage_of_nodes_to_score.unwrap_or_default(),
            pod_initial_backoff: seconds(file.pod_initial_backoff_seconds),
            pod_max_backoff: seconds(file.pod_max_backoff_seconds),
            pod_max_in_unschedulable,
            profiles,
            extenders: file.extenders.clone(),
            delay_cache_until_active: file.delay_cache_until_active,
            profiling: file.enable_profiling.unwrap_or_default(),
            contention_profiling: file.enable_contention_profiling.unwrap_or_default(),
            document: file,
        })
    }
}

/// Adds resources that extenders manage alone to those that `NodeResourcesFit` ignores.
fn leave_to_extenders(draft: &mut Draft, extenders: &[Extender]) {
    let resources = extenders.iter().flat_map(|extender| &extender.managed_resources);
    let ignored: Vec<String> = resources
        .filter(|resource| resource.ignored_by_scheduler)
        .map(|resource| resource.name.clone())
        .collect();
    for config in &mut draft.plugin_config {
        if let PluginArgs::NodeResourcesFit(args) = &mut config.args {
            args.ignored_resources.extend(ignored.iter().cloned());
        }
    }
}

impl Configuration {
    /// The configuration as a document.
    pub fn to_document(&self) -> Value {
        self.document.encode(self.brand)
    }

    /// The text that `--write-config-to` writes.
    pub fn to_yaml(&self) -> String {
        to_yaml(&self.to_document())
    }

    /// Writes the configuration to the file `path`.
    pub fn write_to(&self, path: &PathBuf) -> Result<(), String> {
        std::fs::write(path, self.to_yaml()).map_err(|error| unreadable(path, &error))
    }
}
