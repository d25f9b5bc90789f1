//! Rules of the configuration, with the reference's messages.
//!
//! Owns what can be said without opening a file or asking a server. Rules of single profiles that need the plugins'
//! extension points are in [`super::profile`].

mod args;

use orch_proto::Brand;

use super::faults::{Faults, Verbatim};
use super::notation::quote;
use super::profile::Draft;
use super::qualified_name::{self, is_extended_resource};
use super::types::{Extender, FileConfiguration, LeaderElection, Plugin, PluginSet};
use args::check_args;
pub(super) use args::fit_args_faults;

/// The kinds of locks.
pub(crate) const LOCKS: [&str; 3] = ["leases", "endpointsleases", "configmapsleases"];
/// Plugins of former versions.
const REMOVED_PLUGINS: [&str; 4] = ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"];

/// Checks a configuration with defaults, and the drafts of its profiles.
pub(super) fn check(
    configuration: &FileConfiguration,
    drafts: &[Draft],
    brand: &Brand,
) -> Result<(), String> {
    let mut faults = Faults::default();
    if configuration.client_connection.burst < 0 {
        let burst = configuration.client_connection.burst;
        faults.invalid("clientConnection.burst", burst, "must be non-negative");
    }
    check_election(&configuration.leader_election, &mut faults);
    if let Some(parallelism) = configuration.parallelism.filter(|parallelism| *parallelism <= 0) {
        faults.invalid("parallelism", parallelism, "should be an integer value greater than zero");
    }
    for (at, draft) in drafts.iter().enumerate() {
        check_profile(&format!("profiles[{at}]"), draft, brand, &mut faults);
        if drafts[..at].iter().any(|earlier| earlier.scheduler_name == draft.scheduler_name) {
            // The reference shows the other profile's path, which has no visible form.
            faults.duplicate(&format!("profiles[{at}].schedulerName"), "{}");
        }
    }
    check_common_queue_sort(drafts, &mut faults);
    check_percentage("percentageOfNodesToScore", configuration.percentage_of_nodes_to_score, &mut faults);
    let initial = configuration.pod_initial_backoff_seconds.unwrap_or_default();
    let max = configuration.pod_max_backoff_seconds.unwrap_or_default();
    if initial <= 0 {
        faults.invalid("podInitialBackoffSeconds", initial, "must be greater than 0");
    }
    if max < initial {
        faults.invalid(
            "podMaxBackoffSeconds",
            max,
            "must be greater than or equal to PodInitialBackoffSeconds",
        );
    }
    check_extenders(&configuration.extenders, brand, &mut faults);
    faults.result()
}

fn check_election(election: &LeaderElection, faults: &mut Faults) {
    if election.leader_elect != Some(true) {
        return;
    }
    for (field, span) in [
        ("leaderElection.leaseDuration", election.lease_duration),
        ("leaderElection.renewDeadline", election.renew_deadline),
        ("leaderElection.retryPeriod", election.retry_period),
    ] {
        if !span.is_positive() {
            faults.invalid(field, span, "must be greater than zero");
        }
    }
    if election.lease_duration <= election.renew_deadline {
        // The reference shows the renew deadline here.
        faults.invalid(
            "leaderElection.leaseDuration",
            election.renew_deadline,
            "must be greater than `RenewDeadline`",
        );
    }
    for (field, text) in [
        ("leaderElection.resourceLock", &election.resource_lock),
        ("leaderElection.resourceNamespace", &election.resource_namespace),
        ("leaderElection.resourceName", &election.resource_name),
    ] {
        if text.is_empty() {
            faults.required(field, "");
        }
    }
    if !LOCKS.contains(&election.resource_lock.as_str()) {
        let lock = election.resource_lock.as_str();
        let known = LOCKS.map(quote).join(" or ");
        faults.invalid("leaderElection.resourceLock", lock, format!("resourceLock value must be {known}"));
    }
}

fn check_percentage(path: &str, percentage: Option<i32>, faults: &mut Faults) {
    if let Some(percentage) = percentage.filter(|percentage| !(0..=100).contains(percentage)) {
        faults.invalid(path, percentage, "not in valid range [0-100]");
    }
}

