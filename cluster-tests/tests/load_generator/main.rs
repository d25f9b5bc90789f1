//! The benchmark against a correct server and against faulty ones: a benchmark that cannot tell them apart measures
//! nothing.
#![expect(clippy::unwrap_used, reason = "tests may unwrap, in what they call too")]

mod fake;
mod scale;

use clap::Parser;
use fake::{Behaviour, Fake};
use orch_cluster_tests::load::{Options, run};
use serde_json::Value;

/// Runs `works` on a server of `behaviour` and returns the report as JSON and as text.
fn measure(works: &[&str], behaviour: Behaviour) -> (Value, String) {
    let fake = Fake::start(behaviour);
    let mut arguments = vec!["bench"];
    arguments.extend(works);
    arguments.extend(["--base", &fake.base, "--count", "120", "--clients", "4", "--watchers", "5"]);
    arguments.extend(["--objects", "1200", "--size", "100", "--token", "secret"]);
    let report = run(&Options::parse_from(arguments)).unwrap();
    (serde_json::to_value(&report).unwrap(), report.to_string())
}

fn work<'r>(report: &'r Value, name: &str) -> &'r Value {
    let works = report["works"].as_array().unwrap();
    works.iter().find(|work| work["work"] == name).unwrap()
}

#[test]
fn every_work_counts_what_it_was_asked_for() {
    let (report, text) = measure(&["all"], Behaviour::Right);
    for name in ["create", "get", "get-any", "merge-patch", "list", "list-chunked", "mixed"] {
        assert_eq!(work(&report, name)["operations"], 120, "{name}: {report}");
        assert!(text.contains(name), "{text}");
    }
    assert_eq!(work(&report, "watch")["operations"], 120 * 5, "{report}");
    for work in report["works"].as_array().unwrap() {
        assert_eq!(work["errors"], serde_json::json!({}), "{work}");
    }
}

#[test]
fn objects_of_a_custom_kind_are_counted_as_config_maps_are() {
    let (report, _) = measure(&["create-custom", "get-custom", "patch-custom"], Behaviour::Right);
    for name in ["create-custom", "get-custom", "patch-custom"] {
        assert_eq!(work(&report, name)["operations"], 120, "{name}: {report}");
        assert_eq!(work(&report, name)["errors"], serde_json::json!({}), "{name}");
    }
}

#[test]
fn the_same_is_counted_over_http2() {
    for sharers in ["1", "3", "100"] {
        let asked = ["create", "get", "list-chunked", "watch", "--http2", "--sharers", sharers];
        let (report, _) = measure(&asked, Behaviour::Right);
        for (name, count) in [("create", 120), ("get", 120), ("list-chunked", 120), ("watch", 120 * 5)] {
            assert_eq!(work(&report, name)["operations"], count, "{name} {sharers}: {report}");
            assert_eq!(work(&report, name)["errors"], serde_json::json!({}), "{name} {sharers}");
        }
    }
    let (report, _) = measure(&["watch", "--http2"], Behaviour::RepeatsAnEvent);
    assert_eq!(work(&report, "watch")["errors"]["watch: too many events"], 5, "{report}");
    let (report, _) = measure(&["watch", "--http2"], Behaviour::EndsWatches);
    assert_eq!(work(&report, "watch")["errors"]["watch: ended"], 5, "{report}");
}

#[test]
fn refusals_are_errors_by_kind() {
    let (report, _) = measure(&["create"], Behaviour::RefusesSomeCreations);
    let create = work(&report, "create");
    assert_eq!(create["errors"]["status 503"], 12, "{create}");
    assert_eq!(create["operations"], 108, "{create}");
}

#[test]
fn an_event_too_many_is_an_error_of_every_watcher_that_got_it() {
    let (report, _) = measure(&["watch"], Behaviour::RepeatsAnEvent);
    assert_eq!(work(&report, "watch")["errors"]["watch: too many events"], 5, "{report}");
}

#[test]
fn a_watch_that_ends_is_an_error() {
    let (report, _) = measure(&["watch"], Behaviour::EndsWatches);
    assert_eq!(work(&report, "watch")["errors"]["watch: ended"], 5, "{report}");
}

#[test]
fn a_scheduler_is_measured_beside_servers_of_its_own() {
    let arguments = ["bench", "schedule", "--start", "1", "--fleet", "3", "--pods", "60"];
    let report = run(&Options::parse_from(arguments)).unwrap();
    let text = report.to_string();
    let report = serde_json::to_value(&report).unwrap();
    assert_eq!(work(&report, "schedule")["operations"], 60, "{report}");
    assert!(text.contains("memory of scheduler "), "{text}");
    let too_many =
        run(&Options::parse_from(["bench", "schedule", "--start", "1", "--fleet", "1", "--pods", "111"]));
    assert!(format!("{:#}", too_many.unwrap_err()).contains("1 nodes have no places for 111 pods"));
    let fake = Fake::start(Behaviour::Right);
    let elsewhere =
        run(&Options::parse_from(["bench", "schedule", "--base", &fake.base, "--token", "secret"]));
    assert!(format!("{:#}", elsewhere.unwrap_err()).contains("--start NODES"));
}
