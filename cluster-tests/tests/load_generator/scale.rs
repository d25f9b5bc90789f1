//! The works of thousands of watches, with a few: each against servers that it starts.

use clap::Parser;
use orch_cluster_tests::load::{Options, run_scale};

/// Runs the work of `arguments` without errors; its figures by name.
fn figures(arguments: &[&str]) -> impl Fn(&str) -> f64 + use<> {
    let options = Options::parse_from(["bench"].iter().chain(arguments));
    let report = run_scale(options.scale.as_ref().unwrap()).unwrap();
    let text = report.to_string();
    let report = serde_json::to_value(&report).unwrap();
    assert_eq!(report["errors"], serde_json::json!({}), "{text}");
    move |name: &str| {
        let mut figures = report["figures"].as_array().unwrap().iter();
        let found = figures.find(|figure| figure["name"] == name);
        found.and_then(|figure| figure["value"].as_f64()).unwrap_or_else(|| panic!("no `{name}` in {text}"))
    }
}

fn refusal(arguments: &[&str]) -> String {
    let options = Options::parse_from(["bench"].iter().chain(arguments));
    format!("{:#}", run_scale(options.scale.as_ref().unwrap()).unwrap_err())
}

#[test]
fn idle_watches_get_the_events_that_concern_them_alone() {
    let of = figures(&[
        "watch-idle",
        "--start",
        "1",
        "--watches",
        "32",
        "--connections",
        "4",
        "--changes",
        "50",
        "--settle",
        "100ms",
    ]);
    assert_eq!((of("watches"), of("connections")), (32.0, 4.0));
    // The changes of one round of four concern one watch.
    assert_eq!(of("events of changes"), 50.0);
    assert_eq!(of("streams of watches that ended"), 0.0);
    assert!(of("memory with all watches") > 0.0 && of("a change with watches, none concerned, p50") > 0.0);
}

#[test]
fn watches_whose_connections_are_cut_resume_without_a_list() {
    let of =
        figures(&["watch-storm", "--start", "1", "--watches", "32", "--connections", "5", "--calm", "200ms"]);
    assert_eq!(of("streams of watches that ended"), 32.0);
    assert_eq!(of("watches resumed from their version"), 32.0);
    assert_eq!(of("watches that listed again"), 0.0);
    // One change for each watch while no connection was open.
    assert_eq!(of("events of changes"), 32.0);
    assert!(of("pause of a watch, max") > 0.0 && of("most memory, all watches opened") > 0.0);
}

#[test]
fn definitions_come_into_force_and_their_kinds_are_used() {
    let of = figures(&[
        "definitions",
        "--start",
        "1",
        "--definitions",
        "60",
        "--size",
        "2000",
        "--used",
        "5",
        "--settle",
        "100ms",
    ]);
    assert_eq!(of("definitions"), 60.0);
    assert!(of("CPU of a definition until it is in force") > 0.0 && of("until all are in force") > 0.0);
    assert!(
        of("first object of a kind, p50") > 0.0 && of("all groups with their kinds of discovery, p50") > 0.0
    );
}

#[test]
fn policies_come_into_force_and_creates_pass_them() {
    let of = figures(&[
        "policies",
        "--start",
        "1",
        "--policies",
        "20",
        "--unmatched",
        "10",
        "--validations",
        "2",
        "--creates",
        "20",
        "--settle",
        "100ms",
    ]);
    assert_eq!((of("policies that match"), of("policies of another resource")), (20.0, 10.0));
    assert!(of("CPU of a policy with its binding, written") > 0.0 && of("memory after") > 0.0);
    assert!(of("create through policies that match and pass, p50") > 0.0);
}

#[test]
fn kubelets_see_their_pods_and_renew_their_leases() {
    let of = figures(&[
        "kubelets",
        "--start",
        "1",
        "--nodes",
        "8",
        "--duration",
        "3s",
        "--pods",
        "20",
        "--lease-period",
        "500ms",
        "--status-period",
        "1s",
    ]);
    assert_eq!((of("kubelets"), of("watches")), (8.0, 48.0));
    assert!(of("pods bound and seen") > 0.0 && of("pod bound to pod seen, p50") > 0.0);
    assert!(of("renewal of a lease, p50") > 0.0 && of("status of a node, p50") > 0.0);
    assert!(of("status of a pod, p50") > 0.0);
    assert_eq!(of("watches that listed again"), 0.0);
}

#[test]
fn kubelets_go_on_after_the_leader_is_killed() {
    let of = figures(&["kubelets", "--start", "3", "--nodes", "8", "--duration", "4s", "--kill-leader"]);
    assert!(of("watches resumed from their version") >= 1.0);
    assert_eq!(of("watches that listed again"), 0.0);
    assert!(of("kill of the leader to all watches standing") > 0.0);
    assert!(of("pause of a watch, max") > 0.0);
}

#[test]
fn loads_that_cannot_be_carried_out_are_refused_before_they_begin() {
    let few = refusal(&["watch-idle", "--start", "1", "--watches", "300", "--connections", "2"]);
    assert!(few.contains("300 watches take 3 to 300 connections"), "{few}");
    let alone = refusal(&["kubelets", "--start", "1", "--kill-leader"]);
    assert!(alone.contains("--kill-leader leaves no majority of 1 servers"), "{alone}");
    for bad in [
        &["bench", "watch-idle", "--watches", "0"][..],
        &["bench", "kubelets", "--nodes", "1000000"],
        &["bench", "kubelets", "--kill-leader"],
        &["bench", "create", "watch-idle"],
    ] {
        assert!(Options::try_parse_from(bad).is_err(), "{bad:?}");
    }
}

/// The help of a work explains it and gives examples.
#[test]
fn every_work_has_a_help_that_teaches() {
    for (work, words) in [
        ("watch-idle", ["--connections", "bench watch-idle --start 1"]),
        ("watch-storm", ["--calm", "bench watch-storm --start 1"]),
        ("kubelets", ["--kill-leader", "bench kubelets --start 3"]),
    ] {
        let help = Options::try_parse_from(["bench", work, "--help"]).unwrap_err().to_string();
        assert!(words.iter().all(|word| help.contains(word)) && help.contains("--start"), "{help}");
    }
    let works = Options::try_parse_from(["bench", "--help"]).unwrap_err().to_string();
    assert!(works.contains("watch-storm") && works.contains("merge-patch"), "{works}");
}