fn check_profile(path: &str, draft: &Draft, brand: &Brand, faults: &mut Faults) {
    if draft.scheduler_name.is_empty() {
        faults.required(&format!("{path}.schedulerName"), "");
    }
    let percentage = format!("{path}.percentageOfNodesToScore");
    check_percentage(&percentage, draft.percentage_of_nodes_to_score, faults);
    let version = super::names::group_version(brand);
    let rule = format!(
        "was invalid in version {version:?} ({} is version {version:?})",
        super::names::configuration_kind(brand)
    );
    for (point, set) in draft.sets.by_point() {
        for (at, plugin) in set.enabled.iter().enumerate() {
            if REMOVED_PLUGINS.contains(&plugin.name.as_str()) {
                let path = format!("{path}.plugins.{point}.enabled[{at}]");
                faults.invalid(&path, plugin.name.as_str(), &rule);
            }
        }
    }
    for (at, config) in draft.plugin_config.iter().enumerate() {
        let path = format!("{path}.pluginConfig[{at}]");
        if draft.plugin_config[..at].iter().any(|earlier| earlier.name == config.name) {
            faults.duplicate(&path, &quote(&config.name));
        }
        if REMOVED_PLUGINS.contains(&config.name.as_str()) {
            faults.invalid(&path, config.name.as_str(), &rule);
        } else {
            check_args(&format!("{path}.args"), &config.args, faults);
        }
    }
}

fn check_common_queue_sort(drafts: &[Draft], faults: &mut Faults) {
    let Some((first, others)) = drafts.split_first() else { return };
    let canon = &first.sets.queue_sort;
    let count = canon.enabled.len();
    if count > 1 {
        let shown = Verbatim(count.to_string());
        faults.invalid(
            "profiles[0].plugins.queueSort.Enabled",
            shown,
            "only one queue sort plugin can be enabled",
        );
    }
    for (at, draft) in others.iter().enumerate() {
        if draft.sets.queue_sort != *canon {
            let path = format!("profiles[{}].plugins.queueSort", at + 1);
            faults.invalid(&path, internal_form(&draft.sets.queue_sort), "must be the same for all profiles");
        }
    }
}

/// A plugin set as the reference shows it in messages: with the names of its internal struct.
fn internal_form(set: &PluginSet) -> Verbatim {
    let list = |plugins: &[Plugin]| match plugins {
        [] => "null".to_owned(),
        plugins => {
            let shown = plugins.iter().map(|plugin| {
                format!(
                    "{{\"Name\":{},\"Weight\":{}}}",
                    quote(&plugin.name),
                    plugin.weight.unwrap_or_default()
                )
            });
            format!("[{}]", shown.collect::<Vec<_>>().join(","))
        }
    };
    Verbatim(format!("{{\"Enabled\":{},\"Disabled\":{}}}", list(&set.enabled), list(&set.disabled)))
}

fn check_extenders(extenders: &[Extender], brand: &Brand, faults: &mut Faults) {
    let mut managed: Vec<&str> = Vec::new();
    for (at, extender) in extenders.iter().enumerate() {
        let path = format!("extenders[{at}]");
        if !extender.prioritize_verb.is_empty() && extender.weight <= 0 {
            faults.invalid(
                &format!("{path}.weight"),
                extender.weight,
                "must have a positive weight applied to it",
            );
        }
        for (at, resource) in extender.managed_resources.iter().enumerate() {
            let path = format!("{path}.managedResources[{at}].name");
            let name = resource.name.as_str();
            let form = qualified_name::faults(name);
            if form.is_empty() && !is_extended_resource(name, brand.label_domain) {
                faults.invalid(&path, name, "is an invalid extended resource name");
            }
            for fault in form {
                faults.invalid(&path, name, fault);
            }
            if managed.contains(&name) {
                faults.invalid(&path, name, "duplicate extender managed resource name");
            }
            managed.push(name);
        }
    }
    let binders = extenders.iter().filter(|extender| !extender.bind_verb.is_empty()).count();
    if binders > 1 {
        let found = format!("found {binders} extenders implementing bind");
        faults.invalid("extenders", found.as_str(), "only one extender can implement bind");
    }
}
