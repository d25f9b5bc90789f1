//! Every field of the configuration file, and the test that shows its effect.

use std::collections::BTreeSet;

use super::flag_table::tests;

/// The effect of a field.
#[derive(Clone, Copy, Debug)]
enum Effect {
    /// A test of this name shows it.
    Shown(&'static str),
    /// None, for this reason.
    None(&'static str),
}

use Effect::{None, Shown};

/// Where a plugin of this program could only stand if it had that extension point.
const NO_PLUGIN: Effect = Shown("plugins_stand_only_where_they_have_an_extension_point");

/// Fields by their struct. Structs of the API's own form stand where arguments of plugins have them.
const TABLE: &[(&str, &[(&str, Effect)])] = &[
    (
        "{Brand}SchedulerConfiguration",
        &[
            ("apiVersion", Shown("recorded_command_lines_end_as_recorded")),
            ("kind", Shown("recorded_command_lines_end_as_recorded")),
            ("parallelism", Shown("flags_without_effect_say_so")),
            ("leaderElection", Shown("flags_of_the_election_win_over_the_file_and_deprecated_ones_do_not")),
            ("clientConnection", Shown("the_first_source_that_is_given_decides")),
            ("enableProfiling", Shown("recorded_answers_are_given")),
            ("enableContentionProfiling", None("waits for locks are not recorded (docs/deviations.md)")),
            ("percentageOfNodesToScore", Shown("a_percentage_of_nodes_ends_the_search_early")),
            ("podInitialBackoffSeconds", Shown("backoff_doubles_with_rejections_up_to_the_maximum")),
            ("podMaxBackoffSeconds", Shown("backoff_doubles_with_rejections_up_to_the_maximum")),
            ("profiles", Shown("changes_of_a_profile_arrive")),
            ("extenders", Shown("every_member_arrives")),
            ("delayCacheUntilActive", Shown("a_standby_that_waits_follows_nothing_until_it_leads")),
        ],
    ),
    (
        "LeaderElectionConfiguration",
        &[
            ("leaderElect", Shown("with_leader_election_a_signal_is_an_orderly_end")),
            (
                "leaseDuration",
                Shown("a_lock_of_another_is_left_until_it_was_seen_unchanged_for_its_duration"),
            ),
            ("renewDeadline", Shown("a_leader_works_until_the_deadline_after_the_start_of_its_write")),
            ("retryPeriod", Shown("every_kind_of_lock_is_known")),
            ("resourceLock", Shown("every_kind_of_lock_is_known")),
            ("resourceName", Shown("deprecated_flags_count_without_a_file")),
            ("resourceNamespace", Shown("deprecated_flags_count_without_a_file")),
        ],
    ),
    (
        "ClientConnectionConfiguration",
        &[
            ("{brand}config", Shown("the_first_source_that_is_given_decides")),
            ("acceptContentTypes", Shown("answers_come_in_the_accepted_form_whatever_is_sent")),
            ("contentType", Shown("objects_are_created_read_changed_and_deleted_in_either_representation")),
            ("qps", Shown("a_burst_leaves_at_once_and_the_rest_at_the_rate")),
            ("burst", Shown("a_burst_leaves_at_once_and_the_rest_at_the_rate")),
        ],
    ),
    (
        "{Brand}SchedulerProfile",
        &[
            ("schedulerName", Shown("changes_of_a_profile_arrive")),
            ("percentageOfNodesToScore", Shown("a_percentage_of_nodes_ends_the_search_early")),
            ("plugins", Shown("plugins_that_are_disabled_at_a_point_do_not_run_there")),
            ("pluginConfig", Shown("each_argument_changes_its_field")),
        ],
    ),
    (
        "Plugins",
        &[
            ("preEnqueue", Shown("plugins_that_are_disabled_at_a_point_do_not_run_there")),
            ("queueSort", Shown("faults_of_profiles_are_told")),
            ("preFilter", Shown("plugins_without_anything_to_prepare_or_write_have_no_effect")),
            ("filter", Shown("plugins_that_are_disabled_at_a_point_do_not_run_there")),
            ("postFilter", Shown("fewer_candidates_of_a_preemption_may_miss_the_best")),
            ("preScore", None("what a score needs is prepared with it; the plugins are counted")),
            ("score", Shown("the_weight_of_a_plugin_decides_between_two")),
            ("reserve", None("what a pod takes is always assumed, or it would be given away twice")),
            ("permit", NO_PLUGIN),
            ("preBind", Shown("plugins_without_anything_to_prepare_or_write_have_no_effect")),
            ("bind", Shown("faults_of_profiles_are_told")),
            ("postBind", NO_PLUGIN),
            ("multiPoint", Shown("plugins_that_are_disabled_at_a_point_do_not_run_there")),
            ("placementGenerate", None("the reference has groups of pods behind a gate that is off")),
            ("placementScore", None("the reference has groups of pods behind a gate that is off")),
        ],
    ),
    (
        "PluginSet",
        &[
            ("enabled", Shown("the_weight_of_a_plugin_decides_between_two")),
            ("disabled", Shown("plugins_that_are_disabled_at_a_point_do_not_run_there")),
        ],
    ),
    (
        "Plugin",
        &[
            ("name", Shown("the_weight_of_a_plugin_decides_between_two")),
            ("weight", Shown("the_weight_of_a_plugin_decides_between_two")),
        ],
    ),
    (
        "PluginConfig",
        &[
            ("name", Shown("each_argument_changes_its_field")),
            ("args", Shown("each_argument_changes_its_field")),
        ],
    ),
    (
        "Extender",
        &[
            ("urlPrefix", Shown("a_filter_with_a_cache_of_nodes_gets_names")),
            ("filterVerb", Shown("a_filter_with_a_cache_of_nodes_gets_names")),
            ("preemptVerb", Shown("preemption_is_asked_by_uid_or_with_whole_pods")),
            ("prioritizeVerb", Shown("scores_are_weighted_on_the_scale_of_plugins")),
            ("weight", Shown("scores_are_weighted_on_the_scale_of_plugins")),
            ("bindVerb", Shown("an_extender_binds_in_the_schedulers_place")),
            ("enableHTTPS", Shown("tls_of_an_extender_makes_its_connection")),
            ("tlsConfig", Shown("tls_of_an_extender_makes_its_connection")),
            ("httpTimeout", Shown("an_extender_that_takes_too_long_has_failed")),
            ("nodeCacheCapable", Shown("a_filter_without_a_cache_gets_whole_nodes")),
            ("managedResources", Shown("only_pods_with_managed_resources_are_shown")),
            ("ignorable", Shown("an_extender_that_is_not_there_may_be_ignored_but_is_an_error")),
        ],
    ),
    (
        "ExtenderManagedResource",
        &[
            ("name", Shown("only_pods_with_managed_resources_are_shown")),
            ("ignoredByScheduler", Shown("resources_that_extenders_manage_alone_are_not_filtered_by")),
        ],
    ),
    (
        "ExtenderTLSConfig",
        &[
            ("insecure", Shown("tls_of_an_extender_makes_its_connection")),
            ("serverName", Shown("tls_of_an_extender_makes_its_connection")),
            ("certFile", Shown("every_member_arrives")),
            ("keyFile", Shown("half_a_pair_and_bytes_that_are_no_text_are_refused")),
            ("caFile", Shown("every_member_arrives")),
            ("certData", Shown("tls_of_an_extender_makes_its_connection")),
            ("keyData", Shown("every_member_arrives")),
            ("caData", Shown("every_member_arrives")),
        ],
    ),
    (
        "DefaultPreemptionArgs",
        &[
            ("minCandidateNodesPercentage", Shown("fewer_candidates_of_a_preemption_may_miss_the_best")),
            ("minCandidateNodesAbsolute", Shown("fewer_candidates_of_a_preemption_may_miss_the_best")),
        ],
    ),
    (
        "DynamicResourcesArgs",
        &[
            ("filterTimeout", Shown("a_search_gives_up_after_the_time_of_its_profile")),
            ("bindingTimeout", Shown("a_job_waits_for_devices_until_they_fail_or_take_too_long")),
        ],
    ),
    (
        "InterPodAffinityArgs",
        &[
            ("hardPodAffinityWeight", Shown("affinity_of_other_pods_weighs_as_configured")),
            ("ignorePreferredTermsOfExistingPods", Shown("affinity_of_other_pods_weighs_as_configured")),
        ],
    ),
    ("NodeAffinityArgs", &[("addedAffinity", Shown("added_affinity_requires_and_prefers_nodes"))]),
    (
        "NodeAffinity",
        &[
            (
                "requiredDuringSchedulingIgnoredDuringExecution",
                Shown("added_affinity_requires_and_prefers_nodes"),
            ),
            (
                "preferredDuringSchedulingIgnoredDuringExecution",
                Shown("added_affinity_requires_and_prefers_nodes"),
            ),
        ],
    ),
    ("NodeSelector", &[("nodeSelectorTerms", Shown("added_affinity_requires_and_prefers_nodes"))]),
    (
        "PreferredSchedulingTerm",
        &[
            ("weight", Shown("added_affinity_requires_and_prefers_nodes")),
            ("preference", Shown("added_affinity_requires_and_prefers_nodes")),
        ],
    ),
    (
        "NodeSelectorTerm",
        &[
            ("matchExpressions", Shown("added_affinity_requires_and_prefers_nodes")),
            ("matchFields", Shown("added_affinity_requires_and_prefers_nodes")),
        ],
    ),
    (
        "NodeSelectorRequirement",
        &[
            ("key", Shown("added_affinity_requires_and_prefers_nodes")),
            ("operator", Shown("added_affinity_requires_and_prefers_nodes")),
            ("values", Shown("added_affinity_requires_and_prefers_nodes")),
        ],
    ),
    (
        "NodeResourcesBalancedAllocationArgs",
        &[("resources", Shown("the_balanced_resources_choose_the_node"))],
    ),
    (
        "ResourceSpec",
        &[
            ("name", Shown("the_scoring_strategy_its_resources_and_its_curve_choose_the_node")),
            ("weight", Shown("the_scoring_strategy_its_resources_and_its_curve_choose_the_node")),
        ],
    ),
    (
        "NodeResourcesFitArgs",
        &[
            ("ignoredResources", Shown("ignored_resources_and_groups_are_not_filtered_by")),
            ("ignoredResourceGroups", Shown("ignored_resources_and_groups_are_not_filtered_by")),
            ("scoringStrategy", Shown("the_scoring_strategy_its_resources_and_its_curve_choose_the_node")),
        ],
    ),
    (
        "ScoringStrategy",
        &[
            ("type", Shown("the_scoring_strategy_its_resources_and_its_curve_choose_the_node")),
            ("resources", Shown("the_scoring_strategy_its_resources_and_its_curve_choose_the_node")),
            (
                "requestedToCapacityRatio",
                Shown("the_scoring_strategy_its_resources_and_its_curve_choose_the_node"),
            ),
        ],
    ),
    (
        "RequestedToCapacityRatioParam",
        &[("shape", Shown("the_scoring_strategy_its_resources_and_its_curve_choose_the_node"))],
    ),
    (
        "UtilizationShapePoint",
        &[
            ("utilization", Shown("the_scoring_strategy_its_resources_and_its_curve_choose_the_node")),
            ("score", Shown("the_scoring_strategy_its_resources_and_its_curve_choose_the_node")),
        ],
    ),
    (
        "PodTopologySpreadArgs",
        &[
            ("defaultConstraints", Shown("default_constraints_spread_pods")),
            ("defaultingType", Shown("default_constraints_spread_pods")),
        ],
    ),
    (
        "TopologySpreadConstraint",
        &[
            ("maxSkew", Shown("default_constraints_spread_pods")),
            ("topologyKey", Shown("default_constraints_spread_pods")),
            ("whenUnsatisfiable", Shown("default_constraints_spread_pods")),
            ("labelSelector", Shown("rules_of_arguments_have_messages")),
            ("minDomains", Shown("default_constraints_count_domains_as_configured")),
            ("nodeAffinityPolicy", Shown("default_constraints_count_domains_as_configured")),
            ("nodeTaintsPolicy", Shown("default_constraints_count_domains_as_configured")),
            ("matchLabelKeys", None("the selector is that of the pod's owners, as in the reference")),
        ],
    ),
    (
        "VolumeBindingArgs",
        &[
            ("bindTimeoutSeconds", Shown("a_claim_that_is_never_bound_ends_the_job")),
            ("shape", None("the reference scores storage behind a gate that is off")),
        ],
    ),
];

#[test]
fn every_field_of_the_file_has_a_test_that_shows_its_effect() {
    let sources = [include_str!("../../src/config/types.rs"), include_str!("../../src/config/arguments.rs")];
    let fields: BTreeSet<(&str, &str)> = sources.into_iter().flat_map(fields_of).collect();
    assert!(fields.len() > 100, "{}", fields.len());
    let rows = TABLE.iter().flat_map(|(owner, rows)| rows.iter().map(move |row| (*owner, *row)));
    let listed: BTreeSet<(&str, &str)> = rows.clone().map(|(owner, (field, _))| (owner, field)).collect();
    assert_eq!(fields, listed);
    let tests = tests();
    for (owner, (field, effect)) in rows {
        match effect {
            Shown(test) => assert!(tests.contains(test), "{owner}.{field}: there is no test {test}"),
            None(reason) => assert!(!reason.is_empty(), "{owner}.{field}"),
        }
    }
}

/// The fields that a source states by `wire!`, with the names of their structs in documents.
fn fields_of(source: &str) -> Vec<(&str, &str)> {
    let mut fields = Vec::new();
    let mut owner = Option::None;
    for line in source.lines() {
        let quoted = || line.split('"').nth(1);
        if line.starts_with("    pub struct ") && line.ends_with('{') {
            owner = quoted().and_then(|name| name.split_once('.')).map(|(_, name)| name);
        } else if line.starts_with("    }") {
            owner = Option::None;
        } else if let (Some(owner), Some(name)) = (owner, quoted().filter(|_| line.contains(" = \""))) {
            fields.push((owner, name));
        }
    }
    fields
}
