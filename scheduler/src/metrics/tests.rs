//! Metrics: names, labels that are allowed, and what is disabled or hidden.

use std::collections::BTreeMap;

use metrics::{counter, histogram, with_local_recorder};
use orch_proto::brand::{KUBERNETES, ORCH};

use super::*;
use crate::config::flags::{MetricsFlags, parse};

const FACTS: &str = include_str!("../../tests/data/scheduler-metrics.txt");

fn policy(arguments: &[&str]) -> Policy {
    let arguments = ["scheduler"].iter().chain(arguments).map(Into::into).collect();
    let flags: MetricsFlags = parse(arguments).unwrap().flags.metrics;
    Policy::new(&flags)
}

fn with(arguments: &[&str]) -> Metrics {
    Metrics::new(policy(arguments), &Features::parse(&[]).unwrap(), &ORCH)
}

/// Names and types of a page.
fn types(text: &str) -> BTreeMap<&str, &str> {
    text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect()
}

#[test]
fn names_and_types_are_the_references() {
    let metrics = Metrics::new(policy(&[]), &Features::parse(&[]).unwrap(), &KUBERNETES);
    assert!(!metrics.render().contains("rest_client_request"), "no request was made");
    metrics.count_into(|| {
        ::metrics::counter!("rest_client_requests_total").increment(1);
        for name in [
            "rest_client_rate_limiter_duration_seconds",
            "rest_client_request_duration_seconds",
            "rest_client_request_size_bytes",
            "rest_client_response_size_bytes",
        ] {
            ::metrics::histogram!(name).record(0.0);
        }
    });
    let text = metrics.render();
    let (served, facts) = (types(&text), FACTS.lines().filter_map(|line| line.split_once(' ')));
    let mut compared = 0;
    for (name, kind) in facts {
        // The runtime of the reference's language, which this program does not have.
        if name.starts_with("go_") {
            assert!(!served.contains_key(name), "{name} would be a made-up number");
            continue;
        }
        assert_eq!(served.get(name), Some(&kind), "{name}");
        compared += 1;
    }
    assert_eq!(compared, FACTS.lines().filter(|line| !line.starts_with("go_")).count());
    assert!(compared > 50, "{compared}");
}

#[test]
fn every_family_is_described_once_before_its_samples() {
    let text = with(&[]).render();
    let mut described = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let name = rest.split(' ').next().unwrap();
            assert!(!described.contains(&name), "{name} twice");
            described.push(name);
        } else if !line.starts_with('#') {
            let family = described.last().unwrap();
            assert!(line.starts_with(family), "{line} below {family}");
            assert!(line.rsplit(' ').next().unwrap().parse::<f64>().is_ok(), "{line}");
        }
    }
}

#[test]
fn histograms_are_cumulative() {
    let metrics = with(&[]);
    with_local_recorder(&*metrics.recorder, || {
        for value in [1.0, 3.0, 100.0] {
            histogram!("scheduler_pod_scheduling_attempts").record(value);
        }
    });
    let text = metrics.render();
    for line in [
        "scheduler_pod_scheduling_attempts_bucket{le=\"1\"} 1\n",
        "scheduler_pod_scheduling_attempts_bucket{le=\"2\"} 1\n",
        "scheduler_pod_scheduling_attempts_bucket{le=\"4\"} 2\n",
        "scheduler_pod_scheduling_attempts_bucket{le=\"16\"} 2\n",
        "scheduler_pod_scheduling_attempts_bucket{le=\"+Inf\"} 3\n",
        "scheduler_pod_scheduling_attempts_sum 104\n",
        "scheduler_pod_scheduling_attempts_count 3\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn a_reset_clears_what_was_counted_and_keeps_what_is() {
    let metrics = with(&[]);
    with_local_recorder(&*metrics.recorder, || {
        counter!("scheduler_preemption_attempts_total").increment(2);
        histogram!("scheduler_preemption_victims").record(3.0);
    });
    assert!(metrics.render().contains("scheduler_preemption_attempts_total 2\n"));
    metrics.reset();
    let text = metrics.render();
    assert!(text.contains("scheduler_preemption_attempts_total 0\n"));
    assert!(text.contains("scheduler_preemption_victims_count 0\n"));
    assert!(text.contains("orch_build_info{"), "{text}");
}

#[test]
fn labels_have_the_values_of_their_allow_list() {
    let metrics = with(&["--allow-metric-labels=scheduler_schedule_attempts_total,profile=a,b"]);
    with_local_recorder(&*metrics.recorder, || {
        for profile in ["a", "c", "d"] {
            counter!("scheduler_schedule_attempts_total", "profile" => profile, "result" => "error")
                .increment(1);
        }
    });
    let text = metrics.render();
    for line in [
        "scheduler_schedule_attempts_total{profile=\"a\",result=\"error\"} 1\n",
        "scheduler_schedule_attempts_total{profile=\"unexpected\",result=\"error\"} 2\n",
        "cardinality_enforcement_unexpected_categorizations_total 2\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("profile=\"c\""));
}

#[test]
fn hidden_metrics_are_shown_for_the_previous_version_unless_they_are_disabled() {
    let hidden = "scheduler_scheduler_cache_size";
    let count = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name) && !line.starts_with('#'));
        line.unwrap().rsplit(' ').next().unwrap().parse::<u64>().unwrap()
    };
    let plain = with(&[]).render();
    assert!(!types(&plain).contains_key(hidden));
    assert_eq!(count(&plain, "hidden_metrics_total"), 1);
    let shown = with(&["--show-hidden-metrics-for-version=1.35"]).render();
    assert!(types(&shown).contains_key(hidden));
    assert!(shown.contains("# HELP scheduler_scheduler_cache_size [ALPHA] (Deprecated since 1.33.0) "));
    assert_eq!(count(&shown, "hidden_metrics_total"), 0);
    let flags = [
        "--show-hidden-metrics-for-version=1.35",
        "--disabled-metrics=scheduler_scheduler_cache_size,process_open_fds",
    ];
    let disabled = with(&flags).render();
    assert!(!types(&disabled).contains_key(hidden));
    assert!(!types(&disabled).contains_key("process_open_fds"));
    assert_eq!(count(&disabled, "disabled_metrics_total"), 1);
}

#[test]
fn a_family_is_bounded_and_has_one_type() {
    let metrics = with(&[]);
    with_local_recorder(&*metrics.recorder, || {
        for at in 0..=recorder::SERIES_MAX {
            counter!("flood_total", "at" => at.to_string()).increment(1);
        }
        metrics::gauge!("flood_total").set(5.0);
    });
    let text = metrics.render();
    assert_eq!(text.lines().filter(|line| line.starts_with("flood_total")).count(), recorder::SERIES_MAX);
}

#[test]
fn gates_show_whether_they_are_on() {
    let features =
        Features::parse(&["AllAlpha=true,AllBeta=false,SchedulerAsyncPreemption=true,Other=true".to_owned()]);
    let text = Metrics::new(policy(&[]), &features.unwrap(), &ORCH).render();
    for line in [
        "orch_feature_enabled{name=\"LoggingAlphaOptions\",stage=\"ALPHA\"} 1\n",
        "orch_feature_enabled{name=\"LoggingBetaOptions\",stage=\"BETA\"} 0\n",
        "orch_feature_enabled{name=\"SchedulerAsyncPreemption\",stage=\"BETA\"} 1\n",
        "orch_feature_enabled{name=\"SchedulerQueueingHints\",stage=\"\"} 1\n",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}
