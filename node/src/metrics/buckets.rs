//! The buckets of histograms, in the units of their names: those of the reference.

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};

use super::catalog::{CATALOG, Kind};

/// Admission, by plugins and as a whole.
pub(super) const ADMISSION: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5];

/// Calls of webhooks: up to the 30 s that one may have.
pub(super) const HOOKS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];

/// Evaluations of match conditions.
pub(super) const CONDITIONS: &[f64] = &[0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25];

/// Waits and executions under flow control.
pub(super) const FLOW: &[f64] = &[0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0];

/// Seats of a request.
pub(super) const SEATS: &[f64] = &[1.0, 2.0, 4.0, 10.0];

/// Watchers that a write reaches.
pub(super) const WATCHERS: &[f64] = &[0.0, 1.0, 10.0, 100.0, 1000.0, 10000.0];

/// Remaining lives of client certificates: half an hour to a year of twelve months of thirty days.
pub(super) const LIVES: &[f64] = &[
    0.0,
    1800.0,
    3600.0,
    7200.0,
    21_600.0,
    43_200.0,
    86_400.0,
    172_800.0,
    345_600.0,
    604_800.0,
    2_592_000.0,
    7_776_000.0,
    15_552_000.0,
    31_104_000.0,
];

/// Compiling and evaluating expressions.
pub(super) const EXPRESSIONS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];

/// Evaluations of a policy.
pub(super) const POLICIES: &[f64] = &[0.000_000_5, 0.001, 0.01, 0.1, 1.0];

/// Answers of other servers, up to a minute.
pub(super) const ANSWERS: &[f64] =
    &[0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0];

/// Everything else: durations from half a millisecond to eight seconds.
pub(super) const DEFAULT: &[f64] = &[
    0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192,
];

/// The buckets of a histogram whose text the API writes itself stand there.
pub(super) const ELSEWHERE: &[f64] = &[];

/// Requests in a queue of flow control.
pub(super) const QUEUES: &[f64] = &[0.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0];

/// `builder` with the buckets of every histogram. Without buckets the exporter would write quantiles.
pub(super) fn set(builder: PrometheusBuilder) -> PrometheusBuilder {
    let builder = builder.set_buckets(DEFAULT).expect("the list is not empty");
    let histograms =
        CATALOG.iter().filter(|metric| metric.kind == Kind::Histogram && !metric.buckets.is_empty());
    histograms.fold(builder, |builder, metric| {
        let matcher = Matcher::Full(metric.name.to_owned());
        builder.set_buckets_for_metric(matcher, metric.buckets).expect("no list is empty")
    })
}
