//! Configurations from flags and files, with their defaults and errors.

use orch_proto::brand::{KUBERNETES, ORCH};

use super::flags::{Flags, parse};
use super::*;
use crate::plugin::ExtensionPoint;

const DEFAULT: &str = include_str!("../../tests/data/scheduler-default-config.yaml");
const TYPE: &str = "apiVersion: orchscheduler.config.orch.io/v1\nkind: OrchSchedulerConfiguration\n";

fn flags(arguments: &[&str]) -> Flags {
    parse(["scheduler"].iter().chain(arguments).map(Into::into).collect()).unwrap().flags
}

/// The configuration of a file with `text` behind its type, and of flags.
fn with_file(text: &str, arguments: &[&str]) -> Result<Configuration, String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("c.yaml");
    std::fs::write(&path, format!("{TYPE}{text}")).unwrap();
    let config = format!("--config={}", path.display());
    let mut all = vec![config.as_str()];
    all.extend(arguments);
    settle(&flags(&all), &ORCH)?.complete()
}

fn with_flags(arguments: &[&str]) -> Configuration {
    settle(&flags(arguments), &ORCH).unwrap().complete().unwrap()
}

#[test]
fn the_default_configuration_is_written_byte_by_byte_as_recorded() {
    // The recording has no path where that of its client configuration was.
    let written = with_flags(&["--orchconfig=/tmp/x"]).to_yaml().replace("/tmp/x", "");
    assert_eq!(written, DEFAULT);
    let written = with_flags(&[]).to_yaml();
    assert_eq!(written, DEFAULT.replace("orchconfig: \n", "orchconfig: \"\"\n"));
}

#[test]
fn a_written_configuration_can_be_read_and_written_again() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("c.yaml");
    let first = with_file(
        "profiles:\n- schedulerName: a\n  plugins:\n    score: {disabled: [{name: \"*\"}], enabled: [{name: ImageLocality, \
         weight: 7}]}\n    multiPoint: {disabled: [{name: NodePorts}]}\n  pluginConfig:\n  - name: NodeAffinity\n    args:\n      \
         addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, \
         operator: In, values: [b]}]}]}}\nextenders:\n- urlPrefix: https://x\n  enableHTTPS: true\n  httpTimeout: 3s\n  \
         tlsConfig: {caData: YWJj}\n",
        &[],
    );
    let first = first.unwrap();
    first.write_to(&path).unwrap();
    let config = format!("--config={}", path.display());
    let second = with_flags(&[&config]);
    assert_eq!(first.to_yaml(), second.to_yaml());
    assert_eq!(first.profiles, second.profiles);
}

#[test]
fn the_brand_names_the_file() {
    let written = settle(&flags(&[]), &KUBERNETES).unwrap().complete().unwrap().to_yaml();
    let neutral = written.replace("kube", "orch").replace("Kube", "Orch");
    let neutral = neutral.replace("k8s.io", "orch.io").replace("orchrnetes", "orch");
    assert_eq!(neutral, DEFAULT.replace("orchconfig: \n", "orchconfig: \"\"\n"));
    let error = settle(&flags(&["--config=/nowhere.yaml"]), &ORCH).unwrap_err();
    assert_eq!(error, "open /nowhere.yaml: no such file or directory");
}

#[test]
fn flags_of_the_election_win_over_the_file_and_deprecated_ones_do_not() {
    let file = "clientConnection: {qps: 7, burst: 8}\nleaderElection: {leaderElect: false, resourceName: mine}\nenableProfiling: false\n";
    let arguments = [
        "--leader-elect=true",
        "--leader-elect-lease-duration=30s",
        "--orch-api-qps=1",
        "--orch-api-burst=1",
        "--profiling=true",
        "--lock-object-name=other",
    ];
    let configuration = with_file(file, &arguments).unwrap();
    assert_eq!((configuration.client.qps, configuration.client.burst), (7.0, 8));
    assert_eq!(configuration.election.leader_elect, Some(true));
    assert_eq!(configuration.election.lease_duration.to_string(), "30s");
    assert_eq!(configuration.election.resource_name, "mine");
    assert!(!configuration.profiling && !configuration.contention_profiling);
    let mut given = vec!["--config=x"];
    given.extend(arguments);
    let ignored = ignored_flags(&flags(&given), &ORCH);
    assert_eq!(ignored, ["--orch-api-qps", "--orch-api-burst", "--profiling", "--lock-object-name"]);
    assert_eq!(ignored_flags(&flags(&arguments), &ORCH), [""; 0]);
}

