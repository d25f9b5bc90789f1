//! Turns observations into metrics.
//!
//! Owns the names and labels of these series. Counting costs a look-up in the recorder for each figure, but for those of
//! single plans ([`plans`]), whose series are kept at hand; levels are written once a second.

#[cfg(test)]
mod facts;
mod plans;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::queue::{Hint, HintCost, Queue, QueueName, Rejector};
use crate::run::{AttemptResult, Levels, Observation, Observer, Readiness, Reporter};

use plans::Plans;

/// Attempts that the label `attempts` tells apart: it bounds the number of series.
const ATTEMPTS_SHOWN: u32 = 15;

/// How often it is written whether this process leads: metrics are read less often.
const LEADER_REPORTED: Duration = Duration::from_secs(1);

/// Takes the executor's figures. `profiles` are their scheduler names, in the order of the configuration.
pub(super) fn observer(profiles: Vec<Arc<str>>) -> Observer {
    let plans = Plans::new(profiles.clone());
    Arc::new(move |observation| observe(&profiles, &plans, &observation))
}

fn observe(profiles: &[Arc<str>], plans: &Plans, observation: &Observation) {
    match observation {
        Observation::Attempted { profile, result, took } => attempted(&profiles[*profile], *result, *took),
        Observation::Planned { profile, took, costs } => {
            ::metrics::histogram!("scheduler_scheduling_algorithm_duration_seconds")
                .record(took.as_secs_f64());
            plans.observe(*profile, costs);
        }
        Observation::Ran { profile, cost } => plans.measured(*profile, cost),
        Observation::Handled { event, took } => {
            ::metrics::histogram!("scheduler_event_handling_duration_seconds", "event" => *event)
                .record(took.as_secs_f64());
        }
        Observation::Hinted(cost) => hinted(cost),
        Observation::Bound { profile: _, attempts, waited, is_flushed } => {
            bound(*attempts, *waited);
            if *is_flushed {
                ::metrics::counter!("scheduler_pod_scheduled_after_flush_total").increment(1);
            }
        }
        Observation::Preempting { victims } => {
            ::metrics::histogram!("scheduler_preemption_victims").record(number(*victims));
        }
        Observation::Evicted { is_done, took } => {
            let result = if *is_done { "success" } else { "error" };
            ::metrics::counter!("scheduler_preemption_goroutines_execution_total", "result" => result)
                .increment(1);
            ::metrics::histogram!("scheduler_preemption_goroutines_duration_seconds", "result" => result)
                .record(took.as_secs_f64());
        }
    }
}

fn attempted(profile: &Arc<str>, result: AttemptResult, took: Duration) {
    let result = match result {
        AttemptResult::Scheduled => "scheduled",
        AttemptResult::Unschedulable => "unschedulable",
        AttemptResult::Error => "error",
    };
    let labels =
        vec![::metrics::Label::new("profile", profile.to_string()), ::metrics::Label::new("result", result)];
    ::metrics::counter!("scheduler_schedule_attempts_total", labels.clone()).increment(1);
    ::metrics::histogram!("scheduler_scheduling_attempt_duration_seconds", labels).record(took.as_secs_f64());
}

fn bound(attempts: u32, waited: Duration) {
    ::metrics::histogram!("scheduler_pod_scheduling_attempts").record(f64::from(attempts));
    let label = match attempts {
        attempts if attempts >= ATTEMPTS_SHOWN => format!("{ATTEMPTS_SHOWN}+"),
        attempts => attempts.to_string(),
    };
    ::metrics::histogram!("scheduler_pod_scheduling_sli_duration_seconds", "attempts" => label)
        .record(waited.as_secs_f64());
}

fn hinted(cost: &HintCost) {
    let hint = match cost.hint {
        Hint::Queue => "Queue",
        Hint::Skip => "QueueSkip",
    };
    ::metrics::histogram!(
        "scheduler_queueing_hint_execution_duration_seconds",
        "event" => cost.event, "hint" => hint, "plugin" => cost.rejector.name()
    )
    .record(cost.took.as_secs_f64());
}

/// Writes what is held into the gauges.
pub(super) fn reporter(profiles: Vec<Arc<str>>) -> Reporter {
    let mut rejected = BTreeMap::new();
    let mut events = BTreeSet::new();
    Box::new(move |levels| {
        report_pods(levels.queue);
        report_rejected(&profiles, &mut rejected, levels.queue.rejected());
        report_in_flight(&mut events, levels.queue);
        report_cache(levels);
        ::metrics::gauge!("scheduler_goroutines", "operation" => "binding").set(number(levels.bindings));
    })
}

fn report_cache(levels: &Levels<'_>) {
    for (kind, count) in
        [("assumed_pods", levels.assumed_pods), ("nodes", levels.nodes), ("pods", levels.pods)]
    {
        for name in ["scheduler_cache_size", "scheduler_scheduler_cache_size"] {
            ::metrics::gauge!(name, "type" => kind).set(number(count));
        }
    }
}

/// Writes the numbers of events that are kept, and 0 where there were some before.
fn report_in_flight(before: &mut BTreeSet<&'static str>, queue: &Queue) {
    let now = queue.in_flight();
    before.extend(now.keys().copied());
    for event in before.iter() {
        let count = now.get(event).copied().unwrap_or_default();
        ::metrics::gauge!("scheduler_inflight_events", "event" => *event).set(number(count));
    }
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
    before: &mut BTreeMap<(usize, Rejector), usize>,
    now: BTreeMap<(usize, Rejector), usize>,
) {
    let gone = before.keys().filter(|key| !now.contains_key(*key)).map(|key| (*key, 0));
    for ((profile, rejector), count) in gone.chain(now.iter().map(|(key, count)| (*key, *count))) {
        let profile = profiles[profile].to_string();
        ::metrics::gauge!("scheduler_unschedulable_pods", "plugin" => rejector.name(), "profile" => profile)
            .set(number(count));
    }
    *before = now;
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
