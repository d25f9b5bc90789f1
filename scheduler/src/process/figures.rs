//! What the executor and the queue tell, as metrics.
//!
//! Owns the names and labels of these series. Counting costs a look-up in the recorder for each plan; the queue's
//! figures are written once a second.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::queue::{Plugin, Queue, QueueName};
use crate::run::{Observation, Observer, PlanResult, Readiness};

/// Attempts that the label `attempts` tells apart: it bounds the number of series.
const ATTEMPTS_SHOWN: u32 = 15;

/// How often it is written whether this process leads: metrics are read less often.
const LEADER_REPORTED: Duration = Duration::from_secs(1);

/// Takes the executor's figures. `profiles` are their scheduler names, in the order of the configuration.
pub(super) fn observer(profiles: Vec<Arc<str>>) -> Observer {
    Arc::new(move |observation| observe(&profiles, &observation))
}

fn observe(profiles: &[Arc<str>], observation: &Observation) {
    match observation {
        Observation::Planned { profile, result } => {
            let result = match result {
                PlanResult::Scheduled => "scheduled",
                PlanResult::Unschedulable => "unschedulable",
                PlanResult::Error => "error",
            };
            let profile = profiles[*profile].to_string();
            ::metrics::counter!("scheduler_schedule_attempts_total", "profile" => profile, "result" => result)
                .increment(1);
        }
        Observation::Bound { profile: _, attempts, waited } => {
            ::metrics::histogram!("scheduler_pod_scheduling_attempts").record(f64::from(*attempts));
            let label = match *attempts {
                attempts if attempts >= ATTEMPTS_SHOWN => format!("{ATTEMPTS_SHOWN}+"),
                attempts => attempts.to_string(),
            };
            ::metrics::histogram!("scheduler_pod_scheduling_sli_duration_seconds", "attempts" => label)
                .record(waited.as_secs_f64());
        }
        Observation::Preempting { victims } => {
            ::metrics::counter!("scheduler_preemption_attempts_total").increment(1);
            ::metrics::histogram!("scheduler_preemption_victims").record(number(*victims));
        }
    }
}

/// Writes the figures of the queue.
pub(super) fn reporter(profiles: Vec<Arc<str>>) -> Box<dyn FnMut(&Queue) + Send> {
    let mut rejected = BTreeMap::new();
    Box::new(move |queue| {
        report_pods(queue);
        report_rejected(&profiles, &mut rejected, queue.rejected());
    })
}

/// Writes once a second whether this process leads, until `stop`.
pub(super) fn follow_leadership(lock: String, readiness: Readiness, stop: CancellationToken) {
    tokio::spawn(stop.run_until_cancelled_owned(async move {
        let mut ticks = tokio::time::interval(LEADER_REPORTED);
        loop {
            ticks.tick().await;
            report_leader(&lock, readiness.leads());
        }
    }));
}

fn report_leader(lock: &str, is_leader: bool) {
    ::metrics::gauge!("leader_election_master_status", "name" => lock.to_owned()).set(if is_leader {
        1.0
    } else {
        0.0
    });
}

fn report_pods(queue: &Queue) {
    let pending = queue.pending();
    for (name, count) in [
        (QueueName::Active, pending.active),
        (QueueName::Backoff, pending.backoff),
        (QueueName::Unschedulable, pending.unschedulable),
        (QueueName::Gated, pending.gated),
    ] {
        ::metrics::gauge!("scheduler_pending_pods", "queue" => name.label()).set(number(count));
    }
    for (name, event, count) in queue.incoming().iter() {
        ::metrics::counter!("scheduler_queue_incoming_pods_total", "event" => event, "queue" => name.label())
            .absolute(count);
    }
}

/// Writes the numbers of rejected pods, and 0 where there were some before.
fn report_rejected(
    profiles: &[Arc<str>],
    before: &mut BTreeMap<(usize, Plugin), usize>,
    now: BTreeMap<(usize, Plugin), usize>,
) {
    let gone = before.keys().filter(|key| !now.contains_key(*key)).map(|key| (*key, 0));
    for ((profile, plugin), count) in gone.chain(now.iter().map(|(key, count)| (*key, *count))) {
        let profile = profiles[profile].to_string();
        ::metrics::gauge!("scheduler_unschedulable_pods", "plugin" => plugin.name(), "profile" => profile)
            .set(number(count));
    }
    *before = now;
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use orch_proto::brand::ORCH;

    use super::*;
    use crate::config::Features;
    use crate::config::flags::parse;
    use crate::metrics::{Metrics, Policy};

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
            observer(Observation::Planned { profile: 1, result: PlanResult::Unschedulable });
            observer(Observation::Planned { profile: 1, result: PlanResult::Unschedulable });
            observer(Observation::Planned { profile: 0, result: PlanResult::Scheduled });
            observer(Observation::Planned { profile: 0, result: PlanResult::Error });
            observer(Observation::Bound { profile: 0, attempts: 2, waited: Duration::from_secs(3) });
            observer(Observation::Bound { profile: 0, attempts: 20, waited: Duration::from_secs(4) });
            observer(Observation::Preempting { victims: 3 });
        });
        for expected in [
            "scheduler_schedule_attempts_total{profile=\"b\",result=\"unschedulable\"} 2",
            "scheduler_schedule_attempts_total{profile=\"a\",result=\"scheduled\"} 1",
            "scheduler_schedule_attempts_total{profile=\"a\",result=\"error\"} 1",
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
            let now = BTreeMap::from([((0, Plugin::NodePorts), 2), ((0, Plugin::NodeName), 1)]);
            report_rejected(&profiles, &mut before, now);
            report_rejected(&profiles, &mut before, BTreeMap::from([((0, Plugin::NodeName), 4)]));
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
}