#[test]
fn deprecated_flags_count_without_a_file() {
    let configuration = with_flags(&[
        "--orchconfig=a.conf",
        "--orch-api-qps=1.5",
        "--orch-api-burst=3",
        "--orch-api-content-type=application/json",
        "--profiling=false",
        "--contention-profiling=false",
        "--lock-object-name=old",
        "--lock-object-namespace=there",
        "--pod-max-in-unschedulable-pods-duration=1m",
    ]);
    assert_eq!(configuration.client.client_config, "a.conf");
    assert_eq!((configuration.client.qps, configuration.client.burst), (1.5, 3));
    assert_eq!(configuration.client.content_type, "application/json");
    assert!(!configuration.profiling && !configuration.contention_profiling);
    let election = &configuration.election;
    assert_eq!((election.resource_name.as_str(), election.resource_namespace.as_str()), ("old", "there"));
    assert_eq!(configuration.pod_max_in_unschedulable.as_secs(), 60);
    let newer = with_flags(&["--lock-object-name=old", "--leader-elect-resource-name=new"]);
    assert_eq!(newer.election.resource_name, "new", "the flag that replaces it wins");
    let times = with_file("", &["--pod-max-in-unschedulable-pods-duration=7s"]).unwrap();
    assert_eq!(times.pod_max_in_unschedulable.as_secs(), 7, "no field of the file stands for it");
}

#[test]
fn every_kind_of_lock_is_known() {
    for lock in ["leases", "endpointsleases", "configmapsleases"] {
        let flag = format!("--leader-elect-resource-lock={lock}");
        let configuration =
            with_flags(&[&flag, "--leader-elect-resource-namespace=n", "--leader-elect-retry-period=3s"]);
        assert_eq!(configuration.election.resource_lock, lock);
        assert_eq!(configuration.election.resource_namespace, "n");
        assert_eq!(configuration.election.retry_period.to_string(), "3s");
        check_lock(&configuration.election).unwrap();
        with_file(&format!("leaderElection: {{resourceLock: {lock}}}\n"), &[]).unwrap();
    }
    let error = with_file("leaderElection: {resourceLock: files}\n", &[]).unwrap_err();
    assert!(error.starts_with("leaderElection.resourceLock: Invalid value: \"files\": "), "{error}");
}

#[test]
fn profiles_enable_disable_weigh_and_order_plugins() {
    let file = "profiles:\n- schedulerName: a\n  plugins:\n    multiPoint:\n      enabled: [{name: NodeName}, {name: \
        TaintToleration, weight: 9}]\n      disabled: [{name: ImageLocality}]\n    filter:\n      enabled: [{name: \
        VolumeZone}]\n      disabled: [{name: NodePorts}]\n    preScore: {disabled: [{name: \"*\"}]}\n    score: {enabled: \
        [{name: NodeAffinity, weight: 5}]}\n";
    let configuration = with_file(file, &[]).unwrap();
    let profile = &configuration.profiles[0];
    let filters = profile.at(ExtensionPoint::Filter);
    assert_eq!(filters[0], "VolumeZone", "explicit plugins run first: {filters:?}");
    assert!(!filters.contains(&"NodePorts".to_owned()));
    assert!(
        profile.at(ExtensionPoint::PreFilter).contains(&"NodePorts".to_owned()),
        "only its filter is off"
    );
    assert_eq!(profile.at(ExtensionPoint::PreScore), [""; 0]);
    assert_eq!(profile.at(ExtensionPoint::Score)[0], "NodeAffinity");
    assert!(!profile.at(ExtensionPoint::Score).contains(&"ImageLocality".to_owned()));
    assert_eq!(profile.weights["TaintToleration"], 9);
    assert_eq!(profile.weights["NodeAffinity"], 5);
    assert_eq!(profile.weights["PodTopologySpread"], 2);
    assert_eq!(profile.at(ExtensionPoint::QueueSort), ["PrioritySort"]);
    assert_eq!(profile.at(ExtensionPoint::Bind), ["DefaultBinder"]);
}

