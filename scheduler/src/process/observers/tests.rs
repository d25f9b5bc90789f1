//! Figures as the lines of `/metrics`.

use orch_proto::brand::ORCH;

use super::*;
use crate::config::Features;
use crate::config::flags::parse;
use crate::metrics::{Metrics, Policy};
use crate::plan::costs::Costs;
use crate::plugin::{ExtensionPoint, Plugin, PluginSet};

/// The lines of `/metrics` after `count`, without those of buckets.
fn lines(count: impl FnOnce()) -> Vec<String> {
    let line = parse(vec!["scheduler".into()]).unwrap();
    let features = Features::parse(&line.flags.features.feature_gates).unwrap();
    let metrics = Metrics::new(Policy::new(&line.flags.metrics), &features, &ORCH);
    metrics.count_into(count);
    metrics.render().lines().filter(|line| !line.contains("_bucket")).map(str::to_owned).collect()
}

#[test]
fn observations_are_counted_under_their_labels() {
    let lines = lines(|| {
        let observer = observer(vec!["a".into(), "b".into()]);
        let attempted = |profile, result| {
            observer(Observation::Attempted { profile, result, took: Duration::from_secs(1) });
        };
        attempted(1, AttemptResult::Unschedulable);
        attempted(1, AttemptResult::Unschedulable);
        attempted(0, AttemptResult::Scheduled);
        attempted(0, AttemptResult::Error);
        let bound = |attempts, seconds, is_flushed| {
            let waited = Duration::from_secs(seconds);
            observer(Observation::Bound { profile: 0, attempts, waited, is_flushed });
        };
        bound(2, 3, false);
        bound(20, 4, true);
        let evaluated = vec![(ExtensionPoint::PostFilter, PluginSet::from_iter([Plugin::DefaultPreemption]))];
        let costs = Costs { measured: Vec::new(), evaluated };
        observer(Observation::Planned { profile: 0, took: Duration::from_secs(2), costs });
        observer(Observation::Preempting { victims: 3 });
    });
    for expected in [
        "scheduler_schedule_attempts_total{profile=\"b\",result=\"unschedulable\"} 2",
        "scheduler_schedule_attempts_total{profile=\"a\",result=\"scheduled\"} 1",
        "scheduler_schedule_attempts_total{profile=\"a\",result=\"error\"} 1",
        "scheduler_scheduling_attempt_duration_seconds_sum{profile=\"b\",result=\"unschedulable\"} 2",
        "scheduler_scheduling_algorithm_duration_seconds_sum 2",
        "scheduler_pod_scheduled_after_flush_total 1",
        "scheduler_pod_scheduling_attempts_sum 22",
        "scheduler_pod_scheduling_sli_duration_seconds_sum{attempts=\"2\"} 3",
        "scheduler_pod_scheduling_sli_duration_seconds_sum{attempts=\"15+\"} 4",
        "scheduler_preemption_attempts_total 1",
        "scheduler_preemption_victims_sum 3",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{expected}");
    }
}

#[test]
fn plugins_without_rejected_pods_fall_back_to_zero() {
    let lines = lines(|| {
        let mut before = BTreeMap::new();
        let profiles = ["a".into()];
        let now = BTreeMap::from([((0, Plugin::NodePorts.into()), 2), ((0, Plugin::NodeName.into()), 1)]);
        report_rejected(&profiles, &mut before, now);
        report_rejected(&profiles, &mut before, BTreeMap::from([((0, Plugin::NodeName.into()), 4)]));
        report_leader("lock", true);
    });
    for expected in [
        "scheduler_unschedulable_pods{plugin=\"NodePorts\",profile=\"a\"} 0",
        "scheduler_unschedulable_pods{plugin=\"NodeName\",profile=\"a\"} 4",
        "leader_election_master_status{name=\"lock\"} 1",
    ] {
        assert!(lines.iter().any(|line| line == expected), "{expected}");
    }
}