#[test]
fn faults_of_profiles_are_told() {
    let profile =
        |plugins: &str| with_file(&format!("profiles:\n- schedulerName: x\n  plugins: {plugins}\n"), &[]);
    let prefix = "initializing profiles: creating profile for scheduler name x: ";
    for (plugins, fault) in [
        ("{score: {enabled: [{name: NodeName}]}}", "plugin \"NodeName\" does not extend ScorePlugin plugin"),
        (
            "{score: {enabled: [{name: ImageLocality}, {name: ImageLocality}]}}",
            "plugin \"ImageLocality\" already registered as \"ScorePlugin\"",
        ),
        ("{multiPoint: {enabled: [{name: NoSuch}]}}", "PreFilterPlugin \"NoSuch\" does not exist"),
        (
            "{score: {enabled: [{name: ImageLocality, weight: 2147483647}]}, multiPoint: {disabled: [{name: \"*\"}]}}",
            "only one queue sort plugin required for profile with scheduler name \"x\", but got 0",
        ),
    ] {
        assert_eq!(profile(plugins).unwrap_err(), format!("{prefix}{fault}"), "{plugins}");
    }
}

#[test]
fn rules_of_arguments_have_messages() {
    let args = |name: &str, args: &str| {
        with_file(
            &format!("profiles:\n- schedulerName: x\n  pluginConfig: [{{name: {name}, args: {args}}}]\n"),
            &[],
        )
        .map(|_| ())
        .unwrap_err()
    };
    let place = "profiles[0].pluginConfig[0].args";
    for (name, given, expected) in [
        (
            "DefaultPreemption",
            "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}",
            format!(
                "[{place}.minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as \
                 minCandidateNodesAbsolute, {place}.minCandidateNodesAbsolute: Invalid value: 0: cannot be zero at the same \
                 time as minCandidateNodesPercentage]"
            ),
        ),
        (
            "NodeResourcesBalancedAllocation",
            "{resources: [{name: cpu, weight: 2}]}",
            format!("{place}.resources[0].weight: Invalid value: 2: must be 1"),
        ),
        (
            "VolumeBinding",
            "{bindTimeoutSeconds: -1}",
            format!(
                "{place}.bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value"
            ),
        ),
        (
            "DynamicResources",
            "{bindingTimeout: 10ms}",
            format!("{place}.bindingTimeout: Invalid value: \"10ms\": must be at least 1 second"),
        ),
        (
            "PodTopologySpread",
            "{defaultingType: Other}",
            format!("{place}.defaultingType: Unsupported value: \"Other\": supported values: \"System\", \"List\""),
        ),
        (
            "NodeResourcesFit",
            "{scoringStrategy: {type: RequestedToCapacityRatio}}",
            "initializing profiles: creating profile for scheduler name x: initializing plugin \"NodeResourcesFit\": \
             scoringStrategy.requestedToCapacityRatio: Required value: must be specified when type is \
             RequestedToCapacityRatio"
                .to_owned(),
        ),
        (
            "NodeAffinity",
            "{addedAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: \
             [{key: a, operator: In}]}]}}}",
            format!(
                "{place}.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]\
                 .values: Required value: must be specified when `operator` is 'In' or 'NotIn'"
            ),
        ),
    ] {
        assert_eq!(args(name, given), expected, "{name}");
    }
}

#[test]
fn strict_faults_have_paths_and_wrong_types_a_struct() {
    for (text, expected) in [
        ("profiles:\n- nope: 1\n", "strict decoding error: unknown field \"profiles[0].nope\""),
        (
            "a: 1\nleaderElection: {b: 2}\n",
            "strict decoding error: unknown field \"a\", unknown field \"leaderElection.b\"",
        ),
        (
            "profiles:\n- schedulerName: 1\n",
            "json: cannot unmarshal number into Go struct field OrchSchedulerProfile.profiles.schedulerName of type string",
        ),
        (
            "parallelism: 1.5\n",
            "json: cannot unmarshal number 1.5 into Go struct field OrchSchedulerConfiguration.parallelism of type int32",
        ),
        (
            "profiles: {}\n",
            "json: cannot unmarshal object into Go struct field OrchSchedulerConfiguration.profiles of type \
             []v1.OrchSchedulerProfile",
        ),
        (
            "leaderElection: {leaseDuration: 15}\n",
            "json: cannot unmarshal number into Go value of type string",
        ),
        ("leaderElection: {leaseDuration: \"15\"}\n", "time: missing unit in duration \"15\""),
    ] {
        assert_eq!(with_file(text, &[]).unwrap_err(), expected, "{text}");
    }
}

#[test]
fn resources_that_extenders_manage_alone_are_not_filtered_by() {
    let file = "extenders:\n- urlPrefix: http://x\n  managedResources: [{name: a.com/b, ignoredByScheduler: true}, {name: \
        a.com/c}]\n";
    let written = with_file(file, &[]).unwrap().to_yaml();
    assert!(written.contains("      ignoredResources:\n      - a.com/b\n"), "{written}");
    let error = with_file("extenders: [{urlPrefix: x, managedResources: [{name: cpu}]}]\n", &[]).unwrap_err();
    assert_eq!(
        error,
        "extenders[0].managedResources[0].name: Invalid value: \"cpu\": is an invalid extended resource name"
    );
}

#[test]
fn flags_of_the_port_and_of_metrics_are_checked() {
    for (flag, expected) in [
        (
            "--secure-port=70000",
            "--secure-port 70000 must be between 1 and 65535, inclusive. It cannot be turned off with 0",
        ),
        ("--requestheader-username-headers= ", "empty value in \"requestheader-username-headers\""),
        (
            "--allow-metric-labels=x=y",
            "metrics.allowMetricLabels: Invalid value: \"x\": must have the form METRIC,LABEL",
        ),
        (
            "--disabled-metrics=a-b",
            "metrics.disabledMetrics: Invalid value: \"a-b\": must be the full name of a metric",
        ),
    ] {
        assert_eq!(check_flags(&flags(&[flag])).unwrap_err(), expected);
    }
    check_flags(&flags(&["--show-hidden-metrics-for-version=1.35", "--secure-port=0"])).unwrap();
}

#[test]
fn a_server_is_named_by_a_file_a_flag_the_environment_or_the_cluster() {
    let settled = |arguments: &[&str]| settle(&flags(arguments), &ORCH).unwrap();
    let nothing = |_: &str| None;
    let check = |arguments: &[&str], master| check_source(&settled(arguments), master, &ORCH, nothing);
    assert!(check(&[], None).unwrap_err().contains("ORCH_MASTER"));
    assert!(check(&["--orchconfig=/nowhere"], None).unwrap_err().starts_with("stat /nowhere: "));
    check(&[], Some("http://x")).unwrap();
    let environment = |name: &str| (name == "ORCH_MASTER").then(|| "http://x".to_owned());
    check_source(&settled(&[]), None, &ORCH, environment).unwrap();
}

#[test]
fn plugins_stand_only_where_they_have_an_extension_point() {
    for (point, name) in [("permit", "Permit"), ("postBind", "PostBind")] {
        let file = format!("profiles:\n- plugins: {{{point}: {{enabled: [{{name: NodeName}}]}}}}\n");
        let error = with_file(&file, &[]).unwrap_err();
        assert!(
            error.ends_with(&format!("plugin \"NodeName\" does not extend {name}Plugin plugin")),
            "{error}"
        );
    }
}
